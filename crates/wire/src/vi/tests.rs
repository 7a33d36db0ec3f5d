//! Golden bytes of all structures.

use super::*;
use crate::codec::Malformed;
use crate::codec::tests::hex;

#[test]
fn a_control_segment_has_vipls_layout() {
    let value = Control {
        next: 0x1122_3344_5566_7788,
        next_handle: 0x99aa_bbcc,
        segments: 3,
        bits: 1 | control::IMMEDIATE,
        remote_segments: 2,
        immediate: 0xdead_beef,
        length: 4096,
        status: status::DONE,
    };
    let bytes = value.to_bytes();
    assert_eq!(
        hex(&bytes),
        "8877665544332211ccbbaa990300050002000000efbeadde0010000001000000"
    );
    assert_eq!(Control::decode(&bytes), Ok(value));
    assert_eq!(value.operation(), Some(Operation::RdmaWrite));
    assert!(Control::decode(&bytes[..31]).is_err());
}

#[test]
fn the_operation_is_in_two_bits() {
    let with = |bits| Control {
        bits,
        ..Control::default()
    };
    assert_eq!(with(control::PAYLOAD).operation(), Some(Operation::Send));
    assert_eq!(with(2).operation(), Some(Operation::RdmaRead));
    assert_eq!(with(3).operation(), None);
}

#[test]
fn a_segment_takes_sixteen_bytes() {
    let value = Segment {
        address: 0x1000,
        handle: 7,
        bytes: 0x0102_0304,
    };
    let bytes = value.to_bytes();
    assert_eq!(hex(&bytes), "00100000000000000700000004030201");
    assert_eq!(Segment::decode(&bytes), Ok(value));
}

#[test]
fn status_overlays_the_end_of_the_control_segment() {
    let value = Status {
        immediate: 0x0403_0201,
        length: 0x10,
        bits: status::DONE | status::RECEIVE | status::IMMEDIATE,
    };
    assert_eq!(hex(&value.to_bytes()), "010203041000000001000900");
    let mut descriptor = Control::default().to_bytes();
    descriptor[STATUS_OFFSET..].copy_from_slice(&value.to_bytes());
    let control = Control::decode(&descriptor).expect("long enough");
    assert_eq!(control.immediate, value.immediate);
    assert_eq!(control.length, value.length);
    assert_eq!(control.status, value.bits);
    assert_eq!(Status::decode(&value.to_bytes()), Ok(value));
}

#[test]
fn a_completion_states_its_round() {
    let value = Completion {
        descriptor: 0x40,
        vi: 5,
        receive: true,
        round: true,
    };
    let mut bytes = value.to_bytes();
    assert_eq!(hex(&bytes), "40000000000000000500000003000000");
    assert_eq!(Completion::decode(&bytes), Ok(value));
    bytes[12] = 4;
    assert_eq!(
        Completion::decode(&bytes),
        Err(Malformed::Unknown {
            field: "completion flags",
            value: 4
        })
    );
}

#[test]
fn a_frame_header_takes_sixty_four_bytes() {
    let value = FrameHeader {
        flags: flag::SEQUENCED | flag::ACK,
        to_vi: 1,
        from_node: 2,
        from_vi: 3,
        key: 4,
        sequence: 5,
        ack: 6,
        credit: 7,
        ahead: 8,
        message: 9,
        offset: 10,
        total: 11,
        immediate: 12,
        handle: 13,
        address: 0x0e0f,
        ..FrameHeader::new(FrameKind::Write)
    };
    let bytes = value.to_bytes();
    assert_eq!(
        hex(&bytes),
        "0102140001000000020000000300000004000000050000000600000007000000\
         08000000090000000a0000000b0000000c0000000d0000000f0e000000000000"
    );
    assert_eq!(FrameHeader::decode(&bytes), Ok(value));
}

#[test]
fn a_frame_header_of_another_kind_is_refused() {
    let good = FrameHeader::new(FrameKind::Ack).to_bytes();
    let field_of = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        match FrameHeader::decode(&bytes) {
            Err(Malformed::Unknown { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field_of(0, 2), "frame version");
    assert_eq!(field_of(1, 0), "frame kind");
    assert_eq!(field_of(1, 7), "frame kind");
    assert_eq!(field_of(2, 0x40), "frame flags");
    assert!(FrameHeader::decode(&good[..63]).is_err());
    let mut long = good.to_vec();
    long.push(0);
    assert_eq!(
        FrameHeader::decode(&long),
        Err(Malformed::Trailing { count: 1 })
    );
}

#[test]
fn unknown_reasons_mean_closed() {
    for reason in [
        RefuseReason::Closed,
        RefuseReason::Protection,
        RefuseReason::Descriptor,
        RefuseReason::Protocol,
    ] {
        assert_eq!(RefuseReason::from_code(reason as u32), reason);
    }
    assert_eq!(RefuseReason::from_code(99), RefuseReason::Closed);
}
