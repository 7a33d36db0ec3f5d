//! Addresses are text: `tcp://host:port`, `shm://path`, `vi://host/n`, `ofi://…`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// The longest address that is accepted, in bytes.
pub const MAX_ADDRESS_BYTES: usize = 1024;

/// One address of one process: a scheme, which names the method, and the rest, which only that
/// method interprets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    text: String,
    scheme_len: usize,
}

impl Address {
    /// The method's name, such as `tcp`.
    pub fn scheme(&self) -> &str {
        &self.text[..self.scheme_len]
    }

    /// What follows `://`.
    pub fn rest(&self) -> &str {
        &self.text[self.scheme_len + 3..]
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = |reason| Error::BadAddress {
            address: text.to_owned(),
            reason,
        };
        if text.len() > MAX_ADDRESS_BYTES {
            return Err(malformed("it is longer than 1024 bytes"));
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| malformed("it has no `scheme://`"))?;
        let well_formed = !scheme.is_empty()
            && scheme
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !well_formed {
            return Err(malformed(
                "its scheme is not made of lower-case letters and digits",
            ));
        }
        if rest.is_empty() {
            return Err(malformed("nothing follows `://`"));
        }
        Ok(Self {
            text: text.to_owned(),
            scheme_len: scheme.len(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// See [`Method::rank`](crate::method::Method::rank). Unknown schemes come last.
pub fn rank(scheme: &str) -> u8 {
    const ORDER: [&str; 7] = ["self", "mem", "shm", "vi", "ofi", "tcp", "udp"];
    let at = ORDER.iter().position(|known| *known == scheme);
    at.unwrap_or(ORDER.len()) as u8 * 10
}
