//! The one change that moves the number, and the popular ones that do not. Pure.

use serde::Serialize;

use super::verdict::{Facts, Finding, SetBy};

/// What to do about a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The one change.
    pub change: String,
    /// Popular changes that do not help here, each with the reason.
    pub no_help: Vec<String>,
}

/// Idle for at least this share, the machine is not what limits the accept loop.
const IDLE_PERCENT: f64 = 50.0;

/// What a running listener needs before a new limit applies to it (the kernel reads somaxconn in `listen()` only).
const LISTEN_AGAIN: &str = "a running listener keeps its limit until it calls listen() again";

/// The advice for a listener; `None` when it needs none.
pub(super) fn advice(facts: &Facts) -> Option<Advice> {
    let findings = facts.findings();
    let has = |finding| findings.contains(&finding);
    let process = &facts.process;
    let in_trouble = has(Finding::Full) || has(Finding::Dropping) || has(Finding::NearFull);
    let mut no_help = Vec::new();

    let change = if let Some((used, allowed)) = facts.files.filter(|_| has(Finding::OutOfFiles)) {
        no_help.push("a bigger queue: accept() fails with EMFILE and takes nothing from it".into());
        format!(
            "raise the open-files limit of {process} ({used} of {allowed} used), or have it close what it no longer needs"
        )
    } else if (has(Finding::Full) || has(Finding::NearFull)) && facts.accept_has_stopped() {
        no_help.push("a bigger queue: accept has stopped, it would only fill later".into());
        format!("get {process} to accept again: it accepted nothing in this window")
    } else if in_trouble
        && facts.overflows == Some(0)
        && facts.syn_queue_drops.is_some_and(|drops| drops > 0)
    {
        "set net.ipv4.tcp_syncookies = 1 in its namespace: the drops are SYNs that met a full SYN queue, which has the same limit".into()
    } else if has(Finding::Full) && facts.full_looks * 2 > facts.looks && is_idle(facts) {
        no_help
            .push("a bigger queue: what arrives faster than it is accepted fills any queue".into());
        format!(
            "make {process} accept faster (more accepting threads or workers, nothing slow between two accepts): idle CPU and a full queue mean that the accept loop is the limit"
        )
    } else if in_trouble
        || has(Finding::SuspiciouslySmall)
        || has(Finding::ClampedByProgram)
        || findings.first() == Some(&Finding::ClampedTo16Bit)
        || is_short(facts)
    {
        raise(
            facts,
            in_trouble || has(Finding::SuspiciouslySmall) || is_short(facts),
        )?
    } else {
        return None;
    };

    if facts.set_by() == Some(SetBy::Program)
        && let Some(somaxconn) = facts.somaxconn
    {
        no_help.push(format!("raising somaxconn ({somaxconn}): it does not clamp this listener and will not change it"));
    }
    if in_trouble && facts.tcp_syncookies.is_some_and(|mode| mode != 0) {
        no_help.push("tcp_max_syn_backlog: it is not consulted while tcp_syncookies is on".into());
    }
    Some(Advice { change, no_help })
}

/// Whoever set the limit has to raise it.
fn raise(facts: &Facts, now: bool) -> Option<String> {
    let process = &facts.process;
    let when = if now { "" } else { "if it ever fills: " };
    let to = facts
        .expected
        .map_or_else(String::new, |expected| format!(" to {expected}"));
    let change = match (facts.set_by(), facts.somaxconn) {
        (Some(SetBy::Program), Some(somaxconn)) => {
            let up_to = facts.expected.map_or_else(
                || format!(", up to somaxconn ({somaxconn}),"),
                |_| to.clone(),
            );
            let first = match facts.expected {
                Some(expected) if u64::from(expected) > somaxconn => {
                    format!("raise somaxconn to {expected} first, then ")
                }
                _ => String::new(),
            };
            format!(
                "{first}raise the backlog that {process} passes to listen(){up_to} and restart it: {LISTEN_AGAIN}"
            )
        }
        (Some(SetBy::Somaxconn), Some(somaxconn)) => format!(
            "raise net.core.somaxconn (now {somaxconn}) in its namespace{to}, then restart {process}: {LISTEN_AGAIN}; if its limit stays, it asks for no more itself"
        ),
        _ => return None,
    };
    let warning = facts
        .expected
        .and_then(|value| sixteen_bit_warning(facts.kernel.as_deref(), value));
    Some(match warning {
        None => format!("{when}{change}"),
        Some(warning) => format!("{when}{change}. Caution: {warning}"),
    })
}

/// The limit is below the expected one.
fn is_short(facts: &Facts) -> bool {
    facts
        .limit
        .zip(facts.expected)
        .is_some_and(|(limit, expected)| limit < expected)
}

fn is_idle(facts: &Facts) -> bool {
    facts.idle_percent.is_some_and(|idle| idle >= IDLE_PERCENT)
}

/// Before Linux 4.1 the kernel kept the limit in 16 bits (`sk_max_ack_backlog` was an unsigned short).
fn sixteen_bit_warning(kernel: Option<&str>, value: u32) -> Option<String> {
    let mut numbers = kernel?
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return None;
    };
    (value > 65_535 && (major, minor) < (4, 1)).then(|| {
        format!(
            "before Linux 4.1 the limit has 16 bits and {value} acts as {}; keep it at 65535 or less",
            value % 65_536
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener in a window of a second on a machine that is nearly idle.
    fn facts(limit: u32, somaxconn: u64) -> Facts {
        Facts {
            looks: 50,
            limit: Some(limit),
            window_s: Some(1.0),
            drops: Some(0),
            drops_since_open: Some(0),
            process: "nginx (pid 12)".into(),
            somaxconn: Some(somaxconn),
            tcp_syncookies: Some(1),
            overflows: Some(0),
            listen_drops: Some(0),
            syn_queue_drops: Some(0),
            passive_opens: Some(9),
            idle_percent: Some(93.0),
            kernel: Some("6.18.4".into()),
            ..Facts::default()
        }
    }

    fn full(limit: u32, somaxconn: u64) -> Facts {
        Facts {
            waiting: limit + 1,
            waiting_first: limit + 1,
            waiting_max: limit + 1,
            full_looks: 50,
            drops: Some(233),
            overflows: Some(233),
            listen_drops: Some(233),
            ..facts(limit, somaxconn)
        }
    }

    #[test]
    fn full_is_more_than_the_limit() {
        let listener = full(128, 32_428);
        assert!(
            listener
                .says()
                .starts_with("129 of 128 waiting for accept, full"),
            "{}",
            listener.says()
        );
        assert_eq!(
            listener.findings(),
            [Finding::Full, Finding::Dropping, Finding::ClampedByProgram]
        );
        let one_left = Facts {
            waiting: 128,
            waiting_max: 128,
            ..facts(128, 32_428)
        };
        assert_eq!(one_left.findings()[0], Finding::NearFull);
    }

    #[test]
    fn the_table_of_sockets_shows_no_limit() {
        let listener = Facts {
            waiting: 129,
            limit: None,
            drops: None,
            ..facts(128, 4_096)
        };
        assert_eq!(listener.says(), "129 waiting, limit unknown");
        assert_eq!(listener.findings(), [Finding::LimitUnknown]);
        assert_eq!(advice(&listener), None);
    }

    #[test]
    fn a_limit_that_the_program_asked_for_is_not_moved_by_somaxconn() {
        let listener = facts(128, 32_428);
        assert_eq!(
            listener.findings(),
            [Finding::ClampedByProgram, Finding::Healthy]
        );
        let says = listener.limit_says().unwrap();
        assert!(
            says.contains("the application asked for 128 (or a former, smaller somaxconn was in force at listen time)"),
            "{says}"
        );
        let advice = advice(&listener).unwrap();
        assert!(
            advice
                .change
                .contains("the backlog that nginx (pid 12) passes to listen()"),
            "{advice:?}"
        );
        assert!(
            advice.no_help[0].contains("raising somaxconn (32428)"),
            "{advice:?}"
        );
    }

    #[test]
    fn a_limit_that_equals_somaxconn_is_not_flagged() {
        let listener = facts(32_428, 32_428);
        assert_eq!(
            listener.findings(),
            [Finding::Healthy, Finding::EqualToSomaxconn]
        );
        assert_eq!(advice(&listener), None);
    }

    #[test]
    fn a_full_queue_at_somaxconn_needs_a_larger_somaxconn_and_a_restart() {
        let busy = Facts {
            idle_percent: Some(3.0),
            ..full(128, 128)
        };
        let advice = advice(&busy).unwrap();
        assert!(
            advice.change.contains("raise net.core.somaxconn (now 128)"),
            "{advice:?}"
        );
        assert!(
            advice.change.contains("until it calls listen() again"),
            "{advice:?}"
        );
        assert!(
            advice
                .no_help
                .iter()
                .any(|text| text.contains("tcp_max_syn_backlog")),
            "{advice:?}"
        );
    }

    #[test]
    fn when_accept_has_stopped_no_queue_is_big_enough() {
        let stopped = Facts {
            passive_opens: Some(0),
            ..full(100, 4_096)
        };
        assert!(stopped.accept_has_stopped());
        let advice = advice(&stopped).unwrap();
        assert!(advice.change.contains("to accept again"), "{advice:?}");
        assert!(
            advice.no_help[0].contains("accept has stopped"),
            "{advice:?}"
        );
    }

    #[test]
    fn a_queue_that_nobody_empties_needs_no_bigger_one_though_it_is_not_full_yet() {
        let nearly = Facts {
            waiting: 14,
            waiting_first: 14,
            waiting_max: 14,
            passive_opens: Some(0),
            ..facts(16, 4_096)
        };
        let change = advice(&nearly).unwrap().change;
        assert!(change.contains("to accept again"), "{change}");
        // All that waits has come within the window: that nobody accepted it yet says nothing.
        let burst = Facts {
            waiting_first: 0,
            passive_opens: Some(14),
            ..nearly
        };
        let change = advice(&burst).unwrap().change;
        assert!(change.contains("raise the backlog"), "{change}");
    }

    #[test]
    fn a_full_queue_on_an_idle_machine_is_the_accept_loops() {
        let advice = advice(&full(100, 4_096)).unwrap();
        assert!(
            advice.change.contains("the accept loop is the limit"),
            "{advice:?}"
        );
    }

    #[test]
    fn out_of_files_comes_before_every_queue() {
        let listener = Facts {
            files: Some((64, 64)),
            ..full(10, 4_096)
        };
        assert!(
            listener.says().contains("open files 64, used 64"),
            "{}",
            listener.says()
        );
        assert!(
            advice(&listener)
                .unwrap()
                .change
                .contains("raise the open-files limit")
        );
    }

    #[test]
    fn a_small_limit_is_suspicious_even_with_an_empty_queue() {
        assert_eq!(facts(1, 4_096).findings()[0], Finding::SuspiciouslySmall);
        assert_eq!(facts(15, 4_096).findings()[0], Finding::SuspiciouslySmall);
        assert_eq!(facts(16, 4_096).findings()[0], Finding::ClampedByProgram);
    }

    #[test]
    fn sixteen_bits_are_harmless_until_half_of_them_are_used() {
        let calm = Facts {
            kernel: Some("4.15.0-99".into()),
            ..facts(65_535, 196_602)
        };
        assert_eq!(calm.findings()[0], Finding::Healthy);
        assert!(
            calm.limit_says()
                .unwrap()
                .contains("clamped to 16 bit by the application")
        );
        let deep = Facts {
            waiting_max: 40_000,
            ..calm
        };
        assert_eq!(deep.findings()[0], Finding::ClampedTo16Bit);
        assert!(
            advice(&deep)
                .unwrap()
                .change
                .contains("passes to listen(), up to somaxconn (196602)")
        );
    }

    #[test]
    fn values_that_wrap_on_old_kernels_are_warned_of() {
        for (value, acts_as) in [
            (65_536, "acts as 0"),
            (262_144, "acts as 0"),
            (65_540, "acts as 4"),
        ] {
            let warning = sixteen_bit_warning(Some("3.10.0-1160.el7"), value).unwrap();
            assert!(
                warning.contains(acts_as) && warning.contains("65535 or less"),
                "{warning}"
            );
        }
        assert_eq!(sixteen_bit_warning(Some("3.10.0"), 65_535), None);
        assert_eq!(sixteen_bit_warning(Some("4.1.0"), 262_144), None);
        assert_eq!(sixteen_bit_warning(Some("6.18.4"), 262_144), None);
        let old = Facts {
            expected: Some(262_144),
            kernel: Some("3.10.0".into()),
            ..facts(128, 128)
        };
        assert!(
            advice(&old)
                .unwrap()
                .change
                .contains("Caution: before Linux 4.1")
        );
    }

    #[test]
    fn a_limit_below_the_expected_one_names_who_cut_it() {
        let program = Facts {
            expected: Some(2_048),
            ..facts(100, 4_096)
        };
        let says = program.limit_says().unwrap();
        assert!(
            says.contains("100, expected 2048: the process passed a smaller value"),
            "{says}"
        );
        let somaxconn = Facts {
            expected: Some(2_048),
            ..facts(128, 128)
        };
        let says = somaxconn.limit_says().unwrap();
        assert!(
            says.contains("128, expected 2048: clamped by somaxconn"),
            "{says}"
        );
    }

    #[test]
    fn bursts_shorter_than_the_looks_are_said() {
        let burst = Facts {
            drops: Some(233),
            overflows: Some(233),
            listen_drops: Some(233),
            ..facts(2, 4_096)
        };
        assert!(
            burst
                .says()
                .contains("never seen full (deepest 0), but 233 drops in 1.0 s"),
            "{}",
            burst.says()
        );
        assert_eq!(burst.findings()[0], Finding::Dropping);
    }

    #[test]
    fn a_single_look_says_nothing_of_now() {
        let single = Facts {
            window_s: None,
            drops: None,
            drops_since_open: Some(500),
            overflows: None,
            listen_drops: None,
            passive_opens: None,
            looks: 1,
            ..facts(4_096, 4_096)
        };
        assert_eq!(
            single.findings(),
            [Finding::NotMeasured, Finding::EqualToSomaxconn]
        );
        let says = single.says();
        assert!(
            says.contains("age unknown") && says.contains("--interval"),
            "{says}"
        );
    }

    #[test]
    fn drops_of_a_socket_alone_do_not_mean_overflow() {
        let stray = Facts {
            drops: Some(3),
            ..facts(4_096, 4_096)
        };
        assert_eq!(stray.findings()[0], Finding::Healthy);
        assert!(
            stray.says().contains("stray packets, not the queue"),
            "{}",
            stray.says()
        );
    }

    #[test]
    fn a_calm_after_a_storm_is_not_called_no_problem() {
        let calm = Facts {
            drops_since_open: Some(233),
            ..facts(2, 4_096)
        };
        assert_eq!(
            calm.says(),
            "0 of 2 waiting for accept, no drops in 1.0 s; 233 drops since it was opened, age unknown"
        );
    }
}
