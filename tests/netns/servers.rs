//! Arms whose server is a program: readiness, ends, and what the kernel tells of it.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

use backlog_lab::arm::{Arm, Source};
use backlog_lab::load::Progress;
use backlog_lab::manifest::Manifest;
use backlog_lab::observation::{EndedBy, Measured};
use backlog_lab::plan::Plan;
use backlog_lab::probe::host::read_host;
use backlog_lab::result::{AcceptedBy, ArmResult, Cause, Kind, Outcome};
use backlog_lab::run::{KernelLab, Lab, RunFolder, TrialError};
use jiff::Timestamp;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::audit_program::{eventually, processes_with};
use crate::facts::measure;

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 11] = [
        ("clients-wait-until-it-listens(k62)", late),
        ("elsewhere-is-not-listening(k62)", elsewhere),
        ("nothing-of-it-is-left(k61)", left),
        ("a-killed-lab-leaves-no-server(k57)", killed),
        ("its-limit-is-what-the-kernel-gives(k12)", limit),
        ("several-addresses-have-a-queue-each", several),
        ("a-forwarder-accepts-and-closes(k35)", forwarder),
        ("out-of-files-it-is-said-whose(k66,k76)", out_of_files),
        ("stopped-for-a-while-it-answers-later", paused),
        ("each-bad-end-has-its-own-result", bad_ends),
        (
            "what-was-measured-outlives-a-failure-to-store-its-output",
            unstored,
        ),
    ];
    tests
        .into_iter()
        .map(|(name, test)| Trial::test(format!("servers/{name}"), test))
        .collect()
}

/// An arm file whose server is a shell script; `HOLD` in it is the lab's own `hold`.
fn text(script: &str, settings: &str) -> String {
    let lab = crate::program().display().to_string();
    let script = script.replace("HOLD", &format!("{lab} hold"));
    format!(
        "title = \"a program\"\nwhy = \"a test\"\nprotocol.kind = \"http\"\n\
         server.command = [\"sh\", \"-c\", '''{script}''']\nserver.port = 9000\n{settings}\n"
    )
}

fn arm(script: &str, settings: &str) -> Arm {
    let source = Source::new("program", &text(script, settings));
    source.arms(&[]).expect("an arm").remove(0)
}

fn observe(script: &str, settings: &str) -> Result<Measured, TrialError> {
    let plan = Plan::new(vec![arm(script, settings)], 1, 1, Vec::new());
    KernelLab::default().observe(plan.order()[0], &Arc::new(Progress::default()))
}

/// The result of a trial, and the reading of its program.
fn measured(script: &str, settings: &str) -> ArmResult {
    measure(arm(script, settings))
}

fn late() -> Result<(), Failed> {
    let result = measured("sleep 0.7; exec HOLD slow 9000 --delay 1ms", "");
    let trial = &result.trials[0];
    assert_eq!(trial.count(Outcome::Ok), Some(1), "{}", result.verdict.text);
    let program = trial.program.as_ref().ok_or("no program")?;
    assert!(program.ready_us > 600_000, "{program:?}");
    assert_eq!(
        (trial.accepted, trial.accepted_by),
        (Some(1), AcceptedBy::Kernel)
    );
    assert_eq!(
        trial.wasted_accepts, None,
        "nobody logs what a program accepts"
    );
    Ok(())
}

fn elsewhere() -> Result<(), Failed> {
    // Those that come up somewhere else have time to do so, the others need none.
    let soon = "server.ready-within = \"700ms\"";
    let later = "server.ready-within = \"4s\"";
    for (script, within, says) in [
        (
            "exec HOLD slow 9001 --delay 1ms",
            later,
            "never listened on 127.0.0.1:9000 within 4s (found: 127.0.0.1:9001)",
        ),
        (
            "exec HOLD slow 9000 --bind ::1 --delay 1ms",
            later,
            "never listened on 127.0.0.1:9000 within 4s (found: [::1]:9000)",
        ),
        (
            "echo out of luck >&2; exit 3",
            later,
            "sh exited with 3 before it listened on 127.0.0.1:9000; its last words: out of luck",
        ),
        ("exec sleep 9", soon, "within 700ms (found: none)"),
    ] {
        match observe(script, within) {
            Err(TrialError::Failed {
                reason,
                measured: None,
            }) => assert!(reason.contains(says), "{reason}"),
            other => return Err(format!("{script}: {other:?}").into()),
        }
    }
    Ok(())
}

fn left() -> Result<(), Failed> {
    for (mark, script, by) in [
        (
            "78002001",
            "sleep 78002001 & HOLD slow 9000 --delay 1ms & wait",
            EndedBy::Sigterm,
        ),
        (
            "78002002",
            "trap '' TERM; HOLD slow 9000 --delay 1ms & while :; do sleep 78002002; done",
            EndedBy::Sigkill,
        ),
        (
            "78002003",
            "setsid sleep 78002003 & setsid HOLD slow 9000 --delay 1ms & exec sleep 78002003",
            EndedBy::Sigterm,
        ),
    ] {
        let result = measured(script, "");
        let trial = &result.trials[0];
        let program = trial.program.as_ref().ok_or("no program")?;
        assert_eq!(program.ended_by, by, "{script}: {program:?}");
        assert_eq!(trial.count(Outcome::Ok), Some(1), "{}", result.verdict.text);
        let note = trial
            .notes
            .iter()
            .any(|note| note.contains("SIGKILL was needed for"));
        assert_eq!(note, by == EndedBy::Sigkill, "{:?}", trial.notes);
        assert_eq!(processes_with(mark), 0, "{script}");
    }
    Ok(())
}

fn killed() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for (signal, mark) in [(Signal::SIGKILL, "78003001"), (Signal::SIGTERM, "78003002")] {
        let script = format!("setsid sleep {mark} & exec HOLD slow 9000 --delay 1ms");
        let settings = "client.connections = 100\nclient.spread = \"9s\"\nlink.kind = \"veth\"";
        fs::write(folder.path().join("server.toml"), text(&script, settings))?;
        let mut lab = Command::new(crate::program())
            .args(["run", "server.toml", "-q", "--no-charts"])
            .current_dir(folder.path())
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        eventually("the server runs", || Ok(processes_with(mark) > 0))?;
        kill(Pid::from_raw(lab.id().try_into()?), signal)?;
        lab.wait()?;
        eventually("no process is left", || Ok(processes_with(mark) == 0))?;
    }
    Ok(())
}

fn limit() -> Result<(), Failed> {
    let settings = "server.backlog = 2147483647\nsysctl.\"net.core.somaxconn\" = 262144";
    let result = measured("exec HOLD slow 9000 --delay 1ms", settings);
    let listener = result.trials[0].listeners.first().ok_or("no listener")?;
    assert_eq!(listener.backlog_requested, Some(i32::MAX));
    assert_eq!(listener.backlog_effective, 262_144);
    let text = &result.verdict.text;
    assert!(text.contains("262144, is net.core.somaxconn"), "{text}");
    Ok(())
}

fn several() -> Result<(), Failed> {
    // The one that clients reach comes up last: 2328 is port 9000, 0A is LISTEN.
    let script = "HOLD ghost 9000 --bind ::1 & HOLD ghost 9000 --bind 127.0.0.2 & \
                  until grep -q ':2328 .* 0A ' /proc/net/tcp && grep -q ':2328 .* 0A ' /proc/net/tcp6; do sleep 0.05; done; \
                  exec HOLD ghost 9000";
    let settings = "client.connections = 5\nclient.timeout = \"300ms\"";
    let result = measured(script, settings);
    let trial = &result.trials[0];
    let queues = trial.listeners.iter();
    let queues: Vec<(String, u32)> = queues
        .map(|one| (one.address.to_string(), one.recv_q_final))
        .collect();
    // `hold` itself keeps a connection of its own in each queue: its proof.
    let own = queues.last().ok_or("no listener")?.1;
    assert_eq!(
        queues,
        [
            ("127.0.0.1".into(), own + 5),
            ("127.0.0.2".into(), own),
            ("::1".into(), own)
        ]
    );
    let text = &result.verdict.text;
    assert!(
        text.contains("Deepest queue of each listener: 127.0.0.1:9000"),
        "{text}"
    );
    Ok(())
}

fn forwarder() -> Result<(), Failed> {
    let result = measured("exec HOLD close 9000", "client.connections = 20");
    let trial = &result.trials[0];
    assert_eq!(trial.count(Outcome::ClosedEarly), Some(20));
    let causes = trial.causes.as_ref().ok_or("no causes")?;
    assert_eq!(causes[&Cause::ServerClosedEarly], 20);
    assert_eq!(trial.counters.server["TcpExt.ListenOverflows"], Some(0));
    assert_eq!(
        result.verdict.kind,
        Some(Kind::Failing),
        "{}",
        result.verdict.text
    );
    Ok(())
}

fn out_of_files() -> Result<(), Failed> {
    let settings = "server.nofile = 64\nclient.connections = 150\nclient.timeout = \"1s\"";
    let result = measured("exec HOLD slow 9000 --delay 60s", settings);
    let trial = &result.trials[0];
    let program = trial.program.as_ref().ok_or("no program")?;
    assert_eq!(program.open_files, Some((64, 64)));
    assert!(
        trial
            .notes
            .iter()
            .any(|note| note.contains("64 of 64 files open") && note.contains("EMFILE")),
        "{:?}",
        trial.notes
    );
    assert_eq!(
        trial.count(Outcome::LocalLimit),
        Some(0),
        "the client is not at its limit"
    );
    let causes = trial.causes.as_ref().ok_or("no causes")?;
    let (served, waiting) = (
        causes[&Cause::NotAnswered],
        causes[&Cause::WaitedInAcceptQueue],
    );
    // A client that has left makes room for another.
    assert!(served > 20 && waiting > 0, "{causes:?}");
    assert_eq!(served + waiting, 150, "{causes:?}");
    Ok(())
}

fn paused() -> Result<(), Failed> {
    let settings = "server.pause = { at = \"0s\", for = \"1500ms\" }\nclient.connections = 20\nclient.timeout = \"5s\"";
    let measured = observe("exec HOLD slow 9000 --delay 1ms", settings)?;
    let program = measured.program.as_ref().ok_or("no program")?;
    let (from_us, until_us) = program.paused_us.ok_or("no pause")?;
    let until_us = until_us.ok_or("it did not go on")?;
    assert!(until_us - from_us >= 1_500_000, "{program:?}");
    for attempt in &measured.attempts {
        assert!(
            attempt.connected_us < Some(until_us),
            "the kernel goes on: {attempt:?}"
        );
        assert!(
            attempt.first_byte_us > Some(from_us + 1_500_000),
            "{attempt:?}"
        );
    }
    Ok(())
}

fn unstored() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let arm = arm("echo hello; exec HOLD slow 9000 --delay 1ms", "");
    let plan = Plan::new(vec![arm], 1, 1, Vec::new());
    let manifest = Manifest::new(Vec::new(), read_host(), Timestamp::UNIX_EPOCH, plan);
    let lab = KernelLab {
        output: Some(RunFolder::create(folder.path(), &manifest)?),
        ..KernelLab::default()
    };
    fs::write(folder.path().join("output"), "no folder")?;
    let result = lab.observe(manifest.plan.order()[0], &Arc::new(Progress::default()));
    let Err(TrialError::Failed { reason, measured }) = result else {
        return Err(format!("{result:?}").into());
    };
    assert!(reason.starts_with("cannot write"), "{reason}");
    let measured = measured.ok_or("nothing was kept")?;
    assert_eq!(measured.attempts.len(), 1);
    assert!(measured.program.is_some(), "{measured:?}");
    Ok(())
}

fn bad_ends() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let arms = folder.path().join("arms");
    fs::create_dir(&arms)?;
    let flood = "client.connections = 10\nclient.spread = \"600ms\"";
    let long = "client.connections = 10\nclient.spread = \"3500ms\"";
    let dies = "HOLD slow 9000 --delay 1ms & sleep 2; kill $!; echo enough >&2; exit 3";
    let never = "server.ready-within = \"300ms\"";
    for (name, text) in [
        ("dies", text(dies, long)),
        ("never", text("exec sleep 9", never)),
        (
            "floods",
            text("yes >&2 & exec HOLD slow 9000 --delay 1ms", flood),
        ),
        (
            "missing",
            "title = \"t\"\nwhy = \"w\"\nserver.command = [\"no-such-server\"]\nserver.port = 1\n\
             server.package = \"such-a-package\""
                .to_owned(),
        ),
        (
            "behind",
            text(
                "exec no-such-server",
                "server.package = \"another-package\"",
            ),
        ),
    ] {
        fs::write(arms.join(format!("{name}.toml")), text)?;
    }
    let lab = |arguments: &[&str]| -> Result<(Option<i32>, Value), Failed> {
        let output = Command::new(crate::program())
            .args(["run", "-q", "--json"])
            .args(arguments)
            // Where a folder of PATH may not be searched, a shell says that, and not that the program is missing.
            .env("PATH", "/usr/bin:/bin")
            .current_dir(folder.path())
            .output()?;
        let document = serde_json::from_slice(&output.stdout);
        let document =
            document.map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
        Ok((output.status.code(), document))
    };
    let reason = |document: &Value, n: usize| {
        let trial = &document["arms"][n]["trials"][0];
        format!("{}: {}", trial["status"], trial["reason"])
    };

    let (code, missing) = lab(&["missing", "behind"])?;
    assert_eq!(code, Some(3));
    for (n, package) in [(0, "such-a-package"), (1, "another-package")] {
        let text = reason(&missing, n);
        let says = format!("apt-get install {package}");
        assert!(text.contains("skipped") && text.contains(&says), "{text}");
    }

    let (code, document) = lab(&["dies", "never", "--out", "none"])?;
    assert_eq!(code, Some(4), "{document}");
    let text = reason(&document, 0);
    assert!(
        text.contains("failed")
            && text.contains(
                "the server died during the trial: sh exited with 3; its last words: enough"
            ),
        "{text}"
    );
    assert!(reason(&document, 1).contains("sh never listened on 127.0.0.1:9000 within 300ms"));
    let charts = folder.path().join("none/charts");
    assert!(!charts.exists(), "a chart of nothing");

    let (code, document) = lab(&["floods", "--no-charts", "--out", "flood"])?;
    // Clients that came late beside all that writing make the trial invalid, which is not the point here.
    assert!(matches!(code, Some(0 | 4)), "{document}");
    let notes = document["arms"][0]["trials"][0]["notes"].to_string();
    assert!(notes.contains("were not kept"), "{notes}");
    let kept = fs::read_to_string(
        folder
            .path()
            .join("flood/output/floods.0.server.stderr.txt"),
    )?;
    assert!(
        kept.starts_with("y\ny\n") && kept.len() < 200_000,
        "{} bytes",
        kept.len()
    );
    Ok(())
}
