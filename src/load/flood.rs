//! The flood client: many attempts, from many threads at once or from one thread in order.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use socket2::Socket;

use super::attempt::{Close, Done, Running, Step};
use super::clock::{thread_cpu_since, thread_cpu_us};
use super::schedule::{Last, Turn};
use super::target::{Progress, Target};
use super::{Clock, Schedule, events};
use crate::arm::{ClientSpec, Engine, Loop, Start};
use crate::observation::Attempt;
use crate::sys;

/// A flood that could not be raised.
#[derive(Debug, thiserror::Error)]
pub enum FloodError {
    /// A worker thread could not be started.
    #[error(
        "cannot start client thread {number} of {wanted}: {source}; ask for fewer client.workers, or raise the limit (ulimit -u)"
    )]
    Thread {
        /// Its number, from 1.
        number: u32,
        /// How many were wanted.
        wanted: u32,
        /// Why.
        source: std::io::Error,
    },
    /// The event loop could not be set up or could not wait.
    #[error("the client's event loop failed: {0}")]
    Events(#[from] std::io::Error),
    /// A worker thread panicked or could not wait.
    #[error("a client thread failed: {0}")]
    Worker(String),
}

/// Worker threads that wait for their release.
pub struct Flood {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<Result<Share, FloodError>>>,
    /// Why there are not more workers.
    problem: Option<FloodError>,
}

pub(super) struct Shared {
    pub(super) target: Target,
    pub(super) spec: ClientSpec,
    pub(super) schedule: Schedule,
    gate: Gate,
}

/// What one worker brings home.
#[derive(Default)]
pub(super) struct Share {
    pub(super) attempts: Vec<Attempt>,
    pub(super) held: Vec<Arc<Socket>>,
    /// Answered connections that are kept open, with their time to close; the first is the next.
    kept: VecDeque<(u64, Arc<Socket>)>,
    cpu_us: Option<u64>,
    /// The requests that the last attempt has left over.
    left: u32,
}

/// What a flood brings home.
#[derive(Default)]
pub struct Harvest {
    /// Every attempt, by number.
    pub attempts: Vec<Attempt>,
    /// Connections of silent clients, open until this is dropped.
    pub held: Vec<Arc<Socket>>,
    /// The workers' processor time.
    pub cpu_us: Option<u64>,
    /// Looks at the server's side that failed.
    pub blind: Vec<String>,
    /// Threads that attempted connections.
    pub workers: u32,
    /// Why there were not more.
    pub problem: Option<String>,
    /// Attempts of an open loop that found no thread free at their time.
    pub starved: u32,
}

/// The barrier at which the workers wait for the trial's clock, or for the word that there will be none.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    waiting: u32,
    decision: Option<Release>,
}

/// The word that the workers wait for.
#[derive(Clone, Copy)]
enum Release {
    /// Go, by this clock.
    Go(Clock),
    /// There will be no trial.
    Home,
}

impl Gate {
    fn pass(&self) -> Release {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        self.changed.notify_all();
        loop {
            if let Some(decision) = state.decision {
                return decision;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_for(&self, workers: u32) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting < workers {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many have come to it.
    fn waiting(&self) -> u32 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting
    }

    fn open(&self, decision: Release) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .decision = Some(decision);
        self.changed.notify_all();
    }
}

impl Flood {
    /// Starts the workers and waits until each stands at the barrier. They stay in the caller's namespace.
    /// Where the machine allows fewer threads, there are fewer, and the harvest says so.
    ///
    /// # Errors
    /// Not even one thread could be started.
    pub fn prepare(
        spec: &ClientSpec,
        schedule: Schedule,
        target: Target,
    ) -> Result<Self, FloodError> {
        const STACK: usize = 128 * 1024;
        let floods = spec.pacing() == Loop::Flood;
        let wanted = match (spec.engine, spec.start) {
            // One for each processor, where a load lasts; a flood has its order.
            (Engine::Async, Start::Together) if !floods => processors().min(spec.tasks()),
            _ => spec.threads(),
        };
        // The clients of a flood stand for other machines: without this a hundred threads run before the accept
        // loop's first turn. A load that lasts is held against the server's own pace, and both share the machine.
        let gives_way = floods && spec.start == Start::Together && spec.tasks() > 1;
        let mut flood = Self {
            shared: Arc::new(Shared {
                target,
                spec: spec.clone(),
                schedule,
                gate: Gate::default(),
            }),
            workers: Vec::new(),
            problem: None,
        };
        for number in 1..=wanted {
            let shared = Arc::clone(&flood.shared);
            let worker = thread::Builder::new()
                .name(format!("client-{number}"))
                .stack_size(STACK)
                .spawn(move || {
                    // Refused, they only run as before.
                    if gives_way {
                        drop(sys::give_way());
                    }
                    shared.work(number - 1)
                })
                .map_err(|source| FloodError::Thread {
                    number,
                    wanted,
                    source,
                });
            match worker {
                Ok(worker) => flood.workers.push(worker),
                Err(error) if flood.workers.is_empty() => return Err(error),
                Err(error) => {
                    flood.problem = Some(error);
                    break;
                }
            }
        }
        flood.shared.gate.wait_for(flood.running());
        Ok(flood)
    }

    /// How many workers there are.
    fn running(&self) -> u32 {
        u32::try_from(self.workers.len()).unwrap_or(u32::MAX)
    }

    /// Lets the workers go.
    pub fn release(&self, clock: Clock) {
        self.shared.gate.open(Release::Go(clock));
    }

    /// Waits for the last attempt.
    ///
    /// # Errors
    /// A worker that failed.
    pub fn join(mut self) -> Result<Harvest, FloodError> {
        let mut harvest = Harvest {
            attempts: Vec::new(),
            held: Vec::new(),
            cpu_us: Some(0),
            blind: Vec::new(),
            workers: self.running(),
            problem: self.problem.as_ref().map(ToString::to_string),
            starved: 0,
        };
        let mut failure = None;
        for worker in self.workers.drain(..) {
            match worker.join() {
                Ok(Ok(share)) => {
                    harvest.attempts.extend(share.attempts);
                    harvest.held.extend(share.held);
                    harvest.cpu_us = harvest
                        .cpu_us
                        .zip(share.cpu_us)
                        .map(|(sum, more)| sum + more);
                }
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(FloodError::Worker("it panicked".into())),
            }
        }
        if let Some(error) = failure {
            Err(error)
        } else {
            harvest.attempts.sort_by_key(|attempt| attempt.n);
            harvest.starved = self.shared.schedule.starved();
            let blind = self.shared.target.blind.lock();
            harvest.blind = std::mem::take(&mut *blind.unwrap_or_else(PoisonError::into_inner));
            Ok(harvest)
        }
    }
}

impl Drop for Flood {
    /// Workers that were never released are sent home.
    fn drop(&mut self) {
        if !self.workers.is_empty() {
            self.shared.gate.open(Release::Home);
        }
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// Processors that this process may use; one, where the system does not tell.
fn processors() -> u32 {
    let count = thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Shared {
    /// The work of a worker, numbered from 0.
    fn work(self: &Arc<Self>, worker: u32) -> Result<Share, FloodError> {
        let Release::Go(clock) = self.gate.pass() else {
            return Ok(Share::default());
        };
        let before = thread_cpu_us();
        let mut share = match (self.spec.engine, self.spec.start) {
            (Engine::Async, _) => events::run(self, worker, self.gate.waiting(), clock),
            (Engine::Threads, Start::Together) => self.in_turn(worker, clock),
            (Engine::Threads, Start::OneByOne) => self.all_from_one_thread(clock),
        }?;
        share.cpu_us = thread_cpu_since(before);
        Ok(share)
    }

    /// One attempt after the other, as long as there are any left for this worker.
    fn in_turn(&self, worker: u32, clock: Clock) -> Result<Share, FloodError> {
        let mut share = Share::default();
        while let Some(turn) = self.next_turn(worker, &mut share, clock) {
            let rest = clock.until(turn.intended_us);
            if !rest.is_zero() && self.wait(&mut Vec::new(), rest)? == Wake::Interrupted {
                return Ok(share);
            }
            let mut step = Running::begin(turn, &self.target, clock);
            while let Some(running) = share.take(step, &self.target.progress) {
                let rest = running.time_left(clock);
                let mut poll = vec![PollFd::new(running.fd(), running.interest())];
                step = match self.wait(&mut poll, rest)? {
                    Wake::Interrupted => return Ok(share),
                    Wake::Ready => running.ready(&self.target, clock),
                    Wake::Nothing if running.time_left(clock).is_zero() => {
                        running.expired(&self.target, clock)
                    }
                    Wake::Nothing => Step::Goes(running),
                };
            }
            while let Some(rest) = share.close_kept(clock) {
                if self.wait(&mut Vec::new(), rest)? == Wake::Interrupted {
                    return Ok(share);
                }
            }
        }
        Ok(share)
    }

    /// What a worker does next: what its last attempt has left over, or an attempt whose turn it is.
    fn next_turn(&self, worker: u32, share: &mut Share, clock: Clock) -> Option<Turn> {
        let now_us = clock.now_us();
        let again = self.schedule.again(std::mem::take(&mut share.left), now_us);
        let last = share.attempts.last().map(Last::from);
        again.or_else(|| self.schedule.turn(worker, last, now_us))
    }

    /// All attempts from this thread: each connect is sent in its turn, none waits for another.
    fn all_from_one_thread(&self, clock: Clock) -> Result<Share, FloodError> {
        let (target, progress) = (&self.target, &self.target.progress);
        let mut share = Share::default();
        let mut running: Vec<Running> = Vec::new();
        let mut next = 0;
        loop {
            while let Some(turn) = self.schedule.planned(next)
                && clock.until(turn.intended_us).is_zero()
            {
                let step = Running::begin(turn, target, clock);
                running.extend(share.take(step, progress));
                next += 1;
            }
            let upcoming = self.schedule.planned(next);
            let upcoming = upcoming.map(|turn| clock.until(turn.intended_us));
            let rest = running
                .iter()
                .map(|one| one.time_left(clock))
                .chain(upcoming)
                .chain(share.close_kept(clock))
                .min();
            let Some(rest) = rest else {
                return Ok(share);
            };
            let mut poll: Vec<PollFd<'_>> = running
                .iter()
                .map(|one| PollFd::new(one.fd(), one.interest()))
                .collect();
            if self.wait(&mut poll, rest)? == Wake::Interrupted {
                return Ok(share);
            }
            let ready: Vec<bool> = poll.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            for (one, is_ready) in std::mem::take(&mut running).into_iter().zip(ready) {
                let step = if is_ready {
                    one.ready(target, clock)
                } else if one.time_left(clock).is_zero() {
                    one.expired(target, clock)
                } else {
                    Step::Goes(one)
                };
                running.extend(share.take(step, progress));
                let left = std::mem::take(&mut share.left);
                if let Some(turn) = self.schedule.again(left, clock.now_us()) {
                    let step = Running::begin(turn, target, clock);
                    running.extend(share.take(step, progress));
                }
            }
        }
    }
}

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// A socket is ready.
    Ready,
    /// The time has passed.
    Nothing,
    /// The trial is to end.
    Interrupted,
}

impl Shared {
    /// Polls for at most `rest`. The interruption's descriptor is added behind the sockets.
    fn wait<'a>(&'a self, poll: &mut Vec<PollFd<'a>>, rest: Duration) -> Result<Wake, FloodError> {
        let sockets = poll.len();
        poll.extend(
            self.target
                .interrupt
                .fd()
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN)),
        );
        if let Err(errno) = ppoll(poll, Some(TimeSpec::from_duration(rest)), None)
            && errno != Errno::EINTR
        {
            return Err(FloodError::Worker(format!("poll: {errno}")));
        }
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        Ok(match poll.split_at(sockets) {
            (_, interrupt) if interrupt.iter().any(ready) => Wake::Interrupted,
            (sockets, _) if sockets.iter().any(ready) => Wake::Ready,
            _ => Wake::Nothing,
        })
    }
}

impl Share {
    /// Takes in an attempt that has ended; hands back one that goes on.
    fn take(&mut self, step: Step, progress: &Progress) -> Option<Running> {
        match step {
            Step::Goes(running) => Some(running),
            Step::Ended(Done {
                record,
                socket,
                close,
                left,
            }) => {
                progress.ended(&record);
                self.attempts.push(record);
                self.left = left;
                match close {
                    Close::Now => drop(socket),
                    Close::AtUs(at_us) => self.kept.extend(socket.map(|one| (at_us, one))),
                    Close::Last => self.held.extend(socket),
                }
                None
            }
        }
    }

    /// Closes what has been kept long enough. How long it is until the next is due; `None` when nothing is kept.
    fn close_kept(&mut self, clock: Clock) -> Option<Duration> {
        while let Some((at_us, _)) = self.kept.front() {
            let rest = clock.until(*at_us);
            if !rest.is_zero() {
                return Some(rest);
            }
            self.kept.pop_front();
        }
        None
    }
}
