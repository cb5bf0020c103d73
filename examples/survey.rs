//! The table of the survey of servers, from its results document: `survey reports/latest/results.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::process::Command;

use serde_json::Value;

/// How a server tells its version, by the name of its arm.
const VERSIONS: &[(&str, &[&str])] = &[
    ("nginx", &["nginx", "-v"]),
    ("haproxy", &["haproxy", "-v"]),
    ("redis", &["redis-server", "--version"]),
    ("memcached", &["memcached", "--version"]),
    ("gunicorn", &["gunicorn", "--version"]),
    ("uvicorn", &["uvicorn", "--version"]),
    ("node", &["node", "--version"]),
    ("python", &["python3", "--version"]),
    ("go", &["go", "version"]),
    ("rust-std", &["rustc", "--version"]),
    (
        "rust-tokio",
        &["cargo", "tree", "--invert", "mio", "--depth", "1"],
    ),
];

const TEXT: &str = "# What servers ask for, and what they get

Made by `just survey`. Each server runs as it comes, in a namespace of its own, with three values of
`net.core.somaxconn`. What stands in the table was read from the kernel: Send-Q of the listening socket. With a limit of
1,000,000 that is what the program passed to listen(), since nothing cuts it; a program that reads somaxconn itself
shows it by asking for exactly that. A socket has a queue of its own: a server that listens on two addresses has two.
HAProxy's number follows from its limit of open files.
";

fn main() -> io::Result<()> {
    let file = std::env::args()
        .nth(1)
        .ok_or_else(|| io::Error::other("name a results.json"))?;
    let results: Value = serde_json::from_slice(&fs::read(file)?)?;
    let mut servers: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
    for arm in results["arms"].as_array().into_iter().flatten() {
        let name = arm["name"].as_str().unwrap_or_default();
        let parts = name
            .strip_prefix("survey/")
            .and_then(|name| name.split_once("/somaxconn="));
        if let Some((server, somaxconn)) = parts
            && let Ok(somaxconn) = somaxconn.parse()
        {
            let limits = servers.entry(server.to_owned()).or_default();
            limits.insert(somaxconn, limits_of(&arm["trials"][0]));
        }
    }
    let kernel = results["host"]["kernel"].as_str();
    let kernel = kernel.unwrap_or("of an unknown version");
    let mut text = format!(
        "{TEXT}\nLinux {}.\n\n| server | version | listens on | asks for | gets at 4096 | gets at 128 |\n\
         | --- | --- | --- | --: | --: | --: |\n",
        kernel.split('-').next().unwrap_or(kernel)
    );
    for (server, limits) in &servers {
        let limit = |somaxconn: u64| limits.get(&somaxconn).map_or("-", String::as_str);
        let whole = limit(1_000_000);
        let (addresses, asked) = whole.split_once(' ').unwrap_or(("-", whole));
        let got = |somaxconn| limit(somaxconn).split_once(' ').map_or("-", |(_, got)| got);
        text += &format!(
            "| {server} | {} | {} | {} | {} | {} |\n",
            version(server),
            addresses.replace(',', ", "),
            if asked == "1000000" {
                "somaxconn, or more"
            } else {
                asked
            },
            got(4_096),
            got(128)
        );
    }
    io::stdout().write_all(text.as_bytes())
}

/// The addresses of a trial's sockets and their limits, once where all have the same; the reason where there are none.
fn limits_of(trial: &Value) -> String {
    let listeners = trial["listeners"].as_array();
    let listeners: Vec<&Value> = listeners.into_iter().flatten().collect();
    if listeners.is_empty() {
        return trial["reason"].as_str().unwrap_or("unknown").to_owned();
    }
    let texts = |key: &str| -> Vec<String> {
        let values = listeners.iter().map(|one| &one[key]);
        values
            .map(|value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            })
            .collect()
    };
    let mut limits = texts("backlog_effective");
    limits.dedup();
    format!("{} {}", texts("address").join(","), limits.join(" and "))
}

/// The number of a server's version: the first word with a dot between digits.
fn version(server: &str) -> String {
    let command = VERSIONS.iter().find(|(name, _)| *name == server);
    let Some([program, arguments @ ..]) = command.map(|(_, command)| *command) else {
        return "-".into();
    };
    let Ok(output) = Command::new(program).args(arguments).output() else {
        return "-".into();
    };
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both);
    let mut words = text
        .split([' ', '/', '\n'])
        .filter(|word| word.contains('.'));
    let number = words.find_map(|word| Some(&word[word.find(|c: char| c.is_ascii_digit())?..]));
    let mio = if server == "rust-tokio" { "mio " } else { "" };
    number.map_or_else(
        || "-".into(),
        |number| format!("{mio}{}", number.trim_end_matches([')', ','])),
    )
}
