//! The doctor's policy on staged troubles: what each leads to, and which way out it names.

use std::io;
use std::path::PathBuf;

use backlog_lab::arm::Arm;
use backlog_lab::doctor::{Need, OTHERS, Row, Surface, Trouble, Verdict, examine, needs};
use backlog_lab::netns::{Refusal, SysctlError};
use backlog_lab::probe::ProbeError;
use nix::errno::Errno;

/// A machine on which some things fail.
struct Staged(Stage);

type Stage = fn(&Need) -> Result<(), Trouble>;

impl Surface for Staged {
    fn attempt(&self, need: &Need) -> Result<String, Trouble> {
        (self.0)(need).map(|()| "seen".into())
    }
}

fn arm(more: &str) -> Arm {
    let text = format!("title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n{more}");
    toml::from_str(&text).expect("an arm")
}

fn row(stage: Stage, name: &str) -> Row {
    let arms = [arm("[sysctl]\n\"net.core.somaxconn\" = 64")];
    let rows = examine(&Staged(stage), &needs(&arms), OTHERS);
    let found = rows.into_iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("{name}"))
}

fn apparmor(step: &str, errno: Errno) -> Trouble {
    let read = |name: &str| {
        (name == "kernel.apparmor_restrict_unprivileged_userns").then(|| "1".to_owned())
    };
    Refusal::new(step, errno, read).into()
}

/// Arms are asked what they need, and nobody else is.
#[test]
fn needs_follow_from_the_arms() {
    let plain = needs(&[arm("")]);
    assert!(!plain.contains(&Need::Veth) && !plain.contains(&Need::Ipv6));
    assert!(plain.contains(&Need::Threads(1)) && plain.contains(&Need::OpenFiles(66)));
    let more = needs(&[
        arm("[link]\nkind = \"veth\"\nfamily = \"ipv6\"\n[client]\nconnections = 300\nworkers = 7"),
        arm("[sysctl]\n\"net.core.somaxconn\" = 1"),
        arm("[sysctl]\n\"net.core.somaxconn\" = 2"),
    ]);
    for need in [
        Need::Veth,
        Need::Ipv6,
        Need::Threads(7),
        Need::OpenFiles(78),
    ] {
        assert!(more.contains(&need), "{need} in {more:?}");
    }
    let is_somaxconn = |need: &&Need| matches!(need, Need::Sysctl(_, values) if values.len() == 2);
    assert_eq!(more.iter().filter(is_somaxconn).count(), 1);
}

/// K51: a user namespace that is created and then crippled: the step, the setting and three ways out.
#[test]
fn a_crippled_user_namespace() {
    let stage = |need: &Need| match need {
        Need::UserNamespace => Err(apparmor("writing /proc/self/uid_map", Errno::EPERM)),
        _ => Ok(()),
    };
    let found = row(stage, "user namespace");
    assert_eq!(found.verdict, Verdict::Fails);
    assert_eq!(found.errno.as_deref(), Some("EPERM"));
    for part in [
        "uid_map",
        "kernel.apparmor_restrict_unprivileged_userns = 1",
    ] {
        assert!(found.detail.contains(part), "{part} in {}", found.detail);
    }
    let ways = found.ways_out.join("\n");
    for part in ["sudo sysctl -w", "AppArmor profile", "container"] {
        assert!(ways.contains(part), "{part} in {ways}");
    }
    assert_eq!(row(stage, "counters").verdict, Verdict::NotTried);
    assert_eq!(row(stage, "66 open files").verdict, Verdict::Works);
}

/// K52: a limit on namespaces has the error of a full disk.
#[test]
fn a_limit_on_namespaces_is_not_a_full_disk() {
    let stage = |need: &Need| match need {
        Need::NetworkNamespace => {
            let zero = |name: &str| (name == "user.max_net_namespaces").then(|| "0".to_owned());
            Err(Refusal::new("unshare(CLONE_NEWNET)", Errno::ENOSPC, zero).into())
        }
        _ => Ok(()),
    };
    let found = row(stage, "network namespace");
    assert!(
        found.detail.contains("user.max_net_namespaces = 0"),
        "{found:?}"
    );
    let text = format!("{found:?}").to_lowercase();
    assert!(
        !text.contains("disk") && !text.contains("space left"),
        "{text}"
    );
}

/// K49: a counter file that cannot be read is named with its error, and the lab still runs.
#[test]
fn an_unreadable_counter_file() {
    let stage = |need: &Need| match need {
        Need::Counters => Err(ProbeError::Unreadable {
            path: PathBuf::from("/proc/thread-self/net/netstat"),
            source: io::Error::from_raw_os_error(Errno::EACCES as i32),
        }
        .into()),
        _ => Ok(()),
    };
    let found = row(stage, "counters");
    assert_eq!(found.errno.as_deref(), Some("EACCES"));
    assert!(found.detail.contains("/proc/thread-self/net/netstat"));
    assert!(
        found
            .ways_out
            .join("\n")
            .contains("says that its counters are unknown")
    );
    assert_eq!(
        row(stage, "sock_diag").verdict,
        Verdict::Works,
        "the rest is tried"
    );
}

/// Read-only, absent and forbidden sysctls each have their error and their way out.
#[test]
fn sysctls_that_cannot_be_set() {
    fn somaxconn() -> (String, String, String) {
        ("net.core.somaxconn".into(), "4096".into(), "64".into())
    }
    let read_only = |need: &Need| match need {
        Need::Sysctl(..) => {
            let (name, is, wanted) = somaxconn();
            Err(SysctlError::ReadOnly { name, is, wanted }.into())
        }
        _ => Ok(()),
    };
    let missing = |need: &Need| match need {
        Need::Sysctl(..) => Err(SysctlError::Missing {
            name: somaxconn().0,
        }
        .into()),
        _ => Ok(()),
    };
    let forbidden = |need: &Need| match need {
        Need::Sysctl(..) => {
            let (name, is, wanted) = somaxconn();
            let errno = Errno::EACCES;
            Err(SysctlError::Forbidden {
                name,
                is,
                wanted,
                errno,
            }
            .into())
        }
        _ => Ok(()),
    };
    let cases: [(Stage, _, _); 3] = [
        (read_only, "EROFS", "mount /proc/sys read-write"),
        (missing, "ENOENT", "leave out the arms"),
        (forbidden, "EACCES", "initial namespace"),
    ];
    for (stage, errno, way) in cases {
        let found = row(stage, "net.core.somaxconn");
        assert_eq!(found.verdict, Verdict::Fails);
        assert_eq!(found.errno.as_deref(), Some(errno));
        assert!(found.ways_out.join("\n").contains(way), "{found:?}");
    }
}

/// What nothing needs fails nothing.
#[test]
fn what_is_not_needed_fails_nothing() {
    let stage = |need: &Need| match need {
        Need::Conntrack | Need::PacketCapture => Err(Trouble::seen("not here")),
        _ => Ok(()),
    };
    for name in ["conntrack limit", "packet capture"] {
        let found = row(stage, name);
        assert_eq!(found.verdict, Verdict::NotNeeded);
        assert!(found.is_well());
    }
}
