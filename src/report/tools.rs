//! What load tools say of themselves, beside what the kernel and the server counted.

use super::table::{figure, lines};
use super::wrap::wrapped;
use crate::result::{ArmResult, Results, Status, ToolResult};

/// A column: its heading, and its cell for an arm.
type Column = (&'static str, fn(&ArmResult) -> String);

const COLUMNS: &[Column] = &[
    ("tool:exit", |arm| {
        tool(arm).map_or_else(|| "-".into(), exit)
    }),
    ("kernel:handshakes", |arm| {
        figure(arm, "Tcp.PassiveOpens", 0)
    }),
    ("kernel:overflows", |arm| {
        figure(arm, "TcpExt.ListenOverflows", 0)
    }),
    ("kernel:drops", |arm| figure(arm, "TcpExt.ListenDrops", 0)),
    ("server:accepted", |arm| figure(arm, "accepted", 0)),
];

/// Columns for tools whose numbers are asked for.
const CLAIMS: &[Column] = &[
    ("it says:completed", |arm| {
        figure(arm, "claimed-completed", 0)
    }),
    ("it says:failed", |arm| figure(arm, "claimed-failed", 0)),
];

/// The table for a terminal; empty where no tool ran. A tool that is not asked for numbers speaks in its own words.
pub(super) fn text(results: &Results, width: usize) -> String {
    if arms(results).next().is_none() {
        return String::new();
    }
    let has_claims = arms(results).any(asks);
    let claims = if has_claims { CLAIMS } else { &[] };
    let columns = || COLUMNS[..1].iter().chain(claims).chain(&COLUMNS[1..]);
    let mut heads = vec!["arm".to_owned()];
    heads.extend(columns().map(|(heading, _)| (*heading).to_owned()));
    let rows: Vec<Vec<String>> = arms(results)
        .map(|arm| {
            let mut row = vec![arm.name.clone()];
            row.extend(columns().map(|(_, cell)| cell(arm)));
            row
        })
        .collect();
    let mut table = lines(&heads, &rows);
    let fits = table.iter().all(|line| line.chars().count() <= width);
    if !fits {
        // Each name stands on a line of its own.
        let cells: Vec<Vec<String>> = rows.iter().map(|row| row[1..].to_vec()).collect();
        table = lines(&heads[1..], &cells);
    }
    let (heads, rows) = table.split_at(table.len() - rows.len());
    let mut text = heads.join("\n") + "\n";
    for (arm, row) in arms(results).zip(rows) {
        if !fits {
            text.push_str(&arm.name);
            text.push('\n');
        }
        text.push_str(row);
        text.push('\n');
        if !asks(arm) {
            text.push_str(&wrapped(&format!("  {}", says(arm)), width, "  "));
        }
    }
    format!("{text}\n{}\n", wrapped(CAPTION, width, ""))
}

const CAPTION: &str = "What a tool says is its own account, read from its output; a dash is what it does not name. handshakes: Tcp.PassiveOpens.";

/// The table of a run's README; empty where no tool ran.
pub(super) fn markdown(results: &Results) -> String {
    if arms(results).next().is_none() {
        return String::new();
    }
    let mut text = String::from(
        "| arm | exit | the tool says | handshakes | overflows | drops | accepted |\n| --- | --: | --- | --: | --: | --: | --: |\n",
    );
    for arm in arms(results) {
        let says = says(arm).replace('|', "\\|").replace('`', "'");
        let says = if asks(arm) { says } else { format!("`{says}`") };
        let cells: Vec<String> = COLUMNS.iter().map(|(_, cell)| cell(arm)).collect();
        let (exit, numbers) = cells.split_at(1);
        text.push_str(&format!(
            "| {} | {} | {says} | {} |\n",
            arm.name,
            exit[0],
            numbers.join(" | ")
        ));
    }
    text.push_str(
        "\nWhat a tool says is its own account, read from its output (`output/`). handshakes: `Tcp.PassiveOpens`, \
         connections that the kernel finished for the server; overflows and drops: `ListenOverflows` and \
         `ListenDrops`; accepted: what accept() returned. Medians over the valid trials, and the words of the \
         first.\n\n",
    );
    text
}

fn arms(results: &Results) -> impl Iterator<Item = &ArmResult> {
    let arms = results.arms.iter();
    arms.filter(|arm| arm.settings.client.is_tool())
}

fn tool(arm: &ArmResult) -> Option<&ToolResult> {
    let mut valid = arm.trials.iter().filter(|one| one.status == Status::Ok);
    valid.find_map(|trial| trial.tool.as_ref())
}

fn exit(tool: &ToolResult) -> String {
    let code = tool.exit_code;
    code.map_or_else(|| tool.ended.clone(), |code| code.to_string())
}

/// Whether the arm reads numbers from the tool's output.
fn asks(arm: &ArmResult) -> bool {
    !arm.settings.client.claims.is_empty()
}

/// What the tool says, or why it says nothing.
fn says(arm: &ArmResult) -> String {
    if let Some(tool) = tool(arm) {
        return tool.says(&arm.settings);
    }
    let mut reasons = arm.trials.iter().filter_map(|trial| trial.reason.clone());
    reasons.next().unwrap_or_else(|| "-".into())
}
