//! What to keep in mind about a trial's figures, a sentence each.

use std::collections::BTreeMap;

use super::{Counters, Entry, Outcome, SynSchedule};
use crate::arm::Arm;
use crate::observation::{EndedBy, Measured, ServerProgram};

/// What does not agree, with both sides.
pub(super) fn open_book(entry: &Entry) -> String {
    let side = |value: Option<i64>| value.map_or_else(|| "unknown".into(), |n| n.to_string());
    format!(
        "the books do not close: {} ({} and {})",
        entry.identity,
        side(entry.left),
        side(entry.right)
    )
}

pub(super) fn notes(
    arm: &Arm,
    measured: &Measured,
    outcomes: &BTreeMap<Outcome, u32>,
    counters: &Counters,
    unknown_accepts: u32,
) -> Vec<String> {
    let mut notes = measured.notes.clone();
    notes.extend(counters.problem.clone());
    if unknown_accepts > 0 {
        notes.push(format!(
            "{unknown_accepts} accepted connections belong to no recorded attempt"
        ));
    }
    let client = measured.client.as_ref().unwrap_or(&measured.server);
    let timeouts = outcomes.get(&Outcome::ConnectTimeout).copied().unwrap_or(0);
    if timeouts > 0
        && let Some(schedule) = SynSchedule::of(&client.sysctls)
        && let Some(retry_ms) = schedule.retry_at(arm.client.timeout.as_us())
    {
        notes.push(format!(
            "the timeout of {:#} falls on the SYN retry at {} s: counts may differ by up to one per client",
            arm.client.timeout,
            retry_ms / 1_000
        ));
    }
    if let Some(wire) = &measured.wire
        && (1..wire.packets.len()).contains(&wire.captured)
    {
        let (captured, all) = (wire.captured, wire.packets.len());
        notes.push(format!(
            "the capture holds the first {captured} of {all} packets (--capture)"
        ));
    }
    for listener in &measured.listeners {
        let limits = std::iter::once(listener.before.send_q)
            .chain(listener.samples.send_q.iter().map(|(_, limit)| *limit));
        let mut limits: Vec<String> = limits.map(|limit| limit.to_string()).collect();
        limits.dedup();
        if limits.len() > 1 {
            notes.push(format!(
                "the limit in force of {} changed during the trial, by a second listen(): {}; the capacity shown is the first one's",
                listener.address,
                limits.join(", then ")
            ));
        }
    }
    notes.extend(measured.program.iter().flat_map(of_program));
    if let Some(pause) = arm.server.program().and_then(|program| program.pause)
        && measured
            .program
            .as_ref()
            .is_some_and(|program| program.paused_us.is_none())
    {
        notes.push(format!(
            "the server was not stopped at {} (server.pause): the trial was over, or it could not be",
            pause.at
        ));
    }
    for (name, how) in &measured.server.measured_sysctls {
        notes.push(format!("{name} is {how}"));
    }
    notes
}

/// What to keep in mind about a program that served.
fn of_program(program: &ServerProgram) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((used, allowed)) = program.open_files.filter(|(used, allowed)| used >= allowed) {
        notes.push(format!(
            "the server's process had {used} of {allowed} files open: its accept() fails with EMFILE (server.nofile)"
        ));
    }
    if program.ended_by == EndedBy::Sigkill {
        let who = if program.stubborn.is_empty() {
            "its processes".to_owned()
        } else {
            program.stubborn.join(", ")
        };
        notes.push(format!(
            "SIGTERM did not end the server: SIGKILL was needed for {who}"
        ));
    }
    if program.output_left_out > 0 {
        notes.push(format!(
            "the server wrote {} bytes; {} of them, in the middle, were not kept",
            program.output_bytes, program.output_left_out
        ));
    }
    notes
}
