//! The search for the highest load that is borne: bracketing, then bisection, then a second trial of both edges. Pure:
//! it is told how each load has gone so far.

use std::collections::BTreeMap;

use crate::result::{Held, Tries};

/// A search over whole numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    first: u32,
    most: u32,
    within_percent: u32,
    /// Trials of a load before it is borne.
    trials: u32,
    tried: BTreeMap<u32, Tried>,
    ended: bool,
}

/// A load that has been tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tried {
    held: Held,
    tries: Tries,
    /// It cannot be raised at all: there is nothing to try again.
    refused: bool,
}

/// More loads than this are not tried, however narrow the interval is to be.
pub const MOST_LOADS: usize = 24;
/// A load whose trials go wrong in ways that may pass is given up after so many of them.
pub const MOST_SPOILED: u32 = 3;
/// Both edges of the interval are tried at least this often.
const CONFIRMED: u32 = 2;

impl Search {
    /// A search that begins with the load `first`, goes no higher than `most`, takes `trials` to believe that a load is
    /// borne, and ends when the interval is as narrow as `within_percent` of its upper end and both edges are confirmed.
    pub fn new(first: u32, most: u32, within_percent: u32, trials: u32) -> Self {
        Self {
            first: first.clamp(1, most.max(1)),
            most: most.max(1),
            within_percent,
            trials: trials.max(1),
            tried: BTreeMap::new(),
            ended: false,
        }
    }

    /// The load to try, perhaps again; `None` when the search has ended.
    pub fn next(&self) -> Option<u32> {
        if self.ended {
            return None;
        }
        let open = self.tried.iter().find(|(_, one)| self.is_open(one));
        let another = || self.another().filter(|_| self.tried.len() < MOST_LOADS);
        open.map(|(load, _)| *load)
            .or_else(another)
            .or_else(|| self.unconfirmed())
    }

    /// The highest load that was borne, below the lowest that was not, and that one.
    fn edges(&self) -> (Option<u32>, Option<u32>) {
        let mut tried = self.tried.iter();
        let ceiling = tried.find(|(_, one)| one.held != Held::Holds);
        let ceiling = ceiling.map(|(load, _)| *load);
        let below = self
            .tried
            .keys()
            .rfind(|load| ceiling.is_none_or(|top| **load < top));
        (below.copied(), ceiling)
    }

    /// The next new load.
    fn another(&self) -> Option<u32> {
        match self.edges() {
            (None, None) => Some(self.first),
            (Some(holds), None) => (holds < self.most).then(|| {
                // The first load is thought to be near; one that is borne as easily as its next is not.
                let more = if self.tried.len() < 2 {
                    holds / 2
                } else {
                    holds
                };
                holds.saturating_add(more.max(1)).min(self.most)
            }),
            (None, Some(ceiling)) => (ceiling > 1).then_some(ceiling / 2),
            (Some(holds), Some(ceiling)) => {
                let narrow = u64::from(ceiling) * u64::from(self.within_percent) / 100;
                let narrow = u32::try_from(narrow).unwrap_or(u32::MAX).max(1);
                (ceiling - holds > narrow).then(|| holds + (ceiling - holds) / 2)
            }
        }
    }

    /// An edge that was not tried often enough.
    fn unconfirmed(&self) -> Option<u32> {
        let (holds, ceiling) = self.edges();
        let mut edges = holds.into_iter().chain(ceiling);
        edges.find(|load| {
            let one = self.tried.get(load);
            one.is_some_and(|one| one.wants(self.trials.max(CONFIRMED)))
        })
    }

    /// Whether nothing can be said of a load before it is tried again. One that breaks need not be tried again for that.
    fn is_open(&self, one: &Tried) -> bool {
        match one.held {
            Held::Holds => one.wants(self.trials),
            Held::Breaks | Held::ClientLimited | Held::Unknown => one.wants(1),
        }
    }

    /// Takes in how a load has gone so far. A load of which nothing is to be known ends the search.
    pub fn record(&mut self, load: u32, held: Held, tries: Tries) {
        let refused = false;
        let one = Tried {
            held,
            tries,
            refused,
        };
        let may_pass = tries.spoiled > 0 && one.wants(1);
        self.ended |= held == Held::Unknown && !may_pass;
        self.tried.insert(load, one);
    }

    /// Takes in that no client can raise a load.
    pub fn refuse(&mut self, load: u32) {
        let one = Tried {
            held: Held::ClientLimited,
            tries: Tries::default(),
            refused: true,
        };
        self.tried.insert(load, one);
    }

    /// Whether it ended for want of loads.
    pub fn gave_up(&self) -> bool {
        !self.ended && self.tried.len() >= MOST_LOADS && self.another().is_some()
    }
}

impl Tried {
    /// Whether it is to be tried again until `trials` say something.
    fn wants(&self, trials: u32) -> bool {
        let Tries {
            counted, spoiled, ..
        } = self.tries;
        !self.refused && counted < trials && spoiled < MOST_SPOILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A search on a server, with what was tried of each load.
    struct Searched {
        search: Search,
        tries: BTreeMap<u32, Tries>,
        trials: u32,
    }

    impl Searched {
        /// To the end, on a server of which `answer` tells how it bears a load in the n-th of all trials; `None` where
        /// that trial is spoiled.
        fn new(search: Search, mut answer: impl FnMut(u32, u32) -> Option<Held>) -> Self {
            let mut one = Self {
                search,
                tries: BTreeMap::new(),
                trials: 0,
            };
            let mut last: BTreeMap<u32, Held> = BTreeMap::new();
            while let Some(load) = one.search.next() {
                let tries = one.tries.entry(load).or_default();
                match answer(load, one.trials) {
                    Some(held) => {
                        tries.counted += 1;
                        tries.broken += u32::from(held != Held::Holds);
                        let before = last.insert(load, held);
                        if before.is_some_and(|before| before != Held::Holds) {
                            last.extend(before.map(|before| (load, before)));
                        }
                    }
                    None => tries.spoiled += 1,
                }
                let held = last.get(&load).copied().unwrap_or(Held::Unknown);
                let tries = *tries;
                one.search.record(load, held, tries);
                one.trials += 1;
                assert!(one.trials < 200, "it does not end: {:?}", one.search);
            }
            one
        }

        fn edges(&self) -> (Option<u32>, Option<u32>) {
            self.search.edges()
        }
    }

    fn bears(most: u32) -> impl Fn(u32, u32) -> Option<Held> {
        move |load, _| {
            Some(if load <= most {
                Held::Holds
            } else {
                Held::Breaks
            })
        }
    }

    #[test]
    fn a_load_that_cannot_be_raised_bounds_the_search() {
        let mut search = Search::new(100, 1_000, 5, 1);
        let held = Tries {
            counted: 1,
            ..Tries::default()
        };
        search.record(100, Held::Holds, held);
        search.refuse(150);
        assert_eq!(search.next(), Some(125));
        search.record(125, Held::Unknown, Tries::default());
        assert_eq!(search.next(), None);
    }

    #[test]
    fn nothing_is_borne_and_everything_is() {
        let none = Searched::new(Search::new(100, 1_000, 5, 1), bears(0));
        assert_eq!((none.edges(), none.trials), ((None, Some(1)), 8));
        let all = Searched::new(Search::new(100, 1_000, 5, 1), bears(u32::MAX));
        assert_eq!(all.edges(), (Some(1_000), None));
        assert_eq!(all.tries[&1_000].counted, 2);
    }

    #[test]
    fn a_first_load_far_from_the_breaking_point_leaves_loads_for_the_interval() {
        for (first, most) in [(1, 12_138), (30_000, 1)] {
            let one = Searched::new(Search::new(first, 30_000, 1, 1), bears(most));
            let (holds, ceiling) = (one.edges().0.unwrap(), one.edges().1.unwrap());
            assert!(holds <= most && most < ceiling, "{holds} {ceiling}");
            assert!(!one.search.gave_up());
        }
    }

    /// What goes wrong once is tried again, and what always goes wrong ends the search.
    #[test]
    fn a_spoiled_trial_is_taken_again_so_often() {
        let spoiled = |load, n| (n > 0).then(|| bears(110)(load, n)).flatten();
        let one = Searched::new(Search::new(80, 1_000, 5, 1), spoiled);
        assert_eq!(one.edges(), (Some(110), Some(115)));
        assert_eq!((one.tries[&80].spoiled, one.tries[&80].counted), (1, 1));
        let never = Searched::new(Search::new(80, 1_000, 5, 1), |_, _| None);
        assert_eq!(
            (never.edges(), never.trials),
            ((None, Some(80)), MOST_SPOILED)
        );
        assert!(!never.search.gave_up());
    }

    /// An edge that breaks when it is confirmed was no edge: the search goes on below it.
    #[test]
    fn an_edge_that_does_not_hold_twice_is_not_borne() {
        let mut of_110 = 0;
        let one = Searched::new(Search::new(80, 1_000, 5, 1), |load, n| {
            of_110 += u32::from(load == 110);
            bears(if of_110 < 2 { 110 } else { 106 })(load, n)
        });
        assert_eq!(one.edges(), (Some(105), Some(110)));
        let counted = |load: u32| (one.tries[&load].counted, one.tries[&load].broken);
        assert_eq!((counted(105), counted(110)), ((2, 0), (2, 1)));
    }

    proptest! {
        #[test]
        fn the_breaking_point_is_within_the_interval(
            most in 1_u32..20_000, first in 1_u32..20_000, within in 1_u32..20, trials in 1_u32..4,
        ) {
            let one = Searched::new(Search::new(first, 30_000, within, trials), bears(most));
            let (holds, ceiling) = (one.edges().0.unwrap(), one.edges().1.unwrap());
            prop_assert!(holds <= most && most < ceiling);
            let loads = one.tries.len();
            prop_assert!(loads < MOST_LOADS || ceiling - holds <= most.div_ceil(100) * within + 1, "{loads} loads");
            prop_assert!(one.tries[&holds].counted >= 2.max(trials) && one.tries[&ceiling].counted >= 2.max(trials));
        }

        /// Spoiled trials cost time and nothing else, as long as not all of a load's are.
        #[test]
        fn spoiled_trials_do_not_move_the_interval(
            most in 1_u32..5_000, every in 2_u32..7,
        ) {
            let clean = Searched::new(Search::new(100, 30_000, 5, 1), bears(most));
            let often = Searched::new(Search::new(100, 30_000, 5, 1), |load, n| {
                (n % every != 0).then(|| bears(most)(load, n)).flatten()
            });
            prop_assert_eq!(clean.edges(), often.edges());
            prop_assert!(often.trials >= clean.trials);
        }
    }
}
