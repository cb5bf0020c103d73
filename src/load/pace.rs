//! When a server accepts.

use crate::arm::{AcceptBatch, AcceptPolicy, ServerSpec};

/// When the next accept is due. Pure: the clock is given to it.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    policy: AcceptPolicy,
    delay_us: u64,
    not_before_us: u64,
    /// The plan's current entry and how many it has let in.
    batch: Option<(AcceptBatch, u32)>,
}

impl Pace {
    pub(super) fn new(spec: &ServerSpec) -> Self {
        Self {
            policy: spec.accept.clone(),
            delay_us: spec.accept_delay.as_us(),
            not_before_us: spec.accept_from.as_us(),
            batch: None,
        }
    }

    /// When the next accept may happen; `None` when none will, as far as is known now.
    pub(super) fn next_us(&mut self, now_us: u64) -> Option<u64> {
        let planned = match &self.policy {
            AcceptPolicy::Never => return None,
            AcceptPolicy::Loop => 0,
            AcceptPolicy::Plan(batches) => {
                let current = batches
                    .iter()
                    .rev()
                    .find(|batch| batch.at.as_us() <= now_us);
                if let Some(current) = current
                    && self.batch.is_none_or(|(batch, _)| batch != *current)
                {
                    self.batch = Some((*current, 0));
                }
                match self.batch {
                    Some((batch, taken)) if taken < batch.count => batch.at.as_us(),
                    _ => batches
                        .iter()
                        .map(|batch| batch.at.as_us())
                        .find(|at| *at > now_us)?,
                }
            }
        };
        Some(planned.max(self.not_before_us))
    }

    /// Takes note of a connection that was accepted now.
    pub(super) fn accepted(&mut self, at_us: u64) {
        self.not_before_us = at_us.saturating_add(self.delay_us);
        if let Some((_, taken)) = &mut self.batch {
            *taken += 1;
        }
    }

    /// No accept before this time.
    pub(super) fn not_before(&mut self, at_us: u64) {
        self.not_before_us = at_us;
    }

    /// No accept any more.
    pub(super) fn stop(&mut self) {
        self.policy = AcceptPolicy::Never;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Span;

    fn pace(policy: AcceptPolicy, delay_ms: u64, from_ms: u64) -> Pace {
        Pace {
            policy,
            delay_us: delay_ms * 1_000,
            not_before_us: from_ms * 1_000,
            batch: None,
        }
    }

    fn batch(at_ms: u64, count: u32) -> AcceptBatch {
        AcceptBatch {
            at: Span::from_ms(at_ms),
            count,
        }
    }

    #[test]
    fn a_loop_pauses_after_each_accept() {
        let mut pace = pace(AcceptPolicy::Loop, 80, 100);
        assert_eq!(pace.next_us(0), Some(100_000));
        pace.accepted(130_000);
        assert_eq!(pace.next_us(130_000), Some(210_000));
    }

    #[test]
    fn a_plan_lets_in_as_many_as_it_says() {
        let mut pace = pace(
            AcceptPolicy::Plan(vec![batch(400, 2), batch(1_400, 9)]),
            0,
            0,
        );
        assert_eq!(pace.next_us(0), Some(400_000));
        assert_eq!(pace.next_us(400_000), Some(400_000));
        pace.accepted(400_010);
        assert_eq!(pace.next_us(400_010), Some(400_010));
        pace.accepted(400_020);
        assert_eq!(pace.next_us(400_020), Some(1_400_000));
        assert!(pace.next_us(1_500_000).is_some_and(|due| due <= 1_500_000));
    }

    #[test]
    fn a_plan_that_is_used_up_accepts_nothing_more() {
        let mut pace = pace(AcceptPolicy::Plan(vec![batch(0, 1)]), 0, 0);
        assert_eq!(pace.next_us(0), Some(0));
        pace.accepted(5);
        assert_eq!(pace.next_us(10), None);
        assert_eq!(
            Pace {
                policy: AcceptPolicy::Never,
                ..pace
            }
            .next_us(10),
            None
        );
    }
}
