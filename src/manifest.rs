//! What a run is, beside its observations. Pure.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observation::SCHEMA_VERSION;
use crate::plan::Plan;

/// What a run is, beside its observations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The stored form's version.
    pub schema_version: u32,
    /// The run's id: when it began and its seed.
    pub run_id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// The command that began it.
    pub command: Vec<String>,
    /// The program.
    pub tool: Tool,
    /// The machine.
    pub host: Host,
    /// What was to be done.
    pub plan: Plan,
}

/// The program that made a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its version.
    pub version: String,
    /// The revision of its source, when it was built in a checkout.
    pub git: Option<String>,
}

impl Tool {
    /// This program.
    pub fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            git: Some(env!("BACKLOG_LAB_GIT").to_owned()).filter(|git| !git.is_empty()),
        }
    }
}

impl Manifest {
    /// The manifest of a run that begins at `started_at`.
    pub fn new(command: Vec<String>, host: Host, started_at: Timestamp, plan: Plan) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            run_id: format!(
                "{}-{:08x}",
                started_at.strftime("%Y%m%dT%H%M%SZ"),
                plan.seed
            ),
            started_at,
            command,
            tool: Tool::this(),
            host,
            plan,
        }
    }
}

/// What a run records of the machine it ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// The machine's architecture, as `uname -m` prints it.
    pub architecture: Option<String>,
    /// Processors that this process may use.
    pub cpus: Option<usize>,
}
