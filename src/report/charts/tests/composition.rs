//! What a matrix's factors change: measured, told in the title and in the report's text.

use super::super::{Options, figures};
use super::{Run, attempt, busy, measured, run, samples};
use crate::observation::{Attempt, Ended, Measured, ServerSide, Stage};
use crate::report::conclusions::conclusions;

/// Twenty answered, so many that met a full accept queue with their SYN, and so many ghosts by cookie.
fn fates(unconnected: usize, ghosts: usize) -> Measured {
    let ends = [
        (20, Stage::Receive, Ended::Answered),
        (unconnected, Stage::Connect, Ended::TimeUp),
        (ghosts, Stage::Receive, Ended::TimeUp),
    ];
    let ends = ends
        .into_iter()
        .flat_map(|(n, stage, ended)| std::iter::repeat_n((stage, ended), n));
    let attempts: Vec<Attempt> = (0..)
        .zip(ends)
        .map(|(n, (stage, ended))| Attempt {
            server_side: (ended == Ended::TimeUp).then_some(ServerSide::Nothing),
            ..attempt(n, stage, ended, 900_000)
        })
        .collect();
    let mut one = measured(attempts, samples(900, |_| (2, 0)), 180);
    for (counters, sent) in [
        (&mut one.server.counters.before, 0),
        (&mut one.server.counters.after, 90),
    ] {
        let counters = counters.as_mut().unwrap();
        counters.insert("TcpExt.SyncookiesSent".into(), Some(sent));
    }
    one
}

/// Cookies make ghosts on a wire only; who aborts does not matter; a cell is missing or not.
fn policies() -> Run {
    let cells = [0, 1].into_iter().flat_map(|abort| {
        [0, 1].into_iter().flat_map(move |cookies| {
            ["loopback", "wire"].into_iter().map(move |link| {
                let ghosts = if cookies == 1 && link == "wire" {
                    80 + abort
                } else {
                    0
                };
                let name = format!("policy/abort={abort},cookies={cookies},link={link}");
                (name, Some(fates(180 - ghosts, ghosts)))
            })
        })
    });
    run(cells.collect())
}

#[test]
fn the_title_says_what_the_strongest_setting_changes() {
    let run = policies();
    let figures = figures(&run.results, &run.observations, Options::default());
    let figure = figures
        .iter()
        .find(|one| one.id.file_stem() == "fates")
        .unwrap();
    assert_eq!(
        figure.title,
        "cookies=1 instead of 0 turns 81 \u{201c}SYN at a full accept queue\u{201d} into 81 \u{201c}ghost by cookie\u{201d}"
    );
    let words: Vec<&str> = figure
        .scene
        .texts
        .iter()
        .map(|text| text.words.as_str())
        .collect();
    for word in [
        "abort", "cookies", "link", "wire", "100", "80", "81", "20 ok",
    ] {
        assert!(words.contains(&word), "{word}");
    }
    assert!(
        words
            .iter()
            .any(|word| word.ends_with("title: at abort=1, link=wire")),
        "{words:?}"
    );
    assert!(
        figure
            .alt
            .contains("20 ok, 100 SYN at a full accept queue, 80 ghost by cookie"),
        "{}",
        figure.alt
    );
}

#[test]
fn the_text_says_where_a_setting_matters_and_where_not() {
    let text = conclusions(&policies().results).unwrap();
    for sentence in [
        "- **abort** from 0 to 1 changes nothing, whatever the others are.",
        "- **cookies** from 0 to 1, only where link=wire: 80 to 81 fewer SYN at a full accept queue; \
         80 to 81 more ghost by cookie.",
        "- **link** from loopback to wire, only where cookies=1: 80 to 81 fewer",
        "In every cell 20 of 200 clients were well.",
    ] {
        assert!(text.contains(sentence), "{sentence} in {text}");
    }
}

#[test]
fn without_a_matrix_or_losers_there_is_nothing_to_conclude() {
    let one = |arms: &[&str]| {
        let arms = arms.iter().map(|name| ((*name).to_owned(), Some(busy())));
        conclusions(&run(arms.collect()).results)
    };
    assert!(one(&["m/b=1", "m/b=2"]).is_some());
    assert_eq!(one(&["arm-a", "arm-b"]), None);
    let quiet = ["m/b=1", "m/b=2"].map(|name| (name.to_owned(), Some(super::quiet())));
    assert_eq!(conclusions(&run(quiet.into()).results), None);
}

#[test]
fn steps_of_a_load_are_not_taken_from_each_other() {
    let run = run(vec![
        ("steps/rate=50".into(), Some(fates(0, 0))),
        ("steps/rate=80".into(), Some(fates(30, 0))),
    ]);
    assert_eq!(conclusions(&run.results), None);
    let figures = figures(&run.results, &run.observations, Options::default());
    assert!(figures.iter().all(|one| one.id.file_stem() != "fates"));
}
