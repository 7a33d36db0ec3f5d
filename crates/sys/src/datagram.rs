//! Datagram sockets: many datagrams per call, the network's reports on those that were not delivered, and which user
//! owns a socket of this host.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::net::Owner;

/// The most datagrams that one call sends or receives.
pub const MAX_BATCH: usize = 32;

/// The size of the buffer that is requested; the kernel grants as much of it as its limits allow.
const BUFFER_BYTES: usize = 4 << 20;

/// A nonblocking socket bound to `address`, which reports datagrams that were not delivered and never has them cut
/// into fragments on the way.
pub fn bind(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(
        family,
        SocketType::DGRAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        Some(ipproto::UDP),
    )?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
        set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        let always = libc::IPV6_PMTUDISC_DO;
        set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, always)?;
    } else {
        set_option(&socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        let always = libc::IP_PMTUDISC_DO;
        set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, always)?;
    }
    // A larger buffer loses fewer datagrams; a smaller one works as well.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
    let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
    rustix::net::bind(&socket, address)?;
    Ok(socket)
}

/// How many bytes of datagrams the kernel keeps for the socket, as it counts them: about twice their length.
pub fn receive_buffer_bytes(socket: impl AsFd) -> io::Result<usize> {
    Ok(sockopt::socket_recv_buffer_size(socket)?)
}

/// The size of packets on the way to `address`, as far as the kernel knows it now.
pub fn path_bytes(address: &SocketAddr) -> io::Result<usize> {
    let local: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = bind(&SocketAddr::new(local, 0))?;
    rustix::net::connect(&socket, address)?;
    let bytes = match address {
        SocketAddr::V4(_) => option(&socket, libc::IPPROTO_IP, libc::IP_MTU)?,
        SocketAddr::V6(_) => option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?,
    };
    Ok(usize::try_from(bytes).unwrap_or(0))
}

fn set_option(socket: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option is an `int`, and `value` is one that lives during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn option(socket: &OwnedFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut len = mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option is an `int`, `value` has room for one, and `len` says so.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A socket address as the kernel writes it.
#[derive(Clone, Copy)]
struct Name {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl Name {
    /// Room for any address.
    fn room() -> Self {
        Self {
            // SAFETY: all zeros is a valid `sockaddr_storage`: it consists of integers.
            storage: unsafe { mem::zeroed() },
            len: mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    fn of(address: &SocketAddr) -> Self {
        let mut name = Self::room();
        let at = &raw mut name.storage;
        match address {
            SocketAddr::V4(v4) => {
                // SAFETY: a `sockaddr_storage` is large and aligned enough for any address.
                let name = unsafe { &mut *at.cast::<libc::sockaddr_in>() };
                name.sin_family = libc::AF_INET as libc::sa_family_t;
                name.sin_port = v4.port().to_be();
                name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let name = unsafe { &mut *at.cast::<libc::sockaddr_in6>() };
                name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                name.sin6_port = v6.port().to_be();
                name.sin6_flowinfo = v6.flowinfo();
                name.sin6_addr.s6_addr = v6.ip().octets();
                name.sin6_scope_id = v6.scope_id();
            }
        }
        name.len = match address {
            SocketAddr::V4(_) => mem::size_of::<libc::sockaddr_in>(),
            SocketAddr::V6(_) => mem::size_of::<libc::sockaddr_in6>(),
        } as libc::socklen_t;
        name
    }

    fn address(&self) -> Option<SocketAddr> {
        let at = &raw const self.storage;
        match i32::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that it is one, and the storage was zeros or an address.
                let name = unsafe { &*at.cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
                let port = u16::from_be(name.sin_port);
                Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let name = unsafe { &*at.cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
                let port = u16::from_be(name.sin6_port);
                let (flow, scope) = (name.sin6_flowinfo, name.sin6_scope_id);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
            }
            _ => None,
        }
    }
}

const NO_VECTOR: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

fn no_messages() -> [libc::mmsghdr; MAX_BATCH] {
    // SAFETY: all zeros is a valid `mmsghdr`: integers and null pointers.
    unsafe { mem::zeroed() }
}

/// Sends datagrams, at most [`MAX_BATCH`] of them, in order. Returns how many, from the first on, the kernel has
/// accepted: `Ok(0)` means that the socket is full. An error concerns the first.
pub fn send_many(socket: impl AsFd, datagrams: &[(SocketAddr, &[u8])]) -> io::Result<usize> {
    let count = datagrams.len().min(MAX_BATCH);
    let mut names = [Name::room(); MAX_BATCH];
    let mut vectors = [NO_VECTOR; MAX_BATCH];
    let mut messages = no_messages();
    let slots = names.iter_mut().zip(&mut vectors).zip(&mut messages);
    for (((name, vector), message), (to, bytes)) in slots.zip(datagrams) {
        *name = Name::of(to);
        *vector = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        message.msg_hdr.msg_name = (&raw mut name.storage).cast();
        message.msg_hdr.msg_namelen = name.len;
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `count` messages point to names and vectors that live in this frame, and the
    // vectors to bytes that the caller borrows and the kernel only reads.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            messages.as_mut_ptr(),
            count as u32,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    match usize::try_from(sent) {
        Ok(sent) => Ok(sent),
        Err(_) => match io::Error::last_os_error() {
            error if is_lull(&error) => Ok(0),
            error => Err(error),
        },
    }
}

/// Receives all waiting datagrams, each into its own part of `room` of `slot_bytes`. Each one's sender and bytes are
/// appended to `into`. Returns how many there were.
pub fn receive_many(
    socket: impl AsFd,
    room: &mut [u8],
    slot_bytes: usize,
    into: &mut Vec<(SocketAddr, Range<usize>)>,
) -> io::Result<usize> {
    let mut names = [Name::room(); MAX_BATCH];
    let mut vectors = [NO_VECTOR; MAX_BATCH];
    let mut messages = no_messages();
    let mut count = 0;
    let slots = names.iter_mut().zip(&mut vectors).zip(&mut messages);
    for (((name, vector), message), slot) in slots.zip(room.chunks_exact_mut(slot_bytes)) {
        *vector = libc::iovec {
            iov_base: slot.as_mut_ptr().cast(),
            iov_len: slot.len(),
        };
        message.msg_hdr.msg_name = (&raw mut name.storage).cast();
        message.msg_hdr.msg_namelen = name.len;
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: the first `count` messages point to names and vectors that live in this frame, and the
    // vectors to parts of `room` that do not overlap and are exclusively borrowed.
    let got = unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            messages.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    let Ok(got) = usize::try_from(got) else {
        return match io::Error::last_os_error() {
            error if is_lull(&error) => Ok(0),
            error => Err(error),
        };
    };
    for (at, (message, name)) in messages.iter().zip(&names).take(got).enumerate() {
        let truncated = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        let start = at * slot_bytes;
        let end = start + (message.msg_len as usize).min(slot_bytes);
        if let Some(from) = name.address().filter(|_| !truncated) {
            into.push((from, start..end));
        }
    }
    Ok(got)
}

fn is_lull(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::INTR)
    )
}

/// Why a datagram was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryError {
    /// The receiver's host reports that no socket is bound there.
    PortUnreachable,
    /// It was too large for a part of the way.
    TooLarge,
    /// Anything else that may be over soon.
    Other,
}

impl DeliveryError {
    /// What an error of sending or receiving means.
    pub fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::CONNREFUSED) => Self::PortUnreachable,
            Some(Errno::MSGSIZE) => Self::TooLarge,
            _ => Self::Other,
        }
    }
}

/// How much of a datagram a report brings back.
const FRONT_BYTES: usize = 64;

/// Room for the extended error and the address behind it.
const CONTROL_BYTES: usize = 256;

/// Control data as the kernel wants it aligned.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// A report on a datagram that this socket sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Where it was sent; `None` for datagrams that the kernel itself refused, of which it does not
    /// report the address.
    pub to: Option<SocketAddr>,
    /// Why it was not delivered.
    pub error: DeliveryError,
    /// Its first bytes.
    front: [u8; FRONT_BYTES],
    front_len: usize,
}

impl Report {
    /// The beginning of the datagram, as far as it is known; a forged report cannot have it.
    pub fn front(&self) -> &[u8] {
        self.front.get(..self.front_len).unwrap_or_default()
    }
}

/// Takes the oldest report on a datagram that this socket sent.
pub fn take_report(socket: impl AsFd) -> io::Result<Option<Report>> {
    let mut name = Name::room();
    let mut front = [0_u8; FRONT_BYTES];
    let mut vector = libc::iovec {
        iov_base: front.as_mut_ptr().cast(),
        iov_len: front.len(),
    };
    let mut control = MaybeUninit::new(Control([0; CONTROL_BYTES]));
    // SAFETY: all zeros is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw mut name.storage).cast();
    message.msg_namelen = name.len;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: `message` points to a name, a vector and control data of the sizes that it says; all live
    // in this frame.
    let got = unsafe {
        libc::recvmsg(
            socket.as_fd().as_raw_fd(),
            &raw mut message,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    let Ok(got) = usize::try_from(got) else {
        return match io::Error::last_os_error() {
            error if is_lull(&error) => Ok(None),
            error => Err(error),
        };
    };
    let errno = extended_errno(&message);
    let error = DeliveryError::of(&io::Error::from_raw_os_error(errno));
    Ok(Some(Report {
        to: name.address(),
        error,
        front,
        front_len: got.min(FRONT_BYTES),
    }))
}

fn extended_errno(message: &libc::msghdr) -> i32 {
    // SAFETY: the kernel has filled the control data that `message` names, which still lives; the
    // macros walk it by the lengths that it wrote.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: as above, `at` points to a header inside the control data.
        let header = unsafe { &*at };
        let is_error = matches!(
            (header.cmsg_level, header.cmsg_type),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        );
        if is_error {
            // SAFETY: the data of such a header begins with a `sock_extended_err`, which begins with
            // the error number; it may be unaligned.
            return unsafe { libc::CMSG_DATA(at).cast::<u32>().read_unaligned() } as i32;
        }
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    0
}

/// The owner of the one socket of this host that receives datagrams to exactly `address`; `None` if
/// there is none, or more than one. By the kernel's table in /proc.
pub fn owner(address: SocketAddr) -> io::Result<Option<Owner>> {
    let path = match address {
        SocketAddr::V4(_) => "/proc/net/udp",
        SocketAddr::V6(_) => "/proc/net/udp6",
    };
    // The kernel writes the table in parts. One that changes meanwhile may lack an entry or have it
    // twice, so a socket that was not found is searched for again.
    for _ in 1..TABLE_READINGS {
        if let Some(owner) = find_owner(&std::fs::read_to_string(path)?, address) {
            return Ok(Some(owner));
        }
    }
    Ok(find_owner(&std::fs::read_to_string(path)?, address))
}

/// How often the kernel's table is read for a socket before it counts as absent.
const TABLE_READINGS: u32 = 4;

fn find_owner(table: &str, address: SocketAddr) -> Option<Owner> {
    let local = crate::net::notation(address);
    let mut found = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != local {
            return None;
        }
        // Remote address, state, queues, timer, retransmissions; then the user.
        let uid = fields.nth(5)?.parse().ok()?;
        let inode: u64 = fields.nth(1)?.parse().ok()?;
        Some(Owner { uid, inode })
    });
    let only = found.next().filter(|owner| owner.inode != 0)?;
    found.all(|again| again == only).then_some(only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{holder_of, local_address};

    fn pair(address: &str) -> (OwnedFd, SocketAddr, OwnedFd, SocketAddr) {
        let one = bind(&address.parse().unwrap()).unwrap();
        let other = bind(&address.parse().unwrap()).unwrap();
        let (a, b) = (local_address(&one).unwrap(), local_address(&other).unwrap());
        (one, a, other, b)
    }

    #[test]
    fn many_datagrams_travel_in_one_call() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (one, a, other, b) = pair(address);
            let datagrams: Vec<Vec<u8>> = (0..10).map(|n| vec![n as u8; 100 * n]).collect();
            let batch: Vec<_> = datagrams.iter().map(|bytes| (b, &bytes[..])).collect();
            assert_eq!(send_many(&one, &batch).unwrap(), 10);
            let mut room = vec![0; 1000 * 6];
            let mut got = Vec::new();
            assert_eq!(receive_many(&other, &mut room, 1000, &mut got).unwrap(), 6);
            for ((from, range), sent) in got.drain(..).zip(&datagrams) {
                assert_eq!(from, a);
                assert_eq!(room[range], sent[..]);
            }
            // Bytes beyond the slot are left out.
            assert_eq!(receive_many(&other, &mut room, 700, &mut got).unwrap(), 4);
            assert_eq!(got.len(), 2);
            assert_eq!(receive_many(&other, &mut room, 700, &mut got).unwrap(), 0);
        }
    }

    #[test]
    fn undelivered_datagrams_are_reported() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (one, _, other, b) = pair(address);
            assert_eq!(take_report(&one).unwrap(), None);
            drop(other);
            assert_eq!(send_many(&one, &[(b, b"undelivered")]).unwrap(), 1);
            let report = take_report(&one).unwrap().unwrap();
            assert_eq!(
                (report.to, report.error),
                (Some(b), DeliveryError::PortUnreachable)
            );
            assert_eq!(report.front(), b"undelivered");
            assert_eq!(take_report(&one).unwrap(), None);
        }
    }

    /// The kernel reports a datagram that it finds too large itself without an address. An unread report would
    /// keep the socket's descriptor readable for ever.
    #[test]
    fn reports_without_an_address_are_taken_too() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (one, _, _other, b) = pair(address);
            // With IPv6's header it is larger than the loopback interface takes.
            let large = vec![0; 65_507];
            let sent = send_many(&one, &[(b, &large)]);
            assert_eq!(sent.is_ok(), b.is_ipv4());
            let mut end = [rustix::event::PollFd::new(
                &one,
                rustix::event::PollFlags::IN,
            )];
            let now = rustix::event::Timespec::default();
            while take_report(&one).unwrap().is_some() {}
            assert_eq!(rustix::event::poll(&mut end, Some(&now)).unwrap(), 0);
        }
    }

    /// Waits until a socket that was closed here is gone: the child that another test forks has all descriptors until it
    /// runs its program.
    fn until_released(mut is_gone: impl FnMut() -> bool) {
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !is_gone() {
            let now = std::time::Instant::now();
            assert!(now < limit, "the socket is still there");
        }
    }

    #[test]
    fn the_owner_of_a_socket_is_known() {
        use std::os::fd::AsRawFd;
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (one, a, other, _) = pair(address);
            let found = owner(a).unwrap().unwrap();
            assert_eq!(found.uid, rustix::process::geteuid().as_raw());
            let number = one.as_raw_fd() as u32;
            let holder = holder_of(found.inode, std::process::id(), number);
            assert_eq!(holder.map(|h| h.uid), Some(found.uid));
            drop(one);
            // Another test may have the port at once.
            until_released(|| owner(a).unwrap().map(|owner| owner.inode) != Some(found.inode));
            drop(other);
        }
    }

    #[test]
    fn the_direct_look_up_finds_the_same_owner_and_no_wildcards() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (_one, a, other, b) = pair(address);
            let mut owners = crate::net::Owners::default();
            let found = match owners.of_datagram_socket(a, b) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
                found => found.unwrap(),
            };
            assert_eq!(found, owner(b).unwrap());
            rustix::net::connect(&other, &a).unwrap();
            assert_eq!(owners.of_datagram_socket(a, b).unwrap(), found);
            drop(other);
            until_released(|| owners.of_datagram_socket(a, b).unwrap().is_none());
            let everywhere = match address.starts_with('[') {
                true => "[::]:0",
                false => "0.0.0.0:0",
            };
            let everywhere = bind(&everywhere.parse().unwrap()).unwrap();
            let port = local_address(&everywhere).unwrap().port();
            let reached = SocketAddr::new(a.ip(), port);
            assert_eq!(owners.of_datagram_socket(a, reached).unwrap(), None);
        }
    }

    #[test]
    fn a_socket_that_is_not_alone_has_no_owner() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             1: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 77 2 0 0\n\
             2: 0100007F:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 78 2 0 0\n\
             3: 0100007F:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000  1001        0 79 2 0 0\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (uid, inode) = (1000, 77);
        assert_eq!(find_owner(table, at(8080)), Some(Owner { uid, inode }));
        assert_eq!(find_owner(table, at(8081)), None);
        assert_eq!(find_owner(table, at(8082)), None);
    }

    #[test]
    fn the_mtu_to_the_own_host_is_large() {
        assert!(path_bytes(&"127.0.0.1:9".parse().unwrap()).unwrap() >= 1500);
    }
}
