//! Arms of one folder or matrix that differ in a remedy for a full queue: when each one's queue was empty for good.

use std::fmt::Write as _;

use super::charts::count;
use super::wrap::wrapped;
use crate::result::{ArmResult, Results, median};

/// More arms than this are too many for one picture of all queues.
const MOST: usize = 6;

/// The arms whose remedies are to be compared: few, of one folder or matrix, and no steps of a load; somebody's queue
/// overflowed, and somebody's was empty in the end. `None` where there is nothing to compare.
pub(super) fn remedies(results: &Results) -> Option<Vec<&ArmResult>> {
    let arms: Vec<&ArmResult> = results.arms.iter().collect();
    let folder = |arm: &ArmResult| Some(arm.name.rsplit_once('/')?.0.to_owned());
    let common = folder(arms.first()?)?;
    let alike = |arm: &&ArmResult| folder(arm).as_deref() == Some(common.as_str());
    let above = |figure, arm: &&ArmResult| median(arm, figure).is_some_and(|n| n > 0.0);
    let tells = (2..=MOST).contains(&arms.len())
        && results.staircases.is_empty()
        && arms.iter().all(alike)
        && arms.iter().any(|arm| above("TcpExt.ListenOverflows", &arm))
        && arms.iter().any(|arm| above("queue-empty-ms", &arm));
    tells.then_some(arms)
}

/// `emptied after 1022 ms`, or in what state the queue was left.
pub(super) fn emptied(arm: &ArmResult) -> String {
    let waiting = median(arm, "recv-q-final").filter(|n| *n > 0.0);
    match (median(arm, "queue-empty-ms"), waiting) {
        (_, Some(n)) => format!("not empty at the end, {} waiting", count(n)),
        (Some(0.0), None) => "nobody was seen waiting".into(),
        (Some(ms), None) => format!("emptied after {ms:.0} ms"),
        (None, None) => "unknown".into(),
    }
}

/// `625 overflows`, `no overflow`.
pub(super) fn overflows(arm: &ArmResult) -> String {
    match median(arm, "TcpExt.ListenOverflows") {
        None => "overflows unknown".into(),
        Some(0.0) => "no overflow".into(),
        Some(1.0) => "1 overflow".into(),
        Some(n) => format!("{} overflows", count(n)),
    }
}

const HEADING: &str = "When the accept queue was empty for good";

/// A line for each arm, for a terminal of `width` columns; nothing where there are no remedies to compare.
pub fn queues(results: &Results, width: usize) -> String {
    let Some(arms) = remedies(results) else {
        return String::new();
    };
    let mut text = format!("{HEADING}:\n");
    for arm in arms {
        let line = format!("{}: {}, {}", arm.name, emptied(arm), overflows(arm));
        let _ = writeln!(text, "{}", wrapped(&line, width, "  ").trim_end());
    }
    text.push('\n');
    text
}

/// The same as Markdown.
pub(super) fn markdown(results: &Results) -> String {
    let Some(arms) = remedies(results) else {
        return String::new();
    };
    let mut text = format!("## {HEADING}\n\n");
    for arm in arms {
        let _ = writeln!(text, "- {}: {}, {}", arm.name, emptied(arm), overflows(arm));
    }
    text + "\n"
}
