//! How communicators are made and freed (MPI 5.0 §7.4).
//!
//! Each process numbers its communicators itself. Processes that make one together exchange their numbers, with
//! all other values that they need, and messages carry the receiver's number of the communicator. So there is
//! nothing to agree on, and several can be made at the same time, in any order.

use std::sync::Arc;

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::temporary;
use crate::collective::{Position, ring};
use crate::communicator::{CONTEXTS, Channel, Communicator, MOST, NONE, Peer};
use crate::ending::statement::Why;
use crate::error::{Error, Result};
use crate::exchange::{BYTES, Exchange, WORDS};
use crate::group::Group;
use crate::info::Info;
use crate::node::state::Node;
use crate::process::{Active, Process, State};
use crate::schedule::Among;
use crate::steps::Steps;

/// A process of a new communicator: its number in the program, and its peer.
type Member = (u32, Peer);

/// The peer for a process that has this number of the new communicator.
pub(crate) fn peer_in_context(peer: Peer, number: i64) -> Result<Peer> {
    let number = u32::try_from(number)
        .ok()
        .filter(|number| *number < MOST)
        .ok_or_else(|| Error::new(abi::ERR_INTERN, "a process sent a wrong number"))?;
    Ok(Peer {
        context: number * CONTEXTS,
        ..peer
    })
}

/// Steps that send the words of each process to all others, round a ring.
pub(crate) fn allgather_words(
    steps: &mut Steps,
    position: Position,
    words: [i64; WORDS],
    blocks: &[Memory],
) -> Result<()> {
    let own = Memory::from_vec(words.iter().flat_map(|word| word.to_ne_bytes()).collect());
    let mine = blocks.get(position.rank as usize);
    let mine = mine.ok_or_else(|| Error::new(abi::ERR_INTERN, "no place for a process"))?;
    steps.copy(&own, mine);
    ring(steps, position, blocks, mine);
    Ok(())
}

/// Steps that send all processes values of `size` bytes; the first word that a process has sent before is the number of its
/// values. Returns the memory that has those of all processes in the end.
pub(crate) fn allgather_values(
    steps: &mut Steps,
    position: Position,
    exchanged: &[[i64; WORDS]],
    size: usize,
    own: &Memory,
) -> Result<Memory> {
    let wrong = || Error::new(abi::ERR_INTERN, "a process sent a wrong length");
    let lengths = exchanged.iter().map(|words| {
        let many = usize::try_from(words[1]).ok()?;
        many.checked_mul(size)
    });
    let lengths = lengths.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    let total = lengths
        .iter()
        .try_fold(0usize, |sum, len| sum.checked_add(*len));
    let memory = temporary(total.ok_or_else(wrong)?)?;
    let mut at = 0;
    let blocks = Vec::from_iter(lengths.iter().map(|len| {
        at += len;
        memory.slice(at - len..at)
    }));
    let mine = blocks.get(position.rank as usize);
    let mine = mine
        .filter(|mine| mine.len() == own.len())
        .ok_or_else(wrong)?;
    steps.copy(own, mine);
    ring(steps, position, &blocks, mine);
    Ok(memory)
}

impl Process {
    /// A number for a new communicator.
    pub(crate) fn number(&mut self) -> Result<u32> {
        let number = self.next_number;
        if number >= MOST {
            let text = "all communicator numbers are used";
            return Err(Error::new(abi::ERR_NO_MEM, text));
        }
        self.next_number = number + 1;
        Ok(number)
    }

    /// Starts to send all processes of a communicator this process's number of the new one and two values of the caller's. `name` is
    /// the program's call.
    pub fn start_exchange(
        &mut self,
        communicator: usize,
        values: [i64; 2],
        name: &'static str,
    ) -> Result<(Active, Exchange)> {
        let number = self.number()?;
        let positions = self.positions(communicator)?;
        let (position, rotation) = positions.all();
        let many = position.size as usize;
        let memory = temporary(many * BYTES)?;
        let blocks = Vec::from_iter((0..many).map(|rank| {
            let at = (rank + rotation.0 as usize) % many * BYTES;
            memory.slice(at..at + BYTES)
        }));
        let mut steps = Steps::on(communicator).called(name);
        steps.rotate(rotation);
        let words = [number.into(), values[0], values[1]];
        allgather_words(&mut steps, position, words, &blocks)?;
        let exchanged = Exchange {
            communicator,
            number,
            memory,
            new: abi::COMM_NULL,
        };
        Ok((self.begin(steps)?, exchanged))
    }

    /// Starts to send the same to the processes of a group.
    fn exchange_among(
        &mut self,
        (communicator, rank): (usize, u32),
        among: Among,
        values: [i64; 2],
    ) -> Result<(Active, Exchange)> {
        let number = self.number()?;
        let size = among.peers.len() as u32;
        let memory = temporary(size as usize * BYTES)?;
        let blocks = crate::collective::split(&memory, size);
        let mut steps = Steps::on(communicator).called("making a communicator");
        let words = [number.into(), values[0], values[1]];
        allgather_words(&mut steps, Position { rank, size }, words, &blocks)?;
        let exchanged = Exchange {
            communicator,
            number,
            memory,
            new: abi::COMM_NULL,
        };
        Ok((self.begin_among(steps, among), exchanged))
    }

    /// Starts to send all processes numbers; the first value that a process has sent before is the number of its numbers. Returns the memory
    /// that has those of all processes in the end.
    pub fn exchange_numbers(
        &mut self,
        exchanged: &Exchange,
        numbers: &[i32],
    ) -> Result<(Active, Memory)> {
        let position = self.position(exchanged.communicator)?;
        let own = Memory::from_vec(numbers.iter().flat_map(|one| one.to_ne_bytes()).collect());
        let mut steps = Steps::on(exchanged.communicator).called("making a communicator");
        let all = allgather_values(&mut steps, position, &exchanged.all(), 4, &own)?;
        Ok((self.begin(steps)?, all))
    }

    /// The processes of a communicator with the values that they have sent: the local processes, and the remote ones.
    #[expect(clippy::type_complexity, reason = "it has no use elsewhere")]
    fn members(
        &self,
        exchanged: &Exchange,
    ) -> Result<(Vec<(Member, [i64; WORDS])>, Vec<(Member, [i64; WORDS])>)> {
        let parent = self.communicator(exchanged.communicator)?;
        let remote = parent.remote.iter().flat_map(|group| group.members());
        let processes = remote.chain(parent.local.members());
        let all = processes.zip(parent.everyone.iter()).zip(exchanged.all());
        let mut remote = all
            .map(|((process, peer), words)| {
                Ok(((*process, peer_in_context(*peer, words[0])?), words))
            })
            .collect::<Result<Vec<_>>>()?;
        let local = remote.split_off(
            parent
                .remote
                .as_ref()
                .map_or(0, |group| group.size() as usize),
        );
        Ok((local, remote))
    }

    /// Adds a communicator. `remote` has the other group of an inter-communicator, and whether the local one comes first
    /// where both are counted.
    pub(crate) fn add(
        &mut self,
        (number, error_handler): (u32, usize),
        local: &[Member],
        remote: Option<(&[Member], bool)>,
    ) -> Result<usize> {
        let group = |members: &[Member]| {
            Arc::new(Group::new(
                members.iter().map(|(process, _)| *process).collect(),
            ))
        };
        let peers = |members: &[Member]| Vec::from_iter(members.iter().map(|(_, peer)| *peer));
        let own = group(local);
        let rank = own.rank_of(self.rank).unwrap_or(0);
        let mut new = Communicator::new(number, rank, own, peers(local).into());
        new.error_handler = error_handler;
        if let Some((members, is_first)) = remote {
            let mut everyone = peers(members);
            new.peers = everyone.clone().into();
            everyone.extend(peers(local));
            new.everyone = everyone.into();
            new.remote = Some(group(members));
            new.is_first = is_first;
        }
        self.communicators.insert(new)
    }

    /// Notes the session of a new communicator, if it has one; returns its handle.
    pub(crate) fn set_session(&mut self, new: usize, session: Option<usize>) -> Result<usize> {
        let local = &mut self.communicators.get_mut(new)?.local;
        if local.session() != session {
            *local = Arc::new(Group::clone(local).of_session(session));
        }
        Ok(new)
    }

    /// Adds a communicator of processes of another one.
    fn add_below(
        &mut self,
        exchanged: &Exchange,
        local: &[Member],
        remote: &[Member],
    ) -> Result<usize> {
        let parent = self.communicator(exchanged.communicator)?;
        let (handler, is_first) = (parent.error_handler, parent.is_first);
        let remote = parent.remote.is_some().then_some((remote, is_first));
        let session = parent.local.session();
        let new = self.add((exchanged.number, handler), local, remote)?;
        self.set_session(new, session)
    }

    /// Starts to make a communicator of the same processes, which can be used when that is done. The caller copies name and
    /// attributes.
    pub fn duplicate(
        &mut self,
        communicator: usize,
        name: &'static str,
    ) -> Result<(Active, Exchange)> {
        let (mut active, mut exchanged) = self.start_exchange(communicator, [0; 2], name)?;
        exchanged.new = self.add_duplicate(communicator, exchanged.number)?;
        if let State::Schedule(schedule) = active.state {
            active.state = State::Creation(schedule, Box::new(exchanged.clone()));
        }
        Ok((active, exchanged))
    }

    /// Adds a duplicate that this process knows by a number. It can be used when all processes have sent their numbers of it
    /// ([`Process::finish_creation`]).
    pub(crate) fn add_duplicate(&mut self, communicator: usize, number: u32) -> Result<usize> {
        let parent = self.communicator(communicator)?;
        let mut new = Communicator {
            number,
            ..parent.clone()
        };
        (new.collectives, new.kept_collectives) = (0, 0);
        new.attributes.clear();
        // Since MPI 4.0, hints are not passed on.
        new.info = Info::default();
        new.node = Node::default();
        new.name.clear();
        self.communicators.insert(new)
    }

    /// Makes a communicator of the same processes, which have all sent their numbers.
    pub(crate) fn duplicate_by(&mut self, exchanged: &Exchange) -> Result<usize> {
        let (local, _) = self.members(exchanged)?;
        let local = Vec::from_iter(local.into_iter().map(|(member, _)| member));
        self.add_below(exchanged, &local, &[])
    }

    /// Makes a duplicate usable: all processes have sent their numbers of it.
    pub(crate) fn finish_creation(&mut self, exchanged: &Exchange) -> Result<()> {
        self.finish_duplicate(exchanged.new, exchanged.all().iter().map(|words| words[0]))
    }

    /// Sets the numbers of a duplicate that the processes have sent, which are in the order of the communicator's
    /// `everyone`.
    pub(crate) fn finish_duplicate(
        &mut self,
        new: usize,
        numbers: impl Iterator<Item = i64>,
    ) -> Result<()> {
        let new = self.communicators.get_mut(new)?;
        let all = new.everyone.iter().zip(numbers);
        let everyone = all.map(|(peer, number)| peer_in_context(*peer, number));
        new.everyone = everyone.collect::<Result<_>>()?;
        new.peers = match &new.remote {
            None => Arc::clone(&new.everyone),
            Some(group) => new.everyone[..group.size() as usize].into(),
        };
        Ok(())
    }

    /// Makes a communicator of the processes with the same colour, in the order of their keys: these are the two values that were sent. `None`
    /// for those whose colour is `MPI_UNDEFINED`, and for those of an inter-communicator with no process of the same colour in the other group.
    pub fn split(&mut self, exchanged: &Exchange) -> Result<Option<usize>> {
        let (local, remote) = self.members(exchanged)?;
        let parent = self.communicator(exchanged.communicator)?;
        let (rank, is_inter) = (parent.rank as usize, parent.remote.is_some());
        let color = local[rank].1[1];
        if color == i64::from(abi::UNDEFINED) {
            return Ok(None);
        }
        let chosen = |mut all: Vec<(Member, [i64; WORDS])>| {
            all.retain(|(_, words)| words[1] == color);
            // The order of ranks is kept among equal keys.
            all.sort_by_key(|(_, words)| words[2]);
            Vec::from_iter(all.into_iter().map(|(member, _)| member))
        };
        let (local, remote) = (chosen(local), chosen(remote));
        if is_inter && remote.is_empty() {
            return Ok(None);
        }
        self.add_below(exchanged, &local, &remote).map(Some)
    }

    /// The two values that a process sends for [`Process::create`]: whether it is in the group, and its rank there.
    pub fn place_in(&self, group: &Group) -> [i64; 2] {
        match group.rank_of(self.rank) {
            Some(rank) => [1, rank.into()],
            None => [0; 2],
        }
    }

    /// Makes a communicator of a group of its processes. `None` for those that are not in it. Of an inter-communicator, each
    /// side has a group of its own.
    pub fn create(&mut self, exchanged: &Exchange, group: &Arc<Group>) -> Result<Option<usize>> {
        let (local, mut remote) = self.members(exchanged)?;
        let parent = self.communicator(exchanged.communicator)?;
        let is_inter = parent.remote.is_some();
        let ranks = group
            .members()
            .iter()
            .map(|member| parent.local.rank_of(*member));
        let ranks = ranks.collect::<Option<Vec<_>>>().ok_or_else(|| {
            let text = "the group has processes that the communicator does not have";
            Error::new(abi::ERR_GROUP, text)
        })?;
        remote.retain(|(_, words)| words[1] != 0);
        remote.sort_by_key(|(_, words)| words[2]);
        if group.rank_of(self.rank).is_none() || (is_inter && remote.is_empty()) {
            return Ok(None);
        }
        let local = Vec::from_iter(ranks.iter().map(|rank| local[*rank as usize].0));
        let remote = Vec::from_iter(remote.iter().map(|(member, _)| *member));
        self.add_below(exchanged, &local, &remote).map(Some)
    }

    /// Starts to make a communicator of a group of processes of another one, by these alone. The tag distinguishes several of them from
    /// each other.
    pub fn start_create_group(
        &mut self,
        communicator: usize,
        group: &Group,
        tag: i32,
    ) -> Result<(Active, Exchange)> {
        let tag = crate::communicator::check_tag(tag)?;
        let parent = self.communicator(communicator)?;
        if parent.remote.is_some() {
            let text = "the communicator is an inter-communicator";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        let peer = |member: &u32| Some(parent.peers[parent.local.rank_of(*member)? as usize]);
        let peers: Option<Arc<[Peer]>> = group.members().iter().map(peer).collect();
        let peers = peers.ok_or_else(|| {
            let text = "the group has processes that the communicator does not have";
            Error::new(abi::ERR_GROUP, text)
        })?;
        let among = Among {
            channel: Channel::Creation,
            context: parent.context(Channel::Creation),
            tag,
            peers,
        };
        let rank = self.rank_in(group)?;
        self.exchange_among((communicator, rank), among, [0; 2])
    }

    /// Starts to make a communicator of a group of processes that need not have a communicator in common.
    pub fn start_create_from_group(
        &mut self,
        group: &Group,
        name: &[u8],
    ) -> Result<(Active, Exchange)> {
        let among = self.among_group(group, name)?;
        let rank = self.rank_in(group)?;
        // Each process numbers other processes itself.
        let members = group.members().iter();
        let identities = members.filter_map(|member| self.process_table.identity(*member));
        let group = Vec::from_iter(identities.flat_map(|(world, rank)| {
            let bytes = [world.to_ne_bytes(), u64::from(rank).to_ne_bytes()];
            bytes.into_iter().flatten()
        }));
        let values = [hash(name), hash(&group)];
        self.exchange_among((abi::COMM_SELF, rank), among, values)
    }

    pub(crate) fn rank_in(&self, group: &Group) -> Result<u32> {
        let rank = group.rank_of(self.rank);
        rank.ok_or_else(|| Error::new(abi::ERR_GROUP, "this process is not in the group"))
    }

    /// The processes of a group that has no communicator.
    pub(crate) fn among_group(&self, group: &Group, name: &[u8]) -> Result<Among> {
        let reach = |member: &u32| {
            let peer = self.peers.get(*member as usize)?;
            Some(Peer {
                context: NONE * CONTEXTS,
                ..*peer
            })
        };
        let peers: Option<Arc<[Peer]>> = group.members().iter().map(reach).collect();
        Ok(Among {
            channel: Channel::Creation,
            context: NONE * CONTEXTS + Channel::Creation as u32,
            tag: hash(name) as u32 & i32::MAX as u32,
            peers: peers.ok_or_else(|| Error::new(abi::ERR_GROUP, "an unknown process"))?,
        })
    }

    /// Makes the communicator of a group whose processes have sent their numbers. Its error handler is that of `handler_of`,
    /// if that names one.
    pub fn create_of_group(
        &mut self,
        exchanged: &Exchange,
        group: &Group,
        handler: Option<usize>,
    ) -> Result<usize> {
        let all = exchanged.all();
        if let Some(other) = all.iter().position(|words| words[1..] != all[0][1..]) {
            let text = format!("ranks 0 and {other} give different groups or string tags");
            return Err(Error::new(abi::ERR_NOT_SAME, text));
        }
        let handler = match handler {
            Some(handler) => handler,
            None => self.communicator(exchanged.communicator)?.error_handler,
        };
        let members = group.members().iter().zip(all);
        let members = members.map(|(process, words)| {
            Ok((
                *process,
                peer_in_context(self.peers[*process as usize], words[0])?,
            ))
        });
        let members = members.collect::<Result<Vec<_>>>()?;
        let new = self.add((exchanged.number, handler), &members, None)?;
        self.set_session(new, group.session())
    }

    /// Makes one communicator of both groups of an inter-communicator; each process has sent whether its group is to come
    /// last.
    pub fn merge(&mut self, exchanged: &Exchange) -> Result<usize> {
        let (local, remote) = self.members(exchanged)?;
        let parent = self.communicator(exchanged.communicator)?;
        let (handler, session) = (parent.error_handler, parent.local.session());
        let first = |all: &[(Member, [i64; WORDS])]| all.first().map_or(0, |(_, words)| words[1]);
        let is_first = match (first(&local), first(&remote)) {
            (0, 1) => true,
            (1, 0) => false,
            _ => parent.is_first,
        };
        let (before, behind) = if is_first {
            (local, remote)
        } else {
            (remote, local)
        };
        let all = before.into_iter().chain(behind).map(|(member, _)| member);
        let new = self.add((exchanged.number, handler), &Vec::from_iter(all), None)?;
        self.set_session(new, session)
    }

    /// Fails if a communicator cannot be freed.
    pub fn check_freeable(&self, handle: usize) -> Result<()> {
        if matches!(handle, abi::COMM_WORLD | abi::COMM_SELF) {
            let text = "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        self.communicator(handle).map(drop)
    }

    /// Frees a communicator; returns its error handler.
    pub fn free_communicator(&mut self, handle: usize) -> Result<usize> {
        self.check_freeable(handle)?;
        if self.parent == Some(handle) {
            self.parent = None;
        }
        self.end_collectives(handle, Why::Freed);
        Ok(self.communicators.remove(handle)?.error_handler)
    }

    /// The host of this process, as a colour for [`Process::split`]: the same for processes that share memory, of whatever
    /// program.
    pub fn host(&self) -> i64 {
        hash(self.process_table.own.host.as_bytes()) & i64::MAX
    }

    /// `MPI_IDENT`, `MPI_CONGRUENT`, `MPI_SIMILAR` or `MPI_UNEQUAL`.
    pub fn compare(&self, a: usize, b: usize) -> Result<i32> {
        let (first, second) = (self.communicator(a)?, self.communicator(b)?);
        if a == b {
            return Ok(abi::IDENT);
        }
        let remote = match (&first.remote, &second.remote) {
            (None, None) => abi::IDENT,
            (Some(first), Some(second)) => first.compare(second),
            _ => abi::UNEQUAL,
        };
        Ok(match first.local.compare(&second.local).max(remote) {
            abi::IDENT => abi::CONGRUENT,
            other => other,
        })
    }
}

/// A number for bytes (FNV-1a), the same in every process.
fn hash(bytes: &[u8]) -> i64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step) as i64
}
