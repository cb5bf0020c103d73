//! Why a command could not be carried out, and the exit code for it.

use std::io;
use std::process::ExitCode;

use nix::errno::Errno;

use crate::arm::ArmError;
use crate::audit::LookError;
use crate::hold::HoldError;
use crate::netns::{NetnsError, Refusal};
use crate::report::charts::ChartError;
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
    /// Listeners that could not be looked at.
    #[error(transparent)]
    Look(#[from] LookError),
    /// A namespace that could not be made ready.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
    /// Options that do not go together.
    #[error("{0}")]
    Usage(String),
    /// A program that was started and did not do what it was started for.
    #[error("{0}")]
    Program(String),
    /// A port that could not be held.
    #[error(transparent)]
    Hold(#[from] HoldError),
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
    /// A chart that could not be drawn.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// Standard output failed.
    #[error("cannot print: {0}")]
    Print(io::Error),
}

impl Error {
    /// 2 usage or arm file, 3 the machine does not allow it, 4 the rest.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Arm(_)
            | Self::Usage(_)
            | Self::Here(_)
            | Self::DifferentSetup(_)
            | Self::Look(LookError::NoProcess(_))
            | Self::Store(StoreError::NotFree { .. } | StoreError::NoRun { .. }) => 2,
            Self::Refused(_)
            | Self::Trial(TrialError::Refused(_) | TrialError::Skipped(_))
            | Self::Look(LookError::Hidden { .. }) => 3,
            Self::Namespace(error) | Self::Look(LookError::Namespace(error)) => match error {
                NetnsError::Program { .. } => 2,
                NetnsError::Link { .. } | NetnsError::Thread { .. } => 4,
                _ => 3,
            },
            Self::Trial(TrialError::Failed { .. } | TrialError::Interrupted)
            | Self::Look(_)
            | Self::Program(_)
            | Self::Hold(_)
            | Self::Store(_)
            | Self::Seed(_)
            | Self::Signals(_)
            | Self::Chart(_)
            | Self::Print(_) => 4,
        })
    }
}
