//! The program: parse, dispatch, error to exit code.

use std::process::ExitCode;

use backlog_lab::cli::Cli;
use backlog_lab::cmd;
use clap::Parser;

fn main() -> ExitCode {
    match cmd::dispatch(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the program's last word")]
            {
                eprintln!("backlog-lab: {error}");
            }
            error.exit_code()
        }
    }
}
