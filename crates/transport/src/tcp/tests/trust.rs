//! Trust: which processes may connect to which.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::support::*;
use crate::error::{Error, PeerError};
use crate::method::{Identity, Method};
use crate::tcp::TcpConfig;
use crate::tcp::handshake::{Agreement, Handshake, HandshakeConfig, Protection, Role};
use causeway_wire::formats::Formats;
use causeway_wire::tcp::{
    HELLO_BYTES, Holder, RECORD_TAG_BYTES, Refusal, STEP_HEADER_BYTES, StepKind, record,
};

/// Outcome of an attempt to connect: the client's error; the server must report no event.
fn refused(client: TcpConfig, server: TcpConfig) -> PeerError {
    let (mut client, mut server) = (Node::new(client), Node::new(server));
    let address = server.listen();
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[b"let me in"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.downs.is_empty()
    });
    for_a_while(&mut [&mut client, &mut server], 20);
    assert!(server.seen.ups.is_empty() && server.seen.packets.is_empty());
    assert_eq!(server.tcp.half_open.len(), 0);
    client.seen.downs.remove(0).1
}

fn reason(cause: PeerError) -> String {
    match cause {
        PeerError::Unauthorised(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_keys_and_missing_keys_are_refused_with_the_reason() {
    let mut other = keyed(true);
    other.key = Some([0x43; 32].into());
    assert!(reason(refused(other.clone(), keyed(true))).contains("another cluster key"));
    assert!(reason(refused(keyed(false), other)).contains("another cluster key"));
    assert!(reason(refused(plain(), keyed(true))).contains("demands the cluster's key"));
    assert!(reason(refused(keyed(true), plain())).contains("has no cluster key"));
}

#[test]
fn encryption_is_on_if_either_side_wants_it() {
    for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let (client, server, peer) = pair(keyed(ours), keyed(theirs));
        let expected = match ours || theirs {
            true => "on",
            false => "off: neither side requests it; data is authenticated",
        };
        for (node, peer) in [(&client, peer), (&server, server.seen.ups[0])] {
            let report = node.tcp.report(peer).unwrap();
            let fact = report.facts.iter().find(|fact| fact.0 == "encryption");
            assert_eq!(fact.unwrap().1, expected);
            assert_eq!(node.tcp.identity(peer), Some(Identity::Keyed));
        }
    }
}

#[test]
fn without_a_key_the_kernel_names_the_user_of_the_peer() {
    let (client, server, peer) = pair(plain(), plain());
    let me = Identity::SocketOf {
        pid: std::process::id() as i32,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
    };
    assert_eq!(client.tcp.identity(peer), Some(me));
    assert_eq!(server.tcp.identity(server.seen.ups[0]), Some(me));
}

#[test]
fn without_a_key_only_loopback_addresses_are_used() {
    let mut node = Node::new(plain());
    for text in ["tcp://0.0.0.0:0", "tcp://192.0.2.1:80"] {
        let address = text.parse().unwrap();
        let errors = [
            node.tcp.listen(&address).map(|_| ()).unwrap_err(),
            node.tcp
                .connect(Instant::now(), &address)
                .map(|_| ())
                .unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, Error::BadAddress { .. }), "{error}");
            assert!(error.to_string().contains("cluster key"), "{error}");
        }
    }
    assert!(
        Node::new(keyed(true))
            .tcp
            .listen(&"tcp://0.0.0.0:0".parse().unwrap())
            .is_ok()
    );
}

#[test]
fn encrypted_records_cannot_be_read_and_an_altered_one_ends_the_connection() {
    let mut server = Node::new(keyed(true));
    let address = server.listen();
    let (mut stream, protection) = agreed(&mut server, address.rest(), true);
    let Protection::Encrypted(mut ciphers) = protection else {
        panic!("not encrypted");
    };
    let frame = packet_frame(b"attack at dawn");
    let mut record = vec![0; 2 + frame.len() + 16];
    let len = ciphers.encrypt(&frame, &mut record[2..]).unwrap();
    record[..2].copy_from_slice(&(len as u16).to_le_bytes());
    assert!(!record.windows(6).any(|window| window == b"attack"));
    stream.write_all(&record).unwrap();
    until(&mut [&mut server], |nodes| {
        !nodes[0].seen.packets.is_empty()
    });
    assert_eq!(server.seen.packets[0].1, b"attack at dawn");
    // The same bytes again are a replay.
    stream.write_all(&record).unwrap();
    until(&mut [&mut server], |nodes| !nodes[0].seen.downs.is_empty());
    assert!(matches!(&server.seen.downs[0].1, PeerError::Protocol(_)));
    assert_eq!(server.seen.packets.len(), 1);
}

/// Changes by a peer that holds the key, or by an attacker on the path, to an authenticated connection: forged frames without
/// a tag, altered, repeated and left out records.
#[test]
fn authenticated_records_cannot_be_forged_altered_repeated_or_left_out() {
    for attack in ["bare frame", "altered", "repeated", "left out", "no tag"] {
        let mut server = Node::new(keyed(false));
        let address = server.listen();
        let (mut stream, protection) = agreed(&mut server, address.rest(), false);
        let Protection::Authenticated(keys) = protection else {
            panic!("not authenticated");
        };
        let record = |number: u64, text: &[u8]| {
            let frame = packet_frame(text);
            let tag = keys.tag(number, &frame);
            let prefix = record::encode(frame.len() + tag.len());
            [&prefix[..], &frame, &tag].concat()
        };
        let first = record(0, b"attack at dawn");
        assert!(
            first.windows(6).any(|window| window == b"attack"),
            "it can be read"
        );
        stream.write_all(&first).unwrap();
        until(&mut [&mut server], |nodes| {
            !nodes[0].seen.packets.is_empty()
        });
        assert_eq!(server.seen.packets[0].1, b"attack at dawn");
        let forged = match attack {
            "bare frame" => packet_frame(b"attack at noon"),
            "altered" => {
                let mut altered = record(1, b"attack at dawn");
                let end = altered.len() - RECORD_TAG_BYTES;
                altered[end - 4..end].copy_from_slice(b"noon");
                altered
            }
            "repeated" => first,
            "left out" => record(2, b"attack at noon"),
            _ => {
                let frame = packet_frame(b"attack at noon");
                [&record::encode(frame.len())[..], &frame].concat()
            }
        };
        stream.write_all(&forged).unwrap();
        until(&mut [&mut server], |nodes| !nodes[0].seen.downs.is_empty());
        let down = &server.seen.downs[0].1;
        assert!(matches!(down, PeerError::Protocol(_)), "{attack}: {down:?}");
        assert_eq!(server.seen.packets.len(), 1, "{attack}");
    }
}

/// A build of format 5 without encryption would send records that an attacker can forge: the other side requires encryption.
#[test]
fn a_peer_that_cannot_authenticate_records_encrypts_them() {
    let old = Formats::only(5);
    for (encrypt, other) in [(true, 0), (false, 0), (true, 1), (false, 1)] {
        let mut sides = [false, false].map(|wanted| HandshakeConfig {
            encrypt: wanted,
            ..with_key([true, true])[0].clone()
        });
        sides[other].formats = old;
        sides[other].encrypt = encrypt;
        let (agreements, _) = talk(sides, |_| {});
        for agreed in agreements {
            let protection = agreed.unwrap().protection;
            assert!(matches!(protection, Some(Protection::Encrypted(_))));
        }
    }
}

/// An attacker on the path cannot turn off wanted encryption or authentication.
#[test]
fn an_attacker_on_the_path_cannot_choose_the_protection() {
    for wanted in [[true, true], [true, false], [false, true], [false, false]] {
        let sides = || {
            wanted.map(|encrypt| HandshakeConfig {
                encrypt,
                ..with_key([true, true])[0].clone()
            })
        };
        let (agreements, _) = talk(sides(), |_| {});
        for agreed in agreements {
            let encrypted = match agreed.unwrap().protection.unwrap() {
                Protection::Encrypted(_) => true,
                Protection::Authenticated(_) => false,
            };
            assert_eq!(encrypted, wanted.contains(&true));
        }
        // What the caller wants, as format 5 and as format 6 have it; that it holds a key; that it speaks format 6.
        for (at, bit) in [(11, 1), (12, 1), (10, 1), (23, 2)] {
            let (agreements, _) = talk(sides(), |hello| hello[at] ^= bit);
            assert!(agreements.iter().all(Option::is_none), "byte {at}");
        }
    }
}

#[test]
fn a_recorded_handshake_proves_nothing() {
    for encrypt in [true, false] {
        let mut server = Node::new(keyed(encrypt));
        let address = server.listen();
        // An honest initiator's messages, recorded.
        let mut honest = Handshake::new(
            Role::Initiator,
            config(Some([0x42; 32]), encrypt, Holder::default()),
        );
        let mut recorded = vec![honest.take_output()];
        let mut responder = Handshake::new(
            Role::Responder,
            config(Some([0x42; 32]), encrypt, Holder::default()),
        );
        for _ in 0..2 {
            responder
                .input(recorded.last().unwrap(), &mut |_| Ok(()))
                .unwrap();
            honest
                .input(&responder.take_output(), &mut |_| Ok(()))
                .unwrap();
            recorded.push(honest.take_output());
        }
        assert!(
            responder
                .input(&recorded[2], &mut |_| Ok(()))
                .unwrap()
                .is_some()
        );
        let mut thief = TcpStream::connect(address.rest()).unwrap();
        for message in &recorded {
            // The server may have closed the connection already.
            let _ = thief.write_all(message);
            for_a_while(&mut [&mut server], 20);
        }
        let _ = thief.write_all(&packet_frame(b"forged"));
        for_a_while(&mut [&mut server], 50);
        assert!(server.seen.ups.is_empty() && server.seen.packets.is_empty());
        assert_eq!(server.tcp.half_open.len(), 0);
    }
}

/// Connects by hand as a holder of the key that wants encryption or not, and comes up.
fn agreed(server: &mut Node, at: &str, encrypt: bool) -> (TcpStream, Protection) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut handshake = Handshake::new(
        Role::Initiator,
        config(Some([0x42; 32]), encrypt, Holder::default()),
    );
    stream.write_all(&handshake.take_output()).unwrap();
    let mut agreement = None;
    let mut buffer = [0; 1000];
    while server.seen.ups.is_empty() {
        server.poll();
        if let Ok(count) = stream.read(&mut buffer) {
            let step = handshake.input(&buffer[..count], &mut |_| Ok(())).unwrap();
            agreement = agreement.or(step);
            stream.write_all(&handshake.take_output()).unwrap();
        }
    }
    (stream, agreement.unwrap().protection.unwrap())
}

/// Lets two handshakes talk, changing the initiator's hello on the way; returns what each side agrees on, and the errors
/// of the initiator and of the responder.
fn talk(
    sides: [HandshakeConfig; 2],
    change: impl Fn(&mut Vec<u8>),
) -> ([Option<Agreement>; 2], [Option<PeerError>; 2]) {
    let [initiator, responder] = sides;
    let mut initiator = Handshake::new(Role::Initiator, initiator);
    let mut responder = Handshake::new(Role::Responder, responder);
    let (mut agreements, mut errors) = ([None, None], [None, None]);
    let mut bytes = initiator.take_output();
    change(&mut bytes);
    for _ in 0..3 {
        match responder.input(&bytes, &mut |_| Ok(())) {
            Ok(agreed) => agreements[1] = agreed,
            Err(error) => errors[1] = Some(error),
        }
        match initiator.input(&responder.take_output(), &mut |_| Ok(())) {
            Ok(agreed) => agreements[0] = agreements[0].take().or(agreed),
            Err(error) => errors[0] = Some(error),
        }
        if errors.iter().any(Option::is_some) {
            break;
        }
        bytes = initiator.take_output();
    }
    (agreements, errors)
}

/// The terms of two sides with a key, whose processors are fast at AES or not.
fn with_key(fast_aes: [bool; 2]) -> [HandshakeConfig; 2] {
    fast_aes.map(|fast_aes| HandshakeConfig {
        fast_aes,
        ..config(Some([0x42; 32]), true, Holder::default())
    })
}

#[test]
fn processors_without_aes_agree_on_another_cipher() {
    for fast_aes in [[true, true], [true, false], [false, true], [false, false]] {
        let ([one, other], _) = talk(with_key(fast_aes), |_| {});
        let [mut one, mut other] = [one, other].map(|agreed| match agreed.unwrap().protection {
            Some(Protection::Encrypted(ciphers)) => ciphers,
            protection => panic!("not encrypted: {protection:?}"),
        });
        let (mut sealed, mut opened) = ([0; 100], [0; 100]);
        let len = one.encrypt(b"quiet", &mut sealed).unwrap();
        let len = other.decrypt(&sealed[..len], &mut opened).unwrap();
        assert_eq!(&opened[..len], b"quiet");
    }
}

#[test]
fn builds_that_share_a_format_understand_each_other_and_others_name_both() {
    for keyed in [true, false] {
        for (lowest, above, fits) in [
            (1, 3, false),
            (4, 0, false),
            (4, 1, true),
            (5, 0, true),
            (5, 7, true),
            (1, 254, true),
            (6, 0, true),
            (6, 2, true),
            (7, 2, true),
            (8, 2, true),
            (9, 2, false),
        ] {
            let theirs = Formats::stated(lowest, above).unwrap();
            for other in [0, 1] {
                let mut sides = match keyed {
                    true => with_key([true, true]),
                    false => [(); 2].map(|()| config(None, false, Holder::default())),
                };
                sides[other].formats = theirs;
                let (agreements, errors) = talk(sides, |_| {});
                assert!(agreements.iter().all(|agreed| agreed.is_some() == fits));
                if fits {
                    continue;
                }
                for error in errors {
                    let said = error.unwrap().reason();
                    for part in [&theirs.to_string(), "formats 5 to 8", "run builds"] {
                        assert!(said.contains(part), "{theirs}: {said}");
                    }
                }
            }
        }
    }
}

/// The first bytes of a caller of format 4, as it sent them.
#[test]
fn a_caller_of_format_4_is_refused_for_its_format() {
    let mut responder = Handshake::new(Role::Responder, config(None, false, Holder::default()));
    let hello = b"causeway\x04\x00\x00\x00\x01\0\0\0\x02\0\0\0\x01\x04\0\0";
    let error = responder.input(hello, &mut |_| Ok(())).unwrap_err();
    let said = error.reason();
    assert!(
        said.contains("format 4") && said.contains("formats 5 to 8"),
        "{said}"
    );
    let reply = responder.take_output();
    assert_eq!(reply[..9], *b"causeway\x05");
    assert_eq!(reply[23], 3);
    assert_eq!(reply[24..], [3, 1, 0, 0]);
}

#[test]
fn invalid_formats_end_the_handshake() {
    for (at, value) in [(8, 0), (9, 1), (23, 251)] {
        let (agreements, [_, responder]) = talk(with_key([true, true]), |hello| hello[at] = value);
        assert!(agreements.iter().all(Option::is_none), "byte {at}");
        assert!(matches!(responder, Some(PeerError::Protocol(_))));
    }
}

#[test]
fn nobody_on_the_way_chooses_the_cipher_the_connections_or_the_format() {
    for (at, bit) in [(20, 1), (20, 2), (21, 2), (23, 1), (23, 2)] {
        let (agreements, _) = talk(with_key([true, true]), |hello| hello[at] ^= bit);
        assert!(agreements.iter().all(Option::is_none), "byte {at}");
    }
}

/// A recorded greeting costs its target no key exchange, and gets no reply that only a holder of the key should get.
#[test]
fn a_recording_of_another_handshake_is_refused_at_once() {
    let mut server = Node::new(keyed(true));
    let address = server.listen();
    let greet = |server: &mut Node, hello: &[u8]| -> (TcpStream, Vec<u8>) {
        let mut stream = TcpStream::connect(address.rest()).unwrap();
        stream.write_all(hello).unwrap();
        stream.set_nonblocking(true).unwrap();
        let theirs = received(server, &mut stream, HELLO_BYTES);
        (stream, theirs)
    };
    let config = config(Some([0x42; 32]), true, Holder::default());
    let mut caller = Handshake::new(Role::Initiator, config);
    let hello = caller.take_output();
    let (mut stream, theirs) = greet(&mut server, &hello);
    let _ = caller.input(&theirs, &mut |_| Ok(())).unwrap();
    let noise = caller.take_output();
    stream.write_all(&noise).unwrap();
    let step = received(&mut server, &mut stream, STEP_HEADER_BYTES);
    let kind = |header: &[u8]| (header[0], header[1]);
    assert_eq!(kind(&step), (StepKind::Noise as u8, Refusal::None as u8));
    // The same bytes to another connection.
    let (mut stream, _) = greet(&mut server, &hello);
    stream.write_all(&noise).unwrap();
    let step = received(&mut server, &mut stream, STEP_HEADER_BYTES);
    assert_eq!(
        kind(&step),
        (StepKind::Refuse as u8, Refusal::WrongKey as u8)
    );
}

/// The next `len` bytes from a server of this test.
fn received(server: &mut Node, stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let (mut bytes, mut got) = (vec![0; len], 0);
    until(&mut [server], |_| {
        match stream.read(&mut bytes[got..]) {
            Ok(count) => got += count,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        got == len
    });
    bytes
}
