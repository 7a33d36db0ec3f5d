//! Bytes that change between a server and the client are never taken for the file's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_fs::client::CreateOptions;
use causeway_wire::fs::Errno;

use crate::cluster::{Fixture, Shape, client};

/// What the file consists of: the relay finds it in the stream.
const MARK: [u8; 16] = *b"--causeway-mark-";
/// Bytes of the file, behind what is sent inside messages.
const SIZE: usize = 300_000;

/// A relay to a server, which flips a bit of the first mark in what the server sends, this many times.
struct Relay {
    port: u16,
    left: Arc<AtomicU32>,
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicU32::new(0));
        let flips = Arc::clone(&left);
        std::thread::spawn(move || {
            for inbound in listener.incoming() {
                let (Ok(inbound), Ok(outbound)) = (inbound, TcpStream::connect(server)) else {
                    return;
                };
                let (to_server, to_client) =
                    (outbound.try_clone().unwrap(), inbound.try_clone().unwrap());
                let nothing = Arc::new(AtomicU32::new(0));
                std::thread::spawn(move || relay(inbound, to_server, &nothing));
                let flips = Arc::clone(&flips);
                std::thread::spawn(move || relay(outbound, to_client, &flips));
            }
        });
        Self { port, left }
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

#[test]
fn what_changes_on_the_way_is_read_again_or_an_error() {
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

    let mut through = fixture.cluster.configuration().clone();
    let server = through.servers.last_mut().unwrap();
    let address = server.addresses[0].strip_prefix("tcp://").unwrap();
    let relay = Relay::start(address.parse().unwrap());
    server.addresses = vec![format!("tcp://127.0.0.1:{}", relay.port)];
    let mut client = client(&through);
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
