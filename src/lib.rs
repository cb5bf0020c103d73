//! A reproducible lab for the TCP listen backlog on Linux.

pub mod arm;
pub mod cli;
pub mod cmd;
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
