//! The load at which an arm is to break. Two limits are possible, and the lower one applies: the places of the accept
//! queue (B + 1), and what can be accepted within the clients' patience (accept rate x timeout).

use super::ArmResult;
use super::held::median;
use super::load::nominal_capacity;
use crate::arm::{AcceptPolicy, Arm, Loop, Span, SpeaksFirst};

/// What a server accepts per second, and how that is known.
#[derive(Clone, Copy)]
struct Capacity {
    per_s: f64,
    known: &'static str,
}

impl Capacity {
    fn by_settings(arm: &Arm) -> Option<Self> {
        let known = "by its settings";
        nominal_capacity(arm).map(|per_s| Self { per_s, known })
    }

    /// As measured in a step in which more came than could be accepted.
    fn measured(arm: &ArmResult) -> Option<Self> {
        let known = "as measured";
        median(arm, "accept-rate-per-s").map(|per_s| Self { per_s, known })
    }
}

/// The load at which the steps of an arm are to break, and why, in words.
pub(super) fn predict(arm: &ArmResult, broken: Option<&ArmResult>) -> Option<(f64, String)> {
    let places = median(arm, "accept-queue-capacity")?;
    let capacity = Capacity::by_settings(&arm.settings);
    let capacity = capacity.or_else(|| Capacity::measured(broken?));
    prediction(&arm.settings, places, capacity)
}

/// The load at which an arm is to break by its settings alone; `None` where they do not say.
pub fn expected_breaking_load(arm: &Arm) -> Option<f64> {
    const DEFAULT_SOMAXCONN: u32 = 4_096;
    let set = arm.sysctl.get("net.core.somaxconn");
    let somaxconn = set.map_or(Some(DEFAULT_SOMAXCONN), |one| one.as_str().parse().ok())?;
    // A negative backlog is a large one for the kernel.
    let backlog = u32::try_from(arm.server.backlog()?).unwrap_or(u32::MAX);
    let places = f64::from(backlog.min(somaxconn)) + 1.0;
    prediction(arm, places, Capacity::by_settings(arm)).map(|(load, _)| load)
}

fn prediction(arm: &Arm, places: f64, capacity: Option<Capacity>) -> Option<(f64, String)> {
    let client = &arm.client;
    let (timeout, lasts) = (client.timeout, client.duration);
    let rate = |one: Capacity| format!("{:.1} accepted per second ({})", one.per_s, one.known);
    // Whoever waits for no answer has no patience to lose.
    let waits = arm.protocol.speaks_first != SpeaksFirst::Nobody;
    let patience = capacity
        .filter(|_| waits)
        .map(|one| one.per_s * timeout.as_ms() / 1_000.0);
    let by_patience = patience.filter(|useful| *useful < places);
    let room = by_patience.unwrap_or(places);
    let both = match (by_patience, patience, capacity) {
        (Some(useful), _, Some(one)) => format!(
            "accept rate x timeout decides: {} are {useful:.0} within the timeout of {timeout:#}, fewer than the {places} places of the queue (B+1)",
            rate(one)
        ),
        (None, Some(useful), Some(one)) => format!(
            "the places of the queue (B+1) decide: {places}; {} would be {useful:.0} within the timeout of {timeout:#}, which is more",
            rate(one)
        ),
        (_, _, Some(_)) => {
            format!("the places of the queue (B+1) decide: {places}; nobody waits for an answer")
        }
        (_, _, None) => format!(
            "the places of the queue (B+1) decide: {places}, as far as is known without the accept rate"
        ),
    };
    match client.pacing() {
        Loop::Open(_) => {
            let one = capacity?;
            let more = room / (lasts.as_ms() / 1_000.0);
            let told = format!(
                "{both}. At {:.1}/s {room:.0} more come in {lasts:#} than the {:.1}/s that are accepted",
                one.per_s + more,
                one.per_s
            );
            Some((one.per_s + more, told))
        }
        // They come again only as fast as they are let: no queue is built.
        Loop::Closed if paced_below(arm, capacity) => None,
        Loop::Closed => Some((
            room,
            format!(
                "{both}. Who has been answered comes again at once, so nearly all of them wait at any time"
            ),
        )),
        Loop::Flood => match at_once(arm) {
            0 => Some((room, both)),
            n => Some((
                room + f64::from(n),
                format!("{both}. The accept loop takes {n} at once, beyond those"),
            )),
        },
    }
}

/// How many of a flood an idle accept loop takes at once.
fn at_once(arm: &Arm) -> u32 {
    let own = arm
        .server
        .own()
        .filter(|own| own.accept == AcceptPolicy::Loop);
    let own = own.filter(|own| own.accept_from == Span::default());
    own.map_or(0, |own| own.acceptors)
}

/// Whether a closed loop is let start no more per second than are accepted.
fn paced_below(arm: &Arm, capacity: Option<Capacity>) -> bool {
    let pace = arm.client.rate.zip(capacity);
    pace.is_some_and(|(rate, one)| rate.as_f64() <= one.per_s)
}
