//! How datatypes were made (MPI 5.0 §5.1.13), those of Fortran's kinds (§19.1.5), and the representation `external32` (§5.3).

use std::ffi::{c_char, c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::datatype::{Basic, Class, Combiner, Contents, Datatype, Elements};
use causeway_mpi::error::{Error, Result};
use causeway_sys::blocks::{Source, Target};

use crate::datatype::rest_of;
use crate::library::{enter, with};
use crate::types::{Handle, NumbersOut, array, count_of, read_text, write_text};

fn contents_of(datatype: Handle) -> Result<Contents> {
    enter(|library| Ok(library.datatype(datatype)?.contents().clone()))
}

/// The numbers of an envelope, where they go.
struct Envelope {
    integers: NumbersOut,
    addresses: NumbersOut,
    /// Functions with `int` counts have none.
    counts: Option<NumbersOut>,
    datatypes: NumbersOut,
    combiner: *mut c_int,
}

/// # Safety
/// The pointers are valid for writes.
unsafe fn envelope(datatype: Handle, into: &Envelope) -> Result<()> {
    let found = contents_of(datatype)?;
    check_counts(&found, into.counts.is_some())?;
    // SAFETY: the caller's promise.
    unsafe {
        into.integers.write(found.integers.len() as i64);
        into.addresses.write(found.addresses.len() as i64);
        if let Some(counts) = into.counts {
            counts.write(found.counts.len() as i64);
        }
        into.datatypes.write(found.datatypes.len() as i64);
        into.combiner.write(found.combiner as c_int);
    }
    Ok(())
}

/// An error if there are counts that the caller has no place for.
fn check_counts(contents: &Contents, has_place: bool) -> Result<()> {
    if has_place || contents.counts.is_empty() {
        return Ok(());
    }
    let text =
        "the datatype was made with large counts, which only the functions that end in _c tell";
    Err(Error::new(abi::ERR_TYPE, text))
}

pub(crate) unsafe fn type_get_envelope(
    datatype: Handle,
    integers: *mut c_int,
    addresses: *mut c_int,
    datatypes: *mut c_int,
    combiner: *mut c_int,
) -> Result<()> {
    let into = Envelope {
        integers: NumbersOut::Small(integers),
        addresses: NumbersOut::Small(addresses),
        counts: None,
        datatypes: NumbersOut::Small(datatypes),
        combiner,
    };
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { envelope(datatype, &into) }
}

pub(crate) unsafe fn type_get_envelope_c(
    datatype: Handle,
    integers: *mut i64,
    addresses: *mut i64,
    counts: *mut i64,
    datatypes: *mut i64,
    combiner: *mut c_int,
) -> Result<()> {
    let into = Envelope {
        integers: NumbersOut::Large(integers),
        addresses: NumbersOut::Large(addresses),
        counts: Some(NumbersOut::Large(counts)),
        datatypes: NumbersOut::Large(datatypes),
        combiner,
    };
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { envelope(datatype, &into) }
}

/// Writes an array into one with room for `room`.
///
/// # Safety
/// It has so much room.
unsafe fn give<T: Copy>(values: &[T], into: *mut T, room: i64) -> Result<()> {
    if count_of(room)? < values.len() as u64 {
        let text = format!("room for {room} of {} arguments", values.len());
        return Err(Error::new(abi::ERR_ARG, text));
    }
    for (at, value) in values.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { into.add(at).write(*value) };
    }
    Ok(())
}

/// A handle of a datatype that another was made of: that of a predefined one, or a new one.
fn handle_of(datatype: &Datatype) -> Result<Handle> {
    match datatype.basic() {
        Some(basic) => Ok(basic.handle()),
        None => enter(|library| library.types.insert(datatype.clone())),
    }
}

/// # Safety
/// The arrays have as much room as the numbers before them say.
unsafe fn arguments(
    datatype: Handle,
    (most_integers, integers): (i64, *mut c_int),
    (most_addresses, addresses): (i64, *mut i64),
    counts: Option<(i64, *mut i64)>,
    (most_datatypes, datatypes): (i64, *mut Handle),
) -> Result<()> {
    let found = contents_of(datatype)?;
    check_counts(&found, counts.is_some())?;
    if found.combiner == Combiner::Named {
        let text = "a predefined datatype was made of nothing";
        return Err(Error::new(abi::ERR_TYPE, text));
    }
    // SAFETY: the caller's promise.
    unsafe {
        give(&found.integers, integers, most_integers)?;
        give(&found.addresses, addresses, most_addresses)?;
        if let Some((most, counts)) = counts {
            give(&found.counts, counts, most)?;
        }
        if count_of(most_datatypes)? < found.datatypes.len() as u64 {
            return give(&vec![0; found.datatypes.len()], datatypes, most_datatypes);
        }
        let handles = found.datatypes.iter().map(handle_of);
        give(
            &handles.collect::<Result<Vec<_>>>()?,
            datatypes,
            most_datatypes,
        )
    }
}

pub(crate) unsafe fn type_get_contents(
    datatype: Handle,
    most_integers: c_int,
    most_addresses: c_int,
    most_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut i64,
    datatypes: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        arguments(
            datatype,
            (most_integers.into(), integers),
            (most_addresses.into(), addresses),
            None,
            (most_datatypes.into(), datatypes),
        )
    }
}

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn type_get_contents_c(
    datatype: Handle,
    most_integers: i64,
    most_addresses: i64,
    most_counts: i64,
    most_datatypes: i64,
    integers: *mut c_int,
    addresses: *mut i64,
    counts: *mut i64,
    datatypes: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        arguments(
            datatype,
            (most_integers, integers),
            (most_addresses, addresses),
            Some((most_counts, counts)),
            (most_datatypes, datatypes),
        )
    }
}

/// The datatype of one of Fortran's kinds, which is the same whenever it is asked for.
///
/// # Safety
/// The pointer is valid for writes.
unsafe fn kind(made: Datatype, into: *mut Handle) -> Result<()> {
    let handle = enter(|library| {
        let same = |known: &(Handle, Datatype)| known.1.contents() == made.contents();
        if let Some((handle, _)) = library.kinds.iter().find(|known| same(known)) {
            return Ok(*handle);
        }
        let handle = library.types.insert(made.clone())?;
        library.kinds.push((handle, made));
        Ok(handle)
    })?;
    // SAFETY: the caller's promise.
    unsafe { into.write(handle) };
    Ok(())
}

pub(crate) unsafe fn type_create_f90_real(p: c_int, r: c_int, new: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { kind(Datatype::f90_real(p, r)?, new) }
}

pub(crate) unsafe fn type_create_f90_complex(p: c_int, r: c_int, new: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { kind(Datatype::f90_complex(p, r)?, new) }
}

pub(crate) unsafe fn type_create_f90_integer(r: c_int, new: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { kind(Datatype::f90_integer(r)?, new) }
}

pub(crate) unsafe fn type_match_size(
    typeclass: c_int,
    size: c_int,
    datatype: *mut Handle,
) -> Result<()> {
    let class = match typeclass {
        abi::TYPECLASS_INTEGER => Class::Integer,
        abi::TYPECLASS_REAL => Class::Real,
        abi::TYPECLASS_COMPLEX => Class::Complex,
        other => {
            let text = format!("the type class {other} is unknown");
            return Err(Error::new(abi::ERR_ARG, text));
        }
    };
    let found = usize::try_from(size).ok();
    let found = found.and_then(|size| Basic::match_size(class, size));
    let found = found.ok_or_else(|| {
        let text = format!("no datatype of this class has {size} bytes");
        Error::new(abi::ERR_ARG, text)
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { datatype.write(found.handle()) };
    Ok(())
}

pub(crate) unsafe fn type_get_value_index(
    value: Handle,
    index: Handle,
    pair: *mut Handle,
) -> Result<()> {
    let basic = |handle| enter(|library| Ok(library.datatype(handle)?.basic()));
    let found = match (basic(value)?, basic(index)?) {
        (Some(value), Some(index)) => Basic::value_index(value, index),
        _ => None,
    };
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { pair.write(found.map_or(abi::DATATYPE_NULL, Basic::handle)) };
    Ok(())
}

/// # Safety
/// The text is null or a C string.
unsafe fn check_representation(datarep: *const c_char) -> Result<()> {
    // SAFETY: the caller's promise.
    let name = unsafe { read_text(datarep, "datarep") }?;
    if name == b"external32" {
        return Ok(());
    }
    let text = format!("the representation {}", String::from_utf8_lossy(name));
    Err(Error::new(abi::ERR_ARG, text))
}

pub(crate) unsafe fn pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: i64,
    datatype: Handle,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
) -> Result<()> {
    // SAFETY: the caller's buffers, as MPI has it.
    unsafe {
        check_representation(datarep)?;
        let at = position.read();
        let (into, room) = rest_of((outbuf, outsize, at))?;
        let from = with(|_, rest| rest.owned_buffer(inbuf, incount, datatype, false))?;
        let elements = Elements::new(from.datatype.clone(), from.count)?;
        let mut stream = vec![0; elements.external32_bytes()? as usize];
        let packed = elements.pack_external32(Source::from(&from.memory), &mut stream)?;
        if packed > room {
            let text = format!("{packed} bytes, where there is room for {room}");
            return Err(Error::new(abi::ERR_TRUNCATE, text));
        }
        std::ptr::copy(stream.as_ptr(), into, packed);
        position.write(at + packed as i64);
    }
    Ok(())
}

pub(crate) unsafe fn unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: Handle,
) -> Result<()> {
    // SAFETY: the caller's buffers, as MPI has it.
    unsafe {
        check_representation(datarep)?;
        let at = position.read();
        let (from, left) = rest_of((inbuf.cast_mut(), insize, at))?;
        let into = with(|_, rest| rest.owned_buffer(outbuf, outcount, datatype, true))?;
        let elements = Elements::new(into.datatype.clone(), into.count)?;
        let stream = array(from, left, "inbuf")?;
        let read = elements.unpack_external32(stream, &mut Target::from(&into.memory))?;
        position.write(at + read as i64);
    }
    Ok(())
}

pub(crate) unsafe fn pack_external_size(
    datarep: *const c_char,
    incount: i64,
    datatype: Handle,
    size: *mut i64,
) -> Result<()> {
    // SAFETY: the caller's string and pointer, as MPI has it.
    unsafe {
        check_representation(datarep)?;
        let count = count_of(incount)?;
        let datatype = enter(|library| library.datatype(datatype).cloned())?;
        size.write(Elements::new(datatype, count)?.external32_bytes()? as i64);
    }
    Ok(())
}

pub(crate) unsafe fn type_set_name(datatype: Handle, name: *const c_char) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = unsafe { read_text(name, "type_name") }?;
    let name = &name[..name.len().min(abi::MAX_OBJECT_NAME as usize - 1)];
    enter(|library| {
        library.datatype(datatype)?;
        library.type_names.insert(datatype, name.to_vec());
        Ok(())
    })
}

pub(crate) unsafe fn type_get_name(
    datatype: Handle,
    name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let found = enter(|library| {
        if let Some(name) = library.type_names.get(&datatype) {
            return Ok(name.clone());
        }
        if datatype == abi::DATATYPE_NULL {
            return Ok(b"MPI_DATATYPE_NULL".to_vec());
        }
        let basic = library.datatype(datatype)?.basic();
        Ok(basic.map_or_else(Vec::new, |basic| basic.name().into()))
    })?;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(&found, name, abi::MAX_OBJECT_NAME as usize, resultlen) };
    Ok(())
}
