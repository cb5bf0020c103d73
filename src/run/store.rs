//! A run's folder: the manifest, one file per observation, and whatever is derived from them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::manifest::Manifest;
use crate::observation::{Observation, SCHEMA_VERSION};
use crate::plan::Plan;

/// A run folder that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} is no {what} of this lab: {problem}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// What a new run was to fill is no empty folder.
    #[error("{} is no empty folder; name another one with --out", path.display())]
    NotFree {
        /// The folder.
        path: PathBuf,
    },
    /// Where runs are kept by default, none can be made.
    #[error("cannot make a run's folder below {}: {source}; name another one with -o DIR", path.display())]
    NoPlace {
        /// The folder of the runs, from the root.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such run.
    #[error("there is no run {name}: {looked} (runs are made by `backlog-lab run`)")]
    NoRun {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        looked: String,
    },
}

const MANIFEST: &str = "manifest.json";
const OBSERVATIONS: &str = "observations";
const CAPTURES: &str = "captures";

/// An open run folder.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes a run's folder and writes its manifest.
    ///
    /// # Errors
    /// The folder is in use or cannot be written.
    pub fn create(path: &Path, manifest: &Manifest) -> Result<Self, StoreError> {
        let is_free = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !is_free {
            return Err(StoreError::NotFree {
                path: path.to_owned(),
            });
        }
        let folder = Self {
            path: path.to_owned(),
        };
        make_folder(path)?;
        make_folder(&path.join(OBSERVATIONS))?;
        folder.describe(manifest)?;
        Ok(folder)
    }

    /// Writes the manifest, also of a run whose plan has grown.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn describe(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let file = self.path.join(MANIFEST);
        let bytes = serde_json::to_vec_pretty(manifest);
        write_atomically(&file, &bytes.map_err(|error| written(&file)(error.into()))?)
    }

    /// Makes the folder of a run below `reports`, named by its id. Where another run has that id already, this
    /// one gets a number behind it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create_below(
        reports: &Path,
        manifest: Manifest,
    ) -> Result<(Self, Manifest), StoreError> {
        Self::numbered(reports, manifest).map_err(|error| match error {
            StoreError::Write { source, .. } => StoreError::NoPlace {
                path: from_the_root(reports),
                source,
            },
            other => other,
        })
    }

    fn numbered(reports: &Path, mut manifest: Manifest) -> Result<(Self, Manifest), StoreError> {
        make_folder(reports)?;
        let id = manifest.run_id.clone();
        for number in 2.. {
            let path = reports.join(&manifest.run_id);
            match fs::create_dir(&path) {
                Ok(()) => {
                    give_to_caller(&path).map_err(written(&path))?;
                    return Ok((Self::create(&path, &manifest)?, manifest));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    manifest.run_id = format!("{id}-{number}");
                }
                Err(error) => return Err(written(&path)(error)),
            }
        }
        unreachable!("the loop has no end but by return")
    }

    /// Lets `latest` beside the folder point at it.
    ///
    /// # Errors
    /// The link cannot be made.
    pub fn link_as_latest(&self) -> Result<(), StoreError> {
        let (Some(reports), Some(id)) = (self.path.parent(), self.path.file_name()) else {
            return Ok(());
        };
        let link = reports.join(LATEST);
        let temporary = reports.join(format!("{LATEST}.{}.tmp", std::process::id()));
        let result = symlink(id, &temporary)
            .and_then(|()| give_to_caller(&temporary))
            .and_then(|()| fs::rename(&temporary, &link));
        result.map_err(|error| {
            let _ = fs::remove_file(&temporary);
            written(&link)(error)
        })
    }

    /// Opens a run's folder.
    ///
    /// # Errors
    /// Its manifest cannot be read, or is of a schema that this program does not know.
    pub fn open(path: &Path) -> Result<(Self, Manifest), StoreError> {
        let manifest: Manifest = read_json(&path.join(MANIFEST), "manifest")?;
        let mut manifest = manifest;
        for arm in &mut manifest.plan.arms {
            arm.settings.name.clone_from(&arm.name);
        }
        Ok((
            Self {
                path: path.to_owned(),
            },
            manifest,
        ))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores an observation; after that it is safe. A capture goes to a file of its own and leaves the observation.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn store(&self, observation: &mut Observation) -> Result<(), StoreError> {
        let wire = observation
            .measured
            .as_mut()
            .and_then(|measured| measured.wire.as_mut());
        let capture = wire
            .map(|wire| std::mem::take(&mut wire.capture))
            .filter(|bytes| !bytes.is_empty());
        if let Some(capture) = capture {
            let stem = Plan::file_stem(&observation.arm, observation.index);
            self.write(&format!("{CAPTURES}/{stem}.pcapng"), &capture)?;
        }
        let path = self.file_of(&observation.arm, observation.index);
        let bytes =
            serde_json::to_vec(observation).map_err(|error| written(&path)(error.into()))?;
        write_atomically(&path, &bytes)
    }

    /// The stored observations of a plan, by arm and trial; those that do not exist are left out.
    ///
    /// # Errors
    /// One cannot be read, or is of a schema that this program does not know.
    pub fn observations(&self, plan: &Plan) -> Result<Vec<Observation>, StoreError> {
        let mut found = Vec::new();
        for arm in &plan.arms {
            for index in 0..plan.trials_of(arm) {
                let path = self.file_of(&arm.name, index);
                if path.exists() {
                    found.push(read_json(&path, "observation")?);
                }
            }
        }
        Ok(found)
    }

    /// Writes a derived file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            make_folder(parent)?;
        }
        write_atomically(&path, bytes)
    }

    fn file_of(&self, arm: &str, index: u32) -> PathBuf {
        let name = format!("{}.json", Plan::file_stem(arm, index));
        self.path.join(OBSERVATIONS).join(name)
    }
}

const LATEST: &str = "latest";

/// The folder of a run: a path, an id below `reports`, or `latest`.
///
/// # Errors
/// There is none.
pub fn find_run(reports: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let candidates = [PathBuf::from(name), reports.join(name)];
    let found = candidates.iter().find(|path| path.join(MANIFEST).is_file());
    found.cloned().ok_or_else(|| StoreError::NoRun {
        name: name.to_owned(),
        looked: candidates
            .iter()
            .map(|path| format!("no {}", path.join(MANIFEST).display()))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

fn written(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::Write {
        path: from_the_root(path),
        source,
    }
}

/// The whole path, for somebody who does not know the current folder; as it is where there is none.
fn from_the_root(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn make_folder(path: &Path) -> Result<(), StoreError> {
    let missing: Vec<&Path> = path.ancestors().take_while(|part| !part.exists()).collect();
    let failed = written(path);
    fs::create_dir_all(path).map_err(&failed)?;
    missing
        .into_iter()
        .filter(|part| part.exists())
        .try_for_each(give_to_caller)
        .map_err(failed)
}

/// Writes a file so that it is either whole or not there; an unfinished temporary file is removed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let result = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| give_to_caller(&temporary))
        .and_then(|()| fs::rename(&temporary, path));
    result.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        written(path)(source)
    })
}

/// Under sudo, what the lab writes belongs to the user who called it.
fn give_to_caller(path: &Path) -> io::Result<()> {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    match (id("SUDO_UID"), id("SUDO_GID")) {
        (Some(uid), Some(gid)) => lchown(path, Some(uid), Some(gid)),
        _ => Ok(()),
    }
}

/// Reads a stored document; an unknown schema is refused by its version before anything else is looked at.
fn read_json<T: for<'de> Deserialize<'de>>(
    path: &Path,
    what: &'static str,
) -> Result<T, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    let bytes = fs::read(path).map_err(|source| StoreError::Read {
        path: path.to_owned(),
        source,
    })?;
    let foreign = |problem: String| StoreError::Foreign {
        path: path.to_owned(),
        what,
        problem,
    };
    let version: Version =
        serde_json::from_slice(&bytes).map_err(|error| foreign(error.to_string()))?;
    if version.schema_version != SCHEMA_VERSION {
        return Err(foreign(format!(
            "its schema is version {}, this program reads version {SCHEMA_VERSION}",
            version.schema_version
        )));
    }
    serde_json::from_slice(&bytes).map_err(|error| foreign(error.to_string()))
}
