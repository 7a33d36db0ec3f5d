//! Pipes, sockets and devices: names that every mount shows, and programs of one host use.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::{Mounted, can_mount, shell};
use crate::stand::Stand;

#[test]
fn pipes_and_sockets_are_used_and_shown_everywhere() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let passed = shell(
        one.path(),
        "mkfifo -m 640 pipe; echo through >pipe & cat pipe; wait; mv pipe moved; ln moved again
         find . -type p | sort | tr '\\n' ' '; stat -c ' %a %s %b %h' moved",
    );
    assert_eq!(passed, "through\n./again ./moved  640 0 0 2\n");
    assert_eq!(
        shell(
            other.path(),
            "find . -type p | wc -l; rm again; stat -c %h moved"
        ),
        "2\n1\n"
    );
    let listener = UnixListener::bind(one.at("socket")).unwrap();
    let mut sender = UnixStream::connect(one.at("socket")).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    sender.write_all(b"x").unwrap();
    drop(sender);
    let mut received = Vec::new();
    receiver.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"x");
    let shown = std::fs::metadata(other.at("socket")).unwrap();
    assert!(shown.file_type().is_socket());
    // A socket's name outlives the process that bound it, and is removed by hand.
    drop(listener);
    let error = UnixStream::connect(one.at("socket")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    std::fs::remove_file(other.at("socket")).unwrap();
    assert!(!one.at("socket").exists());
}

#[test]
fn devices_are_made_by_root_and_open_nowhere() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let make = |name: &str, kind, device| {
        mknodat(CWD, one.at(name), kind, Mode::from_raw_mode(0o600), device).unwrap();
    };
    make("null", FileType::CharacterDevice, makedev(1, 3));
    make("large", FileType::BlockDevice, makedev(4095, 0xf_ffff));
    for mounted in [&one, &other] {
        let null = std::fs::metadata(mounted.at("null")).unwrap();
        assert!(null.file_type().is_char_device());
        assert_eq!(null.rdev(), makedev(1, 3));
        let large = std::fs::metadata(mounted.at("large")).unwrap();
        assert!(large.file_type().is_block_device());
        assert_eq!(large.rdev(), makedev(4095, 0xf_ffff));
        // Mounts are `nodev`.
        let error = std::fs::File::open(mounted.at("null")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }
    shell(
        one.path(),
        "chmod 640 null; chown 5:6 null; test \"$(stat -c '%a %u %g %t %T' null)\" = '640 5 6 1 3'",
    );
}

/// Copies of trees leave them out and say so; nothing tries to read them.
#[test]
fn verbs_show_pipes_and_do_not_read_them() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    shell(
        mounted.path(),
        "mkdir tree; mkfifo tree/pipe; echo text >tree/file",
    );
    let said = |arguments: &[&str]| String::from_utf8(stand.fs(arguments).ok()).unwrap();
    let listed = said(&["ls", "-l", "/tree"]);
    assert!(listed.contains("prw-"), "{listed}");
    let shown = said(&["stat", "/tree/pipe"]);
    assert!(shown.contains("pipe, object"), "{shown}");
    let local = stand.directory.path().join("copy");
    let local = local.to_str().unwrap();
    stand.fs(&["get", "/tree", local]).ok();
    stand.fs(&["cp", "-r", "/tree", "/copy"]).ok();
    let copied = std::fs::read_dir(local).unwrap().count();
    assert_eq!(copied, 1);
    assert_eq!(shell(mounted.path(), "ls copy"), "file\n");
    let error = stand.fs(&["cat", "/tree/pipe"]).fails(1);
    assert!(error.contains("a pipe"), "{error}");
    stand.fs(&["rm", "-r", "/tree"]).ok();
    assert!(!mounted.at("tree").exists());
}
