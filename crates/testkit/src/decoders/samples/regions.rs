//! Descriptors of memory, alone and within requests.

use causeway_wire::codec::Wire;
use causeway_wire::region::{ObjectSpan, RegionDescriptor};

pub(super) fn region(object: bool) -> RegionDescriptor {
    RegionDescriptor {
        key: 0x1234_5678_9abc_def0,
        base: 0x7f00_0000_1000,
        len: 4096,
        object: object.then_some(ObjectSpan {
            object: 3,
            offset: 8192,
        }),
    }
}

pub(in crate::decoders) fn all() -> Vec<Vec<u8>> {
    vec![region(false).to_bytes(), region(true).to_bytes()]
}
