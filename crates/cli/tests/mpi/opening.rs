//! Opening files together where single processes fail, where the description of a file is long, and where processes speak different
//! formats: programs of this test's own, whose storage does what the test says.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use causeway_engine::Memory;
use causeway_mpi::abi;
use causeway_mpi::buffer::{Buffer, OwnedBuffer};
use causeway_mpi::caller::Caller;
use causeway_mpi::collective::Blocks;
use causeway_mpi::error::Result;
use causeway_mpi::info::Info;
use causeway_mpi::io::opening;
use causeway_mpi::io::posix::PosixFiles;
use causeway_mpi::io::storage::{FileSystem, Opening, Storage};
use causeway_mpi::process::{Active, Process, Waited};
use causeway_mpi::status::Status;

use crate::double::Double;

/// The variable by which a process knows that it is a rank of the program: the formats that rank 1 speaks, or nothing if those are all.
const PROGRAM: &str = "CAUSEWAY_TEST_OPENING";
/// What each rank that has done everything prints.
pub(crate) const DONE: &str = "all files are as expected";

/// Lengths of descriptions: 464 bytes go with the numbers of the first process, more by themselves.
const LENGTHS: [usize; 7] = [0, 1, 463, 464, 465, 5000, 300_000];

/// Lengths of broadcasts that are short and long ones for the choice of how they are sent.
const LONG: [usize; 3] = [(256 << 10) - 1, 256 << 10, 600_000];

/// A rank of a test's own program.
pub(crate) struct Rank(pub(crate) Process);

impl Caller for Rank {
    fn name(&self) -> &'static str {
        "MPI_File_open"
    }

    fn with<R>(&mut self, step: impl FnOnce(&mut Process) -> Result<R>) -> Result<R> {
        step(&mut self.0)
    }

    fn wait(&mut self, mut active: Active) -> Result<Status> {
        loop {
            if let Waited::Done(status) = self.0.wait(&mut active)? {
                return Ok(status);
            }
        }
    }
}

impl Rank {
    /// A collective operation of the program on all its processes: each sends a number.
    pub(crate) fn gather(&mut self, number: i64) -> Vec<i64> {
        let bytes = |value: i64| OwnedBuffer::bytes(Memory::from_vec(value.to_ne_bytes().into()));
        let size = self
            .0
            .communicator(abi::COMM_WORLD)
            .expect("it is there")
            .size();
        let memory = Memory::try_zeroed(size as usize * 8).expect("memory");
        let into = Blocks::Even {
            memory: memory.clone(),
            blocks: size,
            datatype: None,
        };
        let from = Blocks::Each(vec![bytes(number)]);
        let steps = self.0.allgather(Some(&from), &into, abi::COMM_WORLD);
        let active = self.0.begin(steps.expect("steps")).expect("it begins");
        self.wait(active).expect("all take part");
        let all = memory.to_vec();
        let (words, []) = all.as_chunks() else {
            panic!("no whole numbers");
        };
        words.iter().map(|word| i64::from_ne_bytes(*word)).collect()
    }

    /// A broadcast of the program from one of its processes to all: its bytes depend on that process.
    pub(crate) fn broadcast(&mut self, root: u32, len: usize) {
        let world = self.0.communicator(abi::COMM_WORLD).expect("it is there");
        let expected = Vec::from_iter((0..len).map(|at| byte(at + root as usize)));
        let memory = match world.rank() == root {
            true => Memory::from_vec(expected.clone()),
            false => Memory::try_zeroed(len).expect("memory"),
        };
        let bytes = OwnedBuffer::bytes(memory.clone());
        let buffer = Buffer {
            memory: &bytes.memory,
            count: bytes.count,
            datatype: &bytes.datatype,
        };
        let steps = self.0.broadcast(buffer, root as i32, abi::COMM_WORLD);
        let active = self.0.begin(steps.expect("steps")).expect("it begins");
        self.wait(active).expect("all take part");
        assert!(memory.to_vec() == expected, "{len} bytes from {root}");
    }
}

/// The byte of a description.
fn byte(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

/// Files whose names say what happens: `test:LENGTH:RANK`, where the process with that rank fails to open it.
#[derive(Debug)]
struct Scripted {
    rank: u32,
}

/// The length of the description, and whether this process fails.
fn script(name: &Path, rank: u32) -> (usize, bool) {
    let name = name.to_str().expect("text");
    let mut words = name.split(':').skip(1);
    let mut next = || words.next().and_then(|word| word.parse::<usize>().ok());
    let len = next().expect("a length");
    (len, next().is_some_and(|failing| failing == rank as usize))
}

impl FileSystem for Scripted {
    fn prefix(&self) -> &'static str {
        "test:"
    }

    fn open(&self, name: &Path, _how: Opening, _hints: &Info) -> io::Result<Arc<dyn Storage>> {
        match script(name, self.rank) {
            (_, true) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            (len, false) => Ok(Arc::new(Double::described((0..len).map(byte).collect()))),
        }
    }

    fn join(
        &self,
        name: &Path,
        _how: Opening,
        _hints: &Info,
        told: &[u8],
    ) -> io::Result<Arc<dyn Storage>> {
        let (len, fails) = script(name, self.rank);
        let expected: Vec<u8> = (0..len).map(byte).collect();
        assert!(told == expected, "{} bytes of {len}", told.len());
        match fails {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(Arc::new(Double::described(expected))),
        }
    }

    fn remove(&self, _name: &Path, _hints: &Info) -> io::Result<()> {
        Ok(())
    }
}

/// Opens files of all lengths with all processes, of which none or one fails, and a file with a mode that is not the same everywhere. Behind
/// each a collective operation of the program is as it would be without it.
fn program() -> Result<()> {
    let mut process = Process::start()?;
    process.add_file_system(Arc::new(PosixFiles));
    let world = process.communicator(abi::COMM_WORLD)?;
    let (rank, size) = (world.rank(), world.size());
    process.add_file_system(Arc::new(Scripted { rank }));
    let mut rank_of_it = Rank(process);
    let open = |it: &mut Rank, name: &str, mode: i32| {
        let name = Path::new(name);
        opening::open(
            it,
            abi::COMM_WORLD,
            name,
            mode,
            &Ok(Info::default()),
            abi::ERRORS_RETURN,
        )
    };
    // One of the processes speaks the first format alone.
    let knows_no_files = std::env::var(PROGRAM).is_ok_and(|formats| formats == "1-1");
    // The root sends long ones to each process, unless one of them speaks an earlier format.
    for (root, len) in (0..size).flat_map(|root| LONG.map(|len| (root, len))) {
        rank_of_it.broadcast(root, len);
    }
    let mut calls = 0;
    let mut check = |it: &mut Rank| {
        calls += 1;
        let expected = Vec::from_iter((0..i64::from(size)).map(|rank| rank + calls * 1000));
        assert_eq!(it.gather(i64::from(rank) + calls * 1000), expected);
    };
    for len in LENGTHS {
        for failing in 0..=size {
            let name = format!("test:{len}:{failing}");
            let opened = open(&mut rank_of_it, &name, abi::MODE_RDWR);
            let class = match failing == size {
                _ if knows_no_files => Some(abi::ERR_OTHER),
                true => None,
                false => Some(abi::ERR_NO_SPACE),
            };
            match class {
                None => {
                    let file = opened?;
                    opening::close(&mut rank_of_it, file)?;
                }
                Some(class) => {
                    let error = opened.expect_err("one has failed");
                    assert_eq!(error.code(), class, "{}", error.text());
                }
            }
            check(&mut rank_of_it);
        }
        let mode = match rank == size - 1 {
            true => abi::MODE_RDONLY,
            false => abi::MODE_RDWR,
        };
        let error = open(&mut rank_of_it, "test:0", mode).expect_err("another mode");
        let class = match knows_no_files {
            true => abi::ERR_OTHER,
            false => abi::ERR_NOT_SAME,
        };
        assert_eq!(error.code(), class, "{}", error.text());
        check(&mut rank_of_it);
    }
    rank_of_it.0.finish()
}

/// The test that each rank of the program runs, and only a rank.
#[test]
fn is_the_program_that_opens_files() {
    if std::env::var_os(PROGRAM).is_some() {
        program().unwrap_or_else(|error| panic!("{}", error.text()));
        println!("{DONE}");
    }
}

/// Runs the program, with rank 1 speaking these formats.
fn run(processes: u32, formats: &str) {
    let test = "opening::is_the_program_that_opens_files";
    run_ranks((processes, formats), test, &[(PROGRAM, formats)]);
}

/// Runs a test of this program as ranks, rank 1 of which speaks these formats, or all if there are none. Each has to print [`DONE`].
pub(crate) fn run_ranks(
    (processes, formats): (u32, &str),
    test: &str,
    environment: &[(&str, &str)],
) {
    let this = std::env::current_exe().expect("this test");
    let script = "[ \"$PMI_RANK\" != 1 ] || [ -z \"$0\" ] || export CAUSEWAY_MPI_FORMATS=\"$0\"; exec \"$@\"";
    let output = Command::new("timeout")
        .arg("120")
        .arg(env!("CARGO_BIN_EXE_causeway"))
        .args([
            "run",
            "-n",
            &processes.to_string(),
            "sh",
            "-c",
            script,
            formats,
        ])
        .arg(this)
        .args([test, "--exact", "--nocapture"])
        .envs(environment.iter().copied())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{processes}, {formats:?}: {said}{errors}"
    );
    let done = said.lines().filter(|line| line.contains(DONE)).count();
    assert_eq!(done, processes as usize, "{said}");
}

#[test]
fn a_process_that_fails_alone_leaves_the_communicator_of_the_program_as_it_is() {
    for processes in [2, 3, 5] {
        run(processes, "");
    }
}

#[test]
fn files_are_opened_together_with_processes_of_format_2() {
    for processes in [2, 3, 5] {
        run(processes, "1-2");
    }
    run(3, "2-3");
    run(3, "1-4");
    run(3, "1-5");
}

#[test]
fn the_checking_mode_describes_the_steps_of_opening_alike_in_all_processes() {
    let test = "opening::is_the_program_that_opens_files";
    for formats in ["", "1-5"] {
        let environment = [(PROGRAM, formats), ("CAUSEWAY_MPI_CHECK", "1")];
        run_ranks((3, formats), test, &environment);
    }
}

#[test]
fn with_a_process_of_format_1_all_get_an_error() {
    run(3, "1-1");
}
