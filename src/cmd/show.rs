//! `backlog-lab show`.

use std::process::ExitCode;

use super::{here, print, print_json};
use crate::arm::Catalog;
use crate::cli::ShowArgs;
use crate::error::Error;
use crate::plan::Plan;

pub(super) fn show(args: &ShowArgs) -> Result<ExitCode, Error> {
    let arms = Catalog::new(here()).load(std::slice::from_ref(&args.arm), &args.set)?;
    let plan = Plan::new(arms, 1, 0, args.set.clone());
    if args.json {
        print_json(&plan.arms)?;
        return Ok(ExitCode::SUCCESS);
    }
    for arm in &plan.arms {
        let settings =
            toml::to_string(&arm.settings).map_err(|e| Error::Print(std::io::Error::other(e)))?;
        print(&format!("# {}\n{settings}\n", arm.name))?;
    }
    print("# plan: one trial of each, in this order; -n gives each more\n")?;
    for (n, trial) in plan.order().iter().enumerate() {
        print(&format!("#   {}. {}\n", n + 1, trial.arm.name))?;
    }
    Ok(ExitCode::SUCCESS)
}
