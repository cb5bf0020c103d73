//! `backlog-lab ladder`: what happened to one client, event by event.

use std::process::ExitCode;

use super::{print, stored, width};
use crate::cli::LadderArgs;
use crate::error::Error;
use crate::nearest::did_you_mean;
use crate::report::ladder::{LEGEND, Ladders, examples, text};
use crate::report::wrapped;

pub(super) fn ladder(args: &LadderArgs) -> Result<ExitCode, Error> {
    let (_, manifest, mut observations) = stored(&args.run)?;
    if let Some(arm) = &args.arm {
        let group = format!("{arm}/");
        observations.retain(|one| one.arm == *arm || one.arm.starts_with(&group));
        if observations.is_empty() {
            let arms = manifest.plan.arms.iter().map(|one| one.name.as_str());
            let hint = did_you_mean(arm, arms);
            return Err(Error::Usage(format!(
                "run {} has no arm \"{arm}\"{hint} (`backlog-lab report {}` shows its arms)",
                args.run, args.run
            )));
        }
    }
    let trials: Vec<Ladders<'_>> = observations.iter().filter_map(Ladders::of).collect();
    let Some(first) = trials.first() else {
        return Err(Error::Usage(format!(
            "run {} holds no measured trial",
            args.run
        )));
    };
    let chosen = match args.connection {
        None => examples(&trials),
        Some(n) if (n as usize) < first.len() => vec![(0, n as usize)],
        Some(n) => {
            return Err(Error::Usage(format!(
                "there is no connection {n}: they are numbered from 0 to {}",
                first.len().saturating_sub(1)
            )));
        }
    };
    let ladders: Vec<String> = chosen
        .into_iter()
        .map(|(place, n)| text(&trials[place].ladder(n), width()))
        .collect();
    let legend = wrapped(LEGEND, width(), "");
    print(&format!("{}\n{legend}", ladders.join("\n")))?;
    Ok(ExitCode::SUCCESS)
}
