//! One message for a machine that refuses namespaces: the step, the setting behind it, the ways out.

use std::fmt;

use nix::errno::Errno;

use super::{KernelSteps, Steps};

/// The kernel refused a step on the way to a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    step: String,
    errno: Errno,
    settings: Box<Settings>,
}

impl std::error::Error for Refusal {}

/// The settings that are known to forbid namespaces, as far as this system has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Settings {
    apparmor: Option<String>,
    debian: Option<String>,
    max_user: Option<String>,
    max_net: Option<String>,
}

const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";
const DEBIAN: &str = "kernel.unprivileged_userns_clone";
pub(super) const MAX_USER: &str = "user.max_user_namespaces";
pub(super) const MAX_NET: &str = "user.max_net_namespaces";

impl Refusal {
    /// A refusal of `step` with the settings of this system.
    pub(super) fn here(step: impl Into<String>, errno: Errno) -> Self {
        Self::new(step, errno, |name| KernelSteps.sysctl(name))
    }

    /// A refusal of `step` with the settings that `read` finds by dotted name.
    pub fn new(
        step: impl Into<String>,
        errno: Errno,
        read: impl Fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            step: step.into(),
            errno,
            settings: Box::new(Settings {
                apparmor: read(APPARMOR),
                debian: read(DEBIAN),
                max_user: read(MAX_USER),
                max_net: read(MAX_NET),
            }),
        }
    }

    /// The setting that explains the refusal, and the command that changes it.
    fn cause(&self) -> (String, Option<String>) {
        let zero = |value: &Option<String>| value.as_deref() == Some("0");
        let is_limit = self.errno == Errno::ENOSPC || self.errno == Errno::EUSERS;
        let limit = |name: &str, value: &Option<String>| {
            let value = value.as_deref().unwrap_or("unknown");
            (
                format!(
                    "{} here means a limit on namespaces: {name} = {value} (or that of an enclosing user namespace)",
                    self.errno_name()
                ),
                Some(format!("sudo sysctl -w {name}=10000")),
            )
        };
        if is_limit && self.step.contains("NEWUSER") {
            return limit(MAX_USER, &self.settings.max_user);
        }
        if is_limit {
            return limit(MAX_NET, &self.settings.max_net);
        }
        if self.settings.apparmor.as_deref() == Some("1") {
            return (
                format!(
                    "{APPARMOR} = 1: AppArmor lets a program without a profile create a user namespace and then takes its rights away"
                ),
                Some(format!("sudo sysctl -w {APPARMOR}=0")),
            );
        }
        if zero(&self.settings.debian) {
            return (
                format!("{DEBIAN} = 0: user namespaces are for root only"),
                Some(format!("sudo sysctl -w {DEBIAN}=1")),
            );
        }
        (
            "no setting known to forbid it is set; the seccomp or LSM profile of a container can"
                .into(),
            None,
        )
    }

    fn errno_name(&self) -> String {
        format!("{:?}", self.errno)
    }

    /// The step and its error.
    pub fn summary(&self) -> String {
        let (cause, _) = self.cause();
        format!("{} failed with {}; {cause}", self.step, self.errno_name())
    }

    /// The kernel's error.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// The ways out, a text each.
    pub fn ways_out(&self) -> Vec<String> {
        let mut ways = Vec::new();
        if !nix::unistd::geteuid().is_root() {
            ways.push("run it as root: sudo backlog-lab ..".into());
        }
        if let (_, Some(command)) = self.cause() {
            ways.push(format!(
                "change the setting: {command}\nin a GitHub Actions job, as a step before the lab: run: {command}"
            ));
        }
        if self.settings.apparmor.is_some() {
            ways.push(
                "give the program an AppArmor profile, in /etc/apparmor.d/backlog-lab:\n  abi <abi/4.0>,\n  profile backlog-lab /path/to/backlog-lab flags=(unconfined) { userns, }"
                    .into(),
            );
        }
        ways.push(
            "in a container: give it CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --privileged)"
                .into(),
        );
        ways
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, _) = self.cause();
        writeln!(
            f,
            "this machine does not allow network namespaces: {} failed with {}",
            self.step,
            self.errno_name()
        )?;
        writeln!(f, "  cause: {cause}")?;
        write!(f, "  ways out:")?;
        for way in self.ways_out() {
            write!(f, "\n  - {}", way.replace('\n', "\n    "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(step: &str, errno: Errno, settings: &[(&str, &str)]) -> String {
        Refusal::new(step, errno, |name| {
            let found = settings.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
        .to_string()
    }

    #[test]
    fn apparmor_is_named_with_three_ways_out() {
        for errno in [Errno::EPERM, Errno::EACCES] {
            let text = refusal(
                "writing /proc/self/uid_map",
                errno,
                &[(APPARMOR, "1"), (MAX_USER, "96364")],
            );
            for part in [
                "writing /proc/self/uid_map",
                "kernel.apparmor_restrict_unprivileged_userns = 1",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
                "/etc/apparmor.d/backlog-lab",
                "GitHub Actions",
            ] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }

    #[test]
    fn a_limit_on_namespaces_is_not_taken_for_a_full_disk() {
        let user = refusal(
            "unshare(CLONE_NEWUSER)",
            Errno::ENOSPC,
            &[(MAX_USER, "0"), (MAX_NET, "9")],
        );
        assert!(user.contains("user.max_user_namespaces = 0"), "{user}");
        let net = refusal(
            "unshare(CLONE_NEWNET)",
            Errno::ENOSPC,
            &[(MAX_USER, "9"), (MAX_NET, "0")],
        );
        assert!(net.contains("user.max_net_namespaces = 0"), "{net}");
        for text in [user, net] {
            for word in ["disk", "device", "space left"] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
    }

    #[test]
    fn without_a_known_setting_the_container_is_suspected() {
        let text = refusal("unshare(CLONE_NEWUSER)", Errno::EPERM, &[(MAX_USER, "9")]);
        assert!(text.contains("container"), "{text}");
        assert!(!text.contains("limit on namespaces"), "{text}");
        let debian = refusal("unshare(CLONE_NEWUSER)", Errno::EPERM, &[(DEBIAN, "0")]);
        assert!(
            debian.contains("kernel.unprivileged_userns_clone=1"),
            "{debian}"
        );
    }
}
