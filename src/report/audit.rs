//! An audit as people read it: a row for each listener, the worst first, then what to do.

use std::collections::BTreeMap;

use super::table::aligned as in_columns;
use super::wrap::wrapped;
use crate::audit::{Audit, DROPS, Finding, Growth, ListenerReport, NamespaceReport, OVERFLOWS};

/// A line of text, and how much it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text.
    pub text: String,
    /// How it should stand out.
    pub emphasis: Emphasis,
}

/// How a line should stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// Like any other.
    None,
    /// A heading.
    Heading,
    /// Connections are being lost, or nearly.
    Bad,
    /// It differs from the window before.
    Changed,
}

/// A column: its heading on two lines, and its cell for a listener.
struct Column {
    heading: [&'static str; 2],
    /// Columns of a lower rank are left out first where the terminal is narrow.
    rank: u8,
    left: bool,
    cell: fn(&ListenerReport, f64) -> String,
}

/// Columns of this rank are never left out.
const ALWAYS: u8 = 9;

const COLUMNS: &[Column] = &[
    Column {
        heading: ["", "address"],
        rank: ALWAYS,
        left: true,
        cell: |one, _| address(one),
    },
    Column {
        heading: ["", "process"],
        rank: ALWAYS,
        left: true,
        cell: |one, _| process(one),
    },
    Column {
        heading: ["waiting", "/limit"],
        rank: ALWAYS,
        left: false,
        cell: |one, _| waiting(one),
    },
    Column {
        heading: ["capa-", "city"],
        rank: 2,
        left: false,
        cell: |one, _| or_dash(one.capacity),
    },
    Column {
        heading: ["", "fill"],
        rank: 4,
        left: false,
        cell: |one, _| or_dash(one.fill_percent.map(|fill| format!("{fill:.0}%"))),
    },
    Column {
        heading: ["deep-", "est"],
        rank: 1,
        left: false,
        cell: |one, _| one.depth_max.to_string(),
    },
    Column {
        heading: ["drops", "/s"],
        rank: ALWAYS,
        left: false,
        cell: |one, window_s| or_dash(one.drops.map(|drops| rate(u64::from(drops), window_s))),
    },
    Column {
        heading: ["since", "open"],
        rank: 5,
        left: false,
        cell: |one, _| or_dash(one.drops_since_open),
    },
    Column {
        heading: ["somax-", "conn"],
        rank: 6,
        left: false,
        cell: |one, _| or_dash(one.somaxconn),
    },
    Column {
        heading: ["open", "files"],
        rank: 3,
        left: false,
        cell: |one, _| files(one),
    },
    Column {
        heading: ["", "verdict"],
        rank: ALWAYS,
        left: true,
        cell: |one, _| one.verdict.word().into(),
    },
];

/// How wide texts are where no terminal has a width.
const TEXT: usize = 80;

/// The audit for a terminal of `width` columns; without one the table has every column, however wide. Listeners that
/// differ from those of `before` stand out.
pub fn audit(audit: &Audit, before: Option<&Audit>, width: Option<usize>) -> Vec<Line> {
    let mut lines = Vec::new();
    let (table_width, width) = (width.unwrap_or(usize::MAX), width.unwrap_or(TEXT));
    for namespace in &audit.namespaces {
        if audit.namespaces.len() > 1 || namespace.found_by.is_some() {
            push(&mut lines, &place(namespace), Emphasis::Heading, width);
        }
        let mut rows: Vec<&ListenerReport> = audit
            .listeners
            .iter()
            .filter(|one| one.namespace == namespace.id)
            .collect();
        rows.sort_by_key(|one| (one.verdict, one.port, one.address));
        if rows.is_empty() {
            push(&mut lines, "no TCP listener here", Emphasis::None, width);
        } else {
            table(&mut lines, &rows, audit, before, table_width);
        }
        push(&mut lines, "", Emphasis::None, width);
        advise(&mut lines, &rows, width);
        sum_up(&mut lines, namespace, audit, width);
    }
    for note in &audit.notes {
        push(&mut lines, &format!("note: {note}"), Emphasis::None, width);
    }
    lines
}

fn push(lines: &mut Vec<Line>, text: &str, emphasis: Emphasis, width: usize) {
    let text = if text.is_empty() {
        "\n".to_owned()
    } else {
        wrapped(text, width, "  ")
    };
    lines.extend(text.lines().map(|line| Line {
        text: line.to_owned(),
        emphasis,
    }));
}

fn place(namespace: &NamespaceReport) -> String {
    let id = namespace
        .id
        .map_or_else(|| "net:[?]".into(), |id| format!("net:[{id}]"));
    match namespace.found_by {
        Some(pid) => format!("namespace {id} of process {pid}"),
        None => format!("namespace {id}, this one"),
    }
}

fn table(
    lines: &mut Vec<Line>,
    rows: &[&ListenerReport],
    audit: &Audit,
    before: Option<&Audit>,
    width: usize,
) {
    let text = (1..=ALWAYS)
        .map(|rank| aligned(rows, audit, rank))
        .find(|text| text.iter().all(|line| line.chars().count() <= width))
        .unwrap_or_else(|| aligned(rows, audit, ALWAYS));
    for (n, text) in text.into_iter().enumerate() {
        let emphasis = match n.checked_sub(2).map(|n| rows[n]) {
            None => Emphasis::Heading,
            Some(one) if before.is_some_and(|before| differs(one, before)) => Emphasis::Changed,
            Some(one) if one.verdict <= Finding::NearFull => Emphasis::Bad,
            Some(_) => Emphasis::None,
        };
        lines.push(Line { text, emphasis });
    }
}

/// Whether a row says something else than in the window before.
fn differs(one: &ListenerReport, before: &Audit) -> bool {
    let key = |one: &ListenerReport| (one.namespace, one.address, one.port, one.pid);
    let said =
        |one: &ListenerReport| (one.depth, one.limit, one.verdict, one.drops, one.files_used);
    before
        .listeners
        .iter()
        .filter(|old| key(old) == key(one))
        .all(|old| said(old) != said(one))
}

/// Two lines of headings and a line for each row, with the columns of at least this rank.
fn aligned(rows: &[&ListenerReport], audit: &Audit, rank: u8) -> Vec<String> {
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| column.rank >= rank)
        .collect();
    let headings = [0, 1].map(|n| {
        columns
            .iter()
            .map(|one| one.heading[n].to_owned())
            .collect()
    });
    let window_s = window_s(audit);
    let cells = |row: &&ListenerReport| {
        columns
            .iter()
            .map(|one| (one.cell)(row, window_s))
            .collect()
    };
    let rows = headings.into_iter().chain(rows.iter().map(cells));
    in_columns(rows, |n| columns[n].left, 2)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a window is shorter than 2^52 milliseconds"
)]
fn window_s(audit: &Audit) -> f64 {
    audit.host.window_ms.map_or(1.0, |ms| ms as f64 / 1_000.0)
}

fn address(one: &ListenerReport) -> String {
    std::net::SocketAddr::new(one.address, one.port).to_string()
}

fn process(one: &ListenerReport) -> String {
    let Some(pid) = one.pid else {
        return "not visible".into();
    };
    let name = one.process.as_deref().unwrap_or("?");
    match one.processes {
        0 | 1 => format!("{name} {pid}"),
        more => format!("{name} {pid} +{}", more - 1),
    }
}

fn waiting(one: &ListenerReport) -> String {
    match one.limit {
        Some(limit) => format!("{}/{limit}", one.depth),
        None => format!("{}/?", one.depth),
    }
}

fn files(one: &ListenerReport) -> String {
    match (one.files_used, one.files_allowed) {
        (Some(used), Some(allowed)) => format!("{used}/{allowed}"),
        (Some(used), None) => format!("{used}/-"),
        (None, _) => "-".into(),
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Per second; a rate that is not 0 is never shown as 0.
#[expect(
    clippy::cast_precision_loss,
    reason = "drops of a window are far below 2^52"
)]
fn rate(count: u64, window_s: f64) -> String {
    let per_second = count as f64 / window_s;
    if count == 0 || per_second >= 9.95 {
        format!("{per_second:.0}")
    } else {
        format!("{per_second:.1}")
    }
}

/// Each listener in trouble by itself; those of which only the limit is to be said, together.
fn advise(lines: &mut Vec<Line>, rows: &[&ListenerReport], width: usize) {
    let mut alike: BTreeMap<&str, Vec<&ListenerReport>> = BTreeMap::new();
    for one in rows {
        match one.verdict {
            Finding::LimitUnknown if one.depth == 0 => {}
            Finding::Healthy
            | Finding::ClampedByProgram
            | Finding::NotMeasured
            | Finding::EqualToSomaxconn
            | Finding::AboveSomaxconn => {
                if let Some(says) = &one.limit_says {
                    alike.entry(says).or_default().push(one);
                }
            }
            _ => alone(lines, one, width),
        }
    }
    for (says, group) in alike {
        let names: Vec<String> = group
            .iter()
            .take(MOST_NAMED)
            .map(|one| format!("{} {}", address(one), process(one)))
            .collect();
        let more = match group.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        push(
            lines,
            &format!("{}{more}", names.join(", ")),
            Emphasis::Heading,
            width,
        );
        push(lines, &format!("  limit: {says}"), Emphasis::None, width);
        if let [one] = group.as_slice()
            && let Some(advice) = &one.advice.advice
        {
            push(lines, &format!("  do: {advice}"), Emphasis::None, width);
        }
        no_help(lines, group[0], width);
        push(lines, "", Emphasis::None, width);
    }
}

/// Of a group of listeners, so many are named.
const MOST_NAMED: usize = 3;

fn alone(lines: &mut Vec<Line>, one: &ListenerReport, width: usize) {
    let heading = format!("{}  {}: {}", address(one), process(one), one.verdict.word());
    push(lines, &heading, Emphasis::Bad, width);
    push(lines, &format!("  {}", one.says), Emphasis::None, width);
    let figures = [
        one.capacity.map(|capacity| format!("room for {capacity}")),
        one.drops_since_open
            .map(|drops| format!("drops since it was opened: {drops}")),
        one.files_used
            .map(|_| format!("open files: {}", files(one))),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    if !figures.is_empty() {
        push(
            lines,
            &format!("  {}", figures.join(", ")),
            Emphasis::None,
            width,
        );
    }
    if let Some(says) = &one.limit_says {
        push(lines, &format!("  limit: {says}"), Emphasis::None, width);
    }
    if let Some(advice) = &one.advice.advice {
        push(lines, &format!("  do: {advice}"), Emphasis::None, width);
    }
    no_help(lines, one, width);
    push(lines, "", Emphasis::None, width);
}

fn no_help(lines: &mut Vec<Line>, one: &ListenerReport, width: usize) {
    for text in &one.advice.does_not_help {
        push(lines, &format!("  no help: {text}"), Emphasis::None, width);
    }
}

/// The namespace's counters and settings.
fn sum_up(lines: &mut Vec<Line>, namespace: &NamespaceReport, audit: &Audit, width: usize) {
    let window_s = window_s(audit);
    let heading = match audit.host.window_ms {
        Some(_) => format!(
            "in a window of {window_s:.1} s; in brackets since boot or since the namespace was made, whose age is unknown:"
        ),
        None => "one look: counters are since boot or since the namespace was made, age unknown; measure a window with --interval 1s:".into(),
    };
    push(lines, &heading, Emphasis::None, width);
    let show = |growth: Growth| match (growth.window, growth.since_boot) {
        (Some(window), Some(since)) => format!("{}/s ({since})", rate(window, window_s)),
        (None, Some(since)) => since.to_string(),
        _ => "unknown".into(),
    };
    let counter = |name: &str| show(namespace.counters.get(name).copied().unwrap_or_default());
    let setting =
        |value: Option<u64>| value.map_or_else(|| "unknown".into(), |value| value.to_string());
    let idle = audit
        .host
        .idle_percent
        .map_or_else(|| "unknown".into(), |idle| format!("{idle:.0}%"));
    let settings = &namespace.settings;
    for line in [
        format!(
            "  overflows {}, listen drops {}, SYN-queue drops {}",
            counter(OVERFLOWS),
            counter(DROPS),
            counter("TcpExt.TCPReqQFullDrop")
        ),
        format!(
            "  cookies sent {}, for a full SYN queue {}, softnet drops {}",
            counter("TcpExt.SyncookiesSent"),
            counter("TcpExt.TCPReqQFullDoCookies"),
            show(audit.host.softnet_dropped)
        ),
        format!(
            "  somaxconn {}, tcp_syncookies {}, tcp_abort_on_overflow {}, idle CPU {idle}",
            setting(settings.somaxconn),
            setting(settings.tcp_syncookies),
            setting(settings.tcp_abort_on_overflow)
        ),
    ] {
        push(lines, &line, Emphasis::None, width);
    }
    for warning in &namespace.warnings {
        push(
            lines,
            &format!("  warning: {warning}"),
            Emphasis::Bad,
            width,
        );
    }
    push(lines, "", Emphasis::None, width);
}
