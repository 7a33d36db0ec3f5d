//! Packets of the message layer, rows for observers, lines to launchers.

use causeway_wire::formats::Formats;
use causeway_wire::{bmi, watch};

use super::regions::region;

pub(in crate::decoders) fn packets() -> Vec<Vec<u8>> {
    let header = |kind, regions| {
        let mut header = bmi::Header::new(kind, 7);
        header.regions = regions;
        header.credit = 64;
        header
    };
    let mut all: Vec<Vec<u8>> = [
        bmi::Kind::Written,
        bmi::Kind::Read,
        bmi::Kind::Withdraw,
        bmi::Kind::Recall,
        bmi::Kind::Credit,
        bmi::Kind::Reclaim,
        bmi::Kind::Return,
        bmi::Kind::Eager,
        bmi::Kind::Unexpected,
        bmi::Kind::Ready,
        bmi::Kind::Leave,
        bmi::Kind::Stay,
        bmi::Kind::Retract,
        bmi::Kind::Part,
    ]
    .iter()
    .map(|kind| header(*kind, 0).encode().to_vec())
    .collect();
    for highest in 1..=3 {
        let formats = Formats { lowest: 1, highest };
        all.push(formats.hello(highest > 1).encode().to_vec());
    }
    for count in 0..=2 {
        let introduction = bmi::Introduction {
            id: bmi::InstanceId(0x1234),
            addresses: (0..count).map(|n| format!("tcp://node{n}:7070")).collect(),
        };
        all.push(bmi::encode_introduction(&introduction, 4096));
    }
    for kind in [bmi::Kind::Announce, bmi::Kind::AnnounceUnexpected] {
        all.push(bmi::encode_announcement(
            header(kind, 2),
            &bmi::Announcement {
                send: 1,
                size: 8192,
                load: 0,
                regions: vec![region(false), region(true)].into(),
            },
            Vec::new(),
        ));
    }
    all.push(bmi::encode_clearance(
        header(bmi::Kind::ClearToSend, 1),
        &bmi::Clearance {
            receive: 1,
            offset: 0,
            len: 4096,
            regions: vec![region(false)].into(),
        },
        Vec::new(),
    ));
    let mut in_parts = header(bmi::Kind::Announce, 0);
    in_parts.flags = bmi::FLAG_IN_PARTS;
    let (regions, size) = (Vec::new(), 1 << 20);
    all.push(bmi::encode_announcement(
        in_parts,
        &bmi::Announcement {
            send: 1,
            size,
            load: 0,
            regions: regions.clone().into(),
        },
        Vec::new(),
    ));
    all.push(bmi::encode_clearance(
        header(bmi::Kind::ClearToSend, 0),
        &bmi::Clearance {
            receive: 1,
            offset: 0,
            len: size,
            regions: regions.into(),
        },
        Vec::new(),
    ));
    for object in [false, true] {
        let offer = bmi::Offer {
            receive: 1,
            seen: 3,
            region: region(object),
        };
        let header = header(bmi::Kind::ReadyToReceive, 1);
        all.push(bmi::encode_offer(header, &offer, Vec::new()));
    }
    all.push(bmi::send_complete(1, 8192).to_vec());
    for refusal in [
        bmi::Refusal::TooLarge { room: 5 },
        bmi::Refusal::Failed,
        bmi::Refusal::Cancelled,
    ] {
        all.push(bmi::encode_refusal(
            header(bmi::Kind::Refuse, 0),
            refusal,
            Vec::new(),
        ));
    }
    all
}

pub(in crate::decoders) fn watch_pages() -> Vec<Vec<u8>> {
    let instance = watch::InstanceRow {
        instance: 1,
        peers: 2,
        listening: "tcp://node1:7070".to_owned(),
        ..watch::InstanceRow::default()
    };
    let count = watch::Count {
        number: 3,
        bytes: 3000,
    };
    let peer = watch::PeerRow {
        instance: 1,
        peer: 2,
        phase: watch::PhaseCode::Up,
        outbound: true,
        blocked: true,
        stalled: true,
        pid: 4242,
        reports: 1,
        sent: count,
        sent_large: count,
        received: count,
        received_large: count,
        moved: count,
        credit: 12_000,
        window: 32_768,
        granted: 32_768,
        held: 0,
        sends: 1,
        unexpected_sends: 0,
        announced: 1,
        receives: 2,
        transfers: 0,
        early: 0,
        unexpected: 0,
        published_ns: 10_000_000_000,
        progress_ns: 9_000_000_000,
        waiting: Some(watch::Waiting {
            kind: watch::OpKind::Send,
            why: watch::WaitReason::Receive,
            tag: 7,
            size: 4 << 20,
            moved: 0,
            since_ns: 1_000_000_000,
        }),
        address: "shm:///run/x.sock".to_owned(),
    };
    let event = watch::LogEvent {
        at_ns: 1_700_000_000_000_000_000,
        thread: 4242,
        level: 2,
        target: "bmi.stall".to_owned(),
        text: "stalled".to_owned(),
    };
    vec![
        watch::Row::Instance(instance).encode().to_vec(),
        watch::Row::Peer(peer).encode().to_vec(),
        event.encode().to_vec(),
    ]
}

pub(in crate::decoders) fn pmi_lines() -> Vec<Vec<u8>> {
    [
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=get_result rc=0 msg=success value=host;shm:///run/1\ncmd=barrier_out\n",
        "cmd=abort exitcode=7\n",
        "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=1\nspawnssofar=1\nargcnt=0\nendcmd\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}

pub(in crate::decoders) fn run_events() -> Vec<Vec<u8>> {
    [
        "C MPI_Recv 0 1000 2500 1 7 4096\n",
        "C MPI_Barrier 1 1000 2500 - - 0\n",
        "G 4-6,0\n",
        "S 1000 3 4294967303 8 0\n",
        "R 2400 3 4294967303 8 12\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}
