//! The comparison: an arm per row, and a verdict for each.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::tools;
use crate::figure::Figure;
use crate::result::{ArmResult, ListenerResult, Outcome, Reached, Results, Status};

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
        heading: "server CPU ms",
        narrow: false,
        cell: |arm| figure(arm, "server-cpu-ms", 0),
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

/// Failure classes with a column of their own where there is no room for all.
const FEW_CLASSES: usize = 2;

/// The table for a terminal of `width` columns, with what its columns mean. Where it would be too wide, the rarer
/// failures share a column; where the names still leave no room, each name stands on a line of its own.
pub fn comparison(results: &Results, width: usize) -> String {
    let tools = tools::text(results, width);
    if results.arms.iter().all(|arm| arm.settings.client.is_tool()) {
        return tools;
    }
    let layout = |classes: usize, name_beside: bool| {
        let (heads, rows) = cells_with(results, width >= WIDE, classes);
        if name_beside {
            return lines(&heads, &rows);
        }
        let figures: Vec<Vec<String>> = rows.iter().map(|row| row[1..].to_vec()).collect();
        let mut below = lines(&heads[1..], &figures);
        let figures = below.split_off(below.len() - rows.len());
        let names = rows.iter().map(|row| row[0].clone());
        below.extend(
            names
                .zip(figures)
                .flat_map(|(name, figures)| [name, figures]),
        );
        below
    };
    let fits = |lines: &Vec<String>| lines.iter().all(|line| line.chars().count() <= width);
    let layouts = [
        (CLASSES.len(), true),
        (FEW_CLASSES, true),
        (CLASSES.len(), false),
    ];
    let table = layouts
        .into_iter()
        .map(|(classes, beside)| layout(classes, beside))
        .find(fits)
        .unwrap_or_else(|| layout(FEW_CLASSES, false));
    let trials = results
        .arms
        .iter()
        .flat_map(|arm| arm.summary.values())
        .map(|one| one.n)
        .max();
    let mut caption = match trials {
        Some(n) if n > 1 => format!("Medians of {n} trials. "),
        _ => String::new(),
    };
    caption += "p50/p99: from start to answer, of the n answered; the timeout limits connect and answer separately. Recv-Q max/cap: deepest look, capacity. per loser: overflows per losing client.\n";
    let caption = wrapped(&caption, width, "");
    let tools = if tools.is_empty() {
        tools
    } else {
        format!("\n{tools}")
    };
    format!("{}\n\n{caption}{tools}", table.join("\n"))
}

/// Aligned lines: two of headings, one for each row.
pub(super) fn lines(heads: &[String], rows: &[Vec<String>]) -> Vec<String> {
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

/// Headings and rows, with a column for every failure class that occurred.
pub(super) fn cells(results: &Results, wide: bool) -> (Vec<String>, Vec<Vec<String>>) {
    cells_with(results, wide, CLASSES.len())
}

/// Headings and rows. Of more failure classes than `most`, the rarer ones share a column.
fn cells_with(results: &Results, wide: bool, most: usize) -> (Vec<String>, Vec<Vec<String>>) {
    let total = |class: Outcome| -> u32 {
        let trials = results.arms.iter().flat_map(|arm| &arm.trials);
        trials.filter_map(|trial| trial.count(class)).sum()
    };
    let mut own: Vec<_> = CLASSES
        .iter()
        .filter(|(class, _)| total(*class) > 0)
        .collect();
    let mut shared = Vec::new();
    if own.len() > most {
        own.sort_by_key(|(class, _)| std::cmp::Reverse(total(*class)));
        shared = own.split_off(most);
        own.sort_by_key(|(class, _)| *class);
    }
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|column| wide || column.narrow)
        .collect();
    let mut heads = vec![NAME.to_owned(), columns[0].heading.to_owned()];
    heads.extend(own.iter().map(|(_, heading)| (*heading).to_owned()));
    heads.extend((!shared.is_empty()).then(|| "other failures".to_owned()));
    heads.extend(columns[1..].iter().map(|column| column.heading.to_owned()));
    let rows = results
        .arms
        .iter()
        .filter(|arm| !arm.settings.client.is_tool())
        .map(|arm| {
            let mut row = vec![arm.name.clone(), (columns[0].cell)(arm)];
            row.extend(own.iter().map(|(class, _)| figure(arm, class.figure(), 0)));
            if !shared.is_empty() {
                let medians = shared
                    .iter()
                    .map(|(class, _)| arm.summary.get(class.figure()));
                let sum: Option<f64> = medians.map(|one| one.map(|one| one.median)).sum();
                row.push(sum.map_or_else(|| "-".into(), |sum| format!("{sum}")));
            }
            row.extend(columns[1..].iter().map(|column| (column.cell)(arm)));
            row
        })
        .collect();
    (heads, rows)
}

/// A figure's median over the valid trials, or a dash for the unknown.
pub(super) fn figure(arm: &ArmResult, name: &str, decimals: usize) -> String {
    match arm.summary.get(name) {
        Some(summary) => format!("{:.decimals$}", summary.median),
        None => "-".into(),
    }
}

fn ok(arm: &ArmResult) -> String {
    match arm.trials.iter().find(|trial| trial.status != Status::Ok) {
        Some(trial) if arm.summary.is_empty() => trial.status.to_string(),
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

/// The fullest socket: its deepest look and its capacity.
fn queue(arm: &ArmResult) -> String {
    let valid = arm.trials.iter().filter(|trial| trial.status == Status::Ok);
    let fullest = valid.flat_map(|trial| &trial.listeners).max_by(|a, b| {
        let fill =
            |one: &ListenerResult| u64::from(one.recv_q_max) * 1_000 / one.accept_queue_capacity;
        fill(a).cmp(&fill(b))
    });
    fullest.map_or_else(
        || "-".into(),
        |one| format!("{}/{}", one.recv_q_max, one.accept_queue_capacity),
    )
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
        (Some(ok), Some(overflows)) => format!("{ok} ok, {overflows} ovfl"),
        (Some(ok), None) => format!("{ok} ok"),
        (None, Some(overflows)) => overflows,
        (None, None) => "-".into(),
    }
}

/// A verdict for each arm, wrapped to the terminal's width.
pub fn verdicts(results: &Results, width: usize) -> String {
    let mut text: String = results.arms.iter().map(verdict).collect();
    let mut not_judged: Vec<&String> = results
        .arms
        .iter()
        .filter_map(|arm| arm.verdict.not_judged.as_ref())
        .collect();
    not_judged.sort();
    not_judged.dedup();
    for why in not_judged {
        text.push_str(&format!("expectations were not judged: {why}\n"));
    }
    if !results.complete {
        text.push_str("the run is partial: not every planned trial has ended\n");
    }
    wrapped(&text, width, "  ")
}

/// `arm-a [as expected]: 30 of 200 answered. ..`, and what to keep in mind below it.
fn verdict(arm: &ArmResult) -> String {
    let met = match arm.verdict.met {
        Some(true) => " [as expected]",
        Some(false) => " [NOT as expected]",
        None => "",
    };
    let closed = arm
        .trials
        .iter()
        .all(|trial| trial.open_books().next().is_none());
    let books = if closed {
        ""
    } else {
        " [the books do NOT close]"
    };
    let mut text = format!("{}{met}{books}: {}\n", arm.name, arm.verdict.text);
    let judged = arm.verdict.not_judged.is_none() && !arm.summary.is_empty();
    for one in &arm.verdict.expectations {
        let observed = match (one.met, one.observed) {
            (Some(false), Some(value)) => value.to_string(),
            (None, None) if judged => "unknown".to_owned(),
            _ => continue,
        };
        text.push_str(&format!(
            "  expected {} = {}, observed {observed}\n",
            one.key, one.expected
        ));
    }
    if let Some(until) = &arm.until {
        text.push_str(&reached(until, arm.trials.len()));
    }
    if let Some(published) = &arm.settings.published {
        let figures: Vec<String> = published
            .figures
            .iter()
            .map(|(figure, value)| format!("{figure} {value}"))
            .collect();
        text.push_str(&format!(
            "  published: {} ({})\n",
            figures.join(", "),
            published.source
        ));
    }
    for trial in &arm.trials {
        if trial.status != Status::Ok && !arm.summary.is_empty() {
            let reason = trial.reason.as_deref().unwrap_or("for an unknown reason");
            text.push_str(&format!(
                "  trial {} is {}: {reason}\n",
                trial.index, trial.status
            ));
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

/// How tight an arm with an open end has become.
fn reached(until: &Reached, trials: usize) -> String {
    let Reached {
        figure,
        asked_percent,
        ..
    } = until;
    let width = match until.percent {
        Some(percent) => format!("within {percent:.1} %"),
        None => "unknown".to_owned(),
    };
    if until.reached {
        format!("  {figure} is {width} after {trials} trials\n")
    } else {
        format!(
            "  NOT REACHED: {figure} within {asked_percent} %; it is {width} after {trials} trials\n"
        )
    }
}

/// Breaks lines at blanks; what is broken off goes on with the line's own indent and `more`.
pub(super) fn wrapped(text: &str, width: usize, more: &str) -> String {
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
