//! `backlog-lab list`.

use std::process::ExitCode;

use serde::Serialize;

use super::{here, print, print_json};
use crate::arm::Catalog;
use crate::cli::ListArgs;
use crate::error::Error;

#[derive(Serialize)]
struct Row {
    name: String,
    title: String,
    why: String,
    arms: usize,
    file: Option<String>,
}

pub(super) fn list(args: &ListArgs) -> Result<ExitCode, Error> {
    let mut rows = Vec::new();
    for source in Catalog::new(here()).all()? {
        let arms = source.arms(&[])?;
        let Some(first) = arms.first() else { continue };
        rows.push(Row {
            name: source.name.clone(),
            title: first.title.clone(),
            why: first.why.clone(),
            arms: arms.len(),
            file: source.file.as_ref().map(|path| path.display().to_string()),
        });
    }
    if args.json {
        print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let widest = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for row in rows {
        let cells = if row.arms > 1 {
            format!(" ({} cells)", row.arms)
        } else {
            String::new()
        };
        print(&format!("{:widest$}  {}{cells}\n", row.name, row.title))?;
    }
    Ok(ExitCode::SUCCESS)
}
