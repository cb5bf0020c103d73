//! Claims in circulation, held against what their arms measured.
//!
//! A claim is the list of its predictions (claims.toml). It holds when all of them do, does not hold when none does,
//! and holds only under a condition when some do.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ArmResult, Status};
use crate::arm::{Bound, Expectations};

/// The claims that the program carries.
const CLAIMS: &str = include_str!("../../claims.toml");

/// What somebody says, and what would be measured if it was true.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is said.
    pub says: String,
    /// What the arms show instead, or more exactly.
    pub truth: String,
    /// What would be measured.
    pub predicts: Vec<Prediction>,
}

/// What an arm would measure if a claim was true.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The arm's full name.
    pub arm: String,
    /// The figures.
    pub figures: Expectations,
    /// What is special about this arm, where the claim holds only here.
    #[serde(default)]
    pub when: Option<String>,
}

/// The claims that the program carries, in their order.
///
/// # Errors
/// The list is not well-formed, which a test excludes.
pub fn claims() -> Result<Vec<Claim>, toml::de::Error> {
    let mut list: BTreeMap<String, Vec<Claim>> = toml::from_str(CLAIMS)?;
    Ok(list.remove("claim").unwrap_or_default())
}

/// Whether a claim is true here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// Every prediction was met.
    Holds,
    /// No prediction was met.
    DoesNotHold,
    /// Only some were: under these conditions.
    HoldsOnlyWhen(Vec<String>),
    /// An arm was not measured, for this reason.
    NotMeasured(String),
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("holds"),
            Self::DoesNotHold => f.write_str("does not hold"),
            Self::HoldsOnlyWhen(when) => write!(f, "holds only when {}", when.join(", or ")),
            Self::NotMeasured(reason) => write!(f, "not measured: {reason}"),
        }
    }
}

/// A claim with its ruling.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ruled {
    /// What is said.
    pub says: String,
    /// Whether it is true.
    pub ruling: Ruling,
    /// What the arms show instead, or more exactly.
    pub truth: String,
    /// Each figure that was predicted.
    pub evidence: Vec<Predicted>,
}

/// A predicted figure beside the measured one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    /// The arm.
    pub arm: String,
    /// The figure.
    pub figure: String,
    /// What it would be.
    pub claimed: Bound,
    /// What it was; `null` when it was not measured.
    pub measured: Option<f64>,
}

impl Predicted {
    fn is_met(&self) -> Option<bool> {
        self.measured.map(|value| self.claimed.admits(value))
    }
}

impl Claim {
    /// Holds the claim against its arms' results: the first valid trial of each.
    pub fn rule(&self, arms: &[ArmResult]) -> Ruled {
        let (mut evidence, mut met, mut missing) = (Vec::new(), Vec::new(), None);
        for prediction in &self.predicts {
            let arm = arms.iter().find(|arm| arm.name == prediction.arm);
            let found = prediction.against(arm);
            let all: Option<Vec<bool>> = found.iter().map(Predicted::is_met).collect();
            match all {
                Some(all) => met.push(all.into_iter().all(|one| one)),
                None => missing = missing.or_else(|| Some(why_unknown(&prediction.arm, arm))),
            }
            evidence.extend(found);
        }
        let when = || {
            let both = self.predicts.iter().zip(&met).filter(|(_, met)| **met);
            both.map(|(one, _)| one.when.clone().unwrap_or_else(|| one.arm.clone()))
                .collect()
        };
        Ruled {
            says: self.says.clone(),
            ruling: match missing {
                Some(reason) => Ruling::NotMeasured(reason),
                None if met.iter().all(|one| *one) => Ruling::Holds,
                None if met.iter().any(|one| *one) => Ruling::HoldsOnlyWhen(when()),
                None => Ruling::DoesNotHold,
            },
            truth: self.truth.clone(),
            evidence,
        }
    }
}

impl Prediction {
    fn against(&self, arm: Option<&ArmResult>) -> Vec<Predicted> {
        let valid = |arm: &'_ ArmResult| arm.trials.iter().position(|one| one.status == Status::Ok);
        let trial = arm.and_then(|arm| arm.trials.get(valid(arm)?));
        let predicted = self
            .figures
            .bounds
            .iter()
            .map(|(figure, claimed)| Predicted {
                arm: self.arm.clone(),
                figure: figure.to_string(),
                claimed: *claimed,
                measured: trial.and_then(|trial| trial.figure(figure)),
            });
        predicted.collect()
    }
}

fn why_unknown(name: &str, arm: Option<&ArmResult>) -> String {
    let trial = arm.and_then(|arm| arm.trials.first());
    match trial {
        None => format!("{name} was not run"),
        Some(trial) => match &trial.reason {
            Some(reason) => format!("{name}: {reason}"),
            None => format!("{name}: this kernel does not show the figure"),
        },
    }
}
