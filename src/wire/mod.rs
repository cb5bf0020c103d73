//! The emulated link: every packet between client and server passes a relay of the lab's own.
//!
//! ```text
//! [ server: server0 ]==[ relay: to-server0 | relay | to-client0 ]==[ client0 :client ]
//! ```
//!
//! The relay holds packets up, loses, repeats and keeps them, each as `model` decides from the trial's seed.
//! It needs no privilege beyond its own namespace, and no module that a kernel may lack.

mod capture;
mod cpus;
mod model;
mod relay;
mod segment;

use std::io;

pub use cpus::Cpus;
pub use relay::{Relay, Running};

/// A wire that could not be set up, or broke.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A system call failed.
    #[error("wire: cannot {operation}: {source}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The relay's thread failed.
    #[error("the relay's thread failed: {0}")]
    Thread(String),
}

impl WireError {
    fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }
}
