//! A ladder for a terminal.

use super::{Event, Ladder, Moment, Sent, ms};
use crate::arm::End;

/// Columns of a time.
const TIME: usize = 10;
/// Columns of the accept queue.
const QUEUE: usize = 14;
/// The shaft has no use for more.
const LONGEST_SHAFT: usize = 60;

/// What the last column means.
pub const LEGEND: &str = "accept queue: as last seen before the event reached the server, up to a sampling period earlier; what the event changed shows one look later";

/// The ladder for a terminal of `width` columns: client on the left, server on the right, times in milliseconds.
pub fn text(ladder: &Ladder, width: usize) -> String {
    let shaft = width
        .saturating_sub(2 * TIME + QUEUE + 6)
        .clamp(24, LONGEST_SHAFT);
    let mut out = format!("connection {}: {}", ladder.connection, ladder.story);
    if let Some(cause) = ladder.cause {
        out += &format!(" (cause: {cause})");
    }
    out += &format!("\n{}, trial {}", ladder.arm, ladder.trial);
    if !ladder.has_packets {
        out += "; no packets are recorded on this link";
    }
    let line = |left: &str, middle: &str, right: &str, queue: &str| {
        let line = format!("{left:>TIME$}  {middle:<shaft$}  {right:>TIME$}  {queue}");
        format!("{}\n", line.trim_end())
    };
    out.push_str("\n\n");
    let heads = format!("client{:>1$}", "server", shaft - "client".len());
    out += &line("ms", &heads, "ms", "accept queue");
    for rung in &ladder.rungs {
        let queue = rung.queue.map_or_else(String::new, |(length, capacity)| {
            let full = if length >= capacity { ", full" } else { "" };
            format!("{length} of {capacity}{full}")
        });
        out += &match &rung.event {
            Event::At(Moment { end, at_us, label }) => match end {
                End::Client => line(&ms(*at_us), label, "", &queue),
                End::Server => line("", &format!("{label:>shaft$}"), &ms(*at_us), &queue),
            },
            Event::Packet(packet) => {
                let arrow = arrow(packet, shaft);
                let arrived = packet.arrived_us.map_or_else(String::new, ms);
                let sent = ms(packet.sent_us);
                match packet.to {
                    End::Server => line(&sent, &arrow, &arrived, &queue),
                    End::Client => line(&arrived, &arrow, &sent, &queue),
                }
            }
        };
    }
    out
}

/// `SYN ------------->`, `<------- SYN+ACK`, `SYN -----x lost`.
fn arrow(packet: &Sent, shaft: usize) -> String {
    let (label, fate) = (&packet.label, packet.lot());
    let used = label.len() + fate.len() + 2 + usize::from(!fate.is_empty());
    let dashes = "-".repeat(shaft.saturating_sub(used).max(1));
    let gap = if fate.is_empty() { "" } else { " " };
    match (packet.to, packet.arrived_us.is_some()) {
        (End::Server, true) => format!("{label} {fate}{gap}{dashes}>"),
        (End::Server, false) => {
            let dashes = &dashes[..dashes.len().div_ceil(2)];
            format!("{label} {dashes}x {fate}")
        }
        (End::Client, true) => format!("<{dashes}{gap}{fate} {label}"),
        (End::Client, false) => {
            let dashes = &dashes[..dashes.len().div_ceil(2)];
            format!("{:>shaft$}", format!("{fate} x{dashes} {label}"))
        }
    }
}
