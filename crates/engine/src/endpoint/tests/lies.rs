//! Peers that report bytes as written that they have not written: earlier contents of a receive's memory never pass for
//! a message.

use causeway_transport::tcp::{Tcp, TcpConfig};
use causeway_transport::udp::{Udp, UdpConfig};
use causeway_transport::{Method, Transfer};
use causeway_wire::bmi::{self as wire, Announcement, Body, Header, Kind};

use super::raw_peer::RawPeer;
use super::*;

const SIZE: usize = 600_000;
const TAG: Tag = 9;

/// Which parts of the message the peer writes before it says that all of it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    Everything,
    EverythingBackwards,
    Nothing,
    AllButTheLastByte,
    TheFirstHalfTwice,
}

impl Writes {
    fn parts(self) -> Vec<std::ops::Range<usize>> {
        let half = SIZE / 2;
        match self {
            Self::Everything => std::iter::once(0..SIZE).collect(),
            Self::EverythingBackwards => vec![half..SIZE, 10..half, 0..20],
            Self::Nothing => vec![],
            Self::AllButTheLastByte => std::iter::once(0..SIZE - 1).collect(),
            Self::TheFirstHalfTwice => vec![0..half, 0..half],
        }
    }

    fn is_honest(self) -> bool {
        matches!(self, Self::Everything | Self::EverythingBackwards)
    }
}

/// A peer that calls an instance, and greets it in format 1.
fn greeting_peer(address: &str) -> RawPeer {
    let method: Box<dyn Method> = match address.split_once(':') {
        Some(("tcp", _)) => Box::new(Tcp::new(TcpConfig::default()).unwrap()),
        _ => Box::new(Udp::new(UdpConfig::default()).unwrap()),
    };
    let mut raw = RawPeer::over(method, address);
    raw.greet_as_first_format();
    raw
}

/// The outcome of a receive whose sender writes these parts, and the memory's contents then.
fn receive_what(scheme: &str, writes: Writes) -> (Result<u64, OpError>, Memory) {
    let config = Config {
        listen: vec![format!("{scheme}://127.0.0.1:0")],
        ..Config::default()
    };
    let mut bmi = Bmi::new(config).unwrap();
    let context = bmi.open_queue().unwrap();
    let mut node = Node {
        bmi,
        _dir: None,
        context,
        fault: None,
        done: Vec::new(),
        unexpected: Vec::new(),
    };
    let mut raw = greeting_peer(&node.bmi.listening()[0]);
    drive(&mut [&mut node], |_| {
        raw.poll();
        !raw.received.packets.is_empty()
    });
    raw.send(&Header::new(Kind::Unexpected, 1).encode());
    drive(&mut [&mut node], |nodes| {
        raw.poll();
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
    let from = node.unexpected[0].from;
    let into = Memory::from_vec(vec![0xee; SIZE]);
    node.recv(from, std::slice::from_ref(&into), TAG, 1);
    // Without regions: the receiver cannot read the message, and has the sender write it.
    let announcement = Announcement {
        send: 7,
        size: SIZE as u64,
        load: 0,
        regions: Vec::new().into(),
    };
    raw.send(&wire::encode_announcement(
        Header::new(Kind::Announce, TAG),
        &announcement,
        Vec::new(),
    ));
    let mut clearance = None;
    drive(&mut [&mut node], |_| {
        raw.poll();
        clearance = raw
            .received
            .bodies()
            .into_iter()
            .find_map(|body| match body {
                Body::Clearance(clearance) => Some(clearance),
                _ => None,
            });
        clearance.is_some()
    });
    let clearance = clearance.unwrap();
    let [region] = clearance.regions[..] else {
        panic!("one receive of one piece: {clearance:?}");
    };
    let parts = writes.parts();
    for (token, part) in parts.iter().enumerate() {
        let len = part.len();
        let transfer = Transfer {
            direction: Direction::Put,
            local: vec![Memory::from_vec(vec![0x11; len])].into(),
            remote: vec![region.part(part.start as u64, len as u64)].into(),
            registrations: Vec::new(),
            notify: None,
            token: token as u64,
        };
        raw.method.transfer(raw.to, transfer).unwrap();
    }
    drive(&mut [&mut node], |_| {
        raw.poll();
        raw.received.transfers == parts.len()
    });
    raw.send(&Header::new(Kind::Written, clearance.receive).encode());
    drive(&mut [&mut node], |nodes| {
        raw.poll();
        nodes[0].result(1).is_some()
    });
    let result = node.result(1).unwrap().clone();
    if result.is_err() {
        drive(&mut [&mut node], |_| {
            raw.poll();
            raw.received.downs > 0
        });
    }
    (result, into)
}

#[test]
fn a_message_that_was_not_written_is_not_received() {
    for scheme in ["tcp", "udp"] {
        for writes in [
            Writes::Everything,
            Writes::EverythingBackwards,
            Writes::Nothing,
            Writes::AllButTheLastByte,
            Writes::TheFirstHalfTwice,
        ] {
            let (result, into) = receive_what(scheme, writes);
            if writes.is_honest() {
                assert_eq!(result, Ok(SIZE as u64), "{scheme}, {writes:?}");
                assert!(into.to_vec().iter().all(|byte| *byte == 0x11));
                continue;
            }
            let error = result.unwrap_err();
            let is_refused = matches!(
                &error,
                OpError::Peer { cause: PeerError::Protocol(why), .. } if why.contains("has not")
            );
            assert!(is_refused, "{scheme}, {writes:?}: {error}");
        }
    }
}
