//! Programs that people use.

use super::{Mounted, can_mount, is_long, shell};
use crate::stand::Stand;

/// A tree to work on: of this repository, so that it has files of all sizes.
const TREE: &str = env!("CARGO_MANIFEST_DIR");

/// All trees of this repository's rooms: some 1,500 files.
const ROOMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

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

/// A larger tree in `make test-mount`. Version control compares names, times and sizes with what it remembers, so that a mount that changes
/// one of them by itself shows.
#[test]
fn a_clone_of_a_large_tree_is_clean_on_every_mount() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let tree = if is_long() { ROOMS } else { TREE };
    shell(
        one.path(),
        &format!(
            "git init -q origin; tar cf - -C {tree} --exclude=target . | tar xf - -C origin; cd origin; git add .
             git commit -qm all; cd ..; git clone -q --no-hardlinks origin clone"
        ),
    );
    for mounted in [&one, &other, &one] {
        let status = "git -C origin status --porcelain; git -C clone status --porcelain";
        assert_eq!(shell(mounted.path(), status), "");
    }
    shell(
        other.path(),
        &format!(
            "diff -r --exclude=.git origin clone; diff -r --exclude=.git --exclude=target {tree} clone
             cd clone; rm -r tests src; git status --porcelain | grep -q '^ D'; git checkout -q .; git status --porcelain"
        )
        .replace("tests src", if is_long() { "cli" } else { "tests src" }),
    );
    assert_eq!(
        shell(
            one.path(),
            "git -C clone status --porcelain; git -C clone fsck 2>&1"
        ),
        ""
    );
}

/// Editors write another file and rename it over the first one, or keep a copy beside it.
#[test]
fn editors_that_rename_over_a_file_leave_readers_a_whole_one() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    shell(
        one.path(),
        "yes alpha | head -n 20000 >text; chmod 640 text",
    );
    let program = "import sys
while True:
    with open('text') as file: words = set(file.read().split('\\n'))
    assert len(words) == 2 and '' in words, words
    if 'omega' in words: break
";
    shell(
        other.path(),
        "sed -i s/alpha/beta/ text; test $(stat -c %a text) = 640; ! grep -q alpha text",
    );
    assert_eq!(
        shell(one.path(), "uniq -c text | tr -s ' '"),
        " 20000 beta\n"
    );
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            shell(
                other.path(),
                &format!("exec python3 - <<'END'\n{program}END"),
            )
        });
        shell(
            one.path(),
            "for n in 1 2 3 4 5; do sed -i s/beta/gamma/ text; perl -pi -e s/gamma/beta/ text; done
             sed -i s/beta/omega/ text",
        );
        reader.join().unwrap();
    });
    if super::program_exists("vim") {
        // With a backup copy, an exchange file and a rename.
        shell(
            other.path(),
            "vim -N -u NONE -i NONE -es -c 'set backup writebackup backupcopy=no backupskip=' -c '%s/omega/psi/' -c wq text </dev/null >/dev/null",
        );
        assert_eq!(
            shell(one.path(), "uniq -c text | tr -s ' '; ls -A"),
            " 20000 psi\ntext\ntext~\n"
        );
    }
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
