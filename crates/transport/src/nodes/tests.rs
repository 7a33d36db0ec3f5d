use causeway_sys::secret::Secret;
use causeway_wire::node::files::Revoked;

use super::handshake::{Failed, NodeHandshake, NodeProof};
use super::*;

/// Nothing expires in these tests, but for what has.
pub(crate) const NEVER: u64 = u64::MAX;

/// A node of this authority's.
pub(crate) fn member(authority: &Authority, name: &str, roles: &[&str], expires: u64) -> Member {
    let key = Secret::draw().unwrap();
    let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    let public = member::public_key(&key).unwrap();
    let certificate = authority.sign(public, name, &roles, expires).unwrap();
    Member::new(certificate, key).unwrap()
}

/// What a node knows that accepts these authorities, and none of these certificates.
pub(crate) fn membership(
    member: &Member,
    authorities: &[&Authority],
    revoked: &[&Member],
) -> Membership {
    let entry = |member: &&Member| {
        let certificate = member.certificate();
        (certificate.serial, certificate.name.clone())
    };
    let revoked = Revoked {
        entries: revoked.iter().map(entry).collect(),
    };
    let keys = authorities.iter().map(|authority| authority.public_key());
    // Not all of them would be accepted by themselves.
    let mut all = keys.collect::<Vec<_>>();
    all.push(member.certificate().authority);
    let mut this = Membership::new(member.clone(), all, &Revoked::default()).unwrap();
    this.authorities.pop();
    this.revoked = revoked
        .entries
        .into_iter()
        .map(|(serial, _)| serial)
        .collect();
    this
}

/// A cluster's authority, the node of a client and that of `io3`.
pub(crate) struct Cluster {
    pub(crate) authority: Authority,
    pub(crate) client: Member,
    pub(crate) server: Member,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let authority = Authority::draw().unwrap();
        Self {
            client: member(&authority, "laptop", &[CLIENT], NEVER),
            server: member(&authority, "node3", &["io3"], NEVER),
            authority,
        }
    }

    pub(crate) fn knowing(&self, member: &Member) -> Membership {
        membership(member, &[&self.authority], &[])
    }
}

/// A node that shows something else than its own certificate.
pub(crate) fn liar(member: &Member, shown: Certificate) -> Membership {
    Membership {
        member: member.showing(shown),
        authorities: vec![member.certificate().authority],
        revoked: HashSet::new(),
        pinned: HashMap::new(),
    }
}

const KEY: [u8; 32] = [0x42; 32];

fn proving(membership: Membership, role: Option<&str>) -> NodeProof {
    NodeProof {
        role: role.map(str::to_owned),
        ..NodeProof::called(&Nodes::new(membership))
    }
}

/// Lets two sides talk. Returns whom each has met, or why the first that refused did so.
fn run_handshake(sides: [NodeProof; 2], keys: [[u8; 32]; 2]) -> Result<[String; 2], Failed> {
    let [one, other] = sides;
    let [first, second] = keys.map(Secret::from);
    let mut initiator = NodeHandshake::new(true, true, &first, one, b"prologue").unwrap();
    let mut responder = NodeHandshake::new(false, true, &second, other, b"prologue").unwrap();
    responder.read(&initiator.write().unwrap())?;
    initiator.read(&responder.write().unwrap())?;
    responder.read(&initiator.write().unwrap())?;
    assert!(initiator.is_finished() && responder.is_finished());
    Ok([initiator, responder].map(|side| side.finish().unwrap().unwrap().node.name.clone()))
}

#[test]
fn two_nodes_learn_who_the_other_one_is() {
    let authority = Authority::draw().unwrap();
    let client = member(&authority, "laptop", &[CLIENT], NEVER);
    let server = member(&authority, "node3", &["io3", "meta"], NEVER);
    let sides = || {
        [
            proving(membership(&client, &[&authority], &[]), Some("io3")),
            proving(membership(&server, &[&authority], &[]), None),
        ]
    };
    assert_eq!(
        run_handshake(sides(), [KEY; 2]).unwrap(),
        ["node3", "laptop"]
    );
    // Without the cluster's key, nothing is shown.
    let failed = run_handshake(sides(), [KEY, [0x43; 32]]);
    assert!(matches!(failed, Err(Failed::WrongKey)), "{failed:?}");
}

#[test]
fn each_claim_that_is_not_true_is_noticed() {
    let authority = Authority::draw().unwrap();
    let others = Authority::draw().unwrap();
    let server = member(&authority, "node3", &["io3"], NEVER);
    let client = member(&authority, "laptop", &[CLIENT], NEVER);
    let of_others = member(&others, "node3", &["io3"], NEVER);
    let late = member(&authority, "node3", &["io3"], now() + 1000);
    let expired = {
        let certificate = Certificate::clone(late.certificate());
        let signed = authority
            .sign(certificate.key, "node3", &["io3".to_owned()], now() - 1000)
            .unwrap();
        late.showing(signed)
    };
    let more_roles = Certificate {
        roles: vec![CLIENT.to_owned(), "io3".to_owned()],
        ..Certificate::clone(client.certificate())
    };
    let another_name = Certificate {
        name: "node3".to_owned(),
        ..Certificate::clone(client.certificate())
    };
    let later_end = Certificate {
        expires: NEVER,
        ..Certificate::clone(expired.certificate())
    };
    let own_word = Certificate {
        authority: authority.public_key(),
        ..Certificate::clone(of_others.certificate())
    };
    let honest = |member: &Member| liar(member, Certificate::clone(member.certificate()));
    let cases = [
        ("a client's node", honest(&client), Fault::WrongRole),
        (
            "another authority's",
            honest(&of_others),
            Fault::UnknownAuthority,
        ),
        ("expired", honest(&expired), Fault::Expired),
        ("more roles", liar(&client, more_roles), Fault::Forged),
        ("another name", liar(&client, another_name), Fault::Forged),
        ("a later end", liar(&late, later_end), Fault::Forged),
        (
            "an authority's name",
            liar(&of_others, own_word),
            Fault::Forged,
        ),
        (
            "a certificate of another key",
            liar(&client, Certificate::clone(server.certificate())),
            Fault::Forged,
        ),
        ("revoked", honest(&server), Fault::Revoked),
    ];
    for (what, shown, fault) in cases {
        let revoked = match fault {
            Fault::Revoked => vec![&server],
            _ => Vec::new(),
        };
        let knowing = || membership(&client, &[&authority], &revoked);
        let shown = Nodes::new(shown);
        let lying = NodeProof::called(&shown);
        let called = run_handshake([proving(knowing(), Some("io3")), lying], [KEY; 2]);
        let rejected = |outcome: Result<_, Failed>| match outcome {
            Err(Failed::Rejected(rejected)) => rejected.fault,
            other => panic!("{what}: {other:?}"),
        };
        assert_eq!(rejected(called), fault, "{what}");
        if fault != Fault::WrongRole {
            // As a caller, which no role is asked of. It accepts everybody itself.
            let lying = Membership {
                member: shown.current().member.clone(),
                authorities: vec![authority.public_key()],
                revoked: HashSet::new(),
                pinned: HashMap::new(),
            };
            let calling = run_handshake([proving(lying, None), proving(knowing(), None)], [KEY; 2]);
            assert_eq!(rejected(calling), fault, "{what}, calling");
        }
    }
}

/// A proof from one exchange is of no use in another one, whichever peer sends it.
#[test]
fn a_recorded_exchange_shows_no_node() {
    let authority = Authority::draw().unwrap();
    let client = member(&authority, "laptop", &[CLIENT], NEVER);
    let server = member(&authority, "node3", &["io3"], NEVER);
    let begin = |initiates, member: &Member| {
        let proving = proving(membership(member, &[&authority], &[]), None);
        NodeHandshake::new(initiates, false, &KEY.into(), proving, b"the same").unwrap()
    };
    let (mut initiator, mut responder) = (begin(true, &client), begin(false, &server));
    let first = initiator.write().unwrap();
    responder.read(&first).unwrap();
    initiator.read(&responder.write().unwrap()).unwrap();
    let last = initiator.write().unwrap();
    responder.read(&last).unwrap();
    let mut again = begin(false, &server);
    again.read(&first).unwrap();
    again.write().unwrap();
    assert!(matches!(again.read(&last), Err(Failed::WrongKey)));
    assert!(again.finish().unwrap().is_none());
}

/// What is known of nodes changes between two messages.
#[test]
fn a_node_that_is_revoked_in_the_middle_of_an_exchange_is_not_met() {
    let authority = Authority::draw().unwrap();
    let client = member(&authority, "laptop", &[CLIENT], NEVER);
    let server = member(&authority, "node3", &["io3"], NEVER);
    let sides = || [&client, &server].map(|m| Nodes::new(membership(m, &[&authority], &[])));
    for late in 0..2 {
        let nodes = sides();
        let [one, other] = nodes.each_ref().map(NodeProof::called);
        let mut initiator = NodeHandshake::new(true, true, &KEY.into(), one, b"prologue").unwrap();
        let mut responder =
            NodeHandshake::new(false, true, &KEY.into(), other, b"prologue").unwrap();
        responder.read(&initiator.write().unwrap()).unwrap();
        let (own, revoked) = [(&client, &server), (&server, &client)][late];
        nodes[late].replace(membership(own, &[&authority], &[revoked]));
        initiator.read(&responder.write().unwrap()).unwrap();
        responder.read(&initiator.write().unwrap()).unwrap();
        let mut finished = [initiator, responder].map(NodeHandshake::finish);
        let rejected = std::mem::replace(&mut finished[late], Ok(None)).map(|_| ());
        assert_eq!(rejected.unwrap_err().fault, Fault::Revoked);
        assert!(finished[1 - late].as_ref().is_ok_and(Option::is_some));
    }
}

/// However an address is written, its role is known; and none is called of which it is not.
#[test]
fn roles_are_pinned_to_addresses_in_all_their_spellings() {
    let authority = Authority::draw().unwrap();
    let client = member(&authority, "laptop", &[CLIENT], NEVER);
    let node3 = member(&authority, "node3", &["io3"], NEVER);
    let mut knowing = membership(&client, &[&authority], &[]);
    let called = |text: &str| -> Address { text.parse().unwrap() };
    assert_eq!(knowing.role_at(&called("tcp://anywhere:1")), Ok(None));
    for (pinned, others) in [
        (
            "shm:///srv//causeway/./io3.sock",
            "shm:///srv/causeway/io3.sock",
        ),
        ("shm:///run/io3.sock", "shm:////run/././/io3.sock"),
        ("tcp://10.0.0.1:07440", "tcp://10.0.0.1:7440"),
        ("tcp://10.0.0.2:7440", "tcp://[::ffff:10.0.0.2]:7440"),
        ("tcp://Node3:7440", "tcp://node3.:7440"),
    ] {
        knowing.pin(pinned, "io3").unwrap();
        for spelling in [pinned, others] {
            let spelling = called(spelling);
            assert_eq!(knowing.role_at(&spelling), Ok(Some("io3")), "{spelling}");
            let may = |node: &Member| knowing.may_be_at(Some(node.certificate()), &spelling);
            assert!(may(&node3) && !may(&client), "{spelling}");
            assert!(!knowing.may_be_at(None, &spelling));
        }
        let error = knowing.pin(others, "io4").unwrap_err().to_string();
        assert!(error.contains("another role"), "{error}");
    }
    for unknown in [
        "tcp://10.0.0.1:7441",
        "shm:///srv/io3.sock",
        "tcp://10.0.0.1",
    ] {
        let error = knowing.role_at(&called(unknown)).unwrap_err();
        assert!(error.to_string().contains(unknown), "{error}");
    }
}

#[test]
fn a_node_that_would_not_be_accepted_does_not_begin() {
    let (authority, others) = (Authority::draw().unwrap(), Authority::draw().unwrap());
    let server = member(&authority, "node3", &["io3"], NEVER);
    let begin = |authorities: &[&Authority], revoked: &Revoked, member: &Member| {
        let keys = authorities.iter().map(|a| a.public_key()).collect();
        Membership::new(member.clone(), keys, revoked).map(|_| ())
    };
    let none = Revoked::default();
    assert_eq!(begin(&[&others, &authority], &none, &server), Ok(()));
    let error = begin(&[&others], &none, &server).unwrap_err();
    assert_eq!(error.fault, Fault::UnknownAuthority);
    let shown = error.to_string();
    let named = fingerprint(&authority.public_key());
    assert!(shown.contains("node3") && shown.contains(&named), "{shown}");
    let revoked = Revoked {
        entries: vec![(server.certificate().serial, "node3".to_owned())],
    };
    let error = begin(&[&authority], &revoked, &server).unwrap_err();
    assert_eq!(error.fault, Fault::Revoked);
    let expired = member(&authority, "node3", &["io3"], 1);
    let error = begin(&[&authority], &none, &expired).unwrap_err();
    assert_eq!(error.fault, Fault::Expired);
}

#[test]
fn files_give_back_what_was_written_and_belong_to_their_keys() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let write = |text: &str, mode| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let authority = Authority::draw().unwrap();
    write(&authority.to_text(), 0o600);
    let read = Authority::of_file(&path).unwrap();
    assert_eq!(read.public_key(), authority.public_key());

    let server = member(&read, "node3", &["io3"], NEVER);
    write(&server.to_text(), 0o600);
    let read = Member::of_file(&path).unwrap();
    assert!(read.certificate() == server.certificate());
    assert!(Authority::of_file(&path).is_err());
    write(&server.to_text(), 0o640);
    let error = Member::of_file(&path).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");

    // The certificate of one node with the key of another.
    let other = member(&authority, "node4", &["io4"], NEVER);
    let (text, others) = (server.to_text(), other.to_text());
    let (head, _) = text.split_once("\nkey ").unwrap();
    let (_, key) = others.split_once("\nkey ").unwrap();
    write(&format!("{head}\nkey {key}"), 0o600);
    let error = Member::of_file(&path).unwrap_err().to_string();
    assert!(
        error.contains("not the one that its certificate"),
        "{error}"
    );
}
