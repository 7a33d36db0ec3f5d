//! The result of an fsync after a server's host has lost power since the write.

use causeway_fs::client::CreateOptions;
use causeway_fs::config::Configuration;
use causeway_fs::server::{Server, StopHandle};
use causeway_wire::fs::Errno;

use crate::cluster::{Shape, client, configuration, format_all, pattern};

/// Stops servers also when a test fails.
struct Stop(Vec<StopHandle>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.iter().for_each(StopHandle::stop);
    }
}

/// Runs all servers, on a host whose boot has this identity, while `work` lasts.
fn on_boot(configuration: &Configuration, boot: u128, work: impl FnOnce()) {
    let servers = ["meta", "io0", "io1"].map(|name| {
        let mut server = Server::start(configuration, name).unwrap();
        server.set_boot_identity(boot).unwrap();
        server
    });
    std::thread::scope(|scope| {
        let _stop = Stop(servers.iter().map(Server::stop_handle).collect());
        for server in servers {
            scope.spawn(move || server.run().unwrap());
        }
        work();
    });
}

#[test]
fn fsync_fails_if_a_host_has_rebooted_since_the_write() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = configuration(&Shape::default(), directory.path());
    format_all(&configuration);
    let bytes = pattern(1, 300_000);
    let mut one = None;
    on_boot(&configuration, 1, || {
        let mut client = client(&configuration);
        let mut file = client.create(b"/f", &CreateOptions::default()).unwrap();
        client.write_at(&mut file, 0, &bytes).unwrap();
        one = Some((client, file));
    });
    let (mut client, mut file) = one.unwrap();
    // A server that was only restarted has lost nothing.
    on_boot(&configuration, 1, || {
        client.fsync(&mut file).unwrap();
        client.write_at(&mut file, 0, &bytes).unwrap();
    });
    on_boot(&configuration, 2, || {
        let error = client.fsync(&mut file).unwrap_err();
        assert_eq!(error.errno, Errno::EIO, "{error}");
        assert!(error.to_string().contains("was rebooted"), "{error}");
        // Bytes that are written again can be synced.
        client.write_at(&mut file, 0, &bytes).unwrap();
        client.fsync(&mut file).unwrap();
    });
    // Bytes that were synced before cannot be lost.
    on_boot(&configuration, 3, || {
        client.fsync(&mut file).unwrap();
        let mut into = vec![0; bytes.len()];
        client.read_at(&mut file, 0, &mut into).unwrap();
        assert!(into == bytes);
    });
}

/// A small file lies with the metadata.
#[test]
fn fsync_of_a_small_file_notices_that_the_metadata_server_lost_power() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = configuration(&Shape::default(), directory.path());
    format_all(&configuration);
    let mut one = None;
    on_boot(&configuration, 1, || {
        let mut client = client(&configuration);
        let mut file = client.create(b"/f", &CreateOptions::default()).unwrap();
        client.fsync(&mut file).unwrap();
        client.write_at(&mut file, 0, b"content").unwrap();
        one = Some((client, file));
    });
    let (mut client, mut file) = one.unwrap();
    on_boot(&configuration, 2, || {
        let error = client.fsync(&mut file).unwrap_err();
        assert_eq!(error.errno, Errno::EIO, "{error}");
        assert!(error.to_string().contains("was rebooted"), "{error}");
        client.write_at(&mut file, 0, b"content").unwrap();
        client.fsync(&mut file).unwrap();
    });
    on_boot(&configuration, 3, || client.fsync(&mut file).unwrap());
}

/// A program that closes a file, opens it again and syncs it relies on the same.
#[test]
fn fsync_of_a_file_that_was_opened_again_notices_that_a_host_lost_power() {
    for len in [7, 100_000] {
        let directory = tempfile::tempdir().unwrap();
        let configuration = configuration(&Shape::default(), directory.path());
        format_all(&configuration);
        let mut one = None;
        on_boot(&configuration, 1, || {
            let mut client = client(&configuration);
            let mut file = client.create(b"/f", &CreateOptions::default()).unwrap();
            client.fsync(&mut file).unwrap();
            assert!(file.unsynced().is_none());
            client.write_at(&mut file, 0, &vec![1; len]).unwrap();
            one = Some((client, file.unsynced().unwrap()));
        });
        let (mut client, unsynced) = one.unwrap();
        on_boot(&configuration, 2, || {
            let mut file = client.open(b"/f").unwrap();
            client.fsync(&mut file).unwrap();
            file.resume(unsynced);
            let error = client.fsync(&mut file).unwrap_err();
            assert_eq!(error.errno, Errno::EIO, "{error}");
            client.fsync(&mut file).unwrap();
        });
    }
}
