//! A window: many short looks at the listeners between two readings of the counters.
//!
//! Counters since boot prove nothing about now. The looks catch a queue that fills and empties between them;
//! the drop counters catch what they miss.

use std::collections::HashMap;
use std::time::Duration;

use super::look::{LookError, Place, Readings, Seen};
use crate::load::Clock;
use crate::probe::drops;
use crate::probe::host::{self, Ticks};

/// The shortest time between two looks.
const PERIOD_US: u64 = 20_000;

/// A look may take this part of the time at most, so that a host with many listeners is not burdened.
const SHARE: u64 = 20;

/// What a window showed.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// How long it was; `None` for a single look.
    pub length: Option<Duration>,
    /// Each namespace, in the order asked.
    pub places: Vec<PlaceWindow>,
    /// The machine's processor time, before and after.
    pub ticks: (Option<Ticks>, Option<Ticks>),
    /// Packets that the machine dropped from its per-CPU queues, before and after.
    pub softnet_dropped: (Option<u64>, Option<u64>),
    /// What could not be read.
    pub problems: Vec<String>,
}

/// A namespace in a window.
#[derive(Debug, Clone, Default)]
pub struct PlaceWindow {
    /// The inode of the namespace.
    pub id: Option<u64>,
    /// The process that it was found by; `None` for the caller's own.
    pub found_by: Option<u32>,
    /// Why less can be seen of it.
    pub note: Option<String>,
    /// Counters and settings when the window opened; `None` for a single look.
    pub before: Option<Readings>,
    /// Counters and settings when it closed.
    pub after: Readings,
    /// The listeners of the last look.
    pub listeners: Vec<Watched>,
}

/// A listener over the looks of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The last look.
    pub last: Seen,
    /// How many connections waited at the first look at it.
    pub waiting_first: u32,
    /// The most that waited at any look.
    pub waiting_max: u32,
    /// Looks at it.
    pub looks: u32,
    /// Looks at which more waited than the limit.
    pub full_looks: u32,
    /// Its drop counter when the window opened: 0 for a socket that is younger; `None` where the kernel does not
    /// tell, and for a single look.
    pub drops_before: Option<u32>,
}

impl Watched {
    /// Drops in the window.
    pub fn drops(&self) -> Option<u32> {
        Some(self.last.drops?.wrapping_sub(self.drops_before?))
    }
}

/// The looks at one namespace, folded as they come.
#[derive(Debug, Default)]
struct Fold {
    by_socket: HashMap<u64, Watched>,
    looks: u32,
}

impl Fold {
    fn add(&mut self, seen: &[Seen]) {
        for one in seen {
            let is_full = one.limit.is_some_and(|limit| one.waiting > limit);
            let first = self.looks == 0;
            let watched = self.by_socket.entry(one.socket).or_insert_with(|| Watched {
                last: one.clone(),
                waiting_first: one.waiting,
                waiting_max: 0,
                looks: 0,
                full_looks: 0,
                drops_before: if first {
                    one.drops
                } else {
                    one.drops.map(|_| 0)
                },
            });
            watched.last = one.clone();
            watched.waiting_max = watched.waiting_max.max(one.waiting);
            watched.looks += 1;
            watched.full_looks += u32::from(is_full);
        }
        self.looks += 1;
    }

    /// The listeners of the last look, in its order.
    fn end(mut self, last: &[Seen]) -> Vec<Watched> {
        let single = self.looks == 1;
        last.iter()
            .filter_map(|seen| self.by_socket.remove(&seen.socket))
            .map(|watched| Watched {
                drops_before: watched.drops_before.filter(|_| !single),
                ..watched
            })
            .collect()
    }
}

/// Looks at the places for `length`, or once when it is zero.
///
/// # Errors
/// Listeners that could not be read whole.
pub fn measure(places: &mut [Place], length: Duration) -> Result<Window, LookError> {
    let single = length.is_zero();
    let mut problems = Vec::new();
    let before = if single {
        (None, None)
    } else {
        machine(&mut problems)
    };
    let mut folds: Vec<Fold> = places.iter().map(|_| Fold::default()).collect();
    let mut first_readings = Vec::new();
    for place in &*places {
        first_readings.push(if single {
            None
        } else {
            Some(place.readings()?)
        });
    }

    let clock = Clock::start();
    let end_us = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    let mut last: Vec<Vec<Seen>> = Vec::new();
    loop {
        let begun_us = clock.now_us();
        last.clear();
        for (place, fold) in places.iter_mut().zip(&mut folds) {
            let seen = place.listeners()?;
            fold.add(&seen);
            last.push(seen);
        }
        let now_us = clock.now_us();
        if begun_us >= end_us {
            break;
        }
        let pause_us = PERIOD_US.max((now_us - begun_us) * SHARE);
        clock.sleep_until((now_us + pause_us).min(end_us));
    }

    let mut windows = Vec::new();
    for (((place, fold), last), before) in places.iter().zip(folds).zip(&last).zip(first_readings) {
        windows.push(PlaceWindow {
            id: place.id,
            found_by: place.found_by,
            note: place.note.clone(),
            before,
            after: place.readings()?,
            listeners: fold.end(last),
        });
    }
    let after = machine(&mut problems);
    problems.dedup();
    Ok(Window {
        length: (!single).then(|| Duration::from_micros(clock.now_us())),
        places: windows,
        ticks: (before.0, after.0),
        softnet_dropped: (before.1, after.1),
        problems,
    })
}

/// Processor time and the drops of the per-CPU queues.
fn machine(problems: &mut Vec<String>) -> (Option<Ticks>, Option<u64>) {
    let mut known = |problem: crate::probe::ProbeError| problems.push(problem.to_string());
    (
        host::ticks().map_err(&mut known).ok(),
        drops::softnet_dropped(std::path::Path::new("/proc/thread-self/net"))
            .map_err(&mut known)
            .ok(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(socket: u64, waiting: u32, drops: u32) -> Seen {
        Seen {
            address: "127.0.0.1:80".parse().unwrap(),
            socket,
            inode: 1,
            waiting,
            limit: Some(2),
            drops: Some(drops),
        }
    }

    #[test]
    fn the_deepest_look_and_the_growth_of_drops_are_kept_for_each_socket() {
        let looks = [
            vec![seen(1, 0, 500)],
            vec![seen(1, 3, 510), seen(2, 1, 4)],
            vec![seen(1, 1, 533), seen(2, 0, 7)],
        ];
        let mut fold = Fold::default();
        for look in &looks {
            fold.add(look);
        }
        let [first, second] = fold.end(&looks[2]).try_into().unwrap();
        assert_eq!(
            (
                first.waiting_max,
                first.full_looks,
                first.looks,
                first.drops()
            ),
            (3, 1, 3, Some(33))
        );
        assert_eq!(
            (
                second.waiting_max,
                second.full_looks,
                second.looks,
                second.drops()
            ),
            (1, 0, 2, Some(7))
        );
    }

    #[test]
    fn a_single_look_knows_no_drops_of_a_window_and_gone_listeners_are_gone() {
        let mut fold = Fold::default();
        fold.add(&[seen(1, 0, 500)]);
        assert_eq!(fold.end(&[seen(1, 0, 500)])[0].drops(), None);
        let mut fold = Fold::default();
        fold.add(&[seen(1, 0, 0)]);
        fold.add(&[]);
        assert_eq!(fold.end(&[]), []);
    }
}
