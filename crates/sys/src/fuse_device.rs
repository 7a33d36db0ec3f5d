//! The kernel's FUSE device, for a thread that a killed process must not wait for.
//!
//! A thread that tells the kernel to drop a page waits in the kernel, where no signal ends it, until a request for that page is done. If its process is killed meanwhile, nobody is left to reply to the request; the kernel ends the
//! requests of a device when the last descriptor of it is closed. The table of open files closes with the last thread that shares it: so the thread that waits must have a table of its own, in which there is nothing but another device
//! of the same mount, one that has read no request.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc::sync_channel;

use rustix::io::fcntl_dupfd_cloexec;

/// The first descriptor that is no standard stream. What a thread prints there must not reach a device.
const FIRST: RawFd = 3;

/// Starts a thread with a table of open files of its own, in which there is nothing but another device of the same mount as `device`; `run` gets that. All other descriptors are closed for this thread, also the standard streams, as
/// somebody may wait for the end of what the process prints: `run` must neither use nor drop what owns any, as the number may be that of the device. Where the kernel gives
/// no such table, the thread has a copy of `device` in the process's. Returns when the thread has its device, or why it could not get one.
pub fn spawn_alone(
    name: &str,
    device: BorrowedFd<'_>,
    run: impl FnOnce(OwnedFd) + Send + 'static,
) -> io::Result<()> {
    let (number, (ready, told)) = (device.as_raw_fd(), sync_channel(1));
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        // SAFETY: `device` is open until this thread says that it has its own.
        let device = unsafe { BorrowedFd::borrow_raw(number) };
        // Before Linux 5.9, or in a sandbox, the thread shares the process's table: better a mount that may hang when it is killed than none.
        let own = own_table(device).or_else(|_| Ok(fcntl_dupfd_cloexec(device, FIRST)?));
        match own {
            Ok(own) => {
                let _ = ready.send(Ok(()));
                run(own);
            }
            // Nobody waits if the caller's thread has ended.
            Err(error) => drop(ready.send(Err(error))),
        }
    })?;
    told.recv().map_err(io::Error::other)?
}

fn own_table(device: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let kept = device.as_raw_fd();
    // Of the table, the kernel copies only what this call does not close.
    close(kept + 1, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    if kept > 0 {
        close(0, kept - 1, 0)?;
    }
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let same_mount = opened.and_then(|opened| {
        clone_into(opened.as_fd(), device)?;
        Ok(fcntl_dupfd_cloexec(opened, FIRST)?)
    });
    let own = match same_mount {
        Ok(own) => own,
        // A sandbox may keep the device out of reach: the thread uses the first one, then.
        Err(_) => fcntl_dupfd_cloexec(device, FIRST)?,
    };
    close(kept, kept, 0)?;
    Ok(own)
}

fn close(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    let [first, last] = [first, last].map(RawFd::unsigned_abs);
    // SAFETY: the call reads no memory. The table is this thread's own once the first such call has returned, and nothing in this thread uses what it closes, as the caller of `spawn_alone` promises. A system call, as the C library may be
    // older than its function of that name.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a device that was just opened one of the mount that `device` is of.
fn clone_into(opened: BorrowedFd<'_>, device: BorrowedFd<'_>) -> io::Result<()> {
    /// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
    const CLONE: libc::c_ulong = 0x8004_E500;
    let source: u32 = device.as_raw_fd().unsigned_abs();
    // SAFETY: the kernel reads four bytes at the address, which are there.
    match unsafe { libc::ioctl(opened.as_raw_fd(), CLONE, &raw const source) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_thread_closes_other_files_in_its_own_table_alone() {
        let (mut here, there) = std::io::pipe().expect("a pipe");
        let other = File::open("/dev/null").expect("the device exists");
        let numbers = [there.as_raw_fd(), other.as_raw_fd()];
        let (sender, open) = sync_channel(1);
        // A pipe is no device of a mount, so the thread gets it itself.
        let started = spawn_alone("alone", there.as_fd(), move |own| {
            let mut own = File::from(own);
            own.write_all(b"x").expect("the pipe is open");
            let listed = std::fs::read_dir("/proc/thread-self/fd").expect("the kernel's list");
            let listed: Vec<RawFd> = listed
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
                .collect();
            sender
                .send((own.as_raw_fd(), listed))
                .expect("it is awaited");
        });
        started.expect("a thread");
        let (own, listed) = open.recv().expect("the thread does not panic");
        // The list itself is open while it is read.
        let others = listed.iter().filter(|&&number| number != own);
        assert!(others.count() <= 1 && own >= FIRST, "{listed:?}");
        for number in numbers {
            assert!(std::fs::exists(format!("/proc/self/fd/{number}")).expect("it is asked"));
        }
        drop((there, other));
        let mut text = String::new();
        here.read_to_string(&mut text).expect("the pipe ends");
        assert_eq!(text, "x");
    }
}
