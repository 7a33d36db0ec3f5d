//! Starting and ending (MPI 5.0 chapter 11), versions, time.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::process::Process;
use causeway_mpi::tool::{SETTINGS, Setting, Settings};
use causeway_mpi_fs::CausewayFiles;

use crate::attributes::Holder;
use crate::library::{Library, STAGE, disown, end, enter, set_level, share, takes_threads, with};
use crate::observed;
use crate::progress;
use crate::types::{Handle, write_text};

/// The most that threads may do (MPI 5.0 §11.6.2).
pub(crate) const MOST_THREADS: c_int = abi::THREAD_MULTIPLE;

pub(crate) unsafe fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    start(abi::THREAD_SINGLE)
}

pub(crate) unsafe fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> Result<()> {
    let level = required.clamp(abi::THREAD_SINGLE, MOST_THREADS);
    start(level)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { provided.write(level) };
    Ok(())
}

fn start(level: c_int) -> Result<()> {
    if STAGE.is_initialized.load(Relaxed) {
        return Err(Error::new(abi::ERR_OTHER, "MPI_Init was called before"));
    }
    begin(level)?;
    STAGE.thread_level.store(level, Relaxed);
    STAGE.main_thread.store(own_thread(), Relaxed);
    STAGE.is_initialized.store(true, Release);
    Ok(())
}

/// Connects this process with the others, unless it has. Threads may then make calls as `level` permits.
pub(crate) fn begin(level: c_int) -> Result<()> {
    let is_first = enter(|library| {
        if library.process.is_some() {
            return Ok(false);
        }
        let has_own_thread = progress::is_wanted()?;
        if let Some(process) = library.finished.take() {
            library.process = Some(process);
            if has_own_thread {
                progress::start()?;
            }
            return Ok(false);
        }
        watch_forks()?;
        observed::attach(crate::exports::LIST);
        let mut process = Process::start()?;
        process.add_file_system(Arc::new(CausewayFiles::default()));
        for (owner, (_, size)) in &library.buffers {
            process.limit_buffered(*owner, Some(*size as u64));
        }
        if level > abi::THREAD_FUNNELED {
            observed::expect_threads();
        }
        set_level(level, has_own_thread, &mut process);
        let changed = |setting: Setting| {
            library.tools.settings.get(setting) != Settings::default().get(setting)
        };
        for setting in SETTINGS.iter().filter(|setting| changed(setting.what)) {
            process.apply(&library.tools.settings, setting.what)?;
        }
        library.rank = Some(process.rank());
        library.process = Some(process);
        if has_own_thread {
            progress::start()?;
        }
        Ok(true)
    })?;
    if is_first {
        // SAFETY: the function is there as long as the process: the library is not unloaded.
        unsafe { libc::atexit(at_exit) };
    }
    Ok(())
}

/// From now on the library's lock serializes calls, although the program has started without: a session requires it. No other thread is
/// inside, as the program has ordered its calls until now.
pub(crate) fn raise_level() -> Result<()> {
    if takes_threads() {
        return Ok(());
    }
    with(|process, _| {
        observed::expect_threads();
        share(process);
        Ok(())
    })
}

/// From now on, calls in children of `fork` fail, because the library is their parent's.
fn watch_forks() -> Result<()> {
    static WATCHED: OnceLock<c_int> = OnceLock::new();
    // SAFETY: the function touches atomics only, which is allowed in a child of a process of several threads.
    let watch = || unsafe { libc::pthread_atfork(None, None, Some(leave_to_parent)) };
    match *WATCHED.get_or_init(watch) {
        0 => Ok(()),
        error => {
            let error = std::io::Error::from_raw_os_error(error);
            let text = format!("forks cannot be noticed: {error}");
            Err(Error::new(abi::ERR_OTHER, text))
        }
    }
}

/// Runs in a child before `fork` returns.
extern "C" fn leave_to_parent() {
    observed::detach();
    disown();
}

/// Disconnects the processes of a program that has used sessions only, and has ended all of them. A forked child cannot
/// enter.
extern "C" fn at_exit() {
    let _ = enter(|library| {
        let is_used = STAGE.is_initialized.load(Relaxed) && !STAGE.is_finalized.load(Relaxed);
        if !is_used && library.sessions.is_empty() {
            let _ = part(library);
            library.finished = None;
        }
        Ok(())
    });
}

/// Waits until none of the other processes needs this one any more.
fn part(library: &mut Library) -> Result<()> {
    let Some(mut process) = library.process.take() else {
        return Ok(());
    };
    progress::end();
    let finished = process.finish();
    library.finished = Some(process);
    finished
}

pub(crate) unsafe fn finalize() -> Result<()> {
    if STAGE.is_finalized.load(Relaxed) {
        return Err(Error::new(abi::ERR_OTHER, "MPI_Finalize was called before"));
    }
    if !STAGE.is_initialized.load(Relaxed) {
        return Err(Error::new(abi::ERR_OTHER, "MPI_Init was not called"));
    }
    // Before anything ends, so that the delete functions of these attributes can use MPI (MPI 5.0 §11.2.4).
    let deleted = [abi::COMM_SELF, abi::COMM_WORLD]
        .map(|comm| crate::attributes::delete_all(Holder::Communicator(comm)));
    enter(|library| {
        STAGE.is_finalized.store(true, Release);
        if library.process.as_ref().is_some_and(Process::checks) {
            library.report_leaks();
        }
        match library.sessions.is_empty() {
            true => part(library),
            // At the program's end.
            false => Ok(()),
        }
    })?;
    deleted.into_iter().collect()
}

pub(crate) unsafe fn initialized(flag: *mut c_int) -> Result<()> {
    let is = STAGE.is_initialized.load(Acquire);
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { flag.write(is.into()) };
    Ok(())
}

pub(crate) unsafe fn finalized(flag: *mut c_int) -> Result<()> {
    let is = STAGE.is_finalized.load(Acquire);
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { flag.write(is.into()) };
    Ok(())
}

pub(crate) unsafe fn abort(_comm: Handle, errorcode: c_int) -> Result<()> {
    end(errorcode)
}

pub(crate) unsafe fn query_thread(provided: *mut c_int) -> Result<()> {
    let level = STAGE.thread_level.load(Relaxed);
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { provided.write(level) };
    Ok(())
}

/// The kernel's number of this thread.
fn own_thread() -> i32 {
    // SAFETY: the call takes no arguments and has no conditions.
    unsafe { libc::gettid() }
}

pub(crate) unsafe fn is_thread_main(flag: *mut c_int) -> Result<()> {
    let is_main = match STAGE.main_thread.load(Relaxed) {
        // A program that has sessions only.
        0 => i64::from(own_thread()) == i64::from(std::process::id()),
        main => main == own_thread(),
    };
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { flag.write(is_main.into()) };
    Ok(())
}

pub(crate) unsafe fn get_version(version: *mut c_int, subversion: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        version.write(5);
        subversion.write(0);
    }
    Ok(())
}

pub(crate) unsafe fn abi_get_version(major: *mut c_int, minor: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        major.write(1);
        minor.write(0);
    }
    Ok(())
}

pub(crate) unsafe fn get_library_version(
    version: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let text = concat!("Causeway ", env!("CARGO_PKG_VERSION"));
    let most = abi::MAX_LIBRARY_VERSION_STRING as usize;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(text.as_bytes(), version, most, resultlen) };
    Ok(())
}

pub(crate) unsafe fn get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> Result<()> {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer has so many bytes.
    let result = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) };
    if result != 0 {
        let text = format!("gethostname: {}", std::io::Error::last_os_error());
        return Err(Error::new(abi::ERR_OTHER, text));
    }
    let len = buffer
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(buffer.len());
    let most = abi::MAX_PROCESSOR_NAME as usize;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(&buffer[..len], name, most, resultlen) };
    Ok(())
}

fn clock() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it is valid for writes; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

pub(crate) unsafe fn wtime() -> f64 {
    clock().as_secs_f64()
}

pub(crate) unsafe fn wtick() -> f64 {
    1e-9
}

pub(crate) unsafe fn pcontrol(_level: c_int) -> Result<()> {
    Ok(())
}

pub(crate) unsafe fn alloc_mem(size: i64, _info: Handle, baseptr: *mut c_void) -> Result<()> {
    let size = usize::try_from(size)
        .map_err(|_| Error::new(abi::ERR_ARG, format!("the size {size} is negative")))?;
    let mut memory = std::ptr::null_mut();
    // SAFETY: the pointer is valid for writes; 64 is a power of two.
    let result = unsafe { libc::posix_memalign(&mut memory, 64, size.max(1)) };
    if result != 0 {
        return Err(Error::new(abi::ERR_NO_MEM, format!("{size} bytes")));
    }
    // SAFETY: MPI has the address of a pointer here.
    unsafe { baseptr.cast::<*mut c_void>().write(memory) };
    Ok(())
}

pub(crate) unsafe fn free_mem(base: *mut c_void) -> Result<()> {
    // SAFETY: MPI obliges the caller to give back what `MPI_Alloc_mem` has returned.
    unsafe { libc::free(base) };
    Ok(())
}

pub(crate) unsafe fn get_address(location: *const c_void, address: *mut i64) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { address.write(location.addr() as i64) };
    Ok(())
}

pub(crate) unsafe fn aint_add(base: i64, disp: i64) -> i64 {
    base.wrapping_add(disp)
}

pub(crate) unsafe fn aint_diff(addr1: i64, addr2: i64) -> i64 {
    addr1.wrapping_sub(addr2)
}
