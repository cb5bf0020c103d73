//! Readings of the kernel: counters, the listening socket, per-CPU and per-interface drops, the host.
//!
//! Each parser takes text or bytes and opens nothing; the readers beside them open the files. Readings of a
//! namespace are taken from `/proc/thread-self/net`: `/proc/net` is the main thread's namespace (proc(5)).

pub mod counters;
pub mod diag;
mod diag_error;
pub mod drops;
pub mod host;
pub mod owners;
pub mod tcp_table;

use std::path::PathBuf;

/// A reading that failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A file of the proc filesystem could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file was read and does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Reads a whole file of the proc filesystem. Such files have a size of 0: only reading to the end tells.
pub(crate) fn read(path: &std::path::Path) -> Result<String, ProbeError> {
    std::fs::read_to_string(path).map_err(|source| ProbeError::Unreadable {
        path: path.to_owned(),
        source,
    })
}
