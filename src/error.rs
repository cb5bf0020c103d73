//! Why a command could not be carried out, and the exit code for it.

use std::io;
use std::process::ExitCode;

use nix::errno::Errno;

use crate::arm::ArmError;
use crate::netns::Refusal;
use crate::run::{StoreError, TrialError};

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An arm that does not exist or is not well-formed.
    #[error(transparent)]
    Arm(#[from] ArmError),
    /// The machine allows no namespaces.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The machine allows no trials.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A run folder that cannot be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An arm that runs in no namespace, without leave.
    #[error(
        "arm {0} has link.kind = \"here\": it runs in no namespace of its own, but in that of this machine; allow that with --here"
    )]
    Here(String),
    /// Two runs that are not comparable.
    #[error(
        "the setups of the two runs differ:\n  {}\nwhat differs between them may be due to that; compare them all the same with --allow-different-setup",
        .0.join("\n  ")
    )]
    DifferentSetup(Vec<String>),
    /// No random seed.
    #[error("cannot read random numbers for a seed: {0}; give one with --seed")]
    Seed(io::Error),
    /// Signals cannot be waited for.
    #[error("cannot prepare for signals: {0}")]
    Signals(Errno),
    /// Standard output failed.
    #[error("cannot print: {0}")]
    Print(io::Error),
}

impl Error {
    /// 2 usage or arm file, 3 the machine does not allow it, 4 the rest.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Arm(_)
            | Self::Here(_)
            | Self::DifferentSetup(_)
            | Self::Store(StoreError::NotFree { .. } | StoreError::NoRun { .. }) => 2,
            Self::Refused(_) | Self::Trial(TrialError::Refused(_) | TrialError::Skipped(_)) => 3,
            Self::Trial(TrialError::Failed { .. } | TrialError::Interrupted)
            | Self::Store(_)
            | Self::Seed(_)
            | Self::Signals(_)
            | Self::Print(_) => 4,
        })
    }
}
