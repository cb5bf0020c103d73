//! Tests against real servers and clients, in namespaces. They need foreign programs, so they are asked for:
//!
//! ```text
//! cargo test --features real-tests --test real
//! ```
//!
//! Debian: `apt-get install curl iproute2 nginx-light redis-server gunicorn nodejs python3 tcpdump
//! tshark apache2-utils wrk`. A program that is missing is a failure, never a pass.

mod audit;
mod hold;
mod keep_alive;
mod servers;
mod tools;
mod wire;

use std::process::ExitCode;

use backlog_lab::netns::{KernelSteps, enter};
use libtest_mimic::Arguments;

#[expect(clippy::print_stderr, reason = "why the tests cannot run")]
fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Err(refusal) = enter(&KernelSteps) {
        eprintln!("{refusal}");
        return ExitCode::FAILURE;
    }
    let trials = [
        audit::trials(),
        hold::trials(),
        keep_alive::trials(),
        servers::trials(),
        tools::trials(),
        wire::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}
