//! The listeners of a host, looked at from outside: which is full, who set its limit, what one change helps.
//!
//! ```text
//! Place (a namespace) --measure--> Window --report--> Audit (the document)
//! ```
//!
//! [`measure`] reads the kernel and nothing else: no sysctl is written, no listener is connected to. What follows
//! it is pure.

mod advice;
mod look;
mod verdict;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Serialize;

pub use advice::Advice;
pub use look::{LookError, Place, Readings, Seen, Settings};
pub use verdict::{Facts, Finding, SetBy, capacity};
pub use window::{PlaceWindow, Watched, Window, measure};

use crate::manifest::Host;
use crate::probe::owners::{Owner, Owners};

/// The version of the document. A change that an older reader would misread raises it.
pub const SCHEMA_VERSION: u32 = 1;

/// What one window showed, as people and programs read it. Unknown is `None`, never 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// The document's version.
    pub schema_version: u32,
    /// The machine.
    pub host: HostReport,
    /// The namespaces that were looked at.
    pub namespaces: Vec<NamespaceReport>,
    /// The listeners, one row for each socket: addresses and `SO_REUSEPORT` members are never summed.
    pub listeners: Vec<ListenerReport>,
    /// What could not be seen, and why.
    pub notes: Vec<String>,
}

/// The machine in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostReport {
    /// The kernel and the processors.
    #[serde(flatten)]
    pub host: Host,
    /// The window's length; `None` for a single look.
    pub window_ms: Option<u64>,
    /// The machine's idle share of the window.
    pub idle_percent: Option<f64>,
    /// Packets dropped from the per-CPU queues of the whole machine.
    pub softnet_dropped: Growth,
}

/// A counter in the window, and its whole value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Growth {
    /// Its growth in the window.
    pub window: Option<u64>,
    /// Its value, which counts since boot, or since the namespace was made.
    pub since_boot: Option<u64>,
}

/// A namespace in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamespaceReport {
    /// Its inode, as `readlink /proc/PID/ns/net` shows it.
    pub id: Option<u64>,
    /// The process that it was found by; `None` for the auditor's own.
    pub found_by: Option<u32>,
    /// Its settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// The counters of [`COUNTERS`].
    pub counters: BTreeMap<&'static str, Growth>,
    /// Settings that bite in this window, in words.
    pub warnings: Vec<String>,
}

/// The counters of a namespace that an audit shows, in the kernel's spelling.
pub const COUNTERS: [&str; 8] = [
    OVERFLOWS,
    DROPS,
    SYN_QUEUE_DROPS,
    "TcpExt.TCPReqQFullDoCookies",
    COOKIES_SENT,
    "TcpExt.SyncookiesRecv",
    "TcpExt.SyncookiesFailed",
    PASSIVE_OPENS,
];

/// Packets that met a full accept queue.
pub const OVERFLOWS: &str = "TcpExt.ListenOverflows";
/// Packets that a listener dropped, for any reason.
pub const DROPS: &str = "TcpExt.ListenDrops";
const SYN_QUEUE_DROPS: &str = "TcpExt.TCPReqQFullDrop";
const COOKIES_SENT: &str = "TcpExt.SyncookiesSent";
const PASSIVE_OPENS: &str = "Tcp.PassiveOpens";

/// A listening socket in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListenerReport {
    /// The namespace's inode.
    pub namespace: Option<u64>,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// The first process that holds it; `None` when it is not visible.
    pub pid: Option<u32>,
    /// That process's name.
    pub process: Option<String>,
    /// How many processes hold it, as far as they are visible.
    pub processes: usize,
    /// The limit in force: the effective backlog.
    pub limit: Option<u32>,
    /// How many connections its queue holds: the limit plus one.
    pub capacity: Option<u64>,
    /// Connections that waited for accept at the last look.
    pub depth: u32,
    /// The most at any look of the window.
    pub depth_max: u32,
    /// `depth` of `capacity`, in percent.
    pub fill_percent: Option<f64>,
    /// Looks of the window.
    pub looks: u32,
    /// Looks at which it was full.
    pub full_looks: u32,
    /// Packets that the socket dropped in the window.
    pub drops: Option<u32>,
    /// Packets that it dropped since it was opened.
    pub drops_since_open: Option<u32>,
    /// `net.core.somaxconn` of its namespace.
    pub somaxconn: Option<u64>,
    /// Who set its limit.
    pub limit_set_by: Option<SetBy>,
    /// Open files of its process; of several, of the one that is nearest to its limit.
    pub files_used: Option<u64>,
    /// The soft limit on them.
    pub files_allowed: Option<u64>,
    /// The most serious finding.
    pub verdict: Finding,
    /// Every finding, the most serious first.
    pub findings: Vec<Finding>,
    /// The findings in words.
    pub says: String,
    /// Who set its limit, in words.
    pub limit_says: Option<String>,
    /// The one change that moves the number, and the popular ones that do not.
    #[serde(flatten)]
    pub advice: AdviceReport,
}

/// The advice as two fields of the document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AdviceReport {
    /// The one change that helps; `None` when none is needed.
    pub advice: Option<String>,
    /// Popular changes that do not help here.
    pub does_not_help: Vec<String>,
}

/// What is reported of a window.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Only listeners on this port.
    pub port: Option<u16>,
    /// The limit that every listener should have.
    pub expected: Option<u32>,
}

impl Window {
    /// The inodes of the sockets that a report of `scope` shows.
    pub fn inodes(&self, scope: &Scope) -> BTreeSet<u32> {
        let all = self.places.iter().flat_map(|place| &place.listeners);
        all.filter(|one| scope.has(one))
            .map(|one| one.last.inode)
            .collect()
    }
}

impl Scope {
    fn has(&self, watched: &Watched) -> bool {
        self.port
            .is_none_or(|port| watched.last.address.port() == port)
    }
}

/// The document of a window. Pure.
pub fn report(window: &Window, owners: &Owners, host: Host, scope: &Scope) -> Audit {
    let host = HostReport {
        host,
        window_ms: window
            .length
            .map(|length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        idle_percent: idle_percent(window),
        softnet_dropped: growth(window.softnet_dropped.0, window.softnet_dropped.1),
    };
    let mut notes = window.problems.clone();
    let (mut namespaces, mut listeners) = (Vec::new(), Vec::new());
    for place in &window.places {
        let shown: Vec<&Watched> = place
            .listeners
            .iter()
            .filter(|one| scope.has(one))
            .collect();
        if shown.is_empty() && place.found_by.is_some() && window.places.len() > 1 {
            continue;
        }
        notes.extend(place.note.clone());
        notes.extend(place.after.problems.clone());
        let namespace = namespace(place, &host);
        for watched in shown {
            let holders = owners
                .of
                .get(&watched.last.inode)
                .map_or(&[][..], Vec::as_slice);
            listeners.push(listener(watched, holders, &namespace, &host, scope));
        }
        namespaces.push(namespace);
    }
    if listeners.iter().any(|one| one.pid.is_none()) && owners.hidden > 0 {
        notes.push(format!(
            "not visible: files that are hidden from this user (processes: {}); root sees more",
            owners.hidden
        ));
    }
    notes.dedup();
    Audit {
        schema_version: SCHEMA_VERSION,
        host,
        namespaces,
        listeners,
        notes,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "clock ticks of a window are far below 2^52"
)]
fn idle_percent(window: &Window) -> Option<f64> {
    let (before, after) = window.ticks.0.zip(window.ticks.1)?;
    let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let idle = after.idle.checked_sub(before.idle)?;
    Some((idle as f64 / all as f64 * 1_000.0).round() / 10.0)
}

fn growth(before: Option<u64>, after: Option<u64>) -> Growth {
    Growth {
        window: before
            .zip(after)
            .and_then(|(before, after)| after.checked_sub(before)),
        since_boot: after,
    }
}

fn namespace(place: &PlaceWindow, host: &HostReport) -> NamespaceReport {
    let value = |readings: &Readings, name: &str| {
        let value = readings.counters.get(name).copied().flatten();
        value.and_then(|value| u64::try_from(value).ok())
    };
    let counters = COUNTERS
        .iter()
        .map(|name| {
            let before = place
                .before
                .as_ref()
                .and_then(|readings| value(readings, name));
            (*name, growth(before, value(&place.after, name)))
        })
        .collect();
    let mut report = NamespaceReport {
        id: place.id,
        found_by: place.found_by,
        settings: place.after.settings,
        counters,
        warnings: Vec::new(),
    };
    report.warnings = warnings(&report, host);
    report
}

impl NamespaceReport {
    /// A counter's growth in the window.
    pub fn in_window(&self, name: &str) -> Option<u64> {
        self.counters.get(name)?.window
    }
}

/// Settings that bite in this window.
fn warnings(namespace: &NamespaceReport, host: &HostReport) -> Vec<String> {
    let grew = |name| namespace.in_window(name).is_some_and(|growth| growth > 0);
    let settings = &namespace.settings;
    let mut warnings = Vec::new();
    let mut warn = |bites: bool, text: &str| {
        if bites {
            warnings.push(text.to_owned());
        }
    };
    warn(
        settings.tcp_abort_on_overflow == Some(1) && grew(OVERFLOWS),
        "tcp_abort_on_overflow = 1 while queues overflow: a client whose final ACK meets a full queue is reset; a SYN that meets one is dropped as before, so most clients do not fail fast",
    );
    warn(
        settings.tcp_syncookies == Some(1) && grew(COOKIES_SENT),
        "cookies were sent: a client that got one believes that it is connected, also when its ACK then meets a full queue",
    );
    warn(
        settings.tcp_syncookies == Some(2),
        "tcp_syncookies = 2 is a test mode: every SYN is answered with a cookie",
    );
    warn(
        settings.tcp_syncookies == Some(0) && grew(SYN_QUEUE_DROPS),
        "tcp_syncookies = 0 and a full SYN queue: its SYNs are dropped instead of answered with a cookie",
    );
    warn(
        host.softnet_dropped.window.is_some_and(|drops| drops > 0),
        "the machine dropped packets from its per-CPU queues (softnet_stat): those never reached a listener and no listen counter shows them",
    );
    warnings
}

fn listener(
    watched: &Watched,
    holders: &[Owner],
    namespace: &NamespaceReport,
    host: &HostReport,
    scope: &Scope,
) -> ListenerReport {
    let last = &watched.last;
    let holder = holders.first();
    let files = tightest_files(holders);
    let facts = Facts {
        waiting: last.waiting,
        waiting_first: watched.waiting_first,
        waiting_max: watched.waiting_max,
        looks: watched.looks,
        full_looks: watched.full_looks,
        limit: last.limit,
        #[expect(
            clippy::cast_precision_loss,
            reason = "a window is shorter than 2^52 milliseconds"
        )]
        window_s: host.window_ms.map(|ms| ms as f64 / 1_000.0),
        drops: watched.drops(),
        drops_since_open: last.drops,
        files: files.and_then(|(used, allowed)| Some((used, allowed?))),
        process: holder.map_or_else(
            || "the program".into(),
            |owner| {
                format!(
                    "{} (pid {})",
                    owner.name.as_deref().unwrap_or("the program"),
                    owner.pid
                )
            },
        ),
        somaxconn: namespace.settings.somaxconn,
        tcp_syncookies: namespace.settings.tcp_syncookies,
        tcp_max_syn_backlog: namespace.settings.tcp_max_syn_backlog,
        overflows: namespace.in_window(OVERFLOWS),
        listen_drops: namespace.in_window(DROPS),
        syn_queue_drops: namespace.in_window(SYN_QUEUE_DROPS),
        passive_opens: namespace.in_window(PASSIVE_OPENS),
        idle_percent: host.idle_percent,
        kernel: host.host.kernel.clone(),
        expected: scope.expected,
    };
    let findings = facts.findings();
    let advice = advice::advice(&facts);
    ListenerReport {
        namespace: namespace.id,
        address: last.address.ip(),
        port: last.address.port(),
        pid: holder.map(|owner| owner.pid),
        process: holder.and_then(|owner| owner.name.clone()),
        processes: holders.len(),
        limit: last.limit,
        capacity: last.limit.map(capacity),
        depth: last.waiting,
        depth_max: watched.waiting_max,
        fill_percent: last.limit.map(|limit| fill_percent(last.waiting, limit)),
        looks: watched.looks,
        full_looks: watched.full_looks,
        drops: watched.drops(),
        drops_since_open: last.drops,
        somaxconn: namespace.settings.somaxconn,
        limit_set_by: facts.set_by(),
        files_used: files.map(|(used, _)| used),
        files_allowed: files.and_then(|(_, allowed)| allowed),
        verdict: findings[0],
        says: facts.says(),
        limit_says: facts.limit_says(),
        findings,
        advice: advice.map_or_else(AdviceReport::default, |advice| AdviceReport {
            advice: Some(advice.change),
            does_not_help: advice.no_help,
        }),
    }
}

/// The open files of the process that is nearest to its limit; one without a limit is the last of all.
fn tightest_files(holders: &[Owner]) -> Option<(u64, Option<u64>)> {
    let left = |owner: &&Owner| {
        owner
            .files_allowed
            .map_or(u64::MAX, |allowed| allowed.saturating_sub(owner.files_used))
    };
    holders
        .iter()
        .min_by_key(left)
        .map(|owner| (owner.files_used, owner.files_allowed))
}

fn fill_percent(waiting: u32, limit: u32) -> f64 {
    let percent = f64::from(waiting) / (f64::from(limit) + 1.0) * 100.0;
    (percent * 10.0).round() / 10.0
}
