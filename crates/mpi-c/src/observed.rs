//! What this process publishes for `causeway run`: which call each thread is in at any time, in a page that the launcher maps,
//! too; and, if the launcher requests it, a record of the calls ([`causeway_mpi::record`]).
//!
//! Without such a launcher, this costs a call the check of a pointer; with it, six stores.

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

use causeway_mpi::error::Result;
use causeway_mpi::record;
use causeway_mpi::record::run::call::{self, NONE, State};
use causeway_mpi::record::run::{
    CALLS, EVENTS, Event, FORMATS, LAUNCHER_FORMATS, NO_GROUP, PAGE, common_with, ranges,
};

use crate::library::enter;
use crate::types::Handle;

/// The words of a slot ([`call`]).
#[repr(C, align(64))]
pub(crate) struct Slot {
    state: AtomicU64,
    peer_and_tag: AtomicU64,
    object: AtomicU64,
    count: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == call::SLOT_BYTES);

/// The slot of the first thread; null without a launcher that observes.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());
/// Several threads call.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);
/// Threads that have called, where several do.
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread's number, where several call.
    static THREAD: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A call, as described by its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// Its number in the list.
    pub(crate) function: u16,
    pub(crate) peer: i32,
    pub(crate) tag: i32,
    /// The communicator, or another object.
    pub(crate) object: Handle,
    pub(crate) count: i64,
    /// The datatype of the counted elements; 0 if there are none.
    pub(crate) datatype: Handle,
}

/// A call that has begun.
#[derive(Clone, Copy)]
pub(crate) struct Began {
    slot: &'static Slot,
    /// The slot's state behind the call. (Loading what was stored just before would take longer than the rest of a short call.)
    outside: u64,
    /// When, if calls are recorded.
    at_ns: u64,
}

/// The thread enters a call.
#[inline(always)]
pub(crate) fn begin(call: Call) -> Option<Began> {
    let slots = SLOTS.load(Acquire);
    if slots.is_null() {
        return None;
    }
    let own = match HAS_THREADS.load(Relaxed) {
        true => own_slot(),
        false => 0,
    };
    // SAFETY: the page has so many slots, and is never unmapped.
    let slot = unsafe { &*slots.add(own) };
    let number = State::of_word(slot.state.load(Relaxed)).number + 1;
    let state = State {
        number,
        function: call.function,
        is_inside: true,
    };
    slot.peer_and_tag
        .store(call::pack(call.peer, call.tag), Relaxed);
    slot.object.store(call.object as u64, Relaxed);
    slot.count.store(call.count as u64, Relaxed);
    slot.state.store(state.word(), Release);
    let at_ns = match record::is_on() {
        true => record::now_ns(),
        false => 0,
    };
    let outside = State {
        is_inside: false,
        ..state
    };
    Some(Began {
        slot,
        outside: outside.word(),
        at_ns,
    })
}

/// The thread leaves it.
#[inline(always)]
pub(crate) fn end(began: Option<Began>, call: impl FnOnce() -> Call) {
    let Some(Began {
        slot,
        outside,
        at_ns,
    }) = began
    else {
        return;
    };
    slot.state.store(outside, Relaxed);
    if at_ns > 0 {
        record_call(&call(), at_ns);
    }
}

/// The number of this thread's slot: the threads that call first have slots of their own.
#[cold]
#[inline(never)]
fn own_slot() -> usize {
    thread().min(call::SLOTS as u32 - 1) as usize
}

fn thread() -> u32 {
    THREAD.with(|number| {
        let known = number.get();
        let own = known.unwrap_or_else(|| THREADS.fetch_add(1, Relaxed));
        number.set(Some(own));
        own
    })
}

#[cold]
#[inline(never)]
fn record_call(call: &Call, begin_ns: u64) {
    let end_ns = record::now_ns();
    let some = |number: i32| (number != NONE).then_some(number);
    let (mut peer, mut bytes, mut group) = (some(call.peer), 0, None);
    // Handles that are wrong have made the call fail.
    let _: Result<()> = enter(|library| {
        if call.datatype != 0 && call.count > 0 {
            let size = library.datatype(call.datatype)?.size();
            bytes = size.saturating_mul(call.count as u64);
        }
        let Some(process) = &library.process else {
            return Ok(());
        };
        let Ok(communicator) = process.communicator(call.object) else {
            return Ok(());
        };
        if let Some(rank) = peer.filter(|rank| *rank >= 0) {
            let group = communicator.remote_group().unwrap_or(communicator.group());
            let world = group.members().get(rank as usize);
            peer = world.map(|world| *world as i32).or(peer);
        }
        // Calls with a tag are those of single messages.
        if call.tag == NONE {
            let members = communicator.group().members();
            group = match communicator.remote_group() {
                Some(_) => Some(NO_GROUP.to_owned()),
                None => (!(0..process.size()).eq(members.iter().copied())).then(|| ranges(members)),
            };
        }
        Ok(())
    });
    let thread = match HAS_THREADS.load(Relaxed) {
        true => thread(),
        false => 0,
    };
    let called = Event::Call {
        name: call.name.to_owned(),
        thread,
        begin_ns,
        end_ns,
        peer,
        tag: some(call.tag),
        bytes,
    };
    match group {
        Some(group) => record::events(&[Event::Group(group), called]),
        None => record::events(&[called]),
    }
    if call.name == "MPI_Finalize" {
        record::flush();
    }
}

/// Several threads may call from now on.
pub(crate) fn expect_threads() {
    HAS_THREADS.store(true, Relaxed);
}

/// Shows this process to the launcher of the environment, if there is one that asks. Programs also run without it: if
/// something fails here, the page stays empty, which the launcher reports.
pub(crate) fn attach(list: u64) {
    let page = std::env::var(PAGE).ok();
    let page = page.and_then(|page| page.parse::<usize>().ok());
    if let (Some(path), Some(page)) = (std::env::var_os(CALLS), page) {
        let _ = map(Path::new(&path), page, list);
    }
    // A program that this one starts has no page of its own, and shall not write over its parent's record.
    if !SLOTS.load(Relaxed).is_null()
        && let Some(path) = std::env::var_os(EVENTS)
    {
        let _ = record::start(Path::new(&path));
    }
}

/// Makes a forked child publish nothing, because the page is its parent's. The child may be inside a call that its
/// parent began before the fork.
pub(crate) fn detach() {
    SLOTS.store(std::ptr::null_mut(), Relaxed);
}

fn map(path: &Path, page: usize, list: u64) -> Option<()> {
    let mut file = std::fs::OpenOptions::new();
    let file = file.read(true).write(true).open(path).ok()?;
    let begin = page.checked_mul(call::PAGE_BYTES)?;
    let end = begin.checked_add(call::PAGE_BYTES)? as u64;
    // It is sealed against becoming shorter, so that mapped pages stay valid.
    causeway_sys::memfd::checked_len(&file)
        .ok()
        .filter(|len| *len >= end)?;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        libc::mmap(
            null,
            call::PAGE_BYTES,
            access,
            libc::MAP_SHARED,
            fd,
            begin as i64,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    let page = page.cast::<u8>();
    // SAFETY: words of the page that was just mapped, aligned, and only ever used as atomics.
    let word = |offset: usize| unsafe { AtomicU64::from_ptr(page.add(offset).cast()) };
    word(call::LIST).store(list, Relaxed);
    word(call::FORMATS).store(call::stating(FORMATS), Relaxed);
    let own = u64::from(std::process::id());
    // A program that this process's parent has started otherwise has the same environment.
    word(call::PID)
        .compare_exchange(0, own, AcqRel, Relaxed)
        .ok()?;
    // If there is no common format, the launcher reports that.
    common_with(std::env::var(LAUNCHER_FORMATS).ok().as_deref())?;
    // SAFETY: inside of the page.
    SLOTS.store(unsafe { page.add(call::SLOTS_OFFSET) }.cast(), Release);
    Some(())
}
