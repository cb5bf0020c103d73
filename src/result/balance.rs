//! How evenly sockets that share a port were chosen, and whether that can be said at all.

use super::ListenerResult;

/// A share is even within this part of the mean.
const EVEN: f64 = 0.25;

/// The accepts of each socket of a `SO_REUSEPORT` group, in words; nothing for one socket, or where none accepted.
///
/// The kernel chooses by a hash of the client's address and port. Among few clients its shares are as uneven as
/// those of dice, and say nothing: balance is judged only where three standard deviations of a fair choice are less
/// than what still counts as even.
pub(super) fn sentence(listeners: &[ListenerResult]) -> Option<String> {
    let group = |one: &ListenerResult| (one.address, one.port);
    if listeners
        .windows(2)
        .any(|pair| group(&pair[0]) != group(&pair[1]))
    {
        return None;
    }
    let counts: Vec<u32> = listeners.iter().filter_map(|one| one.accepted).collect();
    if counts.len() != listeners.len() {
        return None;
    }
    judged("socket", &counts)
}

/// The same of the acceptors that share one socket: the kernel wakes whoever waits first in the row.
pub(super) fn of_acceptors(counts: &[u32]) -> Option<String> {
    judged("acceptor", counts)
}

fn judged(what: &str, counts: &[u32]) -> Option<String> {
    let all: u32 = counts.iter().sum();
    if counts.len() < 2 || all == 0 {
        return None;
    }
    let share = 1.0 / f64::from(u32::try_from(counts.len()).ok()?);
    let mean = f64::from(all) * share;
    let by_chance = 3.0 * ((1.0 - share) / mean).sqrt();
    let told: Vec<String> = counts.iter().map(u32::to_string).collect();
    let is_even = |count: &u32| (f64::from(*count) - mean).abs() <= EVEN * mean;
    let judged = if by_chance > EVEN {
        format!(
            "too few to judge their balance, since chance alone moves a share by up to {:.0} %",
            by_chance * 100.0
        )
    } else if counts.iter().all(is_even) {
        format!("even, each within {:.0} % of the mean", EVEN * 100.0)
    } else {
        "uneven, by more than chance explains".to_owned()
    };
    Some(format!("Accepts by {what}: {}: {judged}.", told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u32]) -> Option<String> {
        let listener = |accepted: &u32| ListenerResult {
            address: [127, 0, 0, 1].into(),
            port: 80,
            backlog_requested: Some(1),
            backlog_effective: 1,
            accept_queue_capacity: 2,
            recv_q_max: 0,
            recv_q_final: 0,
            drops: None,
            accepted: Some(*accepted),
            samples: 0,
            sample_period_us: 1_000,
            samples_missed: 0,
        };
        sentence(&counts.iter().map(listener).collect::<Vec<_>>())
    }

    #[test]
    fn balance_is_judged_where_chance_does_not_explain_it() {
        for (counts, said) in [
            (&[470, 541, 488, 501][..], "even, each within 25 %"),
            (&[59, 1_264, 400, 277], "uneven, by more than chance"),
            (
                &[1, 2, 0, 1, 3, 0, 1, 0],
                "too few to judge their balance, since chance alone moves a share by up to 281 %",
            ),
            (&[20, 20], "too few"),
            (&[75, 75], "even"),
        ] {
            let text = of(counts).unwrap();
            assert!(text.contains(said), "{text}");
        }
        assert_eq!(of(&[2_000]), None);
        assert_eq!(of(&[0, 0]), None);
    }
}
