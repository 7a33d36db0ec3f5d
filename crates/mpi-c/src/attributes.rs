//! What programs attach to communicators (MPI 5.0 §7.7).
//!
//! Functions of the program's are called outside of the library, so that they may call it.

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};

use crate::keys::{FIRST_KEY, Key};
use crate::library::{enter, with};
use crate::types::{Callback, Handle};

type Copy = unsafe extern "C" fn(Handle, c_int, usize, usize, *mut usize, *mut c_int) -> c_int;
type Delete = unsafe extern "C" fn(Handle, c_int, usize, usize) -> c_int;

/// The values of predefined keys, which stay where they are.
static VALUES: [c_int; 3] = [c_int::MAX, 0, abi::ANY_SOURCE];

/// How a function of the program's has ended.
fn outcome(code: c_int, what: &str) -> Result<()> {
    match code {
        abi::SUCCESS => Ok(()),
        code => Err(Error::new(
            code,
            format!("the attribute's {what} function has failed"),
        )),
    }
}

pub(crate) unsafe fn comm_create_keyval(
    copy: Callback,
    delete: Callback,
    keyval: *mut c_int,
    extra: *mut c_void,
) -> Result<()> {
    let key = Key {
        copy: copy.expose_provenance(),
        delete: delete.expose_provenance(),
        extra: extra.expose_provenance(),
    };
    let number = enter(|library| {
        library.next_key += 1;
        library.keys.insert(library.next_key, key);
        Ok(library.next_key)
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { keyval.write(number) };
    Ok(())
}

pub(crate) unsafe fn comm_free_keyval(keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it. The key stays for the attributes that there are.
    unsafe {
        key_of(keyval.read())?;
        keyval.write(abi::KEYVAL_INVALID);
    }
    Ok(())
}

fn key_of(keyval: c_int) -> Result<Key> {
    enter(|library| {
        let key = library.keys.get(&keyval).copied();
        key.ok_or_else(|| Error::new(abi::ERR_KEYVAL, format!("{keyval} is no attribute key")))
    })
}

/// Calls a key's delete function.
fn delete(key: Key, comm: Handle, keyval: c_int, value: usize) -> Result<()> {
    if key.delete == abi::COMM_NULL_DELETE_FN {
        return Ok(());
    }
    let function = std::ptr::with_exposed_provenance::<c_void>(key.delete);
    // SAFETY: the program gave this function to `MPI_Comm_create_keyval`, with this type.
    let code = unsafe {
        let function = (&raw const function).cast::<Delete>().read();
        function(comm, keyval, value, key.extra)
    };
    outcome(code, "delete")
}

pub(crate) unsafe fn comm_set_attr(comm: Handle, keyval: c_int, value: *mut c_void) -> Result<()> {
    let key = key_of(keyval)?;
    let old = with(|process, _| {
        Ok(process
            .communicator_mut(comm)?
            .attributes()
            .get(&keyval)
            .copied())
    })?;
    if let Some(old) = old {
        delete(key, comm, keyval, old)?;
    }
    let value = value.expose_provenance();
    with(|process, _| {
        process
            .communicator_mut(comm)?
            .attributes()
            .insert(keyval, value);
        Ok(())
    })
}

pub(crate) unsafe fn comm_delete_attr(comm: Handle, keyval: c_int) -> Result<()> {
    let key = key_of(keyval)?;
    let old = with(|process, _| {
        Ok(process
            .communicator_mut(comm)?
            .attributes()
            .get(&keyval)
            .copied())
    })?;
    let Some(old) = old else {
        let text = format!("the communicator has no attribute {keyval}");
        return Err(Error::new(abi::ERR_KEYVAL, text));
    };
    delete(key, comm, keyval, old)?;
    with(|process, _| {
        process.communicator_mut(comm)?.attributes().remove(&keyval);
        Ok(())
    })
}

/// The address of a predefined key's value.
fn predefined(keyval: c_int) -> Result<Option<usize>> {
    let [most, zero, any] = &VALUES;
    Ok(match keyval {
        // Any process can read and write files.
        abi::IO => Some(std::ptr::from_ref(any).expose_provenance()),
        abi::TAG_UB => Some(std::ptr::from_ref(most).expose_provenance()),
        abi::WTIME_IS_GLOBAL => Some(std::ptr::from_ref(zero).expose_provenance()),
        abi::LASTUSEDCODE => enter(|library| {
            *library.last_code = library.codes.last_used();
            Ok(Some(
                std::ptr::from_ref(&*library.last_code).expose_provenance(),
            ))
        })?,
        abi::APPNUM => enter(|library| {
            let number = library
                .process
                .as_ref()
                .map_or(0, |process| process.program_number());
            *library.program_number = number;
            Ok(Some(
                std::ptr::from_ref(&*library.program_number).expose_provenance(),
            ))
        })?,
        abi::UNIVERSE_SIZE => enter(|library| {
            let size = library
                .process
                .as_ref()
                .and_then(|process| process.universe_size());
            Ok(size.map(|size| {
                *library.universe_size = size;
                std::ptr::from_ref(&*library.universe_size).expose_provenance()
            }))
        })?,
        _ => None,
    })
}

pub(crate) unsafe fn comm_get_attr(
    comm: Handle,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    let found = if keyval >= FIRST_KEY {
        key_of(keyval)?;
        with(|process, _| {
            Ok(process
                .communicator_mut(comm)?
                .attributes()
                .get(&keyval)
                .copied())
        })?
    } else {
        with(|process, _| process.communicator(comm).map(drop))?;
        predefined(keyval)?
    };
    // SAFETY: the caller's pointers, as MPI has it: `value` is the address of a pointer.
    unsafe {
        flag.write(found.is_some().into());
        if let Some(found) = found {
            value.cast::<usize>().write(found);
        }
    }
    Ok(())
}

fn all_of(comm: Handle) -> Result<Vec<(c_int, usize)>> {
    with(|process, _| {
        let attributes = process.communicator_mut(comm)?.attributes();
        Ok(attributes
            .iter()
            .map(|(key, value)| (*key, *value))
            .collect())
    })
}

/// Copies attributes to a communicator that is a duplicate of another, as their keys say.
pub(crate) fn copy_all(from: Handle, to: Handle) -> Result<()> {
    for (keyval, value) in all_of(from)? {
        let key = key_of(keyval)?;
        let copied = match key.copy {
            abi::COMM_NULL_COPY_FN => None,
            abi::COMM_DUP_FN => Some(value),
            function => {
                let (mut copy, mut flag) = (0, 0);
                let function = std::ptr::with_exposed_provenance::<c_void>(function);
                // SAFETY: the program gave this function to `MPI_Comm_create_keyval`, with this type.
                let code = unsafe {
                    let function = (&raw const function).cast::<Copy>().read();
                    function(from, keyval, key.extra, value, &mut copy, &mut flag)
                };
                outcome(code, "copy")?;
                (flag != 0).then_some(copy)
            }
        };
        if let Some(copied) = copied {
            with(|process, _| {
                process
                    .communicator_mut(to)?
                    .attributes()
                    .insert(keyval, copied);
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Deletes all attributes of a communicator that is to be freed.
pub(crate) fn delete_all(comm: Handle) -> Result<()> {
    for (keyval, value) in all_of(comm)? {
        delete(key_of(keyval)?, comm, keyval, value)?;
        with(|process, _| {
            process.communicator_mut(comm)?.attributes().remove(&keyval);
            Ok(())
        })?;
    }
    Ok(())
}

pub(crate) unsafe fn attr_put(comm: Handle, keyval: c_int, value: *mut c_void) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe { comm_set_attr(comm, keyval, value) }
}

pub(crate) unsafe fn attr_get(
    comm: Handle,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe { comm_get_attr(comm, keyval, value, flag) }
}

pub(crate) unsafe fn attr_delete(comm: Handle, keyval: c_int) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe { comm_delete_attr(comm, keyval) }
}

pub(crate) unsafe fn keyval_create(
    copy: Callback,
    delete: Callback,
    keyval: *mut c_int,
    extra: *mut c_void,
) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe { comm_create_keyval(copy, delete, keyval, extra) }
}

pub(crate) unsafe fn keyval_free(keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe { comm_free_keyval(keyval) }
}
