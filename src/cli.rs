//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::arm::Override;
use crate::plan::Until;

/// A reproducible lab for the TCP listen backlog on Linux.
#[derive(Debug, Parser)]
#[command(
    name = "backlog-lab",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 all well; 1 an expectation was not met; 2 usage or arm file; 3 this machine \
    does not allow an arm, or hides what it needs; 4 a trial failed or is invalid, or a file could not be written; 130, 143 \
    interrupted, with a partial report."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run arms in namespaces of their own and compare them
    Run(RunArgs),
    /// List the arms that can be run
    List(ListArgs),
    /// Show every resolved setting of an arm, and its plan
    Show(ShowArgs),
    /// Make a run's report again from its stored observations
    Report(ReportArgs),
    /// Hold the kernel's listen-queue facts against this machine: expected, observed, verdict
    Facts(FactsArgs),
    /// Compare two runs: by how much they differ, and whether that is real
    Diff(DiffArgs),
    /// Try what arms need of this machine: what works, what does not, and the ways out
    Doctor(DoctorArgs),
    /// Print the JSON Schema of a document
    Schema {
        /// The document
        document: Document,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The documents that have a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Document {
    /// The arm file
    Arm,
    /// The results document
    Results,
}

/// Options of `run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct RunArgs {
    /// Arms by name, arm files, or folders of them
    #[arg(value_name = "ARM|FILE|FOLDER", default_values = ["arm-a", "arm-b", "arm-c"])]
    pub arms: Vec<String>,
    /// Trials of each arm; with --until, the most of them [default: 1; with --until 100]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub trials: Option<u32>,
    /// Repeat until the 95 % interval of a figure's mean is this tight, such as 5% (of ok) or answered-p50-ms=5%
    #[arg(long, value_name = "[FIGURE=]PERCENT%")]
    pub until: Option<Until>,
    /// Let each arm have a first trial that does not count
    #[arg(long)]
    pub warm_up: bool,
    /// Trials at once, each in namespaces of its own; more than 1 disturb each other, and what is spoiled is marked
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// The seed of every random decision [default: a random one]
    #[arg(long)]
    pub seed: Option<u64>,
    /// The run folder itself; must be new or empty [default: reports/RUN-ID]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Override a key, such as server.backlog=3; several values make a matrix. `show ARM` prints the keys
    #[arg(long, value_name = "KEY=VALUE[,VALUE..]")]
    pub set: Vec<Override>,
    /// Allow arms with link.kind = "here", which run in no namespace of their own
    #[arg(long)]
    pub here: bool,
    /// Print the results document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// An arm by name, an arm file, or a folder of them
    #[arg(value_name = "ARM|FILE|FOLDER")]
    pub arm: String,
    /// Override a key, as `run` does
    #[arg(long, value_name = "KEY=VALUE[,VALUE..]")]
    pub set: Vec<Override>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `facts`.
#[derive(Debug, Args)]
pub struct FactsArgs {
    /// Run in no namespace, on this machine's loopback interface: for kernels without namespaces. Nothing is set
    #[arg(long)]
    pub here: bool,
    /// Trials at once
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `diff`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct DiffArgs {
    /// A run folder, a run id below reports/, or `latest`
    #[arg(value_name = "RUN")]
    pub before: String,
    /// The run to compare it with
    #[arg(value_name = "RUN")]
    pub after: String,
    /// Compare although kernel, settings or arms are not the same
    #[arg(long)]
    pub allow_different_setup: bool,
    /// Exit with 1 when a figure is really worse, with 4 when that cannot be said
    #[arg(long)]
    pub fail_on_regression: bool,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The arms whose needs count [default: all that `list` shows]
    #[arg(value_name = "ARM|FILE|FOLDER")]
    pub arms: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run folder, a run id below reports/, or `latest`
    #[arg(default_value = "latest")]
    pub run: String,
    /// Print the results document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
}
