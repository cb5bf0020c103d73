//! The attempts on the real kernel. Each takes place in a namespace of its own, which is gone afterwards.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::RwLock;
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Need, Surface, Trouble};
use crate::arm::{Family, LinkKind, LinkSpec, SysctlValue};
use crate::netns::{Namespace, Refusal, Topology, apply_sysctls};
use crate::probe::diag::Diag;
use crate::probe::{counters, drops};

/// The real kernel, and how the way in went.
#[derive(Debug)]
pub struct KernelSurface {
    /// Whether this process could create namespaces before anything was done.
    pub was_privileged: bool,
    /// Whether it can now.
    pub entered: Result<(), Refusal>,
}

/// The calling thread's view of its namespace.
const NET: &str = "/proc/thread-self/net";

impl Surface for KernelSurface {
    fn attempt(&self, need: &Need) -> Result<String, Trouble> {
        match need {
            Need::UserNamespace => {
                self.entered.clone()?;
                Ok(if self.was_privileged {
                    "not needed: this process has CAP_SYS_ADMIN".into()
                } else {
                    "entered, with this user mapped to itself".into()
                })
            }
            Need::NetworkNamespace => inside(|| Ok("with its loopback interface up".into())),
            Need::Ipv6 => inside(|| {
                TcpListener::bind((Ipv6Addr::LOCALHOST, 0))
                    .map(|_| "bound ::1".into())
                    .map_err(|error| {
                        Trouble::io("bind ::1", &error)
                            .way_out("boot without ipv6.disable=1, or leave out the arms with link.family = \"ipv6\"")
                    })
            }),
            Need::Veth => veth(),
            Need::Counters => inside(counters_move),
            Need::SockDiag => inside(sock_diag),
            Need::Sysctl(name, values) => sysctl(name, values),
            Need::Threads(wanted) => threads(*wanted),
            Need::OpenFiles(wanted) => open_files(*wanted),
            Need::PacketCapture => inside(packet_capture),
            Need::Conntrack => inside(|| conntrack(Path::new(CONNTRACK))),
            Need::NamedNamespaces => named_namespaces(Path::new(NAMED)),
        }
    }
}

/// Tries something in a fresh network namespace.
fn inside(
    attempt: impl FnOnce() -> Result<String, Trouble> + Send + 'static,
) -> Result<String, Trouble> {
    Namespace::create("doctor")?.run(attempt)?
}

fn step(name: &'static str) -> impl Fn(io::Error) -> Trouble {
    move |error| Trouble::io(name, &error)
}

fn veth() -> Result<String, Trouble> {
    let spec = LinkSpec {
        kind: LinkKind::Veth,
        family: Family::Ipv4,
    };
    Topology::build(&spec, &BTreeMap::new())?;
    Ok("a datagram went there and back".into())
}

/// Reads both counter files around a connection: a sandbox may emulate them with numbers that never move.
fn counters_move() -> Result<String, Trouble> {
    let net = Path::new(NET);
    let extended = counters::read_file(&net.join("netstat"), "TcpExt")?.counters;
    if !extended.contains_key("TcpExt.ListenOverflows") {
        return Err(Trouble::seen(format!(
            "{NET}/netstat has no TcpExt.ListenOverflows"
        )));
    }
    let opens = || -> Result<Option<i128>, Trouble> {
        let plain = counters::read_file(&net.join("snmp"), "Tcp")?.counters;
        Ok(plain.get("Tcp.ActiveOpens").copied().flatten())
    };
    let before = opens()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step("bind 127.0.0.1"))?;
    let address = listener.local_addr().map_err(step("read the port"))?;
    TcpStream::connect(address).map_err(step("connect on loopback"))?;
    if before.is_none() || opens()? <= before {
        return Err(Trouble::seen(
            "a connection does not move Tcp.ActiveOpens: a sandboxed kernel emulates the files",
        )
        .way_out("run on the machine's own kernel, outside of gVisor and the like"));
    }
    drops::rx_dropped(net)?;
    drops::softnet_dropped(net)?;
    Ok(format!("{} in netstat, and they move", extended.len()))
}

fn sock_diag() -> Result<String, Trouble> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step("bind 127.0.0.1"))?;
    SockRef::from(&listener).listen(2).map_err(step("listen"))?;
    let address = listener.local_addr().map_err(step("read the port"))?;
    let look = Diag::open()?.look(address)?;
    let look = look.ok_or_else(|| Trouble::seen("the listener was not found"))?;
    match (look.send_q, look.drops) {
        (2, Some(_)) => Ok("shows a listener's queue, limit and drops".into()),
        (2, None) => Err(
            Trouble::seen("it tells no drops of a listener (INET_DIAG_SKMEMINFO)").way_out(
                "use Linux 4.7 or newer: without it the lab runs, and listener-drops is unknown",
            ),
        ),
        (limit, _) => Err(Trouble::seen(format!(
            "it shows the limit {limit} for listen(2)"
        ))),
    }
}

/// Gives it each wanted value, each in a namespace of its own.
fn sysctl(name: &str, values: &[SysctlValue]) -> Result<String, Trouble> {
    for value in values {
        let wanted = BTreeMap::from([(name.to_owned(), value.clone())]);
        inside(move || Ok(apply_sysctls(&wanted).map(|_| String::new())?))?;
    }
    let values: Vec<&str> = values.iter().map(SysctlValue::as_str).collect();
    Ok(format!("took {}", values.join(", ")))
}

/// Starts as many as wanted and lets none go before all are there.
fn threads(wanted: u32) -> Result<String, Trouble> {
    const STACK: usize = 128 * 1024;
    let gate = RwLock::new(());
    thread::scope(|scope| {
        let closed = gate.write();
        let result = (1..=wanted).try_for_each(|number| {
            let body = || drop(gate.read());
            let started = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, body);
            started.map(drop).map_err(|error| {
                Trouble::io(&format!("start thread {number} of {wanted}"), &error)
                    .way_out("raise the limit (ulimit -u, or the container's limit of processes)")
                    .way_out("ask for fewer client.workers")
            })
        });
        drop(closed);
        result.map(|()| "started".into())
    })
}

fn open_files(wanted: u64) -> Result<String, Trouble> {
    let mut files = Vec::new();
    for number in 1..=wanted {
        files.push(File::open("/dev/null").map_err(|error| {
            Trouble::io(&format!("open file {number} of {wanted}"), &error)
                .way_out("raise the limit (ulimit -n, LimitNOFILE=)")
                .way_out("ask for fewer client.connections")
        })?);
    }
    Ok("opened".into())
}

/// Sends a datagram over the loopback interface and waits for it on a packet socket.
fn packet_capture() -> Result<String, Trouble> {
    const MARK: &[u8] = b"backlog-lab looks for this";
    const PATIENCE: Duration = Duration::from_secs(1);
    const MOST_OTHERS: usize = 100;
    let every = u16::try_from(libc::ETH_P_ALL).unwrap_or(3).to_be();
    let mut tap = Socket::new(
        Domain::PACKET,
        Type::RAW,
        Some(Protocol::from(i32::from(every))),
    )
    .map_err(|error| {
        Trouble::io("open a packet socket", &error)
            .way_out("in a container: give it CAP_NET_RAW (docker run --cap-add NET_RAW)")
    })?;
    tap.set_read_timeout(Some(PATIENCE))
        .map_err(step("limit the wait of the packet socket"))?;
    let sender =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step("bind a datagram socket"))?;
    let address = sender.local_addr().map_err(step("read the port"))?;
    sender
        .send_to(MARK, address)
        .map_err(step("send a datagram"))?;
    let mut frame = [0; 2048];
    for _ in 0..MOST_OTHERS {
        let length = tap
            .read(&mut frame)
            .map_err(step("read from the packet socket"))?;
        if frame[..length].windows(MARK.len()).any(|part| part == MARK) {
            return Ok("saw a datagram on the loopback interface".into());
        }
    }
    Err(Trouble::seen("the datagram was not seen"))
}

const CONNTRACK: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// Opens the limit for writing and writes nothing: where that is possible, it would be the whole machine's.
fn conntrack(path: &Path) -> Result<String, Trouble> {
    match OpenOptions::new().write(true).open(path) {
        Ok(_) => Ok("could be written from a namespace; the lab does not".into()),
        Err(error) => {
            let way = match error.kind() {
                io::ErrorKind::NotFound => {
                    "the module is not loaded (modprobe nf_conntrack), and the limit needs the initial namespace"
                }
                _ => "the limit needs the initial namespace: set it on the host",
            };
            Err(Trouble::io(&format!("open {} for writing", path.display()), &error).way_out(way))
        }
    }
}

const NAMED: &str = "/run/netns";

/// Names that are no namespaces (left when a bind mount was made elsewhere) are listed and left alone.
fn named_namespaces(folder: &Path) -> Result<String, Trouble> {
    const OURS: &str = "not used: the lab's namespaces have no names";
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OURS.into()),
        Err(error) => return Err(Trouble::io(&format!("list {}", folder.display()), &error)),
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(step("read the mounts"))?;
    let is_namespace = |path: &Path| {
        let path = path.display().to_string();
        mounts
            .lines()
            .any(|line| line.split(' ').nth(4) == Some(path.as_str()) && line.contains(" - nsfs "))
    };
    let mut dead: Vec<String> = entries
        .flatten()
        .filter(|entry| !is_namespace(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    dead.sort();
    Ok(if dead.is_empty() {
        OURS.into()
    } else {
        format!("{OURS}; not a namespace: {}", dead.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    /// K60.
    #[test]
    fn dead_names_are_listed_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["backlog-lab-1", "other"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        let text = named_namespaces(folder.path()).expect("a list");
        assert!(
            text.contains("not a namespace: backlog-lab-1, other"),
            "{text}"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
        let none = named_namespaces(&folder.path().join("none")).expect("a list");
        assert!(!none.contains("not a namespace"), "{none}");
    }

    /// K55.
    #[test]
    fn the_conntrack_limit_is_never_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("nf_conntrack_max");
        let missing = conntrack(&file).expect_err("no file");
        assert_eq!(missing.errno, Some(Errno::ENOENT));
        assert!(missing.ways_out[0].contains("initial namespace"));
        fs::write(&file, "500\n").expect("a file");
        conntrack(&file).expect("it can be opened");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "500\n");
        let directory = conntrack(folder.path()).expect_err("a folder");
        assert_eq!(directory.errno, Some(Errno::EISDIR));
    }
}
