//! Access control lists: programs of several users get from a mount what they get from the local file system.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::{Mounted, can_mount, shell};
use crate::stand::Stand;

/// Prints the results of a random sequence of operations in a directory, which is empty before and
/// afterwards.
const STEPS: &str = include_str!("acl_steps.py");
/// Operations of one sequence.
const COUNT: &str = "400";

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("ACCESS CONTROL LISTS OF SEVERAL USERS ARE NOT TESTED: that needs root");
    }
    root
}

fn mounted_for_all(stand: &Stand) -> Mounted {
    let mounted = Mounted::with(stand, &stand.config, &["-o", "allow_other"]);
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(mounted.path(), all).unwrap();
    mounted
}

fn steps(directory: &Path, seed: &str) -> Vec<String> {
    std::fs::create_dir(directory).unwrap();
    let output = Command::new("python3")
        .args(["-c", STEPS])
        .arg(directory)
        .args([seed, COUNT])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    std::fs::remove_dir_all(directory).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Whether a script of a user's succeeds in a mount.
fn may(mounted: &Mounted, user: u32, groups: &str, script: &str) -> bool {
    let status = Command::new("setpriv")
        .args([&format!("--reuid={user}"), &format!("--regid={user}")])
        .arg(format!("--groups={groups}"))
        .args(["sh", "-ec", script])
        .current_dir(mounted.path())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    status.success()
}

#[test]
fn users_may_on_a_mount_what_they_may_on_the_local_file_system() {
    if !can_mount() || !is_root() {
        return;
    }
    let stand = Stand::new();
    let mounted = mounted_for_all(&stand);
    let local = tempfile::tempdir().unwrap();
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(local.path(), all).unwrap();
    for seed in ["1", "2", "3"] {
        let expected = steps(&local.path().join("d"), seed);
        assert!(
            !expected.iter().any(|line| line.ends_with("EOPNOTSUPP")),
            "the file system of {} has no access control lists: set TMPDIR to one that has",
            local.path().display()
        );
        let found = steps(&mounted.at("d"), seed);
        let differ = (0..found.len()).find(|&at| found.get(at) != expected.get(at));
        if let Some(at) = differ {
            let history = expected[..at.min(expected.len())].join("\n");
            let (found, expected) = (found.get(at), expected.get(at));
            panic!("seed {seed}: {found:?} instead of {expected:?} behind\n{history}");
        }
        assert_eq!(found.len(), expected.len());
    }
}

#[test]
fn programs_set_show_and_copy_lists_and_other_mounts_go_by_them_at_once() {
    if !can_mount() || !is_root() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (mounted_for_all(&stand), mounted_for_all(&stand));
    // Large enough for datafiles: I/O servers apply the list as well.
    shell(
        one.path(),
        "head -c 100000 /dev/zero >file; chown 4001:4001 file; chmod 640 file; mkdir d
         setfacl -m u:4002:rw,g:4105:r file; setfacl -d -m u:4002:rwx,o::- d",
    );
    let said = shell(
        other.path(),
        "getfacl -cn file; ls -l file | cut -c 1-11; getfacl -cnd d",
    );
    assert_eq!(
        said,
        "user::rw-\nuser:4002:rw-\ngroup::r--\ngroup:4105:r--\nmask::rw-\nother::---\n\n-rw-rw----+\n\
         user::rwx\nuser:4002:rwx\ngroup::r-x\nmask::rwx\nother::---\n\n"
    );
    let (reads, writes) = (
        "cat file >/dev/null",
        "echo x | dd of=file conv=notrunc bs=1",
    );
    for mounted in [&one, &other] {
        assert!(may(mounted, 4002, "4002", reads) && may(mounted, 4002, "4002", writes));
        assert!(may(mounted, 4003, "4105", reads) && !may(mounted, 4003, "4105", writes));
        assert!(!may(mounted, 4003, "4003", reads));
    }
    // The mask, and with it the named user's rights, by a change of the mode on the other mount.
    shell(one.path(), "chmod g-w file");
    assert!(may(&other, 4002, "4002", reads) && !may(&other, 4002, "4002", writes));
    shell(other.path(), "setfacl -x u:4002 file");
    assert!(!may(&one, 4002, "4002", reads) && may(&one, 4003, "4105", reads));
    // What is made in the directory has its list, whatever the umask.
    shell(one.path(), "umask 077; echo x >d/file; mkdir d/below");
    let said = shell(
        other.path(),
        "stat -c %a d/file d/below; getfacl -cnE d/file",
    );
    assert_eq!(
        said,
        "660\n770\nuser::rw-\nuser:4002:rwx\ngroup::r-x\nmask::rw-\nother::---\n\n"
    );
    assert!(may(&other, 4002, "4002", "echo y >>d/file"));
    // The longest list.
    let said = shell(
        one.path(),
        "echo x >long; chmod 600 long; seq 5000 5506 | sed 's/.*/u:&:r/' | setfacl -M - long; getfacl -cn long | grep -c ^user:5",
    );
    assert_eq!(said, "507\n");
    assert!(may(&other, 5506, "5506", "cat long"));
    assert!(!may(&other, 5507, "5507", "cat long"));
    // Copies have the same lists.
    let said = shell(
        other.path(),
        "cp -pr d copy; tar --acls -cf - d | (mkdir unpacked; tar --acls -xf - -C unpacked)
         getfacl -Rn d >/tmp/$$; (getfacl -Rn copy | sed 's/file: copy/file: d/') | diff - /tmp/$$
         (cd unpacked; getfacl -Rn d) | diff - /tmp/$$; rm /tmp/$$; setfacl -bR d; getfacl -cn d/file",
    );
    assert_eq!(said, "user::rw-\ngroup::r--\nother::---\n\n");
}

/// Names, attributes and lists are cached where the access is decided.
#[test]
fn access_is_decided_by_what_another_mount_has_just_changed() {
    if !can_mount() || !is_root() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (mounted_for_all(&stand), mounted_for_all(&stand));
    shell(
        one.path(),
        "mkdir d; echo x >d/file; chmod 711 d; chmod 640 d/file",
    );
    let reads = |mounted| may(mounted, 4002, "4002", "cat d/file >/dev/null");
    // What the one does, and whether the user may read the file through the other from then on.
    let steps = [
        ("setfacl -m u:4002:r d/file", true),
        ("chmod 700 d", false),
        ("setfacl -m u:4002:x d", true),
        ("setfacl -m m::- d/file", false),
        ("chmod 640 d/file", true),
        ("setfacl -m u:4002:- d", false),
        ("setfacl -b d", false),
        ("chmod 711 d", true),
        ("setfacl -b d/file; chmod 600 d/file", false),
        ("chown 4002 d/file", true),
        (
            "mv d/file d/elsewhere; echo y >d/file; chmod 600 d/file",
            false,
        ),
        ("mv d/elsewhere d/file", true),
    ];
    let mut may_read = false;
    for round in 0..2 {
        for (change, may_then) in steps {
            for _ in 0..3 {
                assert_eq!(reads(&other), may_read, "before {change}, round {round}");
            }
            shell(one.path(), change);
            may_read = may_then;
            assert_eq!(reads(&other), may_read, "after {change}, round {round}");
            assert_eq!(reads(&one), may_read, "after {change}, on the same mount");
        }
        shell(one.path(), "chown 0 d/file; chmod 640 d/file");
        may_read = false;
    }
}
