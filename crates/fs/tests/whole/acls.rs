//! Access control lists of files with datafiles: clients and I/O servers apply them, and their changes.

use causeway_wire::formats::Formats;
use causeway_wire::fs::{
    Acl, AclKind, Caller, Errno, Operation, Rights, SetAttributes, SetXattrMode,
};

use crate::capabilities::{OTHER, OWNER, refused, requests, start, store};
use crate::cluster::client;
use crate::liar::Liar;

/// A list of a file with mode 0600 that gives one more user these permissions.
fn list(permissions: u8) -> Acl {
    Acl {
        users: vec![(OTHER, permissions)],
        mask: Some(7),
        ..Acl::of_mode(0o600)
    }
}

#[test]
fn rights_are_those_of_the_list_and_end_with_its_changes() {
    let fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let caller = |uid| Caller {
        uid,
        gid: uid,
        ..Caller::default()
    };
    let mut owner = client(fixture.cluster.configuration());
    owner.act_for(caller(OWNER));
    let mut other = Liar::new(&fixture, 0x2, OTHER);
    let mut stranger = Liar::new(&fixture, 0x3, OTHER + 1);
    assert_eq!(other.capability(object).rights, Rights::NONE);
    let both = Rights::READ.with(Rights::WRITE);
    for (permissions, rights) in [(6, both), (4, Rights::READ), (2, Rights::WRITE)] {
        let acl = list(permissions);
        owner.set_acl(object, AclKind::Access, Some(&acl)).unwrap();
        let found = owner.acl(object, AclKind::Access).unwrap();
        assert_eq!(found.as_ref(), Some(&acl));
        assert_eq!(other.capability(object).rights, rights);
        assert_eq!(stranger.capability(object).rights, Rights::NONE);
    }
    owner
        .set_acl(object, AclKind::Access, Some(&list(6)))
        .unwrap();
    // The client library lets the user do what the list permits, by a file that it has opened.
    let mut user = client(fixture.cluster.configuration());
    user.act_for(caller(OTHER));
    let mut file = user.open(b"/file").unwrap();
    user.write_at(&mut file, 0, b"by the list").unwrap();
    let mut bytes = [0; 11];
    user.read_at(&mut file, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"by the list");
    // The list has less for a while, and then the mode's group digit, which is its mask.
    let old = other.capability(object);
    for permissions in [0, 6] {
        let acl = list(permissions);
        owner.set_acl(object, AclKind::Access, Some(&acl)).unwrap();
    }
    let later = other.capability(object);
    assert_eq!((old.rights, later.rights), (both, both));
    let has_ended = |other: &mut Liar, capability| {
        for (operation, _) in requests(object) {
            let what = format!("{operation:?}");
            let answer = other.ask(1, operation, capability);
            refused(answer, &[Errno::CAPABILITY_ENDED], &what);
        }
    };
    has_ended(&mut other, &old);
    let set = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    owner.set_attributes(object, set).unwrap();
    has_ended(&mut other, &later);
    assert_eq!(other.capability(object).rights, Rights::NONE);
    let denied = user
        .open(b"/file")
        .and_then(|mut file| user.read_at(&mut file, 0, &mut bytes));
    assert_eq!(denied.unwrap_err().errno, Errno::EACCES);
    owner.set_acl(object, AclKind::Access, None).unwrap();
    assert_eq!(owner.acl(object, AclKind::Access).unwrap(), None);
}

#[test]
fn clients_of_before_are_told_which_format_lists_need() {
    let fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let name = AclKind::Access.xattr().to_vec();
    let set = Operation::SetXattr {
        object,
        name: name.clone(),
        value: list(4).to_xattr(),
        mode: SetXattrMode::Any,
    };
    for operation in [set, Operation::GetXattr { object, name }] {
        let (server, target) = owner.servers[0];
        let before = Formats {
            lowest: 5,
            highest: 12,
        };
        let request = owner.request(target, operation, None);
        let answer = owner.send(server, &request.to_bytes(before));
        let failure = answer.unwrap_err();
        assert_eq!(failure.errno, Errno::EOPNOTSUPP);
        assert!(failure.message.contains("format 13"), "{}", failure.message);
    }
}
