//! Whether a load was borne, trial by trial. A load holds only if every trial of it that counts has held; one that
//! breaks without a limit of the client's is enough.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{ArmResult, ClientLimit, Status, Summary, TrialResult};
use crate::figure::Figure;

/// Whether a load was borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// No overflow, and no failed client.
    Holds,
    /// An overflow or a failed client.
    Breaks,
    /// The client did not raise it: it says nothing about the server.
    ClientLimited,
    /// There is no valid trial, or overflows are unknown.
    Unknown,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "holds",
            Self::Breaks => "breaks",
            Self::ClientLimited => "client limit",
            Self::Unknown => "unknown",
        })
    }
}

/// The trials of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Tries {
    /// Those that say something.
    pub counted: u32,
    /// Those of them in which it was not borne.
    pub broken: u32,
    /// Those that say nothing because something went wrong that need not go wrong again: broken off, invalid, or the
    /// client late or without processor time.
    pub spoiled: u32,
}

/// What a trial says of its load; `None` where it is spoiled.
pub fn held_in(trial: &TrialResult) -> Option<Held> {
    let limit = trial.self_check.client_limit;
    let may_pass = limit.is_some_and(ClientLimit::may_pass);
    let limited = limit.map(|_| Held::ClientLimited);
    match trial.status {
        Status::Skipped => return Some(Held::Unknown),
        Status::Failed => return None,
        Status::Invalid => return limited.filter(|_| !may_pass),
        Status::Ok => {}
    }
    let Some(well) = is_well(trial) else {
        return Some(Held::Unknown);
    };
    match (well, limited) {
        (true, _) => Some(Held::Holds),
        (false, None) => Some(Held::Breaks),
        (false, limited) => limited.filter(|_| !may_pass),
    }
}

/// Whether nothing overflowed and nobody failed; `None` where that is unknown.
fn is_well(trial: &TrialResult) -> Option<bool> {
    if trial.counters.problem.is_some() {
        return None;
    }
    let failed = trial.figure(&Figure::Named("not-ok"))?;
    let overflows = trial.figure(&Figure::server_counter("TcpExt.ListenOverflows"))?;
    Some(failed == 0.0 && overflows == 0.0)
}

/// The valid trials of an arm that say something of its load; all valid ones where none does.
pub(super) fn counted(arm: &ArmResult) -> Vec<&TrialResult> {
    let valid = || arm.trials.iter().filter(|one| one.status == Status::Ok);
    let telling: Vec<&TrialResult> = valid().filter(|one| held_in(one).is_some()).collect();
    if telling.is_empty() {
        valid().collect()
    } else {
        telling
    }
}

/// A figure's median over these trials; `None` where it is unknown.
pub fn median(arm: &ArmResult, figure: &str) -> Option<f64> {
    let figure: Figure = figure.parse().ok()?;
    let of_each = counted(arm)
        .into_iter()
        .filter_map(|one| one.figure(&figure));
    Summary::of(of_each.collect()).map(|summary| summary.median)
}

/// Whether an arm bore its load, and by how many trials.
pub fn held(arm: &ArmResult) -> (Held, Tries) {
    let told: Vec<Option<Held>> = arm.trials.iter().map(held_in).collect();
    let n = |of: &[Option<Held>]| {
        let those = told.iter().filter(|one| of.contains(one));
        u32::try_from(those.count()).unwrap_or(u32::MAX)
    };
    let (holds, breaks) = (n(&[Some(Held::Holds)]), n(&[Some(Held::Breaks)]));
    let limited = n(&[Some(Held::ClientLimited)]);
    let tries = Tries {
        counted: holds + breaks + limited,
        broken: breaks + limited,
        spoiled: n(&[None]),
    };
    let spoiled_by_client = || {
        let mut limits = arm.trials.iter().map(|one| one.self_check.client_limit);
        limits.any(|one| one.is_some())
    };
    let held = if n(&[Some(Held::Unknown)]) > 0 {
        Held::Unknown
    } else if breaks > 0 {
        Held::Breaks
    } else if limited > 0 {
        Held::ClientLimited
    } else if holds > 0 {
        Held::Holds
    } else if spoiled_by_client() {
        Held::ClientLimited
    } else {
        Held::Unknown
    };
    (held, tries)
}
