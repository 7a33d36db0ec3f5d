//! Communicators: groups with a context of their own, and what programs attach to them (MPI 5.0 chapter 7).

use std::sync::Arc;

use causeway_engine::types::Addr;

use crate::abi;
use crate::attributes::Attributes;
use crate::ending::statement::Ending;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::matching::MpiPattern;
use crate::node::state::Node;

/// The purposes of a communicator's messages. Each has a context of its own, so that receives for one do not match messages for
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Channel {
    /// Messages of the program.
    Messages = 0,
    /// Collective operations.
    Collectives = 1,
    /// Making communicators of a part of the processes.
    Creation = 2,
    /// Descriptions of partitioned messages for their receivers, and the partitions.
    Partitioned = 5,
    Partitions = 6,
}

impl Channel {
    /// The context in which processes that give up an operation notify the others: 3 for collective operations, 4 for
    /// communicators that are being made.
    pub(crate) fn failures(self) -> u32 {
        self as u32 + 2
    }
}

/// How many contexts each communicator has.
pub(crate) const CONTEXTS: u32 = 7;
/// The number that stands for no communicator: processes that have none in common use its contexts to make one.
pub(crate) const NONE: u32 = 2;
/// The first communicator number that is free: those before are `MPI_COMM_WORLD`'s, `MPI_COMM_SELF`'s and no communicator's.
pub(crate) const FIRST_FREE: u32 = 3;
/// Upper bound of communicator numbers.
pub(crate) const MOST: u32 = u32::MAX / CONTEXTS;

/// How to reach a process: the address for messages to it, and the matcher's number of messages from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) addr: Addr,
    pub(crate) number: u32,
    /// The communicator's first context at that process: each process numbers its communicators itself.
    pub(crate) context: u32,
}

/// A communicator.
#[derive(Debug, Clone)]
pub struct Communicator {
    /// This process's number of it; contexts are derived from it.
    pub(crate) number: u32,
    /// This process's rank in the local group.
    pub(crate) rank: u32,
    pub(crate) local: Arc<Group>,
    /// The other group, if it is an inter-communicator.
    pub(crate) remote: Option<Arc<Group>>,
    /// Whether the local group of an inter-communicator comes before the remote one where both are counted.
    pub(crate) is_first: bool,
    /// The processes to which messages are sent, by rank.
    pub(crate) peers: Arc<[Peer]>,
    /// All processes, for collective operations: the peers, and behind them the local group of an inter-communicator.
    pub(crate) everyone: Arc<[Peer]>,
    /// Collective operations so far: each has a number, and its messages have a tag made of that.
    pub(crate) collectives: u64,
    /// The same for persistent operations.
    pub(crate) kept_collectives: u32,
    pub(crate) name: Vec<u8>,
    /// Attributes, by key.
    pub(crate) attributes: Attributes,
    /// The handle of its error handler.
    pub(crate) error_handler: usize,
    pub(crate) info: Info,
    pub(crate) topology: Option<crate::topology::Topology>,
    /// The shared memory in which its processes do collective operations.
    pub(crate) node: Node,
    /// Which processes begin no more of them, and calls that this one has not begun.
    pub(crate) ending: Ending,
}

impl Communicator {
    /// One of these processes, whose ranks are those of the group.
    pub(crate) fn new(number: u32, rank: u32, local: Arc<Group>, peers: Arc<[Peer]>) -> Self {
        Self {
            number,
            rank,
            local,
            remote: None,
            is_first: true,
            everyone: Arc::clone(&peers),
            peers,
            collectives: 0,
            kept_collectives: 0,
            name: Vec::new(),
            attributes: Attributes::default(),
            error_handler: abi::ERRORS_ARE_FATAL,
            info: Info::default(),
            topology: None,
            node: Node::default(),
            ending: Ending::default(),
        }
    }

    /// The local group.
    pub fn group(&self) -> &Arc<Group> {
        &self.local
    }

    /// The remote group, if it is an inter-communicator.
    pub fn remote_group(&self) -> Option<&Arc<Group>> {
        self.remote.as_ref()
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The processes in the local group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.local.size()
    }

    /// The handle of its error handler.
    pub fn error_handler(&self) -> usize {
        self.error_handler
    }

    /// Sets its error handler; returns the one that was set.
    pub fn set_error_handler(&mut self, handler: usize) -> usize {
        std::mem::replace(&mut self.error_handler, handler)
    }

    /// Sets its name.
    pub fn set_name(&mut self, name: &[u8]) {
        self.name = name.to_vec();
    }

    /// Attributes of the program, by key.
    pub fn attributes(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// Sets its topology.
    pub fn set_topology(&mut self, topology: crate::topology::Topology) {
        self.topology = Some(topology);
    }

    /// Its hints.
    pub fn info(&mut self) -> &mut Info {
        &mut self.info
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its virtual topology.
    pub fn topology(&self) -> Option<&crate::topology::Topology> {
        self.topology.as_ref()
    }

    #[inline]
    pub(crate) fn context(&self, channel: Channel) -> u32 {
        self.number * CONTEXTS + channel as u32
    }

    /// Those that are sent to and received from.
    #[inline]
    pub(crate) fn others(&self) -> &Group {
        self.remote.as_ref().unwrap_or(&self.local)
    }

    /// The process with this rank, as one to send to or receive from.
    #[inline]
    pub(crate) fn peer(&self, rank: i32) -> Result<Peer> {
        match usize::try_from(rank)
            .ok()
            .and_then(|rank| self.peers.get(rank))
        {
            Some(peer) => Ok(*peer),
            None => Err(self.no_rank(rank)),
        }
    }

    #[cold]
    fn no_rank(&self, rank: i32) -> Error {
        let text = format!("rank {rank} in a communicator of {}", self.peers.len());
        Error::new(abi::ERR_RANK, text)
    }

    /// What a receive matches; `None` if it can match nothing.
    #[inline(always)]
    pub(crate) fn find_pattern(&self, source: i32, tag: i32) -> Option<MpiPattern> {
        let source = match source {
            abi::ANY_SOURCE => None,
            rank => Some(self.peers.get(usize::try_from(rank).ok()?)?.number),
        };
        let tag = match tag {
            abi::ANY_TAG => None,
            tag => Some(u32::try_from(tag).ok()?),
        };
        Some(MpiPattern {
            context: self.context(Channel::Messages),
            source,
            tag,
        })
    }

    /// The same, but an error states why a receive can match nothing.
    #[inline]
    pub(crate) fn pattern(&self, source: i32, tag: i32) -> Result<MpiPattern> {
        match self.find_pattern(source, tag) {
            Some(pattern) => Ok(pattern),
            None => Err(self.no_pattern(source, tag)),
        }
    }

    #[cold]
    fn no_pattern(&self, source: i32, tag: i32) -> Error {
        let peer = match source {
            abi::ANY_SOURCE => Ok(()),
            rank => self.peer(rank).map(drop),
        };
        let error = peer.and_then(|()| check_tag(tag).map(drop)).err();
        error.unwrap_or_else(|| self.no_rank(source))
    }

    /// The rank of the peer that the matcher knows by this number.
    pub(crate) fn rank_of_number(&self, process: u32) -> i32 {
        let rank = self.others().rank_of(process);
        rank.map_or(abi::ANY_SOURCE, |rank| rank as i32)
    }
}

/// A tag that messages can have.
#[inline]
pub(crate) fn check_tag(tag: i32) -> Result<u32> {
    u32::try_from(tag).map_err(|_| Error::new(abi::ERR_TAG, format!("the tag {tag} is negative")))
}
