//! Test suites that others wrote for any file system, in `make test-mount`: `tools/mount-suites` installs them.

use super::{Mounted, can_mount, enter_namespace, is_long, shell};
use crate::stand::Stand;

/// The directory of the installed suites.
fn suites() -> Option<String> {
    is_long().then(|| std::env::var("CAUSEWAY_MOUNT_SUITES").expect("make test-mount sets it"))
}

/// pjdfstest checks what each system call of POSIX changes, refuses and leaves as it is, as root and as other users: on one mount, and then on two
/// of them at the same time, which also work in one directory.
#[test]
fn system_calls_do_what_posix_says() {
    let Some(suites) = suites().filter(|_| can_mount()) else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("THE SUITE OF SYSTEM CALLS IS LEFT OUT: only root can become other users");
        return;
    }
    if !enter_namespace("mount::suites::system_calls_do_what_posix_says") {
        return;
    }
    let stand = Stand::new();
    let options = ["-o", "allow_other,suid,dev"];
    let mounts = [(); 2].map(|()| Mounted::with(&stand, &stand.config, &options));
    shell(mounts[0].path(), "mkdir one other; chmod 777 one other");
    let elsewhere = tempfile::tempdir().unwrap();
    shell(
        elsewhere.path(),
        "chmod 755 .; mkdir second; chmod 777 second; cat >settings <<END
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
[dummy_auth]
entries = [ [\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"] ]
END",
    );
    let run = |at: &str| {
        let said = shell(
            elsewhere.path(),
            &format!("{suites}/pjdfstest -c settings -s second -p {at} 2>&1"),
        );
        let summary = said.lines().last().unwrap_or_default();
        // Left out are read-only mounts, and the number of links that is too high, which there is not.
        assert!(
            summary.starts_with("Summary: 0 failed, 14 skipped, 384 passed"),
            "{said}"
        );
    };
    let [one, other] = [0, 1].map(|at: usize| mounts[at].path().display());
    run(&format!("{one}/one"));
    std::thread::scope(|scope| {
        scope.spawn(|| run(&format!("{one}/one")));
        scope.spawn(|| run(&format!("{other}/one")));
        run(&format!("{other}/other"));
    });
    assert_eq!(
        shell(mounts[0].path(), "ls -A one other"),
        "one:\n\nother:\n"
    );
}

/// fsx reads, writes, maps, cuts, copies and punches holes into one file, and compares it with what it has written, for small files and large ones,
/// of seeds that differ from day to day.
#[test]
fn random_operations_leave_a_file_as_they_should() {
    let Some(suites) = suites().filter(|_| can_mount()) else {
        return;
    };
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    let elsewhere = tempfile::tempdir().unwrap();
    let weights = "close_open = 2\ninvalidate = 1\nread = 10\nwrite = 10\nmapread = 10\nmapwrite = 10\ntruncate = 2\nfsync = 1
fdatasync = 1\npunch_hole = 2\nposix_fallocate = 1\nsendfile = 1\nposix_fadvise = 1\ncopy_file_range = 3";
    for (length, largest, operations) in
        [(1_000_000, 65_536, 5_000), (70_000_000, 3_000_000, 1_000)]
    {
        for round in 0..4 {
            let script = format!(
                "cat >settings <<END
flen = {length}
[opsize]
max = {largest}
align = 1
[weights]
{weights}
END
                 seed=$(($(date +%s) / 86400 * 10 + {round})); echo seed $seed
                 {suites}/fsx -f settings -N {operations} -S $seed -P . {}/file 2>&1; rm {0}/file",
                mounted.path().display()
            );
            shell(elsewhere.path(), &script);
        }
    }
}
