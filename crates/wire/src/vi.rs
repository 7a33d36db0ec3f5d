//! What virtual interfaces write into host memory and send: descriptors, their completion, entries
//! of completion queues, headers of frames.
//!
//! [`descriptor`] is VIPL's layout with two additions in fields that VIPL reserves: messages inside
//! descriptors longer than immediate data, and lists of remote addresses. [`frame`] is ours.
//! Nothing here allocates. `docs/formats/vi.md` draws it all.

pub mod descriptor;
pub mod frame;
#[cfg(test)]
mod tests;

pub use descriptor::{
    COMPLETION_BYTES, CONTROL_BYTES, Completion, Control, DESCRIPTOR_ALIGN, Operation,
    SEGMENT_BYTES, STATUS_BYTES, STATUS_OFFSET, Segment, Status, control, status,
};
pub use frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, RefuseReason, flag};
