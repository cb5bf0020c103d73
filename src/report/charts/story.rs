//! What the charts of a run tell: its arms with short labels, their outcomes and figures, and the matrix that
//! they span. Prepared once; nothing of it is drawn yet.

use std::collections::BTreeMap;

use super::scale;
use crate::arm::SpeaksFirst;
use crate::observation::{Measured, Observation};
use crate::report::composition::{Parts, mean};
use crate::report::matrix::Matrix;
use crate::result::{ArmResult, Outcome, Results, Status};

/// More arms than this are too many for one picture; the table has them all.
pub(super) const MOST_ARMS: usize = 20;

/// A run's story.
pub(super) struct Story<'a> {
    /// Where and when it was measured, in one line.
    pub(super) setting: String,
    /// What the names of all arms begin with, cut from the labels.
    pub(super) family: Option<String>,
    pub(super) arms: Vec<ArmStory<'a>>,
    /// Arms that are not shown.
    pub(super) hidden: usize,
    /// The matrix, when the arms are one.
    pub(super) matrix: Option<Matrix>,
    /// Trials of each arm.
    pub(super) trials: usize,
}

/// One arm.
pub(super) struct ArmStory<'a> {
    pub(super) label: String,
    /// The same for a row or a panel, where there is little room; the subtitle names the factors.
    pub(super) short: String,
    /// A second line for the label; absent where all arms have the same title.
    pub(super) title: Option<&'a str>,
    pub(super) result: &'a ArmResult,
    /// The readings of the valid trials.
    pub(super) measured: Vec<&'a Measured>,
    /// Absent when no trial is valid.
    pub(super) outcomes: Option<Outcomes>,
}

/// What became of an arm's attempts, as the mean of its valid trials.
pub(super) type Outcomes = Parts<Outcome>;

impl Outcomes {
    fn of(arm: &ArmResult) -> Option<Self> {
        let valid = || arm.trials.iter().filter(|trial| trial.status == Status::Ok);
        let attempts: Vec<u32> = valid().filter_map(|trial| trial.attempts).collect();
        let part = |class| {
            let counts: Vec<u32> = valid().filter_map(|trial| trial.count(class)).collect();
            mean(&counts).filter(|n| *n > 0.0).map(|n| (class, n))
        };
        Some(Self {
            attempts: mean(&attempts)?,
            parts: Outcome::ALL.into_iter().filter_map(part).collect(),
        })
    }

    pub(super) fn ok_share(&self) -> f64 {
        self.share(self.count(Outcome::Ok))
    }
}

impl<'a> Story<'a> {
    pub(super) fn of(results: &'a Results, observations: &'a [Observation]) -> Self {
        let shown = &results.arms[..results.arms.len().min(MOST_ARMS)];
        let names: Vec<&str> = shown.iter().map(|arm| arm.name.as_str()).collect();
        let matrix = Matrix::of(&names);
        let (mut family, labels) = labels(&names, matrix.as_ref());
        let long = labels.iter().any(|label| label.chars().count() > LONG);
        let shortened = matrix.as_ref().filter(|_| long);
        if let (Some(matrix), Some(family)) = (shortened, &mut family) {
            *family = format!("{family} ({})", matrix.factors_in_words());
        }
        let short = |n: usize, label: &str| {
            shortened.map_or_else(|| label.to_owned(), |matrix| matrix.short_label(n))
        };
        let same_title = shown.len() > 1 && shown.iter().all(|arm| arm.title == shown[0].title);
        let arms = shown
            .iter()
            .zip(labels)
            .enumerate()
            .map(|(n, (result, label))| ArmStory {
                short: short(n, &label),
                label,
                title: (!same_title).then_some(result.title.as_str()),
                result,
                measured: measured(result, observations),
                outcomes: Outcomes::of(result),
            })
            .collect();
        let valid = |arm: &ArmResult| {
            arm.trials
                .iter()
                .filter(|one| one.status == Status::Ok)
                .count()
        };
        Self {
            setting: setting(results),
            family,
            arms,
            hidden: results.arms.len() - shown.len(),
            matrix,
            trials: shown.iter().map(valid).max().unwrap_or(0),
        }
    }

    /// `text`, and what else the reader of a picture must know of its arms.
    pub(super) fn subtitle(&self, text: &str) -> String {
        let mut parts = Vec::new();
        parts.extend(self.family.clone());
        parts.push(text.to_owned());
        if self.hidden > 0 {
            parts.push(format!("{} more arms are in the table", self.hidden));
        }
        parts.join(" \u{b7} ")
    }

    /// The same, for a picture of means over trials.
    pub(super) fn subtitle_of_means(&self, text: &str) -> String {
        match self.trials {
            0 | 1 => self.subtitle(text),
            n => self.subtitle(&format!("{text} \u{b7} mean of {n} trials")),
        }
    }
}

impl ArmStory<'_> {
    /// A figure's mean over the valid trials; `None` when it is unknown in any of them.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        let summary = self.result.summary.get(name)?;
        (summary.n == self.measured.len()).then_some(summary.mean)
    }

    /// A counter's mean growth in the server's namespace; `None` when it is unknown in any valid trial.
    pub(super) fn counter(&self, name: &str) -> Option<f64> {
        let valid = self
            .result
            .trials
            .iter()
            .filter(|trial| trial.status == Status::Ok);
        let values: Option<Vec<i64>> = valid
            .map(|trial| trial.counters.server.get(name).copied().flatten())
            .collect();
        let values = values.filter(|values| !values.is_empty())?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts of a trial are far below 2^53"
        )]
        let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
        Some(mean)
    }

    pub(super) fn overflows(&self) -> Option<f64> {
        self.counter("TcpExt.ListenOverflows")
    }

    /// Whether a client's kernel is known to have repeated a SYN.
    pub(super) fn repeated_syns(&self) -> bool {
        let trials = self.result.trials.iter();
        let mut valid = trials.filter(|trial| trial.status == Status::Ok);
        valid.any(|trial| {
            let grown = trial.counters.client.get("TcpExt.TCPSynRetrans");
            grown.copied().flatten().is_some_and(|n| n > 0)
        })
    }

    /// The word for a client that is well.
    pub(super) fn well(&self) -> &'static str {
        if self.result.settings.protocol.speaks_first == SpeaksFirst::Nobody {
            "connected"
        } else {
            "answered"
        }
    }

    /// `30 of 200 answered`, or why there is nothing to say.
    pub(super) fn answered(&self) -> String {
        match &self.outcomes {
            Some(outcomes) => format!(
                "{} of {} {}",
                scale::count(outcomes.count(Outcome::Ok)),
                scale::count(outcomes.attempts),
                self.well()
            ),
            None => self.problem(),
        }
    }

    /// `362 overflows`.
    pub(super) fn overflowed(&self) -> String {
        match self.overflows() {
            Some(0.0) => "no overflow".into(),
            Some(1.0) => "1 overflow".into(),
            Some(n) => format!("{} overflows", scale::count(n)),
            None => "overflows unknown".into(),
        }
    }

    /// Why nothing is known of its clients, in a word.
    pub(super) fn problem(&self) -> String {
        let mut trials = self.result.trials.iter();
        if trials.any(|trial| trial.tool.is_some()) {
            return "a load tool's".into();
        }
        let status = self
            .result
            .trials
            .first()
            .map(|trial| format!("{:?}", trial.status).to_lowercase());
        status.unwrap_or_else(|| "not run".into())
    }
}

/// The readings of an arm's valid trials.
fn measured<'a>(arm: &ArmResult, observations: &'a [Observation]) -> Vec<&'a Measured> {
    let valid = |index| {
        arm.trials
            .iter()
            .any(|trial| trial.index == index && trial.status == Status::Ok)
    };
    let of_arm = observations
        .iter()
        .filter(|one| one.arm == arm.name && valid(one.index));
    of_arm.filter_map(|one| one.measured.as_ref()).collect()
}

fn setting(results: &Results) -> String {
    let mut parts = vec!["backlog-lab".to_owned()];
    parts.extend(
        results
            .host
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {kernel}")),
    );
    parts.extend(results.host.cpus.map(|cpus| format!("{cpus} processors")));
    parts.push(format!("run {}", results.run_id));
    if !results.complete {
        parts.push("partial run".into());
    }
    match super::super::not_reached(results).len() {
        0 => {}
        n => parts.push(format!(
            "--until NOT REACHED in {n} of {} arms",
            results.arms.len()
        )),
    }
    let trials = || results.arms.iter().flat_map(|arm| &arm.trials);
    for status in [Status::Failed, Status::Invalid, Status::Skipped] {
        match trials().filter(|trial| trial.status == status).count() {
            0 => {}
            n => parts.push(format!(
                "{n} of {} trials {status}, left out",
                trials().count()
            )),
        }
    }
    parts.join(" \u{b7} ")
}

/// Labels that tell the arms apart, and what was cut from all of them.
pub(super) fn labels(names: &[&str], matrix: Option<&Matrix>) -> (Option<String>, Vec<String>) {
    if let Some(matrix) = matrix {
        return (
            Some(matrix.base.clone()),
            (0..names.len()).map(|n| matrix.label(n)).collect(),
        );
    }
    let folder = |name: &str| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let first = names.first().and_then(|name| folder(name));
    let shared = names.len() > 1 && names.iter().all(|name| folder(name) == first);
    let common = first.filter(|_| shared);
    let cut = common.as_ref().map_or(0, |common| common.len() + 1);
    let own = names.iter().map(|name| &name[cut..]).collect();
    (common, distinct(own))
}

/// Labels of more characters are shortened.
const LONG: usize = 34;

/// Long names without the words that they have in common at both ends, but for one each.
fn distinct(names: Vec<&str>) -> Vec<String> {
    let split: Vec<Vec<&str>> = names
        .iter()
        .map(|name| name.split_inclusive('-').collect())
        .collect();
    let long = names.len() > 1 && names.iter().any(|name| name.chars().count() > LONG);
    let Some(first) = split.first().filter(|_| long) else {
        return names.into_iter().map(str::to_owned).collect();
    };
    let least = split.iter().map(Vec::len).min().unwrap_or(0);
    let alike = |at: fn(&[&str], usize) -> usize, n: &usize| {
        let word = first[at(first, *n)];
        split.iter().all(|words| words[at(words, *n)] == word)
    };
    let head = (0..least).take_while(|n| alike(|_, n| n, n)).count();
    let from_end = |words: &[&str], n: usize| words.len() - 1 - n;
    let tail = (0..least - head).take_while(|n| alike(from_end, n)).count();
    let (head, tail) = (head.saturating_sub(1), tail.saturating_sub(1));
    let cut = |words: &Vec<&str>| {
        let kept = words[head..words.len() - tail].concat();
        let before = if head > 0 { "\u{2026}" } else { "" };
        let after = if tail > 0 { "\u{2026}" } else { "" };
        format!("{before}{kept}{after}")
    };
    split.iter().map(cut).collect()
}

/// Counters that tell of a full queue, the telling ones first.
const TELLING: [&str; 14] = [
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPSynRetrans",
    "TcpExt.TCPReqQFullDoCookies",
    "TcpExt.TCPReqQFullDrop",
    "TcpExt.SyncookiesSent",
    "TcpExt.SyncookiesFailed",
    "TcpExt.TCPDeferAcceptDrop",
    "TcpExt.TCPMigrateReqSuccess",
    "TcpExt.EmbryonicRsts",
    "Tcp.OutRsts",
    "Tcp.PassiveOpens",
    "TcpExt.TCPTimeouts",
    "Tcp.RetransSegs",
];

/// How many counters a picture shows.
const MOST_COUNTERS: usize = 7;

impl Story<'_> {
    /// The counters to show with their growth in each arm, `None` where it is unknown: overflows and drops
    /// always, of the others those that moved.
    pub(super) fn counters(&self) -> BTreeMap<usize, (&'static str, Vec<Option<f64>>)> {
        let all = TELLING.iter().enumerate().map(|(n, name)| {
            let growth: Vec<Option<f64>> = self.arms.iter().map(|arm| arm.counter(name)).collect();
            (n, (*name, growth))
        });
        all.filter(|(n, (_, growth))| *n < 2 || growth.iter().flatten().any(|one| *one != 0.0))
            .take(MOST_COUNTERS)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_what_tells_them_apart() {
        let (family, short) = labels(&["cases/k14-tail", "cases/k14-tail-control"], None);
        assert_eq!(family.as_deref(), Some("cases"));
        assert_eq!(short, ["k14-tail", "k14-tail-control"]);
        let names = [
            "a-long-name-that-says-much-about-arm-0-and-more",
            "a-long-name-that-says-much-about-arm-12-and-more",
        ];
        let (_, short) = labels(&names, None);
        assert_eq!(
            short,
            ["\u{2026}arm-0-and-\u{2026}", "\u{2026}arm-12-and-\u{2026}"]
        );
        let same = ["the-very-same-name-of-many-words-twice"; 2];
        assert_eq!(labels(&same, None).1.len(), 2);
    }
}
