//! The subcommands: options in, library calls, printing. The only place that prints.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is where the program prints"
)]

mod audit;
mod breaking;
mod claims;
mod diff;
mod doctor;
mod facts;
mod hold;
mod ladder;
mod list;
mod progress;
mod report;
mod run;
mod schema;
mod show;
mod signals;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::cli::{Cli, Command};
use crate::error::Error;
use crate::result::Results;

/// Where runs are kept, below the current folder.
const REPORTS: &str = "reports";

/// Carries out a command line.
///
/// # Errors
/// Why it could not be carried out; [`Error::exit_code`] gives the exit code.
pub fn dispatch(cli: Cli) -> Result<ExitCode, Error> {
    match cli.command {
        Command::Run(args) => run::run(args),
        Command::Break(args) => breaking::search(&args),
        Command::List(args) => list::list(&args),
        Command::Show(args) => show::show(&args),
        Command::Report(args) => report::report(&args),
        Command::Ladder(args) => ladder::ladder(&args),
        Command::Audit(args) => audit::audit(&args),
        Command::Hold(args) => hold::hold(&args),
        Command::Facts(args) => facts::facts(&args),
        Command::Claims(args) => claims::claims(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Schema { document } => schema::schema(document),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "backlog-lab", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Clients and server share this process's descriptors. What the soft limit withholds, the hard limit may allow;
/// where it does not, the attempts beyond it are reported as "local limit".
fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A limit that cannot be raised is the limit that the run reports.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Prints to standard output; a reader that has gone away is no error.
fn print(text: &str) -> Result<(), Error> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Print(error)),
        _ => Ok(()),
    }
}

/// Prints a document as JSON.
fn print_json(document: &impl Serialize) -> Result<(), Error> {
    let mut text =
        serde_json::to_string_pretty(document).map_err(|error| Error::Print(error.into()))?;
    text.push('\n');
    print(&text)
}

/// The width to print for: the terminal's, or 80 columns where there is none.
fn width() -> usize {
    if !io::stdout().is_terminal() {
        return 80;
    }
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0).max(40))
}

/// The folder in which arms and reports are looked up.
fn here() -> &'static Path {
    Path::new("")
}

/// Whether every chart that was wanted is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charts {
    AsWanted,
    Missing,
}

impl Charts {
    /// The exit code of results with these charts: a file that could not be written is 4, and 3 is more serious.
    const fn exit_code(self, results: u8) -> u8 {
        match (self, results) {
            (Self::Missing, 0 | 1) => 4,
            (_, code) => code,
        }
    }
}

/// Prints a run: the results document, or the table and the verdicts.
fn print_results(results: &Results, json: bool) -> Result<(), Error> {
    use crate::report as render;
    if json {
        return print(&render::json(results));
    }
    let width = width();
    print(&format!(
        "{}\n{}{}{}",
        render::comparison(results, width),
        render::staircases(results, width),
        render::queues(results, width),
        render::verdicts(results, width)
    ))
}
