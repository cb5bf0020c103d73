//! `backlog-lab list`.

use std::process::ExitCode;

use serde::Serialize;

use super::{here, print, print_json, width};
use crate::arm::Catalog;
use crate::cli::{DEFAULT_ARMS, ListArgs};
use crate::error::Error;
use crate::report::wrapped;

#[derive(Serialize)]
struct Row {
    name: String,
    title: String,
    why: String,
    /// How many cells its matrix has; 1 without a matrix.
    arms: usize,
    /// Whether `run` runs it where no arm is named.
    default: bool,
    file: Option<String>,
}

pub(super) fn list(args: &ListArgs) -> Result<ExitCode, Error> {
    let catalog = Catalog::new(here());
    let sources = if args.arms.is_empty() {
        catalog.all()?
    } else {
        catalog.named(&args.arms)?
    };
    let mut rows = Vec::new();
    for source in sources {
        let arms = source.arms(&[])?;
        let Some(first) = arms.first() else { continue };
        rows.push(Row {
            title: first.title.clone(),
            why: first.why.clone(),
            arms: arms.len(),
            default: DEFAULT_ARMS.contains(&source.name.as_str()),
            file: source.file.as_ref().map(|path| path.display().to_string()),
            name: source.name,
        });
    }
    if args.json {
        print_json(&rows)?;
    } else {
        print(&table(&rows, width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A name and a title for each, the title broken below itself.
fn table(rows: &[Row], width: usize) -> String {
    let widest = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let mut title = row.title.clone();
        if row.arms > 1 {
            title += &format!(" ({} cells)", row.arms);
        }
        if row.default {
            title += " [default of `run`]";
        }
        let mut name = row.name.as_str();
        for line in wrapped(&title, width.saturating_sub(widest + 2).max(20), "").lines() {
            text += &format!("{name:widest$}  {line}\n");
            name = "";
        }
    }
    text
}
