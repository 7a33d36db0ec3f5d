//! Stream sockets: nonblocking, written from and read into [`Memory`] without another copy; and which user owns the
//! other end of a connection on this host.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, ipproto, sockopt,
};

use crate::diag::{self, Protocol, SocketInfo};
use crate::limits::Shortage;
use crate::memory::Memory;

/// The most pieces that one call hands to the kernel; the rest waits for the next call.
pub const MAX_PIECES: usize = 64;

/// The bytes that a connection within the host may have on the way: enough for a receiver that is
/// busy for some ten microseconds, little enough to stay in a cache of 1 MiB together with what it is
/// copied from.
const LOOPBACK_SEND_BYTES: usize = 512 * 1024;

/// The receiver's window of such a connection: some five times as much.
const LOOPBACK_WINDOW_BYTES: libc::c_int = 1024 * 1024;

/// Bytes to send, wherever they are.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// Private bytes.
    Bytes(&'a [u8]),
    /// A span that other processes may write while the kernel reads it.
    Memory(&'a Memory),
}

impl Piece<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Memory(memory) => memory.len(),
        }
    }

    /// Whether the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Sends as much of `pieces` as the socket accepts now. `Ok(None)` means that it accepts nothing
/// now.
pub fn send_pieces(socket: impl AsFd, pieces: &[Piece<'_>]) -> io::Result<Option<usize>> {
    let mut slices = [IoSlice::new(&[]); MAX_PIECES];
    let count = pieces.len().min(MAX_PIECES);
    for (slot, piece) in slices.iter_mut().zip(pieces) {
        *slot = IoSlice::new(match piece {
            Piece::Bytes(bytes) => bytes,
            // SAFETY: the span stays valid while `memory` is borrowed, which is longer than this
            // call. The slice goes to the kernel only, which does not mind concurrent writers.
            Piece::Memory(memory) => unsafe {
                std::slice::from_raw_parts(memory.as_ptr(), memory.len())
            },
        });
    }
    let slices = slices.get(..count).unwrap_or_default();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = match slices {
        [only] => rustix::net::send(socket, only, flags),
        _ => rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags),
    };
    unless_blocked(sent)
}

/// Receives waiting bytes into `buffer`. `Ok(None)` means none now, `Ok(Some(0))` the end.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    unless_blocked(rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT).map(|(_, count)| count))
}

/// Receives waiting bytes into `spans`, in order, and further ones into `rest`.
///
/// # Panics
/// If a span is for reading only.
pub fn receive_into(
    socket: impl AsFd,
    spans: &[Memory],
    rest: &mut [u8],
) -> io::Result<Option<usize>> {
    assert!(
        spans.iter().all(Memory::is_writable),
        "this memory is for reading only"
    );
    let mut slices: [IoSliceMut<'_>; MAX_PIECES + 1] =
        std::array::from_fn(|_| IoSliceMut::new(&mut []));
    let mut filled = 0;
    for (slot, span) in slices.iter_mut().zip(spans.iter().take(MAX_PIECES)) {
        // SAFETY: the span is valid while `spans` is borrowed, and may be written, as was just
        // checked; the slice exists only while the kernel fills it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(span.as_ptr(), span.len()) };
        *slot = IoSliceMut::new(bytes);
        filled += 1;
    }
    // Bytes behind the last span may only go to `rest` if every span was handed over.
    if filled == spans.len()
        && let Some(slot) = slices.get_mut(filled)
    {
        *slot = IoSliceMut::new(rest);
        filled += 1;
    }
    let got = rustix::net::recvmsg(
        socket,
        &mut slices[..filled],
        &mut RecvAncillaryBuffer::default(),
        RecvFlags::DONTWAIT,
    );
    unless_blocked(got.map(|message| message.bytes))
}

fn unless_blocked(result: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn stream(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    Ok(rustix::net::socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        Some(ipproto::TCP),
    )?)
}

/// A nonblocking socket that listens at `address`.
pub fn listen(address: &SocketAddr, backlog: i32) -> io::Result<OwnedFd> {
    let socket = stream(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

/// The next connection that a listening socket has ready, nonblocking. `Ok(None)` means none now.
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match rustix::net::accept_with(listener, flags) {
        Ok(socket) => Ok(Some(socket)),
        // A connection that died while it waited does not concern the listener.
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Begins to connect; the socket becomes writable when [`connected`] can return the outcome.
pub fn connect(address: &SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream(address)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// How the attempt that [`connect`] began has ended.
pub fn connected(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Sets up a connection for short messages, and makes the kernel give up an idle peer after about
/// `vanished` without a sign of life from its host. With `unread` it also gives up a peer that leaves
/// what was sent unread for that long, which a peer that computes may do. Returns whether both ends are
/// on this host.
pub fn tune(socket: impl AsFd, vanished: Duration, unread: Option<Duration>) -> io::Result<bool> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    // Half of the time until the first probe, then three probes in the other half.
    let second = Duration::from_secs(1);
    sockopt::set_tcp_keepidle(socket, (vanished / 2).max(second))?;
    sockopt::set_tcp_keepintvl(socket, (vanished / 6).max(second))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    if let Some(unread) = unread {
        let milliseconds = u32::try_from(unread.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(socket, milliseconds)?;
    }
    let is_local = stays_on_this_host(socket)?;
    if is_local {
        tune_for_loopback(socket)?;
    }
    Ok(is_local)
}

/// How long the peer's host has not acknowledged anything, if it should have: the kernel has sent data to it again, or
/// probes, three times. (What was sent just now may be acknowledged soon, however long ago the latest acknowledgement is.) While the peer leaves what has
/// arrived unread, nothing is on the way, and the kernel probes for room.
pub fn host_silence(socket: impl AsFd) -> io::Result<Option<Duration>> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the option writes at most `len` bytes, which `info` has; the descriptor is open.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all of its fields are integers, for which zeros are valid, too.
    let info = unsafe { info.assume_init() };
    let unanswered = info.tcpi_retransmits.max(info.tcpi_probes);
    let silence = Duration::from_millis(info.tcpi_last_ack_recv.into());
    Ok((unanswered >= UNANSWERED).then_some(silence))
}

/// A packet or a probe may be lost, or its acknowledgement be on the way.
const UNANSWERED: u8 = 3;

/// Whether the peer's host has yet to acknowledge some of what was sent.
pub fn has_unacknowledged(socket: impl AsFd) -> io::Result<bool> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one integer of this type; the descriptor is open.
    let status = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    match status {
        0 => Ok(bytes > 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether both ends of a connection are on this host, by any of its addresses.
pub fn stays_on_this_host(socket: impl AsFd) -> io::Result<bool> {
    Ok(is_same_host(
        local_address(&socket)?,
        peer_address(&socket)?,
    ))
}

/// Whether a connection between these two addresses, the first of which is this process's, stays on this host.
pub fn is_same_host(ours: SocketAddr, theirs: SocketAddr) -> bool {
    let (ours, theirs) = (ours.ip().to_canonical(), theirs.ip().to_canonical());
    ours.is_loopback() || ours == theirs
}

/// Keeps the bytes on the way between the two ends few enough for the processor's caches: the
/// kernel would let their number grow to megabytes, which halves the bandwidth
/// (`docs/tcp-engine.md`). Between hosts it has to cover bandwidth times delay, which the kernel
/// determines better.
fn tune_for_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set_socket_send_buffer_size(socket, LOOPBACK_SEND_BYTES)?;
    // The receiver's window must never be what holds the sender back. A request to be woken only when
    // this many bytes have arrived (SO_RCVLOWAT) makes the kernel enlarge the window, beyond what
    // SO_RCVBUF allows and without fixing it; then the request is withdrawn.
    for bytes in [LOOPBACK_WINDOW_BYTES, 1] {
        set_receive_low_water(socket, bytes)?;
    }
    Ok(())
}

fn set_receive_low_water(socket: BorrowedFd<'_>, bytes: libc::c_int) -> io::Result<()> {
    // SAFETY: the option takes an int, which lives longer than the call; the descriptor is open.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the stream in this direction: nothing more will be sent.
pub fn shut_writing(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?)
}

/// This socket's own address.
pub fn local_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(socket)?)?)
}

/// The address of the socket's peer.
pub fn peer_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?;
    Ok(SocketAddr::try_from(address)?)
}

/// The owner of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user that made it.
    pub uid: u32,
    /// Its inode number, by which a process can be found to hold it. Never 0.
    pub inode: u64,
}

/// A process that holds a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Whether process `pid` holds the socket of this inode under this descriptor number, and with
/// which user and group it runs. `None` if not, or if the kernel does not let this process see it.
pub fn holder_of(inode: u64, pid: u32, descriptor: u32) -> Option<Holder> {
    use std::os::unix::fs::MetadataExt;
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    if link.to_str()? != format!("socket:[{inode}]") {
        return None;
    }
    let process = std::fs::metadata(format!("/proc/{pid}")).ok()?;
    Some(Holder {
        uid: process.uid(),
        gid: process.gid(),
    })
}

/// Queries the kernel for the owners of sockets on this host, with one descriptor for all queries.
#[derive(Debug, Default)]
pub struct Owners {
    diag: Option<OwnedFd>,
    /// Whether the kernel supports queries about datagram sockets, once that is known.
    knows_datagrams: Option<bool>,
}

impl Owners {
    /// The owner of the other end of a TCP connection between `ours` and `theirs`, both on this host,
    /// as the kernel tells it. `None` if there is no such socket, or no process holds it (any more,
    /// or, before it was accepted, yet).
    pub fn of_other_end(
        &mut self,
        ours: SocketAddr,
        theirs: SocketAddr,
    ) -> io::Result<Option<Owner>> {
        match self.ask(theirs, ours) {
            Ok(owner) => Ok(owner),
            Err(error) if Shortage::of(&error).is_some() => Err(error),
            // A kernel without this query has the same in its table in /proc.
            Err(_) => proc_table::owner(theirs, ours),
        }
    }

    /// The owner of the socket at exactly `theirs` that would receive a datagram sent from `ours`, a socket of this
    /// process; both on this host. `None` if there is no such socket. The cost does not grow with the number of
    /// sockets, but of several sockets at one address it finds only one: see [`crate::datagram::owner`].
    ///
    /// # Errors [`io::ErrorKind::Unsupported`] where the kernel does not support the query, and
    /// errors of the system.
    pub fn of_datagram_socket(
        &mut self,
        ours: SocketAddr,
        theirs: SocketAddr,
    ) -> io::Result<Option<Owner>> {
        if self.knows_datagrams == Some(false) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // In the words of the kernel's lookup: a datagram from `ours` to `theirs`.
        let found = self.ask_about(Protocol::Udp, ours, theirs)?;
        if found.is_none() && self.knows_datagrams.is_none() {
            // A kernel without this query returns the same as one that finds nothing. Our own socket exists.
            let own = self.ask_about(Protocol::Udp, theirs, ours)?;
            self.knows_datagrams = Some(own.is_some());
            own.ok_or(io::ErrorKind::Unsupported)?;
        }
        Ok(found
            .filter(|found| found.local == theirs)
            .map(|found| found.owner))
    }

    fn ask(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Owner>> {
        let found = self.ask_about(Protocol::Tcp, local, remote)?;
        Ok(found.map(|found| found.owner))
    }

    fn ask_about(
        &mut self,
        protocol: Protocol,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> io::Result<Option<SocketInfo>> {
        let socket = match self.diag.take() {
            Some(socket) => socket,
            None => diag::socket()?,
        };
        let found = diag::find(&socket, protocol, source, destination)?;
        // Kept only after success: after an error, the socket may still hold a reply, which would be
        // read as that to the next query.
        self.diag = Some(socket);
        Ok(found)
    }
}

/// The same from `/proc/net/tcp`, which is slow with many connections.
mod proc_table {
    use super::*;

    pub(super) fn owner(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Owner>> {
        let path = match local {
            SocketAddr::V4(_) => "/proc/net/tcp",
            SocketAddr::V6(_) => "/proc/net/tcp6",
        };
        Ok(find(&std::fs::read_to_string(path)?, local, remote))
    }

    pub(super) fn find(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<Owner> {
        let (local, remote) = (super::notation(local), super::notation(remote));
        table.lines().skip(1).find_map(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            if fields.next()? != local || fields.next()? != remote {
                return None;
            }
            let uid = fields.nth(4)?.parse().ok()?;
            let inode: u64 = fields.nth(1)?.parse().ok()?;
            (inode != 0).then_some(Owner { uid, inode })
        })
    }
}

/// An address as the tables in /proc write it: words in the machine's order, in hexadecimal digits.
pub(crate) fn notation(address: SocketAddr) -> String {
    use std::fmt::Write;
    let octets = match address.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut text = String::new();
    for word in octets.chunks_exact(4) {
        let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        // Writing to a string cannot fail.
        let _ = write!(text, "{word:08X}");
    }
    let _ = write!(text, ":{:04X}", address.port());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    fn pair(at: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(at).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn connections_within_the_host_are_known_and_get_buffers_of_their_own() {
        let (one, other) = pair("127.0.0.1:0");
        let grown = sockopt::socket_recv_buffer_size(&one).unwrap();
        for end in [&one, &other] {
            assert!(stays_on_this_host(end).unwrap());
            tune(end, Duration::from_secs(30), None).unwrap();
            // The kernel doubles the requested size, for its own records.
            let send = sockopt::socket_send_buffer_size(end).unwrap();
            assert!(send <= 2 * LOOPBACK_SEND_BYTES, "{send}");
        }
        assert!(sockopt::socket_recv_buffer_size(&one).unwrap() > grown);
        // A single byte still wakes the receiver.
        rustix::io::write(&other, b"x").unwrap();
        let mut end = [rustix::event::PollFd::new(
            &one,
            rustix::event::PollFlags::IN,
        )];
        let limit = rustix::event::Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        assert_eq!(rustix::event::poll(&mut end, Some(&limit)).unwrap(), 1);
    }

    #[test]
    fn the_owner_of_the_other_end_is_this_user_by_both_ways_of_asking() {
        let me = rustix::process::getuid().as_raw();
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(_) = TcpListener::bind(at) else {
                continue; // no IPv6 here
            };
            let (one, other) = pair(at);
            let (ours, theirs) = (one.local_addr().unwrap(), one.peer_addr().unwrap());
            let mut owners = Owners::default();
            let owner = owners.of_other_end(ours, theirs).unwrap().unwrap();
            assert_eq!(owner.uid, me);
            for _ in 0..2 {
                assert_eq!(owners.ask(theirs, ours).unwrap(), Some(owner));
            }
            assert_eq!(proc_table::owner(theirs, ours).unwrap(), Some(owner));
            let (pid, number) = (std::process::id(), other.as_raw_fd() as u32);
            let holder = holder_of(owner.inode, pid, number).unwrap();
            assert_eq!(holder.uid, me);
            assert_eq!(holder_of(owner.inode, pid, one.as_raw_fd() as u32), None);
            assert_eq!(holder_of(owner.inode, u32::MAX, number), None);
            drop(other);
            // A child that another test is starting holds it until it executes its program.
            let limit = Instant::now() + Duration::from_secs(60);
            while owners.of_other_end(ours, theirs).unwrap().is_some() {
                assert!(Instant::now() < limit, "{ours} still has another end");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn a_connection_that_was_not_accepted_has_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, theirs) = (one.local_addr().unwrap(), one.peer_addr().unwrap());
        let asked = Owners::default().ask(theirs, ours);
        assert_eq!(asked.unwrap_or(None), None);
        assert_eq!(proc_table::owner(theirs, ours).unwrap(), None);
    }

    #[test]
    #[should_panic(expected = "for reading only")]
    fn nothing_is_received_into_memory_that_is_for_reading_only() {
        let (_one, other) = pair("127.0.0.1:0");
        let _ = receive_into(&other, &[Memory::zeroed(3).read_only()], &mut []);
    }

    #[test]
    fn pieces_arrive_in_order_and_spill_behind_the_spans() {
        let (one, other) = pair("127.0.0.1:0");
        let memory = Memory::from_vec(b"memory".to_vec());
        let pieces = [Piece::Bytes(b"bytes "), Piece::Memory(&memory)];
        assert_eq!(send_pieces(&one, &pieces).unwrap(), Some(12));
        let spans = [Memory::zeroed(3), Memory::zeroed(5)];
        let mut rest = [0; 16];
        let got = receive_into(&other, &spans, &mut rest).unwrap();
        assert_eq!(got, Some(12));
        assert_eq!(spans[0].to_vec(), b"byt");
        assert_eq!(spans[1].to_vec(), b"es me");
        assert_eq!(&rest[..4], b"mory");
        assert_eq!(receive_into(&other, &spans, &mut rest).unwrap(), None);
    }
}
