//! Queries the kernel about one socket (`sock_diag(7)`): the result is exact, and the cost does not
//! depend on how many sockets there are.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::net::Owner;

const REQUEST_BYTES: usize = 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;

pub(crate) fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )?)
}

/// The protocols whose sockets can be queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The query names the socket's own address first.
    Tcp = 6,
    /// The query names a datagram: first its source, then its destination, which is the socket's own address.
    Udp = 17,
}

/// A socket that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketInfo {
    /// The address that it is bound to, which may be a wildcard.
    pub(crate) local: SocketAddr,
    pub(crate) owner: Owner,
}

/// The socket that a query finds; `None` if there is none, or no process holds it.
pub(crate) fn find(
    socket: &OwnedFd,
    protocol: Protocol,
    source: SocketAddr,
    destination: SocketAddr,
) -> io::Result<Option<SocketInfo>> {
    let request = request(protocol, source, destination);
    rustix::net::send(socket, &request, SendFlags::empty())?;
    let mut reply = [0_u8; 1024];
    // The kernel has replied before `send` returns.
    let (_, len) = rustix::net::recv(socket, &mut reply[..], RecvFlags::empty())?;
    parse(reply.get(..len).unwrap_or_default())
}

/// `nlmsghdr` and `inet_diag_req_v2`, which are in the machine's byte order except for the
/// addresses and ports.
fn request(protocol: Protocol, source: SocketAddr, destination: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]); // sequence, port id
    let family: u8 = if source.is_ipv4() { 2 } else { 10 };
    bytes.extend_from_slice(&[family, protocol as u8, 0, 0]); // no extensions, padding
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes()); // any state
    bytes.extend_from_slice(&source.port().to_be_bytes());
    bytes.extend_from_slice(&destination.port().to_be_bytes());
    for address in [source.ip(), destination.ip()] {
        match address {
            IpAddr::V4(v4) => {
                bytes.extend_from_slice(&v4.octets());
                bytes.extend_from_slice(&[0; 12]);
            }
            IpAddr::V6(v6) => bytes.extend_from_slice(&v6.octets()),
        }
    }
    bytes.extend_from_slice(&[0; 4]); // any interface
    bytes.extend_from_slice(&[0xff; 8]); // no cookie
    let mut request = [0; REQUEST_BYTES];
    request.copy_from_slice(&bytes);
    request
}

/// `nlmsghdr` and either `nlmsgerr` or `inet_diag_msg`, whose user id and inode are its last
/// two words.
fn parse(reply: &[u8]) -> io::Result<Option<SocketInfo>> {
    let word = |at: usize| {
        reply
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u32::from_ne_bytes)
            .ok_or(io::ErrorKind::UnexpectedEof)
    };
    let kind = (word(4)? & 0xffff) as u16;
    if kind == NLMSG_ERROR {
        let errno = Errno::from_raw_os_error((word(16)? as i32).wrapping_neg());
        return match errno {
            Errno::NOENT => Ok(None),
            other => Err(other.into()),
        };
    }
    if kind != SOCK_DIAG_BY_FAMILY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (uid, inode) = (word(16 + 64)?, word(16 + 68)?);
    let owner = Owner {
        uid,
        inode: inode.into(),
    };
    let local = local(reply).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((inode != 0).then_some(SocketInfo { local, owner }))
}

/// The socket's own address in an `inet_diag_msg`: its family, its port in the network's byte order, its address.
fn local(reply: &[u8]) -> Option<SocketAddr> {
    let family = *reply.get(16)?;
    let port = u16::from_be_bytes(*reply.get(20..)?.first_chunk()?);
    let address = reply.get(24..)?;
    let ip: IpAddr = match family {
        2 => address.first_chunk::<4>().copied()?.into(),
        _ => address.first_chunk::<16>().copied()?.into(),
    };
    Some(SocketAddr::new(ip, port))
}
