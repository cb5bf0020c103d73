//! `backlog-lab claims`: the claims in circulation, held against this kernel.

use std::process::ExitCode;

use serde::Serialize;

use super::facts::measure;
use super::{print, print_json, width};
use crate::arm::{Arm, Catalog};
use crate::cli::ClaimsArgs;
use crate::error::Error;
use crate::manifest::Host;
use crate::report as render;
use crate::result::{Claim, Ruled, claims as carried};

#[derive(Serialize)]
struct Report<'a> {
    host: &'a Host,
    claims: &'a [Ruled],
}

pub(super) fn claims(args: &ClaimsArgs) -> Result<ExitCode, Error> {
    let claims = carried().map_err(|error| Error::Usage(format!("claims.toml: {error}")))?;
    let (results, code) = measure(arms_of(&claims)?, args.jobs)?;
    let ruled: Vec<Ruled> = claims
        .iter()
        .map(|claim| claim.rule(&results.arms))
        .collect();
    let host = &results.host;
    if args.json {
        print_json(&Report {
            host,
            claims: &ruled,
        })?;
    } else if args.markdown {
        print(&render::claims_markdown(host, &ruled))?;
    } else {
        print(&render::claims(host, &ruled, width()))?;
    }
    Ok(code)
}

/// The arms that the claims name, each once: those of this program, whatever lies in the current folder.
fn arms_of(claims: &[Claim]) -> Result<Vec<Arm>, Error> {
    let named = || claims.iter().flat_map(|claim| &claim.predicts);
    let mut files: Vec<String> = Vec::new();
    for prediction in named() {
        let file = match prediction.arm.rsplit_once('/') {
            Some((file, cell)) if cell.contains('=') => file,
            _ => &prediction.arm,
        };
        if !files.iter().any(|one| one == file) {
            files.push(file.to_owned());
        }
    }
    let mut arms = Catalog::shipped().load(&files, &[])?;
    arms.retain(|arm| named().any(|prediction| prediction.arm == arm.name));
    Ok(arms)
}
