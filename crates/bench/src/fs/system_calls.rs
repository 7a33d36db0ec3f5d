//! One process of `causeway bench fs` that uses directories as any program does, by system calls: of a mount, and of what it is compared
//! with.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::workers::Channel;
use causeway_wire::random;
use rustix::fs::Advice;
use serde::{Deserialize, Serialize};

use super::content::{Content, PAGE};
use super::work::{Work, work};

/// Bytes of a write or read of a large file.
const BLOCK_BYTES: usize = 1 << 20;

/// This process's number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) number: usize,
}

/// What a process can be told to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Makes a directory, and in it empty files: opens each with `O_EXCL` and closes it.
    Create { directory: PathBuf, count: u64 },
    /// Asks for the attributes of these files.
    Stat { directory: PathBuf, count: u64 },
    /// Removes these files. The directory goes at the next order.
    Unlink { directory: PathBuf, count: u64 },
    /// Makes a file and writes it in blocks, then closes it.
    Write { path: PathBuf, size: u64 },
    /// Reads the file in blocks, and not from the kernel's cache as far as that can be emptied.
    Read { path: PathBuf, size: u64 },
    /// Reads pages of the file at random, all of which was read before.
    ReadAnywhere {
        path: PathBuf,
        size: u64,
        count: u64,
    },
    /// Compares the file with what was written, and removes it.
    Compare { path: PathBuf, size: u64 },
}

struct Program {
    number: usize,
    block: Vec<u8>,
    /// The file of the order that is carried out next.
    file: Option<File>,
}

/// Runs such a process until the command closes its input.
pub(crate) fn run(assignment: &Assignment, channel: &mut Channel) -> Outcome {
    let mut program = Program {
        number: assignment.number,
        block: vec![0; BLOCK_BYTES],
        file: None,
    };
    work(&mut program, channel)
}

impl Work for Program {
    type Order = Order;

    fn prepare(&mut self, order: &Order) -> Outcome {
        match order {
            Order::Create { directory, .. } => {
                std::fs::create_dir(directory).doing(|| making(directory))?;
            }
            Order::Write { .. } => Content::fill(0, &mut self.block),
            Order::Read { path, .. } => {
                let file = File::open(path).doing(|| opening(path))?;
                // File systems in memory keep what they have.
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).doing(|| opening(path))?;
                self.file = Some(file);
            }
            Order::ReadAnywhere { path, size, .. } => {
                self.file = Some(File::open(path).doing(|| opening(path))?);
                self.each_block(path, *size, |_, _| Ok(()))?;
            }
            Order::Compare { path, .. } => {
                self.file = Some(File::open(path).doing(|| opening(path))?);
            }
            Order::Stat { .. } | Order::Unlink { .. } => {}
        }
        Ok(())
    }

    fn carry_out(&mut self, order: Order) -> Outcome<u64> {
        match order {
            Order::Create { directory, count } => self.each_name(&directory, count, |path| {
                let made = OpenOptions::new().write(true).create_new(true).open(path);
                made.map(drop)
            }),
            Order::Stat { directory, count } => {
                self.each_name(&directory, count, |path| path.symlink_metadata().map(drop))
            }
            Order::Unlink { directory, count } => {
                self.each_name(&directory, count, |path| std::fs::remove_file(path))
            }
            Order::Write { path, size } => self.write(&path, size),
            Order::Read { path, size } => self.each_block(&path, size, |_, _| Ok(())),
            Order::ReadAnywhere { path, size, count } => self.read_anywhere(&path, size, count),
            Order::Compare { path, size } => {
                let compared =
                    self.each_block(
                        &path,
                        size,
                        |offset, block| match Content::first_difference(offset, block) {
                            None => Ok(()),
                            Some(at) => Err(differs(&path, at)),
                        },
                    );
                self.file = None;
                std::fs::remove_file(&path).doing(|| format!("removing {}", path.display()))?;
                compared
            }
        }
    }
}

fn making(path: &Path) -> String {
    format!("making {}", path.display())
}

fn opening(path: &Path) -> String {
    format!("opening {}", path.display())
}

fn differs(path: &Path, at: u64) -> Failure {
    let what = format!("comparing {}", path.display());
    Failure::new(what, format!("byte {at} is not what was written"))
}

impl Program {
    fn each_name(
        &self,
        directory: &Path,
        count: u64,
        mut call: impl FnMut(&Path) -> std::io::Result<()>,
    ) -> Outcome<u64> {
        for index in 0..count {
            let path = directory.join(format!("f{}-{index:07}", self.number));
            call(&path).doing(|| format!("using {}", path.display()))?;
        }
        Ok(count)
    }

    fn write(&mut self, path: &Path, size: u64) -> Outcome<u64> {
        let doing = || format!("writing {}", path.display());
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .open(path)
            .doing(doing)?;
        let mut offset = 0;
        let mut operations = 0;
        while offset < size {
            let len = block_len(size - offset);
            for (at, stamp) in Content::stamps(offset, len) {
                if let Some(place) = self.block.get_mut(at..at + stamp.len()) {
                    place.copy_from_slice(&stamp);
                }
            }
            let bytes = self.block.get(..len).unwrap_or_default();
            file.write_all_at(bytes, offset).doing(doing)?;
            offset += len as u64;
            operations += 1;
        }
        Ok(operations)
    }

    /// Reads the open file block by block.
    fn each_block(
        &mut self,
        path: &Path,
        size: u64,
        mut call: impl FnMut(u64, &[u8]) -> Outcome,
    ) -> Outcome<u64> {
        let doing = || format!("reading {}", path.display());
        let file = self
            .file
            .as_ref()
            .ok_or("it has not been opened")
            .doing(doing)?;
        let mut offset = 0;
        let mut operations = 0;
        while offset < size {
            let bytes = self
                .block
                .get_mut(..block_len(size - offset))
                .unwrap_or_default();
            file.read_exact_at(bytes, offset).doing(doing)?;
            call(offset, bytes)?;
            offset += bytes.len() as u64;
            operations += 1;
        }
        Ok(operations)
    }

    fn read_anywhere(&mut self, path: &Path, size: u64, count: u64) -> Outcome<u64> {
        let doing = || format!("reading {}", path.display());
        let file = self
            .file
            .take()
            .ok_or("it has not been opened")
            .doing(doing)?;
        let pages = (size / PAGE as u64).max(1);
        let mut page = [0; PAGE];
        for index in 0..count {
            let offset = random::nth(self.number as u64, index) % pages * PAGE as u64;
            file.read_exact_at(&mut page, offset).doing(doing)?;
            let stamped = Content::stamps(offset, PAGE)
                .all(|(at, stamp)| page.get(at..at + stamp.len()) == Some(&stamp));
            if !stamped {
                return Err(differs(path, offset));
            }
        }
        Ok(count)
    }
}

fn block_len(left: u64) -> usize {
    usize::try_from(left)
        .unwrap_or(BLOCK_BYTES)
        .min(BLOCK_BYTES)
}
