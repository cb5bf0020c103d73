//! The matrix that a run's arms span, read from their names.

/// Factors that vary, and where each arm stands among their levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matrix {
    /// The name of the matrix.
    pub(super) base: String,
    /// Those that vary, in the order of the names.
    pub(super) factors: Vec<Factor>,
    /// For each arm its level of each factor.
    pub(super) places: Vec<Vec<usize>>,
}

/// A factor and its levels, in the order in which they first come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Factor {
    pub(super) name: String,
    pub(super) levels: Vec<String>,
}

/// Between the levels of a short label.
const BETWEEN: &str = " \u{b7} ";

/// A slice of a matrix with two factors: the levels of all others are fixed.
pub(super) struct Slice {
    /// The fixed levels in words; empty when there are only two factors.
    pub(super) title: String,
    /// The arm in each cell, by row and column.
    pub(super) cells: Vec<Vec<Option<usize>>>,
}

impl Matrix {
    /// The matrix, when every name is `base/factor=level,..` with the same base and factors.
    pub(super) fn of(names: &[&str]) -> Option<Self> {
        let parsed: Vec<(&str, Vec<(&str, &str)>)> = names
            .iter()
            .map(|name| {
                let (base, suffix) = name.rsplit_once('/')?;
                let levels: Option<Vec<_>> =
                    suffix.split(',').map(|part| part.split_once('=')).collect();
                Some((base, levels?))
            })
            .collect::<Option<_>>()?;
        let (base, first) = parsed.first()?;
        let keys = |levels: &[(&str, &str)]| {
            levels
                .iter()
                .map(|(key, _)| (*key).to_owned())
                .collect::<Vec<_>>()
        };
        let alike = parsed
            .iter()
            .all(|(other, levels)| other == base && keys(levels) == keys(first));
        if !alike || parsed.len() < 2 {
            return None;
        }
        let (mut factors, mut places) = (Vec::new(), vec![Vec::new(); parsed.len()]);
        for (n, (name, _)) in first.iter().enumerate() {
            let mut levels: Vec<String> = Vec::new();
            let of_arms: Vec<usize> = parsed
                .iter()
                .map(|(_, arm)| {
                    let level = arm[n].1;
                    levels
                        .iter()
                        .position(|one| one == level)
                        .unwrap_or_else(|| {
                            levels.push(level.to_owned());
                            levels.len() - 1
                        })
                })
                .collect();
            if levels.len() > 1 {
                places
                    .iter_mut()
                    .zip(of_arms)
                    .for_each(|(place, level)| place.push(level));
                factors.push(Factor {
                    name: (*name).to_owned(),
                    levels,
                });
            }
        }
        Some(Self {
            base: (*base).to_owned(),
            factors,
            places,
        })
    }

    /// The levels of the varying factors, `backlog=1, accept-delay=0s`.
    pub(super) fn label(&self, arm: usize) -> String {
        self.levels(arm).join(", ")
    }

    /// The same without the factors' names, `1 \u{b7} 0s`; [`Self::factors_in_words`] has those.
    pub(super) fn short_label(&self, arm: usize) -> String {
        let places = self.places[arm].iter().zip(&self.factors);
        let levels: Vec<&str> = places
            .map(|(&level, factor)| factor.levels[level].as_str())
            .collect();
        levels.join(BETWEEN)
    }

    /// `backlog \u{b7} accept-delay`.
    pub(super) fn factors_in_words(&self) -> String {
        let names: Vec<&str> = self.factors.iter().map(|one| one.name.as_str()).collect();
        names.join(BETWEEN)
    }

    fn levels(&self, arm: usize) -> Vec<String> {
        let levels = self.places[arm].iter().enumerate();
        levels.map(|(n, &level)| self.level(n, level)).collect()
    }

    /// A level in words, `backlog=1`.
    pub(super) fn level(&self, factor: usize, level: usize) -> String {
        let factor = &self.factors[factor];
        format!("{}={}", factor.name, factor.levels[level])
    }

    /// An arm's levels of all factors but one; `None` when there is no other.
    pub(super) fn others(&self, arm: usize, factor: usize) -> Option<String> {
        let mut parts = self.levels(arm);
        parts.remove(factor);
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The two factors for rows and columns: those with the most levels, in their order.
    pub(super) fn axes(&self) -> Option<(usize, usize)> {
        let mut by_levels: Vec<usize> = (0..self.factors.len()).collect();
        by_levels.sort_by_key(|&n| std::cmp::Reverse(self.factors[n].levels.len()));
        let (&a, &b) = (by_levels.first()?, by_levels.get(1)?);
        Some((a.min(b), a.max(b)))
    }

    /// A slice for each combination of the other factors' levels, in the order of the arms.
    pub(super) fn slices(&self, (rows, columns): (usize, usize)) -> Vec<Slice> {
        let fixed = |place: &[usize]| -> Vec<(usize, usize)> {
            let others = place.iter().copied().enumerate();
            others
                .filter(|(n, _)| *n != rows && *n != columns)
                .collect()
        };
        let empty =
            vec![vec![None; self.factors[columns].levels.len()]; self.factors[rows].levels.len()];
        let mut slices: Vec<(Vec<(usize, usize)>, Slice)> = Vec::new();
        for (arm, place) in self.places.iter().enumerate() {
            let fixed = fixed(place);
            let at = slices
                .iter()
                .position(|(one, _)| *one == fixed)
                .unwrap_or_else(|| {
                    let words: Vec<String> = fixed
                        .iter()
                        .map(|&(n, level)| self.level(n, level))
                        .collect();
                    slices.push((
                        fixed,
                        Slice {
                            title: words.join(", "),
                            cells: empty.clone(),
                        },
                    ));
                    slices.len() - 1
                });
            slices[at].1.cells[place[rows]][place[columns]] = Some(arm);
        }
        slices.into_iter().map(|(_, slice)| slice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_factors_levels_and_places() {
        let names = [
            "m/b=1,d=0s,x=1",
            "m/b=1,d=80ms,x=1",
            "m/b=128,d=0s,x=1",
            "m/b=128,d=80ms,x=1",
        ];
        let matrix = Matrix::of(&names).unwrap();
        assert_eq!(matrix.base, "m");
        let named: Vec<_> = matrix
            .factors
            .iter()
            .map(|one| (one.name.as_str(), one.levels.len()))
            .collect();
        assert_eq!(named, [("b", 2), ("d", 2)]);
        assert_eq!(matrix.label(2), "b=128, d=0s");
        let slices = matrix.slices(matrix.axes().unwrap());
        assert_eq!(slices.len(), 1);
        assert_eq!(slices[0].cells, [[Some(0), Some(1)], [Some(2), Some(3)]]);
    }

    #[test]
    fn more_than_two_factors_give_a_slice_for_each_level_of_the_others() {
        let names = [
            "m/a=0,b=1,c=x",
            "m/a=0,b=2,c=x",
            "m/a=1,b=1,c=x",
            "m/a=1,b=1,c=y",
            "m/a=0,b=1,c=z",
        ];
        let matrix = Matrix::of(&names).unwrap();
        let axes = matrix.axes().unwrap();
        assert_eq!(axes, (0, 2));
        let slices = matrix.slices(axes);
        assert_eq!(
            slices
                .iter()
                .map(|one| one.title.as_str())
                .collect::<Vec<_>>(),
            ["b=1", "b=2"]
        );
        assert_eq!(slices[0].cells[1], [Some(2), Some(3), None]);
    }

    #[test]
    fn other_names_are_no_matrix() {
        for names in [
            &["arm-a", "arm-b"][..],
            &["m/b=1"],
            &["m/b=1", "n/b=2"],
            &["m/b=1", "m/c=2"],
            &["m/b=1", "m/b"],
        ] {
            assert_eq!(Matrix::of(names), None, "{names:?}");
        }
    }
}
