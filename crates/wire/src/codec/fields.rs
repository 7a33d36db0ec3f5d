//! Encoders and decoders from tables of fields: one pair of rules for each kind of field, and
//! macros for structs ([`record!`]), enumerations ([`variants!`]), and enumerations without fields
//! ([`codes!`]).
//!
//! Integers are little-endian; a list is a `u32` count and its items; bytes and text are a `u32` length and the bytes; an
//! option is a byte 0 or 1 and the value; an enumeration is a byte and the variant's fields. A number in parentheses
//! is the largest length that is accepted (bytes, text) or the fewest bytes that an item occupies (lists, with the most
//! items behind it where a message of the file system could hold more).

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Malformed, Reader, Wire, Writer, utf8};

/// A list of at most `limit` items of at least `least_item_bytes` each.
pub(crate) fn list<T>(
    input: &mut Reader<'_>,
    limit: usize,
    least_item_bytes: usize,
    field: &'static str,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = input.count(limit, least_item_bytes, field)?;
    // Not `with_capacity(count)`: an item may be larger in memory than on the wire.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(input)?);
    }
    Ok(items)
}

/// At most `limit` integers.
pub(crate) fn integers<'a, T>(
    input: &mut Reader<'a>,
    limit: usize,
    field: &'static str,
    item: fn(&mut Reader<'a>, &'static str) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = input.count(limit, size_of::<T>(), field)?;
    (0..count).map(|_| item(input, field)).collect()
}

pub(crate) fn option<T>(
    input: &mut Reader<'_>,
    field: &'static str,
    value: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match input.bool(field)? {
        true => value(input).map(Some),
        false => Ok(None),
    }
}

pub(crate) fn put_list<T: Wire>(items: &[T], out: &mut Writer) {
    out.count(items.len());
    for item in items {
        item.encode(out);
    }
}

pub(crate) fn put_option<T>(
    value: &Option<T>,
    out: &mut Writer,
    put: impl FnOnce(&T, &mut Writer),
) {
    out.bool(value.is_some());
    if let Some(value) = value {
        put(value, out);
    }
}

/// Appends text, cut at `limit` bytes.
pub(crate) fn put_text(text: &str, limit: usize, out: &mut Writer) {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.bytes(&text.as_bytes()[..end]);
}

pub(crate) fn text(
    input: &mut Reader<'_>,
    limit: usize,
    field: &'static str,
) -> Result<String, Malformed> {
    Ok(utf8(input.bytes(limit, field)?, field)?.to_owned())
}

/// Appends one field of the given kind.
macro_rules! put {
    (wire, $value:expr, $out:ident) => {
        Wire::encode($value, $out)
    };
    (boxed, $value:expr, $out:ident) => {
        Wire::encode(&**$value, $out)
    };
    (bytes($limit:expr), $value:expr, $out:ident) => {
        $out.bytes($value)
    };
    (text($limit:expr), $value:expr, $out:ident) => {
        put_text($value, $limit, $out)
    };
    (list($least:expr $(, $most:expr)?), $value:expr, $out:ident) => {
        put_list($value, $out)
    };
    (texts($limit:expr), $value:expr, $out:ident) => {{
        $out.count($value.len());
        $value.iter().for_each(|text| put_text(text, $limit, $out));
    }};
    (u16s($limit:expr), $value:expr, $out:ident) => {{
        $out.count($value.len());
        $value.iter().for_each(|item| $out.u16(*item));
    }};
    (u64s($limit:expr), $value:expr, $out:ident) => {{
        $out.count($value.len());
        $value.iter().for_each(|item| $out.u64(*item));
    }};
    (u32s($limit:expr), $value:expr, $out:ident) => {{
        $out.count($value.len());
        $value.iter().for_each(|item| $out.u32(*item));
    }};
    (option, $value:expr, $out:ident) => {
        put_option($value, $out, Wire::encode)
    };
    (option_u16, $value:expr, $out:ident) => {
        put_option($value, $out, |value, out| out.u16(*value))
    };
    (option_u64, $value:expr, $out:ident) => {
        put_option($value, $out, |value, out| out.u64(*value))
    };
    (option_bytes($limit:expr), $value:expr, $out:ident) => {
        put_option($value, $out, |value, out| out.bytes(value))
    };
    ($integer:ident, $value:expr, $out:ident) => {
        $out.$integer(*$value)
    };
}

/// Takes one field of the given kind; its name is used in errors.
macro_rules! take {
    (wire, $input:ident, $name:expr) => {
        Wire::decode($input)?
    };
    (boxed, $input:ident, $name:expr) => {
        Box::new(Wire::decode($input)?)
    };
    (bytes($limit:expr), $input:ident, $name:expr) => {
        $input.bytes($limit, $name)?.to_vec()
    };
    (text($limit:expr), $input:ident, $name:expr) => {
        text($input, $limit, $name)?
    };
    (list($least:expr), $input:ident, $name:expr) => {
        take!(list($least, MAX_MESSAGE_BYTES / $least), $input, $name)
    };
    (list($least:expr, $most:expr), $input:ident, $name:expr) => {
        list($input, $most, $least, $name, Wire::decode)?
    };
    (texts($limit:expr), $input:ident, $name:expr) => {
        list($input, MAX_MESSAGE_BYTES / 4, 4, $name, |input| {
            text(input, $limit, $name)
        })?
    };
    (u16s($limit:expr), $input:ident, $name:expr) => {
        integers($input, $limit, $name, Reader::u16)?
    };
    (u64s($limit:expr), $input:ident, $name:expr) => {
        integers($input, $limit, $name, Reader::u64)?
    };
    (u32s($limit:expr), $input:ident, $name:expr) => {
        integers($input, $limit, $name, Reader::u32)?
    };
    (option, $input:ident, $name:expr) => {
        option($input, $name, Wire::decode)?
    };
    (option_u16, $input:ident, $name:expr) => {
        option($input, $name, |input| input.u16($name))?
    };
    (option_u64, $input:ident, $name:expr) => {
        option($input, $name, |input| input.u64($name))?
    };
    (option_bytes($limit:expr), $input:ident, $name:expr) => {
        option($input, $name, |input| {
            Ok(input.bytes($limit, $name)?.to_vec())
        })?
    };
    ($integer:ident, $input:ident, $name:expr) => {
        $input.$integer($name)?
    };
}

/// A struct: its fields one after the other, optionally after a constant byte.
macro_rules! record {
    ($type:ident $(, $first:literal = $code:expr)? ; {
        $($field:ident: $as:ident $(($($limit:expr),*))?),* $(,)?
    }) => {
        impl Wire for $type {
            fn encode(&self, out: &mut Writer) {
                $(out.u8($code);)?
                $(put!($as $(($($limit),*))?, &self.$field, out);)*
            }

            fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
                $(match input.u8($first)? {
                    byte if byte == $code => {}
                    other => return unknown($first, other),
                })?
                Ok(Self { $($field: take!($as $(($($limit),*))?, input, stringify!($field))),* })
            }
        }
    };
    ($type:ident { $($fields:tt)* }) => {
        record!($type; { $($fields)* });
    };
}

/// An enumeration: the variant's number as a byte, then its fields.
macro_rules! variants {
    ($type:ident, $name:literal, {
        $($code:tt => $variant:ident
            $(($one:ident: $one_as:ident $(($($one_limit:expr),*))?))?
            $({ $($field:ident: $as:ident $(($($limit:expr),*))?),* $(,)? })?
        ),* $(,)?
    }) => {
        impl Wire for $type {
            fn encode(&self, out: &mut Writer) {
                match self {
                    $(Self::$variant $(($one))? $({ $($field),* })? => {
                        out.u8($code);
                        $(put!($one_as $(($($one_limit),*))?, $one, out);)?
                        $($(put!($as $(($($limit),*))?, $field, out);)*)?
                    })*
                }
            }

            fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(match input.u8($name)? {
                    $($code => Self::$variant
                        $((take!($one_as $(($($one_limit),*))?, input, stringify!($one))))?
                        $({ $($field: take!($as $(($($limit),*))?, input, stringify!($field))),* })?,
                    )*
                    value => return unknown($name, value),
                })
            }
        }
    };
}

/// An enumeration whose variants have no fields: a byte.
macro_rules! codes {
    (
        $(#[$about:meta])*
        pub enum $type:ident: $name:literal {
            $($(#[$doc:meta])* $variant:ident = $code:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$doc])* $variant = $code,)*
        }

        impl Wire for $type {
            fn encode(&self, out: &mut Writer) {
                out.u8(*self as u8);
            }

            fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
                Self::from_code(input.u8($name)?)
            }
        }

        impl $type {
            #[inline]
            pub(crate) fn from_code(code: u8) -> Result<Self, Malformed> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    other => unknown($name, other),
                }
            }
        }
    };
}

/// A number with a type of its own.
macro_rules! number {
    ($type:ident: $integer:ident, $name:literal) => {
        impl Wire for $type {
            fn encode(&self, out: &mut Writer) {
                out.$integer(self.0);
            }

            fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
                input.$integer($name).map(Self)
            }
        }
    };
}

pub(crate) use {codes, number, put, record, take, variants};
