//! What the cells of a matrix did to their clients, and what each factor changes about it.

use std::collections::BTreeMap;
use std::fmt;

use super::matrix::Matrix;
use crate::result::{ArmResult, Cause, Outcome, Status};

/// Counts by class and what they are a part of, as means over valid trials.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parts<C> {
    pub(super) attempts: f64,
    /// Every class that occurred, the good one first.
    pub(super) parts: Vec<(C, f64)>,
}

impl<C: Copy + PartialEq> Parts<C> {
    pub(super) fn count(&self, class: C) -> f64 {
        let found = self.parts.iter().find(|(one, _)| *one == class);
        found.map_or(0.0, |(_, n)| *n)
    }

    /// The share of a count, from 0 to 1; 0 when nothing was attempted.
    pub(super) fn share(&self, n: f64) -> f64 {
        if self.attempts > 0.0 {
            n / self.attempts
        } else {
            0.0
        }
    }
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[u32]) -> Option<f64> {
    let n = f64::from(u32::try_from(values.len()).ok()?);
    (n > 0.0).then(|| values.iter().copied().map(f64::from).sum::<f64>() / n)
}

/// A client that was well, or what it was lost to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lot {
    Well,
    Lost(Cause),
}

impl Lot {
    /// Every lot, the good one first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        [Self::Well].into_iter().chain(Cause::ALL.map(Self::Lost))
    }
}

impl fmt::Display for Lot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Well => "ok",
            Self::Lost(cause) => cause.label(),
        })
    }
}

/// The cells of a matrix whose clients did not all do well.
pub(super) struct Composition {
    pub(super) matrix: Matrix,
    /// By arm; `None` where no trial is valid.
    pub(super) cells: Vec<Option<Parts<Lot>>>,
}

impl Composition {
    /// That of these arms; `None` when they are no matrix, nobody was lost, or their clients are not equally many:
    /// then a cell is not to be taken from another.
    pub(super) fn of(arms: &[ArmResult]) -> Option<Self> {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        let matrix = Matrix::of(&names)?;
        let cells: Vec<_> = arms.iter().map(parts).collect();
        let is_lost = |cell: &Parts<Lot>| cell.parts.iter().any(|(lot, _)| *lot != Lot::Well);
        let mut known = cells.iter().flatten();
        let attempts = known.next()?.attempts;
        let as_many = known.all(|cell| (cell.attempts - attempts).abs() < 0.5);
        let any_lost = cells.iter().flatten().any(is_lost);
        (as_many && any_lost).then_some(Self { matrix, cells })
    }

    /// The lots that occur.
    pub(super) fn lots(&self) -> Vec<Lot> {
        let occurs = |lot: &Lot| self.cells.iter().flatten().any(|one| one.count(*lot) > 0.0);
        Lot::all()
            .filter(|lot| *lot == Lot::Well || occurs(lot))
            .collect()
    }

    /// What each factor changes from its first level to its last.
    pub(super) fn effects(&self) -> Vec<Effect> {
        (0..self.matrix.factors.len())
            .map(|factor| self.effect(factor))
            .collect()
    }

    fn effect(&self, factor: usize) -> Effect {
        let last = self.matrix.factors[factor].levels.len() - 1;
        let places = &self.matrix.places;
        let mut pairs = Vec::new();
        for (before, place) in places
            .iter()
            .enumerate()
            .filter(|(_, one)| one[factor] == 0)
        {
            let mut other = place.clone();
            other[factor] = last;
            let after = places.iter().position(|one| *one == other);
            let cells = after.and_then(|after| {
                let cells = (self.cells[before].as_ref()?, self.cells[after].as_ref()?);
                Some((after, cells))
            });
            if let Some((after, (one, other))) = cells {
                pairs.push(Pair::of((before, one), (after, other)));
            }
        }
        let (changed, unchanged): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().partition(|pair| pair.moved >= TELLING);
        Effect {
            factor,
            only_where: self.only_where(factor, &changed, &unchanged),
            changed,
            unchanged: unchanged.len(),
        }
    }

    /// The levels of other factors that all changed pairs share and no other pair does.
    fn only_where(
        &self,
        factor: usize,
        changed: &[Pair],
        unchanged: &[Pair],
    ) -> Option<Vec<(usize, usize)>> {
        let places = &self.matrix.places;
        let first = &places[changed.first()?.before];
        let shared: Vec<(usize, usize)> = (0..first.len())
            .filter(|n| *n != factor)
            .filter(|n| {
                changed
                    .iter()
                    .all(|pair| places[pair.before][*n] == first[*n])
            })
            .map(|n| (n, first[n]))
            .collect();
        let fits = |pair: &Pair| {
            shared
                .iter()
                .all(|(n, level)| places[pair.before][*n] == *level)
        };
        (!unchanged.is_empty() && !unchanged.iter().any(fits)).then_some(shared)
    }
}

/// A change of fewer clients than this share of all is not spoken of.
const TELLING: f64 = 0.05;

/// What a factor changes.
pub(super) struct Effect {
    pub(super) factor: usize,
    /// The pairs of cells that differ in this factor only, and in what became of their clients.
    pub(super) changed: Vec<Pair>,
    /// How many such pairs do not differ.
    pub(super) unchanged: usize,
    /// Factors and levels that tell the former from the latter.
    pub(super) only_where: Option<Vec<(usize, usize)>>,
}

/// Two cells that differ in one factor.
pub(super) struct Pair {
    pub(super) before: usize,
    pub(super) after: usize,
    /// By how many clients each lot grew.
    pub(super) growth: BTreeMap<Lot, f64>,
    /// The share of the clients to whom something else happened.
    pub(super) moved: f64,
}

impl Pair {
    fn of((before, one): (usize, &Parts<Lot>), (after, other): (usize, &Parts<Lot>)) -> Self {
        let growth: BTreeMap<Lot, f64> = Lot::all()
            .map(|lot| (lot, other.count(lot) - one.count(lot)))
            .filter(|(_, n)| *n != 0.0)
            .collect();
        let moved = one.share(growth.values().map(|n| n.abs()).sum::<f64>() / 2.0);
        Self {
            before,
            after,
            growth,
            moved,
        }
    }

    /// The lots that grew, or with `shrunk` those that shrank, by how many, the largest first.
    pub(super) fn sorted(&self, shrunk: bool) -> Vec<(Lot, f64)> {
        let mut lots: Vec<(Lot, f64)> = self
            .growth
            .iter()
            .filter(|(_, n)| (**n < 0.0) == shrunk)
            .map(|(lot, n)| (*lot, n.abs()))
            .collect();
        lots.sort_by(|a, b| b.1.total_cmp(&a.1));
        lots
    }
}

impl Effect {
    /// The pair that differs most; the first of equals.
    pub(super) fn largest(&self) -> Option<&Pair> {
        let last_first = self.changed.iter().rev();
        last_first.max_by(|a, b| a.moved.total_cmp(&b.moved))
    }

    /// By how many clients each lot grew over the changed pairs, from the least to the most; the largest first,
    /// and only what is worth a word.
    pub(super) fn growth(&self, attempts: f64) -> Vec<(Lot, f64, f64)> {
        let of = |lot| {
            let each = self.changed.iter();
            let each = each.map(move |pair: &Pair| pair.growth.get(&lot).copied().unwrap_or(0.0));
            let least = each.clone().fold(f64::INFINITY, f64::min);
            (lot, least, each.fold(f64::NEG_INFINITY, f64::max))
        };
        let size = |(_, least, most): &(Lot, f64, f64)| least.abs().max(most.abs());
        let mut all: Vec<_> = Lot::all()
            .map(of)
            .filter(|one| size(one) >= attempts * TELLING && size(one).is_finite())
            .collect();
        all.sort_by(|a, b| size(b).total_cmp(&size(a)));
        all
    }
}

/// An arm's clients; `None` when no trial is valid, or causes are unknown.
fn parts(arm: &ArmResult) -> Option<Parts<Lot>> {
    let valid = || arm.trials.iter().filter(|trial| trial.status == Status::Ok);
    let attempts: Vec<u32> = valid().filter_map(|trial| trial.attempts).collect();
    let causes: Vec<_> = valid().filter_map(|trial| trial.causes.as_ref()).collect();
    let part = |lot| {
        let counts: Vec<u32> = match lot {
            Lot::Well => valid()
                .filter_map(|trial| trial.count(Outcome::Ok))
                .collect(),
            Lot::Lost(cause) => causes
                .iter()
                .map(|counts| counts.get(&cause).copied().unwrap_or(0))
                .collect(),
        };
        mean(&counts).filter(|n| *n > 0.0).map(|n| (lot, n))
    };
    (causes.len() == attempts.len()).then_some(Parts {
        attempts: mean(&attempts)?,
        parts: Lot::all().filter_map(part).collect(),
    })
}
