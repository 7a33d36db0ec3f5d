//! The pointer that all processes of an open file share (MPI 5.0 §14.4.4): a word of memory, so that no process has to serve it, and
//! nothing is left behind by processes that are killed. It counts elementary types.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_engine::Memory;
use causeway_sys::memfd;

use crate::abi;
use crate::error::{Error, Result};

/// See the module's page.
#[derive(Debug, Clone)]
pub(crate) struct SharedPointer(Memory);

const BYTES: usize = 8;

fn failed(error: &io::Error) -> Error {
    let text = format!("the memory of the shared file pointer: {error}");
    Error::new(abi::ERR_OTHER, text)
}

impl SharedPointer {
    /// Makes one at zero, with the descriptor by which others of this host find it.
    pub(crate) fn make() -> Result<(Self, OwnedFd)> {
        let make = || {
            let file = memfd::create_fixed("causeway-file-pointer", BYTES)?;
            Ok((Self(Memory::map_import(&file, BYTES)?), file))
        };
        make().map_err(|error| failed(&error))
    }

    /// The numbers by which others find it.
    pub(crate) fn name(file: &OwnedFd) -> [i64; 2] {
        [std::process::id().into(), file.as_raw_fd().into()]
    }

    /// Finds one of another process.
    pub(crate) fn find([process, descriptor]: [i64; 2]) -> Result<Self> {
        let find = || {
            let path = PathBuf::from(format!("/proc/{process}/fd/{descriptor}"));
            let file = memfd::Foreign::find(&path)?.open(true)?;
            match memfd::checked_len(&file)? {
                len if len == BYTES as u64 => Memory::map_import(&file, BYTES),
                len => Err(io::Error::other(format!("it has {len} bytes"))),
            }
        };
        find().map(Self).map_err(|error| failed(&error))
    }

    fn word(&self) -> Result<&AtomicU64> {
        let word = self.0.word(0);
        word.ok_or_else(|| Error::new(abi::ERR_INTERN, "the shared file pointer is no word"))
    }

    /// Where it stands.
    pub(crate) fn get(&self) -> Result<u64> {
        Ok(self.word()?.load(Ordering::SeqCst))
    }

    /// Puts it somewhere.
    pub(crate) fn set(&self, value: u64) -> Result<()> {
        self.word()?.store(value, Ordering::SeqCst);
        Ok(())
    }

    /// Moves it on; returns where it stood.
    pub(crate) fn add(&self, many: u64) -> Result<u64> {
        Ok(self.word()?.fetch_add(many, Ordering::SeqCst))
    }
}
