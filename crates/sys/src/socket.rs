//! Unix sockets that keep record boundaries and carry descriptors. Everything is nonblocking.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::fork::Owner;
use crate::limits::{Reserve, Shortage};

/// The most descriptors that one record may carry.
pub const MAX_DESCRIPTORS: usize = 4;

/// The longest path that fits a socket address directly.
const MAX_DIRECT_PATH: usize = 107;

/// The process at the other end of a socket, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Process id, as seen from here; 0 if that process is not visible here.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A socket that records arrive on or are sent over.
#[derive(Debug)]
pub struct RecordSocket {
    socket: OwnedFd,
}

/// What [`RecordSocket::receive`] found.
#[derive(Debug)]
pub enum Received {
    /// A record of this many bytes, with these descriptors.
    Record(usize, Vec<OwnedFd>),
    /// A record of this many bytes that has lost descriptors, because this process or the system has
    /// too many open.
    Stripped(usize),
    /// A record that is longer than the buffer, or carries too many descriptors; it is gone.
    Oversized,
    /// Nothing now.
    Nothing,
    /// The other end closed.
    Closed,
}

/// A path as a socket address. If the path is longer than an address may be, it is named relative
/// to a descriptor of its directory, which is kept here.
struct Reachable {
    address: SocketAddrUnix,
    _directory: Option<OwnedFd>,
}

fn reachable(path: &Path) -> io::Result<Reachable> {
    if path.as_os_str().len() <= MAX_DIRECT_PATH {
        return Ok(Reachable {
            address: SocketAddrUnix::new(path)?,
            _directory: None,
        });
    }
    let directory = open_directory(path, OFlags::PATH)?;
    let name = path
        .file_name()
        .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    use std::os::fd::AsRawFd;
    let detour = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    if detour.as_os_str().len() > MAX_DIRECT_PATH {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the socket's file name is too long: use one of at most 80 bytes",
        ));
    }
    Ok(Reachable {
        address: SocketAddrUnix::new(detour.as_os_str().as_bytes())?,
        _directory: Some(directory),
    })
}

fn open_directory(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(parent, flags, Mode::empty())?)
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?)
}

impl RecordSocket {
    /// Connects to the socket at `path`. `WouldBlock` means that the listener's queue is full.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = new_socket()?;
        let reachable = reachable(path)?;
        rustix::net::connect(&socket, &reachable.address)?;
        Ok(Self { socket })
    }

    /// Two sockets connected to each other.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, two) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        Ok((Self { socket: one }, Self { socket: two }))
    }

    /// The process at the other end: for a connecting socket, the one that called `listen`.
    pub fn peer(&self) -> io::Result<Credentials> {
        // Not through rustix: its type for a process id cannot hold the 0 that the kernel gives
        // for a process outside of our pid namespace.
        let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        use std::os::fd::AsRawFd;
        // SAFETY: the kernel writes at most `len` bytes into `credentials`, which has that many.
        let status = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                credentials.as_mut_ptr().cast(),
                &mut len,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: plain integers, zeroed before and filled by the kernel.
        let credentials = unsafe { credentials.assume_init() };
        Ok(Credentials {
            pid: credentials.pid,
            uid: credentials.uid,
            gid: credentials.gid,
        })
    }

    /// The supplementary groups of the process at the other end, as of when it connected: `most` at most, the lowest ones first, as the
    /// kernel has them.
    pub fn peer_groups(&self, most: usize) -> io::Result<Vec<u32>> {
        use std::os::fd::AsRawFd;
        // The kernel has no list that is longer (NGROUPS_MAX).
        const LONGEST: usize = 1 << 16;
        let mut groups = vec![0_u32; most];
        loop {
            let mut len = (groups.len() * size_of::<u32>()) as libc::socklen_t;
            // SAFETY: the kernel writes at most `len` bytes into `groups`, which has that many, and `len` is in bytes.
            let status = unsafe {
                libc::getsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_PEERGROUPS,
                    groups.as_mut_ptr().cast(),
                    &mut len,
                )
            };
            let count = len as usize / size_of::<u32>();
            let error = match status {
                0 => {
                    groups.truncate(count.min(most));
                    return Ok(groups);
                }
                _ => io::Error::last_os_error(),
            };
            // It says then how long the list is.
            if error.raw_os_error() != Some(libc::ERANGE) || groups.len() >= count.min(LONGEST) {
                return Err(error);
            }
            groups.resize(count.min(LONGEST), 0);
        }
    }

    /// The kernel's handle of the process that [`RecordSocket::peer`] is about.
    pub fn peer_process(&self) -> io::Result<OwnedFd> {
        /// Since Linux 6.5; the number of all architectures that share the common list.
        const SO_PEERPIDFD: libc::c_int = 77;
        let mut descriptor: libc::c_int = -1;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        use std::os::fd::{AsRawFd, FromRawFd};
        // SAFETY: the kernel writes at most `len` bytes into `descriptor`, which has that many.
        let status = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                std::ptr::from_mut(&mut descriptor).cast(),
                &mut len,
            )
        };
        if status != 0 || descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, closed on exec; nothing else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Sends one record. `WouldBlock` if the socket's queue is full.
    pub fn send(&self, record: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let sent = if descriptors.is_empty() {
                rustix::net::send(&self.socket, record, flags)
            } else {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                rustix::net::sendmsg(
                    &self.socket,
                    &[io::IoSlice::new(record)],
                    &mut control,
                    flags,
                )
            };
            match sent {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the next record. Descriptors that come with a refused one are closed.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut receive = || {
            rustix::net::recvmsg(
                &self.socket,
                &mut [io::IoSliceMut::new(into)],
                &mut control,
                RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
            )
        };
        // If the other end closed without having read everything, the kernel reports that first, once,
        // and only then returns what the other end had sent.
        let received = match receive() {
            Err(Errno::CONNRESET) => receive(),
            received => received,
        };
        let message = match received {
            Ok(message) => message,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
            Err(Errno::CONNRESET) => return Ok(Received::Closed),
            Err(error) => return Err(error.into()),
        };
        let mut descriptors = Vec::new();
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                descriptors.extend(rights);
            }
        }
        let stripped = message.flags.contains(ReturnFlags::CTRUNC);
        // If all the room was used, more descriptors were sent than there is room for.
        let too_many = stripped && descriptors.len() >= MAX_DESCRIPTORS;
        if message.flags.contains(ReturnFlags::TRUNC) || too_many {
            return Ok(Received::Oversized);
        }
        // A record of no bytes cannot be distinguished from the end; a peer that keeps the protocol sends none.
        if message.bytes == 0 {
            return Ok(Received::Closed);
        }
        if stripped {
            return Ok(Received::Stripped(message.bytes));
        }
        Ok(Received::Record(message.bytes, descriptors))
    }

    /// Whether the other end has closed or died, even if bytes are still unread.
    pub fn is_hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&now)).is_ok()
            && polled[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

impl AsFd for RecordSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What [`RecordListener::accept`] found.
#[derive(Debug)]
pub enum Accepted {
    /// A connection.
    Connection(RecordSocket),
    /// A connection that had to be closed, for this reason.
    TurnedAway(io::Error),
    /// Nothing now.
    Nothing,
}

/// A socket at a path that others connect to. Dropping it removes the path, except in a forked child.
#[derive(Debug)]
pub struct RecordListener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket file, so that a successor's is not removed.
    file: (u64, u64),
    /// Given up for a moment to accept and close a connection when descriptors have run out.
    reserve: Reserve,
    /// The path is removed by this process alone.
    owner: Owner,
}

impl RecordListener {
    /// Listens at `path`. A socket file that a dead process left is replaced; a live one is an error,
    /// as is anything that is not a socket.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let owner = Owner::this_process()?;
        let directory = open_directory(path, OFlags::RDONLY)?;
        lock_directory(&directory)?;
        clear_stale(path)?;
        let socket = new_socket()?;
        let reachable = reachable(path)?;
        rustix::net::bind(&socket, &reachable.address)?;
        rustix::net::listen(&socket, 4096)?;
        let stat = rustix::fs::stat(path)?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            file: (stat.st_dev, stat.st_ino),
            reserve: Reserve::new(),
            owner,
        })
    }

    /// The next connection, if one is waiting. When descriptors have run out it is sent `farewell` and closed; others
    /// may wait behind it. After an error the listener stays readable, and only waiting helps.
    pub fn accept(&mut self, farewell: &[u8]) -> io::Result<Accepted> {
        match accept(&self.socket) {
            Ok(Some(socket)) => Ok(Accepted::Connection(socket)),
            Ok(None) => Ok(Accepted::Nothing),
            Err(error)
                if Shortage::of(&error).is_some_and(|shortage| shortage.is_of_descriptors()) =>
            {
                // The client is refused at once. Left in the queue, its connection would keep this descriptor
                // readable for ever.
                let listening = &self.socket;
                self.reserve.spend(|| {
                    let Some(socket) = accept(listening)? else {
                        return Ok(Accepted::Nothing);
                    };
                    // Best effort: if it fails, the client sees only the closed socket.
                    let _ = socket.send(farewell, &[]);
                    Ok(Accepted::TurnedAway(error))
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for RecordListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for RecordListener {
    fn drop(&mut self) {
        if !self.owner.is_this_process() {
            return;
        }
        let ours =
            rustix::fs::lstat(&self.path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file);
        if ours {
            // Best effort: the next listener replaces a stale file anyway.
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

fn accept(listening: &OwnedFd) -> io::Result<Option<RecordSocket>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match rustix::net::accept_with(listening, flags) {
        Ok(socket) => Ok(Some(RecordSocket { socket })),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Locks the directory until `directory` is dropped: two processes that replace the same stale
/// socket at the same time would remove each other's.
fn lock_directory(directory: &OwnedFd) -> io::Result<()> {
    for _ in 0..200 {
        match rustix::fs::flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN | Errno::INTR) => {
                // Polled, because a system call that waits for a lock cannot be ended by a time
                // limit.
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            // Some file systems have no locks; then the race is open, as it is everywhere else.
            Ok(()) | Err(_) => return Ok(()),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "another process holds a lock on the socket's directory",
    ))
}

fn clear_stale(path: &Path) -> io::Result<()> {
    let stat = match rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Socket {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket is in the way",
        ));
    }
    match RecordSocket::connect(path) {
        Err(error) if error.raw_os_error() == Some(Errno::CONNREFUSED.raw_os_error()) => {
            rustix::fs::unlink(path)?;
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) | Err(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_boundaries_and_carry_descriptors() {
        let (one, two) = RecordSocket::pair().unwrap();
        let file = crate::memfd::create_fixed("test", 4096).unwrap();
        one.send(b"first", &[file.as_fd()]).unwrap();
        one.send(b"second", &[]).unwrap();
        let mut buffer = [0; 16];
        match two.receive(&mut buffer).unwrap() {
            Received::Record(5, descriptors) => {
                assert_eq!(crate::memfd::checked_len(&descriptors[0]).unwrap(), 4096);
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            two.receive(&mut buffer[..3]).unwrap(),
            Received::Oversized
        ));
        assert!(matches!(
            two.receive(&mut buffer).unwrap(),
            Received::Nothing
        ));
        assert_eq!(two.peer().unwrap().uid, rustix::process::getuid().as_raw());
        let mut groups: Vec<u32> = rustix::process::getgroups()
            .unwrap()
            .into_iter()
            .map(|group| group.as_raw())
            .collect();
        groups.sort_unstable();
        let mut seen = two.peer_groups(1 << 10).unwrap();
        seen.sort_unstable();
        assert_eq!(seen, groups);
        assert_eq!(two.peer_groups(0).unwrap(), []);
        assert!(!two.is_hung_up());
        two.send(b"unread", &[]).unwrap();
        one.send(b"last", &[]).unwrap();
        drop(one);
        assert!(matches!(
            two.receive(&mut buffer).unwrap(),
            Received::Record(4, _)
        ));
        assert!(two.is_hung_up());
        assert!(matches!(
            two.receive(&mut buffer).unwrap(),
            Received::Closed
        ));
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = std::env::temp_dir().join(format!("causeway-sys-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let mut live = RecordListener::bind(&path).unwrap();
        let refused = RecordListener::bind(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let probe = live.accept(&[]).unwrap();
        assert!(matches!(probe, Accepted::Connection(_)), "the probe itself");
        // As a killed process leaves it: the socket closed, the file in place.
        let stale = std::mem::replace(&mut live.path, folder.join("elsewhere"));
        drop(live);
        assert!(stale.exists());
        let again = RecordListener::bind(&path).unwrap();
        drop(again);
        assert!(!path.exists(), "the path goes with the listener");
        std::fs::write(&path, b"a file").unwrap();
        assert!(RecordListener::bind(&path).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_long_path_is_reached_through_its_directory() {
        let folder = std::env::temp_dir()
            .join(format!("causeway-sys-long-{}", std::process::id()))
            .join("d".repeat(120));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let mut listener = RecordListener::bind(&path).unwrap();
        let _client = RecordSocket::connect(&path).unwrap();
        let accepted = listener.accept(&[]).unwrap();
        assert!(matches!(accepted, Accepted::Connection(_)));
        drop(listener);
        assert!(RecordListener::bind(&folder.join("n".repeat(120))).is_err());
        std::fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }
}
