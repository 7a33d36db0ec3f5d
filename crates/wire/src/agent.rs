//! Messages between processes without keys and the agent of their node ([`crate::user`] defines the user for whom the agent
//! speaks). `docs/formats/agent.md` draws them.
//!
//! The process connects to a server itself. It sends the agent both hellos ([`crate::tcp::Hello`]); the agent makes the steps of Noise's
//! handshake, in which it states for which user the connection speaks, and gives the connection's two keys to the process.
//!
//! Each message is one record of a Unix socket, and each connection to an agent serves one handshake: [`Request::Open`] and
//! the reply [`Reply::SendStep`], then [`Request::PeerStep`] and the reply [`Reply::Done`]. [`Reply::Refused`] and [`Reply::Busy`]
//! end it at any time.

use alloc::string::String;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};
use crate::formats::Formats;
use crate::node::{Certificate, MAX_CERTIFICATE_BYTES};
use crate::tcp::{HELLO_BYTES, MAX_STEP_PAYLOAD};

/// The formats of everything in this module that this build speaks.
pub const FORMATS: Formats = Formats::only(1);

/// Longest address, in bytes; configurations have no longer ones.
pub const MAX_ADDRESS_BYTES: usize = 1024;

/// Longest sentence in a [`Reply::Refused`], in bytes; a longer one is cut.
pub const MAX_REASON_BYTES: usize = 1024;

/// Bytes of one key of a connection.
pub const KEY_BYTES: usize = 32;

/// Longest encoding of a [`Request`] or a [`Reply`].
pub const MAX_MESSAGE_BYTES: usize =
    1 + (4 + MAX_STEP_PAYLOAD) + 2 * KEY_BYTES + 1 + MAX_CERTIFICATE_BYTES;

const _: () = assert!(1 + 2 + (4 + MAX_ADDRESS_BYTES) + 2 * HELLO_BYTES <= MAX_MESSAGE_BYTES);
const _: () = assert!(1 + 4 + MAX_REASON_BYTES <= MAX_MESSAGE_BYTES);

/// A request of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Begin the handshake of a connection over tcp that the process has made.
    Open(Open),
    /// The server has sent this step of Noise's handshake.
    PeerStep(Vec<u8>),
}

/// A connection whose handshake begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The formats that the process speaks: its [`FORMATS`].
    pub formats: Formats,
    /// The address that was called, as it is written in the configuration: the process that replies there must have the role
    /// that belongs to this address.
    pub address: String,
    /// The process's own hello.
    pub ours: [u8; HELLO_BYTES],
    /// The server's.
    pub theirs: [u8; HELLO_BYTES],
}

/// A reply of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, for as long as it takes to look at it"
)]
pub enum Reply {
    /// This step of Noise's handshake is to be sent.
    SendStep(Vec<u8>),
    /// The handshake is finished.
    Done(Done),
    /// The agent refuses to continue; the text states why, and what to do.
    Refused(String),
    /// The agent accepts no handshake now, but may later; the text states why.
    Busy(String),
}

/// The results of a finished handshake.
#[derive(Clone, PartialEq, Eq)]
pub struct Done {
    /// A last step to be sent; empty if there is none.
    pub last: Vec<u8>,
    /// The key for what the process sends.
    pub ours: Zeroizing<[u8; KEY_BYTES]>,
    /// The key for what the server sends.
    pub theirs: Zeroizing<[u8; KEY_BYTES]>,
    /// The server's node, if it has proven one.
    pub node: Option<Certificate>,
}

/// Its keys are not shown.
impl core::fmt::Debug for Done {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Done")
            .field("last", &self.last.len())
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Wire for Open {
    fn encode(&self, out: &mut Writer) {
        out.u8(self.formats.lowest);
        out.u8(self.formats.above());
        out.bytes(self.address.as_bytes());
        out.raw(&self.ours);
        out.raw(&self.theirs);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let lowest = input.u8("agent format")?;
        let formats = Formats::stated(lowest.into(), input.u8("agent formats above")?)?;
        Ok(Self {
            formats,
            address: text(input, MAX_ADDRESS_BYTES, "agent address")?,
            ours: input.array("own hello")?,
            theirs: input.array("server's hello")?,
        })
    }
}

impl Wire for Done {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.last);
        out.raw(&self.ours[..]);
        out.raw(&self.theirs[..]);
        put_option(&self.node, out, Wire::encode);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            last: input.bytes(MAX_STEP_PAYLOAD, "last step")?.to_vec(),
            ours: Zeroizing::new(input.array("own key")?),
            theirs: Zeroizing::new(input.array("server's key")?),
            node: option(input, "server's node", Wire::decode)?,
        })
    }
}

variants!(Request, "agent request", {
    1 => Open(open: wire),
    2 => PeerStep(message: bytes(MAX_STEP_PAYLOAD)),
});

variants!(Reply, "agent reply", {
    1 => SendStep(message: bytes(MAX_STEP_PAYLOAD)),
    2 => Done(done: wire),
    3 => Refused(reason: text(MAX_REASON_BYTES)),
    4 => Busy(reason: text(MAX_REASON_BYTES)),
});

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    #[test]
    fn requests_and_replies_have_their_golden_bytes() {
        let open = Request::Open(Open {
            formats: FORMATS,
            address: "tcp://a:1".to_string(),
            ours: [1; HELLO_BYTES],
            theirs: [2; HELLO_BYTES],
        });
        let mut golden = b"\x01\x01\x00\x09\0\0\0tcp://a:1".to_vec();
        golden.extend([1; HELLO_BYTES]);
        golden.extend([2; HELLO_BYTES]);
        assert_eq!(open.to_bytes(), golden);
        assert_eq!(Request::from_bytes(&golden), Ok(open));
        let heard = Request::PeerStep(vec![5, 6]);
        assert_eq!(heard.to_bytes(), b"\x02\x02\0\0\0\x05\x06");
        let say = Reply::SendStep(vec![7]);
        assert_eq!(say.to_bytes(), b"\x01\x01\0\0\0\x07");
        let done = Reply::Done(Done {
            last: vec![8],
            ours: Zeroizing::new([3; KEY_BYTES]),
            theirs: Zeroizing::new([4; KEY_BYTES]),
            node: None,
        });
        let mut golden = b"\x02\x01\0\0\0\x08".to_vec();
        golden.extend([3; KEY_BYTES]);
        golden.extend([4; KEY_BYTES]);
        golden.push(0);
        assert_eq!(done.to_bytes(), golden);
        assert_eq!(Reply::from_bytes(&golden), Ok(done));
        let refused = Reply::Refused("no".to_string());
        assert_eq!(refused.to_bytes(), b"\x03\x02\0\0\0no");
        let busy = Reply::Busy("no".to_string());
        assert_eq!(busy.to_bytes(), b"\x04\x02\0\0\0no");
        assert!(Reply::from_bytes(b"\x05").is_err());
        assert!(Request::from_bytes(b"\x01\0\0").is_err(), "format 0");
    }
}
