//! Servers that lie about what they have copied.

use causeway_fs::client::{Client, File};

use super::super::*;

pub(super) fn copy(client: &mut Client) -> Result<(), causeway_fs::Error> {
    let copied = client.copy_range(&mut file(FILE), 0, &mut file(SPARSE), 0, 500);
    copied.map(drop)
}

/// To an empty file that is to get its datafiles elsewhere.
pub(super) fn lie_like(client: &mut Client) -> Result<(), causeway_fs::Error> {
    let mut target = file(SMALL);
    target.node.object = FILE;
    target.node.attributes.size = 0;
    if let Body::Stuffed { distribution, .. } = &mut target.node.body {
        distribution.servers = vec![1];
    }
    let copied = client.copy_range(&mut file(SPARSE), 0, &mut target, 1 << 20, 500);
    copied.map(drop)
}

pub(super) const LIES: &[(&str, fn(&mut ReplyBody))] = &[
    ("no progress", |reply| told(reply, [0, 0, 0])),
    ("more than was asked for", |reply| told(reply, [501, 1, 1])),
    ("2^64 - 1 bytes", |reply| told(reply, [u64::MAX; 3])),
    ("more data than bytes", |reply| told(reply, [500, 501, 500])),
    ("data further than the bytes", |reply| {
        told(reply, [500, 500, 501]);
    }),
    ("data that end too early", |reply| {
        told(reply, [500, 500, 499]);
    }),
    ("an end of no data", |reply| told(reply, [500, 0, 500])),
];

fn told(reply: &mut ReplyBody, [bytes, stored, reached]: [u64; 3]) {
    *reply = ReplyBody::Copied {
        bytes,
        stored,
        reached,
    };
}

fn file(object: ObjectId) -> File {
    File::new(node(object).expect("an object of the tree"))
}
