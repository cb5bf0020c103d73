//! The command line.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::arm::{LoadKind, Override, Span};
use crate::plan::{CAPTURE_MIB, Until};
use crate::report::charts::{Options, Size, Theme};

/// The arms that `run` runs where none is named.
pub const DEFAULT_ARMS: [&str; 3] = ["arm-a", "arm-b", "arm-c"];

/// A reproducible lab for the TCP listen backlog on Linux.
#[derive(Debug, Parser)]
#[command(
    name = "backlog-lab",
    version,
    max_term_width = 80,
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
    /// Search for the load at which an arm breaks, and say what limits it
    Break(BreakArgs),
    /// List the arms that can be run
    List(ListArgs),
    /// Show every resolved setting of an arm, and its plan
    Show(ShowArgs),
    /// Make a run's report again from its stored observations
    Report(ReportArgs),
    /// Show what happened to a client, event by event
    Ladder(LadderArgs),
    /// Audit the TCP listeners of this host: which is full, who set its limit, what helps
    Audit(AuditArgs),
    /// Hold a port in a promised state, for tests
    Hold(HoldArgs),
    /// Hold the kernel's listen-queue facts against this machine: expected, observed, verdict
    Facts(FactsArgs),
    /// Hold the claims in circulation against this machine: claimed, measured, ruling
    Claims(ClaimsArgs),
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
    #[arg(value_name = "ARM|FILE|FOLDER", default_values = DEFAULT_ARMS)]
    pub arms: Vec<String>,
    /// Trials of each arm; with --until, the most of them [default: 1; with --until 100]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub trials: Option<u32>,
    /// Repeat until the 95 % interval of a figure's mean is this tight, such as 5% (of ok) or answered-p50-ms=5%; exit
    /// with 1 when it does not become so
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
    /// Packets of a wire to keep as captures/*.pcapng, for each trial; 0 keeps none
    #[arg(long, value_name = "MIB", default_value_t = CAPTURE_MIB, value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub capture: u32,
    /// Allow arms with link.kind = "here", which run in no namespace of their own
    #[arg(long)]
    pub here: bool,
    /// Print the results document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(short, long)]
    pub quiet: bool,
    /// How charts are drawn
    #[command(flatten)]
    pub charts: ChartArgs,
}

/// Options of `break`.
#[derive(Debug, Args)]
pub struct BreakArgs {
    /// An arm by name, or an arm file
    pub arm: String,
    /// What is raised [default: what the arm has: its rate, its concurrency, or its connections]
    #[arg(long, value_enum)]
    pub by: Option<LoadKind>,
    /// How long each rate or concurrency lasts [default: as the arm says, else 4s]
    #[arg(long, value_name = "TIME")]
    pub step: Option<Span>,
    /// How narrow the interval of the breaking point is to be, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub within: u32,
    /// No load above this is tried
    #[arg(long, value_name = "LOAD", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub most: u32,
    /// Trials of a load before it is borne; one that breaks is enough, and both edges are tried at least twice
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub trials: u32,
    /// The seed of every random decision [default: a random one]
    #[arg(long)]
    pub seed: Option<u64>,
    /// The run folder itself; must be new or empty [default: reports/RUN-ID]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Override a key, such as server.backlog=3
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Override>,
    /// Print the results document on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(short, long)]
    pub quiet: bool,
    /// How charts are drawn
    #[command(flatten)]
    pub charts: ChartArgs,
}

/// Options of the charts.
#[derive(Debug, Clone, Copy, Args)]
pub struct ChartArgs {
    /// Draw no charts
    #[arg(long)]
    pub no_charts: bool,
    /// Colours of the charts
    #[arg(long, value_enum, default_value_t)]
    pub theme: Theme,
    /// Size of the charts in pixels
    #[arg(long, value_name = "WxH", default_value_t)]
    pub size: Size,
}

impl ChartArgs {
    /// How charts are to be drawn; `None` when none are wanted.
    pub fn options(self) -> Option<Options> {
        let Self {
            no_charts,
            theme,
            size,
        } = self;
        (!no_charts).then_some(Options { theme, size })
    }

    /// The same as words of a command line; what is the default goes without saying.
    pub fn words(self) -> Vec<String> {
        let default = Options::default();
        let mut words = Vec::new();
        if self.no_charts {
            words.push("--no-charts".to_owned());
        }
        if let Some(theme) = self.theme.to_possible_value()
            && self.theme != default.theme
        {
            words.extend(["--theme".to_owned(), theme.get_name().to_owned()]);
        }
        if self.size != default.size {
            words.extend(["--size".to_owned(), self.size.to_string()]);
        }
        words
    }
}

/// Options of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only these: arms by name, arm files, or folders of them [default: all that can be named]
    #[arg(value_name = "ARM|FILE|FOLDER")]
    pub arms: Vec<String>,
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

/// Options of `claims`.
#[derive(Debug, Args)]
pub struct ClaimsArgs {
    /// Trials at once
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// Print Markdown, as the table in docs/method.md
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `diff`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct DiffArgs {
    /// A run folder, a run id below reports/, or `latest`
    #[arg(value_name = "BEFORE")]
    pub before: String,
    /// The run to compare it with
    #[arg(value_name = "AFTER")]
    pub after: String,
    /// Compare although kernel, settings or arms are not the same
    #[arg(long)]
    pub allow_different_setup: bool,
    /// Exit with 1 when a figure is really worse, with 4 when that cannot be said
    #[arg(long)]
    pub fail_on_regression: bool,
    /// Draw a chart into FILE.png and FILE.svg
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Colours of the chart
    #[arg(long, value_enum, default_value_t, requires = "chart")]
    pub theme: Theme,
    /// Size of the chart in pixels
    #[arg(long, value_name = "WxH", default_value_t, requires = "chart")]
    pub size: Size,
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
    /// How charts are drawn
    #[command(flatten)]
    pub charts: ChartArgs,
}

/// Options of `audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The window over which drops are counted; 0s looks once and counts nothing
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: Span,
    /// Windows, one after another [default: 1; with --watch until interrupted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// The namespace of this process
    #[arg(long, value_name = "PID", conflicts_with = "all_netns")]
    pub pid: Option<u32>,
    /// Every namespace that has a listener: containers too
    #[arg(long)]
    pub all_netns: bool,
    /// Only listeners on this port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Go on, redrawing in place; changes stand out
    #[arg(short, long)]
    pub watch: bool,
    /// Print the audit as a JSON document, and nothing else on standard output
    #[arg(long)]
    pub json: bool,
    /// Also write the metrics to a file for the Prometheus textfile collector
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Exit with 1 unless every listener on --port has at least this limit
    #[arg(long, value_name = "N")]
    pub expect_backlog: Option<u32>,
    /// net.core.somaxconn of the namespace that COMMAND is started in
    #[arg(long, value_name = "N", requires = "command")]
    pub somaxconn: Option<u32>,
    /// A program to start in a fresh namespace, to audit there, and to stop again
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "all_netns"])]
    pub command: Vec<OsString>,
}

/// Options of `hold`.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// What a client of the port meets
    #[arg(value_enum)]
    pub mode: HoldMode,
    /// The port; 0 picks a free one
    #[arg(default_value_t = 0)]
    pub port: u16,
    /// The address, IPv4 or IPv6
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// With slow: the time until the answer
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub delay: Span,
    /// Hold it for this long [default: until interrupted]
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<Span>,
    /// Say ready as a line of JSON
    #[arg(long)]
    pub json: bool,
    /// A command to run while the port is held, with `BACKLOG_LAB_ADDR` set; its exit status is returned
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What a client of a held port meets.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum HoldMode {
    /// A connect times out: the accept queue is full
    Full,
    /// A connect succeeds, and nothing ever answers
    Ghost,
    /// An HTTP answer comes after --delay
    Slow,
    /// The connection is reset after it was established
    Reset,
    /// The connection is closed without an answer (FIN, never RST)
    Close,
    /// A connect is refused: the port is taken and has no listener
    Refuse,
}

/// Options of `ladder`.
#[derive(Debug, Args)]
pub struct LadderArgs {
    /// A run folder, a run id below reports/, or `latest`
    #[arg(default_value = "latest")]
    pub run: String,
    /// Only this arm of the run, or the cells of this matrix
    #[arg(long)]
    pub arm: Option<String>,
    /// This connection of the first trial [default: an example of every fate]
    #[arg(long, value_name = "N")]
    pub connection: Option<u32>,
}
