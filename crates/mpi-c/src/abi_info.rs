//! Queries of the ABI, and properties of Fortran that a Fortran layer above the library has set (MPI 5.0 §20.2, §20.3).

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::datatype::{Basic, Datatype};
use causeway_mpi::error::{Error, Result};
use causeway_mpi::info::Info;

use crate::library::enter;
use crate::types::{Handle, array};

pub(crate) unsafe fn abi_get_info(info: *mut Handle) -> Result<()> {
    let mut contents = Info::default();
    for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
        contents.set(key.as_bytes(), b"8")?;
    }
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::info::insert(contents, info) }
}

pub(crate) unsafe fn abi_get_fortran_info(info: *mut Handle) -> Result<()> {
    let known = enter(|library| Ok(library.fortran.info.clone()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        match known {
            Some(known) => crate::info::insert(known, info),
            None => {
                info.write(abi::INFO_NULL);
                Ok(())
            }
        }
    }
}

/// The sizes of Fortran's types that the library has, by their keys: others are refused.
const SIZES: [(&[u8], Basic); 4] = [
    (b"mpi_logical_size", Basic::Logical),
    (b"mpi_integer_size", Basic::Integer),
    (b"mpi_real_size", Basic::Real),
    (b"mpi_double_precision_size", Basic::DoublePrecision),
];

/// Fails if a program's Fortran has types of other sizes than the library's.
fn check_sizes(said: &Info) -> Result<()> {
    for (key, basic) in SIZES {
        let size = Datatype::from(basic).size().to_string();
        let given = said.get(key)?.unwrap_or(size.as_bytes());
        if given != size.as_bytes() {
            let (key, given) = (String::from_utf8_lossy(key), String::from_utf8_lossy(given));
            let text = format!("{key} is {given}: only {size} is supported");
            return Err(Error::new(abi::ERR_UNSUPPORTED_OPERATION, text));
        }
    }
    Ok(())
}

pub(crate) unsafe fn abi_set_fortran_info(info: Handle) -> Result<()> {
    enter(|library| {
        let known = crate::info::copy_of(library, info)?;
        check_sizes(&known)?;
        match library.fortran.info.is_some() {
            true => Err(already_set()),
            false => {
                library.fortran.info = Some(known);
                Ok(())
            }
        }
    })
}

fn already_set() -> Error {
    Error::new(abi::ERR_ABI, "this was set before")
}

/// Fails if a program's Fortran has other values than those that logical operations of reductions return: 1 and 0, in
/// `MPI_LOGICAL`.
fn check_booleans((is, is_not): &(Vec<u8>, Vec<u8>)) -> Result<()> {
    let own = |value: i32| value.to_ne_bytes();
    if is[..] == own(1) && is_not[..] == own(0) {
        return Ok(());
    }
    let text = format!(
        "logicals of {} bytes with the values {is:?} and {is_not:?}: only 1 and 0, of 4 bytes, are supported",
        is.len()
    );
    Err(Error::new(abi::ERR_UNSUPPORTED_OPERATION, text))
}

fn size_of(logical: c_int) -> Result<usize> {
    let size = usize::try_from(logical).ok();
    let size = size.filter(|size| matches!(size, 1 | 2 | 4 | 8 | 16));
    size.ok_or_else(|| Error::new(abi::ERR_ARG, format!("a logical of {logical} bytes")))
}

pub(crate) unsafe fn abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> Result<()> {
    let size = size_of(logical_size)?;
    // SAFETY: the caller's values, of so many bytes, as MPI has it.
    let known = unsafe {
        (
            array(logical_true.cast::<u8>(), size, "logical_true")?.to_vec(),
            array(logical_false.cast::<u8>(), size, "logical_false")?.to_vec(),
        )
    };
    check_booleans(&known)?;
    enter(|library| match library.fortran.booleans.is_some() {
        true => Err(already_set()),
        false => {
            library.fortran.booleans = Some(known);
            Ok(())
        }
    })
}

pub(crate) unsafe fn abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> Result<()> {
    let size = size_of(logical_size)?;
    let known = enter(|library| Ok(library.fortran.booleans.clone()))?;
    let known = known.filter(|(is, _)| is.len() == size);
    // SAFETY: the caller's pointers, with room for so many bytes, as MPI has it.
    unsafe {
        is_set.write(known.is_some().into());
        if let Some((is, is_not)) = known {
            std::ptr::copy_nonoverlapping(is.as_ptr(), logical_true.cast(), size);
            std::ptr::copy_nonoverlapping(is_not.as_ptr(), logical_false.cast(), size);
        }
    }
    Ok(())
}
