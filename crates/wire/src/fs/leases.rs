//! Leases: the right of a client to cache a name or attributes until the metadata server recalls the lease or its
//! time is over.

use alloc::vec::Vec;

use super::limits::MAX_NAME_BYTES;
use super::objects::ObjectId;
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Most leases that one message recalls: with the longest names they fill half a message.
pub const MAX_RECALLED: usize = 96;

/// What a lease is on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leased {
    /// The attributes of an object, and where its content is kept.
    Attributes(ObjectId),
    /// What a name in a directory stands for, or that it stands for nothing.
    Entry(ObjectId, Vec<u8>),
}

const ATTRIBUTES: u8 = 1;
const ENTRY: u8 = 2;

impl Wire for Leased {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Attributes(object) => {
                out.u8(ATTRIBUTES);
                object.encode(out);
            }
            Self::Entry(directory, name) => {
                out.u8(ENTRY);
                directory.encode(out);
                out.bytes(name);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.u8("lease")? {
            ATTRIBUTES => Self::Attributes(Wire::decode(input)?),
            ENTRY => Self::Entry(
                Wire::decode(input)?,
                take!(bytes(MAX_NAME_BYTES), input, "name"),
            ),
            value => return unknown("lease", value),
        })
    }
}
