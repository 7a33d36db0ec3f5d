//! Well-formed bytes of methods on connections, in datagrams and in shared rings.

use causeway_wire::codec::Wire;
use causeway_wire::formats::Formats;
use causeway_wire::node::{Certificate, files};
use causeway_wire::user::User;
use causeway_wire::{agent, atomic, datagram, shm, tcp, vi};

pub(in crate::decoders) fn virtual_interfaces() -> Vec<Vec<u8>> {
    let header = vi::FrameHeader {
        flags: vi::flag::SEQUENCED | vi::flag::ACK,
        to_vi: 1,
        total: 4096,
        ..vi::FrameHeader::new(vi::FrameKind::Write)
    };
    let control = vi::Control {
        segments: 2,
        bits: vi::control::IMMEDIATE,
        ..vi::Control::default()
    };
    let completion = vi::Completion {
        descriptor: 64,
        vi: 3,
        receive: true,
        round: true,
    };
    vec![
        header.to_bytes().to_vec(),
        control.to_bytes().to_vec(),
        completion.to_bytes().to_vec(),
    ]
}

pub(in crate::decoders) fn openings() -> Vec<Vec<u8>> {
    let hello = tcp::Hello {
        formats: tcp::FORMATS,
        auth: tcp::Auth::SameUser,
        encrypt: true,
        holder: tcp::Holder {
            pid: 1234,
            descriptor: 5,
        },
        fast_aes: true,
        nodes: false,
        connections: 2,
        purpose: tcp::Purpose::Subflow,
    };
    let steps = [
        (tcp::StepKind::Noise, tcp::Refusal::None, &[7_u8; 48][..]),
        (tcp::StepKind::Accept, tcp::Refusal::None, b""),
        (tcp::StepKind::Refuse, tcp::Refusal::WrongKey, b""),
    ];
    let keyed = tcp::Hello {
        auth: tcp::Auth::ClusterKey,
        encrypt: false,
        holder: tcp::Holder::drawn([9; 8]),
        ..hello
    };
    let node = tcp::Hello {
        formats: Formats::only(tcp::NODES_FROM),
        nodes: true,
        ..keyed
    };
    (steps.into_iter())
        .flat_map(|step| [(hello, step), (keyed, step), (node, step)])
        .map(|(hello, (kind, refusal, payload))| {
            let mut bytes = hello.encode().to_vec();
            let step = tcp::Step {
                kind,
                refusal,
                payload,
            };
            step.encode(&mut bytes);
            step.encode(&mut bytes);
            bytes
        })
        .collect()
}

pub(in crate::decoders) fn datagrams() -> Vec<Vec<u8>> {
    let prefix = |kind| datagram::Prefix {
        kind,
        to: 1,
        from: 2,
    };
    let mut greeting = Vec::new();
    datagram::Greeting {
        formats: datagram::FORMATS,
        cookie: [3; datagram::COOKIE_BYTES],
        noise: [4; datagram::NOISE_BYTES],
        ..Default::default()
    }
    .encode(prefix(datagram::Kind::Open), &mut greeting);
    let mut reset = Vec::new();
    datagram::encode_reset(1, 2, &mut reset);
    let ack = datagram::Ack {
        delay_us: 5,
        largest: 6,
        bitmap: [7; datagram::BITMAP_WORDS],
        received: 8,
        limit: 9,
    };
    let segment = |ack, offset, data| datagram::Segment {
        wants_ack: true,
        ack,
        offset,
        data,
    };
    let mut all = vec![greeting, reset];
    for segment in [segment(Some(ack), 0, &[]), segment(None, 10, b"data")] {
        let mut bytes = Vec::new();
        datagram::begin_segment(prefix(datagram::Kind::Plain), 11, &mut bytes);
        segment.encode_head(&mut bytes);
        bytes.extend_from_slice(segment.data);
        // Without its checksum, which the body adds.
        all.push(bytes.clone());
        all.push(bytes.split_off(datagram::PREFIX_BYTES + 8));
    }
    all
}

pub(in crate::decoders) fn frames() -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    for base in [4096, 8192] {
        let fragment = tcp::Fragment {
            key: 9,
            base,
            len: 100,
        };
        list.extend(fragment.encode());
    }
    let frame = |header: tcp::Header, payload: &[u8]| {
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    };
    let swap = atomic::Operation::CompareSwap {
        expected: 1,
        new: 2,
    };
    let swap = swap.to_bytes();
    let refused = atomic::Outcome::Protection.to_bytes();
    let mut put = tcp::Header::new(tcp::Kind::Put, 5).with_id(1);
    (put.key, put.base) = (9, 4096);
    let mut all = vec![
        frame(tcp::Header::new(tcp::Kind::Packet, 5), b"hello"),
        frame(put, b"bytes"),
        frame(
            tcp::Header::new(tcp::Kind::PutEnd, 4)
                .with_id(1)
                .with_base(5)
                .with_flag(true),
            b"done",
        ),
        frame(tcp::Header::new(tcp::Kind::PutDone, 0).with_id(1), b""),
        frame(
            tcp::Header::new(tcp::Kind::Get, list.len()).with_id(2),
            &list,
        ),
        frame(tcp::Header::new(tcp::Kind::GetData, 3).with_id(2), b"abc"),
        frame(
            tcp::Header::new(tcp::Kind::GetDone, 0)
                .with_id(2)
                .with_base(3),
            b"",
        ),
        frame(
            tcp::Header::new(tcp::Kind::Invite, 0)
                .with_id(7)
                .with_base(1),
            b"",
        ),
        frame(
            tcp::Header::new(tcp::Kind::Atomic, swap.len())
                .with_id(4)
                .with_base(1 << 40),
            &swap,
        ),
        frame(
            tcp::Header::new(tcp::Kind::AtomicDone, refused.len()).with_id(4),
            &refused,
        ),
        frame(tcp::Header::new(tcp::Kind::Probe, 0), b""),
        frame(tcp::Header::new(tcp::Kind::ProbeReply, 0), b""),
        frame(tcp::Header::new(tcp::Kind::Goodbye, 0), b""),
        frame(tcp::Header::new(tcp::Kind::Error, 3), b"why"),
        tcp::record::encode(100).to_vec(),
    ];
    all.push(all.concat());
    all
}

/// Frames on the first connection, and data on the other.
pub(in crate::decoders) fn session_streams() -> Vec<Vec<u8>> {
    // The session's address of the first byte of every export.
    const FIRST_BASE: u64 = 1 << 40;
    let mut put = tcp::Header::new(tcp::Kind::Put, 5)
        .with_id(1)
        .with_base(FIRST_BASE);
    put.key = 9;
    let end = tcp::Header::new(tcp::Kind::PutEnd, 4)
        .with_id(1)
        .with_base(10)
        .with_flag(true);
    let data = [&put.encode()[..], b"bytes"].concat();
    let end = [&end.encode()[..], b"done"].concat();
    // The session that is fed has requested 3,000 bytes under this number.
    let got = tcp::Header::new(tcp::Kind::GetData, 3000).with_id(3);
    let got = [&got.encode()[..], &[7; 3000]].concat();
    let done = tcp::Header::new(tcp::Kind::GetDone, 0)
        .with_id(3)
        .with_base(3000)
        .encode();
    let switch = [0xfe_u8];
    let mut all = frames();
    all.push([&data[..], &end[..], &switch[..], &data[..]].concat());
    all.push([&done[..], &switch[..], &got[..]].concat());
    all.push([&got[..], &done[..], &data[..]].concat());
    // Packets that are large enough to be placed; the placement of one of them is cancelled.
    let packet = tcp::Header::new(tcp::Kind::Packet, 12_000).encode();
    let packet = [&packet[..], &[4; 12_000]].concat();
    let (front, back) = packet.split_at(2000);
    let (back, last) = back.split_at(9000);
    all.push([front, &switch, &switch, back, &switch, &switch, last].concat());
    all.push([front, &switch, &data, &switch, back, last].concat());
    all
}

fn process() -> shm::ProcessInfo {
    shm::ProcessInfo {
        incarnation: 0x0123_4567_89ab_cdef,
        doorbell_bit: 3,
        probe_address: 0x7fff_0000,
        probe_value: 11,
    }
}

fn certificate() -> Certificate {
    Certificate {
        serial: 1,
        expires: u64::MAX,
        key: [2; 32],
        authority: [3; 32],
        name: "node7".into(),
        roles: vec!["client".into(), "io3".into()],
        signature: [4; 64],
    }
}

pub(in crate::decoders) fn certificates() -> Vec<Vec<u8>> {
    vec![certificate().to_bytes()]
}

pub(in crate::decoders) fn agent_messages() -> Vec<Vec<u8>> {
    let hello = |auth| {
        let hello = tcp::Hello {
            formats: Formats::only(tcp::USERS_FROM),
            auth,
            encrypt: true,
            holder: tcp::Holder::drawn([5; 8]),
            fast_aes: true,
            nodes: false,
            connections: 1,
            purpose: tcp::Purpose::Peer,
        };
        hello.encode()
    };
    let open = |auth| {
        let open = agent::Open {
            formats: agent::FORMATS,
            address: "tcp://node1:7440".to_owned(),
            ours: hello(auth),
            theirs: hello(auth),
        };
        agent::Request::Open(open).to_bytes()
    };
    let done = agent::Done {
        last: vec![9; 48],
        ours: [1; 32].into(),
        theirs: [2; 32].into(),
        node: Some(certificate()),
    };
    let user = User {
        uid: 1000,
        gid: 100,
        groups: vec![100, 27],
    };
    vec![
        open(tcp::Auth::ClusterKey),
        open(tcp::Auth::SameUser),
        agent::Request::PeerStep(vec![3; 48]).to_bytes(),
        agent::Reply::SendStep(vec![4; 48]).to_bytes(),
        agent::Reply::Done(done).to_bytes(),
        agent::Reply::Refused("because".to_owned()).to_bytes(),
        agent::Reply::Busy("later".to_owned()).to_bytes(),
        user.to_bytes(),
    ]
}

pub(in crate::decoders) fn node_files() -> Vec<Vec<u8>> {
    let digits = "0123456789abcdef".repeat(4);
    let revoked = files::Revoked {
        entries: vec![(7, "node7".into()), (8, "io-9".into())],
    };
    let register = files::Register {
        certificates: vec![certificate(); 2],
    };
    [
        format!("{}{digits}\n", files::NodeFile::head(&certificate())),
        format!("{}{digits}\n", files::AuthorityFile::head()),
        revoked.to_text(),
        register.to_text(),
    ]
    .map(String::into_bytes)
    .into()
}

pub(in crate::decoders) fn shm_records() -> Vec<Vec<u8>> {
    [
        shm::Record::Hello(shm::Hello {
            formats: shm::FORMATS,
            flags: shm::FLAG_MEMBARRIER | shm::FLAG_KEYED,
            ring_bytes: 32 << 10,
            region_slots: 1024,
            nonce: 3,
            process: process(),
        }),
        shm::Record::Welcome(shm::Welcome {
            formats: shm::FORMATS,
            flags: 0,
            process: process(),
        }),
        shm::Record::Refused {
            reason: "another version".into(),
            why: shm::RefuseReason::Full,
        },
        shm::Record::Wake,
        shm::Record::Goodbye,
        shm::Record::Object {
            object: 5,
            base: u64::MAX,
            len: 4096,
        },
        shm::Record::ObjectUnmapped { object: 5 },
        shm::Record::ObjectFreed { object: 5 },
        shm::Record::Bulk,
        shm::Record::Challenge(shm::Challenge {
            nonce: 4,
            proof: shm::Proof([5; shm::PROOF_BYTES]),
        }),
        shm::Record::Proof(shm::Proof([6; shm::PROOF_BYTES])),
        shm::Record::Node(vec![7; 100]),
    ]
    .iter()
    .map(Wire::to_bytes)
    .collect()
}

pub(in crate::decoders) fn rings() -> Vec<Vec<u8>> {
    let word = shm::SlotWord {
        kind: shm::SlotKind::Internal,
        len: 40,
    };
    let fragment = |base| shm::CopyFragment {
        key: 9,
        base,
        len: 100,
    };
    [
        shm::Internal::Copy(shm::CopyRequest {
            piece: 2,
            into_regions: true,
            fragments: vec![fragment(4096), fragment(8192)],
        }),
        shm::Internal::Copied {
            piece: 1,
            outcome: shm::CopyOutcome::Done,
        },
        shm::Internal::Copied {
            piece: 0,
            outcome: shm::CopyOutcome::Protection,
        },
        shm::Internal::Atomic(shm::AtomicRequest {
            id: 1,
            key: 4096,
            base: 8192,
            operation: atomic::Operation::FetchAdd(1),
        }),
        shm::Internal::AtomicDone {
            id: 1,
            outcome: atomic::Outcome::Old(9),
        },
        shm::Internal::AtomicDone {
            id: 2,
            outcome: atomic::Outcome::Misaligned,
        },
    ]
    .iter()
    .map(|packet| {
        let mut bytes = word.pack().to_le_bytes().to_vec();
        bytes.extend(packet.to_bytes());
        bytes
    })
    .collect()
}
