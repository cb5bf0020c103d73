//! Cases that need sockets of their own, or more than one figure of an arm.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use backlog_lab::arm::Catalog;
use backlog_lab::netns::Namespace;
use backlog_lab::observation::ServerSide;
use backlog_lab::probe::counters;
use backlog_lab::probe::diag::Diag;
use libtest_mimic::Trial;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::facts::measure;
use crate::test;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test(
            "cases/k28-dead-clients-keep-their-place",
            dead_clients_keep_their_place,
        ),
        test("cases/k33-shares-of-reuseport", shares_of_reuseport),
        test("cases/k36-a-full-unix-listener", a_full_unix_listener),
    ]
}

fn in_a_namespace(body: fn()) {
    let namespace = Namespace::create("test").expect("a namespace");
    namespace.run(body).expect("the body does not panic");
}

fn overflows() -> i128 {
    let counters = counters::snapshot(Path::new("/proc/thread-self/net")).counters;
    counters["TcpExt.ListenOverflows"].expect("a value")
}

/// Clients that have left stay queued until `accept()` returns them, and the server works for nobody.
fn dead_clients_keep_their_place() {
    in_a_namespace(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        SockRef::from(&listener).listen(3).expect("listen");
        let address = listener.local_addr().expect("an address");
        for _ in 0..4 {
            let mut client = TcpStream::connect(address).expect("connect");
            client.write_all(b"hi").expect("send");
        }
        let mut diag = Diag::open().expect("sock_diag");
        let look = diag.look(address).expect("an answer").expect("a listener");
        assert_eq!((look.recv_q, look.send_q), (4, 3));
        let queued = diag.connections(address.port()).expect("an answer");
        assert_eq!(
            queued
                .iter()
                .filter(|one| one.state == ServerSide::Established)
                .count(),
            4
        );
        let fifth = TcpStream::connect_timeout(&address, Duration::from_millis(500));
        assert!(fifth.is_err(), "the fifth client finds no place");
        assert_eq!(overflows(), 1);
        for _ in 0..4 {
            let (mut connection, _) = listener.accept().expect("accept");
            let mut heard = Vec::new();
            connection
                .read_to_end(&mut heard)
                .expect("data, then the end");
            assert_eq!(heard, b"hi");
            // The first answer meets a client that has gone, and is reset; the next one is told.
            connection
                .write_all(b"OK\n")
                .expect("the first answer is taken");
            assert!(connection.write_all(b"OK\n").is_err(), "a wasted accept");
        }
    });
}

fn shares_of_reuseport() {
    let catalog = Catalog::new(Path::new("/nonexistent"));
    let arms = catalog
        .load(&["cases/k33-reuseport-is-even".to_owned()], &[])
        .expect("a shipped arm");
    let result = measure(arms.into_iter().next().expect("one arm"));
    let accepted: Vec<u32> = result.trials[0]
        .listeners
        .iter()
        .filter_map(|one| one.accepted)
        .collect();
    assert_eq!(accepted.iter().sum::<u32>(), 2_000);
    assert!(
        accepted.iter().all(|share| (375..=625).contains(share)),
        "{accepted:?}"
    );
}

/// A full `AF_UNIX` listener refuses at once with EAGAIN, and no TCP counter knows of it.
fn a_full_unix_listener() {
    in_a_namespace(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let address = SockAddr::unix(folder.path().join("socket")).expect("an address");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        listener.bind(&address).expect("bind");
        listener.listen(5).expect("listen");
        let begun = Instant::now();
        let clients: Vec<(Socket, Option<i32>)> = (0..30)
            .map(|_| {
                let client =
                    Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).expect("a socket");
                let errno = client
                    .connect(&address)
                    .err()
                    .and_then(|error| error.raw_os_error());
                (client, errno)
            })
            .collect();
        let connected = clients.iter().filter(|(_, errno)| errno.is_none()).count();
        let refused = clients
            .iter()
            .filter(|(_, errno)| *errno == Some(libc::EAGAIN))
            .count();
        assert_eq!((connected, refused), (6, 24));
        let patient = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        patient
            .set_write_timeout(Some(Duration::from_millis(300)))
            .expect("a timeout");
        let error = patient.connect(&address).expect_err("the queue stays full");
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        assert!(begun.elapsed() >= Duration::from_millis(300));
        assert_eq!(overflows(), 0);
    });
}
