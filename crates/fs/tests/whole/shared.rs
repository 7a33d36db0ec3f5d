//! Clients that work for several users and files, as a mount's do.

use std::time::{Duration, Instant};

use causeway_fs::client::CreateOptions;
use causeway_wire::fs::{Caller, Errno, SetAttributes};

use crate::cluster::{Fixture, Shape, pattern};

/// A client acts for the user that was set last.
#[test]
fn a_client_acts_for_one_user_after_the_other() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("ACTING FOR OTHER USERS IS NOT TESTED: that needs root");
        return;
    }
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    client.make_directory(b"/open", 0o777, None).unwrap();
    let root = client.stat(b"/", true).unwrap().object;
    let open = SetAttributes {
        mode: Some(0o777),
        ..SetAttributes::default()
    };
    client.set_attributes(root, open).unwrap();
    for uid in [1001, 1002] {
        let caller = Caller {
            uid,
            gid: 7,
            groups: Vec::new(),
            umask: 0,
        };
        client.act_for(caller);
        let options = CreateOptions {
            mode: 0o600,
            ..CreateOptions::default()
        };
        let path = format!("/open/{uid}");
        let file = client.create(path.as_bytes(), &options).unwrap();
        assert_eq!(
            (file.node.attributes.uid, file.node.attributes.gid),
            (uid, 7)
        );
    }
    let mut foreign = client.open(b"/open/1001").unwrap();
    let error = client.write_at(&mut foreign, 0, b"x").unwrap_err();
    assert_eq!(error.errno, Errno::EACCES, "{error}");
}

/// After an open file was opened again, it shows the state of that moment, wherever its content is stored.
#[test]
fn a_file_that_is_opened_again_is_as_others_have_left_it() {
    let fixture = Fixture::start(&Shape::default());
    let (mut one, mut other) = (fixture.client(), fixture.client());
    let mut file = one.create(b"/f", &CreateOptions::default()).unwrap();
    let mut written = other.open(b"/f").unwrap();
    for len in [10, 12_000, 200_000, 5_000] {
        let content = pattern(len as u64, len);
        other.truncate(&mut written, 0).unwrap();
        other.write_at(&mut written, 0, &content).unwrap();
        one.open_again(&mut file).unwrap();
        assert_eq!(file.node.attributes.size, len as u64);
        let mut read = vec![0; len + 1];
        assert_eq!(one.read_at(&mut file, 0, &mut read).unwrap(), len);
        assert!(read[..len] == content);
        // The own write is seen, not the content that came with the opening.
        one.open_again(&mut file).unwrap();
        one.write_at(&mut file, 0, b"own").unwrap();
        one.read_at(&mut file, 0, &mut read).unwrap();
        assert_eq!(&read[..3], b"own");
        one.fsync(&mut file).unwrap();
    }
    other.unlink(b"/f").unwrap();
    let error = one.open_again(&mut file).unwrap_err();
    assert_eq!(error.errno, Errno::ESTALE, "{error}");
}

/// A call ends when its limit is over, long before the time-out of the configuration, which a limit never exceeds.
#[test]
fn calls_end_within_their_limit() {
    let mut fixture = Fixture::start(&Shape {
        timeout_ms: 20_000,
        ..Shape::default()
    });
    let mut client = fixture.client();
    client.stat(b"/", true).unwrap();
    let metadata = fixture.cluster.configuration().metadata_server();
    fixture.cluster.kill(metadata).unwrap();
    client.limit(Duration::from_millis(300));
    let begun = Instant::now();
    let error = client.stat(b"/", true).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(15), "{error}");
    client.limit(Duration::MAX);
    fixture.cluster.restart(metadata).unwrap();
    client.stat(b"/", true).unwrap();
}
