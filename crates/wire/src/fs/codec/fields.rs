//! How the tables in [`super`] are turned into encoders and decoders: one pair of rules per kind of
//! field, and two macros that go through the fields of a struct or an enumeration in order.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Malformed, Reader, Wire, Writer};
use crate::fs::MAX_MESSAGE_BYTES;

/// Refuses a value that the field does not have.
pub(in crate::fs) fn unknown<T>(
    field: &'static str,
    value: impl Into<u64>,
) -> Result<T, Malformed> {
    Err(Malformed::Unknown {
        field,
        value: value.into(),
    })
}

/// A list of items of at least `least_item_bytes` each.
pub(in crate::fs) fn list<T>(
    input: &mut Reader<'_>,
    least_item_bytes: usize,
    field: &'static str,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let limit = MAX_MESSAGE_BYTES / least_item_bytes;
    let count = input.count(limit, least_item_bytes, field)?;
    // Not `with_capacity(count)`: an item may be larger in memory than on the wire.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(input)?);
    }
    Ok(items)
}

/// At most `limit` integers.
pub(in crate::fs) fn integers<'a, T>(
    input: &mut Reader<'a>,
    limit: usize,
    field: &'static str,
    item: fn(&mut Reader<'a>, &'static str) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = input.count(limit, size_of::<T>(), field)?;
    (0..count).map(|_| item(input, field)).collect()
}

pub(in crate::fs) fn option<T>(
    input: &mut Reader<'_>,
    field: &'static str,
    value: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match input.bool(field)? {
        true => value(input).map(Some),
        false => Ok(None),
    }
}

pub(in crate::fs) fn put_list<T: Wire>(items: &[T], out: &mut Writer) {
    out.count(items.len());
    for item in items {
        item.encode(out);
    }
}

pub(in crate::fs) fn put_option<T>(
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
pub(in crate::fs) fn put_text(text: &str, limit: usize, out: &mut Writer) {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.bytes(&text.as_bytes()[..end]);
}

pub(in crate::fs) fn text(
    input: &mut Reader<'_>,
    limit: usize,
    field: &'static str,
) -> Result<String, Malformed> {
    let bytes = input.bytes(limit, field)?;
    match core::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let first_bad = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
            unknown(field, first_bad)
        }
    }
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
    (list($least:expr), $value:expr, $out:ident) => {
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
        list($input, $least, $name, Wire::decode)?
    };
    (texts($limit:expr), $input:ident, $name:expr) => {
        list($input, 4, $name, |input| text(input, $limit, $name))?
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

/// A struct: its fields one after the other.
macro_rules! record {
    ($type:ident { $($field:ident: $as:ident $(($limit:expr))?),* $(,)? }) => {
        impl Wire for $type {
            fn encode(&self, out: &mut Writer) {
                $(put!($as $(($limit))?, &self.$field, out);)*
            }

            fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($field: take!($as $(($limit))?, input, stringify!($field))),* })
            }
        }
    };
}

/// An enumeration: the variant's number as a byte, then its fields.
macro_rules! variants {
    ($type:ident, $name:literal, {
        $($code:literal => $variant:ident
            $(($one:ident: $one_as:ident $(($one_limit:expr))?))?
            $({ $($field:ident: $as:ident $(($limit:expr))?),* $(,)? })?
        ),* $(,)?
    }) => {
        impl Wire for $type {
            fn encode(&self, out: &mut Writer) {
                match self {
                    $(Self::$variant $(($one))? $({ $($field),* })? => {
                        out.u8($code);
                        $(put!($one_as $(($one_limit))?, $one, out);)?
                        $($(put!($as $(($limit))?, $field, out);)*)?
                    })*
                }
            }

            fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(match input.u8($name)? {
                    $($code => Self::$variant
                        $((take!($one_as $(($one_limit))?, input, stringify!($one))))?
                        $({ $($field: take!($as $(($limit))?, input, stringify!($field))),* })?,
                    )*
                    value => return unknown($name, value),
                })
            }
        }
    };
}

pub(in crate::fs) use {put, record, take, variants};
