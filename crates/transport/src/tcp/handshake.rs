//! How two sides come to trust each other: a pure state machine, bytes in, bytes out.
//!
//! ```text
//! initiator                                   responder
//!   Hello ─────────────────────────────────────►
//!   ◄───────────────────────────────────── Hello
//!   Noise: psk, e ─────────────────────────────►   with the cluster's key
//!   ◄───────────────────────────── Noise: e, ee
//!   Accept: a subflow's ticket, or nothing ─────────►   as a transport message
//!
//!   Noise: psk, e ─────────────────────────────►   with it, and keys of nodes (`crate::nodes`)
//!   ◄──────────── Noise: e, ee, s, es, certificate
//!   Noise: s, se, certificate; Accept ─────────►
//!   ◄──────────────────────────────────── Accept   as a transport message
//!
//!   ◄──────────────────────────────────── Accept   without: each side has asked the kernel
//!   Accept ────────────────────────────────────►   which user owns the other end
//! ```
//!
//! The initiator's `Accept` proves that it holds the key in this very exchange: the first Noise message alone could be a recording by a side that has the same numbers. Both hellos,
//! with a number drawn by each side, are the Noise prologue, so that no attacker on the way can make the two sides do without encryption. If neither side wants encryption, records are
//! still authenticated, with keys of the same exchange. If only one side demands proofs of nodes, the two sides refuse each other: there is no fallback. A side that refuses the other
//! sends `Refuse` with the reason, which the other reports.
//!
//! An initiator without the key may have an agent of its node make the Noise messages ([`AgentCall`], `causeway_wire::agent`): the agent proves the
//! node, states for which user the connection speaks, and gives this side the connection's keys. Then the handshake has requests to the agent as
//! further output, and the agent's replies as further input ([`Handshake::take_agent_request`], [`Handshake::on_agent_reply`]).

use std::sync::Arc;

use causeway_sys::secret::Secret;
use causeway_wire::agent::{self, Done, Open, Reply, Request};
use causeway_wire::codec::{Malformed, Reader};
use causeway_wire::formats::Formats;
use causeway_wire::tcp::{
    AUTHENTICATED_FROM, Auth, HELLO_BYTES, Hello, Holder, MAX_CONNECTIONS, MAX_STEP_PAYLOAD,
    NODES_FROM, Purpose, Refusal, STEP_HEADER_BYTES, Step, StepKind, TICKET_BYTES, Ticket,
    USERS_FROM,
};
use causeway_wire::user::User;

use crate::ciphers::{Ciphers, SessionKeys};
use crate::error::PeerError;
use crate::nodes::Certificate;
use crate::nodes::handshake::{
    Failed, Finished, LONGEST_MESSAGE, NodeHandshake, NodeProof, read_user,
};
use crate::tags::TagKeys;
use crate::trust::{NO_NODE, NODE_DEMANDED, refused};

/// The Noise protocol: no static keys, the cluster's key as pre-shared key from the first message.
/// The cipher is the faster one that is safe on both sides' processors: AES without instructions for
/// it is slow, or leaks its key through its timing.
const NOISE_AES: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";
const NOISE_CHACHA: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

const _: () = assert!(LONGEST_MESSAGE <= MAX_STEP_PAYLOAD);

/// Whether this processor has instructions for AES-GCM and AEGIS, whose implementation uses those for AES together with AVX only.
pub fn has_fast_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let fast = std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
        && std::arch::is_x86_feature_detected!("avx");
    #[cfg(target_arch = "aarch64")]
    let fast = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let fast = false;
    fast
}

/// A random number for one handshake. It is sent in the field that names a process if there is no
/// key.
pub fn nonce() -> std::io::Result<Holder> {
    Ok(Holder::drawn(causeway_sys::random::bytes()?))
}

/// The settings of one side of a handshake.
#[derive(Clone)]
pub struct HandshakeConfig {
    /// The cluster's key, which is used if there is one.
    pub key: Option<Secret>,
    /// Whether this side requests encryption. With a key, a connection is encrypted if either side requests
    /// that or does not support less.
    pub encrypt: bool,
    /// Without a key: which process the other side is to ask its kernel about. With a key: a number that was drawn for this handshake
    /// alone, so that messages recorded from another handshake are invalid ([`nonce`]).
    pub holder_or_nonce: Holder,
    /// See [`has_fast_aes`].
    pub fast_aes: bool,
    /// How many connections with one peer this side supports.
    pub connections: u8,
    /// At the initiator of a subflow: the ticket that it presents.
    pub ticket: Option<Ticket>,
    /// The formats that this process speaks: [`causeway_wire::tcp::FORMATS`].
    pub formats: Formats,
    /// With the cluster's key, if each side has to prove which node it is: what this side needs for
    /// that.
    pub nodes: Option<NodeProof>,
    /// At an initiator without the key: the agent that makes the handshake.
    pub agent: Option<AgentCall>,
}

/// A handshake that an agent makes.
#[derive(Debug, Clone)]
pub struct AgentCall {
    /// The address that was called.
    pub address: String,
    /// Whether each side proves which node it is.
    pub nodes: bool,
}

/// Which side began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that connected.
    Initiator,
    /// The side that was connected to.
    Responder,
}

/// What the two sides have agreed on.
#[derive(Debug)]
pub struct Agreement {
    /// How they authenticated.
    pub auth: Auth,
    /// The protection of records, in both directions; `None` without a key.
    pub protection: Option<Protection>,
    /// Bytes that arrived after the last step: the first frames.
    pub rest: Vec<u8>,
    /// How many connections both sides support.
    pub connections: u8,
    /// At a responder: the ticket of a subflow.
    pub ticket: Option<Ticket>,
    /// The other side's node, if it has proven one.
    pub node: Option<Arc<Certificate>>,
    /// At a responder: the one user that the other side speaks for, as its node's agent has stated; `None` if it may
    /// speak for all.
    pub user: Option<User>,
}

/// What protects the records of a connection.
#[derive(Debug)]
pub enum Protection {
    /// They are encrypted.
    Encrypted(Box<Ciphers>),
    /// They have tags.
    Authenticated(Box<TagKeys>),
}

/// Asks the kernel whether the other end belongs to a user that we talk to without a key, given
/// the process that is said to hold it. The error says why not.
pub type Verify<'a> = dyn FnMut(Holder) -> Result<(), Unverified> + 'a;

/// Why it is not proven that the process at the other end of a connection may connect.
#[derive(Debug)]
pub struct Unverified {
    /// What the other side is told.
    pub refusal: Refusal,
    /// The error to report on this side.
    pub cause: PeerError,
}

/// The results of the last step: the protection, if any, a subflow's ticket, and the other side's
/// node and user.
#[derive(Default)]
struct Agreed {
    protection: Option<Protection>,
    ticket: Option<Ticket>,
    node: Option<Arc<Certificate>>,
    user: Option<User>,
}

enum State {
    Hello,
    Noise(Box<snow::HandshakeState>),
    Nodes(Box<NodeHandshake>),
    /// An agent makes the Noise messages; `is_asked` while its reply is awaited.
    Agent {
        is_asked: bool,
    },
    /// With the cluster's key: the other side's `Accept` is awaited, which proves that it takes part in this very
    /// exchange, or that it accepts this side's node.
    Proof(Box<Sealed>),
    Accept,
    Over,
}

/// The results of a finished exchange.
struct Sealed {
    ciphers: Box<Ciphers>,
    /// The keys of tags, if records are authenticated instead of encrypted.
    tags: Option<Box<TagKeys>>,
    /// The other side's node, if the exchange has shown it.
    node: Option<Arc<Certificate>>,
    /// The one user that the other side speaks for, if it has stated one.
    user: Option<User>,
}

/// See the module's page. Pass received bytes to [`Handshake::input`], and after each call, even
/// one that failed, send what [`Handshake::take_output`] returns.
pub struct Handshake {
    role: Role,
    ours: Hello,
    config: HandshakeConfig,
    /// The format on which the two hellos agree.
    format: u8,
    encrypt: bool,
    fast_aes: bool,
    connections: u8,
    state: State,
    partial: Vec<u8>,
    output: Vec<u8>,
    agent_request: Option<Request>,
}

impl Handshake {
    /// Begins a handshake.
    pub fn new(role: Role, config: HandshakeConfig) -> Self {
        let mut formats = config.formats;
        let agent_call = config.agent.as_ref();
        let nodes = config.nodes.is_some() || agent_call.is_some_and(|agent_call| agent_call.nodes);
        if nodes {
            formats.lowest = formats.lowest.max(NODES_FROM);
        }
        if agent_call.is_some() {
            formats.lowest = formats.lowest.max(USERS_FROM);
        }
        let is_keyed = config.key.is_some() || agent_call.is_some();
        let ours = Hello {
            formats,
            auth: match is_keyed {
                true => Auth::ClusterKey,
                false => Auth::SameUser,
            },
            encrypt: config.encrypt && is_keyed,
            holder: config.holder_or_nonce,
            fast_aes: config.fast_aes,
            nodes,
            connections: config.connections.clamp(1, MAX_CONNECTIONS),
            purpose: match config.ticket {
                Some(_) => Purpose::Subflow,
                None => Purpose::Peer,
            },
        };
        let mut this = Self {
            role,
            ours,
            config,
            format: formats.lowest,
            encrypt: false,
            fast_aes: false,
            connections: 1,
            state: State::Hello,
            partial: Vec::new(),
            output: Vec::new(),
            agent_request: None,
        };
        if role == Role::Initiator {
            this.output.extend_from_slice(&ours.encode());
        }
        this
    }

    /// The bytes to be sent now.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The request to be sent to the agent now.
    pub fn take_agent_request(&mut self) -> Option<Request> {
        self.agent_request.take()
    }

    /// Handles a reply of the agent. Returns the agreement once the handshake is complete.
    pub fn on_agent_reply(&mut self, reply: Reply) -> Result<Option<Agreement>, PeerError> {
        let State::Agent { is_asked } = self.state else {
            return Err(broken_agent("it sent a reply that was not requested"));
        };
        match reply {
            // The agent may give up a handshake at any time.
            Reply::Busy(why) => {
                return Err(PeerError::Full(format!("this node's agent is busy: {why}")));
            }
            Reply::Refused(why) => {
                return Err(PeerError::Unauthorised(format!(
                    "this node's agent (causeway fs agent) does not speak for this process: {why}"
                )));
            }
            _ if !is_asked => return Err(broken_agent("it sent a reply that was not requested")),
            Reply::SendStep(message) => {
                self.state = State::Agent { is_asked: false };
                self.step(StepKind::Noise, Refusal::None, &message);
            }
            Reply::Done(done) => {
                let Done {
                    last, ours, theirs, ..
                } = done;
                let keys = SessionKeys { ours, theirs };
                if !last.is_empty() {
                    self.step(StepKind::Noise, Refusal::None, &last);
                }
                let sealed = self.seal(&keys, done.node.map(Arc::new), None)?;
                let sealed = self.accept(sealed)?;
                if !self.ours.nodes {
                    return Ok(Some(self.agreement(sealed.agreed(None))));
                }
                self.state = State::Proof(Box::new(sealed));
            }
        }
        // Bytes of the other side that arrived while the agent's reply was awaited.
        self.take_steps(&mut |_| Ok(()))
    }

    /// Refuses the other side, whatever has happened so far.
    pub fn refuse(&mut self, refusal: Refusal) {
        if matches!(self.state, State::Hello) && self.role == Role::Responder {
            self.output.extend_from_slice(&self.ours.encode());
        }
        self.step(StepKind::Refuse, refusal, &[]);
        self.state = State::Over;
    }

    /// Handles bytes from the other side. Returns the agreement once the handshake is complete.
    pub fn input(
        &mut self,
        bytes: &[u8],
        verify: &mut Verify<'_>,
    ) -> Result<Option<Agreement>, PeerError> {
        // A complete step that arrives too early is a protocol error (`on_step`); `Step::decode` bounds an incomplete one.
        self.partial.extend_from_slice(bytes);
        self.take_steps(verify)
    }

    fn take_steps(&mut self, verify: &mut Verify<'_>) -> Result<Option<Agreement>, PeerError> {
        loop {
            let agreed = match self.state {
                State::Hello => {
                    let Some((hello, rest)) = self.partial.split_first_chunk::<HELLO_BYTES>()
                    else {
                        return self.all_taken();
                    };
                    let hello = Hello::decode(hello).map_err(malformed)?;
                    let rest = rest.to_vec();
                    // Checked before the kernel is asked: a peer that refuses may be gone already, and
                    // then the kernel knows nothing of it.
                    if self.role == Role::Initiator
                        && let Ok(Some((step, _))) = Step::decode(&rest)
                        && step.kind == StepKind::Refuse
                    {
                        self.state = State::Over;
                        return Err(match step.refusal {
                            Refusal::Version => self.mismatch(&hello),
                            refusal => refused(refusal, "the TCP method"),
                        });
                    }
                    self.partial = rest;
                    self.on_hello(hello, verify)?;
                    None
                }
                State::Over => return Err(PeerError::Protocol("the handshake is over".to_owned())),
                _ => {
                    let partial = std::mem::take(&mut self.partial);
                    let Some((step, used)) = Step::decode(&partial).map_err(malformed)? else {
                        self.partial = partial;
                        return self.all_taken();
                    };
                    let agreed = self.on_step(step)?;
                    self.partial = partial.get(used..).unwrap_or_default().to_vec();
                    agreed
                }
            };
            if let Some(agreed) = agreed {
                return Ok(Some(self.agreement(agreed)));
            }
        }
    }

    /// Ends the handshake: its results, with the bytes that came after its last step.
    fn agreement(&mut self, agreed: Agreed) -> Agreement {
        self.state = State::Over;
        Agreement {
            auth: self.ours.auth,
            protection: agreed.protection,
            rest: std::mem::take(&mut self.partial),
            connections: self.connections,
            ticket: agreed.ticket,
            node: agreed.node,
            user: agreed.user,
        }
    }

    /// Called when all complete steps have been handled; debug builds assert that an incomplete step is bounded.
    fn all_taken(&self) -> Result<Option<Agreement>, PeerError> {
        debug_assert!(self.partial.len() <= STEP_HEADER_BYTES + MAX_STEP_PAYLOAD + HELLO_BYTES);
        Ok(None)
    }

    fn on_hello(&mut self, theirs: Hello, verify: &mut Verify<'_>) -> Result<(), PeerError> {
        let Some(format) = self.ours.formats.common(theirs.formats) else {
            self.refuse(Refusal::Version);
            return Err(self.mismatch(&theirs));
        };
        match (self.ours.auth, theirs.auth) {
            (Auth::ClusterKey, Auth::SameUser) => {
                self.refuse(Refusal::KeyNeeded);
                return Err(PeerError::Unauthorised(
                    "it has no cluster key, and this process demands one".to_owned(),
                ));
            }
            (Auth::SameUser, Auth::ClusterKey) => {
                self.refuse(Refusal::NoKey);
                return Err(PeerError::Unauthorised(
                    "it demands the cluster's key, and this process has none".to_owned(),
                ));
            }
            _ => {}
        }
        match (self.ours.nodes, theirs.nodes) {
            (true, false) => return Err(self.refuse_with(Refusal::NodeNeeded, NO_NODE.to_owned())),
            (false, true) => {
                return Err(self.refuse_with(Refusal::NoNode, NODE_DEMANDED.to_owned()));
            }
            _ => {}
        }
        if self.ours.auth == Auth::SameUser
            && let Err(unverified) = verify(theirs.holder)
        {
            self.refuse(unverified.refusal);
            return Err(unverified.cause);
        }
        self.format = format;
        // Without a key both are false: the kernel identifies the other side, and nothing leaves this host.
        let is_wanted = self.ours.encrypt || theirs.encrypt;
        let tags_do = format >= AUTHENTICATED_FROM || self.ours.auth == Auth::SameUser;
        self.encrypt = is_wanted || !tags_do;
        self.fast_aes = self.ours.fast_aes && theirs.fast_aes;
        self.connections = self.ours.connections.min(theirs.connections);
        if self.role == Role::Responder {
            self.ours.purpose = theirs.purpose;
            self.output.extend_from_slice(&self.ours.encode());
        }
        if self.ours.purpose != theirs.purpose {
            return Err(PeerError::Protocol(
                "it takes the connection for something else than it is".to_owned(),
            ));
        }
        match (self.config.key.clone(), self.config.agent.clone()) {
            (Some(key), _) => self.begin_noise(&key, theirs),
            (None, Some(agent_call)) => {
                self.agent_request = Some(Request::Open(Open {
                    formats: agent::FORMATS,
                    address: agent_call.address,
                    ours: self.ours.encode(),
                    theirs: theirs.encode(),
                }));
                self.state = State::Agent { is_asked: true };
                Ok(())
            }
            (None, None) => {
                if self.role == Role::Responder {
                    self.step(StepKind::Accept, Refusal::None, &[]);
                }
                self.state = State::Accept;
                Ok(())
            }
        }
    }

    fn mismatch(&self, theirs: &Hello) -> PeerError {
        let ours = self.ours.formats;
        PeerError::Protocol(ours.mismatch(theirs.formats, "the TCP method"))
    }

    fn begin_noise(&mut self, key: &Secret, theirs: Hello) -> Result<(), PeerError> {
        let (initiator, responder) = match self.role {
            Role::Initiator => (self.ours, theirs),
            Role::Responder => (theirs, self.ours),
        };
        let prologue = [initiator.encode(), responder.encode()].concat();
        if let Some(proving) = self.config.nodes.clone() {
            let initiates = self.role == Role::Initiator;
            let mut exchange =
                NodeHandshake::new(initiates, self.fast_aes, key, proving, &prologue)
                    .map_err(broken_noise)?;
            if self.format >= USERS_FROM {
                exchange = exchange.with_user(None);
            }
            if initiates {
                self.write_exchange(&mut exchange)?;
            }
            self.state = State::Nodes(Box::new(exchange));
            return Ok(());
        }
        let noise = keyed(self.role, self.fast_aes, key, &prologue);
        let mut noise = noise.map_err(broken_noise)?;
        if self.role == Role::Initiator {
            self.write_noise(&mut noise)?;
        }
        self.state = State::Noise(Box::new(noise));
        Ok(())
    }

    fn write_noise(&mut self, noise: &mut snow::HandshakeState) -> Result<(), PeerError> {
        let mut message = [0; MAX_STEP_PAYLOAD];
        let len = noise
            .write_message(&[], &mut message)
            .map_err(broken_noise)?;
        self.step(
            StepKind::Noise,
            Refusal::None,
            message.get(..len).unwrap_or_default(),
        );
        Ok(())
    }

    /// Handles a step. Returns its results if it was the last one.
    fn on_step(&mut self, step: Step<'_>) -> Result<Option<Agreed>, PeerError> {
        if step.kind == StepKind::Refuse {
            self.state = State::Over;
            return Err(refused(step.refusal, "the TCP method"));
        }
        match (std::mem::replace(&mut self.state, State::Over), step.kind) {
            (State::Noise(noise), StepKind::Noise) => self.on_noise(noise, step.payload),
            (State::Nodes(exchange), StepKind::Noise) => self.on_exchange(exchange, step.payload),
            (State::Agent { is_asked: false }, StepKind::Noise) => {
                self.agent_request = Some(Request::PeerStep(step.payload.to_vec()));
                self.state = State::Agent { is_asked: true };
                Ok(None)
            }
            (State::Proof(sealed), StepKind::Accept) => self.on_proof(*sealed, step.payload),
            (State::Accept, StepKind::Accept) => {
                let mut ticket = None;
                match self.role {
                    Role::Initiator => {
                        let proof = self.proof();
                        self.step(StepKind::Accept, Refusal::None, &proof);
                    }
                    Role::Responder => ticket = self.shown_ticket(step.payload)?,
                }
                Ok(Some(Agreed {
                    ticket,
                    ..Agreed::default()
                }))
            }
            _ => Err(PeerError::Protocol(
                "its handshake steps come in the wrong order".to_owned(),
            )),
        }
    }

    /// Handles a message of the exchange under the cluster's key alone: the first one at the responder, which replies and goes to
    /// [`State::Proof`], or the second one at the initiator, which proves itself and has ended the handshake.
    fn on_noise(
        &mut self,
        mut noise: Box<snow::HandshakeState>,
        payload: &[u8],
    ) -> Result<Option<Agreed>, PeerError> {
        let mut plain = [0; MAX_STEP_PAYLOAD];
        let Ok(len) = noise.read_message(payload, &mut plain) else {
            return Err(self.wrong_key());
        };
        let mut user = None;
        if self.role == Role::Responder {
            if self.format >= USERS_FROM {
                let mut reader = Reader::new(plain.get(..len).unwrap_or_default());
                user = read_user(&mut reader).map_err(malformed)?;
                reader.finish().map_err(malformed)?;
            }
            self.write_noise(&mut noise)?;
        }
        let sealed = self.seal(&SessionKeys::of(&mut noise), None, user)?;
        if self.role == Role::Responder {
            self.state = State::Proof(Box::new(sealed));
            return Ok(None);
        }
        let sealed = self.accept(sealed)?;
        Ok(Some(sealed.agreed(None)))
    }

    /// Handles a message of the exchange that proves nodes: stays in [`State::Nodes`] until it is finished, then goes to [`State::Proof`].
    fn on_exchange(
        &mut self,
        mut exchange: Box<NodeHandshake>,
        payload: &[u8],
    ) -> Result<Option<Agreed>, PeerError> {
        exchange.read(payload).map_err(|failed| match failed {
            Failed::WrongKey => self.wrong_key(),
            Failed::Malformed(error) => {
                self.refuse(Refusal::Forged);
                malformed(error)
            }
            Failed::Rejected(why) => self.refuse_with(why.refusal(), why.to_string()),
        })?;
        if !exchange.is_finished() {
            self.write_exchange(&mut exchange)?;
        }
        if !exchange.is_finished() {
            self.state = State::Nodes(exchange);
            return Ok(None);
        }
        let finished = exchange.finish();
        let finished = finished.map_err(|why| self.refuse_with(why.refusal(), why.to_string()))?;
        let Some(Finished {
            mut noise,
            node,
            user,
        }) = finished
        else {
            return Err(self.wrong_key());
        };
        let mut sealed = self.seal(&SessionKeys::of(&mut noise), Some(node), user)?;
        if self.role == Role::Initiator {
            sealed = self.accept(sealed)?;
        }
        self.state = State::Proof(Box::new(sealed));
        Ok(None)
    }

    /// Handles the other side's `Accept`, where it is a transport message: ends the handshake. A responder whose nodes were exchanged sends its
    /// own `Accept` only now.
    fn on_proof(
        &mut self,
        mut sealed: Sealed,
        payload: &[u8],
    ) -> Result<Option<Agreed>, PeerError> {
        let mut proof = [0; MAX_STEP_PAYLOAD];
        let Some(len) = sealed.ciphers.decrypt(payload, &mut proof) else {
            return Err(self.wrong_key());
        };
        let shown = proof.get(..len).unwrap_or_default();
        if self.role == Role::Initiator {
            return match shown {
                [] => Ok(Some(sealed.agreed(None))),
                _ => Err(unexpected_step()),
            };
        }
        let ticket = self.shown_ticket(shown)?;
        if sealed.node.is_some() {
            // The initiator waits for our `Accept`, because its node could be refused until then.
            sealed = self.accept(sealed)?;
        }
        Ok(Some(sealed.agreed(ticket)))
    }

    fn write_exchange(&mut self, exchange: &mut NodeHandshake) -> Result<(), PeerError> {
        let message = exchange.write().map_err(broken_noise)?;
        self.step(StepKind::Noise, Refusal::None, &message);
        Ok(())
    }

    /// Makes the protection of records from the keys of a finished exchange. Neither sends nor changes the state.
    fn seal(
        &self,
        keys: &SessionKeys,
        node: Option<Arc<Certificate>>,
        user: Option<User>,
    ) -> Result<Sealed, PeerError> {
        let tags = (!self.encrypt).then(|| Box::new(TagKeys::of(keys, self.fast_aes)));
        let ciphers = Ciphers::new(keys, self.fast_aes)
            .ok_or_else(|| PeerError::Broken("this build lacks the cipher".to_owned()))?;
        Ok(Sealed {
            ciphers: Box::new(ciphers),
            tags,
            node,
            user,
        })
    }

    /// Sends an `Accept` as a transport message. The state is the caller's to change.
    fn accept(&mut self, mut sealed: Sealed) -> Result<Sealed, PeerError> {
        let mut proof = [0; MAX_STEP_PAYLOAD];
        let len = sealed
            .ciphers
            .encrypt(&self.proof(), &mut proof)
            .ok_or_else(|| PeerError::Broken("encrypting failed".to_owned()))?;
        let shown = proof.get(..len).unwrap_or_default();
        self.step(StepKind::Accept, Refusal::None, shown);
        Ok(sealed)
    }

    /// The payload of this side's `Accept`: at the initiator of a subflow, the ticket.
    fn proof(&self) -> Vec<u8> {
        let ticket = self.config.ticket.as_ref();
        ticket.map_or(Vec::new(), |ticket| ticket.0.to_vec())
    }

    /// The ticket in the initiator's `Accept`, if it is that of a subflow.
    fn shown_ticket(&self, bytes: &[u8]) -> Result<Option<Ticket>, PeerError> {
        match (self.ours.purpose, <[u8; TICKET_BYTES]>::try_from(bytes)) {
            (Purpose::Peer, _) if bytes.is_empty() => Ok(None),
            (Purpose::Subflow, Ok(ticket)) => Ok(Some(Ticket(ticket))),
            _ => Err(unexpected_step()),
        }
    }

    fn wrong_key(&mut self) -> PeerError {
        self.refuse_with(Refusal::WrongKey, "it holds another cluster key".to_owned())
    }

    /// Refuses the other side. Returns the error to report here.
    fn refuse_with(&mut self, refusal: Refusal, why: String) -> PeerError {
        self.refuse(refusal);
        PeerError::Unauthorised(why)
    }

    fn step(&mut self, kind: StepKind, refusal: Refusal, payload: &[u8]) {
        Step {
            kind,
            refusal,
            payload,
        }
        .encode(&mut self.output);
    }
}

impl Sealed {
    fn agreed(self, ticket: Option<Ticket>) -> Agreed {
        let protection = match self.tags {
            Some(keys) => Protection::Authenticated(keys),
            None => Protection::Encrypted(self.ciphers),
        };
        Agreed {
            protection: Some(protection),
            ticket,
            node: self.node,
            user: self.user,
        }
    }
}

/// The Noise handshake under the cluster's key alone, before its first message.
pub(crate) fn keyed(
    role: Role,
    fast_aes: bool,
    key: &Secret,
    prologue: &[u8],
) -> Result<snow::HandshakeState, snow::Error> {
    let protocol = match fast_aes {
        true => NOISE_AES,
        false => NOISE_CHACHA,
    };
    let builder = snow::Builder::new(protocol.parse()?)
        .psk(0, key.expose())?
        .prologue(prologue)?;
    match role {
        Role::Initiator => builder.build_initiator(),
        Role::Responder => builder.build_responder(),
    }
}

fn unexpected_step() -> PeerError {
    let what = "its last handshake step does not fit what the connection is for";
    PeerError::Protocol(what.to_owned())
}

fn malformed(error: Malformed) -> PeerError {
    PeerError::Protocol(format!("in the handshake: {error}"))
}

fn broken_agent(what: &str) -> PeerError {
    PeerError::Broken(format!(
        "this node's agent does not keep to the protocol: {what}"
    ))
}

/// An error of the library on our own side, such as no randomness.
fn broken_noise(error: snow::Error) -> PeerError {
    PeerError::Broken(format!("the Noise handshake cannot go on: {error}"))
}
