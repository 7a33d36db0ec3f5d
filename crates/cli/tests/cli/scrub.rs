//! Stored bytes that change by themselves, as the commands report them.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use causeway_wire::datafile::physical;

use super::stand::{Stand, one_object};

fn largest_file(directory: &Path) -> (u64, PathBuf) {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => largest_file(&path),
                false => (path.metadata().unwrap().len(), path),
            }
        })
        .max()
        .unwrap_or_default()
}

#[test]
fn a_flipped_bit_is_found_and_never_returned() {
    let stand = Stand::new();
    let here = stand.directory.path();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    std::fs::write(here.join("file"), &bytes).unwrap();
    stand.fs(&["mkdir", "/d"]).ok();
    stand.fs(&["put", "file", "/d/file"]).ok();
    let said = stand.fs(&["scrub", "--json"]).json();
    assert_eq!((&said["found"], &said["datafiles"]), (&0.into(), &2.into()));
    assert_eq!(said["bytes"], 3_000_000);

    let objects = here.join("causeway-dev/io1/data/objects");
    let (_, datafile) = largest_file(&objects);
    let file = std::fs::File::options().write(true).open(datafile).unwrap();
    file.write_all_at(&[!bytes[0]], physical(9000)).unwrap();
    file.write_all_at(&[!bytes[0] ^ 1], physical(9001)).unwrap();
    let left = stand.fs(&["scrub", "--rate", "1GiB/s", "--json"]).left();
    assert_eq!(left.code, Some(1), "{}", left.err);
    let said = one_object(&left.out);
    let [damage] = said["damaged"].as_array().unwrap().as_slice() else {
        panic!("{said}");
    };
    assert_eq!(
        (&damage["server"], &damage["path"]),
        (&"io1".into(), &"/d/file".into())
    );
    assert_eq!(
        (&damage["offset"], &damage["bytes"]),
        (&8192.into(), &4096.into())
    );
    let said = stand.fs(&["get", "/d/file", "back"]).fails(1);
    assert!(
        said.contains("io1") && said.contains("8192 to 12288"),
        "{said}"
    );
    assert!(!here.join("back").exists());
    stand.fs(&["scrub", "--server", "io0"]).ok();
    let said = stand.fs(&["scrub", "--server", "io9"]).fails(2);
    assert!(said.contains("io0, io1"), "{said}");

    // Rewritten blocks are right again.
    stand.fs(&["put", "file", "/d/file"]).ok();
    stand.fs(&["scrub"]).ok();
    assert!(stand.fs(&["cat", "/d/file"]).ok() == bytes);
}

#[test]
fn a_datafile_shorter_than_the_metadata_say_is_found() {
    let stand = Stand::new();
    let here = stand.directory.path();
    std::fs::write(here.join("file"), vec![1; 1_000_000]).unwrap();
    stand.fs(&["put", "file", "/file"]).ok();
    let objects = here.join("causeway-dev/io0/data/objects");
    let (_, datafile) = largest_file(&objects);
    let file = std::fs::File::options().write(true).open(datafile).unwrap();
    // The remaining blocks are whole.
    file.set_len(physical(8 << 12)).unwrap();
    let left = stand.fs(&["scrub", "--json"]).left();
    assert_eq!(left.code, Some(1), "{}", left.err);
    let said = one_object(&left.out);
    let [damage] = said["damaged"].as_array().unwrap().as_slice() else {
        panic!("{said}");
    };
    assert_eq!(
        (&damage["server"], &damage["path"], &damage["offset"]),
        (&"io0".into(), &"/file".into(), &32768.into())
    );
    stand.fs(&["scrub", "--server", "io1"]).ok();
}
