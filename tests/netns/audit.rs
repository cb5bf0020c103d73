//! The audit against listeners whose state is known exactly.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use backlog_lab::audit::{self, Audit, Finding, ListenerReport, OVERFLOWS, Place, Scope};
use backlog_lab::netns::Namespace;
use backlog_lab::probe::diag::Diag;
use backlog_lab::probe::{counters, host::read_host, owners};
use libtest_mimic::{Failed, Trial};
use socket2::{Domain, Socket, Type};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let inside: [(&str, Test); 10] = [
        (
            "a-full-queue-is-said-with-its-limit-and-from-proc-without",
            full_from_both_sources,
        ),
        (
            "only-limits-below-somaxconn-are-flagged",
            clamped_by_program,
        ),
        ("each-address-has-a-row-of-its-own", a_row_per_address),
        ("reuseport-members-are-not-summed", reuseport_members),
        ("a-limit-beyond-16-bits-is-read-whole", beyond_sixteen_bits),
        ("old-overflows-are-not-blamed-on-now", old_overflows),
        ("a-burst-that-no-look-saw-is-said", bursts),
        ("a-tiny-limit-is-suspicious", tiny),
        (
            "accept-that-has-stopped-is-told-from-a-short-queue",
            stopped,
        ),
        (
            "nothing-is-changed-and-nobody-is-connected-to",
            changes_nothing,
        ),
    ];
    let outside: [(&str, Test); 2] = [
        ("another-namespace-shows-its-own-figures", another_namespace),
        ("all-namespaces-with-a-listener-are-found", all_namespaces),
    ];
    let inside = inside.map(|(name, test)| {
        Trial::test(format!("audit/{name}"), move || {
            Namespace::create("audit-test")?.run(test)?
        })
    });
    let outside = outside.map(|(name, test)| Trial::test(format!("audit/{name}"), test));
    inside.into_iter().chain(outside).collect()
}

pub(crate) const WINDOW: Duration = Duration::from_millis(200);

pub(crate) fn audited(place: Place, length: Duration) -> Result<Audit, Failed> {
    let scope = Scope::default();
    let window = audit::measure(&mut [place], length)?;
    let owners = owners::find(&window.inodes(&scope))?;
    Ok(audit::report(&window, &owners, read_host(), &scope))
}

fn audited_here() -> Result<Audit, Failed> {
    audited(Place::here()?, WINDOW)
}

fn listen(address: &str, backlog: i32) -> Result<(Socket, SocketAddr), Failed> {
    let address: SocketAddr = address.parse()?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    let address = socket.local_addr()?.as_socket().ok_or("no address")?;
    Ok((socket, address))
}

/// Begins connections, one after another, without waiting for those that meet a full queue.
pub(crate) fn knock(address: SocketAddr, times: usize) -> Result<Vec<Socket>, Failed> {
    (0..times)
        .map(|_| {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            match socket.connect(&address.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error.into()),
                _ => Ok(socket),
            }
        })
        .collect()
}

pub(crate) fn row(audit: &Audit, address: SocketAddr) -> &ListenerReport {
    let is_it = |one: &&ListenerReport| (one.address, one.port) == (address.ip(), address.port());
    audit
        .listeners
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("no row for {address}"))
}

fn set_somaxconn(value: u32) -> std::io::Result<()> {
    std::fs::write("/proc/sys/net/core/somaxconn", value.to_string())
}

fn full_from_both_sources() -> Result<(), Failed> {
    let (_listener, address) = listen("127.0.0.1:0", 128)?;
    let _clients = knock(address, 160)?;
    let audit = audited_here()?;
    let one = row(&audit, address);
    assert!(
        one.says.starts_with("129 of 128 waiting for accept, full"),
        "{}",
        one.says
    );
    assert_eq!(
        (one.verdict, one.depth, one.limit, one.capacity),
        (Finding::Full, 129, Some(128), Some(129))
    );
    assert_eq!(one.pid, Some(std::process::id()));

    let files = Place::files(
        PathBuf::from("/proc/thread-self/net"),
        "as without sock_diag".into(),
    );
    let audit = audited(files, WINDOW)?;
    let one = row(&audit, address);
    assert_eq!(one.says, "129 waiting, limit unknown");
    assert_eq!(
        (one.verdict, one.limit, one.drops, one.somaxconn),
        (Finding::LimitUnknown, None, None, None)
    );
    Ok(())
}

fn clamped_by_program() -> Result<(), Failed> {
    set_somaxconn(32_428)?;
    let large = [
        listen("127.0.0.1:0", 32_428)?,
        listen("127.0.0.1:0", 32_428)?,
    ];
    let small = [
        listen("127.0.0.1:0", 128)?,
        listen("127.0.0.1:0", 128)?,
        listen("127.0.0.1:0", 128)?,
    ];
    let _clients = knock(small[0].1, 140)?;
    let audit = audited_here()?;
    for (_, address) in &large {
        let one = row(&audit, *address);
        assert_eq!(one.findings, [Finding::Healthy, Finding::EqualToSomaxconn]);
        assert_eq!(one.advice.advice, None);
    }
    for (_, address) in &small {
        let one = row(&audit, *address);
        assert!(
            one.findings.contains(&Finding::ClampedByProgram),
            "{:?}",
            one.findings
        );
        let says = one.limit_says.as_deref().unwrap_or_default();
        assert!(
            says.contains(
                "asked for 128 (or a former, smaller somaxconn was in force at listen time)"
            ),
            "{says}"
        );
        let no_help = one.advice.does_not_help.join("; ");
        assert!(
            no_help.contains("raising somaxconn (32428): it does not clamp this listener"),
            "{no_help}"
        );
    }
    let full: Vec<_> = audit
        .listeners
        .iter()
        .filter(|one| one.verdict == Finding::Full)
        .collect();
    let [one] = full.as_slice() else {
        panic!("{} are full", full.len())
    };
    assert_eq!(
        (one.port, one.pid),
        (small[0].1.port(), Some(std::process::id()))
    );
    Ok(())
}

fn a_row_per_address() -> Result<(), Failed> {
    let first = TcpListener::bind("127.0.0.1:0")?;
    let port = first.local_addr()?.port();
    let listeners = [
        first,
        TcpListener::bind(("127.0.0.2", port))?,
        TcpListener::bind(("::1", port))?,
    ];
    let mut clients = Vec::new();
    for (n, listener) in listeners.iter().enumerate() {
        clients.extend(knock(listener.local_addr()?, n * 10)?);
    }
    let audit = audited_here()?;
    assert_eq!(audit.listeners.len(), 3);
    for (n, listener) in listeners.iter().enumerate() {
        let one = row(&audit, listener.local_addr()?);
        // Whatever the runtime asked for, what counts is what the kernel says of the socket.
        let kernel = Diag::open()?
            .look(listener.local_addr()?)?
            .ok_or("it does not listen")?;
        assert_eq!(
            (one.limit, one.depth),
            (Some(kernel.send_q), u32::try_from(n * 10)?)
        );
    }
    Ok(())
}

fn reuseport_members() -> Result<(), Failed> {
    let member = |address: SocketAddr, backlog| -> Result<(Socket, SocketAddr), Failed> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        socket.listen(backlog)?;
        Ok((
            socket.try_clone()?,
            socket.local_addr()?.as_socket().ok_or("no address")?,
        ))
    };
    let (_one, address) = member("127.0.0.1:0".parse()?, 20)?;
    let (_two, _) = member(address, 100)?;
    let _clients = knock(address, 30)?;
    let audit = audited_here()?;
    let mut limits: Vec<_> = audit.listeners.iter().filter_map(|one| one.limit).collect();
    limits.sort_unstable();
    assert_eq!(limits, [20, 100]);
    assert!(audit.listeners.iter().map(|one| one.depth).sum::<u32>() <= 30);
    Ok(())
}

fn beyond_sixteen_bits() -> Result<(), Failed> {
    set_somaxconn(262_144)?;
    let (_listener, address) = listen("127.0.0.1:0", 262_144)?;
    let audit = audited_here()?;
    assert_eq!(row(&audit, address).limit, Some(262_144));
    Ok(())
}

fn old_overflows() -> Result<(), Failed> {
    let (old, address) = listen("127.0.0.1:0", 0)?;
    drop(knock(address, 501)?);
    drop(old);
    let (listener, address) = listen("127.0.0.1:0", 128)?;
    let fresh = knock(address, 100)?;
    for _ in &fresh {
        listener.accept()?;
    }
    let audit = audited_here()?;
    let overflows = audit.namespaces[0].counters[OVERFLOWS];
    assert_eq!(
        (overflows.window, overflows.since_boot),
        (Some(0), Some(500))
    );
    let one = row(&audit, address);
    assert_eq!(
        (one.drops, one.findings.contains(&Finding::Healthy)),
        (Some(0), true)
    );
    assert!(one.says.contains("no drops in"), "{}", one.says);

    let audit = audited(Place::here()?, Duration::ZERO)?;
    let one = row(&audit, address);
    assert_eq!(audit.namespaces[0].counters[OVERFLOWS].window, None);
    assert!(
        !one.findings.contains(&Finding::Healthy),
        "{:?}",
        one.findings
    );
    assert!(
        one.says.contains("age unknown") && one.says.contains("--interval"),
        "{}",
        one.says
    );
    Ok(())
}

fn bursts() -> Result<(), Failed> {
    let (listener, address) = listen("127.0.0.1:0", 2)?;
    let begun = Instant::now();
    let place = Place::here()?;
    let storm = || -> Result<u32, Failed> {
        let mut dropped = 0;
        while begun.elapsed() < WINDOW {
            // Three fit; they are accepted at once, so that a look hardly ever meets them.
            let clients = knock(address, 13)?;
            for _ in 0..3 {
                listener.accept()?;
            }
            dropped += u32::try_from(clients.len() - 3)?;
            std::thread::park_timeout(Duration::from_millis(13));
        }
        Ok(dropped)
    };
    let (audit, dropped) = std::thread::scope(|scope| -> Result<_, Failed> {
        let storm = scope.spawn(storm);
        let audit = audited(place, WINDOW * 2)?;
        Ok((audit, storm.join().map_err(|_| "the storm panicked")??))
    })?;
    let one = row(&audit, address);
    let drops = one.drops.ok_or("drops are unknown")?;
    assert!(drops > 0 && drops <= dropped, "{drops} of {dropped}");
    assert!(
        one.findings.contains(&Finding::Dropping),
        "{:?}",
        one.findings
    );
    if one.depth_max < 2 {
        assert!(
            one.says.contains(&format!(
                "never seen full (deepest {}), but {drops} drops",
                one.depth_max
            )),
            "{}",
            one.says
        );
    }
    Ok(())
}

fn tiny() -> Result<(), Failed> {
    let (_listener, address) = listen("127.0.0.1:0", 1)?;
    let audit = audited_here()?;
    assert_eq!(row(&audit, address).verdict, Finding::SuspiciouslySmall);
    Ok(())
}

fn stopped() -> Result<(), Failed> {
    let (_listener, address) = listen("127.0.0.1:0", 20)?;
    let _clients = knock(address, 30)?;
    let audit = audited_here()?;
    let one = row(&audit, address);
    let advice = one.advice.advice.as_deref().unwrap_or_default();
    assert!(
        advice.contains("to accept again: it accepted nothing in this window"),
        "{advice}"
    );
    assert!(
        one.advice.does_not_help[0].contains("a bigger queue"),
        "{:?}",
        one.advice.does_not_help
    );
    Ok(())
}

/// Every readable sysctl of the network.
fn sysctls(folder: &str, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sysctls(&path.to_string_lossy(), found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            found.push((path, text));
        }
    }
}

fn changes_nothing() -> Result<(), Failed> {
    let (_listener, address) = listen("127.0.0.1:0", 0)?;
    let _clients = knock(address, 1)?;
    let state = || {
        let mut found = Vec::new();
        for folder in ["/proc/sys/net/core", "/proc/sys/net/ipv4"] {
            sysctls(folder, &mut found);
        }
        found.sort();
        (
            found,
            counters::snapshot(std::path::Path::new("/proc/thread-self/net")).counters,
        )
    };
    let before = state();
    let audit = audited_here()?;
    assert_eq!(row(&audit, address).verdict, Finding::Full);
    let after = state();
    assert!(
        before.0.len() > 50 && before.0 == after.0,
        "a sysctl has changed"
    );
    assert_eq!(before.1["Tcp.ActiveOpens"], after.1["Tcp.ActiveOpens"]);
    assert_eq!(before.1["Tcp.InSegs"], after.1["Tcp.InSegs"]);
    Ok(())
}

fn another_namespace() -> Result<(), Failed> {
    let namespace = Namespace::create("other")?;
    let (tid, address, _kept) = namespace.run(|| -> Result<_, Failed> {
        set_somaxconn(777)?;
        let (listener, address) = listen("127.0.0.1:0", i32::MAX)?;
        let (tiny, full) = listen("127.0.0.1:0", 0)?;
        let clients = knock(full, 8)?;
        Ok((
            nix::unistd::gettid().as_raw(),
            address,
            (listener, tiny, clients),
        ))
    })??;
    let audit = audited(Place::of(u32::try_from(tid)?)?, WINDOW)?;
    assert_eq!(audit.listeners.len(), 2);
    let one = row(&audit, address);
    assert_eq!((one.limit, one.somaxconn), (Some(777), Some(777)));
    assert!(
        one.findings.contains(&Finding::EqualToSomaxconn),
        "{:?}",
        one.findings
    );
    // Clients that go on knocking can add to it.
    assert!(audit.namespaces[0].counters[OVERFLOWS].since_boot >= Some(7));
    Ok(())
}

fn all_namespaces() -> Result<(), Failed> {
    let make = || -> Result<_, Failed> {
        let namespace = Namespace::create("other")?;
        let (listener, address) = namespace.run(|| listen("127.0.0.1:0", 9))??;
        let tid = namespace.run(|| nix::unistd::gettid().as_raw())?;
        let link = std::fs::read_link(format!("/proc/{tid}/ns/net"))?;
        Ok((
            link.to_string_lossy().into_owned(),
            address,
            namespace,
            listener,
        ))
    };
    let made = [make()?, make()?];
    let (mut places, _) = Place::all()?;
    let window = audit::measure(&mut places, Duration::ZERO)?;
    let owners = owners::find(&window.inodes(&Scope::default()))?;
    let audit = audit::report(&window, &owners, read_host(), &Scope::default());
    for (link, address, ..) in &made {
        let is_it = |one: &&ListenerReport| {
            one.namespace.map(|id| format!("net:[{id}]")).as_ref() == Some(link)
                && one.port == address.port()
        };
        assert_eq!(audit.listeners.iter().filter(is_it).count(), 1, "{link}");
    }
    Ok(())
}
