//! Replies of every kind there is.

use causeway_wire::fs::{Leased, XattrName};

use super::*;

/// Every kind of reply, once, with something in it.
macro_rules! replies {
    ($($kind:ident: $sample:expr;)*) => {
        pub(super) fn samples() -> Vec<ReplyBody> {
            vec![$($sample),*]
        }

        pub(super) fn kind_of(reply: &ReplyBody) -> &'static str {
            match reply { $(ReplyBody::$kind { .. } => stringify!($kind),)* }
        }
    };
}

replies! {
    Done: ReplyBody::Done;
    Node: ReplyBody::Node(Box::new(node(FILE).expect("a file")));
    Entries: ReplyBody::Entries { entries: vec![entry(b"x", SMALL)], end: true };
    Transferred: transferred(3, FILE_BYTES, 0);
    Objects: ReplyBody::Objects(vec![FILE]);
    Datafiles: ReplyBody::Datafiles { datafiles: vec![(FILE, 1)], end: true };
    StripedFiles: ReplyBody::StripedFiles { files: Vec::new(), end: true };
    Paths: ReplyBody::Paths(Vec::new());
    Faults: ReplyBody::Faults(Vec::new());
    OrphansRemoved: ReplyBody::OrphansRemoved { deleted: 1, moved: 0 };
    Data: ReplyBody::Data { first: None };
    Xattr: ReplyBody::Xattr(b"value".to_vec());
    XattrNames: xattr_names(b"user.a");
    Stored: ReplyBody::Stored(1);
    Descriptor: ReplyBody::Descriptor(None);
    Punched: ReplyBody::Punched { next: None };
    Clock: ReplyBody::Clock(Moment { boot: 1, at: 1 });
    AppendLock: ReplyBody::AppendLock { append_lock: 1, node: Box::new(node(FILE).expect("a file")) };
    Pointer: ReplyBody::Pointer(5);
    LockWaits: ReplyBody::LockWaits;
    NoEntry: ReplyBody::NoEntry;
    Recall: ReplyBody::Recall { number: 1, leases: vec![Leased::Attributes(FILE)] };
    LockHolder: ReplyBody::LockHolder { holder: None };
    Scrubbed: ReplyBody::Scrubbed { next: None, bytes: 1, datafiles: 1, faults: Vec::new() };
    Checked: ReplyBody::Checked { next: None, records: 1, findings: Vec::new(), mended: 0 };
    MetadataStatus: ReplyBody::MetadataStatus {
        objects: 1,
        removals: 0,
        numbers: 2,
        gaps: Vec::new(),
    };
    StorageStatus: ReplyBody::StorageStatus {
        total: 2,
        free: 1,
        written: 0,
        read: 0,
        busy: 0,
        aside: 0,
        aside_bytes: 0,
    };
    Hello: ReplyBody::Hello(Box::new(greeting()));
}

/// A listing of one extended attribute's name.
pub(super) fn xattr_names(name: &[u8]) -> ReplyBody {
    let name = name.to_vec();
    ReplyBody::XattrNames(vec![XattrName { name }])
}
