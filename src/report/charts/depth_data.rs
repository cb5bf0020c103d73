//! Accept-queue depth over time, prepared for a given number of pixel columns.
//!
//! A look holds until the next one, but not for longer than ten periods: where more looks are missing the line
//! ends, and begins again at the next look. What was not seen is neither a line nor a zero.

use crate::observation::{Listener, Measured, Samples};

/// Looks further apart than so many periods have a gap between them.
const GAP_PERIODS: u64 = 10;

/// Drops closer together than this are one burst.
const BURST_US: u64 = 150_000;

/// The queues of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Depth {
    /// One line for each listening socket.
    pub(super) lines: Vec<Line>,
    /// What one socket's queue holds.
    pub(super) capacity: u64,
    /// The deepest look.
    pub(super) deepest: u32,
    /// Looks of all sockets.
    pub(super) looks: usize,
    /// The share of looks until the last client ended that found the queue full.
    pub(super) full_share: Option<f64>,
    /// Times without looks at any socket.
    pub(super) gaps: Vec<(u64, u64)>,
    /// Packets that the listeners dropped, by the look that found them; `None` when the kernel does not tell.
    pub(super) drops: Option<Vec<Drop>>,
    pub(super) period_us: u64,
}

/// The looks at one socket, a piece for each stretch without a gap.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Line {
    pub(super) pieces: Vec<Vec<Column>>,
}

/// The looks within one pixel column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    /// When the first of them was taken.
    pub(super) at_us: u64,
    /// When the last of them ceases to hold.
    pub(super) until_us: u64,
    pub(super) first: u32,
    pub(super) least: u32,
    pub(super) most: u32,
    pub(super) last: u32,
}

/// Packets dropped between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drop {
    pub(super) at_us: u64,
    pub(super) n: u64,
}

/// Drops in quick succession.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Burst {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    pub(super) n: u64,
}

impl Depth {
    /// The queues of a trial, for a time axis of `horizon_us` that is `columns` pixels long.
    /// `None` when nothing listened.
    pub(super) fn of(measured: &Measured, horizon_us: u64, columns: u64) -> Option<Self> {
        let first = measured.listeners.first()?;
        let looks = || {
            measured
                .listeners
                .iter()
                .flat_map(|one| one.samples.recv_q.iter().copied())
        };
        let capacity = u64::from(first.before.send_q) + 1;
        // After the last client there is nothing to wait for; of a load tool's clients nothing is known.
        let last_us = measured.attempts.iter().map(|one| one.ended_us).max();
        let with_clients: Vec<u32> = measured
            .listeners
            .iter()
            .flat_map(|one| one.samples.at_us.iter().zip(&one.samples.recv_q))
            .filter(|(at_us, _)| last_us.is_none_or(|last_us| **at_us <= last_us))
            .map(|(_, depth)| *depth)
            .collect();
        let full = with_clients
            .iter()
            .filter(|depth| u64::from(**depth) >= capacity)
            .count();
        let edges = measured
            .listeners
            .iter()
            .flat_map(|one| [one.before.recv_q, one.after.recv_q]);
        #[expect(clippy::cast_precision_loss, reason = "looks are far fewer than 2^53")]
        let share = |n: usize, of: usize| (of > 0).then(|| n as f64 / of as f64);
        let drops: Option<Vec<Vec<Drop>>> = measured.listeners.iter().map(drops).collect();
        Some(Self {
            lines: measured
                .listeners
                .iter()
                .map(|one| line(&one.samples, horizon_us, columns))
                .collect(),
            capacity,
            deepest: looks().chain(edges).max().unwrap_or(0),
            looks: looks().count(),
            full_share: share(full, with_clients.len()),
            gaps: gaps(&first.samples, measured.ended_us),
            drops: drops.map(|all| {
                let mut all = all.concat();
                all.sort_by_key(|drop| drop.at_us);
                all
            }),
            period_us: first.samples.period_us,
        })
    }

    /// All drops; `None` when the kernel does not tell.
    pub(super) fn dropped(&self) -> Option<u64> {
        Some(self.drops.as_ref()?.iter().map(|drop| drop.n).sum())
    }

    /// Drops that no look explains: the queue was never seen full.
    pub(super) fn unseen(&self) -> Option<u64> {
        self.dropped()
            .filter(|n| *n > 0 && u64::from(self.deepest) < self.capacity)
    }

    /// The drops as bursts.
    pub(super) fn bursts(&self) -> Vec<Burst> {
        let mut bursts: Vec<Burst> = Vec::new();
        for drop in self.drops.iter().flatten() {
            match bursts.last_mut() {
                Some(burst) if drop.at_us - burst.to_us <= BURST_US => {
                    burst.to_us = drop.at_us;
                    burst.n += drop.n;
                }
                _ => bursts.push(Burst {
                    from_us: drop.at_us,
                    to_us: drop.at_us,
                    n: drop.n,
                }),
            }
        }
        bursts
    }
}

const fn far(samples: &Samples, from_us: u64, to_us: u64) -> bool {
    to_us.saturating_sub(from_us) > samples.period_us * GAP_PERIODS
}

fn line(samples: &Samples, horizon_us: u64, columns: u64) -> Line {
    let column_of =
        |at_us: u64| u128::from(at_us) * u128::from(columns) / u128::from(horizon_us.max(1));
    let mut pieces: Vec<Vec<Column>> = Vec::new();
    let mut before: Option<u64> = None;
    for (&at_us, &depth) in samples.at_us.iter().zip(&samples.recv_q) {
        let joined = before.is_some_and(|before| !far(samples, before, at_us));
        let until_us = at_us + samples.period_us;
        let new = Column {
            at_us,
            until_us,
            first: depth,
            least: depth,
            most: depth,
            last: depth,
        };
        match pieces.last_mut().filter(|_| joined) {
            Some(piece) => match piece.last_mut() {
                Some(column) if column_of(column.at_us) == column_of(at_us) => {
                    column.until_us = until_us;
                    column.least = column.least.min(depth);
                    column.most = column.most.max(depth);
                    column.last = depth;
                }
                Some(column) => {
                    column.until_us = at_us;
                    piece.push(new);
                }
                None => piece.push(new),
            },
            None => pieces.push(vec![new]),
        }
        before = Some(at_us);
    }
    Line { pieces }
}

/// Times without looks between the start and the end of a trial.
fn gaps(samples: &Samples, ended_us: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut seen_until = 0;
    for &at_us in samples.at_us.iter().chain([&ended_us]) {
        if far(samples, seen_until, at_us) {
            gaps.push((seen_until, at_us));
        }
        seen_until = at_us;
    }
    gaps
}

/// A listener's drops; `None` as soon as one reading of its counter is unknown. The counter is 32 bits wide.
fn drops(listener: &Listener) -> Option<Vec<Drop>> {
    let mut before = listener.before.drops?;
    let mut drops = Vec::new();
    for (&at_us, &now) in listener.samples.at_us.iter().zip(&listener.samples.drops) {
        let now = now?;
        let n = now.wrapping_sub(before);
        if n > 0 {
            drops.push(Drop { at_us, n: n.into() });
        }
        before = now;
    }
    Some(drops)
}
