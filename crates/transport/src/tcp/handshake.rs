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
//! The initiator's `Accept` proves that it holds the key in this very exchange: the first Noise
//! message alone could be a recording by a side that has the same numbers. Both hellos, with a number drawn by each side, are the Noise prologue, so that no attacker on the way
//! can talk the two sides out of encryption. If neither side wants it, what travels is authenticated all the same, with keys
//! of the same exchange. Sides of which one demands to know nodes and the other does not refuse each other: neither does with less. A side that does not like the other answers `Refuse`
//! with the reason, which the other reports.

use std::sync::Arc;

use causeway_sys::secret::Secret;
use causeway_wire::codec::Malformed;
use causeway_wire::formats::Formats;
use causeway_wire::tcp::{
    AUTHENTICATED_FROM, Auth, HELLO_BYTES, Hello, Holder, MAX_CONNECTIONS, MAX_STEP_PAYLOAD,
    NODES_FROM, Purpose, Refusal, STEP_HEADER_BYTES, Step, StepKind, TICKET_BYTES, Ticket,
};

use crate::error::PeerError;
use crate::nodes::Certificate;
use crate::nodes::exchange::{Exchange, Failed, LONGEST_MESSAGE, Proving};
use crate::tags::TagKeys;
use crate::trust::{NO_NODE, NODE_DEMANDED, refused};

/// The Noise protocol: no static keys, the cluster's key as pre-shared key from the first message.
/// The cipher is the faster one that is safe on both sides' processors: AES without instructions for
/// it is slow, or tells its key by its timing.
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

/// A number for one handshake, in the place of the process that is named without a key.
pub fn nonce() -> std::io::Result<Holder> {
    Ok(Holder::drawn(causeway_sys::random::bytes()?))
}

/// What one side brings to a handshake.
#[derive(Clone)]
pub struct Terms {
    /// The cluster's key, if there is one. Then it is used.
    pub key: Option<Secret>,
    /// Whether we ask for encryption. It is on if either side asks, or cannot do with less, and there is a key.
    pub encrypt: bool,
    /// Without a key: which process the other side is to ask its kernel about. With one: a number that was drawn for this handshake alone,
    /// so that what was recorded of another one does not fit ([`nonce`]).
    pub holder: Holder,
    /// See [`has_fast_aes`].
    pub fast_aes: bool,
    /// How many connections with one peer we take.
    pub connections: u8,
    /// The initiator of a subflow shows this.
    pub ticket: Option<Ticket>,
    /// What this process speaks: [`causeway_wire::tcp::FORMATS`].
    pub formats: Formats,
    /// With the cluster's key: each side has to prove which node it is, and what is known of nodes.
    pub nodes: Option<Proving>,
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
    /// What protects records, both ways; nothing without a key.
    pub protection: Option<Protection>,
    /// Bytes that came behind the last step: the first frames.
    pub rest: Vec<u8>,
    /// How many connections both sides take.
    pub connections: u8,
    /// To a responder: the ticket of a subflow.
    pub ticket: Option<Ticket>,
    /// The other side's node, if it has proven which it is.
    pub node: Option<Arc<Certificate>>,
}

/// What protects the records of a connection.
#[derive(Debug)]
pub enum Protection {
    /// They are encrypted.
    Encrypted(Box<snow::TransportState>),
    /// They have tags.
    Authenticated(Box<TagKeys>),
}

/// Asks the kernel whether the other end belongs to a user that we talk to without a key, given
/// the process that is said to hold it. The error says why not.
pub type Verify<'a> = dyn FnMut(Holder) -> Result<(), Unverified> + 'a;

/// Why the other end of a connection is not shown to be a process that is let in.
#[derive(Debug)]
pub struct Unverified {
    /// What the other side is told.
    pub refusal: Refusal,
    /// What it means on this side.
    pub cause: PeerError,
}

/// What the last step brought: the protection, if any, a subflow's ticket and the other side's node.
#[derive(Default)]
struct Agreed {
    protection: Option<Protection>,
    ticket: Option<Ticket>,
    node: Option<Arc<Certificate>>,
}

enum State {
    Hello,
    Noise(Box<snow::HandshakeState>),
    Nodes(Box<Exchange>),
    /// With the cluster's key: the other side still has to prove that it is there, or that it takes this side's node.
    Proof(Box<Sealed>),
    Accept,
    Over,
}

/// What a finished exchange gives.
struct Sealed {
    noise: Box<snow::TransportState>,
    /// Records have tags if there are keys for them.
    tags: Option<Box<TagKeys>>,
    /// The other side's node, if the exchange has shown it.
    node: Option<Arc<Certificate>>,
}

/// See the module's page. Feed [`Handshake::input`] and send what [`Handshake::take_output`] gives
/// after each call, also after one that failed.
pub struct Handshake {
    role: Role,
    ours: Hello,
    terms: Terms,
    /// What the hellos have agreed on.
    encrypt: bool,
    fast_aes: bool,
    connections: u8,
    state: State,
    partial: Vec<u8>,
    output: Vec<u8>,
}

impl Handshake {
    /// Begins.
    pub fn new(role: Role, terms: Terms) -> Self {
        let mut formats = terms.formats;
        if terms.nodes.is_some() {
            formats.lowest = formats.lowest.max(NODES_FROM);
        }
        let ours = Hello {
            formats,
            auth: match terms.key {
                Some(_) => Auth::ClusterKey,
                None => Auth::SameUser,
            },
            encrypt: terms.encrypt && terms.key.is_some(),
            holder: terms.holder,
            fast_aes: terms.fast_aes,
            nodes: terms.nodes.is_some(),
            connections: terms.connections.clamp(1, MAX_CONNECTIONS),
            purpose: match terms.ticket {
                Some(_) => Purpose::Subflow,
                None => Purpose::Peer,
            },
        };
        let mut this = Self {
            role,
            ours,
            terms,
            encrypt: false,
            fast_aes: false,
            connections: 1,
            state: State::Hello,
            partial: Vec::new(),
            output: Vec::new(),
        };
        if role == Role::Initiator {
            this.output.extend_from_slice(&ours.encode());
        }
        this
    }

    /// What is to be sent now.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Refuses the other side, whatever has happened so far.
    pub fn refuse(&mut self, refusal: Refusal) {
        if matches!(self.state, State::Hello) && self.role == Role::Responder {
            self.output.extend_from_slice(&self.ours.encode());
        }
        self.step(StepKind::Refuse, refusal, &[]);
        self.state = State::Over;
    }

    /// Takes bytes from the other side. Returns an agreement when all is said.
    pub fn input(
        &mut self,
        bytes: &[u8],
        verify: &mut Verify<'_>,
    ) -> Result<Option<Agreement>, PeerError> {
        // A peer that runs ahead is cut off where its first frames would be unreasonable.
        self.partial.extend_from_slice(bytes);
        loop {
            let agreed = match self.state {
                State::Hello => {
                    let Some((hello, rest)) = self.partial.split_first_chunk::<HELLO_BYTES>()
                    else {
                        return self.all_taken();
                    };
                    let hello = Hello::decode(hello).map_err(malformed)?;
                    let rest = rest.to_vec();
                    // A peer that refuses may be gone already, and then the kernel says nothing about it.
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
                self.state = State::Over;
                return Ok(Some(Agreement {
                    auth: self.ours.auth,
                    protection: agreed.protection,
                    rest: std::mem::take(&mut self.partial),
                    connections: self.connections,
                    ticket: agreed.ticket,
                    node: agreed.node,
                }));
            }
        }
    }

    /// Everything that could be understood is; an incomplete step may not grow without bound.
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
        // Without a key both are false: the kernel says who is there, and nothing travels beyond this host.
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
        match self.terms.key.clone() {
            Some(key) => self.begin_noise(&key, theirs),
            None => {
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
        let build = || {
            let protocol = match self.fast_aes {
                true => NOISE_AES,
                false => NOISE_CHACHA,
            };
            let builder = snow::Builder::new(protocol.parse()?)
                .psk(0, key.expose())?
                .prologue(&prologue)?;
            match self.role {
                Role::Initiator => builder.build_initiator(),
                Role::Responder => builder.build_responder(),
            }
        };
        if let Some(proving) = self.terms.nodes.clone() {
            let initiates = self.role == Role::Initiator;
            let mut exchange = Exchange::new(initiates, self.fast_aes, key, proving, &prologue)
                .map_err(broken_noise)?;
            if initiates {
                self.write_exchange(&mut exchange)?;
            }
            self.state = State::Nodes(Box::new(exchange));
            return Ok(());
        }
        let mut noise = build().map_err(broken_noise)?;
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

    /// `Some` when the two sides agree.
    fn on_step(&mut self, step: Step<'_>) -> Result<Option<Agreed>, PeerError> {
        if step.kind == StepKind::Refuse {
            self.state = State::Over;
            return Err(refused(step.refusal, "the TCP method"));
        }
        match (std::mem::replace(&mut self.state, State::Over), step.kind) {
            (State::Noise(noise), StepKind::Noise) => self.on_noise(noise, step.payload),
            (State::Nodes(exchange), StepKind::Noise) => self.on_exchange(exchange, step.payload),
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

    fn on_noise(
        &mut self,
        mut noise: Box<snow::HandshakeState>,
        payload: &[u8],
    ) -> Result<Option<Agreed>, PeerError> {
        let mut empty = [0; MAX_STEP_PAYLOAD];
        if noise.read_message(payload, &mut empty).is_err() {
            return Err(self.wrong_key());
        }
        if self.role == Role::Responder {
            self.write_noise(&mut noise)?;
        }
        let sealed = self.seal(noise, None)?;
        if self.role == Role::Responder {
            self.state = State::Proof(Box::new(sealed));
            return Ok(None);
        }
        let sealed = self.accept(sealed)?;
        Ok(Some(sealed.agreed(None)))
    }

    /// Takes a message of the exchange that shows nodes.
    fn on_exchange(
        &mut self,
        mut exchange: Box<Exchange>,
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
        let Some((noise, node)) = exchange.finish() else {
            return Err(self.wrong_key());
        };
        let mut sealed = self.seal(noise, Some(node))?;
        if self.role == Role::Initiator {
            sealed = self.accept(sealed)?;
        }
        self.state = State::Proof(Box::new(sealed));
        Ok(None)
    }

    /// Takes the other side's `Accept`, where it is a transport message.
    fn on_proof(
        &mut self,
        mut sealed: Sealed,
        payload: &[u8],
    ) -> Result<Option<Agreed>, PeerError> {
        let mut proof = [0; MAX_STEP_PAYLOAD];
        let Ok(len) = sealed.noise.read_message(payload, &mut proof) else {
            return Err(self.wrong_key());
        };
        let shown = proof.get(..len).unwrap_or_default();
        if self.role == Role::Initiator {
            return match shown {
                [] => Ok(Some(sealed.agreed(None))),
                _ => Err(unfitting()),
            };
        }
        let ticket = self.shown_ticket(shown)?;
        if sealed.node.is_some() {
            // The initiator waits for it: until then its node could be refused.
            sealed = self.accept(sealed)?;
        }
        Ok(Some(sealed.agreed(ticket)))
    }

    fn write_exchange(&mut self, exchange: &mut Exchange) -> Result<(), PeerError> {
        let message = exchange.write().map_err(broken_noise)?;
        self.step(StepKind::Noise, Refusal::None, &message);
        Ok(())
    }

    /// The keys that a finished exchange gives.
    fn seal(
        &self,
        mut noise: Box<snow::HandshakeState>,
        node: Option<Arc<Certificate>>,
    ) -> Result<Sealed, PeerError> {
        let tags = (!self.encrypt).then(|| Box::new(TagKeys::of(&mut noise, self.fast_aes)));
        let noise = Box::new(noise.into_transport_mode().map_err(broken_noise)?);
        Ok(Sealed { noise, tags, node })
    }

    /// Sends an `Accept` as a transport message.
    fn accept(&mut self, mut sealed: Sealed) -> Result<Sealed, PeerError> {
        let mut proof = [0; MAX_STEP_PAYLOAD];
        let len = sealed
            .noise
            .write_message(&self.proof(), &mut proof)
            .map_err(broken_noise)?;
        let shown = proof.get(..len).unwrap_or_default();
        self.step(StepKind::Accept, Refusal::None, shown);
        Ok(sealed)
    }

    /// What this side's `Accept` carries: an initiator's the ticket of a subflow.
    fn proof(&self) -> Vec<u8> {
        let ticket = self.terms.ticket.as_ref();
        ticket.map_or(Vec::new(), |ticket| ticket.0.to_vec())
    }

    /// What the initiator's `Accept` has carried.
    fn shown_ticket(&self, bytes: &[u8]) -> Result<Option<Ticket>, PeerError> {
        match (self.ours.purpose, <[u8; TICKET_BYTES]>::try_from(bytes)) {
            (Purpose::Peer, _) if bytes.is_empty() => Ok(None),
            (Purpose::Subflow, Ok(ticket)) => Ok(Some(Ticket(ticket))),
            _ => Err(unfitting()),
        }
    }

    fn wrong_key(&mut self) -> PeerError {
        self.refuse_with(Refusal::WrongKey, "it holds another cluster key".to_owned())
    }

    /// Refuses the other side. Returns what that means here.
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
            None => Protection::Encrypted(self.noise),
        };
        Agreed {
            protection: Some(protection),
            ticket,
            node: self.node,
        }
    }
}

fn unfitting() -> PeerError {
    let what = "its last handshake step does not fit what the connection is for";
    PeerError::Protocol(what.to_owned())
}

fn malformed(error: Malformed) -> PeerError {
    PeerError::Protocol(format!("in the handshake: {error}"))
}

/// An error of the library on our own side, such as no randomness.
fn broken_noise(error: snow::Error) -> PeerError {
    PeerError::Broken(format!("the Noise handshake cannot go on: {error}"))
}
