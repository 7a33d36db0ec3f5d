//! `mount -t causeway` and lines of fstab, by the script that mount(8) runs.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Mounted, can_mount, enter_namespace, is_mounted, shell};
use crate::stand::{Run, Stand};

/// The script that mount(8) runs.
const HELPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/mount.causeway");

#[test]
fn the_helper_of_mount_mounts() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let directory = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_causeway")).parent().unwrap();
    let places = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let run = |options: &[&str]| {
        Command::new("sh")
            .arg(HELPER)
            .args([&stand.config, directory.path()])
            .args(options)
            .env("PATH", &places)
            .stdout(Stdio::null())
            .status()
            .unwrap()
    };
    assert!(run(&["-f"]).success() && !is_mounted(directory.path()));
    assert!(run(&["-s", "-o", "rw,noatime,_netdev"]).success());
    assert!(is_mounted(directory.path()));
    std::fs::write(directory.path().join("file"), "").unwrap();
    Run::new(
        Path::new("/"),
        &["fs", "umount", directory.path().to_str().unwrap()],
    )
    .ok();
    assert!(!run(&["-o", "bogus"]).success());
}

/// mount(8) itself looks for the script in `/sbin`, so a directory with nothing else takes its place in the test's own mount namespace. It
/// searches for no programs where its caller does.
#[test]
fn mount_and_umount_know_the_type_and_lines_of_fstab() {
    if !can_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("MOUNT(8) IS NOT TESTED: that needs root");
        return;
    }
    if !enter_namespace("mount::helper::mount_and_umount_know_the_type_and_lines_of_fstab") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let stand = Stand::new();
    let config = stand.config.display();
    shell(
        directory.path(),
        &format!(
            "mkdir sbin one; cp {HELPER} sbin/mount.causeway; chmod 755 sbin/mount.causeway; ln -s {} sbin/causeway
             echo '{config} {}/one causeway ro,noatime,_netdev 0 0' >fstab
             for at in $(readlink -f /sbin /usr/sbin | sort -u); do mount --bind sbin $at; done",
            env!("CARGO_BIN_EXE_causeway"),
            directory.path().display()
        ),
    );
    let run = |script: &str| shell(directory.path(), script);
    let at = directory.path().join("one");
    run(&format!(
        "mount -t causeway -o noatime {config} one; echo x >one/file"
    ));
    assert!(is_mounted(&at));
    let other = Mounted::new(&stand);
    assert_eq!(std::fs::read(other.at("file")).unwrap(), b"x\n");
    run("umount one");
    assert!(!is_mounted(&at));
    run(
        "mount --fstab ./fstab $PWD/one; test $(cat one/file) = x; ! touch one/file 2>/dev/null; umount one",
    );
    assert!(!is_mounted(&at));
    // What is wrong is said by mount(8)'s status.
    run(&format!(
        "! mount -t causeway -o bogus {config} one 2>/dev/null; ! mount -t causeway ./missing one 2>/dev/null"
    ));
}
