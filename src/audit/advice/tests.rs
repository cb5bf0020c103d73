//! Findings, sentences and advice of figures that are written down here.

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
        says.contains(
            "the program asked for 128 (or a former, smaller somaxconn was in force at listen time)"
        ),
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
            .contains("clamped to 16 bit by the program")
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

/// SYN drops have their own counters, and a change of their own each.
#[test]
fn drops_of_syns_are_not_called_bursts() {
    let syn_queue = Facts {
        drops: Some(20),
        listen_drops: Some(20),
        syn_queue_drops: Some(20),
        tcp_syncookies: Some(0),
        tcp_max_syn_backlog: Some(2_048),
        ..facts(128, 4_096)
    };
    assert_eq!(
        syn_queue.says(),
        "0 of 128 waiting for accept; 20 drops in 1.0 s, yet no accept queue overflowed: SYNs that met a full SYN queue"
    );
    let change = advice(&syn_queue).unwrap().change;
    assert!(
        change.contains("set net.ipv4.tcp_syncookies = 1"),
        "{change}"
    );

    // The rule of three quarters, which is asked only without cookies.
    let quarter = Facts {
        syn_queue_drops: Some(0),
        tcp_max_syn_backlog: Some(16),
        ..syn_queue
    };
    assert!(
        quarter.says().contains("SYNs that entered no queue"),
        "{}",
        quarter.says()
    );
    let advice = advice(&quarter).unwrap();
    assert!(
        advice
            .change
            .contains("raise net.ipv4.tcp_max_syn_backlog (now 16)"),
        "{advice:?}"
    );
    assert!(
        !advice.no_help.concat().contains("tcp_max_syn_backlog"),
        "{advice:?}"
    );
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
