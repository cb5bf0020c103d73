//! The corpus of the fuzz targets, replayed: seeds, and every case that once broke something.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/bodies.rs"]
mod bodies;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("a corpus").flatten() {
        body(&fs::read(entry.path()).expect("a file"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn counters() {
    replay("counters", bodies::counters);
}

#[test]
fn sock_diag() {
    replay("sock_diag", bodies::sock_diag);
}

#[test]
fn arm() {
    replay("arm", bodies::arm);
}

#[test]
fn observation() {
    replay("observation", bodies::observation);
}
