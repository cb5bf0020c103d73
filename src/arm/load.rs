//! From names, files and folders to arms: lookup in `./arms`, then among the arms that the binary carries.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Arm, Override, matrix, rate, requests};
use crate::nearest::did_you_mean;

/// The arms that the binary carries, as (name, text); written by build.rs from `arms/`.
const SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped_arms.rs"));

/// Everything that is wrong with the arms that were asked for, a line each. Nothing has been touched.
#[derive(Debug)]
pub struct ArmError {
    problems: Vec<String>,
}

impl fmt::Display for ArmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ArmError {}

/// An arm file's text with its name and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name: the path below `arms/` without `.toml`.
    pub name: String,
    /// The file, or `None` for an arm that the binary carries.
    pub file: Option<PathBuf>,
    text: String,
}

impl Source {
    /// A text that stands in no file.
    pub fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            file: None,
            text: text.to_owned(),
        }
    }

    /// The arms of this file: one, or one for each cell of its matrix.
    pub fn arms(&self, overrides: &[Override]) -> Result<Vec<Arm>, ArmError> {
        self.expand(overrides).map_err(|problem| {
            // A file that is well without the overrides is not to blame.
            let changes: Vec<String> = overrides.iter().map(|one| format!("--set {one}")).collect();
            let place = if !overrides.is_empty() && self.expand(&[]).is_ok() {
                format!("{} ({})", changes.join(" "), self.name)
            } else {
                self.place()
            };
            ArmError {
                problems: vec![format!("{place}: {problem}")],
            }
        })
    }

    fn place(&self) -> String {
        match &self.file {
            Some(path) => path.display().to_string(),
            None => format!("shipped arm {}", self.name),
        }
    }

    fn expand(&self, overrides: &[Override]) -> Result<Vec<Arm>, String> {
        let mut table: toml::Table =
            toml::from_str(&self.text).map_err(|error| error.to_string().trim_end().to_owned())?;
        for change in overrides {
            change.apply(&mut table)?;
        }
        rate::steps(&mut table)?;
        let mut arms: Vec<Arm> = Vec::new();
        for mut cell in matrix::expand(table)? {
            rate::resolve(&mut cell.table)?;
            requests::resolve(&mut cell.table);
            let name = match cell.suffix {
                Some(suffix) => format!("{}/{suffix}", self.name),
                None => self.name.clone(),
            };
            let arm: Arm = serde_path_to_error::deserialize(toml::Value::Table(cell.table))
                .map_err(|error| in_words(&error))?;
            arm.check()?;
            let arm = arm.marked_as_changed(overrides);
            if arms.iter().any(|other| other.name == name) {
                return Err(format!("two levels give the same arm, {name}"));
            }
            arms.push(Arm { name, ..arm });
        }
        Ok(arms)
    }
}

/// `server.backlog: invalid type: string "x", expected a whole number`, on one line and in an arm's words.
fn in_words(error: &serde_path_to_error::Error<toml::de::Error>) -> String {
    let message = error.inner().to_string();
    let mut message = message.lines().next().unwrap_or_default().to_owned();
    for (theirs, ours) in [
        ("unknown field", "unknown key"),
        ("missing field", "missing key"),
        ("unknown variant", "unknown word"),
        ("unit variant, expected string only", "a word is expected"),
        ("expected a map", "expected a table"),
        (
            "expected i32",
            "expected a whole number from -2147483648 to 2147483647",
        ),
        (
            "expected u32",
            "expected a whole number from 0 to 4294967295",
        ),
        ("expected u16", "expected a whole number from 0 to 65535"),
    ] {
        message = message.replace(theirs, ours);
    }
    // The name of a type is nothing to whoever writes a file.
    if let Some((before, _)) = message.split_once("expected struct ") {
        message = format!("{before}expected a table");
    }
    // The message names the wrong word first and then those that are known.
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.contains("unknown")
        && let Some(wrong) = quoted.next()
    {
        let known: Vec<&str> = quoted.chain(SECTIONED.iter().copied()).collect();
        let below = known
            .iter()
            .find(|key| key.rsplit('.').next() == Some(wrong) && **key != wrong);
        let hint = match below {
            Some(key) => format!("; did you mean \"{key}\"?"),
            None => did_you_mean(wrong, known),
        };
        message += &hint;
    }
    match error.path().to_string().as_str() {
        "." => message,
        path => format!("{path}: {message}"),
    }
}

/// Keys that are easily written without their section.
const SECTIONED: &[&str] = &[
    "server.backlog",
    "server.accept",
    "server.accept-delay",
    "client.connections",
    "client.rate",
    "client.duration",
    "client.concurrency",
    "client.workers",
    "client.timeout",
    "client.start",
    "protocol.speaks-first",
];

/// Where arms are looked up: a folder named `arms`, then the arms that the binary carries.
#[derive(Debug)]
pub struct Catalog {
    folder: Option<PathBuf>,
}

impl Catalog {
    /// A catalog of the `arms` folder below `here` and of the shipped arms.
    pub fn new(here: &Path) -> Self {
        Self {
            folder: Some(here.join("arms")),
        }
    }

    /// A catalog of the shipped arms alone.
    pub fn shipped() -> Self {
        Self { folder: None }
    }

    /// Every arm file that can be named, in the order of the names.
    pub fn all(&self) -> Result<Vec<Source>, ArmError> {
        let mut found: BTreeMap<String, Source> = SHIPPED
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Source::new(name, text)))
            .collect();
        if let Some(folder) = self.folder.as_ref().filter(|folder| folder.is_dir()) {
            let files = read_folder(folder);
            if !files.problems.is_empty() {
                return Err(ArmError {
                    problems: files.problems,
                });
            }
            for source in files.sources {
                found.insert(source.name.clone(), source);
            }
        }
        Ok(found.into_values().collect())
    }

    /// The arms that these words name, each file once and in the order asked, with the overrides applied.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn load(&self, words: &[String], overrides: &[Override]) -> Result<Vec<Arm>, ArmError> {
        let (mut arms, (sources, mut problems)) = (Vec::new(), self.look_up(words));
        for source in &sources {
            match source.arms(overrides) {
                Ok(more) => arms.extend(more),
                Err(error) => problems.extend(error.problems),
            }
        }
        without(problems).map(|()| arms)
    }

    /// The arm files that these words name, each once and in the order asked.
    ///
    /// # Errors
    /// Every word that names none, and every file that cannot be read.
    pub fn named(&self, words: &[String]) -> Result<Vec<Source>, ArmError> {
        let (sources, problems) = self.look_up(words);
        without(problems).map(|()| sources)
    }

    /// The arm files that these words name, and what is wrong with the words.
    fn look_up(&self, words: &[String]) -> (Vec<Source>, Vec<String>) {
        let (mut sources, mut problems) = (Vec::<Source>::new(), Vec::new());
        for word in words {
            let found = self.find(word);
            problems.extend(found.problems);
            for source in found.sources {
                match sources.iter().find(|other| other.name == source.name) {
                    Some(other) if *other == source => {}
                    Some(other) => problems.push(format!(
                        "{} and {} are both named {}",
                        other.place(),
                        source.place(),
                        source.name
                    )),
                    None => sources.push(source),
                }
            }
        }
        (sources, problems)
    }

    /// The arm files that a word names: an arm or a group of them, a file, a folder.
    fn find(&self, word: &str) -> Found {
        let path = Path::new(word);
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            return read_file(path, name_of(path));
        }
        let name = word.trim_end_matches('/');
        if let Some(folder) = &self.folder {
            let file = folder.join(format!("{name}.toml"));
            if file.is_file() {
                return read_file(&file, name.to_owned());
            }
            let group = folder.join(name);
            if !name.is_empty() && group.is_dir() {
                return read_folder(&group);
            }
        }
        let below = format!("{name}/");
        let carried: Vec<Source> = SHIPPED
            .iter()
            .filter(|(shipped, _)| *shipped == name || shipped.starts_with(&below))
            .map(|(name, text)| Source::new(name, text))
            .collect();
        if !carried.is_empty() {
            return Found {
                sources: carried,
                problems: Vec::new(),
            };
        }
        if path.is_dir() {
            return read_folder(path);
        }
        if path.exists() {
            return read_file(path, name_of(path));
        }
        let hint = match self.all() {
            Ok(known) => did_you_mean(name, known.iter().map(|source| source.name.as_str())),
            // A folder that cannot be read is said beside the name, not instead of it.
            Err(_) => String::new(),
        };
        Found::problem(format!(
            "there is no arm, file or folder \"{word}\"{hint} (`backlog-lab list` shows the arms)"
        ))
    }
}

/// What was found, and what could not be read beside it: a bad file hides no other bad one.
#[derive(Default)]
struct Found {
    sources: Vec<Source>,
    problems: Vec<String>,
}

impl Found {
    fn problem(problem: String) -> Self {
        Self {
            sources: Vec::new(),
            problems: vec![problem],
        }
    }
}

/// Nothing, or everything that is wrong.
fn without(problems: Vec<String>) -> Result<(), ArmError> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ArmError { problems })
    }
}

/// The path below a folder named `arms`, or the bare file name, without `.toml`.
fn name_of(path: &Path) -> String {
    let path = path.with_extension("");
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let below = parts
        .iter()
        .rposition(|part| part == "arms")
        .map_or(parts.len().saturating_sub(1), |arms| arms + 1);
    parts[below.min(parts.len().saturating_sub(1))..].join("/")
}

fn read_file(path: &Path, name: String) -> Found {
    match fs::read_to_string(path) {
        Ok(text) => Found {
            sources: vec![Source {
                name,
                file: Some(path.to_owned()),
                text,
            }],
            problems: Vec::new(),
        },
        Err(error) => Found::problem(format!("cannot read arm file {}: {error}", path.display())),
    }
}

/// Every `.toml` file below a folder, in the order of the names.
fn read_folder(folder: &Path) -> Found {
    let mut files = Vec::new();
    if let Err((path, error)) = collect(folder, &mut files) {
        return Found::problem(format!("cannot read folder {}: {error}", path.display()));
    }
    files.sort();
    if files.is_empty() {
        return Found::problem(format!(
            "folder {} holds no arm file (*.toml)",
            folder.display()
        ));
    }
    let mut all = Found::default();
    for file in &files {
        let found = read_file(file, name_of_in(file, folder));
        all.sources.extend(found.sources);
        all.problems.extend(found.problems);
    }
    all
}

/// Below a folder that is no part of an `arms` folder, the path below that folder is the name.
fn name_of_in(file: &Path, folder: &Path) -> String {
    if file.iter().any(|part| part == "arms") {
        return name_of(file);
    }
    let below = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    below.to_string_lossy().into_owned()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, std::io::Error)> {
    let at = |error| (folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_path_below_arms() {
        for (path, name) in [
            ("arms/arm-a.toml", "arm-a"),
            ("./arms/facts/capacity-0.toml", "facts/capacity-0"),
            ("/srv/lab/arms/cases/k01.toml", "cases/k01"),
            ("mine.toml", "mine"),
            ("/tmp/x/mine.toml", "mine"),
        ] {
            assert_eq!(name_of(Path::new(path)), name, "{path}");
        }
    }

    #[test]
    fn every_shipped_arm_is_whole() {
        let catalog = Catalog::new(Path::new("/nonexistent"));
        for source in catalog.all().unwrap() {
            for arm in source.arms(&[]).unwrap_or_else(|error| panic!("{error}")) {
                assert!(arm.why.len() > 40, "{}: why says too little", arm.name);
                assert!(
                    !arm.expect.bounds.is_empty(),
                    "{}: expects nothing",
                    arm.name
                );
                let written = toml::to_string(&arm).unwrap();
                let again: Arm = toml::from_str(&written).unwrap();
                assert_eq!(
                    Arm {
                        name: arm.name.clone(),
                        ..again
                    },
                    arm
                );
            }
        }
    }
}
