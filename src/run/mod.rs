//! From a plan to stored observations. The kernel is behind [`Lab`]; what comes back is stored at once.

mod attend;
mod clients;
mod execute;
mod kernel;
mod program;
mod sampler;
mod seek;
mod serving;
mod store;

use std::io;
use std::sync::Arc;

pub use execute::{execute, observe};
pub use kernel::KernelLab;
pub use seek::{Found, Sought, seek};
pub use store::{RunFolder, StoreError, find_run, write_atomically};

use crate::load::Progress;
use crate::netns::Refusal;
use crate::observation::{Measured, Observation};
use crate::plan::Trial;

/// The seam between the lab's policy and the kernel.
pub trait Lab {
    /// Whether trials are possible at all.
    ///
    /// # Errors
    /// The kernel's refusal; nothing has been changed.
    fn ready(&self) -> Result<(), TrialError>;

    /// Runs one trial to its end.
    ///
    /// # Errors
    /// Why there is no whole measurement; what was read until then comes with it.
    fn observe(&self, trial: Trial<'_>, progress: &Arc<Progress>) -> Result<Measured, TrialError>;
}

/// A trial without a whole measurement.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The machine allows no trials.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The machine does not allow this arm.
    #[error("{0}")]
    Skipped(String),
    /// The trial was ended before its time.
    #[error("interrupted")]
    Interrupted,
    /// The trial broke off.
    #[error("{reason}")]
    Failed {
        /// Why.
        reason: String,
        /// What was read until then.
        measured: Option<Box<Measured>>,
    },
}

impl TrialError {
    fn failed(reason: impl std::fmt::Display) -> Self {
        Self::Failed {
            reason: reason.to_string(),
            measured: None,
        }
    }
}

/// What whoever watches a run is told.
pub enum Event<'a> {
    /// A trial begins; its live counts are in `progress`.
    Begins {
        /// The trial.
        trial: Trial<'a>,
        /// Live counts.
        progress: &'a Arc<Progress>,
    },
    /// A trial has ended and its observation is stored.
    Ended(&'a Observation),
}

/// A seed for a run that was not given one.
///
/// # Errors
/// The kernel's random numbers cannot be read.
pub fn random_seed() -> io::Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 4];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from(u32::from_ne_bytes(bytes)))
}
