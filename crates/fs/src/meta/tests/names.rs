//! Making, finding, renaming and removing names.

use super::*;

#[test]
fn makes_finds_lists_and_removes() {
    let mut bench = Bench::new();
    let directory = bench.node(mkdir("/a"));
    let file = bench.node(create("/a/f"));
    assert_eq!(file.attributes.kind, Kind::File);
    assert_eq!(bench.stat("a/f"), file);
    assert_eq!(bench.stat("/a/../a/./f").object, file.object);
    assert_eq!(bench.stat("/a").attributes.size, 1);
    assert_eq!(bench.stat("/a").attributes.modified.seconds, 1_000_002);
    assert_eq!(bench.stat("/").attributes.links, 3);
    assert_eq!(bench.list("/a"), ["f"]);
    assert_eq!(bench.errno(create("/a/f")), Errno::EEXIST);
    assert_eq!(bench.errno(rmdir("/a")), Errno::ENOTEMPTY);
    assert_eq!(bench.errno(unlink("/a")), Errno::EISDIR);
    bench.done(unlink("/a/f"));
    bench.done(rmdir("/a"));
    assert_eq!(bench.errno(lookup("/a")), Errno::ENOENT);
    let stale = bench.errno(Operation::GetNode {
        object: directory.object,
        content: false,
    });
    assert_eq!(stale, Errno::ESTALE);
    assert_eq!(bench.stat("/").attributes.links, 2);
    assert!(bench.check(false).is_empty());
}
