//! What load tools say of themselves, beside what the kernel and the server counted.

use super::table::{figure, lines, wrapped};
use crate::result::{ArmResult, Results, Status, ToolResult};

/// A number's column: its heading and the figure it shows.
const COLUMNS: &[(&str, &str)] = &[
    ("tool says:completed", "claimed-completed"),
    ("tool says:failed", "claimed-failed"),
    ("kernel:handshakes", "Tcp.PassiveOpens"),
    ("kernel:overflows", "TcpExt.ListenOverflows"),
    ("kernel:drops", "TcpExt.ListenDrops"),
    ("server:accepted", "accepted"),
];

/// The table for a terminal; empty where no tool ran.
pub(super) fn text(results: &Results, width: usize) -> String {
    if arms(results).next().is_none() {
        return String::new();
    }
    let mut heads = vec!["arm".to_owned()];
    heads.extend(COLUMNS.iter().map(|(heading, _)| (*heading).to_owned()));
    let rows: Vec<Vec<String>> = arms(results).map(row).collect();
    let table = lines(&heads, &rows);
    let fits = table.iter().all(|line| line.chars().count() <= width);
    let table = if fits {
        table
    } else {
        // Each name on a line of its own.
        let numbers: Vec<Vec<String>> = rows.iter().map(|row| row[1..].to_vec()).collect();
        let mut below = lines(&heads[1..], &numbers);
        let numbers = below.split_off(below.len() - rows.len());
        let names = rows.iter().map(|row| row[0].clone());
        below.extend(names.zip(numbers).flat_map(|(name, row)| [name, row]));
        below
    };
    let caption = wrapped(CAPTION, width, "");
    format!("{}\n\n{caption}\n", table.join("\n"))
}

const CAPTION: &str = "A tool's numbers are its own, read from its output; a dash is a number that it does not name. handshakes: Tcp.PassiveOpens.";

/// The table of a run's README; empty where no tool ran.
pub(super) fn markdown(results: &Results) -> String {
    if arms(results).next().is_none() {
        return String::new();
    }
    let mut text = String::from(
        "| arm | exit | the tool says | handshakes | overflows | drops | accepted |\n| --- | --: | --- | --: | --: | --: | --: |\n",
    );
    for arm in arms(results) {
        let exit = tool(arm).map_or_else(|| "-".into(), exit);
        let says = tool(arm).map_or_else(|| reason(arm), |tool| tool.says(&arm.settings));
        let says = says.replace('|', "\\|").replace('`', "'");
        let says = if arm.settings.client.claims.is_empty() {
            format!("`{says}`")
        } else {
            says
        };
        let numbers: Vec<String> = COLUMNS[2..]
            .iter()
            .map(|(_, name)| figure(arm, name, 0))
            .collect();
        text.push_str(&format!(
            "| {} | {exit} | {says} | {} |\n",
            arm.name,
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

/// Why there is no number at all.
fn reason(arm: &ArmResult) -> String {
    let reasons = arm.trials.iter().filter_map(|trial| trial.reason.clone());
    reasons.into_iter().next().unwrap_or_else(|| "-".into())
}

fn row(arm: &ArmResult) -> Vec<String> {
    let mut row = vec![arm.name.clone()];
    row.extend(COLUMNS.iter().map(|(_, name)| figure(arm, name, 0)));
    row
}
