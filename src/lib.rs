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
//! Only the second stage touches the kernel. It creates anonymous network namespaces (`netns`), starts a
//! slow-accept server and floods it (`load`), samples the listening socket and reads the kernel's counters
//! (`probe`), and stores what it read (`observation`) before anything is made of it. Everything after it is pure:
//! the same stored files give the same bytes.
//!
//! Beside the pipeline, `audit` looks at the listeners of a host, and [`hold`] keeps a port in a promised state. The
//! latter alone serves the tests of another crate:
//! `backlog-lab = { version = "0.1", default-features = false, features = ["hold"] }`.
//!
//! docs/architecture.md says where things are and why; docs/format.md describes the files.

#[cfg(feature = "lab")]
pub mod arm;
#[cfg(feature = "lab")]
pub mod audit;
#[cfg(feature = "lab")]
pub mod cli;
#[cfg(feature = "lab")]
pub mod cmd;
#[cfg(feature = "lab")]
pub mod doctor;
#[cfg(feature = "lab")]
pub mod error;
#[cfg(feature = "lab")]
pub mod figure;
#[cfg(feature = "hold")]
pub mod hold;
#[cfg(feature = "lab")]
pub mod load;
#[cfg(feature = "lab")]
pub mod manifest;
#[cfg(feature = "lab")]
mod nearest;
#[cfg(feature = "lab")]
pub mod netns;
#[cfg(feature = "lab")]
pub mod observation;
#[cfg(feature = "lab")]
pub mod plan;
#[cfg(feature = "lab")]
pub mod probe;
#[cfg(feature = "lab")]
mod random;
#[cfg(feature = "lab")]
pub mod report;
#[cfg(feature = "lab")]
pub mod result;
#[cfg(feature = "lab")]
pub mod run;
#[cfg(feature = "lab")]
pub mod search;
#[cfg(feature = "hold")]
mod sys;
#[cfg(feature = "lab")]
pub mod wire;
