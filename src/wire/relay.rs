//! The relay: a thread that takes every packet from one end and gives it to the other when it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::prctl;
use nix::time::{ClockId, clock_gettime};

use super::capture::{Frames, pcapng};
use super::model::Model;
use super::segment::Segment;
use super::{Cpus, WireError};
use crate::arm::{End, WireSpec};
use crate::observation::{Packet, Verdict, WireLog};
use crate::sys::{self, PacketSocket};

/// The relay's two sockets, open and receiving.
pub struct Relay {
    server: PacketSocket,
    client: PacketSocket,
}

/// A relay at work.
pub struct Running {
    stop: Arc<AtomicBool>,
    begun: Instant,
    thread: Option<JoinHandle<Result<Log, WireError>>>,
}

/// So long before a packet is due the relay waits in a loop, for a sleeping thread wakes up late. It must not loop
/// more than it has to: where it leaves ordinary threads no time, the kernel stops it for some of every second.
const SPIN_NS: u64 = 20_000;
/// As long as this after the last packet it looks for the next one without sleeping.
const ALERT_NS: u64 = 20_000;
/// Frames that are taken from one end before the other end has its turn.
const BATCH: usize = 64;
/// A look at the stop sign at least this often.
const LONGEST_SLEEP_NS: u64 = 20_000_000;
/// How long the relay goes on after its stop for packets that are under way, beside twice the delay.
const LAST_PACKETS_NS: u64 = 100_000_000;

impl Relay {
    /// Opens it on two interfaces of the calling thread's namespace.
    ///
    /// # Errors
    /// A socket that could not be opened.
    pub fn open(server: u32, client: u32, protocol: u16) -> Result<Self, WireError> {
        let open = |index| {
            PacketSocket::open(index, protocol).map_err(WireError::io("open a packet socket"))
        };
        Ok(Self {
            server: open(server)?,
            client: open(client)?,
        })
    }

    /// Sets it to work on a thread of its own.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        self,
        spec: WireSpec,
        seed: u64,
        cpus: Option<Cpus>,
        capture_bytes: usize,
    ) -> Result<Running, WireError> {
        let stop = Arc::new(AtomicBool::new(false));
        let begun = Instant::now();
        let cpu = cpus.as_ref().map(Cpus::relay);
        let longest = [End::Server, End::Client].map(|to| {
            let here = spec.towards(to);
            (here.delay.as_us() + here.jitter.as_us()) * 1_000
        });
        let mut work = Work {
            relay: self,
            model: Model::new(spec, seed),
            stop: Arc::clone(&stop),
            begun,
            patience_ns: LAST_PACKETS_NS + 2 * longest.into_iter().max().unwrap_or(0),
            under_way: BinaryHeap::new(),
            log: Log {
                cpu,
                packets: Vec::new(),
                frames: Frames::with_limit(capture_bytes),
                overruns: 0,
                unsent: (0, None),
            },
        };
        let body = move || {
            if let Some(cpus) = cpus {
                cpus.enter()?;
            }
            // Refused, these cost accuracy, and accuracy is measured. The default slack makes a sleep 50 us late.
            let _ = prctl::set_timerslack(1);
            let _ = sys::run_promptly();
            work.run()?;
            Ok(work.log)
        };
        let thread = thread::Builder::new()
            .name("relay".into())
            .spawn(body)
            .map_err(WireError::io("start the relay's thread"))?;
        Ok(Running {
            stop,
            begun,
            thread: Some(thread),
        })
    }
}

impl Running {
    /// Waits for the packets that are under way, within reason, and stops. Times count from `origin`.
    ///
    /// # Errors
    /// The relay failed.
    pub fn stop(mut self, origin: Instant) -> Result<WireLog, WireError> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        let Some(Ok(log)) = ended else {
            return Err(WireError::Thread("it panicked".into()));
        };
        let log = log?;
        let before_us = origin.saturating_duration_since(self.begun).as_micros();
        log.since(u64::try_from(before_us).unwrap_or(u64::MAX))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Dropped without `stop`, the trial has failed already, with an error of its own.
            let _ = thread.join();
        }
    }
}

/// What the relay notes while it works. Times are nanoseconds since it began.
struct Log {
    cpu: Option<usize>,
    packets: Vec<Entry>,
    frames: Frames,
    overruns: u64,
    unsent: (u64, Option<String>),
}

struct Entry {
    at_ns: u64,
    to: End,
    segment: Segment,
    verdict: Verdict,
    due_ns: Option<u64>,
    sent_ns: Option<u64>,
}

impl Log {
    fn since(self, origin_us: u64) -> Result<WireLog, WireError> {
        let us = |ns: u64| (ns / 1_000).saturating_sub(origin_us);
        let packets: Vec<Packet> = self
            .packets
            .iter()
            .map(|entry| Packet {
                at_us: us(entry.at_ns),
                to: entry.to,
                client_port: entry.segment.client_port(entry.to),
                flags: entry.segment.flags,
                seq: entry.segment.seq,
                ack: entry.segment.ack,
                length: entry.segment.length,
                verdict: entry.verdict,
                due_us: entry.due_ns.map(us),
                sent_us: entry.sent_ns.map(us),
            })
            .collect();
        let capture = if self.frames.is_empty() {
            Vec::new()
        } else {
            pcapng(&packets, &self.frames).map_err(WireError::io("write the capture"))?
        };
        Ok(WireLog {
            cpu: self.cpu,
            overruns: self.overruns,
            unsent: self.unsent,
            captured: self.frames.len(),
            packets,
            capture,
        })
    }
}

/// A packet under way; the earliest due comes first, and among equals the earliest that came.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due_ns: u64,
    packet: usize,
    frame: Box<[u8]>,
}

struct Work {
    relay: Relay,
    model: Model,
    stop: Arc<AtomicBool>,
    begun: Instant,
    patience_ns: u64,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    log: Log,
}

impl Work {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn run(&mut self) -> Result<(), WireError> {
        let (mut busy_ns, mut stopped_ns) = (0, None);
        loop {
            self.send_what_is_due();
            let received = self.receive(End::Server)? + self.receive(End::Client)?;
            let now_ns = self.now_ns();
            if received > 0 {
                busy_ns = now_ns;
                continue;
            }
            if self.stop.load(Ordering::Relaxed) {
                let deadline_ns = *stopped_ns.get_or_insert(now_ns + self.patience_ns);
                if self.under_way.is_empty() || now_ns >= deadline_ns {
                    return self.count_overruns();
                }
            }
            let due_ns = self.under_way.peek().map(|Reverse(next)| next.due_ns);
            let until_ns = due_ns.unwrap_or(u64::MAX).saturating_sub(SPIN_NS);
            if now_ns < until_ns && now_ns >= busy_ns + ALERT_NS {
                self.sleep((until_ns - now_ns).min(LONGEST_SLEEP_NS))?;
            }
        }
    }

    fn send_what_is_due(&mut self) {
        while let Some(next) = self.under_way.peek_mut() {
            let now_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if next.0.due_ns > now_ns {
                return;
            }
            let Reverse(next) = std::collections::binary_heap::PeekMut::pop(next);
            let entry = &mut self.log.packets[next.packet];
            let socket = match entry.to {
                End::Server => &self.relay.server,
                End::Client => &self.relay.client,
            };
            for _ in 0..entry.verdict.copies() {
                match socket.send(&next.frame) {
                    Ok(()) => entry.sent_ns = Some(now_ns),
                    Err(error) => {
                        self.log.unsent.0 += 1;
                        self.log.unsent.1.get_or_insert_with(|| error.to_string());
                    }
                }
            }
        }
    }

    /// Takes in what has come from the other end than `to`. What is no TCP segment passes at once and is not
    /// noted, and what is for everybody, the chatter of the ends' own interfaces, goes nowhere.
    fn receive(&mut self, to: End) -> Result<usize, WireError> {
        let mut received = 0;
        while received < BATCH {
            let Relay { server, client } = &mut self.relay;
            let (from, other) = match to {
                End::Server => (client, server),
                End::Client => (server, client),
            };
            let Some(frame) = from.receive() else {
                break;
            };
            received += 1;
            let Some(segment) = Segment::parse(frame.bytes) else {
                let is_for_one = frame.bytes.first().is_some_and(|byte| byte & 1 == 0);
                if is_for_one {
                    // Should it get lost, its sender has to send it again, as over any wire.
                    let _ = other.send(frame.bytes);
                }
                continue;
            };
            // The kernel's stamp is on the wall clock; only the packet's age is taken from it.
            let wall: Duration = clock_gettime(ClockId::CLOCK_REALTIME)
                .map_err(|errno| WireError::io("read the clock")(errno.into()))?
                .into();
            let age = wall.saturating_sub(frame.at);
            let at = self.begun.elapsed().saturating_sub(age);
            let at_ns = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
            let fate = self.model.decide(to, at_ns, frame.bytes.len(), &segment);
            if let Some(due_ns) = fate.due_ns {
                self.under_way.push(Reverse(UnderWay {
                    due_ns,
                    packet: self.log.packets.len(),
                    frame: frame.bytes.into(),
                }));
            }
            self.log.frames.keep(frame.bytes);
            self.log.packets.push(Entry {
                at_ns,
                to,
                segment,
                verdict: fate.verdict,
                due_ns: fate.due_ns,
                sent_ns: None,
            });
        }
        Ok(received)
    }

    fn sleep(&self, ns: u64) -> Result<(), WireError> {
        let ends = [&self.relay.server, &self.relay.client];
        let mut poll = ends.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
        let waited = sys::wait(&mut poll, Some(Duration::from_nanos(ns)));
        waited
            .map(drop)
            .map_err(|errno| WireError::io("wait for packets")(errno.into()))
    }

    fn count_overruns(&mut self) -> Result<(), WireError> {
        for socket in [&self.relay.server, &self.relay.client] {
            let more: io::Result<u32> = socket.overruns();
            self.log.overruns += u64::from(more.map_err(WireError::io("count lost packets"))?);
        }
        Ok(())
    }
}
