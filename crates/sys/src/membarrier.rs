//! Fences whose whole cost is on the side that seldom needs one.
//!
//! Two sides that each write one word and then read the other's must not both miss the other's
//! write; normally both pay for a full fence between their write and their read. With
//! `membarrier`, the rare side runs [`heavy`], which makes every running thread of every registered
//! process pass a full fence, and the frequent side only keeps the compiler from reordering.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Registers this process to take part. Returns whether the kernel lets it. Both processes of a pair
/// must be registered before either leaves its fences out.
pub fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// A full fence, as `fence(SeqCst)`, by the instruction that does it fastest: on x86-64 any locked one, in half the time of `mfence`,
/// which orders more than loads and stores of ordinary memory.
#[inline]
pub fn full() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the word on the stack is valid, and stays as it is.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(not(target_arch = "x86_64"))]
    fence(Ordering::SeqCst);
}

/// The rare side's fence: a full fence for this thread in any case. Returns whether every running thread of every registered process
/// has passed one, too. If not, the other side may have missed what this one wrote before: the caller must not wait for a wake-up by a
/// side that uses [`light`] with `asymmetric`, or not for long.
#[must_use]
pub fn heavy() -> bool {
    fence(Ordering::SeqCst);
    // Where this process is not registered, the other sides have fences of their own.
    !register() || all_pass_a_fence()
}

/// The registration holds as long as the program runs, also in its forked children. After it the kernel refuses the first command only
/// where it has no memory for a list of processors, and then has the second, which takes some milliseconds and needs no list. Both
/// fail where a filter of system calls was installed after the registration.
fn all_pass_a_fence() -> bool {
    let commands = [
        MembarrierCommand::GlobalExpedited,
        MembarrierCommand::Global,
    ];
    commands
        .into_iter()
        .any(|command| membarrier(command).is_ok())
}

/// The frequent side's fence: nothing for the processor if the other side uses [`heavy`] and both are
/// registered (`asymmetric`), a full fence otherwise.
#[inline]
pub fn light(asymmetric: bool) {
    if asymmetric {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Has a filter forbid this thread the system call from now on, as long as it runs.
    pub(crate) fn forbid() {
        let step = |code: u32, if_not: u8, k: u32| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: if_not,
            k,
        };
        let returns = libc::BPF_RET | libc::BPF_K;
        let mut steps = [
            // The number of the system call is the first field of what a filter sees.
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                1,
                libc::SYS_membarrier as u32,
            ),
            step(returns, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(returns, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: both change this thread alone; the program's steps are as many as it says, and the kernel copies them.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) == 0
        };
        assert!(installed, "{}", std::io::Error::last_os_error());
    }

    #[test]
    fn a_fence_that_is_forbidden_is_reported() {
        if !register() {
            return;
        }
        assert!(heavy());
        let forbidden = std::thread::spawn(|| {
            forbid();
            heavy()
        });
        assert!(!forbidden.join().unwrap());
    }
}
