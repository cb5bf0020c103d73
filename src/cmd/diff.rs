//! `backlog-lab diff`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{print, print_json, stored, width};
use crate::cli::DiffArgs;
use crate::error::Error;
use crate::report as render;
use crate::report::charts::{self, Chart, Options};
use crate::result::{Comparison, Results, compare, results};
use crate::run::write_atomically;

pub(super) fn diff(args: &DiffArgs) -> Result<ExitCode, Error> {
    let comparison = compare(&load(&args.before)?, &load(&args.after)?);
    if !comparison.different_setup.is_empty() && !args.allow_different_setup {
        return Err(Error::DifferentSetup(comparison.different_setup));
    }
    let chart = args
        .chart
        .as_deref()
        .map(|path| draw(path, &comparison, args));
    let chart = chart.transpose()?;
    if let Some((file, _)) = &chart {
        eprintln!("{} and .png", file.display());
    }
    if args.json {
        print_json(&comparison)?;
    } else if args.markdown {
        print(&render::diff_markdown(&comparison))?;
        if let Some((file, chart)) = chart {
            print(&format!("\n![{}]({})\n", chart.alt, file.display()))?;
        }
    } else {
        print(&render::diff(&comparison, width()))?;
    }
    for (arm, figure) in comparison.regressions() {
        eprintln!("worse: {arm}: {}", figure.figure);
    }
    let not_judged: Vec<&str> = comparison.not_judged().collect();
    Ok(ExitCode::from(if !args.fail_on_regression {
        0
    } else if !not_judged.is_empty() || comparison.arms.is_empty() {
        eprintln!(
            "no regression can be ruled out: too few valid trials of {}",
            not_judged.join(", ")
        );
        4
    } else {
        u8::from(comparison.regressions().next().is_some())
    }))
}

/// Draws the comparison into two files; the one that Markdown shows, and the chart.
fn draw(path: &Path, comparison: &Comparison, args: &DiffArgs) -> Result<(PathBuf, Chart), Error> {
    let (theme, size) = (args.theme, args.size);
    let chart = charts::difference(comparison, Options { theme, size })?;
    // One that was given with its extension names the same two files.
    let stem = match path.extension().and_then(OsStr::to_str) {
        Some("png" | "svg") => path.with_extension(""),
        _ => path.to_owned(),
    };
    let file = |extension: &str| {
        let mut name = stem.clone().into_os_string();
        name.push(extension);
        PathBuf::from(name)
    };
    write_atomically(&file(".png"), &chart.png)?;
    write_atomically(&file(".svg"), &chart.svg)?;
    Ok((file(".svg"), chart))
}

/// A run's results, derived anew from its observations.
fn load(name: &str) -> Result<Results, Error> {
    let (_, manifest, observations) = stored(name)?;
    Ok(results(&manifest, &observations))
}
