//! The claims in circulation with their rulings: for a terminal, and as the table of docs/method.md.

use std::fmt::Write as _;

use super::wrap::wrapped;
use crate::manifest::Host;
use crate::result::{Predicted, Ruled, Ruling, capital};

/// A claim, its ruling and its evidence, a line each, for a terminal of `width` columns.
pub fn claims(host: &Host, ruled: &[Ruled], width: usize) -> String {
    let mut text = format!("Linux {}\n", kernel(host));
    for one in ruled {
        let _ = write!(
            text,
            "\n\"{}\"\n  {}",
            one.says,
            capital(&one.ruling.to_string())
        );
        if !matches!(one.ruling, Ruling::NotMeasured(_)) {
            let _ = write!(text, ": {}", one.truth);
        }
        text.push('\n');
        for predicted in &one.evidence {
            let Predicted {
                arm,
                figure,
                claimed,
                ..
            } = predicted;
            let _ = writeln!(
                text,
                "    {arm}\n      {figure}: claimed {claimed}, measured {}",
                measured(predicted)
            );
        }
    }
    let count = |is: fn(&Ruling) -> bool| ruled.iter().filter(|one| is(&one.ruling)).count();
    let _ = writeln!(
        text,
        "\nOf {} claims {} hold, {} hold only sometimes, {} do not hold, {} were not measured.",
        ruled.len(),
        count(|one| matches!(one, Ruling::Holds)),
        count(|one| matches!(one, Ruling::HoldsOnlyWhen(_))),
        count(|one| matches!(one, Ruling::DoesNotHold)),
        count(|one| matches!(one, Ruling::NotMeasured(_))),
    );
    wrapped(&text, width, "  ")
}

/// The same as a table.
pub fn claims_markdown(host: &Host, ruled: &[Ruled]) -> String {
    let kernel = kernel(host);
    let mut text = format!("| claim | on Linux {kernel} | tested by |\n| --- | --- | --- |\n");
    for one in ruled {
        let evidence: Vec<String> = one
            .evidence
            .iter()
            .map(|predicted| {
                let Predicted {
                    arm,
                    figure,
                    claimed,
                    ..
                } = predicted;
                let measured = measured(predicted);
                format!("`{arm}`: `{figure}` {claimed} claimed, {measured} measured")
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | **{}**: {} | {} |",
            one.says,
            one.ruling,
            one.truth,
            evidence.join("; ")
        );
    }
    text
}

fn kernel(host: &Host) -> &str {
    host.kernel.as_deref().unwrap_or("unknown")
}

fn measured(predicted: &Predicted) -> String {
    let measured = predicted.measured;
    measured.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}
