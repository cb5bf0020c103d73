//! Tests on the real kernel, in namespaces of their own.
//!
//! libtest starts threads before anything else, and a user namespace can only be entered without any. So this
//! binary has a `main` of its own. A machine that allows no namespaces fails here, loudly.

mod facts;

use std::process::ExitCode;

use backlog_lab::netns::{KernelSteps, enter};
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Err(refusal) = enter(&KernelSteps) {
        eprintln!("{refusal}");
        return ExitCode::FAILURE;
    }
    let trials = facts::trials();
    libtest_mimic::run(&arguments, trials).exit_code()
}
