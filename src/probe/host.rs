//! The machine: its kernel, its processors, and how idle they are.

use std::path::Path;

use super::{ProbeError, read};
use crate::manifest::Host;
use nix::sys::utsname::uname;

/// Reads what a run records of this machine.
pub fn read_host() -> Host {
    let names = uname().ok();
    let name = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    Host {
        kernel: names.as_ref().map(|names| name(names.release())),
        architecture: names.as_ref().map(|names| name(names.machine())),
        cpus: std::thread::available_parallelism().ok().map(usize::from),
    }
}

/// Clock ticks since boot, over all processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticks {
    /// Idle, waiting for input and output included.
    pub idle: u64,
    /// All of them.
    pub all: u64,
}

/// Parses the first line of `/proc/stat` (`proc_stat(5)`).
pub fn parse_ticks(text: &str) -> Result<Ticks, String> {
    let line = text.lines().next().unwrap_or_default();
    let mut words = line.split_whitespace();
    if words.next() != Some("cpu") {
        return Err(format!("\"{line}\" is not the line of all processors"));
    }
    let ticks: Vec<u64> = words
        .map(|word| {
            word.parse()
                .map_err(|_| format!("\"{word}\" is not a number of ticks"))
        })
        .collect::<Result<_, _>>()?;
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let sum = |ticks: &[u64]| {
        let mut all = ticks.iter();
        all.try_fold(0_u64, |sum, more| sum.checked_add(*more))
    };
    let idle = ticks
        .get(3..)
        .and_then(|rest| sum(&rest[..rest.len().min(2)]));
    match (
        idle.filter(|_| ticks.len() > 3),
        sum(&ticks[..ticks.len().min(8)]),
    ) {
        (Some(idle), Some(all)) => Ok(Ticks { idle, all }),
        _ => Err(format!(
            "\"{line}\" has no idle column, or adds up to more than 64 bits"
        )),
    }
}

/// Reads `/proc/stat`.
pub fn ticks() -> Result<Ticks, ProbeError> {
    let path = Path::new("/proc/stat");
    parse_ticks(&read(path)?).map_err(|problem| ProbeError::Malformed {
        path: path.to_owned(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_share_of_all_processors() {
        let ticks =
            parse_ticks("cpu  10 0 20 60 5 0 5 0 3 0\ncpu0 5 0 10 30 2 0 2 0 0 0\n").unwrap();
        assert_eq!(ticks, Ticks { idle: 65, all: 100 });
        assert!(parse_ticks("cpu0 1 2 3 4").is_err());
        assert!(parse_ticks("cpu 1 2 x 4").is_err());
        assert!(parse_ticks("").is_err());
    }
}
