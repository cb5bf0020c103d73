//! Who attends to a program during the flood: a thread that stops it for a while, and one that counts its files.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::TrialError;
use crate::arm::Pause;
use crate::load::Clock;
use crate::netns::Control;
use crate::probe::owners;

/// The pause of a program: a thread that stops it and lets it go on.
pub(super) struct Pausing {
    /// Dropped when the trial is over.
    over: mpsc::Sender<()>,
    thread: JoinHandle<Option<(u64, Option<u64>)>>,
}

impl Pausing {
    /// A pause that begins with the clients is in force when this returns.
    pub(super) fn begin(
        pause: Pause,
        control: Arc<Control>,
        clock: Clock,
    ) -> Result<Self, TrialError> {
        let failed =
            |error: io::Error| TrialError::failed(format!("cannot stop the server: {error}"));
        let at_us = pause.at.as_us();
        let mut from_us = None;
        if at_us == 0 {
            control.pause().map_err(failed)?;
            from_us = Some(clock.now_us());
        }
        let (over, is_over) = mpsc::channel::<()>();
        let until = move |at_us| {
            is_over.recv_timeout(clock.until(at_us)) == Err(mpsc::RecvTimeoutError::Timeout)
        };
        let body = move || {
            if from_us.is_none() {
                if !until(at_us) || control.pause().is_err() {
                    return None;
                }
                from_us = Some(clock.now_us());
            }
            let from_us = from_us?;
            let goes_on =
                until(from_us.saturating_add(pause.lasts.as_us())) && control.resume().is_ok();
            Some((from_us, goes_on.then(|| clock.now_us())))
        };
        let thread = thread::Builder::new()
            .name("server-pause".into())
            .spawn(body);
        Ok(Self {
            over,
            thread: thread.map_err(failed)?,
        })
    }

    /// When it was stopped and when it went on, if it came to that.
    pub(super) fn end(self) -> Option<(u64, Option<u64>)> {
        drop(self.over);
        // The thread makes a few calls, none of which panics.
        self.thread.join().ok().flatten()
    }
}

/// A thread that counts the open files of the processes that listen. A client that gives up frees what it had
/// taken, so the end alone would tell nothing.
pub(super) struct FilesWatch {
    /// Dropped when the trial is over.
    over: mpsc::Sender<()>,
    thread: JoinHandle<Option<(u64, u64)>>,
}

/// How often the files are counted.
const COUNT_EVERY: Duration = Duration::from_millis(50);

impl FilesWatch {
    /// Watches the processes that hold these sockets; `None` where they cannot be seen.
    pub(super) fn begin(inodes: &BTreeSet<u32>) -> Option<Self> {
        let found = owners::find(inodes).ok()?;
        let mut processes: Vec<(u32, u64)> = found
            .of
            .into_values()
            .flatten()
            .filter_map(|owner| Some((owner.pid, owner.files_allowed?)))
            .collect();
        processes.sort_unstable();
        processes.dedup();
        let (over, is_over) = mpsc::channel::<()>();
        let goes_on =
            move || is_over.recv_timeout(COUNT_EVERY) == Err(mpsc::RecvTimeoutError::Timeout);
        let body = move || {
            let mut closest: Option<(u64, u64)> = None;
            let room = |(used, allowed): &(u64, u64)| allowed.saturating_sub(*used);
            loop {
                for (pid, allowed) in &processes {
                    // A listing is no instant: a file that was closed meanwhile can stand beside its successor.
                    let now = owners::files_used(*pid).map(|used| (used.min(*allowed), *allowed));
                    closest = closest.into_iter().chain(now).min_by_key(room);
                }
                if !goes_on() {
                    return closest;
                }
            }
        };
        let named = thread::Builder::new().name("server-files".into());
        let thread = named.spawn(body).ok()?;
        Some(Self { over, thread })
    }

    /// The most files that were open, of the process that came closest to its limit, and that limit.
    pub(super) fn end(self) -> Option<(u64, u64)> {
        drop(self.over);
        // The thread lists folders, which does not panic.
        self.thread.join().ok().flatten()
    }
}
