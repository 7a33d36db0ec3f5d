//! Communicators (MPI 5.0 §7.4).

use std::ffi::{c_char, c_int};

use causeway_mpi::abi;
use causeway_mpi::buffering::Owner;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::exchange::Exchange;
use causeway_mpi::info::Info;
use causeway_mpi::intercomm::IntercommCreation;
use causeway_mpi::process::Active;

use crate::attributes::Holder;
use crate::library::{complete, enter, with};
use crate::types::{Handle, read_text, write_text};

pub(crate) unsafe fn comm_rank(comm: Handle, rank: *mut c_int) -> Result<()> {
    let found = with(|process, _| Ok(process.communicator(comm)?.rank()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { rank.write(found as c_int) };
    Ok(())
}

pub(crate) unsafe fn comm_size(comm: Handle, size: *mut c_int) -> Result<()> {
    let found = with(|process, _| Ok(process.communicator(comm)?.size()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { size.write(found as c_int) };
    Ok(())
}

pub(crate) unsafe fn comm_test_inter(comm: Handle, flag: *mut c_int) -> Result<()> {
    let is = with(|process, _| Ok(process.communicator(comm)?.remote_group().is_some()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { flag.write(is.into()) };
    Ok(())
}

pub(crate) unsafe fn comm_group(comm: Handle, group: *mut Handle) -> Result<()> {
    let found = with(|process, _| Ok(process.communicator(comm)?.group().clone()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::group::insert(found, group) }
}

fn not_inter() -> Error {
    Error::new(abi::ERR_COMM, "the communicator is no inter-communicator")
}

pub(crate) unsafe fn comm_remote_group(comm: Handle, group: *mut Handle) -> Result<()> {
    let found = with(|process, _| {
        let remote = process.communicator(comm)?.remote_group().cloned();
        remote.ok_or_else(not_inter)
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::group::insert(found, group) }
}

pub(crate) unsafe fn comm_remote_size(comm: Handle, size: *mut c_int) -> Result<()> {
    let found = with(|process, _| {
        let remote = process
            .communicator(comm)?
            .remote_group()
            .map(|group| group.size());
        remote.ok_or_else(not_inter)
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { size.write(found as c_int) };
    Ok(())
}

pub(crate) unsafe fn comm_compare(comm1: Handle, comm2: Handle, result: *mut c_int) -> Result<()> {
    let compared = with(|process, _| process.compare(comm1, comm2))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { result.write(compared) };
    Ok(())
}

/// Has all processes of a communicator exchange the values that they need to make another one, by the call `name`.
fn exchange(comm: Handle, values: [i64; 2], name: &'static str) -> Result<Exchange> {
    let (active, exchanged) = with(|process, _| process.start_exchange(comm, values, name))?;
    complete(active)?;
    Ok(exchanged)
}

/// Has all processes of a communicator exchange numbers, as many as each has, in the call `name`. Returns those of all, in the order of
/// ranks.
pub(crate) fn exchange_numbers(
    comm: Handle,
    numbers: &[c_int],
    name: &'static str,
) -> Result<Vec<c_int>> {
    let many = [numbers.len() as i64, 0];
    let (lengths, exchanged) = with(|process, _| process.start_exchange(comm, many, name))?;
    complete(lengths)?;
    let (numbers, all) = with(|process, _| process.exchange_numbers(&exchanged, numbers))?;
    complete(numbers)?;
    let bytes = all.to_vec();
    let words = bytes.chunks_exact(4);
    Ok(words
        .map(|word| word.try_into().map_or(0, c_int::from_ne_bytes))
        .collect())
}

/// Notes that a new communicator holds its parent's error handler.
pub(crate) fn made(new: Option<Handle>) -> Result<Handle> {
    let Some(new) = new else {
        return Ok(abi::COMM_NULL);
    };
    let handler = with(|process, _| Ok(process.communicator(new)?.error_handler()))?;
    crate::errors::hold(handler)?;
    Ok(new)
}

/// Starts to duplicate a communicator; returns the operation, and the handle that the new one will have.
fn duplicate(comm: Handle, name: &'static str) -> Result<(Active, Handle)> {
    let (active, exchanged) = with(|process, _| process.duplicate(comm, name))?;
    let new = made(Some(exchanged.new_handle()))?;
    match crate::attributes::copy_all(Holder::Communicator(comm), new) {
        Ok(()) => Ok((active, new)),
        Err(error) => {
            give_up(active, new)?;
            Err(error)
        }
    }
}

/// Frees a duplicate whose attributes could not be copied. The other processes' go on: they get this one's number in the background.
fn give_up(active: Active, mut new: Handle) -> Result<()> {
    with(|process, _| {
        process.abandon(active);
        Ok(())
    })?;
    // SAFETY: the pointer is that of a variable.
    unsafe { comm_free(&mut new) }
}

pub(crate) unsafe fn comm_dup(comm: Handle, newcomm: *mut Handle) -> Result<()> {
    let (active, mut new) = duplicate(comm, "MPI_Comm_dup")?;
    let made = complete(active);
    // SAFETY: the caller's pointer, as MPI has it, and that of a variable.
    unsafe {
        match made {
            Ok(_) => newcomm.write(new),
            Err(error) => {
                comm_free(&mut new)?;
                return Err(error);
            }
        }
    }
    Ok(())
}

pub(crate) unsafe fn comm_idup(
    comm: Handle,
    newcomm: *mut Handle,
    request: *mut Handle,
) -> Result<()> {
    with(|process, _| {
        let room = process.check_room_for_request();
        room.map_err(|error| process.refuse_collective(comm, "MPI_Comm_idup", error))
    })?;
    let (active, new) = duplicate(comm, "MPI_Comm_idup")?;
    let handle = with(|process, _| process.keep(active))?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        newcomm.write(new);
        request.write(handle);
    }
    Ok(())
}

pub(crate) unsafe fn comm_idup_with_info(
    comm: Handle,
    info: Handle,
    newcomm: *mut Handle,
    request: *mut Handle,
) -> Result<()> {
    let hints = enter(|library| crate::info::copy_of(library, info))?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        comm_idup(comm, newcomm, request)?;
        set_hints(newcomm.read(), &hints)
    }
}

/// Sets hints; others stay as they are.
fn set_hints(comm: Handle, hints: &Info) -> Result<()> {
    with(|process, _| {
        process.communicator_mut(comm)?.info().update(hints);
        Ok(())
    })
}

pub(crate) unsafe fn comm_dup_with_info(
    comm: Handle,
    info: Handle,
    newcomm: *mut Handle,
) -> Result<()> {
    let hints = enter(|library| crate::info::copy_of(library, info))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        comm_dup(comm, newcomm)?;
        set_hints(newcomm.read(), &hints)
    }
}

pub(crate) unsafe fn comm_split(
    comm: Handle,
    color: c_int,
    key: c_int,
    newcomm: *mut Handle,
) -> Result<()> {
    if color < 0 && color != abi::UNDEFINED {
        return Err(Error::new(
            abi::ERR_ARG,
            format!("the color {color} is negative"),
        ));
    }
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { split_by(comm, (color.into(), key), "MPI_Comm_split", newcomm) }
}

/// # Safety
/// The pointer is valid for writes.
pub(crate) unsafe fn split_by(
    comm: Handle,
    (color, key): (i64, c_int),
    name: &'static str,
    newcomm: *mut Handle,
) -> Result<()> {
    let exchanged = exchange(comm, [color, key.into()], name)?;
    let new = made(with(|process, _| process.split(&exchanged))?)?;
    // SAFETY: the caller's promise.
    unsafe { newcomm.write(new) };
    Ok(())
}

/// The resource of the hardware that is known (MPI 5.0 §7.4.2).
const SHARED_MEMORY: &[u8] = b"mpi_shared_memory";

pub(crate) unsafe fn get_hw_resource_info(hw_info: *mut Handle) -> Result<()> {
    let mut info = causeway_mpi::info::Info::default();
    // A process has one host.
    info.set(SHARED_MEMORY, b"true")?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::info::insert(info, hw_info) }
}

pub(crate) unsafe fn comm_split_type(
    comm: Handle,
    split_type: c_int,
    key: c_int,
    info: Handle,
    newcomm: *mut Handle,
) -> Result<()> {
    let hints = enter(|library| crate::info::copy_of(library, info))?;
    let resource = hints.get(b"mpi_hw_resource_type")?;
    let color = match split_type {
        abi::COMM_TYPE_SHARED => with(|process, _| Ok(process.host()))?,
        abi::COMM_TYPE_HW_GUIDED | abi::COMM_TYPE_RESOURCE_GUIDED
            if resource == Some(SHARED_MEMORY) =>
        {
            with(|process, _| Ok(process.host()))?
        }
        // Hosts are not divided further.
        abi::UNDEFINED
        | abi::COMM_TYPE_HW_UNGUIDED
        | abi::COMM_TYPE_HW_GUIDED
        | abi::COMM_TYPE_RESOURCE_GUIDED => abi::UNDEFINED.into(),
        other => {
            let text = format!("the split type {other} is unknown");
            return Err(Error::new(abi::ERR_ARG, text));
        }
    };
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { split_by(comm, (color, key), "MPI_Comm_split_type", newcomm) }
}

pub(crate) unsafe fn comm_create(comm: Handle, group: Handle, newcomm: *mut Handle) -> Result<()> {
    let group = enter(|library| library.group(group))?;
    let place = with(|process, _| Ok(process.place_in(&group)))?;
    let exchanged = exchange(comm, place, "MPI_Comm_create")?;
    let new = made(with(|process, _| process.create(&exchanged, &group))?)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { newcomm.write(new) };
    Ok(())
}

pub(crate) unsafe fn comm_create_group(
    comm: Handle,
    group: Handle,
    tag: c_int,
    newcomm: *mut Handle,
) -> Result<()> {
    let group = enter(|library| library.group(group))?;
    let is_in = with(|process, _| Ok(process.place_in(&group) != [0; 2]))?;
    let new = if is_in {
        let (active, exchanged) = with(|process, _| process.start_create_group(comm, &group, tag))?;
        complete(active)?;
        Some(with(|process, _| {
            process.create_of_group(&exchanged, &group, None)
        })?)
    } else {
        None
    };
    let new = made(new)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { newcomm.write(new) };
    Ok(())
}

pub(crate) unsafe fn comm_create_from_group(
    group: Handle,
    stringtag: *const c_char,
    info: Handle,
    errhandler: Handle,
    newcomm: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = unsafe { read_text(stringtag, "stringtag") }?;
    let (group, hints) = enter(|library| {
        library.check_handler(errhandler)?;
        Ok((library.group(group)?, crate::info::copy_of(library, info)?))
    })?;
    let new = if group.size() == 0 {
        None
    } else {
        let (active, exchanged) = with(|process, _| process.start_create_from_group(&group, name))?;
        complete(active)?;
        Some(with(|process, _| {
            process.create_of_group(&exchanged, &group, Some(errhandler))
        })?)
    };
    let new = made(new)?;
    if new != abi::COMM_NULL {
        set_hints(new, &hints)?;
    }
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { newcomm.write(new) };
    Ok(())
}

/// Has two groups exchange their addresses.
pub(crate) fn exchange_groups(creation: &mut IntercommCreation) -> Result<()> {
    let mut went = Ok(());
    while let Some(active) = with(|process, _| process.advance_intercomm(creation, went))? {
        went = complete(active).map(drop);
    }
    Ok(())
}

/// Has two groups make an inter-communicator.
pub(crate) fn complete_intercomm(
    mut creation: IntercommCreation,
    errhandler: Option<Handle>,
) -> Result<Handle> {
    exchange_groups(&mut creation)?;
    made(Some(with(|process, _| {
        process.finish_intercomm(&creation, errhandler)
    })?))
}

pub(crate) unsafe fn intercomm_create(
    local_comm: Handle,
    local_leader: c_int,
    peer_comm: Handle,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut Handle,
) -> Result<()> {
    let other = (peer_comm, remote_leader, tag);
    let creation = with(|process, _| process.intercomm_create(local_comm, local_leader, other))?;
    let new = complete_intercomm(creation, None)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { newintercomm.write(new) };
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn intercomm_create_from_groups(
    local_group: Handle,
    local_leader: c_int,
    remote_group: Handle,
    remote_leader: c_int,
    stringtag: *const c_char,
    info: Handle,
    errhandler: Handle,
    newintercomm: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = unsafe { read_text(stringtag, "stringtag") }?;
    let (local, hints) = enter(|library| {
        library.check_handler(errhandler)?;
        Ok((
            library.group(local_group)?,
            crate::info::copy_of(library, info)?,
        ))
    })?;
    let rank = with(|process, _| Ok(process.place_in(&local)[1]))?;
    let remote = match rank == i64::from(local_leader) {
        true => Some(enter(|library| library.group(remote_group))?),
        false => None,
    };
    let creation = with(|process, _| {
        let remote = remote.as_ref().map(|remote| (&**remote, remote_leader));
        process.intercomm_create_from_groups((&local, local_leader), remote, name)
    })?;
    let new = complete_intercomm(creation, Some(errhandler))?;
    set_hints(new, &hints)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { newintercomm.write(new) };
    Ok(())
}

pub(crate) unsafe fn intercomm_merge(
    intercomm: Handle,
    high: c_int,
    newintracomm: *mut Handle,
) -> Result<()> {
    with(|process, _| {
        let remote = process.communicator(intercomm)?.remote_group();
        remote.map(drop).ok_or_else(not_inter)
    })?;
    let values = [(high != 0).into(), 0];
    let exchanged = exchange(intercomm, values, "MPI_Intercomm_merge")?;
    let new = made(Some(with(|process, _| process.merge(&exchanged))?))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { newintracomm.write(new) };
    Ok(())
}

pub(crate) unsafe fn comm_free(comm: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = comm.read();
        // Nothing is deleted of one that cannot be freed.
        with(|process, _| process.check_freeable(handle))?;
        crate::attributes::delete_all(Holder::Communicator(handle))?;
        let handler = with(|process, _| process.free_communicator(handle))?;
        crate::buffers::forget(Owner::Communicator(handle))?;
        crate::errors::release(handler)?;
        comm.write(abi::COMM_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn comm_set_name(comm: Handle, name: *const c_char) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = unsafe { read_text(name, "comm_name") }?;
    let most = abi::MAX_OBJECT_NAME as usize - 1;
    let name = &name[..name.len().min(most)];
    with(|process, _| {
        process.communicator_mut(comm)?.set_name(name);
        Ok(())
    })
}

pub(crate) unsafe fn comm_get_name(
    comm: Handle,
    name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let found = with(|process, _| match comm {
        abi::COMM_NULL => Ok(b"MPI_COMM_NULL".to_vec()),
        other => Ok(process.communicator(other)?.name().to_vec()),
    })?;
    let most = abi::MAX_OBJECT_NAME as usize;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(&found, name, most, resultlen) };
    Ok(())
}

pub(crate) unsafe fn comm_set_info(comm: Handle, info: Handle) -> Result<()> {
    let hints = enter(|library| crate::info::copy_of(library, info))?;
    set_hints(comm, &hints)
}

pub(crate) unsafe fn comm_get_info(comm: Handle, info_used: *mut Handle) -> Result<()> {
    let hints = with(|process, _| Ok(process.communicator_mut(comm)?.info().clone()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::info::insert(hints, info_used) }
}
