//! Binding the calling thread to processors, moving it, and giving way to other threads.

use std::io;

use rustix::process::getpid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Lets the calling thread run on processor `cpu` only.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    pin_to_cpus(&[cpu])
}

/// Lets the calling thread, and processes that it starts from now on, run on these processors only.
pub fn pin_to_cpus(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no processor of that number",
            ));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The processors that the calling thread may run on, in order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// How many processors the threads of programs like this one have among them: those that the calling thread may run on, or all of the host's
/// that are online if it is bound to one.
pub fn processors() -> io::Result<usize> {
    let allowed = allowed_cpus()?.len();
    if allowed > 1 {
        return Ok(allowed);
    }
    // SAFETY: a plain call.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).map_err(|_| io::Error::last_os_error())
}

/// The processor that the calling thread runs on now.
pub fn current_cpu() -> usize {
    sched_getcpu()
}

/// Whether the calling thread is the one that the process began with.
pub fn is_first_thread() -> bool {
    gettid() == getpid()
}

/// Moves the calling thread to processor `cpu`. It may run on the same processors as before afterwards, and stays there unless the
/// kernel has a reason to move it.
///
/// # Errors
/// If the thread may not run there, or the system refuses.
pub fn move_to_cpu(cpu: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    if cpu >= CpuSet::MAX_CPU || !allowed.is_set(cpu) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the thread may not run on this processor",
        ));
    }
    let mut there = CpuSet::new();
    there.set(cpu);
    sched_setaffinity(None, &there)?;
    Ok(sched_setaffinity(None, &allowed)?)
}

/// Keeps the calling thread on its processor until this is dropped: a kernel that wakes a thread may move it to the processor of the
/// thread that wakes it, mostly where idle virtual processors count as stopped.
#[derive(Debug)]
pub struct Stay {
    /// Where the thread may run meanwhile.
    here: CpuSet,
    /// Where it may run afterwards.
    allowed: CpuSet,
}

impl Stay {
    /// `None` if the thread may run on one processor alone, or the system refuses.
    pub fn here() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        let may_move = allowed.count() > 1;
        let is_set = may_move && sched_setaffinity(None, &here).is_ok();
        is_set.then_some(Self { here, allowed })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // A user may have given it other processors meanwhile (`taskset -p`), and these are its processors then.
        if sched_getaffinity(None).is_ok_and(|now| now == self.here) {
            // It fails if none of them is left: then the kernel has chosen others already.
            let _ = sched_setaffinity(None, &self.allowed);
        }
    }
}

/// Lets the calling thread run only while nothing else wants its processor (`SCHED_IDLE`, `sched(7)`).
pub fn give_way_to_all() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: a plain call; the kernel only reads the parameters.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_one_processor() {
        std::thread::spawn(|| {
            let last = *allowed_cpus().unwrap().last().unwrap();
            let all = processors().unwrap();
            pin_to_cpu(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
            assert!(pin_to_cpu(CpuSet::MAX_CPU).is_err());
            assert_eq!(current_cpu(), last);
            assert_eq!(processors().unwrap(), all);
            assert!(!is_first_thread());
            give_way_to_all().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_moves_may_run_where_it_could_before() {
        std::thread::spawn(|| {
            let before = allowed_cpus().unwrap();
            for &cpu in &before {
                move_to_cpu(cpu).unwrap();
                assert_eq!(allowed_cpus().unwrap(), before);
            }
            let stay = Stay::here();
            assert_eq!(allowed_cpus().unwrap().len(), 1);
            assert_eq!(stay.is_some(), before.len() > 1);
            drop(stay);
            assert_eq!(allowed_cpus().unwrap(), before);
            let stay = Stay::here();
            let here = allowed_cpus().unwrap()[0];
            if let Some(given) = before.iter().find(|cpu| **cpu != here) {
                pin_to_cpu(*given).unwrap();
                drop(stay);
                assert_eq!(
                    allowed_cpus().unwrap(),
                    [*given],
                    "it was given that one meanwhile"
                );
            }
            pin_to_cpu(before[0]).unwrap();
            assert!(Stay::here().is_none());
            move_to_cpu(before[0]).unwrap();
            let other = before.last().filter(|cpu| **cpu != before[0]);
            for cpu in other.into_iter().chain(&[CpuSet::MAX_CPU]) {
                assert!(move_to_cpu(*cpu).is_err());
            }
            assert_eq!(allowed_cpus().unwrap(), before[..1]);
        })
        .join()
        .unwrap();
    }
}
