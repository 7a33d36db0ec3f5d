//! Ports, at which processes of other programs call this one (MPI 5.0 §11.8.2), and messages that come before there is a
//! communicator to receive them in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;

use causeway_engine::Memory;
use causeway_engine::types::{OpId, Taken};
use causeway_wire::contact::{Contact, split_formats, with_formats};

use crate::abi;
use crate::communicator::{CONTEXTS, NONE, Peer};
use crate::error::{Error, Result};

/// The contexts of calls and of replies: no communicator has these.
pub(crate) const CALLS: u32 = NONE * CONTEXTS;
pub(crate) const REPLIES: u32 = CALLS + 1;
/// Most bytes of a call or a reply.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// The largest number of a port, a wait or a reply: it has to be a valid tag.
const LARGEST_NUMBER: u32 = i32::MAX as u32 - 1;
/// Prefix of the names of ports.
const PREFIX: &str = "causeway";

/// A port as its name describes it: the process, and which of its ports it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) tag: u32,
    pub(crate) contact: Contact,
}

impl Port {
    /// The port's name: as many of the addresses for other hosts as there is room for.
    pub(crate) fn name(&self) -> Result<String> {
        let Contact {
            world,
            rank,
            host,
            near,
            far,
            formats,
        } = &self.contact;
        let mut name = format!("{PREFIX};{};{world:x};{rank};{host};{near};", self.tag);
        let most = abi::MAX_PORT_NAME as usize - 1;
        for (at, address) in with_formats(*formats, far).split(',').enumerate() {
            let comma = if at > 0 { "," } else { "" };
            if name.len() + comma.len() + address.len() <= most {
                name.push_str(comma);
                name.push_str(address);
            }
        }
        if name.len() > most {
            let text = format!("the name of the port would have {} bytes", name.len());
            return Err(Error::new(abi::ERR_INTERN, text));
        }
        Ok(name)
    }

    /// Whether the process has certainly ended: it was on this host, and no process listens on its socket.
    pub(crate) fn is_gone(&self, host: &str) -> bool {
        let Some(path) = self.contact.near.strip_prefix("shm://") else {
            return false;
        };
        let gone = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
        let found = UnixStream::connect(path);
        self.contact.host == host && found.is_err_and(|error| gone.contains(&error.kind()))
    }

    /// The port of a name.
    pub(crate) fn read(name: &[u8]) -> Result<Self> {
        let wrong = || {
            let text = format!(
                "{:?} is no name that MPI_Open_port of this library has given",
                String::from_utf8_lossy(name)
            );
            Error::new(abi::ERR_PORT, text)
        };
        let read = || {
            let name = std::str::from_utf8(name).ok()?;
            let mut words = name.splitn(6, ';');
            if words.next()? != PREFIX {
                return None;
            }
            let tag = words.next()?.parse().ok()?;
            let world = u64::from_str_radix(words.next()?, 16).ok()?;
            let rank = words.next()?.parse().ok()?;
            let host = words.next()?.to_owned();
            // Paths may contain semicolons; network addresses do not.
            let (near, far) = words.next()?.rsplit_once(';')?;
            let near = near.to_owned();
            let (far, formats) = split_formats(far).ok()?;
            Some(Self {
                tag,
                contact: Contact {
                    world,
                    rank,
                    host,
                    near,
                    far,
                    formats,
                },
            })
        };
        read().ok_or_else(wrong)
    }
}

/// A call that has arrived, or is arriving.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) message: Taken,
    /// The caller, by its number in the engine.
    pub(crate) from: u32,
    pub(crate) bytes: u64,
}

/// The wait of a process for a message from a process of another program.
#[derive(Debug)]
pub(crate) struct PortWait {
    pub(crate) what: PortMessage,
    /// The communicator of the processes that wait for it with this one.
    pub(crate) group: usize,
    /// The message that is being received.
    pub(crate) incoming: Option<(OpId, Memory, u32)>,
    /// A message, and the number of its sender.
    pub(crate) received: Option<(Vec<u8>, u32)>,
}

/// The message that a process waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PortMessage {
    /// The next call at this port.
    Call(u32),
    /// The reply of this process under this tag.
    Reply(u32, Peer),
    /// A call that is refused as soon as its caller is identified.
    Refused,
}

/// All ports of a process.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// The ports that the program has opened.
    pub(crate) open: BTreeSet<u32>,
    last: u32,
    /// The program has opened ports: from then on calls must be processed, since those at closed ports are refused.
    is_asked: bool,
    pub(crate) calls: BTreeMap<u32, VecDeque<Call>>,
    pub(crate) waits: BTreeMap<u32, PortWait>,
}

impl Ports {
    /// Whether calls must be processed all the time.
    #[inline]
    pub(crate) fn are_asked(&self) -> bool {
        self.is_asked
    }

    /// Opens a port; returns its tag.
    pub(crate) fn open(&mut self) -> u32 {
        let tag = self.draw();
        self.open.insert(tag);
        tag
    }

    /// Has calls be processed all the time.
    pub(crate) fn keep_polling(&mut self) {
        self.is_asked = true;
    }

    /// A number that no open port, wait or awaited reply of this process has, and not 0. (The number of a reply that is awaited only once its call has
    /// been sent is not known here, but it is drawn again only after all others.)
    pub(crate) fn draw(&mut self) -> u32 {
        loop {
            self.last = self.last % LARGEST_NUMBER + 1;
            if !self.is_in_use(self.last) {
                return self.last;
            }
        }
    }

    fn is_in_use(&self, number: u32) -> bool {
        let mut waits = self.waits.values();
        self.open.contains(&number)
            || self.calls.contains_key(&number)
            || self.waits.contains_key(&number)
            || waits.any(|wait| matches!(wait.what, PortMessage::Reply(tag, _) if tag == number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_wire::formats::Formats;

    fn port(far: &str) -> Port {
        Port {
            tag: 7,
            contact: Contact {
                world: u64::MAX,
                rank: 3,
                host: "b/net:[1]/mnt:[2]".into(),
                near: "shm:///tmp/a;b".into(),
                far: far.into(),
                formats: Formats::only(1),
            },
        }
    }

    #[test]
    fn numbers_that_are_in_use_are_not_drawn_again() {
        let wait = |what| PortWait {
            what,
            group: abi::COMM_SELF,
            incoming: None,
            received: None,
        };
        let mut ports = Ports::default();
        assert_eq!((ports.open(), ports.draw()), (1, 2));
        ports.waits.insert(2, wait(PortMessage::Call(1)));
        ports.last = LARGEST_NUMBER - 1;
        let drawn = [(); 3].map(|()| ports.draw());
        assert_eq!(drawn, [LARGEST_NUMBER, 3, 4]);
    }

    #[test]
    fn names_are_read_as_they_were_written() {
        for far in ["", "tcp://10.0.0.1:1", "tcp://10.0.0.1:1,tcp://10.0.0.2:1"] {
            let name = port(far).name().expect("it is short");
            assert_eq!(Port::read(name.as_bytes()).expect("it is one"), port(far));
        }
    }

    #[test]
    fn names_state_formats_and_those_without_mean_the_first() {
        const NAME: &str = "causeway;7;ffffffffffffffff;3;b/net:[1]/mnt:[2];shm:///tmp/a;b;";
        let mut port = port("tcp://10.0.0.1:1");
        let unstated = format!("{NAME}tcp://10.0.0.1:1");
        assert_eq!(Port::read(unstated.as_bytes()).expect("it is one"), port);
        port.contact.formats = Formats {
            lowest: 2,
            highest: 3,
        };
        let stated = format!("{NAME}mpi://2-3,tcp://10.0.0.1:1");
        assert_eq!(port.name().expect("it is short"), stated);
        assert_eq!(Port::read(stated.as_bytes()).expect("it is one"), port);
    }

    #[test]
    fn names_have_as_many_addresses_as_fit() {
        let many = ["tcp://10.20.30.40:50000"; 100].join(",");
        let name = port(&many).name().expect("it is cut");
        assert!(name.len() < abi::MAX_PORT_NAME as usize);
        let read = Port::read(name.as_bytes()).expect("it is one");
        assert!(many.starts_with(&read.contact.far));
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            &b""[..],
            b"tag#0$description",
            b"causeway;1;2;3",
            b"causeway;x;1;2;h;;",
            b"causeway;1;1;2;h;;mpi://2-1",
            b"\xff",
        ] {
            let error = Port::read(name).expect_err("it is none");
            assert_eq!(error.code(), abi::ERR_PORT);
        }
    }
}
