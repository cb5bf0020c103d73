//! `backlog-lab break`: the search for the highest load that an arm bears. Each load is an arm of the run.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;

use super::progress::Watcher;
use super::{REPORTS, here, print, report, run, signals, width};
use crate::arm::{Arm, Catalog, LinkKind, LoadKind, Span};
use crate::cli::BreakArgs;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::probe::host::read_host;
use crate::report as render;
use crate::result::{Held, Step, TrialResult, Tries, expected_breaking_load, held, held_in};
use crate::run::{RunFolder, Sought, random_seed, seek};
use crate::search::Search;

/// The first load where the settings do not say what is to be expected.
const FIRST_LOAD: f64 = 100.0;
/// The first load is to be borne, so that the interval has a lower end.
const BELOW_EXPECTED: f64 = 0.8;
/// How long a load lasts, unless somebody says otherwise.
const STEP: Span = Span::from_ms(4_000);

pub(super) fn search(args: &BreakArgs) -> Result<ExitCode, Error> {
    let arm = the_one(args)?;
    let (by, step) = (args.by.unwrap_or(arm.load().0), duration(args, &arm));
    let lightest = arm.with_load(by, 1, step).map_err(Error::Usage)?;
    let expected = expected_breaking_load(&lightest);
    let first = expected.map_or(FIRST_LOAD, |load| load * BELOW_EXPECTED);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number, cut to the largest load"
    )]
    let mut search = Search::new(first as u32, args.most, args.within, args.trials);

    let (lab, interrupt) = run::ready(std::slice::from_ref(&arm))?;
    let seed = match args.seed {
        Some(seed) => seed,
        None => random_seed().map_err(Error::Seed)?,
    };
    let plan = Plan::new(Vec::new(), args.trials, seed, args.set.clone());
    let manifest = Manifest::new(command(args, seed), read_host(), Timestamp::now(), plan);
    let (folder, manifest) = match &args.out {
        Some(path) => (RunFolder::create(path, &manifest)?, manifest),
        None => RunFolder::create_below(Path::new(REPORTS), manifest)?,
    };
    if args.out.is_none()
        && let Err(error) = folder.link_as_latest()
    {
        eprintln!("{error}; the run itself is in {}", folder.path().display());
    }
    let mut told = Told {
        by,
        watcher: Watcher::new(args.quiet, None),
        quiet: args.quiet,
        cannot: Vec::new(),
    };
    let arm_at = |load| arm.with_load(by, load, step);
    let found = seek(&mut search, arm_at, &lab, &folder, manifest, |sought| {
        told.on(sought);
    })?;
    let Told { mut cannot, .. } = told;
    if search.gave_up() {
        cannot.push("the search ended for want of steps".into());
    }

    let (results, charts) = report::write(
        &folder,
        &found.manifest,
        &found.observations,
        args.charts.options(),
    )?;
    if args.json {
        for why in &cannot {
            eprintln!("{why}");
        }
        print(&render::json(&results))?;
    } else {
        print(&render::staircases(&results, width()))?;
        if let [only] = results.arms.as_slice() {
            let (load, held) = (by.told(only.settings.load().1), held(only).0);
            print(&format!("{load}: {held}; no other load was tried.\n"))?;
        }
        for why in &cannot {
            print(&format!("{why}\n"))?;
        }
        let readme = folder.path().join("README.md");
        print(&format!("{}\n", readme.display()))?;
    }
    let unknown = results.arms.iter().any(|arm| held(arm).0 == Held::Unknown);
    let code = if unknown { results.exit_code() } else { 0 };
    let code = interrupt
        .raised()
        .map_or(charts.exit_code(code), signals::exit_code);
    Ok(ExitCode::from(code))
}

/// The arm to search with. Steps of one arm are that arm.
fn the_one(args: &BreakArgs) -> Result<Arm, Error> {
    let arms = Catalog::new(here()).load(std::slice::from_ref(&args.arm), &args.set)?;
    let same = |a: &Arm, b: &Arm| a.without_load() == b.without_load();
    match arms.as_slice() {
        [first, rest @ ..] if rest.iter().all(|one| same(one, first)) => {
            if first.link.kind == LinkKind::Here {
                return Err(Error::Usage(format!(
                    "arm {} has link.kind = \"here\": loads are only searched for in namespaces of their own; give it another link with --set link.kind=loopback",
                    first.name
                )));
            }
            if first.client.is_tool() {
                return Err(Error::Usage(format!(
                    "arm {} has a load tool, which says itself how much it does: loads are only searched for with the lab's own clients",
                    first.name
                )));
            }
            Ok(first.clone())
        }
        many => Err(Error::Usage(format!(
            "{} is {} arms that differ in more than their load; search with one of them, and fix its factors with --set",
            args.arm,
            many.len()
        ))),
    }
}

fn duration(args: &BreakArgs, arm: &Arm) -> Span {
    let own = Some(arm.client.duration).filter(|own| *own != Span::default());
    args.step.or(own).unwrap_or(STEP)
}

/// What is told on the way.
struct Told {
    by: LoadKind,
    watcher: Watcher,
    quiet: bool,
    /// Why loads could not be raised.
    cannot: Vec<String>,
}

impl Told {
    fn on(&mut self, sought: Sought<'_>) {
        match sought {
            Sought::Trial(event) => self.watcher.on(&event),
            Sought::Refused { load, why } => {
                let load = self.by.told(load.into());
                self.cannot.push(format!("{load} cannot be raised: {why}"));
            }
            Sought::Load {
                load,
                step,
                last,
                again,
            } if !self.quiet => {
                let load = self.by.told(load.into());
                eprintln!("{load}: {}", of_trial(step, last, again));
            }
            Sought::Load { .. } => {}
        }
    }
}

/// How a load has gone: `holds`, `holds (trial 2)`, `trial 2 says nothing (why); it is tried again`.
fn of_trial(step: &Step, last: &TrialResult, again: bool) -> String {
    let Tries {
        counted, spoiled, ..
    } = step.tries;
    let short = if step.too_short {
        ", too short to tell"
    } else {
        ""
    };
    let told = format!("{}{short}", step.held);
    let n = counted + spoiled;
    if held_in(last).is_none() {
        let why = last.reason.as_deref();
        let why =
            why.unwrap_or("the machine had no processor time left, and the server did not use it");
        let then = if again { "it is tried again" } else { &told };
        return format!("trial {n} says nothing ({why}); {then}");
    }
    if n > 1 {
        format!("{told} (trial {n})")
    } else {
        told
    }
}

/// The command that makes the same search again.
fn command(args: &BreakArgs, seed: u64) -> Vec<String> {
    let mut words = vec![
        "backlog-lab".to_owned(),
        "break".to_owned(),
        args.arm.clone(),
    ];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(
            value
                .map(|value| [name.to_owned(), value])
                .into_iter()
                .flatten(),
        );
    };
    option("--by", args.by.as_ref().map(LoadKind::to_string));
    option("--step", args.step.map(|step| step.to_string()));
    option("--within", Some(args.within.to_string()));
    option("--most", Some(args.most.to_string()));
    option("-n", Some(args.trials.to_string()));
    for change in &args.set {
        option("--set", Some(change.to_string()));
    }
    option("--seed", Some(seed.to_string()));
    words.extend(args.charts.words());
    words
}
