//! The search for the highest load that is borne: bracketing, then bisection. Pure: it is told how each load went.

use crate::result::Held;

/// A search over whole numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    first: u32,
    most: u32,
    within_percent: u32,
    /// The highest load that was borne.
    holds: Option<u32>,
    /// The lowest load that was not, for whatever reason.
    ceiling: Option<u32>,
    steps: u32,
    ended: bool,
}

/// More steps than this are not taken, however narrow the interval is to be.
pub const MOST_STEPS: u32 = 24;

impl Search {
    /// A search that begins with the load `first`, goes no higher than `most`, and ends when the interval is as
    /// narrow as `within_percent` of its upper end.
    pub fn new(first: u32, most: u32, within_percent: u32) -> Self {
        Self {
            first: first.clamp(1, most.max(1)),
            most: most.max(1),
            within_percent,
            holds: None,
            ceiling: None,
            steps: 0,
            ended: false,
        }
    }

    /// The load to try; `None` when the search has ended.
    pub fn next(&self) -> Option<u32> {
        if self.ended || self.steps >= MOST_STEPS {
            return None;
        }
        match (self.holds, self.ceiling) {
            (None, None) => Some(self.first),
            (Some(holds), None) => (holds < self.most).then(|| {
                let higher = holds.saturating_add(holds / 2).max(holds + 1);
                higher.min(self.most)
            }),
            (None, Some(ceiling)) => (ceiling > 1).then_some(ceiling / 2),
            (Some(holds), Some(ceiling)) => {
                let narrow = u64::from(ceiling) * u64::from(self.within_percent) / 100;
                let narrow = u32::try_from(narrow).unwrap_or(u32::MAX).max(1);
                (ceiling - holds > narrow).then(|| holds + (ceiling - holds) / 2)
            }
        }
    }

    /// Takes in how a load went. A load of which nothing is known ends the search.
    pub fn record(&mut self, load: u32, held: Held) {
        self.steps += 1;
        match held {
            Held::Holds => self.holds = self.holds.max(Some(load)),
            Held::Breaks | Held::ClientLimited => {
                self.ceiling = Some(self.ceiling.map_or(load, |ceiling| ceiling.min(load)));
            }
            Held::Unknown => self.ended = true,
        }
    }

    /// Whether it ended for want of steps.
    pub fn gave_up(&self) -> bool {
        self.steps >= MOST_STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches for the breaking point of a server that bears loads up to `bears`.
    fn found(mut search: Search, bears: u32) -> (Option<u32>, Option<u32>, u32) {
        while let Some(load) = search.next() {
            let held = if load <= bears {
                Held::Holds
            } else {
                Held::Breaks
            };
            search.record(load, held);
        }
        (search.holds, search.ceiling, search.steps)
    }

    #[test]
    fn a_load_that_cannot_be_raised_bounds_the_search() {
        let mut search = Search::new(100, 1_000, 5);
        search.record(100, Held::Holds);
        search.record(150, Held::ClientLimited);
        assert_eq!(search.next(), Some(125));
        search.record(125, Held::Unknown);
        assert_eq!(search.next(), None);
    }

    #[test]
    fn nothing_is_borne_and_everything_is() {
        assert_eq!(found(Search::new(100, 1_000, 5), 0), (None, Some(1), 7));
        let (holds, ceiling, _) = found(Search::new(100, 1_000, 5), u32::MAX);
        assert_eq!((holds, ceiling), (Some(1_000), None));
    }

    proptest! {
        #[test]
        fn the_breaking_point_is_within_the_interval(
            bears in 1_u32..20_000, first in 1_u32..20_000, within in 1_u32..20,
        ) {
            let (holds, ceiling, steps) = found(Search::new(first, 30_000, within), bears);
            let (holds, ceiling) = (holds.unwrap(), ceiling.unwrap());
            prop_assert!(holds <= bears && bears < ceiling);
            prop_assert!(steps < MOST_STEPS || ceiling - holds <= bears.div_ceil(100) * within + 1, "{steps} steps");
        }
    }
}
