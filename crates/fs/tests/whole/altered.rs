//! Bytes that change between a server and the client are never taken for the file's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_fs::client::{Client, CreateOptions};
use causeway_wire::fs::Errno;

use crate::cluster::{Fixture, Shape, client};

/// A mark that the file consists of: the relay finds it in the stream.
const MARK: [u8; 16] = *b"--causeway-mark-";
/// Bytes of the file, more than is sent inside messages.
const SIZE: usize = 300_000;

/// A relay to a server, which flips a bit of the first mark in what the server sends, or is sent, this many times.
struct Relay {
    port: u16,
    left: Arc<AtomicU32>,
    left_to_server: Arc<AtomicU32>,
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicU32::new(0));
        let left_to_server = Arc::new(AtomicU32::new(0));
        let flips = [Arc::clone(&left), Arc::clone(&left_to_server)];
        std::thread::spawn(move || {
            for inbound in listener.incoming() {
                let (Ok(inbound), Ok(outbound)) = (inbound, TcpStream::connect(server)) else {
                    return;
                };
                let (to_server, to_client) =
                    (outbound.try_clone().unwrap(), inbound.try_clone().unwrap());
                let [from_server, from_client] = flips.clone();
                std::thread::spawn(move || relay(inbound, to_server, &from_client));
                std::thread::spawn(move || relay(outbound, to_client, &from_server));
            }
        });
        Self {
            port,
            left,
            left_to_server,
        }
    }
}

/// Passes bytes on until the stream ends.
fn relay(mut from: TcpStream, mut to: TcpStream, flips: &AtomicU32) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
    {
        let bytes = &mut buffer[..count];
        let found = bytes.windows(MARK.len()).position(|window| window == MARK);
        let takes = |left: u32| left.checked_sub(1);
        if let Some(at) = found
            && flips
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, takes)
                .is_ok()
        {
            bytes[at + 5] ^= 0x20;
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// A client that reaches the last server through a relay.
fn through_relay(fixture: &Fixture) -> (Relay, Client) {
    let mut through = fixture.cluster.configuration().clone();
    let server = through.servers.last_mut().unwrap();
    let address = server.addresses[0].strip_prefix("tcp://").unwrap();
    let relay = Relay::start(address.parse().unwrap());
    server.addresses = vec![format!("tcp://127.0.0.1:{}", relay.port)];
    (relay, client(&through))
}

#[test]
fn data_altered_in_transit_are_read_again_or_an_error() {
    let fixture = Fixture::start(&Shape {
        servers: 1,
        tcp: true,
        ..Shape::default()
    });
    let content: Vec<u8> = MARK.iter().copied().cycle().take(SIZE).collect();
    let path = b"/file";
    let options = CreateOptions {
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: Vec::new(),
    };
    let mut direct = fixture.client();
    let mut file = direct.create(path, &options).unwrap();
    direct.write_at(&mut file, 0, &content).unwrap();

    let (relay, mut client) = through_relay(&fixture);
    let mut file = client.open(path).unwrap();
    // Whole blocks, the end of the file within a block, and less than all.
    for (offset, len) in [(0, SIZE), (4096, 65_536), (8192, SIZE - 8192)] {
        let mut bytes = vec![0; len];
        let mut read = |flips: u32| {
            relay.left.store(flips, Ordering::Relaxed);
            client.read_at(&mut file, offset, &mut bytes)?;
            Ok::<_, causeway_fs::Error>(bytes == content[offset as usize..][..len])
        };
        assert!(read(0).unwrap());
        assert!(read(1).unwrap(), "a flipped bit is read again");
        assert_eq!(relay.left.load(Ordering::Relaxed), 0, "it was flipped");
        let failure = match read(u32::MAX) {
            Ok(same) => panic!("altered bytes were returned, the same as written: {same}"),
            Err(failure) => failure,
        };
        assert_eq!(failure.errno, Errno::EIO);
        let text = failure.to_string();
        assert!(
            text.contains("checksums") && text.contains("tcp://"),
            "{text}"
        );
        assert!(read(0).unwrap());
    }
}

/// With a key and without encryption an attacker on the way sees the file's bytes, and changes none, in either direction: without checksums
/// of the file system's, too.
#[test]
fn data_altered_on_an_authenticated_connection_are_discarded() {
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key");
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let shape = Shape {
        servers: 1,
        tcp: true,
        ..Shape::default()
    };
    let fixture = Fixture::start_with(&shape, |configuration| {
        configuration.key_file = Some(key);
        configuration.encrypt = false;
        configuration.checksums = false;
    });
    let content: Vec<u8> = MARK.iter().copied().cycle().take(SIZE).collect();
    let path = b"/file";
    let mut direct = fixture.client();
    let mut direct_file = direct.create(path, &CreateOptions::default()).unwrap();
    let (relay, mut client) = through_relay(&fixture);
    let mut file = client.open(path).unwrap();
    let mut bytes = vec![0; SIZE];

    relay.left_to_server.store(1, Ordering::Relaxed);
    let written = client.write_at(&mut file, 0, &content);
    assert_eq!(
        relay.left_to_server.load(Ordering::Relaxed),
        0,
        "the bytes were seen, and one was changed: {written:?}"
    );
    let read = direct.read_at(&mut direct_file, 0, &mut bytes).unwrap();
    for (at, byte) in bytes[..read].iter().enumerate() {
        let is_old = written.is_err() && *byte == 0;
        assert!(is_old || *byte == content[at], "byte {at} was changed");
    }
    assert!(written.is_err() || read == SIZE);

    direct.write_at(&mut direct_file, 0, &content).unwrap();
    let mut file = client.open(path).unwrap();
    relay.left.store(1, Ordering::Relaxed);
    bytes.fill(0);
    let read = client.read_at(&mut file, 0, &mut bytes);
    assert_eq!(relay.left.load(Ordering::Relaxed), 0, "{read:?}");
    match read {
        Ok(count) => assert!(count == SIZE && bytes == content, "changed bytes were read"),
        Err(failure) => assert!(failure.to_string().contains("tcp://"), "{failure}"),
    }
}
