//! Tests on the real kernel, in namespaces of their own.
//!
//! libtest starts threads before anything else, and a user namespace can only be entered without any. So this
//! binary has a `main` of its own. A machine that allows no namespaces fails here, loudly.

mod audit;
mod audit_program;
mod audit_syns;
mod cases;
mod charts;
#[path = "../support/contract.rs"]
mod contract;
mod engines;
mod facts;
mod hold;
mod http;
mod keep_alive;
mod kernel;
mod kills;
mod load;
mod namespaces;
mod programs;
mod round_trip;
mod runs;
mod servers;
mod sockets;
#[path = "../support/wire.rs"]
mod support;
mod tools;
mod trust;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use backlog_lab::netns::{KernelSteps, enter};
use libtest_mimic::{Arguments, Trial};
use nix::sched::{CloneFlags, unshare};

#[expect(clippy::print_stderr, reason = "why the tests cannot run")]
fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Err(refusal) = enter(&KernelSteps) {
        eprintln!("{refusal}");
        return ExitCode::FAILURE;
    }
    // The tests' own threads live in a namespace apart, in which nothing else moves a counter.
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("cannot leave the host's network namespace: {errno}");
        return ExitCode::FAILURE;
    }
    let trials = [
        audit::trials(),
        audit_program::trials(),
        audit_syns::trials(),
        cases::trials(),
        charts::trials(),
        engines::trials(),
        facts::trials(),
        hold::trials(),
        http::trials(),
        keep_alive::trials(),
        kernel::trials(),
        kills::trials(),
        load::trials(),
        namespaces::trials(),
        programs::trials(),
        round_trip::trials(),
        runs::trials(),
        servers::trials(),
        sockets::trials(),
        tools::trials(),
        trust::trials(),
        wire::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

/// The program under test: beside this binary when both were copied, else where cargo built it.
fn program() -> PathBuf {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.join("backlog-lab")));
    match beside {
        Some(path) if path.is_file() => path,
        _ => PathBuf::from(env!("CARGO_BIN_EXE_backlog-lab")),
    }
}

/// A test that fails by panicking.
fn test(name: &str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}
