//! Isolation: what happens in a namespace stays there, and a machine that allows none is told apart.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backlog_lab::arm::{Arm, LinkSpec};
use backlog_lab::netns::{Namespace, Topology};
use backlog_lab::probe::counters;
use libtest_mimic::Trial;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use socket2::{Domain, SockRef, Socket, Type};

use crate::facts::measure;
use crate::{program, test};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test(
            "namespaces/only-thread-self-tells-of-the-thread",
            only_thread_self_tells,
        ),
        test("namespaces/nothing-is-inherited", nothing_is_inherited),
        test(
            "namespaces/equal-names-do-not-collide",
            equal_names_do_not_collide,
        ),
        test("namespaces/nobody-stays-behind", nobody_stays_behind),
        test("namespaces/limits-are-named", limits_are_named),
        test("namespaces/read-only-sysctls", read_only_sysctls),
        test("namespaces/the-doctor-tries", the_doctor_tries),
    ]
}

/// Four overflows in the calling thread's namespace.
fn overflow_four_times() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
    SockRef::from(&listener).listen(0).expect("listen");
    let address = listener.local_addr().expect("an address");
    let client = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).expect("a socket");
        let _ = socket.connect(&address.into());
        socket
    };
    let clients: Vec<Socket> = (0..5).map(|_| client()).collect();
    drop(clients);
}

fn overflows(net: &str) -> Option<i128> {
    counters::snapshot(Path::new(net)).counters["TcpExt.ListenOverflows"]
}

/// `/proc/net` is a link to the main thread's view; `/proc/sys/net` follows the calling thread.
fn only_thread_self_tells() {
    let paths = ["/proc/net", "/proc/self/net", "/proc/thread-self/net"];
    let before = paths.map(overflows);
    let namespace = Namespace::create("test").expect("a namespace");
    let seen = namespace
        .run(move || {
            overflow_four_times();
            fs::write("/proc/sys/net/core/somaxconn", "64").expect("a write");
            paths.map(overflows)
        })
        .expect("a result");
    assert_eq!(seen, [before[0], before[1], Some(4)]);
    assert_eq!(somaxconn(), "4096", "the caller's namespace keeps its own");
    let inside = namespace.run(somaxconn).expect("a result");
    assert_eq!(inside, "64");
}

fn somaxconn() -> String {
    fs::read_to_string("/proc/sys/net/core/somaxconn")
        .expect("a value")
        .trim()
        .to_owned()
}

/// A fresh namespace has the kernel's defaults, whatever its parent was set to.
fn nothing_is_inherited() {
    let settings = |topology: Topology| topology.server_settings.sysctls;
    let build = || Topology::build(&LinkSpec::default(), &BTreeMap::new()).expect("a topology");
    let plain = settings(build());
    let parent = Namespace::create("parent").expect("a namespace");
    let child = parent.run(move || {
        for (name, value) in [
            ("core/somaxconn", "777"),
            ("ipv4/tcp_max_syn_backlog", "99"),
            ("ipv4/tcp_syncookies", "0"),
            ("ipv4/ip_local_port_range", "40000 40009"),
        ] {
            fs::write(format!("/proc/sys/net/{name}"), value).expect("a write");
        }
        settings(build())
    });
    let child = child.expect("a result");
    assert_eq!(child, plain);
    assert_eq!(child["net.core.somaxconn"].as_deref(), Some("4096"));
    assert_eq!(child["net.ipv4.tcp_syncookies"].as_deref(), Some("1"));
    assert_eq!(
        child["net.ipv4.ip_local_port_range"].as_deref(),
        Some("32768\t60999")
    );
}

/// Interfaces of the same names in different namespaces, five experiments at once, one of them begun where
/// interfaces of these names already exist.
fn equal_names_do_not_collide() {
    let arm = || -> Arm {
        let text = "title = \"t\"\nwhy = \"w\"\n[server]\nbacklog = 2\naccept = \"never\"\n\
                    [client]\nconnections = 7\nstart = \"one-by-one\"\ntimeout = \"200ms\"\n\
                    [protocol]\nspeaks-first = \"nobody\"\n[link]\nkind = \"veth\"";
        toml::from_str(text).expect("an arm")
    };
    let check = move || {
        let trial = measure(arm()).trials.remove(0);
        assert_eq!(trial.counters.server["TcpExt.ListenOverflows"], Some(4));
        assert!(!trial.counters.shared);
        assert_eq!(trial.counters.client["Tcp.ActiveOpens"], Some(7));
        assert_eq!(trial.counters.server["Tcp.ActiveOpens"], Some(0));
    };
    let taken = Topology::build(&arm().link, &BTreeMap::new()).expect("a topology");
    std::thread::scope(|scope| {
        let four: Vec<_> = (0..4).map(|_| scope.spawn(check)).collect();
        taken.server.run(check).expect("the fifth succeeds");
        for one in four {
            one.join().expect("each succeeds");
        }
    });
}

/// When an experiment is over, no thread of the process is left in its namespaces.
fn nobody_stays_behind() {
    let before = fs::metadata("/proc/thread-self/ns/net")
        .expect("a namespace")
        .st_ino();
    let inodes: Vec<u64> = (0..8)
        .map(|_| {
            let topology =
                Topology::build(&LinkSpec::default(), &BTreeMap::new()).expect("a topology");
            let fd = topology.server.fd().as_raw_fd();
            fs::metadata(format!("/proc/self/fd/{fd}"))
                .expect("a namespace")
                .st_ino()
        })
        .collect();
    for task in fs::read_dir("/proc/self/task").expect("tasks").flatten() {
        // A task that has ended meanwhile is in no namespace.
        if let Ok(namespace) = fs::metadata(task.path().join("ns/net")) {
            assert!(
                !inodes.contains(&namespace.st_ino()),
                "{} stayed behind",
                task.path().display()
            );
        }
    }
    let after = fs::metadata("/proc/thread-self/ns/net")
        .expect("a namespace")
        .st_ino();
    assert_eq!(before, after, "the caller never left its namespace");
}

/// The program, run in a user namespace in which it is `uid`, after `prepare` has been done there.
fn run_in_user_namespace(
    uid: u32,
    flags: CloneFlags,
    prepare: impl Fn() -> std::io::Result<()> + Send + Sync + 'static,
    arguments: &[&str],
    folder: &Path,
) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(folder);
    in_user_namespace(command, uid, flags, prepare)
}

/// A command, run in a user namespace in which it is `uid`, after `prepare` has been done there.
pub(crate) fn in_user_namespace(
    mut command: Command,
    uid: u32,
    flags: CloneFlags,
    prepare: impl Fn() -> std::io::Result<()> + Send + Sync + 'static,
) -> Output {
    let (outer_uid, outer_gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let uid_map = format!("{uid} {outer_uid} 1");
    let gid_map = format!("{uid} {outer_gid} 1");
    let before_exec = move || {
        unshare(CloneFlags::CLONE_NEWUSER | flags)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", &uid_map)?;
        fs::write("/proc/self/gid_map", &gid_map)?;
        prepare()
    };
    #[expect(
        unsafe_code,
        reason = "pre_exec has no safe form; the closure only makes system calls"
    )]
    // SAFETY: the closure only makes system calls on strings that were made before the fork; what little the
    // standard library allocates for a path, glibc's allocator allows after fork in a threaded program.
    unsafe {
        command.pre_exec(before_exec);
    }
    command.output().expect("the program starts")
}

/// K52: ENOSPC is no full disk: it is a limit on namespaces.
fn limits_are_named() {
    for (uid, sysctl) in [(0, "max_net_namespaces"), (65534, "max_user_namespaces")] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = format!("/proc/sys/user/{sysctl}");
        let limit = move || fs::write(&path, "0");
        let out = folder.path().join("run");
        let arguments = ["run", "arm-b", "--out", out.to_str().expect("a path")];
        let output =
            run_in_user_namespace(uid, CloneFlags::empty(), limit, &arguments, folder.path());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(&format!("user.{sysctl} = 0")), "{text}");
        assert!(text.contains("ENOSPC"), "{text}");
        assert!(!text.contains("disk") && !text.contains("device"), "{text}");
        assert!(!out.exists(), "no half-created run folder");
        let path = format!("/proc/sys/user/{sysctl}");
        let limit = move || fs::write(&path, "0");
        let found = run_in_user_namespace(
            uid,
            CloneFlags::empty(),
            limit,
            &["doctor", "arm-a", "--json"],
            folder.path(),
        );
        assert_eq!(found.status.code(), Some(3));
        let text = String::from_utf8_lossy(&found.stdout);
        assert!(text.contains(&format!("user.{sysctl} = 0")), "{text}");
        assert!(
            text.contains("\"ENOSPC\"") && text.contains("not-tried"),
            "{text}"
        );
        assert!(!text.contains("disk") && !text.contains("device"), "{text}");
    }
}

/// K53: with a read-only /proc/sys the arms that need no write run; the others are skipped, and the key is named.
fn read_only_sysctls() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, somaxconn) in [("as-it-is", 4096), ("other", 64)] {
        let text = format!(
            "title = \"t\"\nwhy = \"w\"\n[server]\nbacklog = 1\n[sysctl]\n\"net.core.somaxconn\" = {somaxconn}\n"
        );
        fs::write(folder.path().join(format!("{name}.toml")), text).expect("a write");
    }
    let read_only = || {
        let none: Option<&PathBuf> = None;
        let sys = Path::new("/proc/sys");
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(
            Some(sys),
            sys,
            none,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            none,
        )?;
        let flags = MsFlags::MS_REMOUNT
            | MsFlags::MS_BIND
            | MsFlags::MS_RDONLY
            | MsFlags::MS_NOSUID
            | MsFlags::MS_NODEV
            | MsFlags::MS_NOEXEC;
        Ok(mount(none, sys, none, flags, none)?)
    };
    let arguments = [
        "run",
        "other.toml",
        "as-it-is.toml",
        "--out",
        "run",
        "--json",
    ];
    let examined = run_in_user_namespace(
        0,
        CloneFlags::CLONE_NEWNS,
        read_only,
        &["doctor", "other.toml", "as-it-is.toml"],
        folder.path(),
    );
    let text = String::from_utf8_lossy(&examined.stdout);
    assert_eq!(examined.status.code(), Some(3), "{text}");
    assert!(
        text.contains("net.core.somaxconn") && text.contains("EROFS"),
        "{text}"
    );
    let output = run_in_user_namespace(
        0,
        CloneFlags::CLONE_NEWNS,
        read_only,
        &arguments,
        folder.path(),
    );
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.starts_with("this machine lacks what an arm needs: net.core.somaxconn"),
        "{told}"
    );
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    let trial = |n: usize| &results["arms"][n]["trials"][0];
    assert_eq!(trial(0)["status"], "skipped");
    let reason = trial(0)["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("net.core.somaxconn") && reason.contains("EROFS"),
        "{reason}"
    );
    assert_eq!(trial(1)["status"], "ok");
    assert_eq!(trial(1)["outcomes"]["ok"], 1);
}

/// On a machine that runs these tests everything that the shipped arms need works, and the doctor says so. K55: the
/// limit of conntrack belongs to the initial namespace.
fn the_doctor_tries() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(program())
        .args(["doctor", "--json"])
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(report["works"], true);
    let checks = report["checks"].as_array().expect("checks");
    for name in ["network namespace", "veth", "counters", "sock_diag", "ipv6"] {
        let found = checks.iter().find(|check| check["name"] == name);
        assert_eq!(found.expect(name)["verdict"], "works", "{name}");
    }
    let conntrack = checks.iter().find(|one| one["name"] == "conntrack limit");
    let ways = conntrack.expect("a row")["ways_out"].to_string();
    assert!(ways.contains("initial namespace"), "{ways}");
}
