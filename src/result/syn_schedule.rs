//! When a client's kernel repeats a SYN, derived from its settings.
//!
//! `tcp_write_timeout` and `tcp_retransmit_timer` in `net/ipv4/tcp_timer.c`: the timeout starts at 1 s and doubles
//! only after more than `tcp_syn_linear_timeouts` of them (since Linux 6.5); it is capped by `tcp_rto_max_ms`.

use std::collections::BTreeMap;

/// A client's SYN schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SynSchedule {
    /// When a SYN is sent, the first at 0, in milliseconds; without the timer's rounding.
    pub sent_ms: Vec<u64>,
    /// When the kernel gives up with ETIMEDOUT.
    pub gives_up_ms: u64,
}

const FIRST_TIMEOUT_MS: u64 = 1_000;
const DEFAULT_MOST_MS: u64 = 120_000;

impl SynSchedule {
    /// The schedule by a client's sysctls; `None` when `tcp_syn_retries` is unknown.
    pub fn of(sysctls: &BTreeMap<String, Option<String>>) -> Option<Self> {
        // The kernel takes at most 127 retries (`MAX_TCP_SYNCNT`) and two minutes (`TCP_RTO_MAX`).
        let number = |name: &str| {
            let value = sysctls.get(name)?.as_deref()?.parse::<u64>().ok();
            value.filter(|value| *value <= DEFAULT_MOST_MS)
        };
        let retries = number("net.ipv4.tcp_syn_retries")?;
        // Kernels without the setting double from the first timeout on.
        let linear = number("net.ipv4.tcp_syn_linear_timeouts").unwrap_or(0);
        let most_ms = number("net.ipv4.tcp_rto_max_ms").unwrap_or(DEFAULT_MOST_MS);
        Some(Self::new(retries, linear, most_ms))
    }

    fn new(retries: u64, linear: u64, most_ms: u64) -> Self {
        let limit_ms = Self::model_ms(retries, most_ms);
        let (mut sent_ms, mut now_ms, mut timeout_ms) = (vec![0], 0, FIRST_TIMEOUT_MS);
        for retransmits in 0.. {
            now_ms += timeout_ms;
            if retransmits >= retries + linear || now_ms >= limit_ms {
                break;
            }
            sent_ms.push(now_ms);
            if retransmits >= linear {
                timeout_ms = (timeout_ms * 2).min(most_ms);
            }
        }
        Self {
            sent_ms,
            gives_up_ms: now_ms,
        }
    }

    /// How long `retries` doubling timeouts last: the kernel's `tcp_model_timeout`.
    fn model_ms(retries: u64, most_ms: u64) -> u64 {
        let doublings = (most_ms / FIRST_TIMEOUT_MS).max(1).ilog2().into();
        if retries <= doublings {
            ((2 << retries) - 1) * FIRST_TIMEOUT_MS
        } else {
            ((2 << doublings) - 1) * FIRST_TIMEOUT_MS + (retries - doublings) * most_ms
        }
    }

    /// The retry that a timeout falls on, give or take 50 ms: then it is chance whether the SYN is still sent.
    pub fn retry_at(&self, timeout_us: u64) -> Option<u64> {
        const NEAR_US: u64 = 50_000;
        let mut retries = self.sent_ms.iter().skip(1).copied();
        retries.find(|ms| timeout_us.abs_diff(ms * 1_000) <= NEAR_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured on Linux 6.18 (seconds).
    #[test]
    fn as_measured() {
        for (retries, linear, most_ms, sent, end) in [
            (
                6,
                4,
                120_000,
                vec![0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67],
                131,
            ),
            (5, 4, 120_000, vec![0, 1, 2, 3, 4, 5, 7, 11, 19, 35], 67),
            (3, 4, 120_000, vec![0, 1, 2, 3, 4, 5, 7, 11], 19),
            (2, 4, 120_000, vec![0, 1, 2, 3, 4, 5], 7),
            (1, 4, 120_000, vec![0, 1, 2], 3),
            (1, 20, 120_000, vec![0, 1, 2], 3),
            (6, 0, 120_000, vec![0, 1, 3, 7, 15, 31, 63], 127),
            (3, 0, 120_000, vec![0, 1, 3, 7], 15),
            (1, 0, 120_000, vec![0, 1], 3),
            (6, 1, 120_000, vec![0, 1, 2, 4, 8, 16, 32, 64], 128),
            (6, 2, 120_000, vec![0, 1, 2, 3, 5, 9, 17, 33, 65], 129),
            (6, 4, 4_000, vec![0, 1, 2, 3, 4, 5, 7, 11, 15, 19], 23),
            (6, 4, 1_000, vec![0, 1, 2, 3, 4, 5, 6], 7),
        ] {
            let schedule = SynSchedule::new(retries, linear, most_ms);
            let sent_ms: Vec<u64> = sent.iter().map(|s| s * 1_000).collect();
            assert_eq!(schedule.sent_ms, sent_ms, "{retries}, {linear}, {most_ms}");
            assert_eq!(
                schedule.gives_up_ms,
                end * 1_000,
                "{retries}, {linear}, {most_ms}"
            );
        }
    }

    #[test]
    fn a_timeout_on_a_retry_is_noticed() {
        let schedule = SynSchedule::new(6, 4, 120_000);
        assert_eq!(schedule.retry_at(2_000_000), Some(2_000));
        assert_eq!(schedule.retry_at(1_960_000), Some(2_000));
        assert_eq!(schedule.retry_at(1_500_000), None);
        assert_eq!(schedule.retry_at(30_000), None);
    }
}
