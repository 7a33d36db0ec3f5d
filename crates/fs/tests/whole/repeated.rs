//! A write that is repeated after a lost connection does not undo later writes of other clients.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use causeway_fs::client::{Client, CreateOptions, File};

use crate::cluster::{Fixture, Shape, client};

/// Bytes of the file: so few that they travel inside the request.
const SIZE: usize = 4096;
const PATH: &[u8] = b"/file";

/// A relay to a server, which can discard the server's bytes, and break all connections.
#[derive(Clone, Default)]
struct Relay {
    withholds: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Starts it; returns its port as well.
    fn start(server: SocketAddr) -> (Self, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let relay = Self::default();
        let running = relay.clone();
        std::thread::spawn(move || {
            for inbound in listener.incoming() {
                let Ok(inbound) = inbound else { return };
                // Without a server the client is refused.
                if let Ok(outbound) = TcpStream::connect(server) {
                    running.join(inbound, outbound);
                }
            }
        });
        (relay, port)
    }

    fn join(&self, client: TcpStream, server: TcpStream) {
        let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        self.streams
            .lock()
            .unwrap()
            .push(client.try_clone().unwrap());
        std::thread::spawn(move || pass_on(from, to, &AtomicBool::new(false)));
        let withholds = Arc::clone(&self.withholds);
        std::thread::spawn(move || pass_on(server, client, &withholds));
    }

    fn break_all(&self) {
        self.withholds.store(false, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Passes bytes on until the stream ends, or discards them.
fn pass_on(mut from: TcpStream, mut to: TcpStream, withholds: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
    {
        if !withholds.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn read(client: &mut Client, file: &mut File) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    client.read_at(file, 0, &mut bytes).unwrap();
    bytes
}

/// One client's write is stored, but its connection breaks before the reply; another one writes over a part of it. Then
/// the first one's library sends its write again, to the same server or to one that was started again meanwhile.
fn overwritten_between(restarts: bool) {
    let mut fixture = Fixture::start(&Shape {
        servers: 1,
        tcp: true,
        ..Shape::default()
    });
    let mut direct = fixture.client();
    let options = CreateOptions {
        exclusive: true,
        mode: 0o644,
        ..CreateOptions::default()
    };
    // Longer than files that are stored beside the metadata.
    let mut file = direct.create(PATH, &options).unwrap();
    direct.write_at(&mut file, 0, &vec![1; 1 << 20]).unwrap();

    let mut through = fixture.cluster.configuration().clone();
    let index = through.servers.len() - 1;
    let address = through.servers[index].addresses[0].clone();
    let address = address.strip_prefix("tcp://").unwrap();
    let (relay, port) = Relay::start(address.parse().unwrap());
    through.servers[index].addresses = vec![format!("tcp://127.0.0.1:{port}")];
    let mut unlucky = client(&through);
    let mut same = unlucky.open(PATH).unwrap();
    assert!(read(&mut unlucky, &mut same) == [1; SIZE]);

    relay.withholds.store(true, Ordering::SeqCst);
    let writer = std::thread::spawn(move || unlucky.write_at(&mut same, 0, &[2; SIZE]));
    while read(&mut direct, &mut file) != [2; SIZE] {
        std::thread::yield_now();
    }
    direct.write_at(&mut file, 100, &[3; 1000]).unwrap();
    if restarts {
        fixture.cluster.kill(index).unwrap();
        fixture.cluster.restart(index).unwrap();
    }
    relay.break_all();
    writer.join().unwrap().unwrap();

    let mut expected = [2; SIZE];
    expected[100..1100].fill(3);
    assert!(read(&mut direct, &mut file) == expected);
}

#[test]
fn a_write_repeated_to_the_same_server_leaves_later_ones_alone() {
    overwritten_between(false);
}

#[test]
fn a_write_repeated_to_a_restarted_server_leaves_later_ones_alone() {
    overwritten_between(true);
}
