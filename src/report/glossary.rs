//! The words for what becomes of a client: each label with its figure and what it means, as docs/format.md prints them.

use std::fmt::Write as _;

use crate::figure::NAMED;
use crate::result::{Cause, Outcome, Results};

/// A label of tables and charts, its figure, and the figure's meaning.
pub type Word = (String, &'static str, &'static str);

/// Every word: the outcomes, the kinds of ghosts, the causes.
pub fn glossary() -> Vec<Word> {
    let outcomes = Outcome::ALL.map(|one| (one.to_string(), one.figure()));
    let ghosts = [
        ("ghosts", "ghosts"),
        ("ghosts waiting in the accept queue", "ghosts-waiting"),
        ("ghosts half-open at the server", "ghosts-half-open"),
        ("ghosts of whom the server holds nothing", "ghosts-lost"),
    ];
    let ghosts = ghosts.map(|(label, figure)| (label.to_owned(), figure));
    let causes = Cause::ALL.map(|one| (one.label().to_owned(), one.name()));
    let words = outcomes.into_iter().chain(ghosts).chain(causes);
    words
        .map(|(label, figure)| {
            let named = NAMED.iter().find(|(name, _)| *name == figure);
            (label, figure, named.map_or("", |(_, meaning)| *meaning))
        })
        .collect()
}

/// The words that a run's readers meet, in Markdown; nothing where nobody was lost.
pub(super) fn of_run(results: &Results) -> String {
    let occurs = |figure: &str| {
        let mut summaries = results
            .arms
            .iter()
            .filter_map(|arm| arm.summary.get(figure));
        summaries.any(|one| one.max > 0.0)
    };
    if !occurs("not-ok") {
        return String::new();
    }
    let mut text = String::from(
        "## Words\n\nWhat became of the clients: the words of tables and charts, the figures of `results.json` and of arm files, and \
         what they count. All words are in docs/format.md of backlog-lab.\n\n| word | figure | meaning |\n| --- | --- | --- |\n",
    );
    for (label, figure, meaning) in glossary() {
        if occurs(figure) {
            let _ = writeln!(text, "| {label} | `{figure}` | {meaning} |");
        }
    }
    text + "\n"
}
