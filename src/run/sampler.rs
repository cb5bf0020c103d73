//! The sampler: looks at the listening sockets at a fixed period, from a thread of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::load::Clock;
use crate::observation::{Look, Samples};
use crate::probe::diag::{Diag, DiagError};

/// Which sockets to look at.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) sockets: Vec<Watching>,
    /// Whether the server is to close the first of them during the trial.
    pub(super) closes_first: bool,
}

/// A listening socket: those on one address are told apart by their cookies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watching {
    pub(super) address: SocketAddr,
    pub(super) cookie: u64,
}

impl Watched {
    /// One look at each, in their order; `None` for a socket that does not listen.
    /// A socket alone on its address is looked up exactly; of a group, an exact lookup returns one member only.
    pub(super) fn look(&self, diag: &mut Diag) -> Result<Vec<Option<Look>>, DiagError> {
        let alone = |one: &Watching| {
            let there = self
                .sockets
                .iter()
                .filter(|other| other.address == one.address);
            there.count() == 1
        };
        if self.sockets.iter().all(alone) {
            let each = self.sockets.iter();
            return each.map(|one| diag.look(one.address)).collect();
        }
        let rows = diag.listeners()?;
        let of = |one: &Watching| {
            rows.iter()
                .find(|row| row.cookie == one.cookie)
                .map(|row| row.look)
        };
        Ok(self.sockets.iter().map(of).collect())
    }
}

/// A sampler at work.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(Vec<Samples>, Option<String>)>>,
}

impl Sampler {
    /// Starts looking, from a thread in the caller's namespace.
    pub(super) fn start(
        watched: Watched,
        mut diag: Diag,
        period_us: u64,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("sampler".into())
            .spawn(move || {
                let empty = Samples {
                    period_us,
                    ..Samples::default()
                };
                let mut samples = vec![empty; watched.sockets.len()];
                let (mut due_us, mut broke_off) = (0, None);
                while !stopped.load(Ordering::Relaxed) {
                    clock.sleep_until(due_us);
                    let at_us = clock.now_us();
                    let looks: Vec<Option<Look>> = match watched.look(&mut diag) {
                        Ok(looks) => looks,
                        Err(error) => return (samples, Some(error.to_string())),
                    };
                    for (n, (look, samples)) in looks.into_iter().zip(&mut samples).enumerate() {
                        if let Some(look) = look {
                            samples.at_us.push(at_us);
                            samples.recv_q.push(look.recv_q);
                            samples.drops.push(look.drops);
                            if samples
                                .send_q
                                .last()
                                .is_none_or(|(_, is)| *is != look.send_q)
                            {
                                samples.send_q.push((at_us, look.send_q));
                            }
                        } else if n > 0 || !watched.closes_first {
                            broke_off = Some(format!(
                                "a socket on {} no longer listens",
                                watched.sockets[n].address
                            ));
                        }
                    }
                    if broke_off.is_some() {
                        break;
                    }
                    // Ticks that have passed meanwhile are lost, and said to be.
                    let passed = (clock.now_us() - due_us) / period_us;
                    for samples in &mut samples {
                        samples.missed += passed.saturating_sub(1);
                    }
                    due_us += period_us * passed.max(1);
                }
                (samples, broke_off)
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops looking. Returns the samples and, if it broke off, why.
    pub(super) fn stop(mut self) -> (Vec<Samples>, Option<String>) {
        self.end()
            .unwrap_or_else(|| (Vec::new(), Some("the sampler panicked".into())))
    }

    fn end(&mut self) -> Option<(Vec<Samples>, Option<String>)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Sampler {
    /// The sampler of a trial that broke off ends with it.
    fn drop(&mut self) {
        self.end();
    }
}
