//! Questions to `sock_diag` that failed.

use std::io;

/// A question to `sock_diag` that got no answer, or a wrong one. Never "no socket": that is an answer.
#[derive(Debug, thiserror::Error)]
pub enum DiagError {
    /// The netlink socket failed.
    #[error("sock_diag: cannot {operation}: {source}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The kernel answered with an error.
    #[error("sock_diag: the kernel refuses to tell about {about}: {source}")]
    Refused {
        /// What was asked about.
        about: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The answer is cut off, or no answer to the question.
    #[error("sock_diag: {problem} in the answer about {about}")]
    Malformed {
        /// What was asked about.
        about: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The socket tables changed during a dump, every time it was tried.
    #[error("sock_diag: the dump of {about} was interrupted {DUMP_TRIES} times in a row")]
    Interrupted {
        /// What was asked about.
        about: String,
    },
}

impl DiagError {
    /// Whether there is no `sock_diag` for TCP here: then, and only then, may another source stand in.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Io { operation, .. } => *operation == OPEN,
            Self::Refused { source, .. } => [libc::ENOENT, libc::EPERM, libc::EACCES]
                .iter()
                .any(|errno| source.raw_os_error() == Some(*errno)),
            Self::Malformed { .. } | Self::Interrupted { .. } => false,
        }
    }
}

/// What is attempted first.
pub(super) const OPEN: &str = "open a netlink socket";

/// How often an interrupted dump is begun again.
pub(super) const DUMP_TRIES: u32 = 5;
