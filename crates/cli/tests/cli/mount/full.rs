//! Servers whose disk is full, met through a mount. The disk is a small one in memory, mounted in a mount namespace of
//! the test's own.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;

use super::{Mounted, can_mount, shell};
use crate::stand::Stand;

const TEST: &str = "mount::full::a_full_disk_is_an_error_of_the_write_that_it_stops";
const CHILD: &str = "CAUSEWAY_CLI_MOUNT_FULL_CHILD";

#[test]
fn a_full_disk_is_an_error_of_the_write_that_it_stops() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return child(Path::new(&directory));
    }
    if !can_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("A FULL DISK BEHIND A MOUNT IS NOT TESTED: that needs root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new("unshare")
        .arg("--mount")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CHILD, directory.path())
        .status()
        .expect("util-linux's unshare runs");
    assert!(status.success(), "in a mount namespace: {status}");
}

fn child(directory: &Path) {
    shell(directory, "mkdir dev; mount -t tmpfs -o size=96m none dev");
    let stand = Stand::with(&["--dir", directory.join("dev").to_str().unwrap()]);
    let mounted = Mounted::new(&stand);
    let kept = vec![3; 300_000];
    std::fs::write(mounted.at("kept"), &kept).unwrap();
    for _ in 0..2 {
        let mut file = File::create(mounted.at("filler")).unwrap();
        let mut written = 0;
        let error = loop {
            match file.write(&[7; 1 << 20]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
        drop(file);
        let content = std::fs::read(mounted.at("filler")).unwrap();
        assert!(written > 1 << 20 && content.len() >= written);
        assert!(content[..written].iter().all(|byte| *byte == 7));
        assert!(std::fs::read(mounted.at("kept")).unwrap() == kept);
        // The same amount fits again once the servers have removed the data.
        std::fs::remove_file(mounted.at("filler")).unwrap();
        crate::stand::until("there is room", || {
            std::fs::write(mounted.at("other"), vec![1; 8 << 20]).is_ok()
        });
    }
}
