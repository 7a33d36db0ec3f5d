//! Datagram I/O of the operating system: the kernel's sockets and random numbers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use causeway_sys::datagram::{self, DeliveryError, MAX_BATCH};
use causeway_sys::fork::Owner;
use causeway_sys::{net, random};
use causeway_wire::datagram::{MAX_DATAGRAM_BYTES, PREFIX_BYTES, SAFE_DATAGRAM_BYTES};
use causeway_wire::tcp::Holder;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};

use super::core::Environment;
use super::datagram_io::{Arrival, Arrivals, Batch, DatagramIo};
use super::{Remote, SCHEME};
use crate::address::Address;
use crate::blocking::measure;
use crate::error::Error;
use crate::method::Identity;
use crate::resolve::{is_loopback, resolve};
use crate::trust::{is_accepted_user, user};

/// The size of datagrams between processes of one host. Larger ones would cost fewer system calls,
/// but the kernel's usual buffers hold few of them.
const LOOPBACK_BYTES: usize = 32 * 1024;

/// The headers of IPv6 (larger than those of IPv4) and UDP.
const HEADERS_BYTES: usize = 40 + 8;

/// Room for each received datagram: no peer may send larger ones.
const SLOT_BYTES: usize = LOOPBACK_BYTES;

/// Datagrams received in one round.
const RECEIVES_PER_ROUND: usize = 16;

/// Reports on datagrams that found no receiver, received per socket and round.
const REPORTS_PER_ROUND: usize = 64;

/// Most reports that are kept until the next poll; later ones are dropped.
const MOST_NOTICED: usize = 256;

/// Random numbers are drawn this many bytes at a time.
const RANDOM_BYTES: usize = 256;

/// The kernel's overflow group, for processes whose group is not known.
const NO_GROUP: u32 = 65534;

const _: () = assert!(SLOT_BYTES <= MAX_DATAGRAM_BYTES && RECEIVES_PER_ROUND <= MAX_BATCH);

struct Socket {
    descriptor: OwnedFd,
    address: SocketAddr,
}

/// See the module's page.
pub struct Sockets {
    epoll: OwnedFd,
    sockets: Vec<Socket>,
    random: Vec<u8>,
    /// Reports that were received, with the first bytes of the datagrams concerned.
    noticed: Vec<(Remote, DeliveryError, [u8; PREFIX_BYTES])>,
    came: Vec<(SocketAddr, std::ops::Range<usize>)>,
    /// The socket that is read first in the next round.
    first: usize,
    buffer_bytes: usize,
    owners: net::Owners,
    process: Owner,
}

impl Sockets {
    /// Without sockets yet.
    pub fn new() -> Result<Self, Error> {
        let system = |what: &str, source: io::Error| Error::System {
            what: what.to_owned(),
            source,
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| {
            system(
                "creating the epoll instance of the UDP method",
                error.into(),
            )
        })?;
        let mut this = Self {
            epoll,
            sockets: Vec::new(),
            random: Vec::new(),
            noticed: Vec::new(),
            came: Vec::new(),
            first: 0,
            buffer_bytes: usize::MAX,
            owners: net::Owners::default(),
            process: Owner::this_process().map_err(|error| system("preparing for forks", error))?,
        };
        // Once it has worked, drawing random numbers does not fail any more.
        this.draw()
            .map_err(|error| system("drawing random numbers", error))?;
        Ok(this)
    }

    fn draw(&mut self) -> io::Result<()> {
        self.random = random::bytes::<RANDOM_BYTES>()?.to_vec();
        Ok(())
    }

    /// Receives the kernel's reports on datagrams that were sent; returns whether there were any.
    fn take_reports(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.sockets.len() {
            for _ in 0..REPORTS_PER_ROUND {
                let Some(socket) = self.sockets.get(number) else {
                    break;
                };
                let Ok(Some(report)) = datagram::take_report(&socket.descriptor) else {
                    break;
                };
                any = true;
                // If the kernel itself refused a datagram, the send has reported that already.
                let Some(address) = report.to else { continue };
                let socket = number as u32;
                self.notice(Remote { socket, address }, report.error, report.front());
            }
        }
        any
    }

    fn notice(&mut self, to: Remote, kind: DeliveryError, datagram: &[u8]) {
        let front = datagram.first_chunk::<PREFIX_BYTES>();
        if let Some(front) = front.filter(|_| self.noticed.len() < MOST_NOTICED) {
            self.noticed.push((to, kind, *front));
        }
    }
}

impl Environment for Sockets {
    /// Both processes have to be of the same user.
    ///
    /// The kernel shows the owner of a socket at this moment, and the handshake that is in progress
    /// gives keys to the process that uses the port now. If another user's process gets the port
    /// later, it can neither read what is still sent to the port nor take part: it sees sealed
    /// segments, until the connection is found dead. One case remains: a process gives up the port
    /// between the handshake and this check, to a process of the right user. That process disowns
    /// the connection, which ends, unless the port changes hands once more before it is probed.
    fn verify(&mut self, remote: Remote, holder: Holder) -> Result<Identity, String> {
        let address = remote.address;
        if !is_loopback(address) {
            return Err(format!(
                "{address} is not on this host, and there is no cluster key"
            ));
        }
        let me = rustix::process::geteuid().as_raw();
        let is_accepted_user = |owner: &net::Owner| is_accepted_user(owner.uid, me);
        let ours = self.sockets.get(remote.socket as usize).map(|s| s.address);
        // The kernel's table, which can be long, is read only for callers that pass the quick
        // check.
        let quick = match ours {
            Some(ours) => self.owners.of_datagram_socket(ours, address).ok(),
            None => None,
        };
        let owner = match quick {
            Some(Some(owner)) if !is_accepted_user(&owner) => Ok(Some(owner)),
            Some(None) => Ok(None),
            _ => datagram::owner(address),
        };
        let owner = owner
            .map_err(|error| {
                format!("the kernel does not report the owner of the socket: {error}")
            })?
            .ok_or_else(|| format!("no process holds a socket at exactly {address}"))?;
        if !is_accepted_user(&owner) {
            return Err(format!(
                "the process at {address} belongs to {}, this one to user {me}; \
                 different users need a cluster key",
                user(owner.uid)
            ));
        }
        let confirmed = net::holder_of(owner.inode, holder.pid, holder.descriptor);
        Ok(Identity::SocketOf {
            pid: confirmed.map_or(0, |_| holder.pid as i32),
            uid: owner.uid,
            gid: confirmed.map_or(NO_GROUP, |process| process.gid),
        })
    }

    fn holder(&self, socket: u32) -> Holder {
        let socket = self.sockets.get(socket as usize);
        Holder {
            pid: std::process::id(),
            descriptor: socket.map_or(0, |s| s.descriptor.as_raw_fd().unsigned_abs()),
        }
    }

    fn datagram_bytes(&self, remote: Remote) -> usize {
        if is_loopback(remote.address) {
            return LOOPBACK_BYTES;
        }
        let path = datagram::path_bytes(&remote.address).unwrap_or(0);
        path.saturating_sub(HEADERS_BYTES)
            .clamp(SAFE_DATAGRAM_BYTES, LOOPBACK_BYTES)
    }

    fn random(&mut self, into: &mut [u8]) {
        for byte in into {
            if self.random.is_empty()
                && let Err(error) = self.draw()
            {
                // The kernel's random numbers do not fail once they have worked; there must be no
                // fallback to predictable ones.
                panic!("drawing random numbers: {error}");
            }
            *byte = self.random.pop().unwrap_or_default();
        }
    }
}

impl DatagramIo for Sockets {
    fn resolve(&self, address: &Address) -> Result<Vec<SocketAddr>, Error> {
        resolve(SCHEME, address)
    }

    fn bind(&mut self, address: SocketAddr) -> io::Result<(u32, SocketAddr)> {
        let descriptor = datagram::bind(&address)?;
        let address = net::local_address(&descriptor)?;
        let number = self.sockets.len();
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&self.epoll, &descriptor, data, epoll::EventFlags::IN)?;
        // By its own accounting, the kernel keeps about half of it.
        let kept = datagram::receive_buffer_bytes(&descriptor)? / 2;
        self.buffer_bytes = self.buffer_bytes.min(kept);
        self.sockets.push(Socket {
            descriptor,
            address,
        });
        Ok((number as u32, address))
    }

    fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    fn send(&mut self, batch: &mut Batch) {
        let mut failures = 0;
        while !batch.is_empty() {
            let unused = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            let mut room = [(unused, &[][..]); MAX_BATCH];
            let (mut first, mut count) = (None, 0);
            for (slot, (to, bytes)) in room.iter_mut().zip(batch.iter()) {
                if *first.get_or_insert(to.socket) != to.socket {
                    break;
                }
                *slot = (to.address, bytes);
                count += 1;
            }
            let datagrams = room.get(..count).unwrap_or_default();
            let Some(number) = first else { return };
            let Some(socket) = self.sockets.get(number as usize) else {
                let count = datagrams.len();
                batch.advance(count);
                continue;
            };
            match datagram::send_many(&socket.descriptor, datagrams) {
                Ok(0) => return,
                Ok(sent) => batch.advance(sent),
                Err(error) => {
                    let kind = DeliveryError::of(&error);
                    // An error of an earlier datagram is reported at the next call, whichever
                    // datagram that sends.
                    failures += 1;
                    if kind == DeliveryError::PortUnreachable && failures <= MAX_BATCH {
                        self.take_reports();
                        continue;
                    }
                    if let Some(&(address, bytes)) = datagrams.first() {
                        let socket = number;
                        self.notice(Remote { socket, address }, kind, bytes);
                    }
                    batch.advance(1);
                }
            }
        }
    }

    fn receive(&mut self, arrivals: &mut Arrivals) {
        if self.sockets.is_empty() {
            return;
        }
        if arrivals.room.is_empty() {
            // Fresh pages from the kernel, which cost nothing as long as no datagram arrives.
            arrivals.room = vec![0; RECEIVES_PER_ROUND * SLOT_BYTES];
        }
        let mut room = &mut arrivals.room[..];
        let mut base = 0;
        let mut failed = false;
        let count = self.sockets.len();
        for step in 0..count {
            let number = (self.first + step) % count;
            let Some(socket) = self.sockets.get(number) else {
                break;
            };
            self.came.clear();
            if room.len() < SLOT_BYTES {
                self.first = number;
                break;
            }
            let got = datagram::receive_many(&socket.descriptor, room, SLOT_BYTES, &mut self.came);
            let got = got.unwrap_or_else(|_| {
                failed = true;
                0
            });
            for (address, range) in self.came.drain(..) {
                let socket = number as u32;
                let range = base + range.start..base + range.end;
                let from = Remote { socket, address };
                arrivals.list.push(Arrival::Datagram(from, range));
            }
            base += got * SLOT_BYTES;
            room = room.get_mut(got * SLOT_BYTES..).unwrap_or_default();
        }
        if failed {
            self.take_reports();
        }
        // The first bytes of such datagrams are behind the last slot.
        arrivals.room.truncate(RECEIVES_PER_ROUND * SLOT_BYTES);
        for (to, kind, front) in self.noticed.drain(..) {
            let start = arrivals.room.len();
            arrivals.room.extend_from_slice(&front);
            let range = start..arrivals.room.len();
            match kind {
                DeliveryError::PortUnreachable => {
                    arrivals.list.push(Arrival::Unreachable(to, range))
                }
                DeliveryError::TooLarge => arrivals.list.push(Arrival::TooLarge(to, range)),
                DeliveryError::Other => {}
            }
        }
    }

    fn has_reports(&mut self) -> bool {
        self.take_reports() || !self.noticed.is_empty()
    }

    fn is_of_this_process(&self) -> bool {
        self.process.is_this_process()
    }

    fn pollable(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn wait(&mut self, most: Duration) -> Option<Duration> {
        let mut descriptor = [PollFd::new(&self.epoll, PollFlags::IN)];
        let most = Timespec::try_from(most).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        Some(measure(|| {
            // An interruption by a signal counts as being woken.
            let _ = rustix::event::poll(&mut descriptor, Some(&most));
        }))
    }
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses = self.sockets.iter().map(|socket| socket.address);
        f.debug_list().entries(addresses).finish()
    }
}
