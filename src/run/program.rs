//! A program of an arm, started with what it finds around it: a folder of its own, its files, its variables.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use super::TrialError;
use crate::arm::ProgramSpec;
use crate::netns::{Ended, Kept, Launch, Namespace, Output, Program};

/// A program that runs, with its folder.
pub(super) struct Started {
    /// The program; it ends before its folder does.
    pub(super) program: Program,
    _folder: Option<Folder>,
}

impl Started {
    /// Starts the program of an arm in a namespace; what it prints is kept.
    ///
    /// # Errors
    /// The arm is skipped where the program is missing, with what to install; anything else is a failure.
    pub(super) fn new(namespace: &Namespace, spec: &ProgramSpec) -> Result<Self, TrialError> {
        if let Some(program) = spec.command.first()
            && !is_there(program)
        {
            return Err(missing(program, spec.package.as_deref()));
        }
        let folder = match &spec.directory {
            Some(_) => None,
            None => Some(Folder::with(spec).map_err(|error| {
                TrialError::failed(format!("cannot make a folder for the program: {error}"))
            })?),
        };
        let left_behind = folder.as_ref().map(|folder| folder.0.clone());
        let launch = Launch {
            command: spec.command.iter().map(Into::into).collect(),
            directory: spec
                .directory
                .as_ref()
                .map(PathBuf::from)
                .or_else(|| left_behind.clone()),
            left_behind,
            environment: spec.environment.clone(),
            open_files: spec.nofile,
            output: Output::Kept,
        };
        Ok(Self {
            program: Program::start(namespace, launch)?,
            _folder: folder,
        })
    }
}

/// What to do where a program is missing: install its Debian package, or run the command that installs it.
fn missing(program: &str, package: Option<&str>) -> TrialError {
    TrialError::Skipped(match package {
        Some(command) if command.contains(' ') => {
            format!("{program} is not installed here: run `{command}`")
        }
        Some(package) => {
            format!("{program} is not installed here: run `apt-get install {package}`, or the like")
        }
        None => format!("{program} is not installed here"),
    })
}

/// Why a program has ended that is a shell, or a script, and did not find what it was to start; `None` where that is
/// not why, or where nobody can say what to install.
pub(super) fn missing_below(
    name: &str,
    status: ExitStatus,
    package: Option<&str>,
) -> Option<TrialError> {
    const SHELL_FOUND_NO_COMMAND: i32 = 127;
    package
        .filter(|_| status.code() == Some(SHELL_FOUND_NO_COMMAND))
        .map(|package| missing(&format!("what {name} was to start"), Some(package)))
}

/// Whether a program can be found as execvp(3) does: a path as it is, a name in the folders of PATH.
fn is_there(program: &str) -> bool {
    let is_executable = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
}

/// The last words of a program for a message, if it has said anything.
pub(super) fn last_words(ended: &Ended) -> String {
    let line = |kept: &Kept| kept.last_line();
    match line(&ended.stderr).or_else(|| line(&ended.stdout)) {
        Some(line) => format!("; its last words: {line}"),
        None => String::new(),
    }
}

/// A folder of a trial's own, which vanishes with it. It can be read by the users that a program changes to.
struct Folder(PathBuf);

impl Folder {
    /// Makes a fresh one with the files of a program.
    fn with(spec: &ProgramSpec) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("backlog-lab.{}.{number}", process::id());
            let path = env::temp_dir().join(name);
            // A folder that is there already is somebody else's.
            match fs::create_dir(&path) {
                Ok(()) => break Self(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755))?;
        for (name, text) in &spec.files {
            let path = folder.0.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays among the temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
