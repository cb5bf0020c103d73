//! Foreign programs: how they are started, paused and ended, with everything that they start.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use backlog_lab::netns::{Ended, Launch, Namespace, Output, Program, exit_in_words};
use backlog_lab::observation::EndedBy;
use libtest_mimic::{Failed, Trial};

use crate::audit_program::{eventually, processes_with};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("nothing-is-left-and-it-is-said-what-it-took", endings),
        ("a-flood-of-output-is-kept-in-bounds", flood),
        ("paused-it-accepts-nobody", pause),
        ("it-gets-its-limit-folder-and-variables", surroundings),
        ("what-cannot-be-started-is-told", not_started),
    ];
    tests
        .into_iter()
        .map(|(name, test)| Trial::test(format!("programs/{name}"), test))
        .collect()
}

fn shell(script: &str) -> Launch {
    Launch {
        output: Output::Kept,
        ..Launch::new(["sh", "-c", script].map(Into::into).into())
    }
}

/// Runs a script until it says that it is ready, by a file of that name, and ends it within a second, or in ten where
/// it will heed SIGTERM.
fn ended(script: &str, by: EndedBy) -> Result<Ended, Failed> {
    let folder = tempfile::tempdir()?;
    let namespace = Namespace::create("server")?;
    let launch = Launch {
        directory: Some(folder.path().to_owned()),
        ..shell(script)
    };
    let mut program = Program::start(&namespace, launch)?;
    let is_ready = || Path::new(&folder.path().join("ready")).exists();
    eventually("the script is ready or over", || {
        Ok(is_ready() || program.ended(Duration::ZERO)?.is_some())
    })?;
    let patience_s = if by == EndedBy::Sigkill { 1 } else { 10 };
    Ok(program.end(Duration::from_secs(patience_s))?)
}

fn endings() -> Result<(), Failed> {
    for (mark, script, by) in [
        (
            "78001001",
            "sleep 78001001 & touch ready; wait",
            EndedBy::Sigterm,
        ),
        (
            "78001002",
            "setsid sleep 78001002 & touch ready; exec sleep 78001002",
            EndedBy::Sigterm,
        ),
        (
            "78001003",
            "trap '' TERM; touch ready; while :; do sleep 78001003; done",
            EndedBy::Sigkill,
        ),
        (
            "78001004",
            "(trap '' TERM; setsid sh -c 'touch ready; sleep 78001004; :' &) ; exec sleep 78001004",
            EndedBy::Sigkill,
        ),
    ] {
        let ended = ended(script, by)?;
        assert_eq!(ended.by, by, "{script}");
        let left = ended.stubborn.iter().any(|name| name == "sleep");
        assert_eq!(left, by == EndedBy::Sigkill, "{:?}", ended.stubborn);
        assert_eq!(processes_with(mark), 0, "{script}");
    }
    let by_itself = ended("echo gone >&2; exit 3", EndedBy::Itself)?;
    assert_eq!(by_itself.by, EndedBy::Itself);
    assert_eq!(exit_in_words(by_itself.status), "exited with 3");
    assert_eq!(by_itself.stderr.text(), "gone\n");
    assert_eq!(
        exit_in_words(ended("kill -9 $$", EndedBy::Itself)?.status),
        "ended by signal 9"
    );
    Ok(())
}

fn flood() -> Result<(), Failed> {
    const MIB: u64 = 1024 * 1024;
    let script =
        "echo first >&2; yes | head -c 9000000 >&2; touch ready; echo last >&2; sleep 9; :";
    let stderr = ended(script, EndedBy::Itself)?.stderr;
    assert!(
        stderr.total() > 8 * MIB && stderr.left_out() > 8 * MIB,
        "{}",
        stderr.total()
    );
    let text = stderr.text();
    assert!(text.starts_with("first\ny\n") && text.len() < 200_000);
    Ok(())
}

fn pause() -> Result<(), Failed> {
    let namespace = Namespace::create("server")?;
    let lab = crate::program().into_os_string();
    let words = ["hold", "close", "9000"].map(Into::into);
    let program = Program::start(&namespace, Launch::new([vec![lab], words.into()].concat()))?;
    let address: SocketAddr = "127.0.0.1:9000".parse()?;
    let connect = || namespace.run(move || TcpStream::connect(address));
    eventually("it listens", || Ok(connect()?.is_ok()))?;
    program.control().pause()?;
    let mut client = connect()??;
    client.set_read_timeout(Some(Duration::from_millis(300)))?;
    let error = client
        .read(&mut [0])
        .expect_err("nobody is there to close it");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    program.control().resume()?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    assert_eq!(client.read(&mut [0])?, 0);
    // A stopped program takes its SIGTERM all the same.
    program.control().pause()?;
    assert_eq!(program.end(Duration::from_secs(5))?.by, EndedBy::Sigterm);
    Ok(())
}

fn surroundings() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let namespace = Namespace::create("server")?;
    let mut program = Program::start(
        &namespace,
        Launch {
            directory: Some(folder.path().to_owned()),
            environment: [("MARK".to_owned(), "a mark".to_owned())].into(),
            open_files: Some(64),
            ..shell("ulimit -n; ulimit -Hn; echo \"$MARK\"; pwd; cat /proc/net/tcp | wc -l")
        },
    )?;
    eventually("it is over", || {
        Ok(program.ended(Duration::from_millis(5))?.is_some())
    })?;
    let ended = program.end(Duration::ZERO)?;
    let text = format!("64\n64\na mark\n{}\n1\n", folder.path().display());
    assert_eq!(ended.stdout.text(), text, "{}", ended.stderr.text());
    Ok(())
}

fn not_started() -> Result<(), Failed> {
    let namespace = Namespace::create("server")?;
    for (command, says) in [
        ("no-such-program", "cannot start no-such-program: "),
        (
            "./no/such-program",
            "cannot start such-program: No such file",
        ),
        ("/etc/passwd", "cannot start passwd: Permission denied"),
    ] {
        let error = Program::start(&namespace, Launch::new(vec![command.into()]));
        let text = error.map(drop).expect_err(command).to_string();
        assert!(text.contains(says), "{text}");
    }
    Ok(())
}
