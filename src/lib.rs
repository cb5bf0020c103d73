//! A reproducible lab for the TCP listen backlog on Linux.
//!
//! [`hold`] alone, for the tests of another crate:
//! `backlog-lab = { version = "0.1", default-features = false, features = ["hold"] }`.

#[cfg(feature = "lab")]
pub mod arm;
#[cfg(feature = "lab")]
pub mod audit;
#[cfg(feature = "lab")]
pub mod cli;
#[cfg(feature = "lab")]
pub mod cmd;
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
pub mod report;
#[cfg(feature = "lab")]
pub mod result;
#[cfg(feature = "lab")]
pub mod run;
#[cfg(feature = "hold")]
mod sys;
