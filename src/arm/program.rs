//! A foreign program as an arm describes it: what is started, and what it finds around it.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// A foreign program and its surroundings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The Debian package that has it.
    pub package: Option<String>,
    /// Its working directory; `None` is a fresh folder of the trial's own, with `files` in it.
    pub directory: Option<String>,
    /// Files of that folder: name and text.
    pub files: BTreeMap<String, String>,
    /// Variables beside those of the lab's own environment.
    pub environment: BTreeMap<String, String>,
    /// Its limit of open files, soft and hard; `None` is the lab's own.
    pub nofile: Option<u64>,
}

impl ProgramSpec {
    /// What cannot be meant. The keys are named with the table in which they stand.
    pub(super) fn check(&self, table: &str) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(format!("{table}.command: a program must be named"));
        }
        let has_nul = |text: &String| text.contains('\0');
        if self.command.iter().any(has_nul) {
            return Err(format!("{table}.command: no argument can hold a zero byte"));
        }
        if let Some(name) = self
            .environment
            .keys()
            .find(|name| name.is_empty() || name.contains(['=', '\0']))
        {
            return Err(format!(
                "{table}.environment: \"{name}\" is no variable's name"
            ));
        }
        if let Some(name) = self.files.keys().find(|name| !is_below(name)) {
            return Err(format!(
                "{table}.files: \"{name}\" must be a name such as \"nginx.conf\", inside the program's folder"
            ));
        }
        if self.directory.is_some() && !self.files.is_empty() {
            return Err(format!(
                "{table}.directory: files are written into a folder of the trial's own; remove one of the two keys"
            ));
        }
        if self.nofile.is_some_and(|most| most < FEWEST_FILES) {
            return Err(format!(
                "{table}.nofile: at least {FEWEST_FILES}, else no program starts"
            ));
        }
        Ok(())
    }
}

/// Standard streams, libraries and a socket need a few.
const FEWEST_FILES: u64 = 8;

/// Whether a file's name stays inside the folder.
fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// A program that serves: the lab starts it in the server's namespace and waits until it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramServer {
    /// The program.
    pub program: ProgramSpec,
    /// The port that it is set up to listen on.
    pub port: u16,
    /// The `listen()` argument that it is set up for, where that is known.
    pub backlog: Option<i32>,
    /// How long it may take until it listens.
    pub ready_within: Span,
    /// How long it is left alone once it listens, so that its workers can start.
    pub settle: Span,
    /// When all of its processes are stopped for a while.
    pub pause: Option<Pause>,
}

/// A time during which all processes of a program are stopped (SIGSTOP, SIGCONT), as by a garbage collector that
/// stops the world, or by a machine that is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it begins, counted from the clients' start.
    pub at: Span,
    /// How long it lasts.
    #[serde(rename = "for")]
    pub lasts: Span,
}
