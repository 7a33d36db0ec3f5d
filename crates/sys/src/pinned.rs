//! Another process, such as the one at the other end of a Unix socket, held so that operations by its number affect that process only.
//!
//! A number is not a process: when one ends, another may get its number, and one that starts another program keeps its number with other
//! memory. What stays bound to the process is the kernel's handle of its memory (`/proc/PID/mem`), opened while the kernel's handle of the
//! process (`SO_PEERPIDFD`) showed that the number was still its own: nothing can be read by the handle of the memory any more as soon as
//! the process has ended or has started another program. Cross-memory attach takes a number nevertheless. [`Pinned::number`] therefore
//! checks the handle first, once in each tick of the kernel's clock (1 to 10 ms): a check at each copy would take a noticeable part of its
//! time, and a number is not reused sooner by chance. A process can arrange that deliberately; but the number can then only lead to a
//! process of the same user that the kernel lets this process access, because memory is not shared with processes of other users.
//!
//! Where the kernel lacks one of the two handles, the other one is used, together with a word of the memory that only the
//! process knows.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use crate::attach::{self, LocalSpans, RemoteSpans};
use crate::memory::Memory;
use crate::random;
use crate::socket::RecordSocket;

/// A word of a process's memory, by which it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where it lies.
    pub address: u64,
    /// Its identity, as long as the process does not end.
    pub value: u64,
}

impl Mark {
    /// A word of this process, and a child's that was forked from it; none if the system provides no random bytes.
    pub fn of_this_process() -> Option<Self> {
        static WORD: OnceLock<Option<u64>> = OnceLock::new();
        let word = WORD.get_or_init(|| random::bytes().ok().map(u64::from_ne_bytes));
        word.as_ref().map(|word| Self {
            address: std::ptr::from_ref(word).addr() as u64,
            value: *word,
        })
    }
}

/// See the module's page.
#[derive(Debug)]
pub struct Pinned {
    pid: i32,
    mark: Mark,
    handle: Handle,
    /// The tick of the kernel's clock in which it was last found to be the same, in nanoseconds.
    checked_at: AtomicI64,
}

#[derive(Debug)]
enum Handle {
    /// The handle of the memory, which is sufficient. Shared by all connections by which this
    /// process has pinned the other one.
    Memory(Arc<File>),
    /// The handle of the process, which shows whether the process has ended.
    Process(OwnedFd),
    /// The kernel provides neither.
    None,
}

impl Pinned {
    /// Pins the process at the other end of `socket`, which states that `mark` is in its memory.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if its number is not visible here, or another process has it, and those of the system.
    pub fn new(socket: &RecordSocket, mark: Mark) -> io::Result<Self> {
        let pid = socket.peer()?.pid;
        let number = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        let process = match socket.peer_process() {
            Ok(process) => Some(process),
            // A kernel before 6.5: the number may be another process's now, as the mark shows.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                pidfd_open(number, PidfdFlags::empty()).ok()
            }
            Err(error) => return Err(error),
        };
        Self::pin(pid, process, mark)
    }

    /// Pins the process of this number, which states that `mark` is in its memory, and that this is its number. A process of another namespace may have another number here: then
    /// the mark is not found.
    ///
    /// # Errors
    /// As those of [`Pinned::new`].
    pub fn of_number(pid: i32, mark: Mark) -> io::Result<Self> {
        let number = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        Self::pin(pid, pidfd_open(number, PidfdFlags::empty()).ok(), mark)
    }

    fn pin(pid: i32, process: Option<OwnedFd>, mark: Mark) -> io::Result<Self> {
        let memory = memory_of(pid, mark);
        if process.as_ref().is_some_and(has_ended) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let handle = match (memory, process) {
            (Ok(memory), _) => Handle::Memory(memory),
            (Err(_), Some(process)) => Handle::Process(process),
            (Err(_), None) => Handle::None,
        };
        let this = Self {
            pid,
            mark,
            handle,
            checked_at: AtomicI64::new(0),
        };
        // Read by cross-memory attach as well, so that it is known to work.
        if read_word(pid, mark.address)? != mark.value || !this.is_same() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(this)
    }

    /// The process's number, if the process and its program are still those that were pinned.
    pub fn number(&self) -> Option<i32> {
        let tick = clock_gettime(ClockId::MonotonicCoarse);
        let tick = tick.tv_sec.wrapping_mul(1_000_000_000) + tick.tv_nsec;
        if self.checked_at.load(Relaxed) != tick {
            if !self.is_same() {
                return None;
            }
            self.checked_at.store(tick, Relaxed);
        }
        Some(self.pid)
    }

    /// Copies bytes of the process's memory, from its address `base` on, into a range of `into`.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the process has ended or has started another program, and those of the system; some bytes may have been copied.
    ///
    /// # Panics
    /// If the range is not inside `into`.
    pub fn read(&self, base: u64, into: &Memory, range: Range<usize>) -> io::Result<()> {
        let mut done = 0;
        while done < range.len() {
            let pid = self.number().ok_or(io::ErrorKind::NotFound)?;
            let (mut local, mut remote) = (LocalSpans::new(), RemoteSpans::new());
            local.push(into, range.start + done..range.end);
            remote.push(base.wrapping_add(done as u64), range.len() - done);
            match attach::read(pid, &local, &remote)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                copied => done += copied,
            }
        }
        Ok(())
    }

    fn is_same(&self) -> bool {
        match &self.handle {
            Handle::Memory(memory) => is_marked(memory, self.mark),
            Handle::Process(process) if has_ended(process) => false,
            Handle::Process(_) | Handle::None => {
                read_word(self.pid, self.mark.address).is_ok_and(|word| word == self.mark.value)
            }
        }
    }
}

/// Whether the mark is in this memory. Nothing can be read from the memory of a process that has
/// ended.
fn is_marked(memory: &File, mark: Mark) -> bool {
    use std::os::unix::fs::FileExt as _;
    let mut word = [0; 8];
    let read = memory.read_at(&mut word, mark.address);
    matches!(read, Ok(8)) && u64::from_ne_bytes(word) == mark.value
}

/// The kernel's handle of a process's memory. A process that this one has pinned already, by another connection, costs no further
/// descriptor: the handle is still of the process if its mark can be read by it.
fn memory_of(pid: i32, mark: Mark) -> io::Result<Arc<File>> {
    static OPEN: Mutex<Vec<(i32, Weak<File>)>> = Mutex::new(Vec::new());
    let open_now = || File::open(format!("/proc/{pid}/mem")).map(Arc::new);
    let mut open = match OPEN.try_lock() {
        Ok(open) => open,
        Err(TryLockError::Poisoned(open)) => open.into_inner(),
        // Another thread pins something, or did so when this process was forked.
        Err(TryLockError::WouldBlock) => return open_now(),
    };
    open.retain(|(_, file)| file.strong_count() > 0);
    let known = open.iter().filter(|(known, _)| *known == pid);
    let mut known = known.filter_map(|(_, file)| file.upgrade());
    if let Some(file) = known.find(|file| is_marked(file, mark)) {
        return Ok(file);
    }
    let file = open_now()?;
    open.push((pid, Arc::downgrade(&file)));
    Ok(file)
}

fn read_word(pid: i32, address: u64) -> io::Result<u64> {
    let word = Memory::zeroed(8);
    let (mut local, mut remote) = (LocalSpans::new(), RemoteSpans::new());
    local.push(&word, 0..8);
    remote.push(address, 8);
    attach::read(pid, &local, &remote)?;
    let bytes = word.to_vec().try_into();
    Ok(u64::from_ne_bytes(bytes.unwrap_or_default()))
}

/// Whether a process has ended, waited for or not.
fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    let now = Timespec::default();
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::process;
    use crate::socket::{Accepted, Received, RecordListener};

    const PATH: &str = "CAUSEWAY_SYS_TEST_CHANGELING";
    const PROGRAM: &str = "CAUSEWAY_SYS_TEST_PROGRAM";
    /// A user with rights of their own.
    const USER: u32 = 61_234;

    /// The child of the tests below: sends the address of its mark, waits for a record, and starts another program that keeps its socket.
    #[test]
    fn a_changeling_plays_its_role() {
        let Some(path) = std::env::var_os(PATH) else {
            return;
        };
        let socket = RecordSocket::connect(path.as_ref()).unwrap();
        let word = Box::new(0x1234_5678_9ABC_u64);
        let at = std::ptr::from_ref(&*word).addr() as u64;
        let said = [at.to_ne_bytes(), word.to_ne_bytes()].concat();
        socket.send(&said, &[]).unwrap();
        wait_for_record(&socket);
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).unwrap();
        let program = std::env::var_os(PROGRAM).expect("a program");
        panic!("{}", Command::new(program).exec());
    }

    fn wait_for_record(socket: &RecordSocket) -> Vec<u8> {
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut polled, None).unwrap();
        let mut record = [0; 16];
        match socket.receive(&mut record).unwrap() {
            Received::Record(len, _) => record[..len].to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// A child that will start `cat`, the socket to it, and its mark.
    fn changeling() -> (Child, RecordSocket, Mark) {
        changeling_of(None, "cat")
    }

    /// The same of another user, or with another program.
    fn changeling_of(user: Option<u32>, program: &str) -> (Child, RecordSocket, Mark) {
        let path = std::env::temp_dir().join(format!(
            "causeway-changeling-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut listener = RecordListener::bind(&path).unwrap();
        let anybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&path, anybody).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some(user) = user {
            command.uid(user).gid(user).current_dir("/");
        }
        let child = command
            .args(["--exact", "pinned::tests::a_changeling_plays_its_role"])
            .arg("--nocapture")
            .env(PATH, &path)
            .env(PROGRAM, program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut polled = [PollFd::new(&listener, PollFlags::IN)];
        poll(&mut polled, None).unwrap();
        let Accepted::Connection(socket) = listener.accept(&[]).unwrap() else {
            panic!("the listener is readable");
        };
        let said = wait_for_record(&socket);
        let word = |at: usize| u64::from_ne_bytes(said[at..at + 8].try_into().unwrap());
        let mark = Mark {
            address: word(0),
            value: word(8),
        };
        (child, socket, mark)
    }

    /// The state of the child by each kind of handle that a kernel may provide.
    fn all_ways(socket: &RecordSocket, mark: Mark) -> Vec<Pinned> {
        let pid = socket.peer().unwrap().pid;
        let with = |handle| Pinned {
            pid,
            mark,
            handle,
            checked_at: AtomicI64::new(0),
        };
        vec![
            Pinned::new(socket, mark).unwrap(),
            with(Handle::Process(socket.peer_process().unwrap())),
            with(Handle::None),
        ]
    }

    #[test]
    fn a_process_that_starts_another_program_is_not_the_pinned_one() {
        end(starts_another_program(None, "cat"));
    }

    /// The kernel lets this process, which is root's, into the memory of both programs.
    #[test]
    fn a_process_that_starts_a_setuid_program_of_roots_is_not_the_pinned_one() {
        if process::user() != 0 {
            eprintln!("left out: only root makes setuid programs of root's");
            return;
        }
        let folder = std::env::temp_dir().join(format!("causeway-setuid-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let program = folder.join("cat");
        // By another process: one that is started meanwhile would have this one's descriptor of the file for a moment, and a file that is
        // open for writing cannot be executed.
        let copied = Command::new("cp").arg("/bin/cat").arg(&program).status();
        assert!(copied.unwrap().success());
        for (path, mode) in [(&folder, 0o755), (&program, 0o4755)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let child = starts_another_program(Some(USER), program.to_str().unwrap());
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let users = status.lines().find(|line| line.starts_with("Uid:"));
        let users: Vec<&str> = users.unwrap().split_whitespace().collect();
        match users[2] {
            "0" => {}
            _ => eprintln!("less is tested: setuid programs have no effect in {folder:?}"),
        }
        end(child);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns the child, which runs the program.
    fn starts_another_program(user: Option<u32>, program: &str) -> Child {
        let (mut child, socket, mark) = changeling_of(user, program);
        let pid = child.id() as i32;
        let pinned = all_ways(&socket, mark);
        assert!(matches!(pinned[0].handle, Handle::Memory(_)));
        assert!(pinned.iter().all(|pinned| pinned.number() == Some(pid)));
        let lie = Mark {
            value: mark.value + 1,
            ..mark
        };
        assert!(Pinned::new(&socket, lie).is_err());
        socket.send(b"go", &[]).unwrap();
        // The new program repeats its input, so it runs. The test's own output precedes that.
        child.stdin.as_mut().unwrap().write_all(b"?!").unwrap();
        let (mut out, mut byte) = (Vec::new(), [0]);
        while !out.ends_with(b"?!") {
            let from = child.stdout.as_mut().unwrap();
            assert_eq!(from.read(&mut byte).unwrap(), 1, "it ended early");
            out.push(byte[0]);
        }
        // No other sign distinguishes them.
        assert_eq!(socket.peer().unwrap().pid, pid);
        assert!(!socket.is_hung_up());
        for pinned in &pinned {
            pinned.checked_at.store(0, Relaxed);
            assert_eq!(pinned.number(), None, "{pinned:?}");
        }
        child
    }

    #[test]
    fn memory_of_a_process_that_is_known_by_its_number_is_read() {
        let pid = std::process::id() as i32;
        let mark = Mark::of_this_process().unwrap();
        assert_eq!(Mark::of_this_process(), Some(mark));
        let pinned = Pinned::of_number(pid, mark).unwrap();
        let far = Memory::from_vec((0..200).collect());
        let (near, base) = (Memory::zeroed(100), far.as_ptr().addr() as u64);
        pinned.read(base + 50, &near, 10..90).unwrap();
        assert_eq!(near.to_vec()[10..90], far.to_vec()[50..130]);
        pinned.read(base, &near, 5..5).unwrap();
        assert!(pinned.read(8, &near, 0..8).is_err());
        let lie = Mark {
            value: !mark.value,
            ..mark
        };
        assert!(Pinned::of_number(pid, lie).is_err());
        assert!(
            [0, -1]
                .iter()
                .all(|pid| Pinned::of_number(*pid, mark).is_err())
        );
    }

    #[test]
    fn a_process_that_has_ended_is_not_pinned_even_if_its_number_is_in_use() {
        let (mut child, socket, mark) = changeling();
        let pinned = all_ways(&socket, mark);
        child.kill().unwrap();
        child.wait().unwrap();
        for pinned in &pinned {
            // As if its number were that of a process that has the same word in the same place: this one.
            assert!(!pinned.is_same(), "{pinned:?}");
        }
        assert!(Pinned::new(&socket, mark).is_err());
    }

    /// In namespaces of users and of process numbers of its own, where this process chooses the next number: the test below.
    #[test]
    fn a_process_with_a_used_number_plays_its_role() {
        if std::env::var_os(PATH).is_none() || std::env::var_os(PROGRAM).is_some() {
            return;
        }
        let (child, socket, mark) = changeling();
        let pinned = all_ways(&socket, mark);
        let pid = child.id();
        assert!(
            pinned
                .iter()
                .all(|pinned| pinned.number() == Some(pid as i32))
        );
        end(child);
        let again = loop {
            let next = (pid - 1).to_string();
            if let Err(error) = std::fs::write("/proc/sys/kernel/ns_last_pid", next) {
                println!("left out: numbers cannot be chosen: {error}");
                return;
            }
            let other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            if other.id() == pid {
                break other;
            }
            end(other);
        };
        for pinned in &pinned {
            pinned.checked_at.store(0, Relaxed);
            assert_eq!(pinned.number(), None, "{pinned:?}");
        }
        assert!(Pinned::new(&socket, mark).is_err());
        println!("process {} has the number", again.id());
        end(again);
    }

    #[test]
    fn another_process_with_the_number_of_one_that_has_ended_is_not_the_pinned_one() {
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--pid", "--fork"])
            .args(["--mount-proc", "--kill-child"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "pinned::tests::a_process_with_a_used_number_plays_its_role",
            ])
            .args(["--nocapture", "--test-threads=1"])
            .env(PATH, "chosen by each")
            .env_remove(PROGRAM)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if errors.contains("unshare") || said.contains("left out") {
            eprintln!(
                "left out: there are no namespaces here whose numbers can be chosen: {errors}{said}"
            );
            return;
        }
        assert!(output.status.success(), "{said}{errors}");
        assert!(said.contains("has the number"), "{said}{errors}");
    }
}
