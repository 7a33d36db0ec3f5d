//! Shared pointers that a file's storage keeps: what becomes of operations when it fails, and where processes speak earlier formats. Programs
//! of this test's own, whose storage does what the test says.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_engine::Memory;
use causeway_mpi::abi;
use causeway_mpi::buffer::OwnedBuffer;
use causeway_mpi::datatype::Basic;
use causeway_mpi::error::Result;
use causeway_mpi::info::Info;
use causeway_mpi::io::access::{Place, What, access};
use causeway_mpi::io::storage::{Atomic, Extent, FileSystem, Opening, PointerStep, Storage};
use causeway_mpi::io::view::{Representation, View};
use causeway_mpi::io::{opening, setting};
use causeway_mpi::process::Process;

use crate::opening::{DONE, Rank, run_ranks};

/// The variable by which a process knows that it is a rank of the program: whether a storage keeps the pointer.
const PROGRAM: &str = "CAUSEWAY_TEST_POINTERS";
const STORED: &str = "stored";
const SHARED: &str = "shared";

/// A file that notes what is written to it, and keeps a pointer: in this process, as the first process alone moves it.
#[derive(Debug, Default)]
struct Noted {
    written: Mutex<Vec<(u64, u64)>>,
    at: AtomicU64,
    /// Steps of the pointer.
    steps: AtomicU64,
    /// The pointer cannot be moved now.
    fails: AtomicBool,
}

impl Noted {
    /// What was written since the last call: offsets and lengths.
    fn take_written(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The only file of a file system.
#[derive(Debug)]
struct OneFile(Arc<Noted>);

impl FileSystem for OneFile {
    fn prefix(&self) -> &'static str {
        "noted:"
    }

    fn open(&self, _name: &Path, _how: Opening, _hints: &Info) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::clone(&self.0) as Arc<dyn Storage>)
    }

    fn join(
        &self,
        name: &Path,
        how: Opening,
        hints: &Info,
        _told: &[u8],
    ) -> io::Result<Arc<dyn Storage>> {
        self.open(name, how, hints)
    }

    fn remove(&self, _name: &Path, _hints: &Info) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for Noted {
    fn read(&self, _extents: &[Extent], _into: &[Memory]) -> io::Result<u64> {
        Ok(0)
    }

    fn write(&self, extents: &[Extent], _from: &[Memory]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend(extents.iter().map(|extent| (extent.offset, extent.len)));
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn resize(&self, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn small_piece(&self, _writes: bool) -> u64 {
        0
    }

    fn least_fragment(&self) -> u64 {
        1
    }

    fn extents_at_a_time(&self) -> usize {
        1
    }

    fn told(&self) -> Vec<u8> {
        Vec::new()
    }

    fn learn(&self, _told: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn hints(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn has_locks(&self) -> bool {
        false
    }

    fn move_pointer(&self, _number: u64, step: PointerStep) -> io::Result<u64> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the server is away"));
        }
        Ok(match step {
            PointerStep::Put(at) => {
                self.at.store(at, Ordering::SeqCst);
                at
            }
            PointerStep::Add(many) => self.at.fetch_add(many, Ordering::SeqCst),
            PointerStep::Get | PointerStep::End => self.at.load(Ordering::SeqCst),
        })
    }

    fn check_atomic(&self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn atomic(&self, _writes: bool) -> io::Result<Box<dyn Atomic + '_>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// Writes in order, and sets views, where the pointer fails in between. Behind each a collective operation of the program is as it would be
/// without it.
fn program(is_stored: bool) -> Result<()> {
    let mut process = Process::start()?;
    let file = Arc::new(Noted::default());
    process.add_file_system(Arc::new(OneFile(Arc::clone(&file))));
    let world = process.communicator(abi::COMM_WORLD)?;
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let mut it = Rank(process);
    let mut calls = 0;
    let mut check = |it: &mut Rank| {
        calls += 1;
        let expected = Vec::from_iter((0..size as i64).map(|rank| rank + calls * 1000));
        assert_eq!(it.gather(rank as i64 + calls * 1000), expected);
    };
    let name = Path::new("noted:file");
    let (info, handler) = (Info::default(), abi::ERRORS_RETURN);
    let opened = opening::open(
        &mut it,
        abi::COMM_WORLD,
        name,
        abi::MODE_RDWR,
        &info,
        handler,
    )?;
    check(&mut it);
    // Rank 0 writes one byte, rank 1 two.
    let write = |it: &mut Rank, place| {
        let what = What {
            writes: true,
            place,
            together: place == Place::Ordered,
        };
        let bytes = OwnedBuffer::bytes(Memory::from_vec(vec![1; rank as usize + 1]));
        access(it, opened, what, &bytes)
    };
    let view_from = |displacement| {
        let byte = || Basic::Byte.into();
        View::new(displacement, byte(), byte(), Representation::Native, true)
    };
    let total = size * (size + 1) / 2;
    let before = rank * (rank + 1) / 2;
    for round in 0..3 {
        write(&mut it, Place::Ordered)?;
        let expected = [(round * total + before, rank + 1)];
        assert_eq!(file.take_written(), expected, "round {round}");
        check(&mut it);
    }
    write(&mut it, Place::Pointer)?;
    assert_eq!(file.take_written(), [(0, rank + 1)]);
    if is_stored {
        file.fails.store(true, Ordering::SeqCst);
        let error = write(&mut it, Place::Ordered).expect_err("the pointer fails");
        assert_eq!(error.code(), abi::ERR_IO, "{}", error.text());
        check(&mut it);
        let error = setting::set_view(&mut it, opened, view_from(1000)).expect_err("it fails");
        assert_eq!(error.code(), abi::ERR_IO, "{}", error.text());
        check(&mut it);
        file.fails.store(false, Ordering::SeqCst);
        // View and pointers are those of before.
        write(&mut it, Place::Pointer)?;
        assert_eq!(file.take_written(), [(rank + 1, rank + 1)]);
        write(&mut it, Place::Ordered)?;
        assert_eq!(file.take_written(), [(3 * total + before, rank + 1)]);
        check(&mut it);
    }
    setting::set_view(&mut it, opened, view_from(2000))?;
    write(&mut it, Place::Ordered)?;
    assert_eq!(file.take_written(), [(2000 + before, rank + 1)]);
    write(&mut it, Place::Pointer)?;
    assert_eq!(file.take_written(), [(2000, rank + 1)]);
    opening::close(&mut it, opened)?;
    check(&mut it);
    let steps = file.steps.load(Ordering::SeqCst);
    assert_eq!(steps != 0, is_stored && rank == 0, "{steps} steps");
    it.0.finish()
}

/// The test that each rank of the program runs, and only a rank.
#[test]
fn is_the_program_that_moves_pointers() {
    if let Ok(kind) = std::env::var(PROGRAM) {
        program(kind == STORED).unwrap_or_else(|error| panic!("{}", error.text()));
        println!("{DONE}");
    }
}

/// By tcp alone each rank is on a host of its own, as far as it can tell; here all can still map the memory of a pointer, which those of earlier
/// formats look for.
fn run(processes: u32, formats: &str, methods: &str, kind: &str) {
    let test = "pointers::is_the_program_that_moves_pointers";
    let environment = [(PROGRAM, kind), ("CAUSEWAY_MPI_METHODS", methods)];
    run_ranks((processes, formats), test, &environment);
}

#[test]
fn a_pointer_that_fails_on_the_first_process_fails_on_all_and_changes_nothing() {
    for processes in [2, 4] {
        run(processes, "", "tcp", STORED);
    }
}

#[test]
fn with_a_process_of_an_earlier_format_no_storage_keeps_a_pointer() {
    for formats in ["1-4", "1-3", "2-2"] {
        run(3, formats, "tcp", SHARED);
    }
}

#[test]
fn processes_of_one_host_share_the_memory_of_a_pointer_in_all_formats() {
    for formats in ["", "1-4"] {
        run(3, formats, "shm,tcp", SHARED);
    }
}
