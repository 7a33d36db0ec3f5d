//! Requests and replies about shared pointers, and about append locks.

use causeway_wire::fs::{ObjectId, Operation, PointerStep, ReplyBody};

pub(super) fn operations() -> [Operation; 5] {
    let object = ObjectId(42);
    let step = |step| Operation::MovePointer {
        object,
        pointer: 9,
        number: 10,
        step,
    };
    [
        Operation::CheckAppendLock {
            object,
            append_lock: 8,
            end: true,
        },
        step(PointerStep::Put(11)),
        step(PointerStep::Add(12)),
        step(PointerStep::Get),
        step(PointerStep::End),
    ]
}

pub(super) fn replies() -> [ReplyBody; 1] {
    [ReplyBody::Pointer(13)]
}
