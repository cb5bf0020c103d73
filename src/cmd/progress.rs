//! Live counts on standard error while trials run, where that is a terminal; everywhere, why a trial gave nothing.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::load::Progress;
use crate::observation::TrialStatus;
use crate::run::Event;

/// Watches a run.
pub(super) struct Watcher {
    live: bool,
    /// How many trials there are; `None` where nobody knows.
    total: Option<usize>,
    done: usize,
    drawing: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

const REDRAW: Duration = Duration::from_millis(100);

impl Watcher {
    pub(super) fn new(quiet: bool, total: Option<usize>) -> Self {
        Self {
            live: !quiet && io::stderr().is_terminal(),
            total,
            done: 0,
            drawing: None,
        }
    }

    pub(super) fn on(&mut self, event: &Event<'_>) {
        match event {
            Event::Begins { trial, progress } => {
                self.done += 1;
                if self.live {
                    let of = self
                        .total
                        .map_or_else(String::new, |total| format!("/{total}"));
                    let label = format!("[{}{of}] {}", self.done, trial.arm.name);
                    let of = trial.arm.settings.client.attempts();
                    self.drawing = Some(draw(label, of, Arc::clone(progress)));
                }
            }
            Event::Ended(observation) => {
                self.stop();
                if let (Some(reason), true) = (
                    &observation.reason,
                    observation.status != TrialStatus::Measured,
                ) {
                    eprintln!("{}: {reason}", observation.arm);
                }
            }
        }
    }

    fn stop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            // A drawing thread that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Draws the counts in place until the sender is dropped, then clears the line.
fn draw(
    label: String,
    of: Option<u32>,
    progress: Arc<Progress>,
) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel();
    let thread = thread::spawn(move || {
        let mut out = io::stderr();
        let of = of.map_or_else(String::new, |of| format!("/{of}"));
        while stopped.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            let [connected, answered, ended] = progress.counts();
            let line = format!("{label}  {connected} connected  {answered} ok  {ended}{of} ended");
            let _ = write!(out, "\r\x1b[K{}", line.chars().take(79).collect::<String>());
            let _ = out.flush();
        }
        let _ = write!(out, "\r\x1b[K");
        let _ = out.flush();
    });
    (stop, thread)
}
