//! Reading a sysctl's file: to its end, and never a number that is not in it.

use std::fs;

use backlog_lab::netns::read_sysctl_file;

#[test]
fn values_with_and_without_a_line_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("value");
    for (text, value) in [
        ("4096\n", "4096"),
        ("4096", "4096"),
        ("4096\t131072\t6291456\n", "4096\t131072\t6291456"),
    ] {
        fs::write(&path, text).expect("a file");
        assert_eq!(read_sysctl_file(&path).expect("a value"), value);
    }
}

#[test]
fn an_empty_or_missing_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("somaxconn");
    let error = read_sysctl_file(&path).unwrap_err().to_string();
    assert!(error.contains("somaxconn"), "{error}");
    fs::write(&path, "").expect("a file");
    let error = read_sysctl_file(&path).unwrap_err().to_string();
    assert!(
        error.contains("somaxconn") && error.contains("empty"),
        "{error}"
    );
    fs::write(&path, [0xff, 0xfe]).expect("a file");
    assert!(read_sysctl_file(&path).is_err());
}

/// The proc filesystem claims a size of 0: the reader must not believe it.
#[test]
fn a_real_sysctl_has_a_value_and_no_size() {
    let path = std::path::Path::new("/proc/sys/net/core/somaxconn");
    assert_eq!(fs::metadata(path).expect("it exists").len(), 0);
    let value = read_sysctl_file(path).expect("a value");
    assert!(value.parse::<u32>().is_ok(), "{value}");
}
