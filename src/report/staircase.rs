//! Steps of more and more load as a table, with the breaking point and what limits it.

use std::fmt::Write as _;

use super::table::{lines, percentiles};
use super::wrap::wrapped;
use crate::result::{ArmResult, Held, Results, Staircase, Step, Tries, capital};

/// What the columns mean.
const NOTE: &str = "borne: holds means no overflow and no failed client, in every trial that counts; n/m: borne in n of m trials, +n: n more were spoiled by other work and say nothing; client: the client did not raise the load, which says nothing of the server. served per s: while connections were started, of a burst until the queue first ran empty. ms p50/p99: from the intended start to the answer. short: the step ended before its queue was to be full, so that it shows nothing. first at s: when the listener dropped its first packet, in brackets when that was to be expected. CPU % s/c: server and client, of one processor; idle: of the machine.";

/// Puts the arms of every staircase in the order of its steps, into the places that these arms have: a search finds
/// its loads in another order.
pub fn sort_by_load(results: &mut Results) {
    for one in &results.staircases {
        let place = |step: &Step| results.arms.iter().position(|arm| arm.name == step.arm);
        let by_load: Vec<usize> = one.steps.iter().filter_map(place).collect();
        let ordered: Vec<ArmResult> = by_load.iter().map(|n| results.arms[*n].clone()).collect();
        let mut places = by_load;
        places.sort_unstable();
        for (place, arm) in places.into_iter().zip(ordered) {
            results.arms[place] = arm;
        }
    }
}

/// The highest load that was borne for as long as it takes to tell; `None` where no step lasted that long.
pub(super) fn surely_holds(one: &Staircase) -> Option<f64> {
    let steps = one.steps.iter();
    let sure = steps.filter(|step| step.held == Held::Holds && !step.too_short);
    sure.map(|step| step.load).reduce(f64::max)
}

/// Whether the highest load that was borne is that of a step that was too short to tell.
pub(super) fn holds_for_a_while(one: &Staircase) -> bool {
    let mut steps = one.steps.iter();
    steps.any(|step| Some(step.load) == one.holds && step.too_short)
}

/// Every staircase of a run, for a terminal of `width` columns.
pub fn staircases(results: &Results, width: usize) -> String {
    let mut text = String::new();
    for (n, one) in results.staircases.iter().enumerate() {
        let _ = writeln!(text, "{} by {}", one.name, one.by);
        let (heads, rows) = cells(one);
        for line in lines(&heads, &rows) {
            let _ = writeln!(text, "{line}");
        }
        let told = sentences(one).join("\n");
        if n == 0 {
            let _ = write!(text, "\n{}", wrapped(NOTE, width, ""));
        }
        let _ = writeln!(text, "\n{}", wrapped(&told, width, "  "));
    }
    text
}

/// The same as Markdown.
pub(super) fn markdown(one: &Staircase) -> String {
    let mut text = format!("## Steps of {} by {}\n\n", one.name, one.by);
    let (heads, rows) = cells(one);
    let heads: Vec<String> = heads.iter().map(|head| head.replace(':', " ")).collect();
    let _ = writeln!(text, "| {} |", heads.join(" | "));
    let _ = writeln!(text, "| {} |", vec!["--:"; heads.len()].join(" | "));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    let _ = writeln!(text, "\n{NOTE}\n");
    for sentence in sentences(one) {
        let _ = writeln!(text, "- {sentence}");
    }
    text + "\n"
}

fn cells(one: &Staircase) -> (Vec<String>, Vec<Vec<String>>) {
    let served = if one.per_request {
        "requests:per s"
    } else {
        "served:per s"
    };
    let heads = [
        one.by.to_string().as_str(),
        "borne?",
        served,
        "ms:p50/p99",
        "not ok",
        "over-:flows",
        "first at s:(predicted)",
        "CPU %:s/c",
        "idle:%",
    ]
    .map(str::to_owned)
    .to_vec();
    let number = |value: Option<f64>, decimals: usize| {
        value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
    };
    let seconds = |ms: Option<f64>| number(ms.map(|ms| ms / 1_000.0), 2);
    // Where every load had one trial, how many there were says nothing.
    let counted = one
        .steps
        .iter()
        .any(|step| step.tries.counted + step.tries.spoiled != 1);
    let row = |step: &Step| {
        let (held, short_word) = match step.held {
            Held::Holds if step.too_short => ("holds".to_owned(), " short"),
            Held::ClientLimited => ("client".to_owned(), ""),
            held => (held.to_string(), ""),
        };
        let tries = if counted { tries(step) } else { String::new() };
        vec![
            format!("{}", step.load),
            format!("{held}{tries}{short_word}"),
            number(
                step.answered_per_s,
                usize::from(step.answered_per_s.is_some_and(|per_s| per_s < 1_000.0)),
            ),
            percentiles([step.p50_ms, step.p99_ms]),
            number(step.not_ok, 0),
            number(step.overflows, 0),
            format!(
                "{} ({})",
                seconds(step.first_overflow_ms),
                seconds(step.predicted_overflow_ms)
            ),
            format!(
                "{}/{}",
                number(step.server_cpu_percent, 0),
                number(step.client_cpu_percent, 0)
            ),
            number(step.idle_percent, 0),
        ]
    };
    (heads, one.steps.iter().map(row).collect())
}

/// ` 2/2`: borne in so many of so many trials; ` 1/1+1`: one more was spoiled.
fn tries(step: &Step) -> String {
    let Tries {
        counted,
        broken,
        spoiled,
    } = step.tries;
    let more = match spoiled {
        0 => String::new(),
        n => format!("+{n}"),
    };
    format!(" {}/{counted}{more}", counted - broken)
}

/// What was to be expected, and how the measured interval compares with it.
fn predicted(one: &Staircase) -> Option<String> {
    let load = one.predicted?;
    let load = format!("{load:.0}").parse().unwrap_or(load);
    let ratio = one.over_predicted.map_or_else(String::new, |[low, high]| {
        format!(" (measured over predicted: {low:.2} to {high:.2})")
    });
    Some(format!("Predicted: {}{ratio}.", one.by.told(load)))
}

/// The same for a line, with the trials of the edges.
pub(super) fn in_a_line(one: &Staircase) -> String {
    let parts = predicted(one).into_iter().chain(confirmed(one));
    parts.collect::<Vec<_>>().join(" ")
}

/// How often the edges of the interval were tried.
fn confirmed(one: &Staircase) -> Option<String> {
    let of = |load: Option<f64>| {
        let step = one.steps.iter().find(|step| Some(step.load) == load)?;
        let Tries {
            counted, broken, ..
        } = step.tries;
        let n = if step.held == Held::Holds {
            counted - broken
        } else {
            broken
        };
        Some((step, n, counted))
    };
    let low = of(one.holds)
        .map(|(step, n, of)| format!("{} held in {n} of {}", one.by.told(step.load), trials(of)));
    let high = of(one.breaks)
        .map(|(step, n, of)| format!("{} broke in {n} of {}", one.by.told(step.load), trials(of)));
    let told: Vec<String> = low.into_iter().chain(high).collect();
    (!told.is_empty()).then(|| format!("Trials: {}.", told.join(", ")))
}

fn trials(n: u32) -> String {
    format!("{n} trial{}", if n == 1 { "" } else { "s" })
}

/// The breaking point, what was to be expected, what limits it, and which steps say nothing.
pub(super) fn sentences(one: &Staircase) -> Vec<String> {
    let mut told = vec![breaking_point(one)];
    if let (Some(predicted), Some(why)) = (predicted(one), &one.prediction) {
        told.push(format!("{predicted} {}.", capital(why)));
    }
    told.extend(confirmed(one));
    if let (Some(limit), Some(why)) = (one.limit, &one.limit_told) {
        told.push(format!("What limits it: {limit}. {}.", capital(why)));
    }
    let short: Vec<String> = one
        .steps
        .iter()
        .filter(|step| step.too_short)
        .map(|step| one.by.told(step.load))
        .collect();
    if !short.is_empty() {
        told.push(format!(
            "Too short to fill the queue: {}. There more comes than is accepted, and the step ended before that could be seen.",
            short.join(", ")
        ));
    }
    told
}

fn breaking_point(one: &Staircase) -> String {
    let told = |load: f64| one.by.told(load);
    let mut holds = "no overflow and no failed client".to_owned();
    if holds_for_a_while(one) {
        holds += ", but the step was too short to tell";
        if let Some(sure) = surely_holds(one) {
            let _ = write!(
                holds,
                "; for as long as it takes at most {} were borne",
                told(sure)
            );
        }
    }
    match (one.holds, one.breaks, one.limit) {
        (Some(low), Some(high), limit) if !limit.is_some_and(crate::result::Limit::is_clients) => {
            format!(
                "Breaking point: between {} ({holds}) and {}.",
                told(low),
                told(high)
            )
        }
        (Some(low), _, Some(_)) => format!(
            "Breaking point: not found. {} are borne ({holds}); beyond that the client is the limit.",
            told(low)
        ),
        (Some(low), _, None) => {
            format!(
                "Breaking point: not found. {} are borne ({holds}).",
                told(low)
            )
        }
        (None, Some(high), _) => format!("Breaking point: below {}.", told(high)),
        (None, None, _) => "Breaking point: unknown.".into(),
    }
}
