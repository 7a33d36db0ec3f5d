//! Shared pointers that a file's storage keeps: what becomes of operations when it fails, and where processes speak earlier formats. Programs
//! of this test's own, whose storage does what the test says.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use causeway_engine::Memory;
use causeway_mpi::abi;
use causeway_mpi::buffer::OwnedBuffer;
use causeway_mpi::datatype::Basic;
use causeway_mpi::error::Result;
use causeway_mpi::info::Info;
use causeway_mpi::io::access::{FilePosition, IoAccess, access};
use causeway_mpi::io::storage::{FileSystem, Opening, Storage};
use causeway_mpi::io::view::{Representation, View};
use causeway_mpi::io::{opening, setting};
use causeway_mpi::process::Process;

use crate::double::Double;
use crate::opening::{DONE, Rank, run_ranks};

/// The variable by which a process knows that it is a rank of the program: whether a storage keeps the pointer.
const PROGRAM: &str = "CAUSEWAY_TEST_POINTERS";
const STORED: &str = "stored";
const SHARED: &str = "shared";

/// The only file of a file system.
#[derive(Debug)]
struct OneFile(Arc<Double>);

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

/// Writes in order, and sets views, where the pointer fails in between. Behind each a collective operation of the program is as it would be
/// without it.
fn program(is_stored: bool) -> Result<()> {
    let mut process = Process::start()?;
    let file = Arc::new(Double::noting());
    let notes = file.notes().expect("it keeps some");
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
        &Ok(info),
        handler,
    )?;
    check(&mut it);
    // Rank 0 writes one byte, rank 1 two.
    let write = |it: &mut Rank, place| {
        let what = IoAccess {
            writes: true,
            place,
            together: place == FilePosition::Ordered,
        };
        let bytes = OwnedBuffer::bytes(Memory::from_vec(vec![1; rank as usize + 1]));
        access(it, opened, what, &Ok(bytes))
    };
    let view_from = |displacement| {
        let byte = || Basic::Byte.into();
        View::new(displacement, byte(), byte(), Representation::Native, true)
    };
    let total = size * (size + 1) / 2;
    let before = rank * (rank + 1) / 2;
    for round in 0..3 {
        write(&mut it, FilePosition::Ordered)?;
        let expected = [(round * total + before, rank + 1)];
        assert_eq!(notes.take_written(), expected, "round {round}");
        check(&mut it);
    }
    write(&mut it, FilePosition::Pointer)?;
    assert_eq!(notes.take_written(), [(0, rank + 1)]);
    if is_stored {
        notes.fails.store(true, Ordering::SeqCst);
        let error = write(&mut it, FilePosition::Ordered).expect_err("the pointer fails");
        assert_eq!(error.code(), abi::ERR_IO, "{}", error.text());
        check(&mut it);
        let error = setting::set_view(&mut it, opened, view_from(1000)).expect_err("it fails");
        assert_eq!(error.code(), abi::ERR_IO, "{}", error.text());
        check(&mut it);
        notes.fails.store(false, Ordering::SeqCst);
        // View and pointers are unchanged.
        write(&mut it, FilePosition::Pointer)?;
        assert_eq!(notes.take_written(), [(rank + 1, rank + 1)]);
        write(&mut it, FilePosition::Ordered)?;
        assert_eq!(notes.take_written(), [(3 * total + before, rank + 1)]);
        check(&mut it);
    }
    setting::set_view(&mut it, opened, view_from(2000))?;
    write(&mut it, FilePosition::Ordered)?;
    assert_eq!(notes.take_written(), [(2000 + before, rank + 1)]);
    write(&mut it, FilePosition::Pointer)?;
    assert_eq!(notes.take_written(), [(2000, rank + 1)]);
    opening::close(&mut it, opened)?;
    check(&mut it);
    let steps = notes.steps.load(Ordering::SeqCst);
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
