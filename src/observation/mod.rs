//! What one trial read from the kernel, the server and the clients. Nothing here is derived.
//!
//! An [`Observation`] is stored the moment its trial ends; results, tables and charts are made from the stored
//! file. All times are microseconds since the trial's origin, an instant just before the clients are released.

mod attempt;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use attempt::{Attempt, Ended, Request, Stage};
pub use wire::{Packet, Verdict, WireLog};

/// The version of the stored form. A change that an older reader would misread raises it.
pub const SCHEMA_VERSION: u32 = 1;

/// One trial's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The stored form's version.
    pub schema_version: u32,
    /// The arm's full name.
    pub arm: String,
    /// The trial's number within its arm, from 0.
    pub index: u32,
    /// How the trial ended.
    pub status: TrialStatus,
    /// Why it failed or was skipped.
    pub reason: Option<String>,
    /// What was read; absent when the trial was skipped or failed before it began.
    pub measured: Option<Measured>,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialStatus {
    /// It ran to its end.
    Measured,
    /// It broke off.
    Failed,
    /// This machine does not allow it.
    Skipped,
}

/// The readings of a trial that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What could not be read, or was read with reservations, in words.
    pub notes: Vec<String>,
    /// The server's namespace; on a loopback link the client's too.
    pub server: Namespace,
    /// The client's namespace, when it is another one.
    pub client: Option<Namespace>,
    /// Packets that the whole machine dropped from its per-CPU queues (`softnet_stat`), before and after.
    pub softnet_dropped: BeforeAfter<u64>,
    /// The sockets that listened.
    pub listeners: Vec<Listener>,
    /// Every attempt, by number.
    pub attempts: Vec<Attempt>,
    /// Every connection that `accept()` returned, in that order; of a program nobody tells.
    pub accepts: Vec<Accept>,
    /// `accept()` calls that failed, by errno.
    #[serde(default)]
    pub accept_failures: BTreeMap<String, u64>,
    /// The program that served; `None` when it was the lab's own server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ServerProgram>,
    /// Sockets on the server's port at the end that `accept()` had not returned: half-open and queued ones. Unknown
    /// where the kernel did not tell.
    pub pending: Option<Vec<Pending>>,
    /// Processor time.
    pub cpu: Cpu,
    /// What the client could be.
    #[serde(default)]
    pub generator: Generator,
    /// The load tool that ran in place of the lab's own clients; then there are no attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRun>,
    /// When the last client ended.
    pub ended_us: u64,
    /// What the relay saw and did, where the link is a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireLog>,
}

/// A reading before the clients start and one after the last has ended. Unknown is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BeforeAfter<T> {
    /// Before the clients start.
    pub before: Option<T>,
    /// After the last client has ended.
    pub after: Option<T>,
}

/// What belongs to a namespace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Namespace {
    /// The sysctls in force, by dotted name; `None` where the kernel does not show one.
    pub sysctls: BTreeMap<String, Option<String>>,
    /// Sysctls of that list that were measured because the kernel hides them, and how.
    pub measured_sysctls: BTreeMap<String, String>,
    /// The kernel's counters.
    pub counters: BeforeAfter<Counters>,
    /// Packets that the interfaces dropped on receipt (`/proc/net/dev`), by interface.
    pub rx_dropped: BeforeAfter<BTreeMap<String, u64>>,
}

/// Kernel counters by `Section.Name` as the kernel spells them; `None` where a value could not be read.
/// Most are unsigned 64-bit counters, a few are signed settings (`Tcp.MaxConn` is -1).
pub type Counters = BTreeMap<String, Option<i128>>;

/// A listening socket and the looks that were taken at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listener {
    /// Where it listens.
    pub address: SocketAddr,
    /// The `listen()` argument; `None` where it is a program's own.
    pub backlog_requested: Option<i32>,
    /// The look before the clients start.
    pub before: Look,
    /// The looks while they ran.
    pub samples: Samples,
    /// The look after the last client and the server have ended; of a socket that was closed before, the last one.
    pub after: Look,
    /// When the server closed it, if it did so before the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_us: Option<u64>,
}

/// One look at a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Accept-queue length: Recv-Q of the LISTEN socket.
    pub recv_q: u32,
    /// The limit in force: Send-Q of the LISTEN socket.
    pub send_q: u32,
    /// The socket's drop counter; `None` where the kernel does not tell.
    pub drops: Option<u32>,
}

/// The looks of a sampler, in columns of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Samples {
    /// The period that was asked for.
    pub period_us: u64,
    /// Ticks that passed without a look.
    pub missed: u64,
    /// When each look was really taken.
    pub at_us: Vec<u64>,
    /// Recv-Q at each look.
    pub recv_q: Vec<u32>,
    /// The drop counter at each look.
    pub drops: Vec<Option<u32>>,
    /// Send-Q, the limit in force: each value with the time of the first look that saw it. A program can listen again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub send_q: Vec<(u64, u32)>,
}

/// What the server's kernel held for a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerSide {
    /// A full socket that `accept()` has not returned.
    Established,
    /// A full socket that `accept()` has returned.
    Accepted,
    /// A half-open request.
    HalfOpen,
    /// Nothing.
    Nothing,
}

/// The other end of a connection that `accept()` returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Peer {
    /// A TCP client's address.
    Inet(SocketAddr),
    /// An `AF_UNIX` client, which is bound to a name with the number of its attempt.
    Unix {
        /// The attempt.
        client: u32,
    },
}

/// A connection that `accept()` returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// When `accept()` returned it.
    pub at_us: u64,
    /// Which of the listening sockets it came from.
    pub listener: usize,
    /// Which of the acceptors got it, where several share the socket.
    #[serde(default)]
    pub acceptor: u32,
    /// The client.
    pub peer: Peer,
    /// The error that the server met on it, as the errno's name; `EOF` when the client had closed.
    pub error: Option<String>,
}

/// A program that served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// From its start until it listened, in microseconds.
    pub ready_us: u64,
    /// The most open files of a process that holds the listening socket, as seen 20 times a second, and its limit.
    /// Of several processes, the one that came closest to its limit.
    pub open_files: Option<(u64, u64)>,
    /// When all of its processes were stopped, and when they went on, counted from the trial's origin.
    pub paused_us: Option<(u64, Option<u64>)>,
    /// What ended it.
    pub ended_by: EndedBy,
    /// How it ended, in words.
    pub ended: String,
    /// The processes that SIGTERM did not end, by name.
    pub stubborn: Vec<String>,
    /// Bytes that it wrote to standard output and standard error.
    pub output_bytes: u64,
    /// Those of them that were not kept.
    pub output_left_out: u64,
}

/// What ended a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    /// It had ended by itself.
    Itself,
    /// SIGTERM, sent to all of its processes.
    Sigterm,
    /// SIGKILL, after SIGTERM had not sufficed.
    Sigkill,
}

/// A socket on the server's port that `accept()` had not returned at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The client's address.
    pub peer: SocketAddr,
    /// The server's port, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_port: Option<u16>,
    /// What it was.
    pub state: ServerSide,
}

/// What the client could be. Unknown is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Generator {
    /// Threads that attempted connections.
    pub workers: Option<u32>,
    /// Why there were not more.
    pub problem: Option<String>,
    /// The limit of open files, which client and server share (`RLIMIT_NOFILE`).
    pub open_files: Option<u64>,
    /// Attempts of an open loop that found no thread free at their time.
    #[serde(default)]
    pub starved: u32,
}

/// A load tool that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRun {
    /// The command as it was run.
    pub command: Vec<String>,
    /// When it was started.
    pub started_us: u64,
    /// When it and whatever it had started was gone, or its time was up.
    pub ended_us: u64,
    /// Whether it ended by itself.
    pub in_time: bool,
    /// Its exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// How it ended, in words.
    pub ended: String,
    /// What it wrote to standard output: the beginning and the end, in bounds.
    pub stdout: String,
    /// What it wrote to standard error: the beginning and the end, in bounds.
    pub stderr: String,
    /// How many bytes of both are not kept.
    pub left_out_bytes: u64,
}

/// Processor time during the flood. Unknown is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// The server's thread.
    pub server_us: Option<u64>,
    /// The client's threads together.
    pub client_us: Option<u64>,
    /// The machine's idle time over all processors, in clock ticks, before and after.
    pub idle_ticks: BeforeAfter<u64>,
    /// The machine's whole time over all processors, in clock ticks, before and after.
    pub all_ticks: BeforeAfter<u64>,
}
