//! Access control lists: their bytes, and what they permit, against a model that goes by the entries as they stand there.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fs::{Acl, Caller, Errno, MAX_ACL_ENTRIES};

const NO_ID: u32 = u32::MAX;

#[test]
fn the_extended_attribute_has_the_bytes_that_linux_has() {
    let list = Acl {
        owner: 6,
        users: vec![(1000, 5)],
        group: 4,
        groups: vec![(0x0102_0304, 7)],
        mask: Some(6),
        other: 0,
    };
    let bytes = [
        "02 00 00 00",
        "01 00 06 00 ff ff ff ff",
        "02 00 05 00 e8 03 00 00",
        "04 00 04 00 ff ff ff ff",
        "08 00 07 00 04 03 02 01",
        "10 00 06 00 ff ff ff ff",
        "20 00 00 00 ff ff ff ff",
    ];
    let bytes: Vec<u8> = bytes
        .iter()
        .flat_map(|line| line.split(' '))
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    assert_eq!(list.to_xattr(), bytes);
    assert_eq!(list.mode(), 0o660);
    assert_eq!(Acl::from_xattr(&bytes), Ok(Some(list)));
    // No entries: the list is removed.
    assert_eq!(Acl::from_xattr(&bytes[..4]), Ok(None));
}

/// A tag, permissions, and an id.
type Entry = (u16, u16, u32);

fn xattr(version: u32, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn lists_that_are_none_are_refused() {
    let owner = (1, 6, NO_ID);
    let group = (4, 4, NO_ID);
    let mask = (16, 6, NO_ID);
    let other = (32, 0, NO_ID);
    let user = (2, 4, 7);
    let refused = |entries: &[Entry]| Acl::from_xattr(&xattr(2, entries)).unwrap_err().0;
    for entries in [
        &[owner, group][..],
        &[owner, other],
        &[group, other],
        &[owner, user, group, other],
        &[owner, owner, group, other],
        &[owner, group, mask, mask, other],
        &[owner, group, user, mask, other],
        &[other, owner, group],
        &[owner, (2, 4, NO_ID), group, mask, other],
        &[owner, (2, 8, 7), group, mask, other],
        &[owner, (3, 4, 7), group, mask, other],
        &[owner, group, other, (64, 0, NO_ID)],
    ] {
        assert_eq!(refused(entries), Errno::EINVAL, "{entries:?}");
    }
    let good = [owner, user, group, mask, other];
    assert!(Acl::from_xattr(&xattr(2, &good)).unwrap().is_some());
    let unknown = Acl::from_xattr(&xattr(3, &good)).unwrap_err();
    assert_eq!(unknown.0, Errno::EOPNOTSUPP);
    for cut in [0, 3, 5, 11] {
        let part = &xattr(2, &good)[..cut];
        assert_eq!(Acl::from_xattr(part).unwrap_err().0, Errno::EINVAL);
    }
    let users = (0..MAX_ACL_ENTRIES as u32 - 4).map(|id| (2, 4, id));
    let most: Vec<Entry> = [owner]
        .into_iter()
        .chain(users)
        .chain([group, mask, other])
        .collect();
    assert_eq!(most.len(), MAX_ACL_ENTRIES);
    assert!(Acl::from_xattr(&xattr(2, &most)).is_ok());
    let mut more = most;
    more.insert(1, user);
    assert_eq!(refused(&more), Errno::ENOSPC);
}

fn any_list() -> impl Strategy<Value = Acl> {
    let named = || vec((0..6u32, 0..8u8), 0..4);
    (
        0..8u8,
        named(),
        0..8u8,
        named(),
        any::<bool>(),
        0..8u8,
        0..8u8,
    )
        .prop_map(|(owner, users, group, groups, masked, mask, other)| {
            let masked = masked || !users.is_empty() || !groups.is_empty();
            let mask = masked.then_some(mask);
            Acl {
                owner,
                users,
                group,
                groups,
                mask,
                other,
            }
        })
}

/// Entries of an extended attribute.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let entry = |entry: &[u8]| {
        let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let id = u32::from(half(4)) | u32::from(half(6)) << 16;
        (half(0), half(2), id)
    };
    bytes[4..].chunks(8).map(entry).collect()
}

/// The algorithm as the draft states it, step by step.
fn permitted(list: &[Entry], owner: u32, group: u32, caller: &Caller, wanted: u16) -> bool {
    let first = |tag: u16, id: u32| list.iter().find(|entry| entry.0 == tag && entry.2 == id);
    let mask = first(16, NO_ID).map_or(7, |entry| entry.1);
    if caller.uid == owner {
        return first(1, NO_ID).unwrap().1 & wanted == wanted;
    }
    if let Some(entry) = first(2, caller.uid) {
        return entry.1 & mask & wanted == wanted;
    }
    let mut groups = vec![caller.gid];
    groups.extend(&caller.groups);
    let mut matches = false;
    for (tag, permissions, id) in list {
        let is_its = match tag {
            4 => groups.contains(&group),
            8 => groups.contains(id),
            _ => false,
        };
        matches |= is_its;
        if is_its && permissions & mask & wanted == wanted {
            return true;
        }
    }
    !matches && first(32, NO_ID).unwrap().1 & wanted == wanted
}

proptest! {
    #[test]
    fn lists_permit_what_the_algorithm_does(
        list in any_list(),
        owner in 0..6u32,
        group in 0..6u32,
        ids in (0..6u32, 0..6u32),
        groups in vec(0..6u32, 0..3),
        wanted in 0..8u8,
        mode in 0..0o10000u16,
    ) {
        let caller = Caller { uid: ids.0, gid: ids.1, groups, umask: 0 };
        let bytes = list.to_xattr();
        prop_assert_eq!(Acl::from_xattr(&bytes), Ok(Some(list.clone())));
        prop_assert_eq!(list.is_minimal(), entries(&bytes).len() == 3);
        let allows = |list: &Acl, mode| list.allows(mode, (owner, group), &caller, wanted);
        let expected = permitted(&entries(&bytes), owner, group, &caller, wanted.into());
        prop_assert_eq!(allows(&list, list.mode()), expected);
        // Once the mode has changed, the list that it was set with counts as the changed one does.
        let changed = list.clone().with_mode(mode);
        prop_assert_eq!(changed.mode(), mode & 0o777);
        let expected = permitted(&entries(&changed.to_xattr()), owner, group, &caller, wanted.into());
        prop_assert_eq!(allows(&changed, mode), expected);
        prop_assert_eq!(allows(&list, mode), expected);
        // A new entry of a directory: of the owner, the mask or else the group, and others, no more than was asked for.
        let (given, bits) = list.inherited(mode);
        prop_assert_eq!(given.mode(), list.mode() & mode & 0o777);
        prop_assert_eq!(bits, mode & !0o777 | given.mode());
        prop_assert_eq!((given.users, given.groups), (list.users, list.groups));
    }

    #[test]
    fn any_bytes_are_a_list_or_refused(bytes in vec(any::<u8>(), 0..60), at in 0..60usize, list in any_list()) {
        let mut damaged = list.to_xattr();
        let place = at % damaged.len();
        damaged[place] = bytes.first().copied().unwrap_or(0);
        for bytes in [bytes, damaged] {
            if let Ok(Some(list)) = Acl::from_xattr(&bytes) {
                // Ids of entries that have none are not kept.
                prop_assert_eq!(Acl::from_xattr(&list.to_xattr()), Ok(Some(list)));
            }
        }
    }
}

fn node(acl: Option<Acl>) -> Reply {
    let attributes = Attributes {
        kind: Kind::Directory,
        mode: 0o750,
        uid: 1,
        gid: 2,
        links: 2,
        size: 0,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    };
    let node = Node {
        object: ObjectId(5),
        attributes,
        body: Body::Directory(DistributionHint::default()),
        acl: acl.map(Box::new),
    };
    Reply {
        result: Ok(ReplyBody::Node(Box::new(node))),
    }
}

#[test]
fn nodes_have_their_lists_from_format_13_on() {
    let list = Acl {
        users: vec![(7, 5)],
        mask: Some(5),
        ..Acl::of_mode(0o750)
    };
    let (with, without) = (node(Some(list.clone())), node(None));
    let bytes = with.to_bytes(13);
    assert_eq!(Reply::from_bytes(&bytes), Ok((with.clone(), 13)));
    let mut expected = without.to_bytes(13);
    assert_eq!(Reply::from_bytes(&expected), Ok((without.clone(), 13)));
    assert_eq!(expected.pop(), Some(0));
    expected.push(1);
    expected.extend((list.to_xattr().len() as u32).to_le_bytes());
    expected.extend(list.to_xattr());
    assert_eq!(bytes, expected);
    assert_eq!(with.to_bytes(12), without.to_bytes(12));
    assert_eq!((with.lowest_format(), without.lowest_format()), (13, 5));
    // One that is none is refused.
    let last = bytes.len() - 1;
    assert!(Reply::from_bytes(&bytes[..last]).is_err());
    let mut damaged = bytes;
    damaged[last - 7] = 9;
    assert!(Reply::from_bytes(&damaged).is_err());
}

#[test]
fn servers_of_before_get_modes_without_the_umask_and_no_lists() {
    let make = |mode| Operation::MakeDirectory {
        place: Place {
            base: ObjectId(1),
            path: b"x".to_vec(),
        },
        mode,
        distribution: None,
    };
    let asked = |operation, umask| {
        let mut request = formats::request(operation);
        request.caller.umask = umask;
        request
    };
    let formats = |highest| Formats { lowest: 5, highest };
    let request = asked(make(0o777), 0o027);
    let bytes = request.to_bytes(formats(13));
    assert_eq!(
        Request::from_bytes(&bytes),
        Ok((request.clone(), formats(13)))
    );
    assert_eq!(
        request.to_bytes(formats(12)),
        asked(make(0o750), 0).to_bytes(formats(12))
    );
    // It stands behind the caller's groups.
    let mut expected = asked(make(0o777), 0).to_bytes(formats(13));
    let differs = (0..bytes.len())
        .find(|at| bytes[*at] != expected[*at])
        .unwrap();
    expected[differs] = 0o027;
    assert_eq!(bytes, expected);
    let mut wrong = bytes;
    wrong[differs + 1] = 2;
    assert!(Request::from_bytes(&wrong).is_err());
    for (name, lowest) in [(ACCESS_ACL, 13), (DEFAULT_ACL, 13), (b"user.x", 8)] {
        let name = name.to_vec();
        let operation = Operation::GetXattr {
            object: ObjectId(1),
            name,
        };
        assert_eq!(operation.lowest_format(), lowest);
        // A server can read such a request of an earlier format, and says what it needs.
        let bytes = asked(operation, 0).to_bytes(formats(12));
        assert!(Request::from_bytes(&bytes).is_ok());
    }
}
