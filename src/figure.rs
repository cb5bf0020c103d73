//! The one published list of figures: what `[expect]`, `[published]`, summaries and comparisons can name.

use std::fmt;
use std::str::FromStr;

use crate::nearest::did_you_mean;

/// The side of the link whose namespace a counter belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The listener's namespace.
    Server,
    /// The flood client's namespace; the same as the server's on a loopback link.
    Client,
}

/// A named number of a trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// A number that the lab derives itself, one of [`NAMED`].
    Named(&'static str),
    /// The growth of a kernel counter during the trial: `TcpExt.ListenOverflows`,
    /// or `client.TcpExt.TCPSynRetrans` for the client's namespace.
    Counter {
        /// Whose namespace.
        side: Side,
        /// Section and name as the kernel spells them, joined by a dot.
        name: String,
    },
}

/// The figures that are no kernel counters, each with what it means. docs/format.md prints this list.
pub const NAMED: &[(&str, &str)] = &[
    ("attempts", "connections attempted"),
    (
        "ok",
        "attempts that were answered (with speaks-first = \"nobody\": connected)",
    ),
    (
        "connect-timeout",
        "attempts whose handshake did not finish in time",
    ),
    (
        "read-timeout",
        "attempts that were connected but not answered in time",
    ),
    ("refused", "attempts that met ECONNREFUSED: no listener"),
    ("reset", "attempts that met ECONNRESET or EPIPE"),
    (
        "closed-early",
        "attempts that met the end of the stream instead of an answer",
    ),
    (
        "wrong-data",
        "attempts that got another answer than the right one",
    ),
    (
        "local-limit",
        "attempts that met a limit of the client's machine: addresses, ports, descriptors, memory",
    ),
    ("other", "attempts that ended in any other error"),
    ("not-ok", "attempts minus ok: the losing clients"),
    (
        "accepted",
        "connections that accept() returned; of a program, by the kernel's counters",
    ),
    (
        "accept-failures",
        "accept() calls that failed, for want of descriptors or memory",
    ),
    (
        "wasted-accepts",
        "accepted connections whose client had given up",
    ),
    (
        "ghosts",
        "connections that the client held as established and the server never accepted",
    ),
    ("ghosts-waiting", "ghosts in the accept queue at the end"),
    (
        "ghosts-half-open",
        "ghosts for which the server still held a request",
    ),
    ("ghosts-lost", "ghosts of which the server held nothing"),
    (
        "syn-dropped-accept-queue-full",
        "losing attempts whose SYNs met a full accept queue",
    ),
    (
        "syn-dropped-syn-queue-full",
        "losing attempts whose SYNs met a full SYN queue",
    ),
    (
        "cookie-ack-dropped",
        "losing attempts whose ACK with a SYN cookie met a full accept queue",
    ),
    (
        "final-ack-dropped",
        "losing attempts whose final ACK was dropped, the request kept",
    ),
    (
        "reset-by-abort-on-overflow",
        "losing attempts that `tcp_abort_on_overflow` reset",
    ),
    (
        "waited-in-accept-queue",
        "losing attempts that waited in the accept queue until their time was up",
    ),
    (
        "unix-queue-full",
        "losing attempts that met a full AF_UNIX queue",
    ),
    (
        "listener-closed",
        "losing attempts whose listening socket was closed",
    ),
    ("no-listener", "losing attempts that met no listener"),
    (
        "not-answered",
        "losing attempts that the server accepted and did not answer in time",
    ),
    (
        "server-closed-early",
        "losing attempts that the server closed without an answer",
    ),
    ("wrong-answer", "losing attempts that got another answer"),
    (
        "lost-on-the-wire",
        "losing attempts whose packets were lost before TCP saw them",
    ),
    (
        "source-not-local",
        "losing attempts whose source address is not local",
    ),
    ("client-out-of-ports", "losing attempts without a port"),
    (
        "client-out-of-descriptors",
        "losing attempts without a file descriptor",
    ),
    ("unexplained", "losing attempts that nothing explains"),
    (
        "backlog-effective",
        "the limit in force: Send-Q of the LISTEN socket, summed over a reuseport group",
    ),
    (
        "accept-queue-capacity",
        "effective backlog plus one, summed over a reuseport group",
    ),
    ("recv-q-max", "the deepest accept queue that was sampled"),
    (
        "recv-q-final",
        "accept-queue depth at the end, summed over a reuseport group",
    ),
    ("half-open-final", "half-open requests at the end"),
    (
        "listener-drops",
        "growth of the listener's own drop counter",
    ),
    ("samples", "looks at the listener"),
    ("samples-missed", "looks that were due and did not happen"),
    ("overflows-per-loser", "ListenOverflows per losing client"),
    ("connect-p50-ms", "median time to connect, of the connected"),
    (
        "connect-p99-ms",
        "99th percentile of the time to connect, of the connected",
    ),
    (
        "connect-max-ms",
        "longest time to connect, of the connected",
    ),
    (
        "answered-p50-ms",
        "median time to the answer, of the answered",
    ),
    (
        "answered-p90-ms",
        "90th percentile of the time to the answer, of the answered",
    ),
    (
        "answered-p99-ms",
        "99th percentile of the time to the answer, of the answered",
    ),
    (
        "answered-max-ms",
        "longest time to the answer, of the answered",
    ),
    (
        "intended-p50-ms",
        "median time from the intended start to the answer, of the answered",
    ),
    (
        "intended-p90-ms",
        "90th percentile of the time from the intended start to the answer, of the answered",
    ),
    (
        "intended-p99-ms",
        "99th percentile of the time from the intended start to the answer, of the answered",
    ),
    (
        "intended-max-ms",
        "longest time from the intended start to the answer, of the answered",
    ),
    (
        "over-10-ms",
        "answers later than 10 ms after the intended start",
    ),
    (
        "over-100-ms",
        "answers later than 100 ms after the intended start",
    ),
    (
        "trial-ms",
        "time from the clients' release to the end of the last one",
    ),
    (
        "answered-per-s",
        "clients served per second while there was load: while connections were started, or in a flood until the queue first ran empty",
    ),
    (
        "requests-answered",
        "requests that got the right answer, where connections carry several",
    ),
    (
        "requests-failed",
        "requests that did not, where connections carry several: one for each attempt that is not ok",
    ),
    (
        "requests-per-s",
        "requests answered per second while connections were started, or in a flood until the last answer, where connections carry several",
    ),
    (
        "request-p50-ms",
        "median time from sending a request to the end of its answer, of the answered",
    ),
    (
        "request-p99-ms",
        "99th percentile of the time from sending a request to the end of its answer, of the answered",
    ),
    (
        "request-max-ms",
        "longest time from sending a request to the end of its answer, of the answered",
    ),
    (
        "request-intended-p50-ms",
        "median time from a request's intended start to the end of its answer, of the answered",
    ),
    (
        "request-intended-p99-ms",
        "99th percentile of the time from a request's intended start to the end of its answer, of the answered",
    ),
    (
        "first-overflow-ms",
        "time of the first look that shows a drop at a listener that overflowed",
    ),
    (
        "predicted-overflow-ms",
        "when an open loop is to have filled the queue, (B+1) / (rate - capacity)",
    ),
    (
        "queue-empty-ms",
        "time from which on the accept queue was empty for good",
    ),
    (
        "accept-wait-max-ms",
        "longest time that a connection waited in the accept queue, of the accepted",
    ),
    (
        "accept-rate-per-s",
        "accepts per second while there was load: while connections were started, or in a flood until the queue first ran empty",
    ),
    (
        "accept-pause-ms",
        "time from the last accept to the end, or the whole trial",
    ),
    ("server-cpu-ms", "processor time of the server's thread"),
    ("client-cpu-ms", "processor time of the client's threads"),
    (
        "wire-packets",
        "packets that entered the wire, both directions",
    ),
    ("wire-lost", "packets that the wire lost by chance"),
    (
        "wire-dropped-by-rule",
        "packets that the wire dropped by rule",
    ),
    (
        "wire-error-p99-ms",
        "99th percentile of how much later than intended the wire sent packets on",
    ),
    ("idle-percent", "the machine's idle share during the flood"),
    (
        "claimed-completed",
        "requests that the load tool says it completed",
    ),
    (
        "claimed-failed",
        "requests that the load tool says have failed",
    ),
];

/// Sections of /proc/net/netstat and /proc/net/snmp that a counter can belong to.
const SECTIONS: &[&str] = &[
    "TcpExt", "IpExt", "MPTcpExt", "Ip", "Icmp", "IcmpMsg", "Tcp", "Udp", "UdpLite",
];

impl Figure {
    /// A counter of the server's namespace.
    pub fn server_counter(name: &str) -> Self {
        Self::Counter {
            side: Side::Server,
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Counter { side, name } => match side {
                Side::Server => f.write_str(name),
                Side::Client => write!(f, "client.{name}"),
            },
        }
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((name, _)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Named(name));
        }
        let (side, counter) = match text.strip_prefix("client.") {
            Some(rest) => (Side::Client, rest),
            None => (Side::Server, text),
        };
        if let Some((section, name)) = counter.split_once('.')
            && SECTIONS.contains(&section)
            && !name.is_empty()
        {
            return Ok(Self::Counter {
                side,
                name: counter.to_owned(),
            });
        }
        let names = NAMED.iter().map(|(name, _)| *name);
        Err(format!(
            "there is no figure \"{text}\"{}; figures are listed in docs/format.md, counters are written TcpExt.ListenOverflows",
            did_you_mean(text, names)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed_alike() {
        let counters = [
            "TcpExt.ListenOverflows",
            "client.TcpExt.TCPSynRetrans",
            "Tcp.OutRsts",
        ];
        for text in NAMED.iter().map(|(name, _)| *name).chain(counters) {
            assert_eq!(text.parse::<Figure>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_misspelt_figure_gets_a_suggestion() {
        let error = "recv_q_max".parse::<Figure>().unwrap_err();
        assert!(error.contains("did you mean \"recv-q-max\"?"), "{error}");
        assert!("TcpExt.".parse::<Figure>().is_err());
        assert!("Tpc.OutRsts".parse::<Figure>().is_err());
    }
}
