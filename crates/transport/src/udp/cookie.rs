//! Proofs that a caller receives datagrams at its address, which cost the callee no memory.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use causeway_sys::secret::Secret;
use causeway_wire::datagram::COOKIE_BYTES;
use sha2::{Digest, Sha256};

use super::Time;

/// How long a cookie is valid.
const VALID_FOR: Duration = Duration::from_secs(10);

/// Bytes of the time before the proof.
const TIME_BYTES: usize = 8;

/// Makes and verifies cookies.
pub(super) struct Cookies {
    secret: Secret,
}

impl Cookies {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self {
            secret: secret.into(),
        }
    }

    /// The cookie for a caller at `address` whose number for the connection is `caller`.
    pub(super) fn make(&self, address: SocketAddr, caller: u64, now: Time) -> [u8; COOKIE_BYTES] {
        let time = (now.as_millis() as u64).to_le_bytes();
        // Every field has a fixed length, and a part of the digest is not revealed: SHA-256 needs
        // no further construction to be a keyed proof here.
        let mut digest = Sha256::new();
        digest.update(self.secret.expose());
        digest.update(time);
        digest.update(caller.to_le_bytes());
        digest.update(address.port().to_le_bytes());
        match address.ip() {
            IpAddr::V4(v4) => digest.update(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => digest.update(v6.octets()),
        }
        let digest = digest.finalize();
        let mut cookie = [0; COOKIE_BYTES];
        let (front, back) = cookie.split_at_mut(TIME_BYTES);
        front.copy_from_slice(&time);
        for (slot, byte) in back.iter_mut().zip(digest) {
            *slot = byte;
        }
        cookie
    }

    /// Whether `cookie` was made here for this caller, and is still valid.
    pub(super) fn accepts(
        &self,
        cookie: &[u8; COOKIE_BYTES],
        address: SocketAddr,
        caller: u64,
        now: Time,
    ) -> bool {
        let Some(time) = cookie.first_chunk::<TIME_BYTES>() else {
            return false;
        };
        let made_at = Time::from_millis(u64::from_le_bytes(*time));
        if made_at > now || now - made_at > VALID_FOR {
            return false;
        }
        let expected = self.make(address, caller, made_at);
        // In constant time, so that the time does not show where the difference is.
        let differences = expected.iter().zip(cookie).map(|(a, b)| a ^ b);
        differences.fold(0, |all, one| all | one) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_one_caller_and_some_time() {
        let cookies = Cookies::new([7; 32]);
        let here: SocketAddr = "127.0.0.1:5".parse().unwrap();
        let there: SocketAddr = "[::1]:5".parse().unwrap();
        let now = Time::from_millis(123_456);
        let cookie = cookies.make(here, 9, now);
        assert!(cookies.accepts(&cookie, here, 9, now));
        assert!(cookies.accepts(&cookie, here, 9, now + VALID_FOR));
        assert!(!cookies.accepts(&cookie, here, 9, now + 2 * VALID_FOR));
        assert!(!cookies.accepts(&cookie, here, 9, now - VALID_FOR));
        assert!(!cookies.accepts(&cookie, there, 9, now));
        assert!(!cookies.accepts(&cookie, here, 8, now));
        assert!(!Cookies::new([8; 32]).accepts(&cookie, here, 9, now));
        assert!(!cookies.accepts(&[0; COOKIE_BYTES], here, 9, now));
        for at in 0..COOKIE_BYTES {
            let mut altered = cookie;
            altered[at] ^= 1;
            assert!(!cookies.accepts(&altered, here, 9, now));
        }
    }
}
