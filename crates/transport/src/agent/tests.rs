use causeway_wire::formats::Formats;
use causeway_wire::tcp::{FORMATS as TCP_FORMATS, HELLO_BYTES, Holder};

use super::*;
use crate::nodes::Membership;
use crate::nodes::tests::{Cluster, member, membership};
use crate::tcp::handshake::{AgentCall, Agreement, Handshake, HandshakeConfig, Protection};

const KEY: [u8; 32] = [0x42; 32];

fn user() -> User {
    User {
        uid: 1234,
        gid: 55,
        groups: vec![55, 66],
    }
}

fn config(key: Option<[u8; 32]>) -> HandshakeConfig {
    HandshakeConfig {
        key: key.map(Into::into),
        encrypt: true,
        holder_or_nonce: Holder::drawn([1, 2, 3, 4, 5, 6, 7, 8]),
        fast_aes: true,
        connections: 1,
        ticket: None,
        formats: TCP_FORMATS,
        nodes: None,
        agent: None,
    }
}

/// A process without keys that calls the address of `io3`.
fn calling(nodes: bool) -> Handshake {
    let agent_call = AgentCall {
        address: "tcp://127.0.0.1:7".to_owned(),
        nodes,
    };
    let terms = HandshakeConfig {
        agent: Some(agent_call),
        ..config(None)
    };
    Handshake::new(Role::Initiator, terms)
}

fn called(membership: Option<Membership>) -> Handshake {
    let nodes = membership.map(Nodes::new);
    let terms = HandshakeConfig {
        nodes: nodes.as_ref().map(NodeProof::called),
        ..config(Some(KEY))
    };
    Handshake::new(Role::Responder, terms)
}

fn credentials(membership: Option<Membership>) -> Credentials {
    Credentials {
        key: KEY.into(),
        nodes: membership.map(Nodes::new),
    }
}

/// The same, with a rule that only `io3` may reply at its address.
fn pinned(mut membership: Membership) -> Membership {
    membership.pin("tcp://127.0.0.1:7", "io3").unwrap();
    membership
}

/// A process without keys and a server, after both have sent their hellos: the process asks its agent next.
fn greeted() -> (Handshake, Handshake) {
    let (mut caller, mut server) = (calling(false), called(None));
    server
        .input(&caller.take_output(), &mut |_| Ok(()))
        .unwrap();
    caller
        .input(&server.take_output(), &mut |_| Ok(()))
        .unwrap();
    (caller, server)
}

/// Carries out a handshake among the three; `alter` sees each request before the agent does.
fn talk(
    [caller, server]: [&mut Handshake; 2],
    credentials: &Credentials,
    mut alter: impl FnMut(&mut Request),
) -> [Result<Agreement, PeerError>; 2] {
    let mut handshake = AgentHandshake::new(user());
    let mut agreed = [None, None];
    let mut bytes = caller.take_output();
    loop {
        let outcome = server.input(&bytes, &mut |_| Ok(()));
        agreed[1] = outcome.transpose().or(agreed[1].take());
        let replied = server.take_output();
        if replied.is_empty() {
            let nothing = || Err(PeerError::Disconnected);
            return agreed.map(|agreed| agreed.unwrap_or_else(nothing));
        }
        let mut outcome = caller.input(&replied, &mut |_| Ok(()));
        bytes = caller.take_output();
        while let Some(mut request) = caller.take_agent_request() {
            alter(&mut request);
            let request = Request::from_bytes(&request.to_bytes()).unwrap();
            let reply = handshake.on_request(credentials, &request);
            outcome = caller.on_agent_reply(Reply::from_bytes(&reply.to_bytes()).unwrap());
            bytes.extend(caller.take_output());
        }
        agreed[0] = outcome.transpose().or(agreed[0].take());
        if bytes.is_empty() {
            let nothing = || Err(PeerError::Disconnected);
            return agreed.map(|agreed| agreed.unwrap_or_else(nothing));
        }
    }
}

fn refused(outcome: Result<Agreement, PeerError>) -> String {
    outcome.unwrap_err().to_string()
}

#[test]
fn a_server_learns_the_one_user_for_whom_the_connection_speaks() {
    let cluster = Cluster::new();
    for nodes in [false, true] {
        let of = |member| nodes.then(|| pinned(cluster.knowing(member)));
        let agent = credentials(of(&cluster.client));
        let (mut caller, mut server) = (calling(nodes), called(of(&cluster.server)));
        let [caller, server] = talk([&mut caller, &mut server], &agent, |_| {});
        let (caller, server) = (caller.unwrap(), server.unwrap());
        assert_eq!(server.user, Some(user()));
        assert_eq!(caller.user, None);
        assert_eq!(server.node.is_some(), nodes);
        let name = |agreed: &Agreement| agreed.node.as_ref().map(|node| node.name.clone());
        assert_eq!(name(&server), nodes.then(|| "laptop".to_owned()));
        assert_eq!(name(&caller), nodes.then(|| "node3".to_owned()));
        // The agent has given the process the keys of this connection.
        let ciphers = |agreed: Agreement| match agreed.protection {
            Some(Protection::Encrypted(ciphers)) => ciphers,
            other => panic!("{other:?}"),
        };
        let (mut caller, mut server) = (ciphers(caller), ciphers(server));
        let (mut sealed, mut plain) = ([0; 64], [0; 64]);
        let len = caller.encrypt(b"request", &mut sealed).unwrap();
        let len = server.decrypt(&sealed[..len], &mut plain).unwrap();
        assert_eq!(&plain[..len], b"request");
        let len = server.encrypt(b"reply", &mut sealed).unwrap();
        let len = caller.decrypt(&sealed[..len], &mut plain).unwrap();
        assert_eq!(&plain[..len], b"reply");
    }
}

/// A process that holds the key speaks for all users, as before, to servers that take users.
#[test]
fn a_process_that_holds_the_key_speaks_for_all_users() {
    let cluster = Cluster::new();
    for nodes in [false, true] {
        let of = |member| nodes.then(|| pinned(cluster.knowing(member)));
        let address = "tcp://127.0.0.1:7".parse().unwrap();
        let caller = of(&cluster.client).map(Nodes::new);
        let caller = HandshakeConfig {
            nodes: caller.map(|nodes| NodeProof::calling(&nodes, &address).unwrap()),
            ..config(Some(KEY))
        };
        let mut caller = Handshake::new(Role::Initiator, caller);
        let mut server = called(of(&cluster.server));
        let agent = credentials(None);
        let outcome = talk([&mut caller, &mut server], &agent, |_| panic!("asked"));
        for side in outcome {
            assert_eq!(side.unwrap().user, None);
        }
    }
}

/// If a process alters the hellos that it passes to the agent, the handshake fails, or the agent does not begin it.
#[test]
fn hellos_that_a_process_alters_for_the_agent_fail_the_handshake() {
    let cluster = Cluster::new();
    let older = |hello: &mut [u8; HELLO_BYTES], formats: Formats| {
        hello[8] = formats.lowest;
        hello[23] = formats.above();
    };
    let before = Formats {
        lowest: 7,
        highest: 7,
    };
    let both = Formats {
        lowest: 7,
        highest: 8,
    };
    let newer = Formats {
        lowest: 8,
        highest: 9,
    };
    for nodes in [false, true] {
        let of = |member| nodes.then(|| pinned(cluster.knowing(member)));
        let attempt = |alter: &mut dyn FnMut(&mut Open)| {
            let agent = credentials(of(&cluster.client));
            let (mut caller, mut server) = (calling(nodes), called(of(&cluster.server)));
            talk([&mut caller, &mut server], &agent, |request| {
                if let Request::Open(open) = request {
                    alter(open);
                }
            })
        };
        // A format in which the server would take the connection for one that speaks for all users.
        for formats in [before, both] {
            let [caller, server] = attempt(&mut |open| older(&mut open.ours, formats));
            assert!(refused(caller).contains("agents need 8"));
            assert!(server.is_err());
        }
        let [caller, server] = attempt(&mut |open| older(&mut open.theirs, before));
        assert!(refused(caller).contains("agents need 8"));
        assert!(server.is_err());
        // A format newer than this agent's, in which the user's field may be in another place.
        let [caller, server] = attempt(&mut |open| {
            older(&mut open.ours, newer);
            older(&mut open.theirs, newer);
        });
        assert!(refused(caller).contains("upgrade the agent"));
        assert!(server.is_err());
        // A hello that hides that nodes prove their identity.
        let [caller, server] = attempt(&mut |open| open.theirs[20] ^= 2);
        assert!(caller.is_err() && server.is_err());
        // Another connection's number: the keys are derived from both hellos.
        for side in 0..2 {
            let [caller, server] = attempt(&mut |open| match side {
                0 => open.ours[16] ^= 1,
                _ => open.theirs[16] ^= 1,
            });
            assert!(caller.is_err() && server.is_err());
        }
        let [caller, _] = attempt(&mut |open| open.formats = Formats::only(9));
        assert!(refused(caller).contains("the agent"), "{nodes}");
    }
    // Another server's address.
    let agent = credentials(Some(pinned(cluster.knowing(&cluster.client))));
    let mut caller = calling(true);
    let mut server = called(Some(pinned(cluster.knowing(&cluster.server))));
    let elsewhere = |request: &mut Request| {
        if let Request::Open(open) = request {
            open.address = "tcp://127.0.0.1:8".to_owned();
        }
    };
    let [caller, server] = talk([&mut caller, &mut server], &agent, elsewhere);
    assert!(refused(caller).contains("the role of the node at"));
    assert!(server.is_err());
}

#[test]
fn an_agent_talks_to_no_server_that_it_would_not_talk_to_itself() {
    let cluster = Cluster::new();
    let client = membership(&cluster.client, &[&cluster.authority], &[&cluster.server]);
    let other = member(&cluster.authority, "node4", &["io4"], u64::MAX);
    for (agent, server, what) in [
        (pinned(client), &cluster.server, "was revoked"),
        (pinned(cluster.knowing(&cluster.client)), &other, "not io3"),
    ] {
        let agent = credentials(Some(agent));
        let mut caller = calling(true);
        let mut server = called(Some(cluster.knowing(server)));
        let [caller, server] = talk([&mut caller, &mut server], &agent, |_| {});
        let why = refused(caller);
        assert!(why.contains(what), "{why}");
        assert!(server.is_err());
    }
    // Another key.
    let agent = Credentials {
        key: [7; 32].into(),
        nodes: None,
    };
    let [caller, server] = talk([&mut calling(false), &mut called(None)], &agent, |_| {});
    assert!(caller.is_err());
    assert!(refused(server).contains("another cluster key"));
}

/// A speaker is good for one handshake.
#[test]
fn requests_in_the_wrong_order_are_refused() {
    let agent = credentials(None);
    let wrong = |handshake: &mut AgentHandshake, request: &Request| {
        let reply = handshake.on_request(&agent, request);
        assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
        assert!(handshake.is_over());
    };
    let heard = Request::PeerStep(vec![0; 48]);
    wrong(&mut AgentHandshake::new(user()), &heard);
    let (mut caller, _) = greeted();
    let open = caller.take_agent_request().unwrap();
    let mut handshake = AgentHandshake::new(user());
    assert!(matches!(
        handshake.on_request(&agent, &open),
        Reply::SendStep(_)
    ));
    assert!(!handshake.is_over());
    wrong(&mut handshake, &open);
    wrong(&mut handshake, &heard);
    let mut handshake = AgentHandshake::new(user());
    assert!(matches!(
        handshake.on_request(&agent, &open),
        Reply::SendStep(_)
    ));
    wrong(&mut handshake, &heard);
}

/// An agent that lies or breaks the protocol harms the one connection alone.
#[test]
fn replies_that_do_not_fit_are_refused() {
    let done = || {
        Reply::Done(Done {
            last: Vec::new(),
            ours: [1; 32].into(),
            theirs: [2; 32].into(),
            node: None,
        })
    };
    let mut caller = calling(false);
    assert!(caller.on_agent_reply(done()).is_err(), "it was not asked");
    // The agent gives up the call while the process waits for the server.
    let (mut caller, _) = greeted();
    let open = caller.take_agent_request().unwrap();
    let reply = AgentHandshake::new(user()).on_request(&credentials(None), &open);
    assert!(caller.on_agent_reply(reply).unwrap().is_none());
    let given_up = caller.on_agent_reply(Reply::Busy("others wait".to_owned()));
    assert!(matches!(given_up, Err(PeerError::Full(_))), "{given_up:?}");
    let (mut caller, _) = greeted();
    assert!(
        caller
            .on_agent_reply(Reply::Refused("because".to_owned()))
            .is_err()
    );
    // Keys that no handshake has made: the server refuses records sealed with them.
    let (mut caller, mut server) = greeted();
    assert!(caller.on_agent_reply(done()).unwrap().is_some());
    assert!(
        server
            .input(&caller.take_output(), &mut |_| Ok(()))
            .is_err()
    );
}
