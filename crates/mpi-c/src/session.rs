//! Sessions (MPI 5.0 §11.3): the library used by parts of a program that do not know of each other.
//!
//! The process starts with the first session or `MPI_Init`, whichever comes first, and disconnects from the others when the program ends:
//! sessions can be made again until then, also after `MPI_Finalize`.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use causeway_mpi::abi;
use causeway_mpi::buffering::Owner;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::group::Group;
use causeway_mpi::info::Info;

use crate::errors::{hold, release};
use crate::library::{STAGE, enter, takes_threads};
use crate::objects::Session;
use crate::types::{Callback, Handle, read_text, write_text};

/// The sets of processes that there are.
const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

const THREAD_LEVEL: &[u8] = b"thread_level";
const MULTIPLE: &[u8] = b"MPI_THREAD_MULTIPLE";

/// What threads may do: the same for all sessions and the world, as the library is one.
fn level() -> &'static [u8] {
    if takes_threads() {
        return MULTIPLE;
    }
    match STAGE.thread_level.load(Relaxed) {
        abi::THREAD_SINGLE => b"MPI_THREAD_SINGLE",
        abi::THREAD_FUNNELED => b"MPI_THREAD_FUNNELED",
        _ => b"MPI_THREAD_SERIALIZED",
    }
}

pub(crate) unsafe fn session_init(
    info: Handle,
    errhandler: Handle,
    session: *mut Handle,
) -> Result<()> {
    let hints = enter(|library| {
        library.check_handler(errhandler)?;
        crate::info::copy_of(library, info)
    })?;
    // Without a key, sessions say nothing of threads that the process could rely on.
    crate::start::begin(abi::THREAD_MULTIPLE)?;
    if hints.get(THREAD_LEVEL)? == Some(MULTIPLE) {
        crate::start::raise_level()?;
    }
    hold(errhandler)?;
    let made = Session {
        error_handler: errhandler,
    };
    let new = enter(|library| library.sessions.insert(made))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { session.write(new) };
    Ok(())
}

pub(crate) unsafe fn session_finalize(session: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = session.read();
        let gone = enter(|library| library.sessions.remove(handle))?;
        crate::buffers::forget(Owner::Session(handle))?;
        release(gone.error_handler)?;
        session.write(abi::SESSION_NULL);
    }
    Ok(())
}

fn check(session: Handle) -> Result<()> {
    enter(|library| library.sessions.get(session).map(drop))
}

pub(crate) unsafe fn session_get_info(session: Handle, info_used: *mut Handle) -> Result<()> {
    check(session)?;
    let mut hints = Info::default();
    hints.set(THREAD_LEVEL, level())?;
    hints.set(b"mpi_memory_alloc_kinds", b"mpi,system")?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::info::insert(hints, info_used) }
}

pub(crate) unsafe fn session_get_num_psets(
    session: Handle,
    _info: Handle,
    many: *mut c_int,
) -> Result<()> {
    check(session)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { many.write(SETS.len() as c_int) };
    Ok(())
}

pub(crate) unsafe fn session_get_nth_pset(
    session: Handle,
    _info: Handle,
    n: c_int,
    len: *mut c_int,
    name: *mut c_char,
) -> Result<()> {
    check(session)?;
    let found = usize::try_from(n).ok().and_then(|n| SETS.get(n));
    let found = found.ok_or_else(|| {
        let text = format!("there is no set of processes {n}");
        Error::new(abi::ERR_ARG, text)
    })?;
    // SAFETY: the caller's pointers, as MPI has it: room for as much as it says, or none.
    unsafe {
        let room = usize::try_from(len.read()).unwrap_or(0);
        write_text(found.as_bytes(), name, room, std::ptr::null_mut());
        len.write(found.len() as c_int + 1);
    }
    Ok(())
}

/// The group of a set of processes.
///
/// # Safety
/// The name is null or a C string.
unsafe fn group_of(session: Handle, name: *const c_char) -> Result<Arc<Group>> {
    check(session)?;
    // SAFETY: the caller's promise.
    let name = unsafe { read_text(name, "pset_name") }?;
    // As the schemes and hosts of all URIs, without regard to case.
    let known = SETS
        .iter()
        .position(|set| set.as_bytes().eq_ignore_ascii_case(name));
    let communicator = match known {
        Some(0) => abi::COMM_WORLD,
        Some(_) => abi::COMM_SELF,
        None => {
            let text = format!(
                "no set of processes is called {}",
                String::from_utf8_lossy(name)
            );
            return Err(Error::new(abi::ERR_ARG, text));
        }
    };
    crate::library::with(|process, _| {
        let group = Group::clone(process.communicator(communicator)?.group());
        Ok(Arc::new(group.of_session(Some(session))))
    })
}

pub(crate) unsafe fn session_get_pset_info(
    session: Handle,
    name: *const c_char,
    info: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's string and pointer, as MPI has it.
    unsafe {
        let size = group_of(session, name)?.size().to_string();
        let mut contents = Info::default();
        contents.set(b"mpi_size", size.as_bytes())?;
        crate::info::insert(contents, info)
    }
}

pub(crate) unsafe fn group_from_session_pset(
    session: Handle,
    name: *const c_char,
    group: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's string and pointer, as MPI has it.
    unsafe { crate::group::insert(group_of(session, name)?, group) }
}

pub(crate) unsafe fn session_create_errhandler(
    function: Callback,
    errhandler: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it: functions for sessions have the shape of those for communicators.
    unsafe { crate::errors::comm_create_errhandler(function, errhandler) }
}
