//! Well-formed messages about windows, and between the leaders of groups that meet.

use causeway_wire::codec::Wire;
use causeway_wire::contact::{Contact, FORMATS, LeaderMessage, Member};
use causeway_wire::window::{Access, Notice, Run};

pub(in crate::decoders) fn window_notices() -> Vec<Vec<u8>> {
    let access = Access {
        window: 2,
        operation: 0x21,
        datatype: 0x244,
        reply: 7,
        at: 16,
        runs: vec![
            Run {
                offset: -8,
                count: 1,
            },
            Run {
                offset: 64,
                count: 3,
            },
        ],
        data: vec![1; 16],
    };
    let notices = [
        Notice::Access(access),
        Notice::Data {
            reply: 7,
            at: 16,
            data: vec![2; 16],
        },
        Notice::Done { count: 9 },
        Notice::Refused {
            window: 2,
            reply: 7,
            offset: -8,
        },
        Notice::Lock {
            window: 2,
            exclusive: true,
        },
        Notice::Unlock { window: 2 },
        Notice::Granted { window: 2 },
        Notice::Posted { window: 2 },
        Notice::Completed { window: 2 },
        Notice::Free { window: 2 },
        Notice::Broken { window: 2, rank: 1 },
        Notice::Hello,
    ];
    notices.iter().map(Wire::to_bytes).collect()
}

pub(in crate::decoders) fn meetings() -> Vec<Vec<u8>> {
    let member = |rank| Member {
        number: 3 + rank,
        contact: Contact {
            world: 0x1122_3344_5566_7788,
            rank,
            host: "boot/net/mnt".into(),
            near: format!("shm:///run/{rank}"),
            far: "tcp://10.0.0.1:4711,tcp://10.1.0.1:4711".into(),
            formats: FORMATS,
        },
    };
    let call = LeaderMessage::Call {
        reply: 9,
        root: 1,
        group: vec![member(0), member(1)],
    };
    let group = LeaderMessage::Group(vec![member(0)]);
    let refused = LeaderMessage::Refused("nobody has this port".into());
    Vec::from([call, group, refused].map(|meeting| meeting.to_bytes()))
}
