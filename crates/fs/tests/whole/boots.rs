//! The result of an fsync after a server's host has lost power since the write.

use causeway_fs::client::{Allocation, CreateOptions, Unsynced};
use causeway_fs::config::Configuration;
use causeway_fs::server::{Server, StopHandle};
use causeway_wire::fs::{Errno, Region, SetAttributes, Timestamp};

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
    on_boots(configuration, [boot; 3], work);
}

/// The same with a host each for the metadata server and two I/O servers.
fn on_boots(configuration: &Configuration, boots: [u128; 3], work: impl FnOnce()) {
    let names = ["meta", "io0", "io1"].into_iter();
    let servers: Vec<Server> = (names.zip(boots))
        .map(|(name, boot)| {
            let mut server = Server::start(configuration, name).unwrap();
            server.set_boot_identity(boot).unwrap();
            server
        })
        .collect();
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

/// A file that was not changed at the host that lost power has lost nothing.
#[test]
fn fsync_does_not_report_the_loss_of_a_server_where_the_file_was_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = configuration(&Shape::default(), directory.path());
    format_all(&configuration);
    let mut all = None;
    on_boot(&configuration, 1, || {
        let mut client = client(&configuration);
        let mut made = |name: &[u8], len| {
            let mut file = client.create(name, &CreateOptions::default()).unwrap();
            client.write_at(&mut file, 0, &pattern(1, len)).unwrap();
            file
        };
        let files = (made(b"/small", 7), made(b"/large", 300_000));
        all = Some((client, files));
    });
    let (mut client, (mut small, mut large)) = all.unwrap();
    on_boots(&configuration, [1, 2, 1], || {
        let error = client.fsync(&mut large).unwrap_err();
        assert_eq!(error.errno, Errno::EIO, "{error}");
        client.fsync(&mut small).unwrap();
    });
}

fn times() -> SetAttributes {
    let modified = Timestamp {
        seconds: 5,
        nanoseconds: 0,
    };
    SetAttributes {
        modified: Some(modified),
        ..SetAttributes::default()
    }
}

/// By one client, and by another that takes over what was noted.
#[test]
fn fsync_reports_once_that_attributes_were_lost() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = configuration(&Shape::default(), directory.path());
    format_all(&configuration);
    let mut one = None;
    let mut noted = Unsynced::default();
    on_boot(&configuration, 1, || {
        let mut client = client(&configuration);
        let mut file = client.create(b"/f", &CreateOptions::default()).unwrap();
        client.write_at(&mut file, 0, &pattern(1, 300_000)).unwrap();
        client.fsync(&mut file).unwrap();
        client.set_attributes_of(&mut file, times()).unwrap();
        let directory = client.make_directory(b"/d", 0o755, None).unwrap().object;
        client
            .set_attributes_noting(directory, times(), &mut noted)
            .unwrap();
        one = Some((client, file, directory));
    });
    let (mut before, mut file, directory) = one.unwrap();
    let what = "set its times, mode and owner again";
    on_boots(&configuration, [2, 1, 1], || {
        let error = before.fsync(&mut file).unwrap_err();
        assert_eq!(error.errno, Errno::EIO, "{error}");
        let text = error.to_string();
        assert!(text.contains(what) && !text.contains("write"), "{text}");
        before.fsync(&mut file).unwrap();
        let mut other = client(&configuration);
        let error = other.sync_directory(directory, &mut noted).unwrap_err();
        assert_eq!(error.errno, Errno::EIO, "{error}");
        other.sync_directory(directory, &mut noted).unwrap();
        before.set_attributes_of(&mut file, times()).unwrap();
        before.write_at(&mut file, 0, &pattern(1, 300_000)).unwrap();
    });
    on_boot(&configuration, 3, || {
        let text = before.fsync(&mut file).unwrap_err().to_string();
        assert!(text.contains(what) && text.contains("truncate"), "{text}");
        before.fsync(&mut file).unwrap();
    });
}

/// A boot that nobody has noticed before the file is changed has lost nothing of it.
#[test]
fn fsync_does_not_report_a_boot_from_before_the_change() {
    for tcp in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let shape = Shape {
            tcp,
            ..Shape::default()
        };
        let configuration = configuration(&shape, directory.path());
        format_all(&configuration);
        let mut one = None;
        on_boot(&configuration, 1, || {
            let mut client = client(&configuration);
            let mut made = |name: &[u8], len| {
                let mut file = client.create(name, &CreateOptions::default()).unwrap();
                client.write_at(&mut file, 0, &pattern(1, len)).unwrap();
                client.fsync(&mut file).unwrap();
                file
            };
            let files = [made(b"/small", 7), made(b"/large", 300_000)];
            one = Some((client, files));
        });
        let (mut client, mut files) = one.unwrap();
        for (boot, change) in [(2, 0), (3, 1), (4, 2), (5, 3), (6, 4)] {
            on_boot(&configuration, boot, || {
                for file in &mut files {
                    match change {
                        0 => client.write_at(file, 0, &pattern(2, 7)).unwrap(),
                        1 => client.set_attributes_of(file, times()).unwrap(),
                        2 => client.truncate(file, 5).unwrap(),
                        3 => drop(client.append(file, &pattern(3, 7)).unwrap()),
                        _ => {
                            let part = Region { offset: 1, len: 2 };
                            let zero = Allocation::Zero;
                            client.allocate_part(file, part, zero, false).unwrap();
                        }
                    }
                    client.fsync(file).unwrap();
                }
            });
        }
        // The next one is noticed.
        on_boot(&configuration, 7, || {
            for file in &mut files {
                client.write_at(file, 0, &pattern(2, 7)).unwrap();
            }
        });
        on_boot(&configuration, 8, || {
            for file in &mut files {
                client.write_at(file, 0, &pattern(2, 7)).unwrap();
                let error = client.fsync(file).unwrap_err();
                assert_eq!(error.errno, Errno::EIO, "{error}");
                client.fsync(file).unwrap();
            }
        });
    }
}
