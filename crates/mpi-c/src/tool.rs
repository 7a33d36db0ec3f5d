//! The tool information interface (MPI 5.0 chapter 15). Errors are returned: no error handler is called.
//!
//! There are no events, no sources of them, and no enumerations: the standard allows for none.
#![allow(clippy::too_many_arguments, reason = "they are the standard's")]

use std::ffi::{c_char, c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::tool::{CATEGORIES, Category, MEASURES, SETTINGS, Variable, at};

use crate::library::{Library, enter};
use crate::types::{Handle, read_text, write_text};

/// Handles of settings are their indices from here on; those of sessions and measures likewise.
const FIRST: Handle = 0x1000;
/// Bits of a measure's handle with its place in its session.
const PLACE_BITS: u32 = 16;

/// Enters for a tool.
fn tools<R>(body: impl FnOnce(&mut Library) -> Result<R>) -> Result<R> {
    enter(|library| match library.tools.users {
        0 => Err(Error::new(
            abi::T_ERR_NOT_INITIALIZED,
            "MPI_T_init_thread was not called",
        )),
        _ => body(library),
    })
}

fn is_there() -> Result<()> {
    tools(|_| Ok(()))
}

/// Writes a value where the tool wants it, unless it does not.
///
/// # Safety
/// `into` is null or valid for writes.
unsafe fn put<T>(into: *mut T, value: T) {
    if !into.is_null() {
        // SAFETY: the caller's promise.
        unsafe { into.write(value) };
    }
}

/// Writes text into the tool's buffer; returns its length with the end.
///
/// # Safety
/// `len` is null or valid for reads and writes, and `into` is null or has room for as many bytes as it says.
unsafe fn put_text(text: &str, into: *mut c_char, len: *mut c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        if !len.is_null() {
            let room = usize::try_from(len.read()).unwrap_or(0);
            write_text(text.as_bytes(), into, room, std::ptr::null_mut());
            len.write(text.len() as c_int + 1);
        }
    }
}

pub(crate) unsafe fn t_init_thread(required: c_int, provided: *mut c_int) -> Result<()> {
    enter(|library| {
        library.tools.users += 1;
        Ok(())
    })?;
    let level = required.clamp(abi::THREAD_SINGLE, crate::start::MOST_THREADS);
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { put(provided, level) };
    Ok(())
}

pub(crate) unsafe fn t_finalize() -> Result<()> {
    tools(|library| {
        library.tools.users -= 1;
        Ok(())
    })
}

/// The index of a name in a list.
///
/// # Safety
/// The name is null or a C string, and the pointer null or valid for writes.
unsafe fn find<'a>(
    names: impl Iterator<Item = &'a str>,
    name: *const c_char,
    index: *mut c_int,
) -> Result<()> {
    is_there()?;
    // SAFETY: the caller's promise.
    unsafe {
        let name = read_text(name, "name")?;
        let found = names
            .enumerate()
            .find(|(_, known)| known.as_bytes() == name);
        let Some((at, _)) = found else {
            let text = String::from_utf8_lossy(name);
            return Err(Error::new(abi::T_ERR_INVALID_NAME, text));
        };
        put(index, at as c_int);
    }
    Ok(())
}

macro_rules! numbers {
    ($($name:ident = $value:expr;)*) => {$(
        pub(crate) unsafe fn $name(into: *mut c_int) -> Result<()> {
            is_there()?;
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { put(into, $value as c_int) };
            Ok(())
        }
    )*};
}

numbers! {
    t_cvar_get_num = SETTINGS.len();
    t_pvar_get_num = MEASURES.len();
    t_category_get_num = CATEGORIES.len();
    // They are the same as long as the process runs.
    t_category_changed = 0;
    t_event_get_num = 0;
    t_source_get_num = 0;
}

pub(crate) unsafe fn t_cvar_get_index(name: *const c_char, index: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { find(SETTINGS.iter().map(|setting| setting.name), name, index) }
}

pub(crate) unsafe fn t_pvar_get_index(
    name: *const c_char,
    class: c_int,
    index: *mut c_int,
) -> Result<()> {
    let shown = |measure: &Variable<_>| match measure.class == class {
        true => measure.name,
        // A variable of another class does not match.
        false => "",
    };
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { find(MEASURES.iter().map(shown), name, index) }
}

pub(crate) unsafe fn t_category_get_index(name: *const c_char, index: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { find(CATEGORIES.iter().map(|category| category.name), name, index) }
}

pub(crate) unsafe fn t_event_get_index(name: *const c_char, index: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { find(std::iter::empty(), name, index) }
}

pub(crate) unsafe fn t_cvar_get_info(
    index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut Handle,
    enumtype: *mut Handle,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> Result<()> {
    is_there()?;
    let setting = at(SETTINGS, index)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        put_text(setting.name, name, name_len);
        put(verbosity, abi::T_VERBOSITY_TUNER_BASIC);
        put(datatype, abi::UNSIGNED_LONG_LONG);
        put(enumtype, abi::T_ENUM_NULL);
        put_text(setting.description, desc, desc_len);
        put(bind, abi::T_BIND_NO_OBJECT);
        put(scope, abi::T_SCOPE_LOCAL);
    }
    Ok(())
}

pub(crate) unsafe fn t_cvar_handle_alloc(
    index: c_int,
    _object: *mut c_void,
    handle: *mut Handle,
    count: *mut c_int,
) -> Result<()> {
    is_there()?;
    at(SETTINGS, index)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        put(handle, FIRST + index as usize);
        put(count, 1);
    }
    Ok(())
}

fn no_handle() -> Error {
    Error::new(abi::T_ERR_INVALID_HANDLE, "no such handle")
}

/// The setting of a handle.
fn setting_of(handle: Handle) -> Result<&'static Variable<causeway_mpi::tool::Setting>> {
    let index = handle
        .checked_sub(FIRST)
        .and_then(|index| SETTINGS.get(index));
    index.ok_or_else(no_handle)
}

pub(crate) unsafe fn t_cvar_handle_free(handle: *mut Handle) -> Result<()> {
    is_there()?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        setting_of(handle.read())?;
        handle.write(abi::T_CVAR_HANDLE_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn t_cvar_read(handle: Handle, buf: *mut c_void) -> Result<()> {
    let setting = setting_of(handle)?;
    let value = tools(|library| Ok(library.tools.settings.get(setting.what)))?;
    // SAFETY: the caller's buffer, as MPI has it.
    unsafe { buf.cast::<u64>().write(value) };
    Ok(())
}

pub(crate) unsafe fn t_cvar_write(handle: Handle, buf: *const c_void) -> Result<()> {
    let setting = setting_of(handle)?;
    // SAFETY: the caller's buffer, as MPI has it.
    let value = unsafe { buf.cast::<u64>().read() };
    tools(|library| {
        library.tools.settings.set(setting.what, value);
        match &mut library.process {
            Some(process) => process.apply(&library.tools.settings, setting.what),
            None => Ok(()),
        }
    })
}

pub(crate) unsafe fn t_pvar_get_info(
    index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    class: *mut c_int,
    datatype: *mut Handle,
    enumtype: *mut Handle,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> Result<()> {
    is_there()?;
    let measure = at(MEASURES, index)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        put_text(measure.name, name, name_len);
        put(verbosity, abi::T_VERBOSITY_USER_BASIC);
        put(class, measure.class);
        put(datatype, abi::UNSIGNED_LONG_LONG);
        put(enumtype, abi::T_ENUM_NULL);
        put_text(measure.description, desc, desc_len);
        put(bind, abi::T_BIND_NO_OBJECT);
        put(readonly, 1);
        put(continuous, 1);
        put(atomic, 0);
    }
    Ok(())
}

pub(crate) unsafe fn t_pvar_session_create(session: *mut Handle) -> Result<()> {
    let at = tools(|library| {
        let sessions = &mut library.tools.sessions;
        let free = sessions.iter().position(Option::is_none);
        let at = free.unwrap_or(sessions.len());
        if at == sessions.len() {
            sessions.push(None);
        }
        sessions[at] = Some(Vec::new());
        Ok(at)
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { put(session, FIRST + at) };
    Ok(())
}

impl Library {
    /// The handles of a session.
    fn session(&mut self, session: Handle) -> Result<&mut Vec<Option<c_int>>> {
        let at = session.checked_sub(FIRST);
        let found = at.and_then(|at| self.tools.sessions.get_mut(at)?.as_mut());
        found.ok_or_else(|| Error::new(abi::T_ERR_INVALID_SESSION, "no such session"))
    }

    /// The place of a handle in its session, which is an index of the session's measures.
    fn place(&mut self, session: Handle, handle: Handle) -> Result<&mut Option<c_int>> {
        let places = self.session(session)?;
        let within = handle.checked_sub(session << PLACE_BITS);
        let place = within.and_then(|within| places.get_mut(within));
        place.filter(|place| place.is_some()).ok_or_else(no_handle)
    }
}

pub(crate) unsafe fn t_pvar_session_free(session: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = session.read();
        tools(|library| {
            library.session(handle)?;
            library.tools.sessions[handle - FIRST] = None;
            Ok(())
        })?;
        session.write(abi::T_PVAR_SESSION_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn t_pvar_handle_alloc(
    session: Handle,
    index: c_int,
    _object: *mut c_void,
    handle: *mut Handle,
    count: *mut c_int,
) -> Result<()> {
    let place = tools(|library| {
        let places = library.session(session)?;
        at(MEASURES, index)?;
        if places.len() >> PLACE_BITS > 0 {
            let text = "the session has too many handles";
            return Err(Error::new(abi::T_ERR_OUT_OF_HANDLES, text));
        }
        places.push(Some(index));
        Ok(places.len() - 1)
    })?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        put(handle, (session << PLACE_BITS) + place);
        put(count, 1);
    }
    Ok(())
}

pub(crate) unsafe fn t_pvar_handle_free(session: Handle, handle: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let old = handle.read();
        tools(|library| {
            *library.place(session, old)? = None;
            Ok(())
        })?;
        handle.write(abi::T_PVAR_HANDLE_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn t_pvar_read(session: Handle, handle: Handle, buf: *mut c_void) -> Result<()> {
    let value = tools(|library| {
        let index = library.place(session, handle)?.unwrap_or(-1);
        let measure = at(MEASURES, index)?;
        let process = library.process.as_ref();
        Ok(process.map_or(0, |process| process.measured(measure.what)))
    })?;
    // SAFETY: the caller's buffer, as MPI has it.
    unsafe { buf.cast::<u64>().write(value) };
    Ok(())
}

/// Calls that are impossible with variables that always count and are only read. With all handles of a session it is done to
/// none of them.
fn refuse(session: Handle, handle: Handle, class: c_int, text: &str) -> Result<()> {
    tools(|library| {
        if handle == abi::T_PVAR_ALL_HANDLES {
            return library.session(session).map(drop);
        }
        library.place(session, handle)?;
        Err(Error::new(class, text))
    })
}

macro_rules! refusals {
    ($($name:ident($($more:ident: $ty:ty)?) = $class:expr, $text:literal;)*) => {$(
        pub(crate) unsafe fn $name(session: Handle, handle: Handle, $($more: $ty)?) -> Result<()> {
            $(let _ = $more;)?
            refuse(session, handle, $class, $text)
        }
    )*};
}

refusals! {
    t_pvar_start() = abi::T_ERR_PVAR_NO_STARTSTOP, "the variable counts all the time";
    t_pvar_stop() = abi::T_ERR_PVAR_NO_STARTSTOP, "the variable counts all the time";
    t_pvar_reset() = abi::T_ERR_PVAR_NO_WRITE, "the variable can only be read";
    t_pvar_write(_buf: *const c_void) = abi::T_ERR_PVAR_NO_WRITE, "the variable can only be read";
    t_pvar_readreset(_buf: *mut c_void) = abi::T_ERR_PVAR_NO_ATOMIC, "the variable can only be read";
}

pub(crate) unsafe fn t_category_get_info(
    index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> Result<()> {
    is_there()?;
    let category = at(CATEGORIES, index)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        put_text(category.name, name, name_len);
        put_text(category.description, desc, desc_len);
        put(num_cvars, category.settings.len() as c_int);
        put(num_pvars, category.measures.len() as c_int);
        put(num_categories, 0);
    }
    Ok(())
}

macro_rules! members {
    ($($name:ident = $members:expr;)*) => {$(
        pub(crate) unsafe fn $name(index: c_int, len: c_int, indices: *mut c_int) -> Result<()> {
            is_there()?;
            let members: fn(&Category) -> &[c_int] = $members;
            let room = usize::try_from(len).unwrap_or(0);
            for (place, member) in members(at(CATEGORIES, index)?).iter().take(room).enumerate() {
                // SAFETY: the caller's array, as MPI has it.
                unsafe { indices.add(place).write(*member) };
            }
            Ok(())
        }
    )*};
}

members! {
    t_category_get_cvars = |category| category.settings;
    t_category_get_pvars = |category| category.measures;
    t_category_get_categories = |_| &[];
    t_category_get_events = |_| &[];
}

pub(crate) unsafe fn t_category_get_num_events(index: c_int, into: *mut c_int) -> Result<()> {
    is_there()?;
    at(CATEGORIES, index)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { put(into, 0) };
    Ok(())
}

/// Functions of kinds of objects that this library has none of: every name is unknown.
macro_rules! of_nothing {
    ($($name:ident($($ty:ty),*) = $class:expr;)*) => {$(
        pub(crate) unsafe fn $name($(_: $ty),*) -> Result<()> {
            is_there()?;
            Err(Error::new($class, "there is no such object"))
        }
    )*};
}

of_nothing! {
    t_enum_get_info(Handle, *mut c_int, *mut c_char, *mut c_int) = abi::T_ERR_INVALID_HANDLE;
    t_enum_get_item(Handle, c_int, *mut c_int, *mut c_char, *mut c_int) = abi::T_ERR_INVALID_HANDLE;
    t_event_get_info(c_int, *mut c_char, *mut c_int, *mut c_int, *mut Handle, *mut i64, *mut c_int, *mut Handle,
        *mut Handle, *mut c_char, *mut c_int, *mut c_int) = abi::T_ERR_INVALID_INDEX;
    t_event_handle_alloc(c_int, *mut c_void, Handle, *mut Handle) = abi::T_ERR_INVALID_INDEX;
    t_event_callback_get_info(Handle, c_int, *mut Handle) = abi::T_ERR_INVALID_HANDLE;
    t_event_callback_set_info(Handle, c_int, Handle) = abi::T_ERR_INVALID_HANDLE;
    t_event_copy(Handle, *mut c_void) = abi::T_ERR_INVALID_HANDLE;
    t_event_get_source(Handle, *mut c_int) = abi::T_ERR_INVALID_HANDLE;
    t_event_get_timestamp(Handle, *mut i64) = abi::T_ERR_INVALID_HANDLE;
    t_event_handle_free(Handle, *mut c_void, *mut c_void) = abi::T_ERR_INVALID_HANDLE;
    t_event_handle_get_info(Handle, *mut Handle) = abi::T_ERR_INVALID_HANDLE;
    t_event_handle_set_info(Handle, Handle) = abi::T_ERR_INVALID_HANDLE;
    t_event_read(Handle, c_int, *mut c_void) = abi::T_ERR_INVALID_HANDLE;
    t_event_register_callback(Handle, c_int, Handle, *mut c_void, *mut c_void) = abi::T_ERR_INVALID_HANDLE;
    t_event_set_dropped_handler(Handle, *mut c_void) = abi::T_ERR_INVALID_HANDLE;
    t_source_get_info(c_int, *mut c_char, *mut c_int, *mut c_char, *mut c_int, *mut c_int, *mut i64, *mut i64,
        *mut Handle) = abi::T_ERR_INVALID_INDEX;
    t_source_get_timestamp(c_int, *mut i64) = abi::T_ERR_INVALID_INDEX;
}
