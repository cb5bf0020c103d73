//! The run's README.md: a report that stands by itself, with figures, and with the command that makes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::charts::Chart;
use super::{table, tools};
use crate::arm::{
    AcceptPolicy, Arm, Loop, ProgramServer, Requests, Server, ServerSpec, Span, SpeaksFirst,
};
use crate::manifest::Manifest;
use crate::observation::Observation;
use crate::plan::Plan;
use crate::result::{ArmResult, Results, Status};

pub(super) fn readme(
    manifest: &Manifest,
    observations: &[Observation],
    results: &Results,
    charts: &[Chart],
) -> String {
    let mut text = String::new();
    let (ladders, charts): (Vec<&Chart>, Vec<&Chart>) =
        charts.iter().partition(|chart| chart.is_ladder);
    let mut charts = charts.into_iter();
    question(&mut text, results);
    if let Some(chart) = charts.next() {
        figure(&mut text, chart);
    }
    setting(&mut text, manifest, observations, results);
    text += "## Result\n\n";
    for line in super::verdicts::not_reached(results) {
        let _ = writeln!(text, "**{line}.**\n");
    }
    comparison(&mut text, results);
    for chart in charts {
        let _ = writeln!(text, "### {}\n", chart.title);
        figure(&mut text, chart);
    }
    text += &super::remedies::markdown(results);
    for one in &results.staircases {
        text += &super::staircase::markdown(one);
    }
    let why = shared_why(results);
    if let Some(conclusions) = super::conclusions::conclusions(results) {
        let _ = write!(text, "## What to conclude\n\n{conclusions}");
    }
    one_of_each_fate(&mut text, &ladders);
    text += "## The arms\n\n";
    if let Some(why) = why {
        let _ = writeln!(text, "{why}\n");
    }
    for arm in &results.arms {
        of_arm(&mut text, arm, why.is_none());
    }
    published(&mut text, results);
    text += &super::glossary::of_run(results);
    again(&mut text, manifest);
    text
}

fn question(text: &mut String, results: &Results) {
    let n = results.arms.len();
    let names: Vec<&str> = results.arms.iter().map(|arm| arm.name.as_str()).collect();
    let heading = match names.as_slice() {
        few if n <= 4 => few.join(", "),
        many => format!("{n} arms from {} to {}", many[0], many[n - 1]),
    };
    let _ = writeln!(text, "# TCP listen backlog: {heading}\n");
    text.push_str(
        "**Question.** What becomes of clients that meet a listening TCP socket whose accept queue is full or \
         empties slowly, and what do the kernel's counters say of it?",
    );
    let titles: BTreeSet<&str> = results.arms.iter().map(|arm| arm.title.as_str()).collect();
    if titles.len() == 1 {
        let title = titles.iter().next().copied().unwrap_or_default();
        let _ = writeln!(text, " Here: {title}, in {n} {}.\n", plural(n, "arm"));
    } else {
        let _ = writeln!(text, " Here in {n} {}:\n", plural(n, "arm"));
        for arm in &results.arms {
            let _ = writeln!(text, "- **{}**: {}", arm.name, arm.title);
        }
        text.push('\n');
    }
}

fn plural(n: usize, word: &str) -> String {
    if n == 1 {
        word.to_owned()
    } else {
        format!("{word}s")
    }
}

/// A figure with its alternative text.
fn figure(text: &mut String, chart: &Chart) {
    let alt = format!("{}. {}", chart.title, chart.alt).replace(['[', ']', '\n'], " ");
    let _ = writeln!(text, "![{alt}](charts/{}.png)\n", chart.name);
}

/// A ladder for each fate.
fn one_of_each_fate(text: &mut String, ladders: &[&Chart]) {
    if ladders.is_empty() {
        return;
    }
    text.push_str(
        "## One client of each fate\n\nThe first client of every fate that occurred on a wire, with all that is recorded of it: its \
         packets as the relay saw them, its own times, the server's accept. Client on the left, server on the right; times in \
         milliseconds since the clients' release, at each end its own. `backlog-lab ladder` shows any other client.\n\n",
    );
    for chart in ladders {
        let _ = writeln!(text, "### {}\n", chart.title);
        figure(text, chart);
    }
}

fn setting(
    text: &mut String,
    manifest: &Manifest,
    observations: &[Observation],
    results: &Results,
) {
    let unknown = || "unknown".to_owned();
    let host = &results.host;
    let trials = trials(&manifest.plan);
    let _ = writeln!(
        text,
        "## Setting\n\nLinux {} ({}, {} processors), backlog-lab {}, {trials} of each arm in fresh network \
         namespaces, seed {}, begun {}{}.\n",
        host.kernel.clone().unwrap_or_else(unknown),
        host.architecture.clone().unwrap_or_else(unknown),
        host.cpus.map_or_else(unknown, |cpus| cpus.to_string()),
        tool(results),
        results.seed,
        results.started_at.strftime("%Y-%m-%d %H:%M UTC"),
        if results.complete {
            ""
        } else {
            "; **the run is partial**"
        }
    );
    for one in &results.overrides {
        let _ = writeln!(text, "Overridden for this run: `{one}`\n");
    }
    let skews = results.arms.iter().flat_map(|arm| &arm.trials);
    let skews = skews.filter_map(|trial| trial.start_skew_ms?.max);
    if let Some(latest) = skews.max_by(f64::total_cmp) {
        let _ = writeln!(
            text,
            "No client started more than {latest:.1} ms after it was meant to.\n"
        );
    }
    let rows = sysctls(observations);
    if !rows.is_empty() {
        text.push_str("Sysctls in force inside the namespaces, as they were read back:\n\n| sysctl | in force |\n| --- | --- |\n");
        for (name, values) in rows {
            let _ = writeln!(text, "| `{name}` | {} |", cell(&values));
        }
        text.push('\n');
    }
}

/// `5 trials`, or `1 to 3 trials` where arms have as many as each needed.
fn trials(plan: &Plan) -> String {
    let of_each = || plan.arms.iter().map(|arm| plan.trials_of(arm));
    match (of_each().min(), of_each().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most} trials"),
        (_, most) => {
            let n = most.unwrap_or(plan.trials);
            format!("{n} {}", plural(n as usize, "trial"))
        }
    }
}

fn tool(results: &Results) -> String {
    match &results.tool.git {
        Some(git) => format!("{} ({git})", results.tool.version),
        None => results.tool.version.clone(),
    }
}

/// Every sysctl with its value, or with its values and the arms that had them.
fn sysctls(observations: &[Observation]) -> Vec<(String, String)> {
    let mut by_name: BTreeMap<&str, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    for observation in observations {
        let Some(measured) = &observation.measured else {
            continue;
        };
        let client = measured.client.iter().flat_map(|client| &client.sysctls);
        for (name, value) in measured.server.sysctls.iter().chain(client) {
            let value = value
                .clone()
                .unwrap_or_else(|| "not shown by this kernel".into());
            by_name
                .entry(name)
                .or_default()
                .entry(value)
                .or_default()
                .insert(&observation.arm);
        }
    }
    let values = |values: BTreeMap<String, BTreeSet<&str>>| {
        if values.len() == 1 {
            return values.into_keys().collect();
        }
        let told = values.iter().map(|(value, arms)| {
            let others = values.values().filter(|other| *other != arms).flatten();
            format!("{value} ({})", in_common(arms, &others.copied().collect()))
        });
        told.collect::<Vec<_>>().join("; ")
    };
    by_name
        .into_iter()
        .map(|(name, by_value)| (name.to_owned(), values(by_value)))
        .collect()
}

/// What only these arms have in their names, such as the level of a matrix; the names where that is nothing.
fn in_common(arms: &BTreeSet<&str>, others: &BTreeSet<&str>) -> String {
    let has = |arm: &str, word: &str| arm.split(['/', ',']).any(|one| one == word);
    let first = arms.iter().next().copied().unwrap_or_default();
    let shared: Vec<&str> = first
        .split(['/', ','])
        .filter(|word| arms.iter().all(|arm| has(arm, word)))
        .filter(|word| !others.iter().any(|arm| has(arm, word)))
        .collect();
    let told = if shared.is_empty() {
        arms.iter().copied().collect()
    } else {
        shared
    };
    told.join(", ")
}

/// A text as a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\t'], " ")
}

fn comparison(text: &mut String, results: &Results) {
    text.push_str(&tools::markdown(results));
    if results.arms.iter().all(|arm| arm.settings.client.is_tool()) {
        return;
    }
    let (heads, rows) = table::cells(results, true);
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|one| cell(one)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let heads: Vec<String> = heads
        .iter()
        .map(|head| head.replace("over- ", "over").replace(':', " "))
        .collect();
    text.push_str(&line(&heads));
    let rule: Vec<String> = (0..heads.len())
        .map(|n| if n == 0 { "---" } else { "--:" }.into())
        .collect();
    text.push_str(&line(&rule));
    for row in &rows {
        text.push_str(&line(row));
    }
    let _ = writeln!(
        text,
        "\nMedians over the valid trials. {}{}\n",
        table::CAPTION,
        table::WIDE_CAPTIONS.concat()
    );
    let _ = writeln!(text, "{}\n", table::DROPS);
    if table::has_load_over_time(results) {
        let _ = writeln!(text, "{}\n", table::INTENDED);
    }
}

/// What several arms teach, when it is the same for all: the cells of a matrix.
fn shared_why(results: &Results) -> Option<&str> {
    let [first, others @ ..] = results.arms.as_slice() else {
        return None;
    };
    let why = first.settings.why.as_str();
    let same = others.iter().all(|arm| arm.settings.why == why);
    (same && !others.is_empty()).then_some(why)
}

fn of_arm(text: &mut String, arm: &ArmResult, has_own_why: bool) {
    if has_own_why {
        let (title, why) = (&arm.title, &arm.settings.why);
        let _ = writeln!(text, "### {}: {title}\n\n{why}\n", arm.name);
    } else {
        let _ = writeln!(text, "### {}\n", arm.name);
    }
    let _ = writeln!(text, "Setting: {}.\n", settings(&arm.settings));
    let _ = writeln!(text, "**Verdict.** {}", arm.verdict.text);
    match arm.verdict.met {
        Some(true) => text.push_str("\nAs the arm expects.\n"),
        Some(false) => {
            text.push_str("\n**Not as the arm expects:**\n\n");
            for one in arm
                .verdict
                .expectations
                .iter()
                .filter(|one| one.met == Some(false))
            {
                let observed = one
                    .observed
                    .map_or_else(|| "unknown".into(), |value| value.to_string());
                let _ = writeln!(
                    text,
                    "- `{}` = {}, observed {observed}",
                    one.key, one.expected
                );
            }
        }
        None => {}
    }
    if let Some(why) = &arm.verdict.not_judged {
        let _ = writeln!(text, "\nIts expectations were not judged: {why}.");
    }
    if let Some(table) = super::why_overflows(arm) {
        let _ = write!(text, "\n{table}");
    } else if let Some(told) = super::why_not_judged(arm) {
        let _ = writeln!(text, "\n{told}.");
    }
    text.push('\n');
    let failed = arm
        .trials
        .iter()
        .filter(|trial| trial.status != Status::Ok)
        .map(|trial| {
            format!(
                "trial {} is {}: {}",
                trial.index,
                trial.status,
                trial.reason.as_deref().unwrap_or("unknown")
            )
        });
    let notes: BTreeSet<&String> = arm.trials.iter().flat_map(|trial| &trial.notes).collect();
    let remarks: Vec<String> = failed.chain(notes.into_iter().cloned()).collect();
    for remark in &remarks {
        let _ = writeln!(text, "- {remark}");
    }
    if !remarks.is_empty() {
        text.push('\n');
    }
}

/// An arm's main settings in a sentence.
fn settings(arm: &Arm) -> String {
    let (server, client) = (&arm.server, &arm.client);
    let mut parts = match server {
        Server::Own(own) => own_server(own),
        Server::Program(program) => program_server(program),
    };
    if client.is_tool() {
        parts.push(format!(
            "`{}` in place of the lab's own clients, at most {:#}",
            client.command.join(" ").replace('`', "'"),
            client.most()
        ));
        parts.extend(match arm.protocol.requests {
            Requests::ONE => None,
            Requests::Count(n) => Some(format!("{n} requests on a connection")),
            Requests::Unlimited => Some("connections are kept for further requests".into()),
        });
        parts.push(format!("link {}", arm.link.kind));
        return parts.join(", ");
    }
    let threads = client.threads() as usize;
    let from = format!("from {threads} {}", plural(threads, "thread"));
    parts.push(match client.pacing() {
        Loop::Flood => format!(
            "{} {} {from}",
            client.connections,
            plural(client.connections as usize, "client"),
        ),
        Loop::Open(rate) => format!(
            "open loop, {rate} for {:#}: {} clients {from}",
            client.duration, client.connections
        ),
        Loop::Closed => {
            let pace = client
                .rate
                .map_or_else(String::new, |rate| format!(", together at most {rate}"));
            format!(
                "closed loop, {} at a time for {:#}{pace}",
                client.connections, client.duration
            )
        }
    });
    if client.spread > Span::default() {
        parts.push(format!("started within {:#}", client.spread));
    }
    if client.jitter > Span::default() {
        parts.push(format!("each up to {:#} later by chance", client.jitter));
    }
    parts.push(format!("timeout {:#}", client.timeout));
    parts.push(match (&arm.protocol.http, arm.protocol.speaks_first) {
        (Some(http), _) => format!("`GET {}` by HTTP", http.path),
        (None, SpeaksFirst::Server) => "the server speaks first".into(),
        (None, SpeaksFirst::Client) => "the client speaks first".into(),
        (None, SpeaksFirst::Nobody) => "nobody speaks, to be connected is enough".into(),
    });
    parts.push(format!("link {}", arm.link.kind));
    parts.join(", ")
}

fn own_server(server: &ServerSpec) -> Vec<String> {
    let mut parts = vec![format!("`listen({})`", server.backlog)];
    parts.push(match &server.accept {
        AcceptPolicy::Never => "nothing is accepted".into(),
        AcceptPolicy::Plan(batches) => format!("accepts by a plan of {} steps", batches.len()),
        AcceptPolicy::Loop if server.accept_delay == Span::default() => "accepts at once".into(),
        AcceptPolicy::Loop => format!("{:#} after each accept", server.accept_delay),
    });
    if server.accept_from > Span::default() {
        parts.push(format!("none before {:#}", server.accept_from));
    }
    parts
}

fn program_server(server: &ProgramServer) -> Vec<String> {
    let words: Vec<String> = server
        .program
        .command
        .iter()
        .map(|word| quoted(word))
        .collect();
    let mut parts = vec![format!("`{}` on port {}", words.join(" "), server.port)];
    if let Some(backlog) = server.backlog {
        parts.push(format!("set up for `listen({backlog})`"));
    }
    if let Some(most) = server.program.nofile {
        parts.push(format!("at most {most} open files"));
    }
    if let Some(pause) = server.pause {
        parts.push(format!(
            "stopped from {:#} on for {:#}",
            pause.at, pause.lasts
        ));
    }
    parts
}

fn published(text: &mut String, results: &Results) {
    let arms = || {
        results
            .arms
            .iter()
            .filter_map(|arm| Some((arm, arm.settings.published.as_ref()?)))
    };
    if arms().next().is_none() {
        return;
    }
    text.push_str("## Published beside measured\n\n| arm | figure | published | measured, median (range) | source |\n| --- | --- | --: | --: | --- |\n");
    for (arm, published) in arms() {
        for (figure, value) in &published.figures {
            let measured = match arm.summary.get(&figure.to_string()) {
                None => "-".to_owned(),
                Some(one) if one.n == 1 => one.median.to_string(),
                Some(one) => format!("{} ({} to {})", one.median, one.min, one.max),
            };
            let _ = writeln!(
                text,
                "| {} | `{figure}` | {value} | {measured} | {} |",
                cell(&arm.name),
                cell(&published.source)
            );
        }
    }
    text.push_str(
        "\nWhy they may differ: counts near a full queue depend on which clients find a free slot in the moments \
         in which one is freed, and so on the number of processors, their load, and how quickly client and \
         server are scheduled. A timeout that falls on an instant at which the kernel repeats a SYN adds or saves \
         one overflow per client by chance. Other kernels repeat SYNs at other times (before Linux 6.5 the \
         timeout doubled from the first retry on), and a client in another language starts its threads less \
         evenly. What does not depend on these is the same everywhere: a queue holds the effective backlog and \
         one more, and an overflow never refuses a connection.\n\n",
    );
}

fn again(text: &mut String, manifest: &Manifest) {
    let command: Vec<String> = manifest.command.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(
        text,
        "## Again\n\nThe same experiment on this machine:\n\n```sh\n{}\n```\n\nEverything in this folder but \
         `manifest.json` and `observations/` is derived; `backlog-lab report` with the path of this folder makes \
         it again, byte for byte, without root.",
        command.join(" ")
    );
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
