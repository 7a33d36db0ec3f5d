//! What programs attach to communicators and windows (MPI 5.0 §7.7).
//!
//! Functions of the program's are called outside of the library, so that they may call it.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};

use crate::keys::{FIRST_KEY, Key, Values};
use crate::library::{Object, enter, with};
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

/// The attributes of an object, for `body`.
fn attributes<R>(object: Object, body: impl FnOnce(&mut BTreeMap<c_int, usize>) -> R) -> Result<R> {
    with(|process, _| match object {
        Object::Window(window) => Ok(body(process.window_mut(window)?.attributes())),
        Object::Communicator(comm) => Ok(body(process.communicator_mut(comm)?.attributes())),
        // Others have none.
        _ => Ok(body(&mut BTreeMap::new())),
    })
}

/// Calls a key's delete function.
fn delete(key: Key, object: Object, keyval: c_int, value: usize) -> Result<()> {
    let (none, handle) = match object {
        Object::Window(window) => (abi::WIN_NULL_DELETE_FN, window),
        Object::Communicator(comm) => (abi::COMM_NULL_DELETE_FN, comm),
        _ => return Ok(()),
    };
    if key.delete == none {
        return Ok(());
    }
    let function = std::ptr::with_exposed_provenance::<c_void>(key.delete);
    // SAFETY: the program gave this function to `MPI_Comm_create_keyval` or its like, with this type.
    let code = unsafe {
        let function = (&raw const function).cast::<Delete>().read();
        function(handle, keyval, value, key.extra)
    };
    outcome(code, "delete")
}

fn set(object: Object, keyval: c_int, value: *mut c_void) -> Result<()> {
    let key = key_of(keyval)?;
    let old = attributes(object, |attributes| attributes.get(&keyval).copied())?;
    if let Some(old) = old {
        delete(key, object, keyval, old)?;
    }
    let value = value.expose_provenance();
    attributes(object, |attributes| attributes.insert(keyval, value)).map(drop)
}

fn remove(object: Object, keyval: c_int) -> Result<()> {
    let key = key_of(keyval)?;
    let old = attributes(object, |attributes| attributes.get(&keyval).copied())?;
    let Some(old) = old else {
        let text = format!("the object has no attribute {keyval}");
        return Err(Error::new(abi::ERR_KEYVAL, text));
    };
    delete(key, object, keyval, old)?;
    attributes(object, |attributes| attributes.remove(&keyval)).map(drop)
}

/// The value of an attribute: of one of the program's, or what `predefined` knows.
///
/// # Safety
/// `value` is the address of a pointer, and `flag` is valid for writes.
unsafe fn get(
    object: Object,
    keyval: c_int,
    (value, flag): (*mut c_void, *mut c_int),
    predefined: impl FnOnce(c_int) -> Result<Option<usize>>,
) -> Result<()> {
    let own = attributes(object, |attributes| attributes.get(&keyval).copied())?;
    let found = match keyval >= FIRST_KEY {
        true => key_of(keyval).map(|_| own)?,
        false => predefined(keyval)?,
    };
    // SAFETY: the caller's promise.
    unsafe {
        flag.write(found.is_some().into());
        if let Some(found) = found {
            value.cast::<usize>().write(found);
        }
    }
    Ok(())
}

macro_rules! attributes_of {
    ($object:path, $set:ident, $delete:ident, $get:ident, $predefined:expr) => {
        pub(crate) unsafe fn $set(object: Handle, keyval: c_int, value: *mut c_void) -> Result<()> {
            set($object(object), keyval, value)
        }

        pub(crate) unsafe fn $delete(object: Handle, keyval: c_int) -> Result<()> {
            remove($object(object), keyval)
        }

        pub(crate) unsafe fn $get(
            object: Handle,
            keyval: c_int,
            value: *mut c_void,
            flag: *mut c_int,
        ) -> Result<()> {
            let predefined = |keyval| $predefined(object, keyval);
            // SAFETY: the caller's pointers, as MPI has it.
            unsafe { get($object(object), keyval, (value, flag), predefined) }
        }
    };
}

attributes_of!(
    Object::Communicator,
    comm_set_attr,
    comm_delete_attr,
    comm_get_attr,
    |_, keyval| predefined(keyval)
);
attributes_of!(
    Object::Window,
    win_set_attr,
    win_delete_attr,
    win_get_attr,
    predefined_of_window
);

pub(crate) unsafe fn win_create_keyval(
    copy: Callback,
    delete: Callback,
    keyval: *mut c_int,
    extra: *mut c_void,
) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract. Both kinds of functions have the same types.
    unsafe { comm_create_keyval(copy, delete, keyval, extra) }
}

pub(crate) unsafe fn win_free_keyval(keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe { comm_free_keyval(keyval) }
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

fn all_of(object: Object) -> Result<Vec<(c_int, usize)>> {
    attributes(object, |attributes| {
        let all = attributes.iter();
        all.map(|(key, value)| (*key, *value)).collect()
    })
}

/// The value of a window's predefined attribute (MPI 5.0 §12.2.6): the memory's address, or that of a number.
fn predefined_of_window(win: Handle, keyval: c_int) -> Result<Option<usize>> {
    let (base, values) = with(|process, _| {
        let window = process.window(win)?;
        let base = window
            .memory()
            .map_or(0, |memory| memory.as_ptr().expose_provenance());
        let values = Values {
            size: window.size() as i64,
            unit: window.unit() as c_int,
            flavor: window.flavor().value(),
            model: abi::WIN_UNIFIED,
        };
        Ok((base, values))
    })?;
    if keyval == abi::WIN_BASE {
        return Ok(Some(base));
    }
    enter(|library| {
        let values = library
            .window_values
            .entry(win)
            .or_insert_with(|| Box::new(values));
        Ok(match keyval {
            abi::WIN_SIZE => Some(std::ptr::from_ref(&values.size).expose_provenance()),
            abi::WIN_DISP_UNIT => Some(std::ptr::from_ref(&values.unit).expose_provenance()),
            abi::WIN_CREATE_FLAVOR => Some(std::ptr::from_ref(&values.flavor).expose_provenance()),
            abi::WIN_MODEL => Some(std::ptr::from_ref(&values.model).expose_provenance()),
            _ => None,
        })
    })
}

/// Copies attributes to a communicator that is a duplicate of another, as their keys say.
pub(crate) fn copy_all(from: Handle, to: Handle) -> Result<()> {
    for (keyval, value) in all_of(Object::Communicator(from))? {
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
            let to = Object::Communicator(to);
            attributes(to, |attributes| attributes.insert(keyval, copied))?;
        }
    }
    Ok(())
}

/// Deletes all attributes of an object that is to be freed.
pub(crate) fn delete_all(object: Object) -> Result<()> {
    for (keyval, value) in all_of(object)? {
        delete(key_of(keyval)?, object, keyval, value)?;
        attributes(object, |attributes| attributes.remove(&keyval))?;
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
