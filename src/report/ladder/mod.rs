//! Ladders: one client's connection as a sequence of events between the two ends, in order of time.
//!
//! Every event stands in a record: a packet of the wire, the client's own times, the server's log, a look at
//! the listener. Without a wire there are no packets to show.

mod text;

use std::fmt;

pub use text::{LEGEND, text};

use crate::arm::{End, Flags};
use crate::observation::{Attempt, Ended, Measured, Observation, Packet, Verdict};
use crate::result::{Cause, Fate, Outcome, Owners, explain, join, outcome};

/// What became of a client, as far as a ladder can show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Story {
    /// Answered, and nothing had to be repeated.
    AnsweredAtOnce,
    /// Answered, after its SYN had been repeated.
    AnsweredAfterRetry,
    /// Answered, after its final ACK or its data had been dropped.
    RescuedGhost,
    /// Never connected.
    ConnectTimeout,
    /// Connected, and the server had never heard of it.
    GhostByCookie,
    /// Connected, and half-open at the server.
    GhostByDroppedAck,
    /// Reset.
    Reset,
    /// Refused.
    Refused,
    /// Not answered for another cause.
    Other(Cause),
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnsweredAtOnce => "answered at once",
            Self::AnsweredAfterRetry => "answered after a SYN retry",
            Self::RescuedGhost => "rescued ghost",
            Self::ConnectTimeout => "connect timeout",
            Self::GhostByCookie => Cause::CookieAckDropped.label(),
            Self::GhostByDroppedAck => Cause::FinalAckDropped.label(),
            Self::Reset => "reset",
            Self::Refused => "refused",
            Self::Other(cause) => cause.label(),
        })
    }
}

/// One connection's ladder.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    /// The arm's full name.
    pub arm: String,
    /// The trial's number.
    pub trial: u32,
    /// The attempt's number.
    pub connection: u32,
    /// What became of it.
    pub story: Story,
    /// Why it was not answered.
    pub cause: Option<Cause>,
    /// Whether packets were recorded.
    pub has_packets: bool,
    /// How long it took from its start until the client was connected, in microseconds.
    pub connected_us: Option<u64>,
    /// How long it took from its start to its end, in microseconds.
    pub ended_us: u64,
    /// The events in order of time.
    pub rungs: Vec<Rung>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rung {
    /// What happened.
    pub event: Event,
    /// The accept queue at the last look before the event reached the server, and how many it holds.
    pub queue: Option<(u32, u32)>,
}

/// What happened at one end, or between them. Times are microseconds since the clients' release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A packet was sent.
    Packet(Sent),
    /// Something happened at one end.
    At(Moment),
}

/// A packet on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Where to.
    pub to: End,
    /// Its flags.
    pub flags: Flags,
    /// What it was, in words.
    pub label: String,
    /// When it was sent.
    pub sent_us: u64,
    /// When it arrived, if it did.
    pub arrived_us: Option<u64>,
    /// What the relay decided.
    pub verdict: Verdict,
}

impl Sent {
    /// What became of it in words; empty where it simply arrived.
    pub(super) const fn lot(&self) -> &'static str {
        match self.verdict {
            Verdict::Passed if self.arrived_us.is_some() => "",
            Verdict::Duplicated if self.arrived_us.is_some() => "twice",
            Verdict::Passed | Verdict::Duplicated => "under way",
            Verdict::Lost => "lost",
            Verdict::DroppedByRule => "dropped by rule",
            Verdict::QueueFull => "queue full",
        }
    }
}

/// Something that happened at one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Which.
    pub end: End,
    /// When.
    pub at_us: u64,
    /// What, in words.
    pub label: String,
}

impl Event {
    /// When it began.
    pub(super) fn begins_us(&self) -> u64 {
        match self {
            Self::Packet(packet) => packet.sent_us,
            Self::At(moment) => moment.at_us,
        }
    }

    /// When it was felt at the server.
    fn at_the_server_us(&self) -> Option<u64> {
        match self {
            Self::Packet(packet) => match packet.to {
                End::Server => packet.arrived_us,
                End::Client => Some(packet.sent_us),
            },
            Self::At(moment) => (moment.end == End::Server).then_some(moment.at_us),
        }
    }
}

/// The ladder of every attempt of a trial that is asked for.
pub struct Ladders<'a> {
    observation: &'a Observation,
    measured: &'a Measured,
    fates: Vec<Fate>,
    causes: Vec<Option<Cause>>,
    packets: Vec<Vec<&'a Packet>>,
}

impl<'a> Ladders<'a> {
    /// Those of a trial; `None` when nothing was measured.
    pub fn of(observation: &'a Observation) -> Option<Self> {
        let measured = observation.measured.as_ref()?;
        let (fates, _) = join(measured);
        let causes = explain(measured, &fates);
        let mut packets: Vec<Vec<&Packet>> = vec![Vec::new(); measured.attempts.len()];
        let owners = Owners::of(measured);
        for packet in measured.wire.iter().flat_map(|wire| &wire.packets) {
            if let Some(n) = owners.owner(packet) {
                packets[n].push(packet);
            }
        }
        Some(Self {
            observation,
            measured,
            fates,
            causes: causes
                .into_iter()
                .map(|one| one.map(|one| one.cause))
                .collect(),
            packets,
        })
    }

    /// How many attempts there are.
    pub fn len(&self) -> usize {
        self.measured.attempts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.measured.attempts.is_empty()
    }

    /// Whether packets were recorded.
    pub fn has_packets(&self) -> bool {
        self.measured.wire.is_some()
    }

    /// What became of attempt `n`.
    pub fn story(&self, n: usize) -> Story {
        let attempt = &self.measured.attempts[n];
        match (outcome(attempt), self.causes[n]) {
            (Outcome::Ok, _) => self.answered(n),
            (Outcome::ConnectTimeout, _) => Story::ConnectTimeout,
            (Outcome::Reset, _) => Story::Reset,
            (Outcome::Refused, _) => Story::Refused,
            (_, Some(Cause::CookieAckDropped)) => Story::GhostByCookie,
            (_, Some(Cause::FinalAckDropped)) => Story::GhostByDroppedAck,
            (_, cause) => Story::Other(cause.unwrap_or(Cause::Unexplained)),
        }
    }

    fn answered(&self, n: usize) -> Story {
        const RETRY_US: u64 = 900_000;
        let attempt = &self.measured.attempts[n];
        let packets = &self.packets[n];
        let opens = |packet: &&&Packet| packet.to == End::Server && packet.flags.is(Flags::SYN);
        let repeated = if self.has_packets() {
            packets.iter().filter(opens).count() > 1
        } else {
            // Without packets the time tells: the first retry comes after a second.
            attempt
                .connected_us
                .is_some_and(|at| at >= attempt.started_us.saturating_add(RETRY_US))
        };
        let acked_us = packets
            .iter()
            .filter(|one| one.to == End::Server && !one.flags.has(Flags::SYN))
            .find_map(|one| one.sent_us);
        let asked_again = |one: &&&Packet| {
            one.to == End::Client
                && one.flags.is(Flags::SYN | Flags::ACK)
                && acked_us.is_some_and(|acked_us| acked_us < one.at_us)
        };
        let told_again = |one: &&&Packet| {
            one.to == End::Server
                && one.length > 0
                && packets.iter().any(|other| {
                    other.to == End::Server
                        && other.seq == one.seq
                        && other.at_us < one.at_us
                        && other.sent_us.is_some()
                        && other.length > 0
                })
        };
        if packets
            .iter()
            .any(|one| asked_again(&one) || told_again(&one))
        {
            Story::RescuedGhost
        } else if repeated {
            Story::AnsweredAfterRetry
        } else {
            Story::AnsweredAtOnce
        }
    }

    /// The ladder of attempt `n`.
    pub fn ladder(&self, n: usize) -> Ladder {
        let attempt = &self.measured.attempts[n];
        let mut events = self.packet_events(n);
        events.extend(client_events(attempt));
        if let Some(at_us) = self.fates[n].accepted_us {
            events.push(at(End::Server, at_us, "accepted"));
        }
        // Of two events of the same moment the packet came first.
        events.sort_by_key(|event| (event.begins_us(), matches!(event, Event::At(_))));
        let rungs = events.into_iter().map(|event| Rung {
            queue: event.at_the_server_us().and_then(|at_us| self.queue(at_us)),
            event,
        });
        Ladder {
            arm: self.observation.arm.clone(),
            trial: self.observation.index,
            connection: attempt.n,
            story: self.story(n),
            cause: self.causes[n],
            has_packets: self.has_packets(),
            connected_us: attempt
                .connected_us
                .map(|at_us| at_us.saturating_sub(attempt.started_us)),
            ended_us: attempt.ended_us.saturating_sub(attempt.started_us),
            rungs: rungs.collect(),
        }
    }

    fn packet_events(&self, n: usize) -> Vec<Event> {
        let packets = &self.packets[n];
        let event = |(at, packet): (usize, &&Packet)| {
            let same = |other: &&&Packet| {
                (other.to, other.flags, other.seq, other.ack, other.length)
                    == (
                        packet.to,
                        packet.flags,
                        packet.seq,
                        packet.ack,
                        packet.length,
                    )
            };
            let mut label = packet.flags.to_string();
            if packet.length > 0 {
                label += &format!(", {} bytes", packet.length);
            }
            if packets[..at].iter().any(|other| same(&other)) {
                label += " again";
            }
            Event::Packet(Sent {
                to: packet.to,
                flags: packet.flags,
                label,
                sent_us: packet.at_us,
                arrived_us: packet.sent_us,
                verdict: packet.verdict,
            })
        };
        packets.iter().enumerate().map(event).collect()
    }

    /// The last look at the queue at that time. Of several listening sockets it is not known whose queue counts.
    fn queue(&self, at_us: u64) -> Option<(u32, u32)> {
        let [listener] = self.measured.listeners.as_slice() else {
            return None;
        };
        let samples = &listener.samples;
        let after = samples
            .at_us
            .partition_point(|sampled_us| *sampled_us <= at_us);
        let last = after.checked_sub(1)?;
        Some((
            *samples.recv_q.get(last)?,
            listener.before.send_q.saturating_add(1),
        ))
    }
}

/// A time in milliseconds.
pub(super) fn ms(us: u64) -> String {
    format!("{}.{:02}", us / 1_000, us % 1_000 / 10)
}

fn at(end: End, at_us: u64, label: &str) -> Event {
    Event::At(Moment {
        end,
        at_us,
        label: label.to_owned(),
    })
}

/// The client's own record.
fn client_events(attempt: &Attempt) -> Vec<Event> {
    let mut events = vec![at(End::Client, attempt.started_us, "connect")];
    events.extend(
        attempt
            .connected_us
            .map(|us| at(End::Client, us, "connected")),
    );
    events.extend(
        attempt
            .first_byte_us
            .map(|us| at(End::Client, us, "first byte of the answer")),
    );
    let end = match attempt.ended {
        Ended::Answered => "answered, closes".to_owned(),
        Ended::WrongAnswer => "wrong answer, closes".to_owned(),
        Ended::EndOfStream => "end of stream without an answer".to_owned(),
        Ended::TimeUp if attempt.connected_us.is_some() => "time is up, no answer".to_owned(),
        Ended::TimeUp => "time is up, not connected".to_owned(),
        Ended::Held => "time is up, still connected".to_owned(),
        Ended::Error => attempt.errno.clone().unwrap_or_else(|| "failed".into()),
    };
    events.push(at(End::Client, attempt.ended_us, &end));
    events
}

/// One example of every story that these trials tell: the trial's place and the attempt's number. Trials with
/// packets are preferred.
pub fn examples(trials: &[Ladders<'_>]) -> Vec<(usize, usize)> {
    let mut found: Vec<(Story, usize, usize)> = Vec::new();
    let order = |packets: bool| {
        let trials = trials.iter().enumerate();
        trials.filter(move |(_, trial)| trial.has_packets() == packets)
    };
    for (place, trial) in order(true).chain(order(false)) {
        for n in 0..trial.len() {
            let story = trial.story(n);
            if !found.iter().any(|(known, ..)| *known == story) {
                found.push((story, place, n));
            }
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, place, n)| (place, n)).collect()
}
