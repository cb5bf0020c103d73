//! The comparison: an arm per row.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::tools;
use super::wrap::wrapped;
use crate::arm::Loop;
use crate::figure::Figure;
use crate::result::{ArmResult, ListenerResult, Outcome, Results, Status};

/// A column: its heading, which tables have it, and its cell for an arm.
struct Column {
    heading: &'static str,
    shown: Shown,
    cell: fn(&ArmResult) -> String,
}

/// Which tables have a column. What is paced is load over time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Always,
    Wide,
    Paced,
    WideOrUnpaced,
}

impl Shown {
    const fn in_table(self, wide: bool, paced: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Wide => wide,
            Self::Paced => paced,
            Self::WideOrUnpaced => wide || !paced,
        }
    }
}

/// Terminals from this width on get every column.
const WIDE: usize = 100;

/// The columns that every comparison has.
const COLUMNS: &[Column] = &[
    Column {
        heading: "ok",
        shown: Shown::Always,
        cell: ok,
    },
    Column {
        heading: "ghosts",
        shown: Shown::Always,
        cell: |arm| figure(arm, "ghosts", 0),
    },
    Column {
        heading: "answered ms:p50/p99 (n)",
        shown: Shown::Always,
        cell: latency,
    },
    Column {
        heading: "intended ms:p50/p99 loop",
        shown: Shown::Paced,
        cell: intended,
    },
    Column {
        heading: "Recv-Q max/cap",
        shown: Shown::Always,
        cell: queue,
    },
    Column {
        heading: "over- flows",
        shown: Shown::Always,
        cell: |arm| of_tcp(arm, OVERFLOWS, 0),
    },
    Column {
        heading: "per loser",
        shown: Shown::WideOrUnpaced,
        cell: |arm| of_tcp(arm, "overflows-per-loser", 1),
    },
    Column {
        heading: "idle CPU",
        shown: Shown::Always,
        cell: idle,
    },
    Column {
        heading: "accepts:wasted/all",
        shown: Shown::Wide,
        cell: accepts,
    },
    Column {
        heading: "listen drops",
        shown: Shown::Wide,
        cell: |arm| of_tcp(arm, "TcpExt.ListenDrops", 0),
    },
    Column {
        heading: "server CPU ms",
        shown: Shown::Wide,
        cell: |arm| figure(arm, "server-cpu-ms", 0),
    },
    Column {
        heading: "published:ok/overflows",
        shown: Shown::Wide,
        cell: published,
    },
];

const OVERFLOWS: &str = "TcpExt.ListenOverflows";

/// What tells the two kinds of latency apart.
pub(super) const INTENDED: &str = "intended: the same from the time at which the client was meant to start. In an open loop clients come at their times; in a closed loop each comes when an earlier one has ended, and nobody sees the waits of those who did not come.";

/// What the columns count.
pub(super) const CAPTION: &str = "ok: answered of attempted (connected, where nobody speaks). ghosts: connected for the client, never accepted. p50/p99: from start to answer, of the n answered; p50 needs 20 of them, p99 100. The timeout limits connect and answer separately. Recv-Q max/cap: deepest accept queue that was seen, of what it holds. overflows: packets that met it full; per loser: for each client that was not ok. idle CPU: of the machine. A dash is unknown or too few, never zero.";

/// What the columns that a wide table has besides count, in their order.
pub(super) const WIDE_CAPTIONS: [&str; 3] = [
    " accepts: wasted are those of clients that had given up.",
    " listen drops: all packets that the listener dropped.",
    " server CPU: of the server's thread.",
];

/// Why the drops of a socket are not its overflows.
pub(super) const DROPS: &str = "Drops of the socket (chart of the queue's depth) count more than overflows: also packets on half-open requests.";

/// Failure classes, each with a column; one that is zero in every arm is left out.
const CLASSES: &[Outcome] = Outcome::ALL.split_at(1).1;

/// Failure classes with a column of their own where there is no room for all.
const FEW_CLASSES: usize = 2;

/// The table for a terminal of `width` columns, with what its columns mean. Where it would be too wide, the rarer
/// failures share a column; where the names still leave no room, each name stands on a line of its own.
pub fn comparison(results: &Results, width: usize) -> String {
    let tools = tools::text(results, width);
    if results.arms.iter().all(|arm| arm.settings.client.is_tool()) {
        return tools;
    }
    let layout = |more: usize, classes: usize, name_beside: bool| {
        let (heads, rows) = cells_with(results, more, classes);
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
    let fits = |lines: &[String]| lines.iter().all(|line| line.chars().count() <= width);
    let layouts = [
        (CLASSES.len(), true),
        (FEW_CLASSES, true),
        (CLASSES.len(), false),
        (FEW_CLASSES, false),
    ];
    let is_more = |column: &&Column| column.shown == Shown::Wide;
    let most = match width {
        WIDE.. => COLUMNS.iter().filter(is_more).count(),
        _ => 0,
    };
    let (more, table) = (0..=most)
        .rev()
        .flat_map(|more| layouts.map(|(classes, beside)| (more, classes, beside)))
        .map(|(more, classes, beside)| (more, layout(more, classes, beside)))
        .find(|(_, lines)| fits(lines))
        .unwrap_or_else(|| (0, layout(0, FEW_CLASSES, false)));
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
    caption += CAPTION;
    caption.extend(WIDE_CAPTIONS.into_iter().take(more));
    caption.push('\n');
    if has_load_over_time(results) {
        caption += INTENDED;
        caption.push('\n');
    }
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
    let has_names = heads[0] == NAME;
    let rows = heading_lines(heads).into_iter().chain(rows.to_vec());
    aligned(rows, |n| n == 0 && has_names, 1)
}

/// Rows as lines with so many blanks between the columns, of which those that `is_left` names are aligned left.
pub(super) fn aligned(
    rows: impl IntoIterator<Item = Vec<String>>,
    is_left: impl Fn(usize) -> bool,
    blanks: u16,
) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(|(n, text)| {
            Cell::new(text).set_alignment(if is_left(n) {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            })
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, blanks));
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
    cells_with(results, if wide { COLUMNS.len() } else { 0 }, CLASSES.len())
}

/// Headings and rows, with so many of the columns for wide terminals. Of more failure classes than `most`, the rarer
/// ones share a column.
fn cells_with(results: &Results, more: usize, most: usize) -> (Vec<String>, Vec<Vec<String>>) {
    let is_paced = has_load_over_time(results);
    let total = |class: Outcome| -> u32 {
        let trials = results.arms.iter().flat_map(|arm| &arm.trials);
        trials.filter_map(|trial| trial.count(class)).sum()
    };
    let mut own: Vec<_> = CLASSES
        .iter()
        .copied()
        .filter(|class| total(*class) > 0)
        .collect();
    let mut shared = Vec::new();
    if own.len() > most {
        own.sort_by_key(|class| std::cmp::Reverse(total(*class)));
        shared = own.split_off(most);
        own.sort_unstable();
    }
    let mut wide = 0;
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|column| {
            let is_shown = column.shown.in_table(wide < more, is_paced);
            wide += usize::from(column.shown == Shown::Wide);
            is_shown
        })
        .collect();
    let mut heads = vec![NAME.to_owned(), columns[0].heading.to_owned()];
    heads.extend(own.iter().map(ToString::to_string));
    heads.extend((!shared.is_empty()).then(|| "other failures".to_owned()));
    heads.extend(columns[1..].iter().map(|column| column.heading.to_owned()));
    let rows = results
        .arms
        .iter()
        .filter(|arm| !arm.settings.client.is_tool())
        .map(|arm| {
            let mut row = vec![arm.name.clone(), (columns[0].cell)(arm)];
            row.extend(own.iter().map(|class| figure(arm, class.figure(), 0)));
            if !shared.is_empty() {
                let medians = shared.iter().map(|class| arm.summary.get(class.figure()));
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

/// A figure from TCP's counters: of an `AF_UNIX` socket they count nothing.
fn of_tcp(arm: &ArmResult, name: &str, decimals: usize) -> String {
    if arm.settings.server.is_unix() {
        "-".into()
    } else {
        figure(arm, name, decimals)
    }
}

fn ok(arm: &ArmResult) -> String {
    match arm.trials.iter().find(|trial| trial.status != Status::Ok) {
        Some(trial) if arm.summary.is_empty() => trial.status.to_string(),
        _ => format!("{}/{}", figure(arm, "ok", 0), figure(arm, "attempts", 0)),
    }
}

/// Accepted is not answered: how many were accepted for clients that had given up, of all that were accepted.
fn accepts(arm: &ArmResult) -> String {
    format!(
        "{}/{}",
        figure(arm, "wasted-accepts", 0),
        figure(arm, "accepted", 0)
    )
}

/// Whether any arm has an open or a closed loop.
pub(super) fn has_load_over_time(results: &Results) -> bool {
    let mut arms = results.arms.iter();
    arms.any(|arm| arm.settings.client.pacing() != Loop::Flood)
}

fn latency(arm: &ArmResult) -> String {
    let n = arm
        .trials
        .iter()
        .filter_map(|trial| trial.latency_ms.answered)
        .map(|p| p.n)
        .max();
    match n {
        Some(n) if n > 0 && !arm.summary.is_empty() => {
            let pair = ["answered-p50-ms", "answered-p99-ms"];
            format!("{} ({n})", percentiles(pair.map(|name| median(arm, name))))
        }
        _ => "-".into(),
    }
}

/// From the intended start, and by which loop the clients came.
fn intended(arm: &ArmResult) -> String {
    if arm.summary.is_empty() {
        return "-".into();
    }
    let pair = ["intended-p50-ms", "intended-p99-ms"];
    let pair = percentiles(pair.map(|name| median(arm, name)));
    match arm.settings.client.pacing() {
        Loop::Flood => pair,
        Loop::Open(_) => format!("{pair} open"),
        Loop::Closed => format!("{pair} closed"),
    }
}

fn median(arm: &ArmResult, figure: &str) -> Option<f64> {
    arm.summary.get(figure).map(|summary| summary.median)
}

/// Percentiles of times in milliseconds, short ones with a decimal; in words where there were too few samples for any.
pub(super) fn percentiles<const N: usize>(values_ms: [Option<f64>; N]) -> String {
    if values_ms.iter().all(Option::is_none) {
        return "too few".into();
    }
    let shown = values_ms.map(|value| match value {
        Some(ms) if ms < 100.0 => format!("{ms:.1}"),
        Some(ms) => format!("{ms:.0}"),
        None => "-".into(),
    });
    shown.join("/")
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
    let told = [of("ok"), of(OVERFLOWS)];
    if told.iter().all(Option::is_none) {
        return "-".into();
    }
    told.map(|value| value.unwrap_or_else(|| "-".into()))
        .join("/")
}
