//! Access control lists of copies: `put`, `get` and `cp` keep them, and where they cannot, give no user more permissions than the
//! originals do.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{ACCESS_ACL, Acl, AclKind, DEFAULT_ACL, Node};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use crate::stand::Stand;

/// A user of lists who is none of those that run tests.
const NAMED: u32 = 4002;

/// Of these lists, the owning group has fewer permissions than the mode's group digit shows.
fn list(owner: u8, group: u8) -> Acl {
    Acl {
        owner,
        users: vec![(NAMED, owner)],
        group,
        groups: vec![(NAMED + 1, 4)],
        mask: Some(owner),
        other: 0,
    }
}

fn set(path: &Path, name: &[u8], acl: &Acl) {
    setxattr(path, name, &acl.to_xattr(), XattrFlags::empty())
        .expect("the local file system has access control lists");
}

/// The permissions of a local file, and its list if it has one.
fn local(path: &Path) -> (u32, Option<Acl>) {
    let mode = std::fs::metadata(path).unwrap().mode() & 0o7777;
    let mut bytes = [0_u8; 4096];
    match getxattr(path, ACCESS_ACL, &mut bytes) {
        Ok(count) => (mode, Acl::from_xattr(&bytes[..count]).unwrap()),
        Err(Errno::NODATA) => (mode, None),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// The default list of a local directory, if it has one.
fn local_default(path: &Path) -> Option<Acl> {
    let mut bytes = [0_u8; 4096];
    match getxattr(path, DEFAULT_ACL, &mut bytes) {
        Ok(count) => Acl::from_xattr(&bytes[..count]).unwrap(),
        Err(Errno::NODATA) => None,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn client(stand: &Stand) -> Client {
    let configuration = Configuration::load(&stand.config).unwrap();
    Client::connect(&configuration, ClientOptions::default()).unwrap()
}

/// The same for an object in the file system.
fn remote(client: &mut Client, path: &str) -> (u32, Option<Acl>) {
    let Node {
        attributes, acl, ..
    } = client.stat(path.as_bytes(), false).unwrap();
    let mode = attributes.mode;
    (mode.into(), acl.map(|acl| acl.with_mode(mode)))
}

/// Names below the tree, sizes, modes and lists: files that are copied with others, by themselves and in parts.
fn originals() -> Vec<(&'static str, u64, u32, Option<Acl>)> {
    vec![
        ("", 0, 0o770, Some(list(7, 0))),
        ("d", 0, 0o570, Some(list(5, 1))),
        ("small", 5, 0o660, Some(list(6, 0))),
        ("d/whole", 100_000, 0o660, Some(list(6, 4))),
        ("parts", 200 << 20, 0o440, Some(list(4, 0))),
        ("plain", 5, 0o640, None),
    ]
    .into_iter()
    .map(|(name, size, mode, acl)| {
        let mode = acl.as_ref().map_or(mode, |acl| acl.mode().into());
        (name, size, mode, acl)
    })
    .collect()
}

/// Makes the tree, with the lists of directories last.
fn make_tree(tree: &Path) {
    std::fs::create_dir_all(tree.join("d")).unwrap();
    for (name, size, mode, acl) in originals().into_iter().rev() {
        let path = tree.join(name);
        if size > 0 {
            let file = std::fs::File::create(&path).unwrap();
            file.set_len(size).unwrap();
        }
        match acl {
            Some(acl) => set(&path, ACCESS_ACL, &acl),
            None => {
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(&path, mode).unwrap();
            }
        }
    }
}

#[test]
fn copies_have_the_lists_of_their_originals_and_no_others() {
    let stand = Stand::new();
    let here = stand.directory.path();
    make_tree(&here.join("tree"));
    let mut client = client(&stand);
    // What new files and directories get unless they are copies.
    let default = Acl {
        users: vec![(NAMED + 7, 7)],
        ..list(7, 7)
    };
    std::fs::create_dir(here.join("into")).unwrap();
    set(&here.join("into"), DEFAULT_ACL, &default);
    let into = client.make_directory(b"/into", 0o755, None).unwrap();
    client
        .set_acl(into.object, AclKind::Default, Some(&default))
        .unwrap();

    // One of the directories that are copied has one, too.
    let own = list(7, 5);
    set(&here.join("tree"), DEFAULT_ACL, &own);

    stand.fs(&["put", "tree", "/into/put"]).ok();
    stand.fs(&["cp", "-r", "/into/put", "/into/cp"]).ok();
    // Copies that replace files, and that are written into them.
    stand.fs(&["cp", "-r", "/into/put", "/into/cp"]).ok();
    let said = stand.fs(&["get", "--json", "/into/cp", "into/get"]).left();
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    for (name, _, mode, acl) in originals() {
        let expected = (mode, acl);
        for copy in ["put", "cp"] {
            let path = format!("/into/{copy}/{name}");
            let path = path.trim_end_matches('/');
            assert_eq!(remote(&mut client, path), expected, "{path}");
        }
        let path = here.join("into/get").join(name);
        assert_eq!(local(&path), expected, "{}", path.display());
    }
    for (name, expected) in [("", Some(&own)), ("/d", None)] {
        for copy in ["put", "cp"] {
            let path = format!("/into/{copy}{name}");
            let object = client.stat(path.as_bytes(), false).unwrap().object;
            let found = client.acl(object, AclKind::Default).unwrap();
            assert_eq!(found.as_ref(), expected, "{path}");
        }
        let path = here.join(format!("into/get{name}"));
        assert_eq!(local_default(&path).as_ref(), expected, "get{name}");
    }
    for (from, to) in [("small", "plain"), ("plain", "small")] {
        let from = here.join("tree").join(from);
        let to = format!("/into/put/{to}");
        let arguments = ["put", "--inplace", from.to_str().unwrap(), &to];
        stand.fs(&arguments).ok();
        assert_eq!(remote(&mut client, &to), local(&from), "{to}");
    }
}

#[test]
fn where_there_are_no_lists_the_copy_gives_the_group_no_more_than_the_original() {
    let stand = Stand::new();
    let here = stand.directory.path();
    make_tree(&here.join("tree"));
    stand.fs(&["put", "tree", "/tree"]).ok();
    let bare = here.join("bare");
    std::fs::create_dir(&bare).unwrap();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    // A file system in memory that has no extended attributes.
    let script = "mount -t ramfs none \"$1\" && cd \"$1\" && \"$2\" fs get --config \"$3\" /tree/small /tree/d . && stat -c '%n %a' small d d/whole";
    let output = command
        .args(["sh", "-ec", script, "sh"])
        .arg(&bare)
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .arg(&stand.config)
        .output()
        .expect("util-linux's unshare runs");
    let (out, said) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{said}");
    assert!(
        out.ends_with("small 600\nd 510\nd/whole 640\n"),
        "{out}{said}"
    );
    assert!(
        said.contains("3 items with access control lists, which the destination cannot have"),
        "{said}"
    );
}
