//! Connections of users for whom an agent speaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_sys::socket::{Accepted, Received, RecordListener, RecordSocket};
use causeway_wire::agent::{MAX_MESSAGE_BYTES, Request};
use causeway_wire::codec::Wire as _;
use causeway_wire::user::User;

use super::support::*;
use crate::agent::{Agent, AgentHandshake, Credentials};
use crate::method::{Identity, Method, Peer};
use crate::tcp::TcpConfig;

const USER: User = User {
    uid: 1234,
    gid: 55,
    groups: Vec::new(),
};

/// An agent in a thread, that speaks for [`USER`], also for other callers.
struct Speaking {
    config: TcpConfig,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    directory: std::path::PathBuf,
}

impl Speaking {
    fn start(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("causeway-users-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("agent.sock");
        let listener = RecordListener::bind(&socket).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let credentials = Credentials {
            key: keyed(true).key.unwrap(),
            nodes: None,
        };
        let config = TcpConfig {
            agent: Some(Agent {
                socket,
                nodes: false,
            }),
            ..plain()
        };
        Self {
            config,
            over,
            thread: Some(std::thread::spawn(move || {
                serve(listener, &credentials, &is_over);
            })),
            directory,
        }
    }

    /// A process that has called, until the server has it or has turned it away.
    fn call(&self, server: &mut Node) -> (Node, Peer) {
        let mut client = Node::new(self.config.clone());
        let address = server.listen();
        let peer = client.tcp.connect(Instant::now(), &address).unwrap();
        client.tcp.send(peer, &[b"let me in"]).unwrap();
        let ups = server.seen.ups.len();
        until(&mut [&mut client, server], |nodes| {
            nodes[1].seen.ups.len() > ups || !nodes[0].seen.downs.is_empty()
        });
        (client, peer)
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(|thread| thread.join().is_ok());
        assert!(ended == Some(true) || std::thread::panicking());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn serve(mut listener: RecordListener, credentials: &Credentials, is_over: &AtomicBool) {
    let mut calls: Vec<(RecordSocket, AgentHandshake)> = Vec::new();
    let mut room = [0; MAX_MESSAGE_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        if let Accepted::Connection(socket) = listener.accept(&[]).unwrap() {
            calls.push((socket, AgentHandshake::new(USER)));
        }
        calls.retain_mut(|(socket, handshake)| match socket.receive(&mut room) {
            Ok(Received::Record(len, _)) => {
                let request = Request::from_bytes(&room[..len]).unwrap();
                let reply = handshake.on_request(credentials, &request);
                socket.send(&reply.to_bytes(), &[]).is_ok() && !handshake.is_over()
            }
            Ok(Received::Nothing) => true,
            _ => false,
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn one_user_does_not_take_all_places_of_a_server() {
    let agent = Speaking::start("places");
    let mut server = Node::new(TcpConfig {
        max_peers: 16,
        ..keyed(true)
    });
    let (mut first, to_server) = agent.call(&mut server);
    let (_second, _) = agent.call(&mut server);
    assert_eq!(server.seen.ups.len(), 2);
    let (mut third, _) = agent.call(&mut server);
    assert_eq!(server.seen.ups.len(), 2);
    assert!(!third.seen.downs.is_empty());
    // Who holds the key is somebody else.
    let mut holder = Node::new(keyed(true));
    let address = server.listen();
    let peer = holder.tcp.connect(Instant::now(), &address).unwrap();
    holder.tcp.send(peer, &[b"let me in"]).unwrap();
    until(&mut [&mut holder, &mut server], |nodes| {
        nodes[1].seen.ups.len() == 3
    });
    // One of the user's ends.
    let mut events = std::mem::take(&mut first.seen);
    first.tcp.disconnect(Instant::now(), to_server, &mut events);
    until(&mut [&mut first, &mut server], |nodes| {
        !nodes[1].seen.downs.is_empty()
    });
    third = agent.call(&mut server).0;
    assert!(third.seen.downs.is_empty());
    assert_eq!(server.seen.ups.len(), 4);
}

#[test]
fn a_user_s_process_is_no_server_that_is_looked_up() {
    let agent = Speaking::start("address");
    let mut server = Node::new(keyed(true));
    let (_client, _) = agent.call(&mut server);
    let peer = server.seen.ups[0];
    assert_eq!(
        server.tcp.identity(peer),
        Some(Identity::OneUser { uid: 1234, gid: 55 })
    );
    let claimed = "tcp://127.0.0.1:7".parse().unwrap();
    assert_eq!(server.tcp.confirm_address(peer, &claimed), None);
}
