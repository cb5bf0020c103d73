//! Which trials a run consists of, and in which order. Pure and printable.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Override};
use crate::figure::Figure;
use crate::random::{SplitMix64, seed_for};

/// One arm of a plan, with the name that its settings do not carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedArm {
    /// The full name.
    pub name: String,
    /// Every resolved setting, in the arm file's own words.
    pub settings: Arm,
    /// Its trials, where they are not as many as the plan's: those of a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
}

/// A run that has been decided on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The arms in the order asked.
    pub arms: Vec<PlannedArm>,
    /// Trials of each arm; with an open end, the most of them.
    pub trials: u32,
    /// The seed of every random decision.
    pub seed: u64,
    /// Keys that were overridden for this run.
    pub overrides: Vec<Override>,
    /// Packets of a wire that are kept for each trial, in MiB; 0 keeps none.
    #[serde(default)]
    pub capture_mib: u32,
    /// How the trials are carried out.
    #[serde(default)]
    pub schedule: Schedule,
}

/// How the trials of a plan are carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// How many trials run at once. More than one disturb each other.
    pub jobs: u32,
    /// Whether each arm has a trial first that does not count.
    pub warm_up: bool,
    /// When an arm has had enough trials before there are as many as planned.
    pub until: Option<Until>,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            jobs: 1,
            warm_up: false,
            until: None,
        }
    }
}

/// An open end: the half width of a figure's 95 % interval, in percent of its mean. Written `5%` or `ok=5%`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Until {
    /// The figure.
    pub figure: String,
    /// The percentage.
    pub percent: f64,
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (figure, percent) = text.split_once('=').unwrap_or(("ok", text));
        let figure: Figure = figure.parse()?;
        let number = percent.strip_suffix('%').and_then(|one| one.parse().ok());
        match number.filter(|percent: &f64| percent.is_finite() && *percent > 0.0) {
            Some(percent) => Ok(Self {
                figure: figure.to_string(),
                percent,
            }),
            None => Err(format!(
                "\"{percent}\" is no percentage above 0, such as 5%"
            )),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}%", self.figure, self.percent)
    }
}

/// What is kept of a wire's packets unless a run asks for another bound.
pub const CAPTURE_MIB: u32 = 16;

/// One execution of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial<'a> {
    /// The arm.
    pub arm: &'a PlannedArm,
    /// Its number within the arm, from 0.
    pub index: u32,
    /// The seed of its own random decisions.
    pub seed: u64,
    /// How many bytes of packets are kept, where the link is a wire.
    pub capture_bytes: usize,
}

impl Plan {
    /// A plan of these arms.
    pub fn new(arms: Vec<Arm>, trials: u32, seed: u64, overrides: Vec<Override>) -> Self {
        let arms = arms
            .into_iter()
            .map(|settings| PlannedArm {
                name: settings.name.clone(),
                settings,
                trials: None,
            })
            .collect();
        Self {
            arms,
            trials,
            seed,
            overrides,
            capture_mib: CAPTURE_MIB,
            schedule: Schedule::default(),
        }
    }

    /// The trials in the order of their execution: round by round, so that a slow drift of the machine meets
    /// all arms alike. The first round keeps the order asked; the later ones are shuffled from the seed.
    pub fn order(&self) -> Vec<Trial<'_>> {
        let mut random = SplitMix64::new(self.seed);
        let mut order = Vec::new();
        let most = self.arms.iter().map(|arm| self.trials_of(arm)).max();
        for index in 0..most.unwrap_or(0) {
            let arms = self.arms.iter().filter(|arm| index < self.trials_of(arm));
            let mut round: Vec<_> = arms.map(|arm| self.trial(arm, index)).collect();
            if index > 0 {
                for last in (1..round.len()).rev() {
                    let other = random.below(last as u64 + 1);
                    round.swap(last, usize::try_from(other).unwrap_or(last));
                }
            }
            order.extend(round);
        }
        order
    }

    /// How many trials of an arm there are to be.
    pub fn trials_of(&self, arm: &PlannedArm) -> u32 {
        arm.trials.unwrap_or(self.trials)
    }

    /// A trial; its seed follows from the run's, from the arm's name and from its number.
    pub fn trial<'a>(&self, arm: &'a PlannedArm, index: u32) -> Trial<'a> {
        let words = arm.name.bytes().map(u64::from).chain([u64::from(index)]);
        Trial {
            arm,
            index,
            seed: seed_for(self.seed, words),
            capture_bytes: self.capture_mib as usize * 1024 * 1024,
        }
    }

    /// Whether the arm's expectations were written for what this run does.
    pub fn expectations_apply(&self) -> bool {
        !self.overrides.iter().any(Override::changes_the_experiment)
    }

    /// The name of a trial's file; a slash of the arm's name becomes two underscores.
    pub fn file_stem(arm: &str, index: u32) -> String {
        format!("{}.{index}", arm.replace('/', "__"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(trials: u32, seed: u64) -> Plan {
        let arm: Arm = toml::from_str("title = \"t\"\nwhy = \"w\"\nserver.backlog = 1").unwrap();
        let arms = ["a", "b", "c", "d"].map(|name| Arm {
            name: name.into(),
            ..arm.clone()
        });
        Plan::new(arms.to_vec(), trials, seed, Vec::new())
    }

    fn names(plan: &Plan) -> Vec<String> {
        plan.order()
            .iter()
            .map(|trial| format!("{}{}", trial.arm.name, trial.index))
            .collect()
    }

    #[test]
    fn the_first_round_keeps_the_order_and_every_trial_comes_once() {
        let order = names(&plan(5, 7));
        assert_eq!(order[..4], ["a0", "b0", "c0", "d0"]);
        let mut sorted = order.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 20);
        for (round, chunk) in order.chunks(4).enumerate() {
            assert!(
                chunk.iter().all(|name| name.ends_with(&round.to_string())),
                "{chunk:?}"
            );
        }
    }

    #[test]
    fn every_trial_has_a_seed_of_its_own_that_follows_from_the_runs() {
        let plan = plan(5, 7);
        let seeds = |plan: &Plan| {
            plan.order()
                .iter()
                .map(|trial| trial.seed)
                .collect::<Vec<_>>()
        };
        let mut sorted = seeds(&plan);
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 20);
        assert_eq!(seeds(&plan), seeds(&self::plan(5, 7)));
        assert_ne!(seeds(&plan), seeds(&self::plan(5, 8)));
    }

    #[test]
    fn open_ends_are_read_and_printed_alike() {
        for (text, printed) in [
            ("5%", "ok=5%"),
            ("answered-p50-ms=2.5%", "answered-p50-ms=2.5%"),
        ] {
            assert_eq!(text.parse::<Until>().unwrap().to_string(), printed);
        }
        for wrong in ["5", "0%", "-1%", "nan%", "okay=5%", "ok=", "%"] {
            assert!(wrong.parse::<Until>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_order_follows_from_the_seed() {
        assert_eq!(names(&plan(9, 7)), names(&plan(9, 7)));
        assert_ne!(names(&plan(9, 7)), names(&plan(9, 8)));
    }
}
