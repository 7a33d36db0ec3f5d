//! Extended attributes, as programs and system calls set and read them.

use std::fs::File;

use rustix::fs::{XattrFlags, getxattr, lgetxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use super::{Mounted, can_mount, shell};
use crate::stand::Stand;

/// The value of an attribute.
fn get(path: &std::path::Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut room = vec![0; 65_536];
    let len = getxattr(path, name, &mut room[..])?;
    room.truncate(len);
    Ok(room)
}

fn list(path: &std::path::Path) -> Vec<String> {
    let mut room = vec![0; 65_536];
    let len = listxattr(path, &mut room[..]).unwrap();
    let names = room[..len].split(|byte| *byte == 0);
    let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
    names.filter(|name| !name.is_empty()).map(text).collect()
}

#[test]
fn attributes_are_those_of_an_object_on_every_mount() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let (file, again) = (one.at("file"), other.at("again"));
    std::fs::write(&file, "content").unwrap();
    std::fs::hard_link(other.at("file"), &again).unwrap();
    std::fs::create_dir(one.at("directory")).unwrap();
    let large = vec![7; 60 << 10];
    setxattr(&file, "user.small", b"value", XattrFlags::CREATE).unwrap();
    setxattr(&file, "user.large", &large, XattrFlags::empty()).unwrap();
    setxattr(one.at("directory"), "user.d", b"", XattrFlags::empty()).unwrap();
    assert_eq!(get(&again, "user.small").unwrap(), b"value");
    assert_eq!(get(&again, "user.large").unwrap(), large);
    assert_eq!(get(&other.at("directory"), "user.d").unwrap(), b"");
    assert_eq!(list(&again), ["user.large", "user.small"]);
    for (name, flags, errno) in [
        ("user.small", XattrFlags::CREATE, Errno::EXIST),
        ("user.none", XattrFlags::REPLACE, Errno::NODATA),
        ("nonsense", XattrFlags::empty(), Errno::OPNOTSUPP),
    ] {
        assert_eq!(setxattr(&again, name, b"x", flags), Err(errno), "{name}");
    }
    let long = format!("user.{}", "n".repeat(250));
    setxattr(&again, long.as_str(), b"x", XattrFlags::empty()).unwrap();
    assert_eq!(get(&file, &long).unwrap(), b"x");
    let too_large = vec![7; 65_536];
    let refused = setxattr(&again, "user.small", &too_large, XattrFlags::empty());
    assert_eq!(refused, Err(Errno::TOOBIG));
    assert_eq!(
        getxattr(&file, "user.small", &mut [0; 3][..]),
        Err(Errno::RANGE)
    );
    assert_eq!(removexattr(&file, "user.none"), Err(Errno::NODATA));
    let shown = String::from_utf8(stand.fs(&["stat", "/file"]).ok()).unwrap();
    assert!(shown.contains("attribute  user.small\n"), "{shown}");
    removexattr(&file, "user.small").unwrap();
    assert_eq!(get(&again, "user.small"), Err(Errno::NODATA));
    // Attributes stay with a renamed object, and are removed with it.
    std::fs::rename(&again, other.at("renamed")).unwrap();
    assert_eq!(get(&other.at("renamed"), "user.large").unwrap(), large);
    let open = File::open(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(other.at("renamed")).unwrap();
    drop(open);
    std::fs::write(&file, "new").unwrap();
    assert_eq!(list(&file), [""; 0]);
    std::os::unix::fs::symlink("file", one.at("link")).unwrap();
    let of_link = lgetxattr(one.at("link"), "user.a", &mut [0; 9][..]);
    assert_eq!(of_link, Err(Errno::NODATA));
    stand.fs(&["fsck"]).ok();
}

#[test]
fn copies_keep_attributes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    shell(
        mounted.path(),
        "echo content >file
         setfattr -n user.colour -v blue file
         cp --preserve=xattr file copy; rsync -aX file synced; tar --xattrs -cf archive file; rm file
         tar --xattrs -xf archive
         for name in file copy synced; do
             test \"$(getfattr --only-values -n user.colour $name)\" = blue
         done",
    );
}
