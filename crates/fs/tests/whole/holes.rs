//! Where the data of files are told to lie.

use causeway_fs::client::CreateOptions;
use causeway_wire::fs::Region;

use crate::cluster::{Fixture, Shape, pattern};

/// Everything that was written lies in what is told to be data, and large holes do not.
#[test]
fn data_between_holes_are_found() {
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let options = CreateOptions {
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: b"small".to_vec(),
    };
    let mut file = client.create(b"/file", &options).unwrap();
    let at = |offset: u64, len: u64| Some(Region { offset, len });
    assert_eq!(client.next_data(&mut file, 1).unwrap(), at(1, 4));
    assert_eq!(client.next_data(&mut file, 5).unwrap(), None);
    const FAR: u64 = 1 << 40;
    let written = [(0, 100_000), (FAR + 12_345, 300_000), (3 * FAR, 10)];
    for (offset, len) in written {
        client
            .write_at(&mut file, offset, &pattern(3, len))
            .unwrap();
    }
    client.truncate(&mut file, 4 * FAR).unwrap();
    let mut file = fixture.client().open(b"/file").unwrap();
    let (mut from, mut found) = (0, Vec::new());
    while let Some(data) = client.next_data(&mut file, from).unwrap() {
        assert!(data.offset >= from && data.len > 0);
        from = data.offset + data.len;
        found.push(data);
    }
    for (offset, len) in written {
        let is_in =
            |data: &Region| data.offset <= offset && offset + len as u64 <= data.offset + data.len;
        assert!(found.iter().any(is_in), "{offset}: {found:?}");
    }
    let told: u64 = found.iter().map(|data| data.len).sum();
    assert!(told < 100 << 20, "{found:?}");
}
