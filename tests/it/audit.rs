//! What an audit prints, of windows that are written down here.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use backlog_lab::audit::{
    self, Audit, DROPS, OVERFLOWS, PlaceWindow, Readings, Scope, Seen, Settings, Watched, Window,
};
use backlog_lab::manifest::Host;
use backlog_lab::probe::owners::{Owner, Owners};
use backlog_lab::report;

/// A listener over fifty looks of a second, with drops from before the window.
fn watched(port: u16, waiting: u32, limit: Option<u32>, drops: (u32, u32)) -> Watched {
    let known = |value| limit.map(|_| value);
    Watched {
        last: Seen {
            address: ([127, 0, 0, 1], port).into(),
            socket: port.into(),
            inode: port.into(),
            waiting,
            limit,
            drops: known(drops.1),
        },
        waiting_first: waiting,
        waiting_max: waiting,
        looks: 50,
        full_looks: if limit.is_some_and(|limit| waiting > limit) {
            50
        } else {
            0
        },
        drops_before: known(drops.0),
    }
}

fn audited(listeners: Vec<Watched>) -> Audit {
    let readings = |overflows| Readings {
        counters: [(OVERFLOWS, overflows), (DROPS, overflows)]
            .map(|(name, value)| (name.to_owned(), Some(value)))
            .into(),
        settings: Settings {
            somaxconn: Some(4_096),
            tcp_syncookies: Some(1),
            tcp_abort_on_overflow: Some(0),
            tcp_max_syn_backlog: Some(2_048),
        },
        problems: Vec::new(),
    };
    let owner = Owner {
        pid: 4_711,
        name: Some("a \"server\"".into()),
        files_used: 146,
        files_allowed: Some(20_000),
    };
    let of = listeners
        .iter()
        .map(|one| (one.last.inode, vec![owner.clone()]));
    let owners = Owners {
        of: of.collect(),
        hidden: 0,
    };
    let window = Window {
        length: Some(Duration::from_secs(1)),
        places: vec![PlaceWindow {
            id: Some(4_026_531_840),
            before: Some(readings(500)),
            after: readings(731),
            listeners,
            ..PlaceWindow::default()
        }],
        ..Window::default()
    };
    let host = Host {
        kernel: Some("6.18.44".into()),
        architecture: Some("x86_64".into()),
        cpus: Some(2),
    };
    audit::report(&window, &owners, host, &Scope::default())
}

fn printed(audit: &Audit, width: Option<usize>) -> Vec<String> {
    report::audit(audit, None, width)
        .into_iter()
        .map(|line| line.text)
        .collect()
}

#[test]
fn without_a_terminal_every_column_is_there() {
    let lines = printed(
        &audited(vec![watched(8_080, 129, Some(128), (33, 264))]),
        None,
    );
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    let row = "127.0.0.1:8080 a \"server\" 4711 129/128 129 100% 129 231 264 4096 146/20000 FULL";
    assert_eq!(words.join(" "), row, "{lines:#?}");
}

/// What a narrow table leaves out stands below it for whoever is in trouble, and nothing is wider than the terminal.
#[test]
fn a_narrow_terminal_shows_every_figure_of_a_full_listener() {
    let audit = audited(vec![watched(8_080, 129, Some(128), (33, 264))]);
    for width in [80, 100, 120, 160] {
        let lines = printed(&audit, Some(width));
        assert!(
            lines.iter().all(|line| line.chars().count() <= width),
            "{lines:#?}"
        );
        let text = lines.join("\n");
        for figure in [
            "129 of 128 waiting for accept, full; 231 drops in 1.0 s",
            "room for 129, drops since it was opened: 264, open files: 146/20000",
            "overflows 231/s (731), listen drops 231/s (731)",
        ] {
            assert!(text.contains(figure), "{figure} is not in\n{text}");
        }
    }
}

#[test]
fn who_set_a_limit_is_said_of_healthy_listeners_too() {
    let text = printed(
        &audited(vec![
            watched(8_080, 0, Some(4_096), (0, 0)),
            watched(8_081, 0, Some(4_096), (0, 0)),
        ]),
        None,
    )
    .join("\n");
    assert!(
        text.contains("127.0.0.1:8080 a \"server\" 4711, 127.0.0.1:8081 a \"server\" 4711\n  limit: equal to somaxconn (4096)"),
        "{text}"
    );
}

#[test]
fn a_depth_without_a_limit_is_said() {
    let audit = audited(vec![watched(8_080, 129, None, (0, 0))]);
    let lines = printed(&audit, Some(80));
    assert!(
        lines.contains(&"  129 waiting, limit unknown".to_owned()),
        "{lines:#?}"
    );
}

/// The exposition format: each metric's samples stand together below its HELP and TYPE, and no two are alike.
#[test]
fn the_metrics_are_in_the_exposition_format() {
    let twice = watched(8_080, 0, Some(5), (0, 0));
    let text = report::prometheus(&audited(vec![
        twice.clone(),
        Watched {
            last: Seen {
                socket: 2,
                ..twice.last.clone()
            },
            ..twice
        },
        watched(8_081, 3, None, (0, 0)),
    ]));
    assert!(text.ends_with('\n'));
    let (mut metric, mut seen) = (String::new(), std::collections::BTreeSet::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["#", kind, name, ..] = words[..] {
            assert_eq!(kind == "HELP", metric != name, "{line}");
            assert!(
                kind != "HELP" || seen.insert(name.to_owned()),
                "{name} comes twice"
            );
            name.clone_into(&mut metric);
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        assert_eq!(name, metric);
        assert!(value.parse::<u64>().is_ok(), "{line}");
        assert!(labels.ends_with("\"}"), "{line}");
        assert!(seen.insert(series.to_owned()), "{series} comes twice");
    }
    let labels = |port, member| {
        format!(
            "netns=\"4026531840\",address=\"127.0.0.1\",port=\"{port}\",member=\"{member}\",process=\"a \\\"server\\\"\""
        )
    };
    for sample in [
        format!("backlog_listener_depth{{{}}} 3", labels(8_081, 0)),
        format!("backlog_listener_limit{{{}}} 5", labels(8_080, 1)),
        "backlog_overflows_total{netns=\"4026531840\"} 731".into(),
        "backlog_drops_total{netns=\"4026531840\"} 731".into(),
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
    }
    let unknown = format!("backlog_listener_limit{{{}}}", labels(8_081, 0));
    assert!(!text.contains(&unknown), "unknown is left out\n{text}");
}

#[test]
fn a_watch_ends_with_its_reader() {
    let mut watch = Command::new(env!("CARGO_BIN_EXE_backlog-lab"))
        .args(["audit", "--watch", "--interval", "10ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = watch.stdout.take().unwrap();
    BufReader::new(output)
        .read_line(&mut String::new())
        .unwrap();
    let begun = Instant::now();
    let ended = loop {
        if let Some(status) = watch.try_wait().unwrap() {
            break Some(status.code());
        }
        if begun.elapsed() > Duration::from_secs(20) {
            watch.kill().unwrap();
            watch.wait().unwrap();
            break None;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    };
    assert_eq!(ended, Some(Some(0)));
}
