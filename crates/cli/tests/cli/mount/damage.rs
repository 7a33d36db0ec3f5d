//! Damage of the metadata, as programs on a mount meet it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use causeway_fs::meta::store::fjall::Fjall;
use causeway_fs::meta::store::{Batch, Persist, Store};
use causeway_wire::fs::ObjectId;
use causeway_wire::store::object_key;

use super::{Mounted, can_mount};
use crate::stand::Stand;

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A listing asks for all objects at once: one that is damaged keeps nobody from the others, nor from its own name.
#[test]
fn a_directory_with_a_damaged_object_can_be_listed() {
    if !can_mount() {
        return;
    }
    let mut stand = Stand::new();
    let mounted = Mounted::new(&stand);
    fs::create_dir(mounted.at("d")).unwrap();
    for name in ["d/a", "d/b", "d/c"] {
        fs::write(mounted.at(name), name).unwrap();
    }
    let damaged = ObjectId(fs::metadata(mounted.at("d/b")).unwrap().ino());
    drop(mounted);
    let directory = stand.config.with_file_name("meta").join("metadata");
    stand.start_again(None, |text| {
        let store = Fjall::open(&directory).unwrap();
        let batch = Batch::from([(object_key(damaged), Some(vec![0xff]))]);
        store.commit(&batch, Persist::Power).unwrap();
        text.to_owned()
    });
    let options: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["-o", "allow_other"],
        false => &[],
    };
    let mounted = Mounted::with(&stand, &stand.config, options);
    assert_eq!(names(&mounted.at("d")), ["a", "b", "c"]);
    assert!(fs::metadata(mounted.at("d/b")).is_err());
    assert_eq!(fs::read(mounted.at("d/c")).unwrap(), b"d/c");
    if options.is_empty() {
        eprintln!("A USER WHO MAY ONLY LIST THE DIRECTORY IS NOT TESTED: that needs root");
        return;
    }
    for (path, mode) in [(mounted.path(), 0o755), (&mounted.at("d"), 0o744)] {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let list = Command::new("setpriv")
        .args(["--reuid=1001", "--regid=1001", "--clear-groups", "ls", "-f"])
        .arg(mounted.at("d"))
        .output()
        .expect("util-linux's setpriv runs");
    let listed = String::from_utf8_lossy(&list.stdout);
    assert!(
        list.status.success() && listed.lines().count() == 5,
        "{list:?}"
    );
}
