//! Which requests for locks come from `flock`.
//!
//! `fuser` decodes the kernel's requests for locks, but does not pass on their flags, one of which distinguishes `flock` from
//! `fcntl`: without it, a program that uses both on a file would wait for itself. The header that `fuser` passes on lies where the kernel has
//! written the whole request. That part of this process's memory is read through `/proc/self/mem`, and compared with all fields that
//! `fuser` has passed on. If a later `fuser` keeps requests in another way, the comparison fails with an error: it never yields a wrong flag.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use fuser::Request;

use crate::locks::KernelLock;

/// Bytes of a request's header, as the kernel lays it out: length and operation (4 each), number and file (8 each), user, group, process
/// and padding (4 each).
const HEADER: usize = 40;
/// Bytes of a request's body: handle, owner, first and last byte (8 each), kind, process, flags and padding (4 each).
const BODY: usize = 48;
/// Offset of the flags.
const FLAGS: usize = HEADER + 40;
/// The flag of `flock`.
const FUSE_LK_FLOCK: u32 = 1;

/// The memory of this process.
pub(crate) struct LockFlags {
    memory: File,
}

impl LockFlags {
    /// Fails if there is no `/proc`.
    pub(crate) fn open() -> io::Result<Self> {
        let memory = File::open("/proc/self/mem")?;
        Ok(Self { memory })
    }

    /// Whether a request for a lock comes from `flock`. `request` is `fuser`'s form of it, behind which the kernel's form is kept.
    pub(crate) fn is_flock(&self, request: &Request, lock: &KernelLock) -> io::Result<bool> {
        let fields = RequestFields {
            number: request.unique().0,
            user: [request.uid(), request.gid(), request.pid()],
            lock: *lock,
        };
        let mut bytes = [0; HEADER + BODY];
        let place = std::ptr::from_ref(request).addr();
        self.memory.read_exact_at(&mut bytes, place as u64)?;
        fields.is_flock(&bytes)
    }
}

/// The fields of a request that `fuser` passes on.
struct RequestFields {
    number: u64,
    user: [u32; 3],
    lock: KernelLock,
}

impl RequestFields {
    /// The bytes that the request must have, apart from length, operation and flags.
    fn expected(&self) -> [u8; HEADER + BODY] {
        let lock = &self.lock;
        let mut bytes = [0; HEADER + BODY];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(8, &self.number.to_ne_bytes());
        put(16, &lock.object.0.to_ne_bytes());
        for (place, value) in self.user.iter().enumerate() {
            put(24 + 4 * place, &value.to_ne_bytes());
        }
        let longs = [lock.handle, lock.owner, lock.first, lock.last];
        for (place, value) in longs.iter().enumerate() {
            put(HEADER + 8 * place, &value.to_ne_bytes());
        }
        put(HEADER + 32, &lock.kind.to_ne_bytes());
        put(HEADER + 36, &lock.pid.to_ne_bytes());
        bytes
    }

    fn is_flock(&self, request: &[u8; HEADER + BODY]) -> io::Result<bool> {
        let expected = self.expected();
        for part in [8..36, HEADER..FLAGS] {
            if request[part.clone()] != expected[part] {
                return Err(io::Error::other(
                    "the kernel's request is not where it was expected: this build does not fit its version of fuser",
                ));
            }
        }
        let mut flags = [0; 4];
        flags.copy_from_slice(&request[FLAGS..FLAGS + 4]);
        Ok(u32::from_ne_bytes(flags) & FUSE_LK_FLOCK != 0)
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::fs::{LockFamily, ObjectId};

    use super::*;

    #[test]
    fn flags_count_only_behind_the_request_that_is_known() {
        let fields = RequestFields {
            number: 77,
            user: [1, 2, 3],
            lock: KernelLock {
                object: ObjectId(5),
                family: LockFamily::Record,
                owner: 6,
                handle: 7,
                first: 8,
                last: 9,
                kind: 1,
                pid: 10,
            },
        };
        let mut request = fields.expected();
        assert!(!fields.is_flock(&request).unwrap());
        // Another flag than that of `flock`.
        request[FLAGS] = 2;
        assert!(!fields.is_flock(&request).unwrap());
        request[FLAGS] = 3;
        assert!(fields.is_flock(&request).unwrap());
        // Length and operation are not compared, all other fields are.
        request[0] = 88;
        assert!(fields.is_flock(&request).unwrap());
        for at in (8..36).chain(HEADER..FLAGS) {
            request[at] ^= 1;
            assert!(fields.is_flock(&request).is_err(), "{at}");
            request[at] ^= 1;
        }
    }
}
