//! What the kernel does with a listening socket, where an arm cannot say it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use backlog_lab::arm::{Arm, Family, LinkKind, LinkSpec};
use backlog_lab::netns::{Namespace, Topology};
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
        test(
            "kernel/a-socket-of-the-other-family-is-an-error",
            a_socket_of_the_other_family_is_an_error,
        ),
    ]
}

/// Loopback and veth, IPv4 and IPv6.
fn on_each_link(check: impl Fn(&Topology)) {
    for kind in [LinkKind::Loopback, LinkKind::Veth] {
        for family in [Family::Ipv4, Family::Ipv6] {
            let spec = LinkSpec {
                kind: kind.clone(),
                family,
            };
            check(&Topology::build(&spec, &BTreeMap::new()).expect("a topology"));
        }
    }
}

/// A listener of the server's namespace with an explicit backlog.
fn listen(topology: &Topology, backlog: i32) -> (TcpListener, SocketAddr) {
    let ip = topology.server_ip;
    let open = move || {
        let listener = TcpListener::bind((ip, 0)).expect("bind");
        SockRef::from(&listener).listen(backlog).expect("listen");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    };
    topology.server.run(open).expect("a result")
}

/// A client of the client's namespace whose SYN has been sent. On loopback and veth the handshake is done when
/// this returns, if it can be done.
fn connect(topology: &Topology, address: SocketAddr) -> Socket {
    let open = move || {
        let kind = Type::STREAM.nonblocking();
        let socket = Socket::new(Domain::for_address(address), kind, None).expect("a socket");
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS), "{error}"),
        }
        socket
    };
    topology.client().run(open).expect("a result")
}

fn look(topology: &Topology, address: SocketAddr) -> Look {
    let ask = move || {
        Diag::open()
            .expect("sock_diag")
            .look(address)
            .expect("an answer")
    };
    topology
        .server
        .run(ask)
        .expect("a result")
        .expect("a listener")
}

fn counter(namespace: &Namespace, name: &'static str) -> i128 {
    let read = move || {
        let snapshot = counters::snapshot(Path::new("/proc/thread-self/net"));
        assert_eq!(snapshot.problems, [""; 0]);
        snapshot.counters[name].expect("a known value")
    };
    namespace.run(read).expect("a result")
}

/// `__inet_listen_sk` in `net/ipv4/af_inet.c`: a second `listen()` only replaces the limit.
fn shrinking_keeps_what_is_queued() {
    on_each_link(|topology| {
        let (listener, address) = listen(topology, 5);
        let mut clients: Vec<Socket> = (0..6).map(|_| connect(topology, address)).collect();
        SockRef::from(&listener).listen(2).expect("listen again");
        let seen = |look: Look| (look.recv_q, look.send_q);
        let mut looks = vec![seen(look(topology, address))];
        // While more than 2 wait, a fresh SYN is dropped; the next accept() makes room for one.
        for _ in 0..4 {
            clients.push(connect(topology, address));
            looks.push(seen(look(topology, address)));
            listener.accept().expect("a queued connection");
        }
        clients.push(connect(topology, address));
        looks.push(seen(look(topology, address)));
        assert_eq!(looks, [(6, 2), (6, 2), (5, 2), (4, 2), (3, 2), (3, 2)]);
    });
}

/// `__sys_listen_socket` in net/socket.c compares with somaxconn at that moment only.
fn somaxconn_is_read_at_listen() {
    on_each_link(|topology| {
        let somaxconn = |value: &'static str| {
            let write = move || std::fs::write("/proc/sys/net/core/somaxconn", value);
            topology
                .server
                .run(write)
                .expect("a result")
                .expect("a write");
        };
        somaxconn("7");
        let (listener, address) = listen(topology, 100);
        let mut limits = vec![look(topology, address).send_q];
        somaxconn("50");
        limits.push(look(topology, address).send_q);
        let again = listener.try_clone().expect("a socket");
        let listen = move || SockRef::from(&again).listen(100);
        topology
            .server
            .run(listen)
            .expect("a result")
            .expect("listen again");
        limits.push(look(topology, address).send_q);
        assert_eq!(limits, [7, 7, 50]);
    });
}

/// `inet_csk_listen_stop` in `net/ipv4/inet_connection_sock.c`: what is queued is reset, and both ends count it.
fn closing_resets_the_queue() {
    on_each_link(|topology| {
        for queued in [1, 3] {
            let (listener, address) = listen(topology, 10);
            let clients: Vec<Socket> = (0..queued).map(|_| connect(topology, address)).collect();
            let both = |name| {
                let (server, client) = (&topology.server, topology.client());
                let apart = !std::ptr::eq(server, client);
                counter(server, name) + if apart { counter(client, name) } else { 0 }
            };
            let before = (
                counter(&topology.server, "Tcp.OutRsts"),
                both("Tcp.EstabResets"),
            );
            drop(listener);
            let errors: Vec<_> = clients
                .iter()
                .map(|client| {
                    let error = client.take_error().expect("a readable option");
                    error.and_then(|error| error.raw_os_error())
                })
                .collect();
            let resets = counter(&topology.server, "Tcp.OutRsts") - before.0;
            let established = both("Tcp.EstabResets") - before.1;
            assert_eq!(
                (resets, established),
                (queued, 2 * queued),
                "{queued} queued"
            );
            assert!(
                errors.iter().all(|errno| *errno == Some(libc::ECONNRESET)),
                "{errors:?}"
            );
        }
    });
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
    on_each_link(|topology| {
        let ask = |address: SocketAddr| {
            let ask = move || {
                Diag::open()
                    .expect("sock_diag")
                    .look(address)
                    .expect("an answer")
            };
            topology.server.run(ask).expect("a result")
        };
        let (listener, address) = listen(topology, 1);
        let there = ask(address).map(|look| (look.recv_q, look.send_q, look.drops));
        assert_eq!(there, Some((0, 1, Some(0))));
        drop(listener);
        assert_eq!(ask(address), None, "nobody listens any more");
        let bind = move || {
            let socket =
                Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
            socket.bind(&address.into()).expect("bind");
            socket
        };
        let bound = topology.server.run(bind).expect("a result");
        assert_eq!(
            ask(address),
            None,
            "a socket that is only bound does not listen"
        );
        drop(bound);
        let (_listener, other) = listen(topology, 1);
        let client = connect(topology, other);
        let local = client
            .local_addr()
            .expect("an address")
            .as_socket()
            .expect("an IP address");
        assert_eq!(ask(local), None, "a connected socket does not listen");
    });
}

/// An `AF_INET` lookup can return the dual-stack socket of the other family: that is an error, no answer.
fn a_socket_of_the_other_family_is_an_error() {
    let topology = Topology::build(&LinkSpec::default(), &BTreeMap::new()).expect("a topology");
    let ask = || {
        let listener = TcpListener::bind("[::]:0").expect("bind");
        let port = listener.local_addr().expect("an address").port();
        Diag::open()
            .expect("sock_diag")
            .look(SocketAddr::from(([127, 0, 0, 1], port)))
    };
    let error = topology
        .server
        .run(ask)
        .expect("a result")
        .expect_err("another family");
    assert!(error.to_string().contains("family"), "{error}");
}
