//! Programs that start others, and programs that find each other (MPI 5.0 §11.7 to §11.10).

use std::ffi::{c_char, c_int};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::info::Info;
use causeway_mpi::intercomm::IntercommCreation;
use causeway_mpi::names::Names;
use causeway_mpi::process::Process;
use causeway_mpi::programs::{Program, Spawn};
use causeway_sys::joining::{self, Joined};

use crate::communicator::{comm_free, complete_intercomm, exchange_groups, made};
use crate::library::{complete, enter, with};
use crate::types::{Handle, read_text, write_text};

/// Whether this process is the root, which alone reads some arguments.
fn is_root(comm: Handle, root: c_int) -> Result<bool> {
    with(|process, _| {
        let communicator = process.communicator(comm)?;
        Ok(i64::from(communicator.rank()) == i64::from(root))
    })
}

pub(crate) unsafe fn open_port(_info: Handle, port_name: *mut c_char) -> Result<()> {
    let name = with(|process, _| process.open_port())?;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe {
        write_text(
            name.as_bytes(),
            port_name,
            abi::MAX_PORT_NAME as usize,
            std::ptr::null_mut(),
        );
    }
    Ok(())
}

pub(crate) unsafe fn close_port(port_name: *const c_char) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = unsafe { read_text(port_name, "port_name") }?;
    with(|process, _| process.close_port(name))
}

/// How a group begins to connect with another one: its communicator, its root, and the port's name.
type Begin = fn(&mut Process, usize, i32, Option<&[u8]>) -> Result<IntercommCreation>;

/// Has a group connect with another one at a port.
///
/// # Safety
/// At the root, the name is null or a C string; the other pointer is valid for writes.
unsafe fn connect_at(
    port_name: *const c_char,
    (comm, root): (Handle, c_int),
    begin: Begin,
    newcomm: *mut Handle,
) -> Result<()> {
    let name = match is_root(comm, root)? && !port_name.is_null() {
        // SAFETY: the caller's promise.
        true => Some(unsafe { read_text(port_name, "port_name") }?),
        false => None,
    };
    let creation = with(|process, _| begin(process, comm, root, name))?;
    let new = complete_intercomm(creation, None)?;
    // SAFETY: the caller's promise.
    unsafe { newcomm.write(new) };
    Ok(())
}

pub(crate) unsafe fn comm_accept(
    port_name: *const c_char,
    _info: Handle,
    root: c_int,
    comm: Handle,
    newcomm: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { connect_at(port_name, (comm, root), Process::accept, newcomm) }
}

pub(crate) unsafe fn comm_connect(
    port_name: *const c_char,
    _info: Handle,
    root: c_int,
    comm: Handle,
    newcomm: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { connect_at(port_name, (comm, root), Process::connect, newcomm) }
}

/// The exchange of processes at both ends of a socket: which of them has the port, and its name.
fn join(descriptor: c_int) -> Result<Handle> {
    let failed = |error: std::io::Error| {
        let text = format!("the descriptor {descriptor}: {error}");
        Error::new(abi::ERR_ARG, text)
    };
    let name = with(|process, _| process.open_port())?;
    let joined = joining::exchange(descriptor, name.as_bytes()).map_err(failed);
    let creation = joined.and_then(|joined| {
        with(|process, _| match &joined {
            Joined::First => process.accept(abi::COMM_SELF, 0, Some(name.as_bytes())),
            Joined::Second(theirs) => process.connect(abi::COMM_SELF, 0, Some(theirs)),
        })
    });
    let new = creation.and_then(|creation| complete_intercomm(creation, None));
    with(|process, _| process.close_port(name.as_bytes()))?;
    new
}

pub(crate) unsafe fn comm_join(fd: c_int, intercomm: *mut Handle) -> Result<()> {
    let new = join(fd)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { intercomm.write(new) };
    Ok(())
}

pub(crate) unsafe fn comm_disconnect(comm: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    let handle = unsafe { comm.read() };
    // Earlier messages have arrived when all processes are here.
    let barrier = with(|process, _| {
        let steps = process.barrier(handle)?;
        process.begin(steps.called("MPI_Comm_disconnect"))
    })?;
    let went = complete(barrier).map(drop);
    // SAFETY: the caller's pointer, as MPI has it. Requests that are open keep what they need.
    unsafe { comm_free(comm) }?;
    match went {
        // Processes that have completed the barrier may have ended already, so that the others find
        // them lost.
        Err(error) if error.code() == abi::ERR_PROC_ABORTED => Ok(()),
        went => went,
    }
}

pub(crate) unsafe fn comm_get_parent(parent: *mut Handle) -> Result<()> {
    let found = with(|process, _| Ok(process.parent()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { parent.write(found) };
    Ok(())
}

/// The strings of an array that ends with a null pointer.
///
/// # Safety
/// It is null, or an array of C strings and a null pointer at its end.
unsafe fn strings<'a>(array: *mut *mut c_char) -> Result<Vec<&'a [u8]>> {
    let mut found = Vec::new();
    if array.is_null() {
        return Ok(found);
    }
    loop {
        // SAFETY: the caller's promise: none before was the last.
        let string = unsafe { array.add(found.len()).read() };
        if string.is_null() {
            return Ok(found);
        }
        // SAFETY: the caller's promise.
        found.push(unsafe { read_text(string, "argv") }?);
    }
}

fn hints(info: Handle) -> Result<Info> {
    enter(|library| crate::info::copy_of(library, info))
}

/// Has programs be started, and connects with them.
///
/// # Safety
/// The pointers are valid for writes, `codes` for as many as processes are asked for, unless it is null.
unsafe fn spawn(
    (comm, root): (Handle, c_int),
    what: Option<Result<Spawn>>,
    (intercomm, codes): (*mut Handle, *mut c_int),
) -> Result<()> {
    let mut creation = with(|process, _| process.spawn(comm, root, what))?;
    exchange_groups(&mut creation)?;
    if !codes.is_null() {
        let found = with(|process, _| Ok(process.codes(&creation)))?;
        for (at, code) in found.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { codes.add(at).write(code) };
        }
    }
    let new = made(Some(with(|process, _| {
        process.finish_intercomm(&creation, None)
    })?))?;
    // SAFETY: the caller's promise.
    unsafe { intercomm.write(new) };
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: Handle,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    let what = is_root(comm, root)?.then(|| {
        // SAFETY: the caller's strings, as MPI has it: at the root they count.
        let (command, arguments) = unsafe { (read_text(command, "command")?, strings(argv)?) };
        let program = Program::new(command, &arguments, maxprocs, &hints(info)?)?;
        Spawn::new(vec![program])
    });
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { spawn((comm, root), what, (intercomm, array_of_errcodes)) }
}

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const Handle,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    let program = |at: usize| {
        // SAFETY: the caller's arrays, of `count` each, as MPI has it: at the root they count.
        let (command, arguments, most, info) = unsafe {
            let arguments = match array_of_argv.is_null() {
                true => Vec::new(),
                false => strings(array_of_argv.add(at).read())?,
            };
            let command = read_text(array_of_commands.add(at).read(), "a command")?;
            let most = array_of_maxprocs.add(at).read();
            (command, arguments, most, array_of_info.add(at).read())
        };
        Program::new(command, &arguments, most, &hints(info)?)
    };
    let what = is_root(comm, root)?.then(|| {
        let wrong = || Error::new(abi::ERR_ARG, format!("count is {count}"));
        let count = usize::try_from(count).map_err(|_| wrong())?;
        if array_of_commands.is_null() || array_of_maxprocs.is_null() || array_of_info.is_null() {
            return Err(Error::new(abi::ERR_ARG, "an array is NULL"));
        }
        Spawn::new((0..count).map(program).collect::<Result<_>>()?)
    });
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { spawn((comm, root), what, (intercomm, array_of_errcodes)) }
}

pub(crate) unsafe fn publish_name(
    service_name: *const c_char,
    _info: Handle,
    port_name: *const c_char,
) -> Result<()> {
    // SAFETY: the caller's strings, as MPI has it.
    let (service, port) = unsafe {
        let service = read_text(service_name, "service_name")?;
        (service, read_text(port_name, "port_name")?)
    };
    with(|process, _| process.publish(service, port))
}

pub(crate) unsafe fn unpublish_name(
    service_name: *const c_char,
    _info: Handle,
    port_name: *const c_char,
) -> Result<()> {
    // SAFETY: the caller's strings, as MPI has it.
    let (service, port) = unsafe {
        let service = read_text(service_name, "service_name")?;
        (service, read_text(port_name, "port_name")?)
    };
    with(|_, _| Names::of_user()?.unpublish(service, port))
}

pub(crate) unsafe fn lookup_name(
    service_name: *const c_char,
    _info: Handle,
    port_name: *mut c_char,
) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let service = unsafe { read_text(service_name, "service_name") }?;
    let port = with(|_, _| Names::of_user()?.look_up(service))?;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe {
        write_text(
            &port,
            port_name,
            abi::MAX_PORT_NAME as usize,
            std::ptr::null_mut(),
        );
    }
    Ok(())
}
