//! A reproducible lab for the TCP listen backlog on Linux.

pub mod arm;
pub mod figure;
pub mod manifest;
mod nearest;
pub mod observation;
pub mod probe;
mod sys;
pub mod netns;
pub mod load;
pub mod plan;
pub mod run;
pub mod result;
pub mod cli;
pub mod cmd;
pub mod error;
pub mod report;
