//! Anonymous network namespaces: each is owned by a thread and vanishes with it, also after SIGKILL.

mod kept;
mod link;
mod program;
mod refusal;
mod sysctl;
mod thread;
mod topology;
mod user;

pub use kept::Kept;
pub use program::{Control, Ended, Launch, Output, Program, exit_in_words};
pub use refusal::Refusal;
pub use sysctl::{SysctlError, apply as apply_sysctls, in_force, read_file as read_sysctl_file};
pub use thread::Namespace;
pub use topology::{Between, Topology};
pub use user::{KernelSteps, Steps, enter, enter_that_of};

/// A namespace that could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The kernel refuses namespaces to this process.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A namespace of others could not be joined.
    #[error("cannot enter the network namespace {}: {source}; run as root to look into it", path.display())]
    Join {
        /// The link to it.
        path: std::path::PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A foreign program could not be started.
    #[error("cannot start {name}: {source}")]
    Program {
        /// Its name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// A link, address or neighbour could not be set up.
    #[error("cannot {operation}: {reason}")]
    Link {
        /// What was attempted, on what.
        operation: String,
        /// Why it failed.
        reason: String,
    },
    /// The kernel lacks what a link needs.
    #[error("this kernel cannot {operation}: {reason}")]
    Unsupported {
        /// What was attempted, on what.
        operation: String,
        /// Why it failed.
        reason: String,
    },
    /// A sysctl does not have the value that the experiment needs.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// The owning thread could not be started or has ended.
    #[error("the thread that owns the {role} namespace {problem}")]
    Thread {
        /// Whose namespace.
        role: &'static str,
        /// What happened to it.
        problem: String,
    },
}
