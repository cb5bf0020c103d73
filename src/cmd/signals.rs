//! SIGINT and SIGTERM while a run is on.

use std::process;
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::error::Error;
use crate::load::Interrupt;

/// The first signal ends the running trial and lets the report be written; a second one ends the program at once.
/// Must be called before other threads start: they inherit what is blocked here.
pub(super) fn watch() -> Result<Interrupt, Error> {
    let interrupt = Interrupt::new().map_err(Error::Signals)?;
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block().map_err(Error::Signals)?;
    let raised = interrupt.clone();
    let body = move || {
        while let Ok(signal) = signals.wait() {
            if raised.raised().is_some() || raised.raise(signal as i32).is_err() {
                process::exit(i32::from(exit_code(signal as i32)));
            }
            eprintln!(
                "stopping: the running trial is dropped, the report is partial; a second signal ends at once"
            );
        }
    };
    let named = thread::Builder::new().name("signals".into());
    named.spawn(body).map_err(|error| {
        Error::Signals(
            error
                .raw_os_error()
                .map_or(nix::errno::Errno::UnknownErrno, nix::errno::Errno::from_raw),
        )
    })?;
    Ok(interrupt)
}

/// The exit code of a program that a signal has ended.
pub(super) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
