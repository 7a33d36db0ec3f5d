//! Groups (MPI 5.0 §7.3).

use std::ffi::c_int;
use std::sync::Arc;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::group::Group;

use crate::library::{enter, with};
use crate::types::{Handle, array};

/// # Safety
/// The pointer is valid for writes.
pub(crate) unsafe fn insert(group: Arc<Group>, into: *mut Handle) -> Result<()> {
    let handle = match group.size() {
        0 => abi::GROUP_EMPTY,
        _ => enter(|library| library.groups.insert(group))?,
    };
    // SAFETY: the caller's promise.
    unsafe { into.write(handle) };
    Ok(())
}

fn get(group: Handle) -> Result<Arc<Group>> {
    enter(|library| library.group(group))
}

pub(crate) unsafe fn group_size(group: Handle, size: *mut c_int) -> Result<()> {
    let group = get(group)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { size.write(group.size() as c_int) };
    Ok(())
}

pub(crate) unsafe fn group_rank(group: Handle, rank: *mut c_int) -> Result<()> {
    let group = get(group)?;
    let own = with(|process, _| Ok(process.rank()))?;
    let found = group.rank_of(own);
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { rank.write(found.map_or(abi::UNDEFINED, |rank| rank as c_int)) };
    Ok(())
}

pub(crate) unsafe fn group_compare(a: Handle, b: Handle, result: *mut c_int) -> Result<()> {
    let compared = get(a)?.compare(&*get(b)?);
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { result.write(compared) };
    Ok(())
}

pub(crate) unsafe fn group_translate_ranks(
    group1: Handle,
    n: c_int,
    ranks1: *const c_int,
    group2: Handle,
    ranks2: *mut c_int,
) -> Result<()> {
    let (from, to) = (get(group1)?, get(group2)?);
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        let ranks = array(ranks1, length(n)?, "ranks1")?;
        for (at, rank) in from.translate(ranks, &to)?.into_iter().enumerate() {
            ranks2.add(at).write(rank);
        }
    }
    Ok(())
}

fn length(n: c_int) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::new(abi::ERR_ARG, format!("n is {n}")))
}

macro_rules! sets {
    ($($name:ident, $method:ident;)*) => {$(
        pub(crate) unsafe fn $name(a: Handle, b: Handle, newgroup: *mut Handle) -> Result<()> {
            let new = get(a)?.$method(&*get(b)?);
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { insert(Arc::new(new), newgroup) }
        }
    )*};
}

sets! {
    group_union, union;
    group_intersection, intersection;
    group_difference, difference;
}

pub(crate) unsafe fn group_incl(
    group: Handle,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let ranks = array(ranks, length(n)?, "ranks")?;
        insert(Arc::new(get(group)?.including(ranks)?), newgroup)
    }
}

pub(crate) unsafe fn group_excl(
    group: Handle,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let ranks = array(ranks, length(n)?, "ranks")?;
        insert(Arc::new(get(group)?.excluding(ranks)?), newgroup)
    }
}

pub(crate) unsafe fn group_range_incl(
    group: Handle,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let group = get(group)?;
        let ranks = group.ranks_of_ranges(array(ranges, length(n)?, "ranges")?)?;
        insert(Arc::new(group.including(&ranks)?), newgroup)
    }
}

pub(crate) unsafe fn group_range_excl(
    group: Handle,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let group = get(group)?;
        let ranks = group.ranks_of_ranges(array(ranges, length(n)?, "ranges")?)?;
        insert(Arc::new(group.excluding(&ranks)?), newgroup)
    }
}

pub(crate) unsafe fn group_free(group: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = group.read();
        if handle != abi::GROUP_EMPTY {
            enter(|library| library.groups.remove(handle))?;
        }
        group.write(abi::GROUP_NULL);
    }
    Ok(())
}
