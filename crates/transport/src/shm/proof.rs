//! Proofs, made in the handshake of two processes, that they hold the cluster's key: each side
//! computes a keyed hash of the random numbers of both, so that recorded proofs are useless, and
//! each under a name of its own, so that a proof cannot be sent back.

use causeway_sys::secret::Secret;
use causeway_wire::codec::Wire;
use causeway_wire::shm::{Challenge, Hello, Proof, Record};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::PeerError;

/// Which side makes a proof; both names have the same length.
#[derive(Debug, Clone, Copy)]
enum Side {
    Accepting,
    Connecting,
}

impl Side {
    fn name(self) -> &'static [u8; 22] {
        match self {
            Self::Accepting => b"causeway shm accepts  ",
            Self::Connecting => b"causeway shm connects ",
        }
    }
}

/// The hash of which a proof of `side` consists; `None` never happens, as HMAC takes keys of any
/// length.
fn hash(key: &Secret, side: Side, hello: &Hello, nonce: u128) -> Option<Hmac<Sha256>> {
    let mut hash = Hmac::<Sha256>::new_from_slice(key.expose()).ok()?;
    hash.update(side.name());
    hash.update(&nonce.to_le_bytes());
    hash.update(&Record::Hello(*hello).to_bytes());
    Some(hash)
}

fn prove(key: &Secret, side: Side, hello: &Hello, nonce: u128) -> Option<Proof> {
    let hash = hash(key, side, hello, nonce)?;
    Some(Proof(hash.finalize().into_bytes().into()))
}

/// Compares in constant time.
fn is_proven(key: &Secret, side: Side, hello: &Hello, nonce: u128, proof: &Proof) -> bool {
    hash(key, side, hello, nonce).is_some_and(|hash| hash.verify_slice(&proof.0).is_ok())
}

/// The accepting side's reply to a greeting.
pub(super) fn challenge(key: &Secret, hello: &Hello, nonce: u128) -> Option<Challenge> {
    let proof = prove(key, Side::Accepting, hello, nonce)?;
    Some(Challenge { nonce, proof })
}

/// Whether the caller that was sent a challenge with `nonce` holds the key.
pub(super) fn accepts(key: &Secret, hello: &Hello, nonce: u128, proof: &Proof) -> bool {
    is_proven(key, Side::Connecting, hello, nonce, proof)
}

/// The caller's side of a handshake with the key.
#[derive(Debug)]
pub(super) struct Caller {
    key: Secret,
    hello: Hello,
    is_answered: bool,
}

impl Caller {
    pub(super) fn new(key: Secret, hello: Hello) -> Self {
        Self {
            key,
            hello,
            is_answered: false,
        }
    }

    /// Checks the accepting side's proof, and returns the caller's.
    pub(super) fn answer(&mut self, challenge: &Challenge) -> Result<Proof, PeerError> {
        let Challenge { nonce, proof } = challenge;
        if !is_proven(&self.key, Side::Accepting, &self.hello, *nonce, proof) {
            return Err(PeerError::Unauthorised(
                "it holds another cluster key".to_owned(),
            ));
        }
        self.is_answered = true;
        prove(&self.key, Side::Connecting, &self.hello, *nonce).ok_or(PeerError::Disconnected)
    }

    /// Whether the accepting side may welcome us now.
    pub(super) fn check_welcome(&self) -> Result<(), PeerError> {
        match self.is_answered {
            true => Ok(()),
            false => Err(PeerError::Unauthorised(
                "it does not prove that it holds the cluster's key".to_owned(),
            )),
        }
    }
}
