//! `data/attempts.csv`: a row for every attempt.

use serde::Serialize;

use crate::observation::Observation;
use crate::result::{Cause, Evidence, Ghost, Outcome, explain, join, outcome};

/// Times in microseconds since the clients' release; an empty field is unknown or did not happen.
#[derive(Serialize)]
struct Row<'a> {
    arm: &'a str,
    trial: u32,
    attempt: u32,
    intended_us: u64,
    started_us: u64,
    connected_us: Option<u64>,
    first_byte_us: Option<u64>,
    ended_us: u64,
    outcome: Outcome,
    errno: Option<&'a str>,
    local_port: Option<u16>,
    accepted_us: Option<u64>,
    ghost: Option<&'static str>,
    cause: Option<Cause>,
    evidence: Option<Evidence>,
}

pub(super) fn csv(observations: &[Observation]) -> Vec<u8> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    for observation in observations {
        let Some(measured) = &observation.measured else {
            continue;
        };
        let (fates, _) = join(measured);
        let causes = explain(measured, &fates);
        for ((attempt, fate), explained) in measured.attempts.iter().zip(fates).zip(causes) {
            let row = Row {
                arm: &observation.arm,
                trial: observation.index,
                attempt: attempt.n,
                intended_us: attempt.intended_us,
                started_us: attempt.started_us,
                connected_us: attempt.connected_us,
                first_byte_us: attempt.first_byte_us,
                ended_us: attempt.ended_us,
                outcome: outcome(attempt),
                errno: attempt.errno.as_deref(),
                local_port: attempt.local_port,
                accepted_us: fate.accepted_us,
                ghost: fate.ghost.map(|ghost| match ghost {
                    Ghost::Waiting => "waiting",
                    Ghost::HalfOpen => "half_open",
                    Ghost::Lost => "lost",
                    Ghost::Unknown => "unknown",
                }),
                cause: explained.map(|one| one.cause),
                evidence: explained.map(|one| one.evidence),
            };
            rows.serialize(row)
                .expect("a row of plain values is written to memory");
        }
    }
    rows.into_inner().expect("memory takes every byte")
}
