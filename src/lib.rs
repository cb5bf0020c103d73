//! A reproducible lab for the TCP listen backlog on Linux.
//!
//! Five plain stages, each a value that can be stored:
//!
//! ```text
//! arms/*.toml --load--> Arm --expand--> Plan [Trial..]                 arm, plan
//! Trial --Lab--> Observation                                           run (over netns, load, probe)
//! Observation --derive--> TrialResult --fold--> ArmResult + Verdict    result
//! ArmResult   --render--> table, Markdown, CSV, JSON                   report
//! ```
//!
//! Only the second stage touches the kernel. It creates anonymous network namespaces ([`netns`]), starts a
//! slow-accept server and floods it ([`load`]), samples the listening socket and reads the kernel's counters
//! ([`probe`]), and stores what it read ([`observation`]) before anything is made of it. Everything after it is
//! pure: the same stored files give the same bytes.
//!
//! docs/architecture.md says where things are and why; docs/format.md describes the files.

pub mod arm;
pub mod cli;
pub mod cmd;
pub mod doctor;
pub mod error;
pub mod figure;
pub mod load;
pub mod manifest;
mod nearest;
pub mod netns;
pub mod observation;
pub mod plan;
pub mod probe;
pub mod report;
pub mod result;
pub mod run;
mod sys;
