//! What an arm shows, in plain words. Says no more than the figures do: a counter is never tied to one client.

use std::collections::BTreeMap;

use super::{Status, Summary, TrialResult};
use crate::arm::{AcceptPolicy, Arm};

/// The figures that a verdict speaks of: medians over the valid trials.
struct Shown<'a>(&'a BTreeMap<String, Summary>);

impl Shown<'_> {
    fn get(&self, figure: &str) -> Option<f64> {
        self.0.get(figure).map(|summary| summary.median)
    }

    fn or_zero(&self, figure: &str) -> f64 {
        self.get(figure).unwrap_or(0.0)
    }
}

pub(super) fn text(
    arm: &Arm,
    trials: &[TrialResult],
    summary: &BTreeMap<String, Summary>,
) -> String {
    let Some(trial) = trials.iter().find(|trial| trial.status == Status::Ok) else {
        return match trials.first() {
            None => "not run".into(),
            Some(trial) => {
                let status = format!("{:?}", trial.status).to_lowercase();
                format!(
                    "{status}: {}",
                    trial.reason.as_deref().unwrap_or("for an unknown reason")
                )
            }
        };
    };
    let shown = Shown(summary);
    let mut sentences = vec![answered(arm, &shown)];
    if !arm.server.listen {
        let refused = shown.or_zero("refused");
        sentences.push(format!(
            "{refused} refused: that is the word for a port without a listener."
        ));
        return sentences.join(" ");
    }
    match &trial.counters.problem {
        Some(problem) => sentences.push(format!("{}: overflows are unknown.", capital(problem))),
        None => sentences.push(overflow(&shown)),
    }
    sentences.extend(ghosts(&shown));
    sentences.extend(wasted(&shown));
    sentences.extend(limit(arm, &shown));
    sentences.join(" ")
}

fn answered(arm: &Arm, shown: &Shown<'_>) -> String {
    use crate::arm::SpeaksFirst::Nobody;
    let word = if arm.protocol.speaks_first == Nobody {
        "connected"
    } else {
        "answered"
    };
    format!(
        "{} of {} {word}.",
        shown.or_zero("ok"),
        shown.or_zero("attempts")
    )
}

fn overflow(shown: &Shown<'_>) -> String {
    let overflows = shown.get("TcpExt.ListenOverflows").unwrap_or(0.0);
    let drops = shown.get("TcpExt.ListenDrops").unwrap_or(0.0);
    let losers = shown.or_zero("not-ok");
    let capacity = shown.or_zero("accept-queue-capacity");
    let deepest = shown.or_zero("recv-q-max");
    if overflows == 0.0 {
        return match (drops > 0.0, losers > 0.0) {
            (true, _) => format!(
                "The accept queue never overflowed, but the listener dropped {drops} packets."
            ),
            (false, true) => {
                "No overflow was counted: clients gave up elsewhere than at a full queue.".into()
            }
            (false, false) => "No overflow.".into(),
        };
    }
    let mut text = format!("The accept queue (capacity {capacity}) overflowed {overflows} times");
    if let Some(idle) = shown.get("idle-percent").filter(|idle| *idle >= 50.0) {
        text += &format!(" while the machine was {idle:.0} % idle");
    }
    if let Some(per_loser) = shown.get("overflows-per-loser") {
        text += &format!(
            ": {per_loser:.1} times for each of the {losers} losing clients, since a repeated SYN counts again"
        );
    } else if let Some(slowest_ms) = shown.get("answered-max-ms") {
        text += &format!(
            "; nobody failed, but the slowest waited {:.1} s",
            slowest_ms / 1_000.0
        );
    }
    text.push('.');
    if deepest < capacity {
        text += &format!(
            " The queue was never seen full (deepest look {deepest}): bursts shorter than the sampling interval."
        );
    }
    text
}

fn ghosts(shown: &Shown<'_>) -> Option<String> {
    let ghosts = shown.or_zero("ghosts");
    (ghosts > 0.0).then(|| {
        let mut kinds = Vec::new();
        for (figure, words) in [
            ("ghosts-waiting", "waiting in the accept queue"),
            ("ghosts-half-open", "half-open at the server"),
            ("ghosts-lost", "unknown to the server"),
        ] {
            let n = shown.or_zero(figure);
            if n > 0.0 {
                kinds.push(format!("{n} {words}"));
            }
        }
        format!(
            "Ghosts: {ghosts}, connected for the client and never accepted ({}).",
            kinds.join(", ")
        )
    })
}

fn wasted(shown: &Shown<'_>) -> Option<String> {
    let wasted = shown.or_zero("wasted-accepts");
    (wasted > 0.0).then(|| {
        let accepted = shown.or_zero("accepted");
        format!("{wasted} of {accepted} accepts were wasted on clients that had given up.")
    })
}

/// Which of the two limits binds, and what the accept loop does, where clients lose.
fn limit(arm: &Arm, shown: &Shown<'_>) -> Option<String> {
    let effective = shown.get("backlog-effective")?;
    let requested = f64::from(arm.server.backlog) * f64::from(arm.server.reuseport);
    if effective < requested || arm.server.backlog < 0 {
        let asked = arm.server.backlog;
        return Some(format!(
            "The limit in force, {effective}, is net.core.somaxconn: the program asked for {asked}."
        ));
    }
    let full = shown.or_zero("TcpExt.ListenOverflows") > 0.0;
    match (full, &arm.server.accept) {
        (false, _) => None,
        (true, AcceptPolicy::Never) => {
            Some("Nothing was accepted: a larger backlog would only fill later.".into())
        }
        (true, _) => Some(format!(
            "The limit in force, {effective}, is the listen() argument."
        )),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
