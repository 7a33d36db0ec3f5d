//! A client that sends arbitrary messages to servers, and reads their replies.

use std::time::Duration;

use causeway_bmi::{Access, Addr, Bmi, Config, Context, OpId, Posted, RegionDescriptor};
use causeway_sys::memory::Memory;
use causeway_wire::formats::Formats;
use causeway_wire::fs::formats::FORMATS;
use causeway_wire::fs::{
    Caller, Capability, Failure, Generation, Incarnation, MAX_MESSAGE_BYTES, Node, ObjectId,
    Operation, Reply, ReplyBody, Request, SetAttributes, Target,
};

use crate::cluster::Fixture;

/// How long anything here may take before it counts as hanging.
pub(crate) const GENEROUS: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Liar {
    bmi: Bmi,
    context: Context,
    tag: u64,
    client: u128,
    uid: u32,
    pub(crate) sequence: u64,
    pub(crate) servers: Vec<(Addr, Target)>,
    /// Of its requests.
    pub(crate) formats: Formats,
}

/// What was sent, and where its reply comes.
pub(crate) struct Sent {
    receive: OpId,
    reply: [Memory; 1],
}

pub(crate) type Answer = Result<(ReplyBody, Option<Capability>), Failure>;

impl Liar {
    pub(crate) fn new(fixture: &Fixture, client: u128, uid: u32) -> Self {
        let key = fixture.cluster.configuration().key().unwrap();
        let config = Config {
            key,
            ..Config::default()
        };
        Self::with(fixture, config, client, uid)
    }

    /// One that has this of the message layer.
    pub(crate) fn with(fixture: &Fixture, config: Config, client: u128, uid: u32) -> Self {
        let configuration = fixture.cluster.configuration();
        let mut bmi = Bmi::new(config).unwrap();
        let context = bmi.open_context().unwrap();
        let mut liar = Self {
            bmi,
            context,
            tag: 100,
            client,
            uid,
            sequence: 0,
            servers: Vec::new(),
            formats: FORMATS,
        };
        for server in &configuration.servers {
            let addr = liar.bmi.lookup(&server.addresses.join(",")).unwrap();
            let hello = Operation::Hello {
                layout_from: 0,
                timeout_s: 10,
            };
            let nobody = Target {
                file_system: 0,
                generation: Generation(0),
                incarnation: Incarnation(0),
            };
            let request = liar.request(nobody, hello, None);
            let answer = liar.send(addr, &request.to_bytes(FORMATS));
            let Ok((ReplyBody::Hello(greeting), _)) = answer else {
                panic!("{answer:?}");
            };
            liar.servers.push((addr, greeting.identity.target()));
        }
        liar
    }

    pub(crate) fn request(
        &mut self,
        target: Target,
        operation: Operation,
        capability: Option<Capability>,
    ) -> Request {
        self.tag += 1;
        Request {
            reply_tag: self.tag,
            target,
            client: self.client,
            slot: 0,
            sequence: 0,
            caller: Caller {
                uid: self.uid,
                gid: self.uid,
                groups: Vec::new(),
                umask: 0,
            },
            capability,
            opening: None,
            holder: None,
            operation,
        }
    }

    /// The reply to these bytes, which comes under the last tag.
    pub(crate) fn send(&mut self, server: Addr, bytes: &[u8]) -> Answer {
        let sent = self.post(server, bytes);
        self.answer(sent)
    }

    /// Sends these bytes. Nothing that the server does with this client's memory goes on before [`Liar::answer`].
    pub(crate) fn post(&mut self, server: Addr, bytes: &[u8]) -> Sent {
        let tag = Request::reply_tag_of(bytes).expect("a tag");
        let reply = [Memory::zeroed(MAX_MESSAGE_BYTES)];
        let posted = self.bmi.post_recv(server, &reply, tag, self.context, 0);
        let Ok(Posted::Pending(receive)) = posted else {
            panic!("{posted:?}");
        };
        let message = [Memory::from_vec(bytes.to_vec())];
        let sent = self
            .bmi
            .post_sendunexpected(server, &message, tag, self.context, 1);
        assert!(sent.is_ok(), "{sent:?}");
        Sent { receive, reply }
    }

    /// The reply to what was sent.
    pub(crate) fn answer(&mut self, Sent { receive, reply }: Sent) -> Answer {
        let done = self.bmi.test(receive, GENEROUS).unwrap().expect("a reply");
        let len = done.result.unwrap() as usize;
        let (reply, granted, _) =
            Reply::from_bytes_with(&reply[0].to_vec()[..len]).expect("a reply");
        reply.result.map(|body| (body, granted.capability))
    }

    /// Whether the reply to this request to the metadata server comes with a lease.
    pub(crate) fn leased_with(
        &mut self,
        operation: Operation,
        lie: impl FnOnce(&mut Request),
    ) -> bool {
        let (addr, target) = self.servers[0];
        let mut request = self.request(target, operation, None);
        lie(&mut request);
        let Sent { receive, reply } = self.post(addr, &request.to_bytes(self.formats));
        let done = self.bmi.test(receive, GENEROUS).unwrap().expect("a reply");
        let len = done.result.unwrap() as usize;
        let (reply, granted, _) =
            Reply::from_bytes_with(&reply[0].to_vec()[..len]).expect("a reply");
        reply.result.unwrap();
        granted.lease.is_some()
    }

    /// Lets a server read this memory.
    pub(crate) fn export(&mut self, server: usize, memory: &Memory) -> RegionDescriptor {
        let (addr, _) = self.servers[server];
        self.bmi.export(addr, memory, Access::Read).unwrap()
    }

    /// Asks a server, by its number in the configuration, honestly but for the capability and what `lie` changes.
    pub(crate) fn ask_with(
        &mut self,
        server: usize,
        operation: Operation,
        capability: Option<Capability>,
        lie: impl FnOnce(&mut Request),
    ) -> Answer {
        let (addr, target) = self.servers[server];
        let mut request = self.request(target, operation, capability);
        lie(&mut request);
        self.send(addr, &request.to_bytes(self.formats))
    }

    pub(crate) fn ask(
        &mut self,
        server: usize,
        operation: Operation,
        shown: &Capability,
    ) -> Answer {
        self.ask_with(server, operation, Some(shown.clone()), |_| {})
    }

    /// A request to the metadata server.
    pub(crate) fn metadata(&mut self, operation: Operation) -> Answer {
        self.ask_with(0, operation, None, |_| {})
    }

    /// A change of the metadata.
    pub(crate) fn change(&mut self, operation: Operation) -> Answer {
        self.sequence += 1;
        let sequence = self.sequence;
        self.ask_with(0, operation, None, |request| request.sequence = sequence)
    }

    pub(crate) fn node(&mut self, object: ObjectId) -> (Node, Option<Capability>) {
        let content = false;
        match self.metadata(Operation::GetNode { object, content }) {
            Ok((ReplyBody::Node(node), capability)) => (*node, capability),
            other => panic!("{other:?}"),
        }
    }

    /// What the metadata server lets this user do to an object.
    pub(crate) fn capability(&mut self, object: ObjectId) -> Capability {
        self.node(object).1.expect("a capability")
    }

    pub(crate) fn set_mode(&mut self, object: ObjectId, mode: u16) {
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        self.change(Operation::SetAttributes { object, set })
            .unwrap();
    }
}
