//! Sysctls of the calling thread's namespace: read, written where they differ, and read back.
//!
//! `/proc/sys/net` follows the calling thread. A fresh namespace has the kernel's defaults, not the values of
//! its parent, so whatever a result depends on is recorded from inside.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::arm::SysctlValue;
use crate::observation::Namespace;
use crate::probe::{self, ProbeError};
use crate::sys;

/// A sysctl that does not have, and cannot be given, the value that an arm needs.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// There is no such sysctl.
    #[error(
        "sysctl {name} does not exist here (ENOENT): this kernel lacks it, or shows it only in the initial namespace"
    )]
    Missing {
        /// Its dotted name.
        name: String,
    },
    /// The proc filesystem is mounted read-only.
    #[error(
        "sysctl {name} is {is} and cannot be set to {wanted}: /proc/sys is read-only (EROFS); mount it read-write, as `docker run --privileged` does"
    )]
    ReadOnly {
        /// Its dotted name.
        name: String,
        /// Its value.
        is: String,
        /// The wanted value.
        wanted: String,
    },
    /// The kernel forbids the write.
    #[error(
        "sysctl {name} is {is} and cannot be set to {wanted} inside a namespace ({errno}): only the initial namespace may change it"
    )]
    Forbidden {
        /// Its dotted name.
        name: String,
        /// Its value.
        is: String,
        /// The wanted value.
        wanted: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// It is the machine's own, and never written.
    #[error(
        "sysctl {name} is {is} here and the arm needs {wanted}: without a namespace of its own the lab writes none; run it with another link.kind, or set it on the machine"
    )]
    NotOurs {
        /// Its dotted name.
        name: String,
        /// Its value.
        is: String,
        /// The wanted value.
        wanted: String,
    },
    /// The kernel does not take the value.
    #[error("sysctl {name} does not take the value {wanted} ({reason})")]
    Rejected {
        /// Its dotted name.
        name: String,
        /// The wanted value.
        wanted: String,
        /// Why.
        reason: String,
    },
    /// It exists and cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ProbeError),
}

/// What every observation records beside the sysctls of its arm.
const RECORDED: &[&str] = &[
    SOMAXCONN,
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_migrate_req",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_rto_max_ms",
    "net.ipv4.tcp_syn_linear_timeouts",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
];

const SOMAXCONN: &str = "net.core.somaxconn";

/// Brings the calling thread's namespace to the wanted values and reads back what is in force.
///
/// # Errors
/// The first sysctl that does not have the wanted value in the end.
pub fn apply(wanted: &BTreeMap<String, SysctlValue>) -> Result<Namespace, SysctlError> {
    for (name, value) in wanted {
        set(name, value.as_str())?;
    }
    record(wanted)
}

/// Reads what is in force in the calling thread's namespace and writes nothing.
///
/// # Errors
/// The first sysctl that does not have the wanted value.
pub(super) fn found(wanted: &BTreeMap<String, SysctlValue>) -> Result<Namespace, SysctlError> {
    for (name, value) in wanted {
        let (name, wanted) = (name.to_owned(), value.as_str());
        match in_force(&name)? {
            None => return Err(SysctlError::Missing { name }),
            Some(is) if same(&is, wanted) => {}
            Some(is) => {
                let wanted = wanted.to_owned();
                return Err(SysctlError::NotOurs { name, is, wanted });
            }
        }
    }
    record(wanted)
}

fn record(wanted: &BTreeMap<String, SysctlValue>) -> Result<Namespace, SysctlError> {
    let mut namespace = Namespace::default();
    for name in RECORDED
        .iter()
        .copied()
        .chain(wanted.keys().map(String::as_str))
    {
        if let Some(value) = in_force(name)? {
            namespace.sysctls.insert(name.to_owned(), Some(value));
        } else if name == SOMAXCONN {
            let clamp = measured_somaxconn();
            let how = "hidden by this kernel; measured with listen(2147483647)";
            namespace
                .measured_sysctls
                .insert(name.to_owned(), how.to_owned());
            namespace
                .sysctls
                .insert(name.to_owned(), clamp.ok().map(|n| n.to_string()));
        } else {
            namespace.sysctls.insert(name.to_owned(), None);
        }
    }
    Ok(namespace)
}

fn set(name: &str, wanted: &str) -> Result<(), SysctlError> {
    let missing = || SysctlError::Missing {
        name: name.to_owned(),
    };
    let Some(is) = in_force(name)? else {
        // Before Linux 6.3 a namespace without root hides it, and has the default.
        let hidden =
            name == SOMAXCONN && measured_somaxconn().is_ok_and(|n| n.to_string() == wanted);
        return if hidden { Ok(()) } else { Err(missing()) };
    };
    if same(&is, wanted) {
        return Ok(());
    }
    let (name, wanted) = (name.to_owned(), wanted.to_owned());
    if let Err(error) = std::fs::write(file(&name), &wanted) {
        return Err(match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT) => missing(),
            Some(Errno::EROFS) => SysctlError::ReadOnly { name, is, wanted },
            Some(errno @ (Errno::EACCES | Errno::EPERM)) => SysctlError::Forbidden {
                name,
                is,
                wanted,
                errno,
            },
            _ => SysctlError::Rejected {
                name,
                wanted,
                reason: match error.raw_os_error() {
                    Some(errno) => Errno::from_raw(errno).to_string(),
                    None => error.to_string(),
                },
            },
        });
    }
    match in_force(&name)? {
        Some(now) if same(&now, &wanted) => Ok(()),
        now => Err(SysctlError::Rejected {
            reason: format!("it reads back as {}", now.as_deref().unwrap_or("nothing")),
            name,
            wanted,
        }),
    }
}

/// The value in force in the calling thread's namespace; `None` when there is no such sysctl.
///
/// # Errors
/// It exists and cannot be read.
pub fn in_force(name: &str) -> Result<Option<String>, ProbeError> {
    match read_file(&file(name)) {
        Ok(value) => Ok(Some(value)),
        Err(ProbeError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads a sysctl's file, to its end and whatever size it claims.
///
/// # Errors
/// It cannot be read, or it is empty.
pub fn read_file(path: &Path) -> Result<String, ProbeError> {
    let text = probe::read(path)?;
    let value = text.trim();
    if value.is_empty() {
        return Err(ProbeError::Malformed {
            path: path.to_owned(),
            problem: "the file is empty".into(),
        });
    }
    Ok(value.to_owned())
}

fn file(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// `32768<tab>60999` and `32768 60999` are the same value.
fn same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

/// The clamp that the kernel puts on the largest backlog.
fn measured_somaxconn() -> io::Result<u32> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket2::SockRef::from(&listener).listen(i32::MAX)?;
    Ok(sys::listen_queue(&listener)?.limit)
}
