//! A thread that makes progress while the program's threads compute, if the user switches it on (`CAUSEWAY_MPI_PROGRESS=thread`).
//!
//! It serves operations that are in progress when a call returns, such as requests. As long as there are any, and no thread of
//! the program waits, it waits for messages as a thread of the program would, one of several that the library's lock serializes. It sleeps while a
//! thread of the program waits, which makes progress itself, and while no operation is in progress; the next call that leaves one
//! wakes it.

use std::sync::atomic::Ordering::Relaxed;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::process::{PROGRESS_THREAD_DELAY, Parked};
use causeway_sys::{progress_thread, thread};

use crate::library::{interrupt, prepare_sleep, with};
use crate::progress_state::{IS_ON, PROGRESS_THREAD};

const VARIABLE: &str = "CAUSEWAY_MPI_PROGRESS";

/// After this many rounds in a row without a sleep, threads that compute on the same processor run. After a yield the thread gets
/// the processor back late, so that it does not yield after a round or two; where it cannot sleep at all, as where the system
/// refuses a fence that sleeping needs, any number is as good. Chosen, not measured.
const ROUNDS_PER_YIELD: u32 = 16;

/// Whether the user wants the thread.
pub(crate) fn is_wanted() -> Result<bool> {
    match std::env::var_os(VARIABLE) {
        None => Ok(false),
        Some(value) if value == "calls" => Ok(false),
        Some(value) if value == "thread" => Ok(true),
        Some(value) => {
            let text = format!("{VARIABLE} is {value:?}, neither \"calls\" nor \"thread\"");
            Err(Error::new(abi::ERR_OTHER, text))
        }
    }
}

/// Starts the thread. The process is connected with the others, and the library's lock serializes its calls.
pub(crate) fn start() -> Result<()> {
    IS_ON.store(true, Relaxed);
    let started = thread::spawn_without_signals("mpi-progress", run);
    started.map(drop).map_err(|error| {
        IS_ON.store(false, Relaxed);
        let text = format!("the thread that makes progress cannot be started: {error}");
        Error::new(abi::ERR_OTHER, text)
    })
}

/// Ends the thread, when the process disconnects from the others.
pub(crate) fn end() {
    // It finds that the process is gone.
    if IS_ON.swap(false, Relaxed) {
        progress_thread::call(&PROGRESS_THREAD);
        interrupt();
    }
}

/// Sleeps until a call leaves an operation in progress, and a while longer, as the waiting policy has it.
fn sleep(calls: u64) {
    progress_thread::sleep(&PROGRESS_THREAD, calls);
    std::thread::sleep(PROGRESS_THREAD_DELAY);
}

/// The main loop of the thread, until the process disconnects from the others.
fn run() {
    thread::take_short_slices();
    let mut parked: Option<Parked> = None;
    let mut rounds_awake = 0;
    loop {
        let (calls, is_to_look) = progress_thread::begin_round(&PROGRESS_THREAD);
        if !is_to_look {
            sleep(calls);
            continue;
        }
        let next = with(|process, _| {
            progress_thread::look(&PROGRESS_THREAD);
            if let Some(parked) = parked.take() {
                process.finish_wait(parked);
            }
            process.progress();
            let has_work = progress_thread::end_round(&PROGRESS_THREAD, process.has_pending());
            if has_work {
                parked = prepare_sleep(process);
            }
            Ok(has_work)
        });
        match (next, &mut parked) {
            (Err(_), _) => return,
            (Ok(true), Some(sleep)) => {
                rounds_awake = 0;
                sleep.wait();
            }
            // There is something to poll for, or the system has refused what a sleep needs.
            (Ok(true), None) => {
                rounds_awake += 1;
                if rounds_awake >= ROUNDS_PER_YIELD {
                    rounds_awake = 0;
                    std::thread::yield_now();
                }
            }
            (Ok(false), _) => sleep(calls),
        }
    }
}
