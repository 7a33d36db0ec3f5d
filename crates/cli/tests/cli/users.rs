//! A file system of a normal user: owners, and what other users may do.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::stand::{Left, Run, Stand, write_as};

/// A user without rights, if these tests may become one; else the user that runs them.
fn user() -> (Option<u32>, u32) {
    const NOBODY: u32 = 65_534;
    match rustix::process::geteuid() {
        me if me.is_root() => (Some(NOBODY), NOBODY),
        me => (None, me.as_raw()),
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// A file of this user beside the file system.
fn file(stand: &Stand, name: &str, mode: u32, owner: Option<u32>) {
    let path = stand.directory.path().join(name);
    std::fs::write(&path, name).unwrap();
    std::os::unix::fs::chown(&path, owner, owner).unwrap();
    set_mode(&path, mode);
}

#[test]
fn a_normal_user_runs_and_uses_a_file_system() {
    let (become_user, uid) = user();
    let stand = Stand::of_user(become_user, &["--tcp"]);
    let at = stand.directory.path();
    let fs = |arguments: &[&str]| -> Left { stand.fs(arguments).user(become_user).left() };
    let ok = |arguments: &[&str]| {
        let left = fs(arguments);
        assert_eq!(left.code, Some(0), "{arguments:?}: {left:?}");
        left
    };
    // All files of the servers are the user's, and closed to others.
    let servers = stand.config.parent().unwrap();
    for name in ["meta", "io0", "io1"] {
        let there = std::fs::metadata(servers.join(name)).unwrap();
        assert_eq!((there.uid(), there.mode() & 0o777), (uid, 0o700), "{name}");
    }
    std::fs::create_dir(at.join("src")).unwrap();
    std::os::unix::fs::chown(at.join("src"), become_user, become_user).unwrap();
    for (name, mode) in [
        ("src/plain", 0o640),
        ("src/tool", 0o4755),
        ("src/shut", 0o600),
    ] {
        file(&stand, name, mode, become_user);
    }
    ok(&["put", "src", "/"]);
    for via in ["shm", "tcp"] {
        let stat = stand.fs(&["stat", "--json", "--via", via, "/src/plain"]);
        let stat = &stat.user(become_user).json()["entries"][0];
        assert_eq!(stat["uid"].as_u64(), Some(uid.into()), "{stat}");
    }
    let left = ok(&["get", "/src", "copy"]);
    assert_eq!(left.err, "", "the owner is the same: nothing is lost");
    for (name, mode) in [("plain", 0o640), ("tool", 0o4755), ("shut", 0o600)] {
        let copy = at.join("copy").join(name);
        assert_eq!(mode_of(&copy), mode, "{name}");
        assert_eq!(std::fs::metadata(&copy).unwrap().uid(), uid);
        let expected = format!("src/{name}");
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), expected);
    }
    ok(&["ls", "-lR", "/"]);
    ok(&["rm", "-r", "/src"]);
    assert_eq!(fs(&["stat", "/src"]).code, Some(1));
}

/// Files of root in a user's file system: the user gets what permissions allow, learns what a copy lacks, and others
/// get nothing.
#[test]
fn owners_are_kept_apart_and_unrestored_attributes_are_reported() {
    let (Some(user), _) = user() else {
        eprintln!("left out: only root can be two users");
        return;
    };
    let (stand, roots) = Stand::keyed_of_user(user);
    let at = stand.directory.path();
    // Root reaches a user's servers as other users do: with the key, and not over shared memory.
    let as_root = |arguments: &[&str]| Run::new(at, arguments).config(&roots);
    for (name, mode) in [("tool", 0o4755), ("key", 0o600)] {
        file(&stand, name, mode, None);
        as_root(&["fs", "put", name, "/"]).ok();
    }
    let said = as_root(&["fs", "ls", "--via", "shm", "/"]).fails(1);
    assert!(
        said.contains(&format!("a process of user {user}")),
        "{said}"
    );
    let left = stand.fs(&["get", "/tool", "mine"]).user(Some(user)).left();
    assert_eq!(left.code, Some(0), "{left:?}");
    assert!(left.err.contains("set-user-ID"), "{left:?}");
    let mine = std::fs::metadata(at.join("mine")).unwrap();
    assert_eq!((mine.uid(), mine.mode() & 0o7777), (user, 0o755));
    // Root's copy is root's again.
    as_root(&["fs", "get", "/tool", "roots"]).ok();
    let there = std::fs::metadata(at.join("roots")).unwrap();
    assert_eq!((there.uid(), there.mode() & 0o7777), (0, 0o4755));
    let said = stand.fs(&["get", "/key", "key2"]).user(Some(user)).fails(1);
    assert!(said.contains("may not read"), "{said}");
    assert!(!at.join("key2").exists());
    let said = stand
        .fs(&["chmod", "644", "/key"])
        .user(Some(user))
        .fails(1);
    assert!(said.contains("key"), "{said}");
    // The root directory is the user's, which allows the user to remove names from it.
    stand.fs(&["rm", "/key"]).user(Some(user)).ok();
}

/// A third user, and root without a key, are refused even with the configuration; and no user uses another user's configuration.
#[test]
fn other_users_are_refused_and_their_configurations_not_used() {
    let (Some(user), _) = user() else {
        eprintln!("left out: only root can be two users");
        return;
    };
    let stand = Stand::of_user(Some(user), &["--tcp"]);
    let at = stand.directory.path();
    set_mode(at, 0o755);
    let third = user - 1;
    for (name, other) in [("third", Some(third)), ("root", None)] {
        let said = stand.fs(&["ls", "/"]).user(other).fails(2);
        assert!(said.contains(&format!("belongs to user {user}")), "{said}");
        let copy = at.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&stand.config).unwrap();
        write_as(&copy, &text, 0o644, other);
        for via in [&[][..], &["--via", "tcp"]] {
            let arguments = [&["fs", "ls", "/"], via].concat();
            let said = Run::new(at, &arguments).config(&copy).user(other).fails(1);
            assert!(said.contains("user"), "{said}");
        }
    }
    // Found, not named, in another user's directory.
    let said = Run::new(at, &["fs", "ls", "/"]).fails(2);
    assert!(
        said.contains(&format!("belongs to user {user}: name the file")),
        "{said}"
    );
    set_mode(&stand.config, 0o664);
    let said = stand.fs(&["ls", "/"]).user(Some(user)).fails(2);
    assert!(said.contains("chmod go-w"), "{said}");
    set_mode(&stand.config, 0o644);
    stand.fs(&["ls", "/"]).user(Some(user)).ok();
    // A file without read permission is reported, not treated as missing.
    set_mode(at, 0o700);
    let said = Run::new(Path::new("/"), &["fs", "ls", "/"])
        .config(&stand.config)
        .user(Some(third))
        .fails(2);
    assert!(said.contains("Permission denied"), "{said}");
}
