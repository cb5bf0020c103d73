//! What a listener's figures show. Pure: figures in, findings and sentences out.
//!
//! Says no more than the figures do: a drop is never tied to one client.

use std::fmt::Write as _;

use serde::Serialize;

/// What is known of one listener in one window. Unknown is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Connections that waited for accept at the last look.
    pub waiting: u32,
    /// The same at the first look.
    pub waiting_first: u32,
    /// The most at any look.
    pub waiting_max: u32,
    /// Looks.
    pub looks: u32,
    /// Looks at which more waited than the limit.
    pub full_looks: u32,
    /// The limit in force.
    pub limit: Option<u32>,
    /// The window's length in seconds; `None` for a single look.
    pub window_s: Option<f64>,
    /// The listener's drops in the window.
    pub drops: Option<u32>,
    /// The listener's drops since it was opened.
    pub drops_since_open: Option<u32>,
    /// Open files of its process: used and allowed.
    pub files: Option<(u64, u64)>,
    /// Its process, `nginx (pid 12)`; "the program" when it is not visible.
    pub process: String,
    /// `net.core.somaxconn` of its namespace.
    pub somaxconn: Option<u64>,
    /// `net.ipv4.tcp_syncookies` of its namespace.
    pub tcp_syncookies: Option<u64>,
    /// `net.ipv4.tcp_max_syn_backlog` of its namespace.
    pub tcp_max_syn_backlog: Option<u64>,
    /// `TcpExt.ListenOverflows` of its namespace in the window.
    pub overflows: Option<u64>,
    /// `TcpExt.ListenDrops` of its namespace in the window.
    pub listen_drops: Option<u64>,
    /// `TcpExt.TCPReqQFullDrop` of its namespace in the window.
    pub syn_queue_drops: Option<u64>,
    /// `Tcp.PassiveOpens` of its namespace in the window: connections that entered any accept queue.
    pub passive_opens: Option<u64>,
    /// The machine's idle share of the window.
    pub idle_percent: Option<f64>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The limit that was asked for with `--expect-backlog`.
    pub expected: Option<u32>,
}

/// One finding. The order is that of seriousness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// More waited than the limit, at the last look or at another of the window.
    Full,
    /// The process has no open file left: `accept()` fails with EMFILE.
    OutOfFiles,
    /// It dropped packets in the window, and so did its namespace's listen counters.
    Dropping,
    /// At some look four fifths of the capacity waited, or all but one place.
    NearFull,
    /// The limit is lower than any server should have.
    SuspiciouslySmall,
    /// The limit is below somaxconn: the program asked for it.
    ClampedByProgram,
    /// The limit is what 16 bits hold, below somaxconn.
    #[serde(rename = "clamped-to-16-bit")]
    ClampedTo16Bit,
    /// Neither full nor near full nor dropping in this window.
    Healthy,
    /// A single look: nothing is known of drops.
    NotMeasured,
    /// The limit is unknown: nothing can be said of it.
    LimitUnknown,
    /// The limit is somaxconn.
    EqualToSomaxconn,
    /// The limit is above somaxconn, which was lowered after `listen()`.
    AboveSomaxconn,
}

impl Finding {
    /// In a table's cell.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::OutOfFiles => "out of files",
            Self::Dropping => "dropping",
            Self::NearFull => "near full",
            Self::SuspiciouslySmall => "suspiciously small",
            Self::ClampedByProgram => "clamped by program",
            Self::ClampedTo16Bit => "clamped to 16 bit",
            Self::Healthy => "healthy",
            Self::NotMeasured => "not measured",
            Self::LimitUnknown => "limit unknown",
            Self::EqualToSomaxconn => "equal to somaxconn",
            Self::AboveSomaxconn => "above somaxconn",
        }
    }
}

/// Who set a limit, as far as the kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetBy {
    /// The program asked for less than somaxconn.
    Program,
    /// somaxconn cut what the program asked for, or the two are the same by chance.
    Somaxconn,
}

/// Below this, a limit is suspicious.
const SMALL: u32 = 16;

/// What 16 bits hold.
const SIXTEEN_BITS: u32 = 65_535;

/// `backlog + 1`.
pub fn capacity(limit: u32) -> u64 {
    u64::from(limit) + 1
}

/// `1 drop`, `233 drops`.
fn counted(drops: u32) -> String {
    format!("{drops} drop{}", if drops == 1 { "" } else { "s" })
}

impl Facts {
    /// Every finding, the most serious first; never empty.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut add = |finding, is_so: bool| {
            if is_so {
                found.push(finding);
            }
        };
        let is_full = self.limit.is_some_and(|limit| self.waiting > limit) || self.full_looks > 0;
        let is_near = !is_full && self.is_near_full();
        let is_dropping = self.is_dropping();
        let is_calm = !is_full && !is_near && !is_dropping;
        let is_program = self.set_by() == Some(SetBy::Program);
        let is_sixteen_bit = is_program && self.limit == Some(SIXTEEN_BITS);
        let is_measured = self.window_s.is_some() && self.drops.is_some();

        add(Finding::Full, is_full);
        add(Finding::OutOfFiles, self.is_out_of_files());
        add(Finding::Dropping, is_dropping);
        add(Finding::NearFull, is_near);
        add(
            Finding::SuspiciouslySmall,
            self.limit.is_some_and(|limit| limit < SMALL),
        );
        add(Finding::ClampedByProgram, is_program && !is_sixteen_bit);
        // A limit that large does no harm as long as half of it is never used.
        let is_harmful = self
            .limit
            .is_some_and(|limit| u64::from(self.waiting_max) * 2 > capacity(limit));
        add(Finding::ClampedTo16Bit, is_sixteen_bit && is_harmful);
        add(
            Finding::Healthy,
            is_calm && is_measured && self.limit.is_some(),
        );
        add(Finding::LimitUnknown, self.limit.is_none());
        add(
            Finding::NotMeasured,
            is_calm && !is_measured && self.limit.is_some(),
        );
        add(Finding::ClampedTo16Bit, is_sixteen_bit && !is_harmful);
        let is = |wanted| {
            self.limit
                .map(u64::from)
                .zip(self.somaxconn)
                .map(|(limit, max)| limit.cmp(&max))
                == Some(wanted)
        };
        add(Finding::EqualToSomaxconn, is(std::cmp::Ordering::Equal));
        add(Finding::AboveSomaxconn, is(std::cmp::Ordering::Greater));
        found
    }

    /// Who set the limit; `None` when the limit or somaxconn is unknown.
    pub fn set_by(&self) -> Option<SetBy> {
        let (limit, somaxconn) = self.limit.zip(self.somaxconn)?;
        Some(if u64::from(limit) < somaxconn {
            SetBy::Program
        } else {
            SetBy::Somaxconn
        })
    }

    fn is_near_full(&self) -> bool {
        self.limit.is_some_and(|limit| {
            let (deepest, capacity) = (u64::from(self.waiting_max), capacity(limit));
            deepest > 0 && (deepest * 5 >= capacity * 4 || deepest + 1 >= capacity)
        })
    }

    /// Its own counter grew, and the namespace's does not say that these were other packets: stray ones count
    /// at a listener too.
    fn is_dropping(&self) -> bool {
        self.drops.is_some_and(|drops| drops > 0) && self.listen_drops != Some(0)
    }

    fn is_out_of_files(&self) -> bool {
        self.files.is_some_and(|(used, allowed)| used >= allowed)
    }

    /// Whether nothing at all can have been accepted here while connections waited from the first look on: what
    /// entered any accept queue of the namespace is what this one grew by.
    pub fn accept_has_stopped(&self) -> bool {
        let inflow = self.passive_opens.map(i128::from);
        let growth = i128::from(self.waiting) - i128::from(self.waiting_first);
        self.window_s.is_some() && self.waiting_first > 0 && inflow == Some(growth)
    }

    /// `129 of 128 waiting for accept, full`.
    pub fn says(&self) -> String {
        let Some(limit) = self.limit else {
            return format!("{} waiting, limit unknown", self.waiting);
        };
        let mut text = format!("{} of {limit} waiting for accept", self.waiting);
        let growth = self.drops.unwrap_or(0);
        let drops = counted(growth);
        let is_dropping = self.is_dropping();
        // Writing to a string cannot fail.
        let _ = if self.waiting > limit {
            write!(text, ", full")
        } else if self.full_looks > 0 {
            write!(
                text,
                "; full at {} of {} looks (deepest {})",
                self.full_looks, self.looks, self.waiting_max
            )
        } else if self.is_near_full() {
            write!(
                text,
                ", near full (deepest {}, room for {})",
                self.waiting_max,
                capacity(limit)
            )
        } else if is_dropping && self.overflows == Some(0) {
            write!(
                text,
                "; {drops}{}, yet no accept queue overflowed: SYNs {}",
                self.in_window(),
                if self.syn_queue_drops == Some(0) {
                    "that entered no queue"
                } else {
                    "that met a full SYN queue"
                }
            )
        } else if is_dropping {
            write!(
                text,
                "; never seen full (deepest {}), but {drops}{}: bursts shorter than the time between looks",
                self.waiting_max,
                self.in_window()
            )
        } else if self.waiting_max > self.waiting {
            write!(text, " (deepest {})", self.waiting_max)
        } else {
            Ok(())
        };
        let was_full = self.waiting > limit || self.full_looks > 0 || self.is_near_full();
        let _ = match self.window_s {
            Some(_) if is_dropping && was_full => {
                write!(text, "; {drops}{}", self.in_window())
            }
            Some(_) if growth > 0 && !is_dropping => write!(
                text,
                "; its drop counter grew by {growth}{}, yet ListenDrops did not: stray packets, not the queue",
                self.in_window()
            ),
            Some(_) if self.drops == Some(0) && !was_full => {
                let since = self.drops_since_open.filter(|drops| *drops > 0);
                let since = since.map_or_else(String::new, |drops| {
                    format!("; {} since it was opened, age unknown", counted(drops))
                });
                write!(text, ", no drops{}{since}", self.in_window())
            }
            Some(_) => Ok(()),
            None => {
                let drops = self
                    .drops_since_open
                    .map_or("an unknown number of drops".into(), counted);
                write!(
                    text,
                    " at this one look; {drops} since it was opened, age unknown: measure them with --interval 1s"
                )
            }
        };
        if let Some((used, allowed)) = self.files.filter(|_| self.is_out_of_files()) {
            let _ = write!(
                text,
                "; open files {allowed}, used {used}: accept() fails with EMFILE"
            );
        }
        text
    }

    fn in_window(&self) -> String {
        self.window_s
            .map_or_else(String::new, |seconds| format!(" in {seconds:.1} s"))
    }

    /// Who set the limit, in words; `None` when that is unknown.
    pub fn limit_says(&self) -> Option<String> {
        let (limit, somaxconn) = self.limit.zip(self.somaxconn)?;
        let former = "a former, smaller somaxconn was in force at listen time";
        let asked = match u64::from(limit).cmp(&somaxconn) {
            std::cmp::Ordering::Less if limit == SIXTEEN_BITS => {
                format!("clamped to 16 bit by the program ({limit}; somaxconn is {somaxconn})")
            }
            std::cmp::Ordering::Less => {
                format!("the program asked for {limit} (or {former}); somaxconn is {somaxconn}")
            }
            std::cmp::Ordering::Equal => format!(
                "equal to somaxconn ({somaxconn}): the program asked for at least that, or an older somaxconn was in force at listen time"
            ),
            std::cmp::Ordering::Greater => {
                format!("{limit}, set under a former, larger somaxconn; it is {somaxconn} now")
            }
        };
        Some(match self.expected.filter(|expected| limit < *expected) {
            None => asked,
            Some(expected) if u64::from(limit) < somaxconn => {
                format!(
                    "{limit}, expected {expected}: the process passed a smaller value (or {former}); somaxconn is {somaxconn}"
                )
            }
            Some(expected) => {
                format!("{limit}, expected {expected}: clamped by somaxconn ({somaxconn})")
            }
        })
    }
}
