//! The processes that hold a socket: its inode, looked for among the links below `/proc/PID/fd`.
//!
//! Several processes can hold the same listening socket: a master and its workers do.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, readlinkat};
use nix::sys::stat::Mode;

/// A process that holds sockets of interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// Its name (`comm`, at most 15 bytes); `None` when it ended meanwhile.
    pub name: Option<String>,
    /// Its open files.
    pub files_used: u64,
    /// Its soft limit on open files (`RLIMIT_NOFILE`); `None` for no limit, or when it cannot be read.
    pub files_allowed: Option<u64>,
}

/// Who holds which socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// The holders of each inode, by ascending process id.
    pub of: HashMap<u32, Vec<Owner>>,
    /// Processes whose files could not be seen, mostly for want of the right to.
    pub hidden: u32,
}

/// Looks for the holders of these inodes in every process that this one may look into.
///
/// # Errors
/// `/proc` cannot be listed.
pub fn find(inodes: &BTreeSet<u32>) -> io::Result<Owners> {
    let mut owners = Owners::default();
    let mut pids: Vec<u32> = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    for pid in pids {
        match held(pid, inodes) {
            Ok((found, _)) if found.is_empty() => {}
            Ok((found, files_used)) => {
                let owner = Owner {
                    pid,
                    name: name(pid),
                    files_used,
                    files_allowed: files_allowed(pid),
                };
                for inode in found {
                    owners.of.entry(inode).or_default().push(owner.clone());
                }
            }
            // It has ended meanwhile.
            Err(Errno::ENOENT | Errno::ESRCH) => {}
            Err(_) => owners.hidden += 1,
        }
    }
    Ok(owners)
}

/// How many files a process has open; `None` when it has ended or cannot be looked into.
pub fn files_used(pid: u32) -> Option<u64> {
    let (_, used) = held(pid, &BTreeSet::new()).ok()?;
    Some(used)
}

/// The inodes of interest that a process holds, and how many files it has open.
///
/// The links are read and not followed: a look at a file behind one could wait for a dead file server.
fn held(pid: u32, inodes: &BTreeSet<u32>) -> Result<(BTreeSet<u32>, u64), Errno> {
    let path = format!("/proc/{pid}/fd");
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listed = Dir::open(path.as_str(), flags, Mode::empty())?;
    let folder = open(path.as_str(), flags, Mode::empty())?;
    let (mut found, mut files) = (BTreeSet::new(), 0);
    for entry in listed.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        files += 1;
        if inodes.is_empty() {
            continue;
        }
        match readlinkat(&folder, name) {
            Ok(link) => {
                let inode = socket_inode(link.as_encoded_bytes());
                found.extend(inode.filter(|inode| inodes.contains(inode)));
            }
            // It was closed meanwhile.
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok((found, files))
}

/// `socket:[4711]`.
fn socket_inode(link: &[u8]) -> Option<u32> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn name(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

fn files_allowed(pid: u32) -> Option<u64> {
    parse_files_allowed(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

/// The soft limit of `Max open files` in `/proc/PID/limits` (proc(5)).
fn parse_files_allowed(text: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_a_socket_or_something_else() {
        assert_eq!(socket_inode(b"socket:[4711]"), Some(4711));
        for other in [
            &b"pipe:[4711]"[..],
            b"/tmp/socket:[1]",
            b"socket:[]",
            b"socket:[12",
            b"",
        ] {
            assert_eq!(socket_inode(other), None);
        }
    }

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             7                    8                    processes \n\
                    Max open files            64                   524288               files     \n";
        assert_eq!(parse_files_allowed(text), Some(64));
        assert_eq!(
            parse_files_allowed("Max open files            unlimited            unlimited\n"),
            None
        );
        assert_eq!(parse_files_allowed(""), None);
    }

    #[test]
    fn this_process_holds_its_own_listener() {
        use std::os::fd::AsRawFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = socket_inode(link.as_os_str().as_encoded_bytes()).unwrap();
        let owners = find(&BTreeSet::from([inode])).unwrap();
        let [owner] = owners.of[&inode].as_slice() else {
            panic!("{owners:?}")
        };
        assert_eq!(owner.pid, std::process::id());
        assert!(
            owner.files_used > 3
                && owner
                    .files_allowed
                    .is_none_or(|allowed| allowed >= owner.files_used)
        );
    }
}
