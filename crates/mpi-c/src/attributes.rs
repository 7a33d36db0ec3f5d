//! What programs attach to communicators, windows and datatypes (MPI 5.0 §7.7).
//!
//! Functions of the program's are called outside of the library, so that they may call it.

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::attributes::Attributes;
use causeway_mpi::error::{Error, Result};

use crate::keys::{FIRST_KEY, Key, Kind, Values};
use crate::library::{Library, enter, not_started, with};
use crate::types::{Callback, Handle};

type Copy = unsafe extern "C" fn(Handle, c_int, usize, usize, *mut usize, *mut c_int) -> c_int;
type Delete = unsafe extern "C" fn(Handle, c_int, usize, usize) -> c_int;

/// The values of predefined keys, which stay where they are.
static VALUES: [c_int; 4] = [c_int::MAX, 0, abi::ANY_SOURCE, abi::PROC_NULL];

/// Kinds of objects with attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    pub(crate) kind: Kind,
    pub(crate) handle: Handle,
}

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

/// # Safety
/// The pointer is valid for writes.
unsafe fn create(
    kind: Kind,
    (copy, delete): (Callback, Callback),
    keyval: *mut c_int,
    extra: *mut c_void,
) -> Result<()> {
    let key = Key {
        kind,
        copy: copy.expose_provenance(),
        delete: delete.expose_provenance(),
        extra: extra.expose_provenance(),
    };
    let number = enter(|library| library.keys.add(key))?;
    // SAFETY: the caller's promise.
    unsafe { keyval.write(number) };
    Ok(())
}

/// # Safety
/// The pointer is valid for reads and writes.
unsafe fn free(kind: Kind, keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let number = keyval.read();
        enter(|library| library.keys.free(number, kind))?;
        keyval.write(abi::KEYVAL_INVALID);
    }
    Ok(())
}

impl Library {
    /// The attributes of an object.
    fn attributes(&mut self, of: Holder) -> Result<&mut Attributes> {
        let Kind::Datatype = of.kind else {
            let process = self.process.as_mut().ok_or_else(not_started)?;
            return Ok(match of.kind {
                Kind::Window => process.window_mut(of.handle)?.attributes(),
                _ => process.communicator_mut(of.handle)?.attributes(),
            });
        };
        self.datatype(of.handle)?;
        Ok(self.type_attributes.entry(of.handle).or_default())
    }

    fn take_attribute(&mut self, of: Holder, keyval: c_int) -> Result<()> {
        if self.attributes(of)?.remove(keyval).is_some() {
            self.keys.count(keyval, -1);
        }
        Ok(())
    }

    fn put_attribute(&mut self, of: Holder, keyval: c_int, value: usize) -> Result<()> {
        if self.attributes(of)?.set(keyval, value).is_none() {
            self.keys.count(keyval, 1);
        }
        Ok(())
    }
}

/// Calls an attribute's delete function, then removes the attribute.
fn delete(of: Holder, keyval: c_int, value: usize) -> Result<()> {
    let key = enter(|library| library.keys.get(keyval, of.kind))?;
    // The number that stands for no function is the same for all kinds.
    if key.delete != abi::COMM_NULL_DELETE_FN {
        let function = std::ptr::with_exposed_provenance::<c_void>(key.delete);
        // SAFETY: the program gave this function to `MPI_Comm_create_keyval` or its like, with this type.
        let code = unsafe {
            let function = (&raw const function).cast::<Delete>().read();
            function(of.handle, keyval, value, key.extra)
        };
        outcome(code, "delete")?;
    }
    enter(|library| library.take_attribute(of, keyval))
}

fn set(of: Holder, keyval: c_int, value: *mut c_void) -> Result<()> {
    let old = enter(|library| {
        library.keys.get(keyval, of.kind)?;
        Ok(library.attributes(of)?.get(keyval))
    })?;
    if let Some(old) = old {
        delete(of, keyval, old)?;
    }
    let value = value.expose_provenance();
    enter(|library| library.put_attribute(of, keyval, value))
}

fn remove(of: Holder, keyval: c_int) -> Result<()> {
    let old = enter(|library| {
        library.keys.get(keyval, of.kind)?;
        Ok(library.attributes(of)?.get(keyval))
    })?;
    let old = old.ok_or_else(|| {
        let text = format!("the object has no attribute {keyval}");
        Error::new(abi::ERR_KEYVAL, text)
    })?;
    delete(of, keyval, old)
}

/// The value of an attribute: one of the program's, or the one that `predefined` returns.
///
/// # Safety
/// `value` is the address of a pointer, and `flag` is valid for writes.
unsafe fn get(
    of: Holder,
    keyval: c_int,
    (value, flag): (*mut c_void, *mut c_int),
    predefined: impl FnOnce(c_int) -> Result<Option<usize>>,
) -> Result<()> {
    let found = match keyval >= FIRST_KEY {
        true => enter(|library| {
            library.keys.get(keyval, of.kind)?;
            Ok(library.attributes(of)?.get(keyval))
        })?,
        false => {
            enter(|library| library.attributes(of).map(drop))?;
            predefined(keyval)?
        }
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
    ($kind:ident, $create:ident, $free:ident, $set:ident, $delete:ident, $get:ident, $predefined:expr) => {
        pub(crate) unsafe fn $create(
            copy: Callback,
            delete: Callback,
            keyval: *mut c_int,
            extra: *mut c_void,
        ) -> Result<()> {
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { create(Kind::$kind, (copy, delete), keyval, extra) }
        }

        pub(crate) unsafe fn $free(keyval: *mut c_int) -> Result<()> {
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { free(Kind::$kind, keyval) }
        }

        pub(crate) unsafe fn $set(object: Handle, keyval: c_int, value: *mut c_void) -> Result<()> {
            set(Holder::$kind(object), keyval, value)
        }

        pub(crate) unsafe fn $delete(object: Handle, keyval: c_int) -> Result<()> {
            remove(Holder::$kind(object), keyval)
        }

        pub(crate) unsafe fn $get(
            object: Handle,
            keyval: c_int,
            value: *mut c_void,
            flag: *mut c_int,
        ) -> Result<()> {
            let predefined = |keyval| $predefined(object, keyval);
            // SAFETY: the caller's pointers, as MPI has it.
            unsafe { get(Holder::$kind(object), keyval, (value, flag), predefined) }
        }

        impl Holder {
            #[expect(non_snake_case, reason = "it is the kind's name")]
            pub(crate) fn $kind(handle: Handle) -> Self {
                let kind = Kind::$kind;
                Self { kind, handle }
            }
        }
    };
}

attributes_of!(
    Communicator,
    comm_create_keyval,
    comm_free_keyval,
    comm_set_attr,
    comm_delete_attr,
    comm_get_attr,
    |_, keyval| predefined(keyval)
);
attributes_of!(
    Window,
    win_create_keyval,
    win_free_keyval,
    win_set_attr,
    win_delete_attr,
    win_get_attr,
    predefined_of_window
);
attributes_of!(
    Datatype,
    type_create_keyval,
    type_free_keyval,
    type_set_attr,
    type_delete_attr,
    type_get_attr,
    |_, keyval| Err(no_key(keyval))
);

#[cold]
fn no_key(keyval: c_int) -> Error {
    Error::new(abi::ERR_KEYVAL, format!("{keyval} is no attribute key"))
}

/// The address of a predefined key's value.
fn predefined(keyval: c_int) -> Result<Option<usize>> {
    let [most, zero, any, none] = &VALUES;
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
        // No process is the host of the others (MPI 5.0 §9.1.2).
        abi::HOST => Some(std::ptr::from_ref(none).expose_provenance()),
        other => return Err(no_key(other)),
    })
}

/// The value of a window's predefined attribute (MPI 5.0 §12.2.6): the memory's address, or that of a number.
fn predefined_of_window(win: Handle, keyval: c_int) -> Result<Option<usize>> {
    let (base, values) = with(|process, _| {
        let window = process.window(win)?;
        let base = window.base();
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
            other => return Err(no_key(other)),
        })
    })
}

/// Copies attributes to an object that is a duplicate of another, as their keys say.
pub(crate) fn copy_all(from: Holder, to: Handle) -> Result<()> {
    let all = enter(|library| Ok(library.attributes(from)?.all().to_vec()))?;
    for (keyval, value) in all {
        let key = enter(|library| library.keys.get(keyval, from.kind))?;
        // The numbers that stand for predefined functions are the same for all kinds.
        let copied = match key.copy {
            abi::COMM_NULL_COPY_FN => None,
            abi::COMM_DUP_FN => Some(value),
            function => {
                let (mut copy, mut flag) = (0, 0);
                let function = std::ptr::with_exposed_provenance::<c_void>(function);
                // SAFETY: the program gave this function to `MPI_Comm_create_keyval` or its like, with this type.
                let code = unsafe {
                    let function = (&raw const function).cast::<Copy>().read();
                    let from = from.handle;
                    function(from, keyval, key.extra, value, &mut copy, &mut flag)
                };
                outcome(code, "copy")?;
                (flag != 0).then_some(copy)
            }
        };
        if let Some(copied) = copied {
            let kind = from.kind;
            let to = Holder { kind, handle: to };
            enter(|library| library.put_attribute(to, keyval, copied))?;
        }
    }
    Ok(())
}

/// Deletes all attributes of an object that is to be freed, the latest first.
pub(crate) fn delete_all(of: Holder) -> Result<()> {
    let latest = || enter(|library| Ok(library.attributes(of)?.all().last().copied()));
    while let Some((keyval, value)) = latest()? {
        delete(of, keyval, value)?;
    }
    enter(|library| {
        library.type_attributes.remove(&of.handle);
        Ok(())
    })
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
