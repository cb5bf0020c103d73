//! One monotonic origin per trial.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Microseconds since the trial's origin.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The instant from which it counts.
    pub const fn origin(self) -> Instant {
        self.origin
    }

    /// The time on it.
    pub fn now_us(self) -> u64 {
        as_us(self.origin.elapsed())
    }

    /// How long it is until `at_us`; zero when that has passed.
    pub fn until(self, at_us: u64) -> Duration {
        Duration::from_micros(at_us).saturating_sub(self.origin.elapsed())
    }

    /// Lets the calling thread sleep until `at_us`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the times of an experiment are kept here"
    )]
    pub fn sleep_until(self, at_us: u64) {
        loop {
            let rest = self.until(at_us);
            if rest.is_zero() {
                return;
            }
            std::thread::sleep(rest);
        }
    }
}

fn as_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Processor time that the calling thread has used; `None` where the kernel does not tell.
pub(super) fn thread_cpu_us() -> Option<u64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some(as_us(Duration::from(time)))
}

/// What it has used since a reading of [`thread_cpu_us`].
pub(super) fn thread_cpu_since(before_us: Option<u64>) -> Option<u64> {
    let after_us = thread_cpu_us()?;
    before_us.map(|before_us| after_us - before_us)
}
