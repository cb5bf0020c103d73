//! Where listeners are looked at, and one look at them. Reads; changes nothing and connects to nobody.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::netns::{Namespace, NetnsError, in_force};
use crate::observation::Counters;
use crate::probe::diag::{Diag, DiagError};
use crate::probe::{ProbeError, counters, tcp_table};

/// A look that failed. Never "no listeners": that is an answer.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// A process's namespace is hidden.
    #[error(
        "cannot tell the network namespace of process {pid}: {source}; run as root to look into it"
    )]
    Hidden {
        /// The process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// The processes cannot be listed.
    #[error("cannot list the processes in /proc: {0}")]
    Processes(io::Error),
    /// The namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
    /// The dump of the listeners failed.
    #[error(transparent)]
    Diag(#[from] DiagError),
    /// A file could not be read.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// A listening socket at one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where it listens.
    pub address: std::net::SocketAddr,
    /// What tells it apart from every other socket: its cookie, or its inode where there is no `sock_diag`.
    pub socket: u64,
    /// Its inode.
    pub inode: u32,
    /// Connections that wait for accept.
    pub waiting: u32,
    /// The limit in force; `None` without `sock_diag`.
    pub limit: Option<u32>,
    /// The socket's own drop counter; `None` where the kernel does not tell.
    pub drops: Option<u32>,
}

/// The settings of a namespace that decide what a full queue does. `None` where they cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Settings {
    /// `net.core.somaxconn`
    pub somaxconn: Option<u64>,
    /// `net.ipv4.tcp_syncookies`
    pub tcp_syncookies: Option<u64>,
    /// `net.ipv4.tcp_abort_on_overflow`
    pub tcp_abort_on_overflow: Option<u64>,
    /// `net.ipv4.tcp_max_syn_backlog`
    pub tcp_max_syn_backlog: Option<u64>,
}

impl Settings {
    /// Those of the calling thread's namespace: `/proc/sys/net` follows the thread.
    fn read() -> Self {
        let number = |name| {
            in_force(name)
                .ok()
                .flatten()
                .and_then(|text| text.parse().ok())
        };
        Self {
            somaxconn: number("net.core.somaxconn"),
            tcp_syncookies: number("net.ipv4.tcp_syncookies"),
            tcp_abort_on_overflow: number("net.ipv4.tcp_abort_on_overflow"),
            tcp_max_syn_backlog: number("net.ipv4.tcp_max_syn_backlog"),
        }
    }
}

/// The counters and settings of a namespace at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readings {
    /// Every counter of `netstat` and `snmp`.
    pub counters: Counters,
    /// The settings.
    pub settings: Settings,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Readings {
    fn of(net: &Path, settings: Settings) -> Self {
        let snapshot = counters::snapshot(net);
        Self {
            counters: snapshot.counters,
            settings,
            problems: snapshot.problems,
        }
    }
}

/// How a namespace's files and sockets are reached.
enum Via {
    /// It is the caller's own.
    Here,
    /// Through a thread inside it.
    Inside(Namespace),
    /// Through another process's `/proc/PID/net`: what is left without the right to enter.
    Files(PathBuf),
}

/// A namespace to look at.
pub struct Place {
    /// The inode of the namespace, as `readlink /proc/PID/ns/net` shows it; `None` where it is hidden.
    pub id: Option<u64>,
    /// The process that it was found by; `None` for the caller's own.
    pub found_by: Option<u32>,
    /// Why less can be seen of it than of others.
    pub note: Option<String>,
    via: Via,
    diag: Option<Diag>,
}

impl Place {
    /// The calling thread's own namespace.
    ///
    /// # Errors
    /// `sock_diag` is there and fails.
    pub fn here() -> Result<Self, LookError> {
        Self::new(id("thread-self").ok(), None, Via::Here, Diag::open())
    }

    /// A namespace that a thread of this process owns.
    ///
    /// # Errors
    /// The thread has ended, or `sock_diag` is there and fails.
    pub fn inside(namespace: Namespace) -> Result<Self, LookError> {
        let id = namespace.run(|| id("thread-self").ok())?;
        let diag = namespace.run(Diag::open)?;
        Self::new(id, None, Via::Inside(namespace), diag)
    }

    /// The namespace of a process. Without the right to enter it, its files tell what they can.
    ///
    /// # Errors
    /// There is no such process, or its namespace can be neither entered nor read.
    pub fn of(pid: u32) -> Result<Self, LookError> {
        if fs::metadata(format!("/proc/{pid}")).is_err() {
            return Err(LookError::NoProcess(pid));
        }
        let its = id(&pid.to_string());
        if let (Ok(its), Ok(own)) = (&its, id("thread-self"))
            && *its == own
        {
            return Self::here();
        }
        let link = format!("/proc/{pid}/ns/net");
        match Namespace::join("audit", Path::new(&link)) {
            Ok(namespace) => {
                let diag = namespace.run(Diag::open)?;
                Self::new(its.ok(), Some(pid), Via::Inside(namespace), diag)
            }
            Err(NetnsError::Join { source, .. }) => {
                let net = PathBuf::from(format!("/proc/{pid}/net"));
                tcp_table::listeners(&net).map_err(|_| LookError::Hidden {
                    pid,
                    source: io::Error::new(source.kind(), source.to_string()),
                })?;
                let note = format!(
                    "the namespace of process {pid} cannot be entered ({source}): read from /proc/{pid}/net, limits and settings unknown; run as root to see them"
                );
                Ok(Self {
                    id: its.ok(),
                    found_by: Some(pid),
                    ..Self::files(net, note)
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A namespace of which only the files below `net` (as `/proc/PID/net`) can be read; `note` says why.
    pub fn files(net: PathBuf, note: String) -> Self {
        Self {
            id: None,
            found_by: None,
            note: Some(note),
            via: Via::Files(net),
            diag: None,
        }
    }

    /// Every namespace that a process or thread is in, the caller's own first, and how many processes hide theirs.
    ///
    /// # Errors
    /// The processes cannot be listed, or the caller's own namespace cannot be looked at.
    pub fn all() -> Result<(Vec<Self>, u32), LookError> {
        let mut places = vec![Self::here()?];
        let mut known: HashSet<u64> = places.iter().filter_map(|place| place.id).collect();
        let mut hidden = 0;
        let processes = fs::read_dir("/proc").map_err(LookError::Processes)?;
        let mut pids: Vec<u32> = processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        pids.sort_unstable();
        for pid in pids {
            // Threads can be elsewhere than their process.
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
                continue;
            };
            for thread in
                threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            {
                match id(&thread.to_string()) {
                    Ok(id) if known.insert(id) => match Self::of(thread) {
                        Ok(place) => places.push(place),
                        // It has ended meanwhile; another thread may still be there.
                        Err(LookError::NoProcess(_)) => drop(known.remove(&id)),
                        Err(LookError::Hidden { .. }) => hidden += 1,
                        Err(error) => return Err(error),
                    },
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        hidden += 1;
                        break;
                    }
                    // It is known, or has ended meanwhile.
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok((places, hidden))
    }

    fn new(
        id: Option<u64>,
        found_by: Option<u32>,
        via: Via,
        diag: Result<Diag, DiagError>,
    ) -> Result<Self, LookError> {
        let mut place = Self {
            id,
            found_by,
            note: None,
            via,
            diag: None,
        };
        match diag {
            Ok(diag) => place.diag = Some(diag),
            Err(error) => place.without_diag(error)?,
        }
        Ok(place)
    }

    /// Goes on without `sock_diag` where there is none; any other error of it stays one.
    fn without_diag(&mut self, error: DiagError) -> Result<(), DiagError> {
        if !error.is_unavailable() {
            return Err(error);
        }
        self.note = Some(format!(
            "{error}: read from /proc/net/tcp instead, limits and drops unknown"
        ));
        self.diag = None;
        Ok(())
    }

    /// Every listening socket, one row for each.
    ///
    /// # Errors
    /// The listeners could not be read whole.
    pub fn listeners(&mut self) -> Result<Vec<Seen>, LookError> {
        if let Some(diag) = &mut self.diag {
            match diag.listeners() {
                Ok(rows) => {
                    return Ok(rows
                        .into_iter()
                        .map(|row| Seen {
                            address: row.address,
                            socket: row.cookie,
                            inode: row.inode,
                            waiting: row.look.recv_q,
                            limit: Some(row.look.send_q),
                            drops: row.look.drops,
                        })
                        .collect());
                }
                Err(error) => self.without_diag(error)?,
            }
        }
        let rows = self.with_files(tcp_table::listeners)??;
        Ok(rows
            .into_iter()
            .map(|row| Seen {
                address: row.address,
                socket: u64::from(row.inode),
                inode: row.inode,
                waiting: row.waiting,
                limit: None,
                drops: None,
            })
            .collect())
    }

    /// Counters and settings.
    ///
    /// # Errors
    /// The thread inside the namespace has ended.
    pub fn readings(&self) -> Result<Readings, NetnsError> {
        let known = !matches!(self.via, Via::Files(_));
        self.with_files(move |net| {
            let settings = if known {
                Settings::read()
            } else {
                Settings::default()
            };
            Readings::of(net, settings)
        })
    }

    fn with_files<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> Result<T, NetnsError> {
        const OWN: &str = "/proc/thread-self/net";
        match &self.via {
            Via::Here => Ok(job(Path::new(OWN))),
            Via::Inside(namespace) => namespace.run(|| job(Path::new(OWN))),
            Via::Files(net) => Ok(job(net)),
        }
    }
}

/// The inode in `net:[4026531840]`.
fn id(process: &str) -> io::Result<u64> {
    let link = fs::read_link(format!("/proc/{process}/ns/net"))?;
    let text = link.to_string_lossy();
    text.strip_prefix("net:[")
        .and_then(|rest| rest.strip_suffix(']'))
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| io::Error::other(format!("\"{text}\" is no network namespace")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diag_error(operation: &'static str) -> DiagError {
        DiagError::Io {
            operation,
            source: io::Error::from_raw_os_error(libc::EPROTONOSUPPORT),
        }
    }

    #[test]
    fn without_sock_diag_the_table_is_read_and_limits_are_unknown() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = diag_error("open a netlink socket");
        let mut place = Place::new(None, None, Via::Here, Err(error)).unwrap();
        let seen = place
            .listeners()
            .unwrap()
            .into_iter()
            .find(|seen| seen.address == address)
            .unwrap();
        assert_eq!((seen.waiting, seen.limit, seen.drops), (0, None, None));
        assert!(place.note.unwrap().contains("limits and drops unknown"));
    }

    #[test]
    fn a_dump_that_fails_on_its_way_is_an_error_and_never_the_table() {
        for error in [
            diag_error("receive the answer"),
            DiagError::Interrupted {
                about: "the listening sockets".into(),
            },
            DiagError::Malformed {
                about: "the listening sockets".into(),
                problem: "a message that is cut off".into(),
            },
        ] {
            assert!(Place::new(None, None, Via::Here, Err(error)).is_err());
        }
    }

    #[test]
    fn a_process_that_does_not_exist_is_said() {
        assert!(matches!(Place::of(u32::MAX), Err(LookError::NoProcess(_))));
    }
}
