//! Encoding of objects: a byte for the kind, then the fields.

use super::*;

const DIRECTORY: u8 = 1;
const LINK: u8 = 2;
const STUFFED: u8 = 3;
const STRIPED: u8 = 4;
const SPECIAL: u8 = 5;
/// The fields are those of [`STRIPED`].
const SPARSE: u8 = 6;

impl Wire for Body {
    fn encode(&self, out: &mut Writer) {
        match self {
            Body::Directory(hint) => {
                out.u8(DIRECTORY);
                hint.encode(out);
            }
            Body::Link(target) => {
                out.u8(LINK);
                out.bytes(target);
            }
            Body::Special { kind, device } => {
                out.u8(SPECIAL);
                kind.encode(out);
                out.u32(*device);
            }
            Body::Stuffed {
                distribution,
                content,
                moving,
            } => {
                out.u8(STUFFED);
                distribution.encode(out);
                put_option(content, out, |content, out| out.bytes(content));
                out.bool(*moving);
            }
            Body::Striped {
                distribution,
                version,
                truncating,
                lengths,
                sparse,
            } => {
                out.u8(if *sparse { SPARSE } else { STRIPED });
                distribution.encode(out);
                out.u64(*version);
                put_option(truncating, out, |size, out| out.u64(*size));
                put!(u64s(MAX_STRIPE_SERVERS), lengths, out);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.u8("body")? {
            DIRECTORY => Body::Directory(Wire::decode(input)?),
            LINK => Body::Link(take!(bytes(MAX_PATH_BYTES), input, "target")),
            STUFFED => Body::Stuffed {
                distribution: Wire::decode(input)?,
                content: take!(option_bytes(MAX_STUFFED_BYTES), input, "content"),
                moving: input.bool("moving")?,
            },
            kind @ (STRIPED | SPARSE) => Body::Striped {
                distribution: Wire::decode(input)?,
                version: input.u64("version")?,
                truncating: take!(option_u64, input, "truncating"),
                lengths: take!(u64s(MAX_STRIPE_SERVERS), input, "lengths"),
                sparse: kind == SPARSE,
            },
            SPECIAL => {
                let (kind, device) = (Kind::decode(input)?, input.u32("device")?);
                if !kind.is_special() || (device != 0 && !kind.is_device()) {
                    return unknown("kind of a special file", kind as u8);
                }
                Body::Special { kind, device }
            }
            value => return unknown("body", value),
        })
    }
}
