//! `backlog-lab audit`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::{print, print_json, width};
use crate::arm::SysctlValue;
use crate::audit::{self, Audit, ListenerReport, Place, Scope};
use crate::cli::AuditArgs;
use crate::error::Error;
use crate::netns::{self, KernelSteps, Launch, Namespace, Program};
use crate::probe::host::read_host;
use crate::probe::owners;
use crate::report::{self, Emphasis, Line};
use crate::run::write_atomically;

pub(super) fn audit(args: &AuditArgs) -> Result<ExitCode, Error> {
    check(args)?;
    let scope = Scope {
        port: args.port,
        expected: args.expect_backlog,
    };
    let mut program = None;
    let (mut places, hidden) = if args.command.is_empty() {
        places(args)?
    } else {
        let (place, started) = start(args)?;
        program = Some(started);
        (vec![place], 0)
    };

    let windows = args.count.unwrap_or(if args.watch { u32::MAX } else { 1 });
    let (mut before, mut code) = (None, 0);
    for _ in 0..windows {
        let mut audit = window(&mut places, args, &scope)?;
        if hidden > 0 {
            audit.notes.push(format!(
                "not shown: namespaces that are hidden from this user (processes: {hidden}); root sees more"
            ));
        }
        if let Some(program) = &mut program {
            audit.notes.extend(ending(program)?);
        }
        if let Some(file) = &args.prometheus {
            write_atomically(file, report::prometheus(&audit).as_bytes())?;
        }
        show(&audit, before.as_ref(), args)?;
        code = exit_code(&audit, args);
        before = Some(audit);
        if is_unread() {
            break;
        }
    }
    Ok(ExitCode::from(code))
}

fn check(args: &AuditArgs) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.into()));
    if args.expect_backlog.is_some() && args.port.is_none() && args.command.is_empty() {
        return usage(
            "--expect-backlog needs --port N, or a COMMAND whose listeners it is expected of",
        );
    }
    if args.interval.as_us() == 0 && (args.watch || args.count.is_some_and(|count| count > 1)) {
        return usage(
            "--interval 0s looks once: with --watch or --count the window needs a length",
        );
    }
    Ok(())
}

/// Where to look, and how many processes hide their namespace.
fn places(args: &AuditArgs) -> Result<(Vec<Place>, u32), Error> {
    if args.all_netns {
        return Ok(Place::all()?);
    }
    let place = match args.pid {
        Some(pid) => {
            let net = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
            if net(&pid.to_string()) != net("self") {
                netns::enter_that_of(pid);
            }
            Place::of(pid)?
        }
        None => Place::here()?,
    };
    Ok((vec![place], 0))
}

/// How long a program may take until it listens.
const LISTEN_WITHIN: Duration = Duration::from_secs(30);

/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Starts the program in a namespace of its own and waits until it listens.
fn start(args: &AuditArgs) -> Result<(Place, Program), Error> {
    // From here on threads may start: the user namespace must be entered before.
    netns::enter(&KernelSteps)?;
    let namespace = Namespace::create("program")?;
    let somaxconn = args
        .somaxconn
        .map(|value| ("net.core.somaxconn".to_owned(), SysctlValue::from(value)));
    let sysctls: BTreeMap<_, _> = somaxconn.into_iter().collect();
    namespace
        .run(move || netns::apply_sysctls(&sysctls))?
        .map_err(netns::NetnsError::from)?;
    let mut program = Program::start(&namespace, Launch::new(args.command.clone()))?;
    let mut place = Place::inside(namespace)?;

    let name = args.command[0].to_string_lossy();
    let begun = Instant::now();
    let is_wanted = |port| args.port.is_none_or(|wanted| wanted == port);
    loop {
        let listeners = place.listeners()?;
        if listeners.iter().any(|one| is_wanted(one.address.port())) {
            return Ok((place, program));
        }
        let found: Vec<String> = listeners
            .iter()
            .map(|one| one.address.to_string())
            .collect();
        let found = if found.is_empty() {
            "none".into()
        } else {
            found.join(", ")
        };
        let never = match args.port {
            Some(port) => format!("never listened on port {port} (found: {found})"),
            None => "never listened on a TCP port".into(),
        };
        if let Some(status) = program
            .ended(LOOK_EVERY)
            .map_err(|error| Error::Program(format!("cannot wait for {name}: {error}")))?
        {
            return Err(Error::Program(format!(
                "{name} ended with {status} and {never}"
            )));
        }
        if begun.elapsed() > LISTEN_WITHIN {
            return Err(Error::Program(format!(
                "{name} {never} within {} s",
                LISTEN_WITHIN.as_secs()
            )));
        }
    }
}

/// A note when the program has ended meanwhile.
fn ending(program: &mut Program) -> Result<Option<String>, Error> {
    let status = program
        .ended(Duration::ZERO)
        .map_err(|error| Error::Program(format!("cannot wait for the program: {error}")))?;
    Ok(status.map(|status| format!("the program has ended meanwhile with {status}")))
}

fn window(places: &mut [Place], args: &AuditArgs, scope: &Scope) -> Result<Audit, Error> {
    let window = audit::measure(places, args.interval.as_duration())?;
    let owners = owners::find(&window.inodes(scope)).map_err(audit::LookError::Processes)?;
    Ok(audit::report(&window, &owners, read_host(), scope))
}

fn show(audit: &Audit, before: Option<&Audit>, args: &AuditArgs) -> Result<(), Error> {
    if args.json {
        return print_json(audit);
    }
    let is_terminal = io::stdout().is_terminal();
    let colour = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut lines = report::audit(audit, before, is_terminal.then(width));
    let repeats = args.watch || args.count.is_some_and(|count| count > 1);
    if repeats {
        let now = Timestamp::now()
            .strftime("%Y-%m-%d %H:%M:%S UTC")
            .to_string();
        lines.insert(
            0,
            Line {
                text: now,
                emphasis: Emphasis::None,
            },
        );
    }
    if !(args.watch && is_terminal) {
        return print(&lines.iter().fold(String::new(), |text, line| {
            text + &painted(line, colour) + "\n"
        }));
    }
    // Home, each line with the rest of its old one erased, then everything below erased.
    let rows = terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| {
        usize::from(height.0).saturating_sub(1)
    });
    let mut text = String::from("\x1b[H");
    if lines.len() > rows {
        let more = format!("({} more lines)", lines.len() - rows + 1);
        lines.truncate(rows.saturating_sub(1));
        lines.push(Line {
            text: more,
            emphasis: Emphasis::None,
        });
    }
    for line in &lines {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}\x1b[K\r\n", painted(line, colour));
    }
    text.push_str("\x1b[J");
    print(&text)
}

/// Whether nobody reads standard output any more: the other end of a pipe is closed, a terminal has gone.
fn is_unread() -> bool {
    let stdout = io::stdout();
    // Errors and hang-ups are told without being asked for (poll(2)).
    let mut poll = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    ppoll(
        &mut poll,
        Some(TimeSpec::from_duration(Duration::ZERO)),
        None,
    )
    .is_ok()
        && poll[0].any() == Some(true)
}

fn painted(line: &Line, colour: bool) -> String {
    let code = match line.emphasis {
        _ if !colour => return line.text.clone(),
        Emphasis::None => return line.text.clone(),
        Emphasis::Heading => "1",
        Emphasis::Bad => "1;31",
        Emphasis::Changed => "7",
    };
    format!("\x1b[{code}m{}\x1b[0m", line.text)
}

/// 1 a listener has less than was expected, 3 something could not be seen, 0 all well.
fn exit_code(audit: &Audit, args: &AuditArgs) -> u8 {
    let Some(expected) = args.expect_backlog else {
        let is_known =
            |one: &audit::NamespaceReport| one.counters[audit::OVERFLOWS].since_boot.is_some();
        return if audit.namespaces.iter().all(is_known) {
            0
        } else {
            3
        };
    };
    if audit.listeners.is_empty() {
        let port = args
            .port
            .map_or_else(String::new, |port| format!(" on port {port}"));
        eprintln!("backlog-lab: expected a limit of {expected}, and nothing listens{port}");
        return 1;
    }
    let is_short = |one: &&ListenerReport| one.limit.is_some_and(|limit| limit < expected);
    let short: Vec<&ListenerReport> = audit.listeners.iter().filter(is_short).collect();
    for one in &short {
        let says = one.limit_says.as_deref().unwrap_or("who set it is unknown");
        eprintln!("backlog-lab: {}:{}: limit {says}", one.address, one.port);
    }
    if !short.is_empty() {
        1
    } else if audit.listeners.iter().any(|one| one.limit.is_none()) {
        3
    } else {
        0
    }
}
