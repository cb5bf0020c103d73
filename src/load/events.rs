//! The event-driven engine: a task of two kilobytes for each attempt that is under way.
//!
//! What an attempt does, records and leaves behind is [`Running`]'s, as with threads; here is only who waits for what.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use nix::poll::PollFlags;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;
use tokio::task::{JoinError, JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use super::Clock;
use super::attempt::{Close, Done, Running, Step};
use super::flood::{FloodError, Share, Shared};
use super::schedule::{Last, Turn};
use super::target::Target;
use crate::observation::Attempt;
use crate::sys;

/// Carries out one of so many `parts` of the flood on the calling thread, and so in its namespace.
pub(super) fn run(
    shared: &Arc<Shared>,
    part: u32,
    parts: u32,
    clock: Clock,
) -> Result<Share, FloodError> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(io::Error::from)?;
    runtime.block_on(async {
        let engine = Engine {
            shared,
            clock,
            turns: BinaryHeap::new(),
            tasks: JoinSet::new(),
            share: Share::default(),
            alarm: Alarm::new(&timer)?,
        };
        let interrupt = shared.target.interrupt.fd();
        let interrupt = interrupt.map(|fd| sys::watch(fd, Interest::READABLE));
        let interrupt = interrupt.transpose()?;
        let workers = (part..shared.spec.tasks()).step_by(parts as usize);
        let mut flood = pin!(engine.flood(workers));
        let ended = poll_fn(|context| {
            let raised = interrupt.as_ref().map(|fd| fd.poll_read_ready(context));
            match raised {
                Some(Poll::Ready(raised)) => {
                    Poll::Ready(raised.map(|_| Share::default()).map_err(FloodError::from))
                }
                _ => flood.as_mut().poll(context),
            }
        });
        ended.await
    })
}

/// So many attempts are begun, where they are due, before the others are looked at: each look is a system call.
const STARTS_AT_ONCE: u32 = 4;

/// What one thread carries out of a flood.
struct Engine<'a> {
    shared: &'a Arc<Shared>,
    clock: Clock,
    /// The turns that workers have taken and not begun, the next on top, and whose they are.
    turns: BinaryHeap<Reverse<(Turn, u32)>>,
    tasks: JoinSet<Brought>,
    share: Share,
    alarm: Alarm<'a>,
}

/// What a task brings home.
struct Brought {
    attempt: Attempt,
    /// A connection that is to be held until the trial has been read.
    held: Option<Arc<Socket>>,
    /// The requests that the attempt has left over.
    left: u32,
    /// Whose turn it was.
    worker: u32,
}

impl Engine<'_> {
    /// Begins every attempt of these workers at its time, in the order of those times.
    async fn flood(mut self, workers: impl Iterator<Item = u32>) -> Result<Share, FloodError> {
        let mut started = 0_u32;
        for worker in workers {
            let turn = self.shared.schedule.turn(worker, None, self.clock.now_us());
            self.turns.extend(turn.map(|turn| Reverse((turn, worker))));
        }
        while !(self.turns.is_empty() && self.tasks.is_empty()) {
            let next = self.turns.peek().map(|Reverse(turn)| *turn);
            match next {
                Some((turn, worker)) if self.clock.until(turn.intended_us).is_zero() => {
                    self.turns.pop();
                    let target = &self.shared.target;
                    let step = Running::begin(turn, target, self.clock);
                    let shared = Arc::clone(self.shared);
                    self.tasks
                        .spawn(see_through(shared, step, worker, self.clock));
                    started = started.wrapping_add(1);
                    if !started.is_multiple_of(STARTS_AT_ONCE) {
                        continue;
                    }
                    // Those that have become ready meanwhile come first.
                    yield_now().await;
                    while let Some(brought) = self.tasks.try_join_next() {
                        self.take_in(brought)?;
                    }
                }
                _ => self.wait(next.map(|(turn, _)| turn.intended_us)).await?,
            }
        }
        Ok(self.share)
    }

    /// Waits until an attempt is due or another has ended.
    async fn wait(&mut self, due_us: Option<u64>) -> Result<(), FloodError> {
        if let Some(due_us) = due_us {
            self.alarm.set(due_us, self.clock)?;
        }
        let (tasks, alarm) = (&mut self.tasks, &mut self.alarm);
        let brought = poll_fn(|context| match tasks.poll_join_next(context) {
            Poll::Ready(Some(brought)) => Poll::Ready(Ok(Some(brought))),
            _ => alarm.poll(context).map_ok(|()| None),
        });
        match brought.await? {
            Some(brought) => self.take_in(brought),
            None => Ok(()),
        }
    }

    /// Takes in an attempt; its worker is free for what it has left over, or for the next.
    fn take_in(&mut self, brought: Result<Brought, JoinError>) -> Result<(), FloodError> {
        let Brought {
            attempt,
            held,
            left,
            worker,
        } = brought.map_err(|error| FloodError::Worker(error.to_string()))?;
        let (schedule, now_us) = (&self.shared.schedule, self.clock.now_us());
        let last = Some(Last::from(&attempt));
        let turn = schedule
            .again(left, now_us)
            .or_else(|| schedule.turn(worker, last, now_us));
        self.turns.extend(turn.map(|turn| Reverse((turn, worker))));
        self.share.attempts.push(attempt);
        self.share.held.extend(held);
        Ok(())
    }
}

/// Sees an attempt that has begun through to its end, and to the close of its connection.
async fn see_through(shared: Arc<Shared>, mut step: Step, worker: u32, clock: Clock) -> Brought {
    let target = &shared.target;
    let Done {
        record,
        socket,
        close,
        left,
    } = loop {
        match step {
            Step::Goes(running) => step = to_its_end(running, target, clock).await,
            Step::Ended(done) => break done,
        }
    };
    target.progress.ended(&record);
    let mut held = None;
    match close {
        Close::Now => drop(socket),
        Close::AtUs(at_us) => {
            sleep(clock.until(at_us)).await;
            drop(socket);
        }
        Close::Last => held = socket,
    }
    Brought {
        attempt: record,
        held,
        left,
        worker,
    }
}

/// Waits for the socket, step by step. It is closed only when it is no longer registered.
async fn to_its_end(mut running: Running, target: &Target, clock: Clock) -> Step {
    let socket = running.socket();
    loop {
        let interest = running.interest();
        let watched = if interest == PollFlags::POLLOUT {
            Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let fd = match sys::watch(socket.as_fd(), watched) {
            Ok(fd) => fd,
            Err(error) => return running.failed(&error, clock),
        };
        while running.interest() == interest {
            let step = match timeout(running.time_left(clock), fd.ready(watched)).await {
                Ok(Ok(mut ready)) => {
                    // A step goes on until the socket has nothing more for it.
                    let step = running.ready(target, clock);
                    ready.clear_ready();
                    step
                }
                Ok(Err(error)) => running.failed(&error, clock),
                Err(_) if running.time_left(clock).is_zero() => running.expired(target, clock),
                Err(_) => Step::Goes(running),
            };
            match step {
                Step::Goes(on) => running = on,
                ended @ Step::Ended(..) => return ended,
            }
        }
    }
}

/// Wakes the engine's thread to the microsecond: the runtime's own clock counts milliseconds, and starts that it
/// gathered would come as bursts.
struct Alarm<'a> {
    timer: &'a TimerFd,
    rings: AsyncFd<BorrowedFd<'a>>,
    set_us: Option<u64>,
}

impl<'a> Alarm<'a> {
    fn new(timer: &'a TimerFd) -> io::Result<Self> {
        Ok(Self {
            timer,
            rings: sys::watch(timer.as_fd(), Interest::READABLE)?,
            set_us: None,
        })
    }

    /// Sets it to a time that is still to come; one that has passed meanwhile rings at once.
    fn set(&mut self, at_us: u64, clock: Clock) -> io::Result<()> {
        if self.set_us != Some(at_us) {
            // Zero would turn it off.
            let rest = clock.until(at_us).max(Duration::from_nanos(1));
            let once = Expiration::OneShot(TimeSpec::from_duration(rest));
            self.timer.set(once, TimerSetTimeFlags::empty())?;
            self.set_us = Some(at_us);
        }
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.rings.poll_read_ready(context).map_ok(|mut ready| {
            ready.clear_ready();
            self.set_us = None;
        })
    }
}
