//! What the kernel does with a listening socket, where an arm cannot say it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use backlog_lab::arm::Arm;
use backlog_lab::netns::Namespace;
use backlog_lab::observation::Look;
use backlog_lab::probe::counters;
use backlog_lab::probe::diag::Diag;
use libtest_mimic::Trial;
use socket2::{Domain, SockRef, Socket, Type};

use crate::facts::measure;
use crate::test;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test(
            "kernel/shrinking-keeps-what-is-queued",
            shrinking_keeps_what_is_queued,
        ),
        test(
            "kernel/somaxconn-is-read-at-listen",
            somaxconn_is_read_at_listen,
        ),
        test("kernel/closing-resets-the-queue", closing_resets_the_queue),
        test(
            "kernel/concurrent-clients-overshoot-by-less-than-the-processors",
            concurrent_clients_overshoot_by_less_than_the_processors,
        ),
        test(
            "kernel/an-exact-lookup-tells-no-listener",
            an_exact_lookup_tells_no_listener,
        ),
    ]
}

fn fresh() -> Namespace {
    Namespace::create("test").expect("a namespace")
}

/// A listener of the calling thread's namespace with an explicit backlog.
fn listen(backlog: i32) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
    SockRef::from(&listener).listen(backlog).expect("listen");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A client whose SYN has been sent; on loopback the handshake is done when this returns, if it can be done.
fn connect(address: SocketAddr) -> Socket {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        None,
    )
    .expect("a socket");
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS), "{error}"),
    }
    socket
}

fn look(address: SocketAddr) -> Look {
    let look = Diag::open()
        .expect("sock_diag")
        .look(address)
        .expect("an answer");
    look.expect("a listener")
}

fn counter(name: &str) -> i128 {
    let snapshot = counters::snapshot(Path::new("/proc/thread-self/net"));
    assert_eq!(snapshot.problems, [""; 0]);
    snapshot.counters[name].expect("a known value")
}

/// `__inet_listen_sk` in `net/ipv4/af_inet.c`: a second `listen()` only replaces the limit.
fn shrinking_keeps_what_is_queued() {
    let seen = fresh().run(|| {
        let (listener, address) = listen(5);
        let queued: Vec<Socket> = (0..6).map(|_| connect(address)).collect();
        SockRef::from(&listener).listen(2).expect("listen again");
        let mut seen = vec![look(address)];
        let mut late = Vec::new();
        // While more than 2 wait, a fresh SYN is dropped; the next accept() makes room for one.
        for _ in 0..4 {
            late.push(connect(address));
            seen.push(look(address));
            listener.accept().expect("a queued connection");
        }
        late.push(connect(address));
        seen.push(look(address));
        drop((queued, late));
        seen
    });
    let seen: Vec<_> = seen
        .expect("a result")
        .iter()
        .map(|look| (look.recv_q, look.send_q))
        .collect();
    assert_eq!(seen, [(6, 2), (6, 2), (5, 2), (4, 2), (3, 2), (3, 2)]);
}

/// `__sys_listen_socket` in net/socket.c compares with somaxconn at that moment only.
fn somaxconn_is_read_at_listen() {
    let limits = fresh().run(|| {
        let somaxconn =
            |value: &str| std::fs::write("/proc/sys/net/core/somaxconn", value).expect("a write");
        somaxconn("7");
        let (listener, address) = listen(100);
        let mut limits = vec![look(address).send_q];
        somaxconn("50");
        limits.push(look(address).send_q);
        SockRef::from(&listener).listen(100).expect("listen again");
        limits.push(look(address).send_q);
        limits
    });
    assert_eq!(limits.expect("a result"), [7, 7, 50]);
}

/// `inet_csk_listen_stop` in `net/ipv4/inet_connection_sock.c`: what is queued is reset, both ends count it.
fn closing_resets_the_queue() {
    for queued in [1, 3] {
        let (resets, established, seen) = fresh()
            .run(move || {
                let (listener, address) = listen(10);
                let clients: Vec<Socket> = (0..queued).map(|_| connect(address)).collect();
                let before = (counter("Tcp.OutRsts"), counter("Tcp.EstabResets"));
                drop(listener);
                let errors = clients.into_iter().map(|client| {
                    let error = client.take_error().expect("a readable option");
                    error.and_then(|error| error.raw_os_error())
                });
                (
                    counter("Tcp.OutRsts") - before.0,
                    counter("Tcp.EstabResets") - before.1,
                    errors.collect::<Vec<_>>(),
                )
            })
            .expect("a result");
        assert_eq!(
            (resets, established),
            (queued, 2 * queued),
            "{queued} queued"
        );
        assert!(
            seen.iter().all(|errno| *errno == Some(libc::ECONNRESET)),
            "{seen:?}"
        );
    }
}

/// The test for a full queue and the insertion are not one step (`tcp_v4_syn_recv_sock`).
fn concurrent_clients_overshoot_by_less_than_the_processors() {
    let cpus = std::thread::available_parallelism()
        .expect("processors")
        .get();
    for backlog in [0, 1, 5, 16] {
        let text = format!(
            "title = \"t\"\nwhy = \"w\"\n[server]\nbacklog = {backlog}\naccept = \"never\"\n\
             [client]\nconnections = 64\ntimeout = \"300ms\"\n[protocol]\nspeaks-first = \"nobody\""
        );
        let arm: Arm = toml::from_str(&text).expect("an arm");
        let trial = measure(arm).trials.remove(0);
        let peak = trial.listeners[0].recv_q_final as usize;
        let bounds = backlog + 1..=backlog + cpus;
        assert!(
            bounds.contains(&peak),
            "backlog {backlog}: {peak} is not within {bounds:?}"
        );
    }
}

/// ENOENT is an answer, and every other kind of socket is none.
fn an_exact_lookup_tells_no_listener() {
    let looks = fresh().run(|| {
        let (listener, address) = listen(1);
        let mut diag = Diag::open().expect("sock_diag");
        let there = diag.look(address).expect("an answer");
        drop(listener);
        let gone = diag.look(address).expect("an answer");
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        bound.bind(&address.into()).expect("bind");
        let only_bound = diag.look(address).expect("an answer");
        let (_listener, other) = listen(1);
        let client = TcpStream::connect(other).expect("a connection");
        let connected = diag
            .look(client.local_addr().expect("an address"))
            .expect("an answer");
        (there, [gone, only_bound, connected])
    });
    let (there, others) = looks.expect("a result");
    assert_eq!(
        there.map(|look| (look.recv_q, look.send_q, look.drops)),
        Some((0, 1, Some(0)))
    );
    assert_eq!(others, [None; 3]);
}
