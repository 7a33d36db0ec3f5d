//! A metadata server whose disk is full. The disk is a small one in memory, mounted in a mount namespace of the
//! test's own, so that nothing is left behind however it ends.

use std::path::Path;
use std::process::Command;

use super::stand::Stand;

const TEST: &str = "full::a_full_metadata_disk_recovers_by_removing_without_a_restart";
const CHILD: &str = "CAUSEWAY_CLI_FULL_CHILD";
/// The smallest disk that metadata are made on.
const DISK: &str = "size=16m";
/// More files than fit, of as many bytes as are stored beside the metadata.
const FILES: usize = 600;
const FILE_BYTES: usize = 16 << 10;

#[test]
fn a_full_metadata_disk_recovers_by_removing_without_a_restart() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return child(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let status = command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CHILD, directory.path())
        .status()
        .expect("util-linux's unshare runs");
    assert!(status.success(), "in a mount namespace: {status}");
}

fn mount(disk: &Path, size: &str) {
    std::fs::create_dir_all(disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", size, "none"])
        .arg(disk)
        .status()
        .unwrap();
    assert!(mounted.success());
}

fn child(directory: &Path) {
    let disk = directory.join("dev/meta");
    mount(&disk, DISK);
    let stand = Stand::with(&["--dir", directory.join("dev").to_str().unwrap()]);
    let here = stand.directory.path();
    std::fs::create_dir(here.join("many")).unwrap();
    for number in 0..FILES {
        std::fs::write(here.join(format!("many/f{number}")), [7; FILE_BYTES]).unwrap();
    }
    std::fs::write(here.join("one"), [8; FILE_BYTES]).unwrap();
    stand.fs(&["mkdir", "/kept"]).ok();
    stand.fs(&["put", "one", "/kept/one"]).ok();

    for round in 0..3 {
        let said = stand.fs(&["put", "many", "/"]).fails(1);
        let disk = disk.to_str().unwrap();
        for part in [disk, "remove files", "causeway fs df"] {
            assert!(said.contains(part), "round {round}: {said}");
        }
        // Until even short changes are refused.
        let refused = (0..FILES).find(|number| {
            let left = stand
                .fs(&["put", "one", &format!("/many/one{number}")])
                .left();
            left.code == Some(1) && left.err.contains(disk)
        });
        assert!(refused.is_some(), "round {round}: the disk is never full");
        assert!(stand.fs(&["cat", "/kept/one"]).ok() == [8; FILE_BYTES]);
        stand.fs(&["rm", "-r", "/many"]).ok();
        stand.fs(&["put", "one", &format!("/again{round}")]).ok();
    }
    stand.fs(&["fsck"]).ok();
}
