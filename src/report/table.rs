//! The comparison: an arm per row, and a verdict for each.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::figure::Figure;
use crate::result::{ArmResult, Outcome, Results, Status};

/// A column: its heading, whether narrow tables have it, and its cell for an arm.
struct Column {
    heading: &'static str,
    narrow: bool,
    cell: fn(&ArmResult) -> String,
}

/// Terminals from this width on get every column.
const WIDE: usize = 100;

/// The columns that every comparison has.
const COLUMNS: &[Column] = &[
    Column {
        heading: "ok",
        narrow: true,
        cell: ok,
    },
    Column {
        heading: "ghosts",
        narrow: true,
        cell: |arm| figure(arm, "ghosts", 0),
    },
    Column {
        heading: "answered ms:p50/p99 (n)",
        narrow: true,
        cell: latency,
    },
    Column {
        heading: "Recv-Q max/cap",
        narrow: true,
        cell: queue,
    },
    Column {
        heading: "over- flows",
        narrow: true,
        cell: |arm| figure(arm, OVERFLOWS, 0),
    },
    Column {
        heading: "per loser",
        narrow: true,
        cell: |arm| figure(arm, "overflows-per-loser", 1),
    },
    Column {
        heading: "idle CPU",
        narrow: true,
        cell: idle,
    },
    Column {
        heading: "wasted accepts",
        narrow: false,
        cell: |arm| figure(arm, "wasted-accepts", 0),
    },
    Column {
        heading: "listen drops",
        narrow: false,
        cell: |arm| figure(arm, "TcpExt.ListenDrops", 0),
    },
    Column {
        heading: "published",
        narrow: false,
        cell: published,
    },
];

const OVERFLOWS: &str = "TcpExt.ListenOverflows";

/// Failure classes with the headings of their columns; a column that is zero in every arm is left out.
const CLASSES: &[(Outcome, &str)] = &[
    (Outcome::ConnectTimeout, "connect timeout"),
    (Outcome::ReadTimeout, "read timeout"),
    (Outcome::Refused, "refused"),
    (Outcome::Reset, "reset"),
    (Outcome::ClosedEarly, "closed early"),
    (Outcome::WrongData, "wrong data"),
    (Outcome::LocalLimit, "local limit"),
    (Outcome::Other, "other"),
];

/// The table for a terminal of `width` columns, with what its columns mean.
/// Where the names leave no room for the figures, each name stands on a line of its own.
pub fn comparison(results: &Results, width: usize) -> String {
    let (heads, rows) = cells(results, width >= WIDE);
    let beside = lines(&heads, &rows);
    let table = if beside.iter().all(|line| line.chars().count() <= width) {
        beside
    } else {
        let without_name: Vec<Vec<String>> = rows.iter().map(|row| row[1..].to_vec()).collect();
        let mut below = lines(&heads[1..], &without_name);
        let figures = below.split_off(below.len() - rows.len());
        let names = rows.iter().map(|row| row[0].clone());
        below.extend(
            names
                .zip(figures)
                .flat_map(|(name, figures)| [name, figures]),
        );
        below
    };
    let mut text = table.join("\n");
    text.push_str("\n\np50/p99: from start to answer, of the n answered. Recv-Q max/cap: deepest look, capacity. per loser: overflows per losing client.\n");
    wrapped(&text, width, "")
}

/// Aligned lines: two of headings, one for each row.
fn lines(heads: &[String], rows: &[Vec<String>]) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    for row in heading_lines(heads).iter().chain(rows) {
        let left = |n: usize| n == 0 && heads[0] == NAME;
        table.add_row(row.iter().enumerate().map(|(n, text)| {
            let alignment = if left(n) {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            };
            Cell::new(text).set_alignment(alignment)
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// The heading of the column of names.
const NAME: &str = "arm";

/// Headings on two lines, broken at their colon or first blank; a heading of one word stands on the lower line.
fn heading_lines(heads: &[String]) -> [Vec<String>; 2] {
    let (upper, lower) = heads
        .iter()
        .map(|head| {
            head.split_once(':')
                .or(head.split_once(' '))
                .unwrap_or(("", head))
        })
        .map(|(upper, lower)| (upper.to_owned(), lower.to_owned()))
        .unzip();
    [upper, lower]
}

/// Headings and rows.
pub(super) fn cells(results: &Results, wide: bool) -> (Vec<String>, Vec<Vec<String>>) {
    let total = |arm: &ArmResult, class: Outcome| -> u32 {
        arm.trials
            .iter()
            .filter_map(|trial| trial.count(class))
            .sum()
    };
    let classes: Vec<_> = CLASSES
        .iter()
        .filter(|(class, _)| results.arms.iter().any(|arm| total(arm, *class) > 0))
        .collect();
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|column| wide || column.narrow)
        .collect();
    let mut heads = vec![NAME.to_owned(), columns[0].heading.to_owned()];
    heads.extend(classes.iter().map(|(_, heading)| (*heading).to_owned()));
    heads.extend(columns[1..].iter().map(|column| column.heading.to_owned()));
    let rows = results
        .arms
        .iter()
        .map(|arm| {
            let mut row = vec![arm.name.clone(), (columns[0].cell)(arm)];
            row.extend(
                classes
                    .iter()
                    .map(|(class, _)| figure(arm, class.figure(), 0)),
            );
            row.extend(columns[1..].iter().map(|column| (column.cell)(arm)));
            row
        })
        .collect();
    (heads, rows)
}

/// A figure's median over the valid trials, or a dash for the unknown.
fn figure(arm: &ArmResult, name: &str, decimals: usize) -> String {
    match arm.summary.get(name) {
        Some(summary) => format!("{:.decimals$}", summary.median),
        None => "-".into(),
    }
}

fn ok(arm: &ArmResult) -> String {
    match arm.trials.iter().find(|trial| trial.status != Status::Ok) {
        Some(trial) if arm.summary.is_empty() => format!("{:?}", trial.status).to_lowercase(),
        _ => format!("{}/{}", figure(arm, "ok", 0), figure(arm, "attempts", 0)),
    }
}

fn latency(arm: &ArmResult) -> String {
    let n = arm
        .trials
        .iter()
        .filter_map(|trial| trial.latency_ms.answered)
        .map(|p| p.n)
        .max();
    let Some(n) = n else {
        return "-".into();
    };
    let [p50, p99] = ["answered-p50-ms", "answered-p99-ms"].map(|name| {
        let value = arm.summary.get(name).map(|summary| summary.median);
        figure(
            arm,
            name,
            usize::from(value.is_some_and(|value| value < 100.0)),
        )
    });
    format!("{p50}/{p99} ({n})")
}

fn queue(arm: &ArmResult) -> String {
    let [deepest, capacity] =
        ["recv-q-max", "accept-queue-capacity"].map(|name| figure(arm, name, 0));
    format!("{deepest}/{capacity}")
}

fn idle(arm: &ArmResult) -> String {
    match arm.summary.get("idle-percent") {
        Some(idle) => format!("{:.0}%", idle.median),
        None => "-".into(),
    }
}

fn published(arm: &ArmResult) -> String {
    let Some(published) = &arm.settings.published else {
        return "-".into();
    };
    let of = |name: &str| {
        let figure: Option<Figure> = name.parse().ok();
        figure
            .and_then(|figure| published.figures.get(&figure))
            .map(|value| format!("{value}"))
    };
    match (of("ok"), of(OVERFLOWS)) {
        (Some(ok), Some(overflows)) => format!("{ok} ok, {overflows}"),
        (Some(ok), None) => format!("{ok} ok"),
        (None, Some(overflows)) => overflows,
        (None, None) => "-".into(),
    }
}

/// A verdict for each arm, wrapped to the terminal's width.
pub fn verdicts(results: &Results, width: usize) -> String {
    results
        .arms
        .iter()
        .map(|arm| wrapped(&verdict(arm), width, "  "))
        .collect()
}

/// `arm-a: met. 30 of 200 answered. ..`
fn verdict(arm: &ArmResult) -> String {
    let met = match arm.verdict.met {
        Some(true) => " [as expected]",
        Some(false) => " [NOT as expected]",
        None => "",
    };
    let mut text = format!("{}{met}: {}\n", arm.name, arm.verdict.text);
    for one in arm
        .verdict
        .expectations
        .iter()
        .filter(|one| one.met == Some(false))
    {
        let observed = one
            .observed
            .map_or_else(|| "unknown".into(), |value| value.to_string());
        text.push_str(&format!(
            "  expected {} = {}, observed {observed}\n",
            one.key, one.expected
        ));
    }
    if let Some(why) = &arm.verdict.not_judged {
        text.push_str(&format!("  expectations were not judged: {why}\n"));
    }
    for trial in &arm.trials {
        if trial.status != Status::Ok && !arm.summary.is_empty() {
            let status = format!("{:?}", trial.status).to_lowercase();
            let reason = trial.reason.as_deref().unwrap_or("unknown");
            text.push_str(&format!("  trial {} is {status}: {reason}\n", trial.index));
        }
    }
    let mut notes: Vec<&String> = arm.trials.iter().flat_map(|trial| &trial.notes).collect();
    notes.sort();
    notes.dedup();
    for note in notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}

/// Breaks lines at blanks; what is broken off goes on with the line's own indent and `more`.
fn wrapped(text: &str, width: usize, more: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        if line.chars().count() <= width {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let mut length = 0;
        for word in line.split_whitespace() {
            let word_length = word.chars().count();
            if length == 0 {
                out.push_str(&indent);
                length = indent.len();
            } else if length + 1 + word_length > width {
                out.push('\n');
                out.push_str(&indent);
                out.push_str(more);
                length = indent.len() + more.len();
            } else {
                out.push(' ');
                length += 1;
            }
            out.push_str(word);
            length += word_length;
        }
        out.push('\n');
    }
    out
}
