//! Counter files of several kernels, whole and damaged.

use std::path::{Path, PathBuf};

use backlog_lab::probe::counters::{Parsed, parse, read_file, snapshot};
use backlog_lab::probe::drops::parse_softnet;
use proptest::prelude::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn netstat(name: &str) -> Parsed {
    let path = fixture("counters").join(name);
    parse(&std::fs::read_to_string(path).expect("a fixture"))
}

fn value(parsed: &Parsed, name: &str) -> Option<i128> {
    parsed.counters.get(name).copied().flatten()
}

/// The same names stand at position 23, 19 and 20 in these kernels: only the name tells.
#[test]
fn counters_are_found_by_name_in_every_kernel() {
    for (file, req_q_full_drop) in [
        ("ns01_k6_18.txt", Some(444_444)),
        ("ns02_k5_like.txt", Some(444_444)),
        ("ns03_k3_like.txt", None),
        ("ns08_values_before_listen_huge.txt", Some(444_444)),
        ("ns09_negative.txt", Some(444_444)),
        ("ns12_crlf_tabs.txt", Some(444_444)),
    ] {
        let parsed = netstat(file);
        assert_eq!(
            value(&parsed, "TcpExt.ListenOverflows"),
            Some(424_242),
            "{file}"
        );
        assert_eq!(
            value(&parsed, "TcpExt.ListenDrops"),
            Some(434_343),
            "{file}"
        );
        assert_eq!(
            value(&parsed, "TcpExt.TCPReqQFullDrop"),
            req_q_full_drop,
            "{file}"
        );
        assert_eq!(parsed.problems, [""; 0], "{file}");
    }
}

/// An old kernel prints names that a new one has dropped: they are kept.
#[test]
fn unknown_names_are_kept() {
    let parsed = netstat("ns03_k3_like.txt");
    assert!(parsed.counters.contains_key("TcpExt.TCPPrequeued"));
    assert!(!parsed.counters.contains_key("TcpExt.TCPReqQFullDrop"));
}

#[test]
fn the_largest_counter_is_a_number() {
    let parsed = netstat("ns08_values_before_listen_huge.txt");
    assert!(
        parsed
            .counters
            .values()
            .flatten()
            .any(|value| *value == i128::from(u64::MAX))
    );
}

#[test]
fn a_header_without_values_is_no_row_of_zeros() {
    for (file, words) in [
        ("ns04_header_only.txt", "no line of values"),
        ("ns13_empty.txt", "no TcpExt section"),
        ("ns14_snmp_file_by_mistake.txt", "no TcpExt section"),
    ] {
        let path = fixture("counters").join(file);
        let error = read_file(&path, "TcpExt").unwrap_err().to_string();
        assert!(error.contains(words), "{file}: {error}");
        assert!(error.contains(file), "the file is named: {error}");
    }
}

#[test]
fn a_mismatch_is_reported_and_invents_nothing() {
    let short = netstat("ns05_short_values.txt");
    assert_eq!(value(&short, "TcpExt.ListenOverflows"), Some(424_242));
    assert!(
        short.problems[0].contains("names and"),
        "{:?}",
        short.problems
    );
    assert_eq!(
        short
            .counters
            .values()
            .filter(|value| value.is_none())
            .count(),
        3
    );

    let extra = netstat("ns06_extra_values.txt");
    assert!(
        extra.problems[0].contains("names and"),
        "{:?}",
        extra.problems
    );

    let token = netstat("ns10_not_a_number.txt");
    assert_eq!(token.problems.len(), 1, "{:?}", token.problems);
    assert!(
        token.problems[0].contains("is not a number"),
        "{:?}",
        token.problems
    );
    assert_eq!(
        token
            .counters
            .values()
            .filter(|value| value.is_none())
            .count(),
        1
    );
}

#[test]
fn a_negative_setting_is_a_number() {
    let parsed = netstat("ns14_snmp_file_by_mistake.txt");
    assert_eq!(value(&parsed, "Tcp.MaxConn"), Some(-1));
}

#[test]
fn an_unreadable_file_names_itself_and_leaves_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("snmp"), "Tcp: ActiveOpens\nTcp: 7\n").expect("a file");
    let read = snapshot(folder.path());
    assert_eq!(value(&read, "Tcp.ActiveOpens"), Some(7));
    assert_eq!(value(&read, "TcpExt.ListenOverflows"), None);
    assert_eq!(read.problems.len(), 1);
    assert!(read.problems[0].contains("netstat"), "{:?}", read.problems);
}

/// 9 to 15 columns: dropped is the second, squeezed the third.
#[test]
fn softnet_rows_of_every_width() {
    let text = std::fs::read_to_string(fixture("softnet19_mixed.txt")).expect("a fixture");
    let rows = parse_softnet(&text).expect("five rows");
    assert_eq!(rows.len(), 5);
    for (n, row) in (0_u64..).zip(&rows) {
        let first = n * 1_000;
        assert_eq!(
            (row.processed, row.dropped, row.squeezed),
            (first, first + 1, first + 2)
        );
    }
    let crlf = text.replace('\n', "\r\n");
    assert_eq!(parse_softnet(&crlf).expect("five rows"), rows);
}

proptest! {
    /// Whatever the text, no panic, and no number that is not in it.
    #[test]
    fn any_text_is_survived(text in "(Tcp|TcpExt|IpExt)?:?( [A-Za-z0-9-]{0,20}){0,8}\n((Tcp|TcpExt)?:?( -?[0-9]{0,25}){0,8}\n){0,3}") {
        for value in parse(&text).counters.values().flatten() {
            prop_assert!(text.split_whitespace().any(|token| token.parse() == Ok(*value)));
        }
    }
}
