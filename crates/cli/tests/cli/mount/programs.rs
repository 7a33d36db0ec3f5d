//! Programs that people use.

use super::{Mounted, can_mount, shell};
use crate::stand::Stand;

/// A tree to work on: of this repository, so that it has files of all sizes.
const TREE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn trees_are_packed_copied_and_kept_under_version_control() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let here = one.path();
    shell(
        here,
        &format!(
            "tar cf - -C {TREE} src tests | tar xf -; diff -r {TREE}/src src; diff -r {TREE}/tests tests"
        ),
    );
    shell(
        here,
        "git init -q repository; cd repository; cp -r ../src .; git add .; git commit -qm one;
         git mv src/main.rs src/moved.rs; echo more >>src/moved.rs; git commit -qam two",
    );
    // Another mount sees a repository that is whole.
    let said = shell(
        other.path(),
        "cd repository; git status --porcelain; git fsck 2>&1; git log --oneline | wc -l;
         git clone -q . ../clone; diff -r src ../clone/src",
    );
    assert_eq!(said.trim(), "2");
    shell(
        other.path(),
        "rsync -a src/ copy/; rm copy/main.rs; echo changed >copy/info.rs;
         rsync -a --checksum --delete src/ copy/; diff -r src copy",
    );
    shell(
        here,
        "diff -r src copy; rm -r src tests repository clone copy",
    );
    assert_eq!(shell(other.path(), "ls -A"), "");
}

#[test]
fn programs_are_built_and_run_there() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    shell(
        mounted.path(),
        &format!(
            "{} new --quiet --vcs none hello; cd hello; {0} build --quiet --offline; {0} run --quiet --offline",
            env!("CARGO")
        ),
    );
}

#[test]
fn databases_keep_their_data_in_both_modes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mut mounted = Mounted::new(&stand);
    for mode in ["delete", "wal"] {
        let said = shell(
            mounted.path(),
            &format!(
                "sqlite3 {mode}.db 'pragma journal_mode={mode}; create table t(a, b);
                 insert into t select value, hex(randomblob(200)) from generate_series(1, 5000);
                 update t set b = upper(b) where a % 7 = 0; delete from t where a % 5 = 0;'"
            ),
        );
        assert_eq!(said.trim(), mode);
    }
    mounted.unmount();
    let again = Mounted::new(&stand);
    for mode in ["delete", "wal"] {
        let said = shell(
            again.path(),
            &format!("sqlite3 {mode}.db 'pragma integrity_check; select count(*), sum(a) from t'"),
        );
        assert_eq!(said.trim(), "ok\n4000|10000000");
    }
}

#[test]
fn written_bytes_are_read_back_by_every_kind_of_access() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    let verify = "--verify=crc32c --do_verify=1 --verify_fatal=1 --size=8m --output=/dev/null";
    for access in [
        "--rw=write --bs=1m --ioengine=psync",
        "--rw=randwrite --bs=4k --ioengine=psync --fsync=256",
        "--rw=randrw --bs=12k --ioengine=mmap --verify_backlog=64",
        "--rw=randwrite --bs=16k --ioengine=psync --direct=1",
    ] {
        shell(
            mounted.path(),
            &format!("fio --name=verify --directory=. {access} {verify}; rm verify*"),
        );
    }
    shell(
        mounted.path(),
        "dd if=/dev/urandom of=a bs=1000k count=20 2>/dev/null; dd if=a of=b bs=77777 2>/dev/null; cmp a b
         dd if=a of=c bs=4k seek=1000 count=10 conv=notrunc,fsync 2>/dev/null; test $(stat -c %s c) = 4136960
         cmp -n 4096000 c /dev/zero
         cp a d; truncate -s 12345 d; cmp -n 12345 a d; test $(stat -c %s d) = 12345",
    );
}
