//! What stands in the way of an attempt: the step, the kernel's error, the ways out.

use std::io;

use nix::errno::Errno;

use crate::netns::{NetnsError, Refusal, SysctlError};
use crate::probe::ProbeError;
use crate::probe::diag::DiagError;

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The step and why it failed.
    pub what: String,
    /// The kernel's error, where there is one.
    pub errno: Option<Errno>,
    /// The ways out.
    pub ways_out: Vec<String>,
}

const IN_A_CONTAINER: &str =
    "in a container: give it CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --privileged)";

impl Trouble {
    /// A step that failed with an error of the system.
    pub fn io(step: &str, error: &io::Error) -> Self {
        Self {
            what: format!("{step}: {error}"),
            errno: error.raw_os_error().map(Errno::from_raw),
            ways_out: Vec::new(),
        }
    }

    /// Something that is not as it should be, though no call failed.
    pub fn seen(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            errno: None,
            ways_out: Vec::new(),
        }
    }

    /// With one more way out.
    #[must_use]
    pub fn way_out(mut self, way: impl Into<String>) -> Self {
        self.ways_out.push(way.into());
        self
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self {
            what: refusal.summary(),
            errno: Some(refusal.errno()),
            ways_out: refusal.ways_out(),
        }
    }
}

impl From<NetnsError> for Trouble {
    fn from(error: NetnsError) -> Self {
        match error {
            NetnsError::Refused(refusal) => refusal.into(),
            NetnsError::Sysctl(error) => error.into(),
            NetnsError::Unsupported { .. } => Self::seen(error.to_string())
                .way_out("load or build the kernel module for it (modprobe veth)"),
            NetnsError::Join { .. }
            | NetnsError::Program { .. }
            | NetnsError::Link { .. }
            | NetnsError::Thread { .. } => Self::seen(error.to_string()),
        }
    }
}

impl From<SysctlError> for Trouble {
    fn from(error: SysctlError) -> Self {
        let what = error.to_string();
        let with = |errno, way: &str| Self {
            what: what.clone(),
            errno,
            ways_out: vec![way.to_owned()],
        };
        match error {
            SysctlError::Missing { .. } => with(
                Some(Errno::ENOENT),
                "leave out the arms that set it, or use a kernel that has it",
            ),
            SysctlError::ReadOnly { .. } => with(
                Some(Errno::EROFS),
                "mount /proc/sys read-write (docker run --privileged); arms that want the value in force run as it is",
            ),
            SysctlError::Forbidden { errno, .. } => with(
                Some(errno),
                "it needs the initial namespace: set it on the host before the run",
            ),
            SysctlError::NotOurs { .. } => with(None, "run the arm with another link.kind"),
            SysctlError::Rejected { .. } => with(None, "give it another value with --set"),
            SysctlError::Unreadable(error) => error.into(),
        }
    }
}

impl From<ProbeError> for Trouble {
    fn from(error: ProbeError) -> Self {
        let errno = match &error {
            ProbeError::Unreadable { source, .. } => source.raw_os_error().map(Errno::from_raw),
            ProbeError::Malformed { .. } => None,
        };
        let trouble = Self {
            what: error.to_string(),
            errno,
            ways_out: Vec::new(),
        };
        match errno {
            Some(Errno::EACCES | Errno::EPERM) => trouble
                .way_out("a hardened kernel or a masked /proc hides it: run as root, or mount /proc unmasked (docker run --security-opt systempaths=unconfined)")
                .way_out("without it the lab runs, and says that its counters are unknown"),
            _ => trouble,
        }
    }
}

impl From<DiagError> for Trouble {
    fn from(error: DiagError) -> Self {
        let errno = match &error {
            DiagError::Io { source, .. } | DiagError::Refused { source, .. } => {
                source.raw_os_error().map(Errno::from_raw)
            }
            _ => None,
        };
        let trouble = Self {
            what: error.to_string(),
            errno,
            ways_out: Vec::new(),
        };
        match errno {
            Some(Errno::ENOENT | Errno::EPROTONOSUPPORT) => {
                trouble.way_out("load the kernel modules for it (modprobe tcp_diag inet_diag)")
            }
            _ => trouble.way_out(IN_A_CONTAINER),
        }
    }
}
