//! Holes: made, found and kept by programs.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use rustix::process::Signal;

use super::{Mounted, can_mount, shell};
use crate::stand::{Stand, send};

const MIB: u64 = 1 << 20;

/// Where the data of a file lie.
fn data_of(file: &File) -> Vec<(u64, u64)> {
    let (mut at, mut all) = (0, Vec::new());
    loop {
        match seek(file, SeekFrom::Data(at)) {
            Ok(data) => {
                at = seek(file, SeekFrom::Hole(data)).unwrap();
                all.push((data, at));
            }
            Err(Errno::NXIO) => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn programs_make_find_and_keep_holes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    shell(
        one.path(),
        "head -c 8M /dev/urandom >file; cp file whole
         fallocate --punch-hole --offset 1M --length 4M file
         fallocate --zero-range --keep-size --offset 7M --length 3M file
         test $(stat -c %s file) = 8388608
         head -c 4M /dev/zero | cmp -n 4194304 --ignore-initial=0:1M - file
         cmp -n 1048576 file whole
         cmp -n 2097152 --ignore-initial=5M file whole
         head -c 1M /dev/zero | cmp -n 1048576 --ignore-initial=0:7M - file",
    );
    let file = File::open(other.at("file")).unwrap();
    // Zeros with reserved space are a hole or data, as the servers' disk reports them.
    let [first, second, ..] = data_of(&file)[..] else {
        panic!("{:?}", data_of(&file));
    };
    assert_eq!((first, second.0), ((0, MIB), 5 * MIB));
    assert!([7 * MIB, 8 * MIB].contains(&second.1), "{second:?}");
    // A copy has the same holes, and a file that is all hole has no data.
    shell(
        other.path(),
        "cp --sparse=always file copy; cmp file copy; truncate -s 64M empty; cp --sparse=always empty empty2
         test $(stat -c %s empty2) = 67108864",
    );
    let copy = File::open(one.at("copy")).unwrap();
    assert_eq!(data_of(&copy), [(0, MIB), (5 * MIB, 7 * MIB)]);
    assert_eq!(data_of(&File::open(one.at("empty2")).unwrap()), []);
    // Space is reserved, and the file has the requested size.
    shell(
        one.path(),
        "fallocate -l 3M reserved; test $(stat -c %s reserved) = 3145728
         fallocate -n -l 5M reserved; test $(stat -c %s reserved) = 3145728
         head -c 3M /dev/zero | cmp - reserved
         fallocate --dig-holes whole; cmp -n 1048576 file whole",
    );
}

/// `cp` looks for holes where a file's blocks say that there are some.
#[test]
fn cp_keeps_holes_and_du_counts_stored_bytes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    shell(
        one.path(),
        "head -c 3M /dev/urandom >full
         head -c 1M full | dd of=sparse bs=1M seek=20 conv=notrunc status=none
         truncate -s 100M sparse; cp full punched
         fallocate --punch-hole --offset 1M --length 1M punched
         fallocate -n -l 5M full",
    );
    shell(
        other.path(),
        // The servers' disks may count a few blocks more.
        "has() { kib=$(du -k $1 | cut -f 1); test $kib -ge $2; test $kib -le $(($2 + 64)); }
         has sparse 1024; has punched 2048; has full 5120
         cp sparse copy; cmp sparse copy; has copy 1024
         cp punched copied; cmp punched copied; has copied 2048
         head -c 9M /dev/urandom >plain; test $(du -k plain | cut -f 1) = 9216
         ln -s plain link; mkdir d; test $(stat -c %b link d | tr '\n' ' ' | tr -d ' ') = 00",
    );
    let copy = File::open(one.at("copy")).unwrap();
    assert_eq!(data_of(&copy), [(20 * MIB, 21 * MIB)]);
}

/// The number of stored bytes comes from the I/O servers, and the other attributes do not wait for it.
#[test]
fn attributes_of_files_with_holes_are_shown_without_io_servers() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::with(&stand, &stand.impatient(), &[]);
    let shown = |script: &str| shell(mounted.path(), &format!("{script}; stat -c '%s %a %b' f"));
    shell(mounted.path(), "truncate -s 64M f g; chmod 600 f");
    let first = shown("true");
    let blocks = |shown: &str| -> u64 { shown.split_whitespace().last().unwrap().parse().unwrap() };
    assert!(blocks(&first) < 1024, "{first}");
    for io_server in &stand.pids[1..] {
        send(*io_server, Signal::KILL);
    }
    // Cached numbers of a file that has not changed, and the size of other files.
    assert_eq!(shown("true"), first);
    let size: u64 = 64 << 20;
    let expected = format!("{size} 640 {}\n", size / 512);
    assert_eq!(shown("chmod 640 f"), expected);
    assert_eq!(shown("stat -c %b f g >/dev/null"), expected);
}

#[test]
fn modes_that_move_data_are_refused_and_open_files_see_holes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let open = |mounted: &Mounted| {
        let mut options = File::options();
        options.read(true).write(true).create(true);
        options.open(mounted.at("file")).unwrap()
    };
    let (file, again) = (open(&one), open(&other));
    file.write_all_at(&[7; 200_000], 0).unwrap();
    for refused in [
        FallocateFlags::COLLAPSE_RANGE,
        FallocateFlags::INSERT_RANGE,
        FallocateFlags::PUNCH_HOLE,
    ] {
        let result = fallocate(&file, refused, 0, 4096);
        assert_eq!(result, Err(Errno::OPNOTSUPP), "{refused:?}");
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let mut byte = [1];
    // The range in this mount's kernel cache is a hole as well.
    file.read_exact_at(&mut byte, 150_000).unwrap();
    assert_eq!(byte, [7]);
    fallocate(&file, punch, 100_000, 80_000).unwrap();
    file.read_exact_at(&mut byte, 150_000).unwrap();
    assert_eq!(byte, [0]);
    assert_eq!(seek(&again, SeekFrom::Hole(0)), Ok(102_400));
    assert_eq!(seek(&again, SeekFrom::Data(102_400)), Ok(176_128));
    assert_eq!(seek(&again, SeekFrom::Hole(200_000)), Err(Errno::NXIO));
    again.read_exact_at(&mut byte, 179_999).unwrap();
    assert_eq!(byte, [0]);
    again.read_exact_at(&mut byte, 180_000).unwrap();
    assert_eq!(byte, [7]);
}
