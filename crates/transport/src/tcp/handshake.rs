//! How two sides come to trust each other: a pure state machine, bytes in, bytes out.
//!
//! ```text
//! initiator                                   responder
//!   Hello ─────────────────────────────────────►
//!   ◄───────────────────────────────────── Hello
//!   Noise: psk, e ─────────────────────────────►   with the cluster's key
//!   ◄───────────────────────────── Noise: e, ee
//!   Accept: empty transport message ───────────►
//!
//!   ◄──────────────────────────────────── Accept   without: each side has asked the kernel
//!   Accept ────────────────────────────────────►   who owns the other end
//! ```
//!
//! The initiator's `Accept` proves that it holds the key in this very exchange: the first Noise
//! message alone could be a recording. Both hellos are the Noise prologue, so that nobody on the way
//! can talk the two sides out of encryption. A side that does not like the other answers `Refuse`
//! with the reason, which the other reports.

use causeway_wire::codec::Malformed;
use causeway_wire::tcp::{
    Auth, HELLO_BYTES, Hello, Holder, MAX_STEP_PAYLOAD, Refusal, STEP_HEADER_BYTES, Step, StepKind,
    VERSION,
};

use super::config::KEY_BYTES;
use crate::error::PeerError;

/// The Noise protocol: no static keys, the cluster's key as pre-shared key from the first message.
const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// Who began.
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
    /// Both directions of the encryption, if it is on.
    pub cipher: Option<Box<snow::TransportState>>,
    /// Bytes that came behind the last step: the first frames.
    pub rest: Vec<u8>,
}

/// Asks the kernel whether the other end belongs to somebody whom we talk to without a key, given
/// the process that is said to hold it. The error says why not.
pub type Verify<'a> = dyn FnMut(Holder) -> Result<(), String> + 'a;

/// The encryption that was agreed on, if any.
type Agreed = Option<Box<snow::TransportState>>;

enum State {
    Hello,
    Noise(Box<snow::HandshakeState>),
    /// With the cluster's key: the initiator still has to prove that it is there.
    Proof(Box<snow::TransportState>),
    Accept,
    Over,
}

/// See the module's page. Feed [`Handshake::input`] and send what [`Handshake::take_output`] gives
/// after each call, also after one that failed.
pub struct Handshake {
    role: Role,
    ours: Hello,
    key: Option<[u8; KEY_BYTES]>,
    encrypt: bool,
    state: State,
    partial: Vec<u8>,
    output: Vec<u8>,
}

impl Handshake {
    /// Begins. With a key it is used, and encryption is on if `encrypt` or the other side asks.
    /// Without, the other side is told which process, `holder`, is to be looked at.
    pub fn new(role: Role, key: Option<[u8; KEY_BYTES]>, encrypt: bool, holder: Holder) -> Self {
        let ours = Hello {
            version: VERSION,
            auth: match key {
                Some(_) => Auth::ClusterKey,
                None => Auth::SameUser,
            },
            encrypt: encrypt && key.is_some(),
            holder: match key {
                Some(_) => Holder::default(),
                None => holder,
            },
        };
        let mut this = Self {
            role,
            ours,
            key,
            encrypt: false,
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

    /// Takes bytes from the other side. Answers an agreement when all is said.
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
                    self.partial = rest.to_vec();
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
            if let Some(cipher) = agreed {
                self.state = State::Over;
                return Ok(Some(Agreement {
                    auth: self.ours.auth,
                    cipher,
                    rest: std::mem::take(&mut self.partial),
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
        if theirs.version != VERSION {
            self.refuse(Refusal::Version);
            return Err(PeerError::Protocol(format!(
                "it speaks version {} of the TCP format, this process version {VERSION}",
                theirs.version
            )));
        }
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
        if self.ours.auth == Auth::SameUser
            && let Err(reason) = verify(theirs.holder)
        {
            self.refuse(Refusal::OtherUser);
            return Err(PeerError::Unauthorised(reason));
        }
        self.encrypt = self.ours.encrypt || theirs.encrypt;
        if self.role == Role::Responder {
            self.output.extend_from_slice(&self.ours.encode());
        }
        match self.key {
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

    fn begin_noise(&mut self, key: &[u8; KEY_BYTES], theirs: Hello) -> Result<(), PeerError> {
        let (initiator, responder) = match self.role {
            Role::Initiator => (self.ours, theirs),
            Role::Responder => (theirs, self.ours),
        };
        let prologue = [initiator.encode(), responder.encode()].concat();
        let build = || {
            let builder = snow::Builder::new(NOISE.parse()?)
                .psk(0, key)?
                .prologue(&prologue)?;
            match self.role {
                Role::Initiator => builder.build_initiator(),
                Role::Responder => builder.build_responder(),
            }
        };
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
            return Err(refused(step.refusal));
        }
        match (std::mem::replace(&mut self.state, State::Over), step.kind) {
            (State::Noise(noise), StepKind::Noise) => self.on_noise(noise, step.payload),
            (State::Proof(mut noise), StepKind::Accept) => {
                let mut empty = [0; MAX_STEP_PAYLOAD];
                if noise.read_message(step.payload, &mut empty).is_err() {
                    return Err(self.wrong_key());
                }
                Ok(Some(self.encrypt.then_some(noise)))
            }
            (State::Accept, StepKind::Accept) => {
                if self.role == Role::Initiator {
                    self.step(StepKind::Accept, Refusal::None, &[]);
                }
                Ok(Some(None))
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
        let mut transport = Box::new(noise.into_transport_mode().map_err(broken_noise)?);
        if self.role == Role::Responder {
            self.state = State::Proof(transport);
            return Ok(None);
        }
        let mut proof = [0; MAX_STEP_PAYLOAD];
        let len = transport
            .write_message(&[], &mut proof)
            .map_err(broken_noise)?;
        self.step(
            StepKind::Accept,
            Refusal::None,
            proof.get(..len).unwrap_or_default(),
        );
        Ok(Some(self.encrypt.then_some(transport)))
    }

    fn wrong_key(&mut self) -> PeerError {
        self.refuse(Refusal::WrongKey);
        PeerError::Unauthorised("it holds another cluster key".to_owned())
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

fn malformed(error: Malformed) -> PeerError {
    PeerError::Protocol(format!("in the handshake: {error}"))
}

/// An error of the library on our own side, such as no randomness.
fn broken_noise(error: snow::Error) -> PeerError {
    PeerError::Broken(format!("the Noise handshake cannot go on: {error}"))
}

fn refused(refusal: Refusal) -> PeerError {
    let reason = match refusal {
        Refusal::Version => "it speaks another version of the TCP format",
        Refusal::KeyNeeded => "it demands the cluster's key, and this process has none",
        Refusal::NoKey => "it has no cluster key, and this process demands one",
        Refusal::WrongKey => "it says that this process holds another cluster key",
        Refusal::OtherUser => {
            "it says that this process is not of its user on its host; use a cluster key"
        }
        Refusal::Full => "it has as many peers as it takes",
        Refusal::None => "it refuses without a reason",
    };
    PeerError::Unauthorised(reason.to_owned())
}
