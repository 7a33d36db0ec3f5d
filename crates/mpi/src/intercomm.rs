//! How two groups make an inter-communicator: groups of one program (MPI 5.0 §7.6), and groups of programs that were started separately
//! (§11.7 to §11.9).
//!
//! The processes of each group exchange their numbers of the new communicator and their addresses; the leaders exchange those of their
//! groups, and send them to their groups. Leaders have a communicator in common, or one calls at a port of the other. A program that is
//! started by another one's processes calls at a port of these.

use causeway_engine::Memory;
use causeway_wire::codec::{Reader, Wire};
use causeway_wire::contact::{Contact, LeaderMessage, MAX_TEXT, Member};

use crate::abi;
use crate::buffer::temporary;
use crate::collective::{Position, broadcast_by_tree, split};
use crate::communicator::{Channel, Peer};
use crate::creation::{allgather_values, allgather_words, peer_in_context};
use crate::error::{Error, Result};
use crate::exchange::{Exchange, WORDS};
use crate::group::Group;
use crate::ports::{CALLS, MOST_BYTES, Port, PortMessage, REPLIES};
use crate::process::{Active, Process};
use crate::process_table::Identity;
use crate::programs::Spawn;
use crate::schedule::Among;
use crate::steps::Steps;

/// How a leader reaches the other one.
#[derive(Debug)]
enum Other {
    /// By a communicator.
    Peer(Among),
    /// The other leader calls at this port.
    Caller(u32),
    /// This leader calls at a port.
    Called(Box<Port>),
    /// The other leader is rank 0 of programs that are to be started, and calls.
    Started(Box<Spawn>),
}

/// What a leader waits for.
#[derive(Debug)]
enum LeaderWait {
    /// The lengths of the leaders' messages.
    Lengths(Among, Memory, Memory),
    /// The other leader's message.
    Group(Memory),
    /// A call.
    Call(u32),
    /// The completion of the call; then a reply.
    Calling(u32, Peer),
    /// A reply.
    Reply(u32),
    /// The completion of the reply to this call.
    Replied(LeaderMessage),
}

/// The next step of a leader's exchange.
enum Next {
    Wait(LeaderWait, Active),
    /// The exchange is over: this result is sent to the group.
    Over(LeaderMessage),
}

/// The next operation of a group that makes an inter-communicator.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The processes exchange their numbers of the new communicator, and how long their contacts are.
    Sizes,
    /// They exchange their contacts.
    Contacts,
    /// The leader exchanges the groups with the other one. The other processes go on at once.
    LeaderExchange,
    /// The leader sends its group the head of its result, with the length of what follows.
    BroadcastLength,
    /// It sends what follows.
    Broadcast,
    Done,
}

/// Two groups that are making an inter-communicator.
#[derive(Debug)]
pub struct IntercommCreation {
    name: &'static str,
    local: Among,
    position: Position,
    leader: u32,
    communicator: usize,
    error_handler: usize,
    /// The processes of this process's group.
    group: Vec<u32>,
    /// The session that they come from.
    session: Option<usize>,
    /// The numbers that the group has exchanged, once they have arrived, and the memory for the addresses of all.
    exchanged: Exchange,
    contacts: Memory,
    /// How the leader reaches the other one; the error if that has failed.
    other: Option<Result<Other>>,
    wait: Option<LeaderWait>,
    /// The head of the leader's result for its group: bytes that follow, the error's class, and how many processes should be started.
    head: Memory,
    /// What follows the head: codes of processes that should be started, and the message.
    leader_message: Memory,
    stage: Stage,
    /// Whether the local group comes before the other one, unless their identities decide that.
    is_first: Option<bool>,
    /// The port that was opened for the processes that are started.
    port: Option<u32>,
    /// For each process that should be started, 0, or the class of the error.
    codes: Vec<i32>,
}

/// Words in the head of the leader's result.
const HEAD: usize = 3;

fn words_of(memory: &Memory) -> [u64; HEAD] {
    let bytes = memory.to_vec();
    let mut words = [0; HEAD];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
    }
    words
}

fn put_words(words: &[u64], memory: &Memory) {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    memory.copy_from(&Memory::from_vec(bytes));
}

fn no_valid_message() -> Error {
    Error::new(
        abi::ERR_INTERN,
        "the leader of the other group sent no valid message",
    )
}

impl Process {
    /// Begins to make an inter-communicator of the processes of `local` and those of another communicator, whose leader has
    /// the rank `remote_leader` in `peer`, which only the local leader reads.
    pub fn intercomm_create(
        &mut self,
        local: usize,
        leader: i32,
        (peer, remote_leader, tag): (usize, i32, i32),
    ) -> Result<IntercommCreation> {
        self.begin_intercomm(local, leader, "MPI_Intercomm_create", |process| {
            process
                .other_leader(peer, remote_leader, tag)
                .map(Other::Peer)
        })
    }

    /// Begins to make an inter-communicator with the group that calls at the port of this name; only the root uses the name.
    pub fn accept(
        &mut self,
        local: usize,
        root: i32,
        name: Option<&[u8]>,
    ) -> Result<IntercommCreation> {
        let opened = self.allow_connections(false);
        let mut creation = self.begin_intercomm(local, root, "MPI_Comm_accept", |process| {
            opened?;
            let name = name.ok_or_else(|| Error::new(abi::ERR_PORT, "the port has no name"))?;
            process.own_port(name).map(Other::Caller)
        })?;
        creation.is_first = Some(true);
        Ok(creation)
    }

    /// Begins to make an inter-communicator with the group that accepts calls at the port of this name.
    pub fn connect(
        &mut self,
        local: usize,
        root: i32,
        name: Option<&[u8]>,
    ) -> Result<IntercommCreation> {
        let opened = self.allow_connections(false);
        let mut creation = self.begin_intercomm(local, root, "MPI_Comm_connect", |_| {
            opened?;
            let name = name.ok_or_else(|| Error::new(abi::ERR_PORT, "the port has no name"))?;
            Ok(Other::Called(Box::new(Port::read(name)?)))
        })?;
        creation.is_first = Some(false);
        Ok(creation)
    }

    /// Begins to start programs and to make an inter-communicator with them. Only the root has the programs; if it cannot start them, it reports
    /// the reason.
    pub fn spawn(
        &mut self,
        local: usize,
        root: i32,
        what: Option<Result<Spawn>>,
    ) -> Result<IntercommCreation> {
        let opened = self.allow_connections(true);
        let mut creation = self.begin_intercomm(local, root, "MPI_Comm_spawn", |_| {
            opened?;
            let nothing = || Error::new(abi::ERR_ARG, "the root names no program");
            Ok(Other::Started(Box::new(what.ok_or_else(nothing)??)))
        })?;
        creation.is_first = Some(true);
        Ok(creation)
    }

    fn begin_intercomm(
        &mut self,
        local: usize,
        leader: i32,
        name: &'static str,
        other: impl FnOnce(&mut Self) -> Result<Other>,
    ) -> Result<IntercommCreation> {
        let communicator = self.communicator(local)?;
        if communicator.remote.is_some() {
            let text = "the communicator is an inter-communicator";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        // A rank out of range is an error here.
        communicator.peer(leader)?;
        let rank = communicator.rank();
        let other = (leader as u32 == rank).then(|| other(self));
        let group = Group::clone(&self.communicator(local)?.local);
        let among = self.among_all(local)?;
        let mut creation =
            self.new_intercomm((local, rank, leader as u32), among, other, &group)?;
        creation.name = name;
        Ok(creation)
    }

    /// The other group's leader.
    fn other_leader(&self, peer: usize, leader: i32, tag: i32) -> Result<Among> {
        let through = self.communicator(peer)?;
        Ok(Among {
            channel: Channel::Creation,
            context: through.context(Channel::Creation),
            tag: crate::communicator::check_tag(tag)?,
            peers: [through.peer(leader)?].into(),
        })
    }

    /// Begins to make an inter-communicator of two groups that need not have a communicator in common. Only the local leader
    /// uses its arguments about the other group.
    pub fn intercomm_create_from_groups(
        &mut self,
        local: (&Group, i32),
        remote: Option<(&Group, i32)>,
        name: &[u8],
    ) -> Result<IntercommCreation> {
        let (group, leader) = local;
        group.member(leader)?;
        let rank = self.rank_in(group)?;
        let other = match remote {
            Some((remote, leader)) => {
                let leader = Group::new(vec![remote.member(leader)?]);
                Some(self.among_group(&leader, name).map(Other::Peer))
            }
            None => None,
        };
        let among = self.among_group(group, name)?;
        self.new_intercomm((abi::COMM_SELF, rank, leader as u32), among, other, group)
    }

    fn new_intercomm(
        &mut self,
        (communicator, rank, leader): (usize, u32, u32),
        local: Among,
        other: Option<Result<Other>>,
        group: &Group,
    ) -> Result<IntercommCreation> {
        let size = group.size();
        let nothing = || temporary(0);
        Ok(IntercommCreation {
            name: "MPI_Intercomm_create",
            error_handler: self.communicator(communicator)?.error_handler,
            position: Position { rank, size },
            exchanged: Exchange {
                communicator,
                number: self.number()?,
                memory: temporary(size as usize * WORDS * 8)?,
                new: abi::COMM_NULL,
            },
            contacts: nothing()?,
            local,
            leader,
            communicator,
            session: group.session(),
            group: group.members().to_vec(),
            other,
            wait: None,
            head: temporary(HEAD * 8)?,
            leader_message: nothing()?,
            stage: Stage::Sizes,
            is_first: None,
            port: None,
            codes: Vec::new(),
        })
    }

    /// Starts the next operation, if there is one. `previous` is the outcome of the operation before.
    pub fn advance_intercomm(
        &mut self,
        creation: &mut IntercommCreation,
        previous: Result<()>,
    ) -> Result<Option<Active>> {
        if let Some(wait) = creation.wait.take() {
            return self
                .continue_leader_exchange(creation, wait, previous)
                .map(Some);
        }
        previous?;
        let mut steps = Steps::on(creation.communicator).called(creation.name);
        match creation.stage {
            Stage::Sizes => {
                creation.stage = Stage::Contacts;
                let own = self.process_table.own.to_bytes();
                let blocks = split(&creation.exchanged.memory, creation.position.size);
                let words = [creation.exchanged.number.into(), own.len() as i64, 0];
                allgather_words(&mut steps, creation.position, words, &blocks)?;
            }
            Stage::Contacts => {
                creation.stage = Stage::LeaderExchange;
                let own = Memory::from_vec(self.process_table.own.to_bytes());
                let exchanged = creation.exchanged.all();
                let position = creation.position;
                creation.contacts = allgather_values(&mut steps, position, &exchanged, 1, &own)?;
            }
            Stage::LeaderExchange if creation.other.is_some() => {
                creation.stage = Stage::BroadcastLength;
                return self.begin_leader_exchange(creation).map(Some);
            }
            Stage::LeaderExchange | Stage::BroadcastLength => {
                creation.stage = Stage::Broadcast;
                broadcast_by_tree(
                    &mut steps,
                    creation.position,
                    creation.leader,
                    &creation.head,
                );
            }
            Stage::Broadcast => {
                creation.stage = Stage::Done;
                let [len, ..] = words_of(&creation.head);
                if creation.position.rank != creation.leader {
                    if len > MOST_BYTES {
                        return Err(no_valid_message());
                    }
                    creation.leader_message = temporary(len as usize)?;
                }
                broadcast_by_tree(
                    &mut steps,
                    creation.position,
                    creation.leader,
                    &creation.leader_message,
                );
            }
            Stage::Done => return Ok(None),
        }
        Ok(Some(self.begin_among(steps, creation.local.clone())))
    }

    /// The addresses of the own group for other processes.
    fn local_members(&self, creation: &IntercommCreation) -> Result<Vec<Member>> {
        let bytes = creation.contacts.to_vec();
        let mut input = Reader::new(&bytes);
        let wrong = |what: String| {
            let text = format!("a process of the group sent a wrong description of itself: {what}");
            Error::new(abi::ERR_INTERN, text)
        };
        let member = |words: [i64; WORDS]| {
            let contact = Contact::decode(&mut input).map_err(|error| wrong(error.to_string()))?;
            let number = u32::try_from(words[0]).map_err(|_| wrong("no number".into()))?;
            Ok(Member { number, contact })
        };
        creation.exchanged.all().into_iter().map(member).collect()
    }

    /// Starts the exchange between the leaders of the two groups.
    fn begin_leader_exchange(&mut self, creation: &mut IntercommCreation) -> Result<Active> {
        let other = creation
            .other
            .take()
            .unwrap_or_else(|| Err(no_valid_message()));
        let begun = match other {
            Err(error) => Err(error),
            Ok(Other::Peer(among)) => self.exchange_lengths(creation, among),
            Ok(Other::Caller(port)) => {
                let (active, wait) =
                    self.await_port_message(PortMessage::Call(port), creation.communicator);
                Ok(Next::Wait(LeaderWait::Call(wait), active))
            }
            Ok(Other::Called(port)) => self.call_port(creation, &port),
            Ok(Other::Started(spawn)) => self.start_programs(creation, &spawn),
        };
        self.await_leader(creation, begun)
    }

    /// Returns the leader's next operation to wait for; after an error, it notifies its group.
    fn await_leader(
        &mut self,
        creation: &mut IntercommCreation,
        next: Result<Next>,
    ) -> Result<Active> {
        match next {
            Ok(Next::Wait(wait, active)) => {
                creation.wait = Some(wait);
                Ok(active)
            }
            Ok(Next::Over(message)) => self.end_leader_exchange(creation, Ok(message)),
            Err(error) => self.end_leader_exchange(creation, Err(error)),
        }
    }

    /// Ends the leaders' exchange: this leader sends its group the outcome.
    fn end_leader_exchange(
        &mut self,
        creation: &mut IntercommCreation,
        message: Result<LeaderMessage>,
    ) -> Result<Active> {
        if let Some(port) = creation.port.take() {
            self.close_port_with_tag(port);
            if message.is_err() {
                // The programs may call when it is too late.
                self.ports.keep_polling();
            }
        }
        let (message, class) = match message {
            Ok(LeaderMessage::Refused(why)) => (LeaderMessage::Refused(why), abi::ERR_PORT),
            Ok(message) => (message, abi::SUCCESS),
            Err(error) => {
                let why = error.text().chars().take(MAX_TEXT / 4).collect();
                let class = match (error.code(), creation.is_first) {
                    // No process listens at the port that was called.
                    (abi::ERR_PROC_ABORTED, Some(false)) => abi::ERR_PORT,
                    (code, _) => code,
                };
                (LeaderMessage::Refused(why), class)
            }
        };
        if class != abi::SUCCESS {
            creation.codes.fill(abi::ERR_SPAWN);
        }
        let codes = creation.codes.iter().flat_map(|code| code.to_ne_bytes());
        let mut bytes = Vec::from_iter(codes);
        bytes.extend(message.to_bytes());
        let words = [bytes.len(), class as usize, creation.codes.len()];
        put_words(&words.map(|word| word as u64), &creation.head);
        creation.leader_message = Memory::from_vec(bytes);
        creation.stage = Stage::BroadcastLength;
        let next = self.advance_intercomm(creation, Ok(()))?;
        next.ok_or_else(no_valid_message)
    }

    fn exchange_lengths(&mut self, creation: &IntercommCreation, other: Among) -> Result<Next> {
        let ours = LeaderMessage::Group(self.local_members(creation)?).to_bytes();
        let (lengths, ours) = (temporary(16)?, Memory::from_vec(ours));
        put_words(&[ours.len() as u64], &lengths.slice(8..16));
        let mut steps = Steps::on(creation.communicator).called(creation.name);
        steps.receive(0, lengths.slice(0..8));
        steps.send(0, lengths.slice(8..16));
        let active = self.begin_among(steps, other.clone());
        Ok(Next::Wait(
            LeaderWait::Lengths(other, lengths, ours),
            active,
        ))
    }

    fn exchange_groups(
        &mut self,
        creation: &IntercommCreation,
        (other, lengths, ours): (Among, Memory, Memory),
    ) -> Result<Next> {
        let [len, ..] = words_of(&lengths.slice(0..8));
        if len > MOST_BYTES {
            return Err(no_valid_message());
        }
        let theirs = temporary(len as usize)?;
        let mut steps = Steps::on(creation.communicator).called(creation.name);
        steps.receive(0, theirs.clone());
        steps.send(0, ours);
        let active = self.begin_among(steps, other);
        Ok(Next::Wait(LeaderWait::Group(theirs), active))
    }

    fn call_port(&mut self, creation: &IntercommCreation, port: &Port) -> Result<Next> {
        let own = &self.process_table.own;
        if (port.contact.world, port.contact.rank) == (own.world, own.rank)
            && !self.ports.open.contains(&port.tag)
        {
            let text = "this process has closed the port";
            return Err(Error::new(abi::ERR_PORT, text));
        }
        let process = self.add_process(&port.contact)?;
        let peer = self.peers[process as usize];
        let reply = self.ports.draw();
        let message = LeaderMessage::Call {
            reply,
            root: creation.leader,
            group: self.local_members(creation)?,
        };
        let active = self.send_port_message(peer.number, (CALLS, port.tag), &message)?;
        Ok(Next::Wait(LeaderWait::Calling(reply, peer), active))
    }

    fn start_programs(&mut self, creation: &mut IntercommCreation, spawn: &Spawn) -> Result<Next> {
        creation.codes = vec![abi::ERR_SPAWN; spawn.most()];
        let tag = self.ports.open();
        creation.port = Some(tag);
        let port = Port {
            tag,
            contact: self.process_table.own.clone(),
        };
        creation.codes = self.start_all(spawn, &port.name()?)?;
        let (active, wait) = self.await_port_message(PortMessage::Call(tag), creation.communicator);
        Ok(Next::Wait(LeaderWait::Call(wait), active))
    }

    /// Continues the leaders' exchange.
    fn continue_leader_exchange(
        &mut self,
        creation: &mut IntercommCreation,
        wait: LeaderWait,
        previous: Result<()>,
    ) -> Result<Active> {
        let next = match previous {
            Err(error) => Err(error),
            Ok(()) => self.leader_step(creation, wait),
        };
        let next = next.map_err(|error| match error.code() {
            abi::ERR_PORT if creation.port.is_some() => Error::new(abi::ERR_SPAWN, error.text()),
            _ => error,
        });
        self.await_leader(creation, next)
    }

    fn leader_step(&mut self, creation: &mut IntercommCreation, wait: LeaderWait) -> Result<Next> {
        match wait {
            LeaderWait::Lengths(other, lengths, ours) => {
                self.exchange_groups(creation, (other, lengths, ours))
            }
            LeaderWait::Group(theirs) => {
                let message = LeaderMessage::from_bytes(&theirs.to_vec()).map_err(|error| {
                    let text = format!("the message of the other group's leader: {error}");
                    Error::new(abi::ERR_INTERN, text)
                });
                message.map(Next::Over)
            }
            LeaderWait::Call(wait) => {
                let (message, from) = self
                    .take_port_message(wait)
                    .ok_or_else(no_valid_message)??;
                let LeaderMessage::Call { reply, group, .. } = message else {
                    let text = "the message that arrived at the port is no call";
                    return Err(Error::new(abi::ERR_PORT, text));
                };
                let ours = LeaderMessage::Group(self.local_members(creation)?);
                let active = self.send_port_message(from, (REPLIES, reply), &ours)?;
                Ok(Next::Wait(
                    LeaderWait::Replied(LeaderMessage::Group(group)),
                    active,
                ))
            }
            LeaderWait::Calling(reply, peer) => {
                let (active, wait) =
                    self.await_port_message(PortMessage::Reply(reply, peer), creation.communicator);
                Ok(Next::Wait(LeaderWait::Reply(wait), active))
            }
            LeaderWait::Reply(wait) => {
                let (message, _) = self
                    .take_port_message(wait)
                    .ok_or_else(no_valid_message)??;
                Ok(Next::Over(message))
            }
            LeaderWait::Replied(message) => Ok(Next::Over(message)),
        }
    }

    /// Makes the inter-communicator. Returns its handle.
    pub fn finish_intercomm(
        &mut self,
        creation: &IntercommCreation,
        handler: Option<usize>,
    ) -> Result<usize> {
        let [_, class, many] = words_of(&creation.head);
        let bytes = creation.leader_message.to_vec();
        let message = bytes.get(4 * many as usize..).unwrap_or_default();
        let message = LeaderMessage::from_bytes(message).map_err(|_| no_valid_message())?;
        let remote = match message {
            LeaderMessage::Group(group) => group,
            LeaderMessage::Refused(why) => {
                let class = i32::try_from(class).unwrap_or(abi::ERR_OTHER);
                return Err(Error::new(class, why).on(creation.communicator));
            }
            LeaderMessage::Call { .. } => return Err(no_valid_message()),
        };
        let remote = remote.iter().map(|member| {
            let process = self.add_process(&member.contact)?;
            let peer = self.peers[process as usize];
            Ok((process, peer_in_context(peer, member.number.into())?))
        });
        let remote = remote.collect::<Result<Vec<(u32, Peer)>>>()?;
        let local = creation.group.iter().zip(creation.exchanged.all());
        let local = local.map(|(process, words)| {
            Ok((
                *process,
                peer_in_context(self.peers[*process as usize], words[0])?,
            ))
        });
        let local = local.collect::<Result<Vec<(u32, Peer)>>>()?;
        if remote
            .iter()
            .any(|(process, _)| creation.group.contains(process))
        {
            let text = "the two groups have processes in common";
            return Err(Error::new(abi::ERR_COMM, text).on(creation.communicator));
        }
        let first = |all: &[(u32, Peer)]| -> Option<Identity> {
            let all = all.iter();
            all.filter_map(|(process, _)| self.process_table.identity(*process))
                .min()
        };
        let is_first = creation
            .is_first
            .unwrap_or_else(|| first(&local) < first(&remote));
        let handler = handler.unwrap_or(creation.error_handler);
        let remote = Some((&*remote, is_first));
        let new = self.add((creation.exchanged.number, handler), &local, remote)?;
        self.set_session(new, creation.session)
    }

    /// For each process that should be started, 0, or the class of the error.
    pub fn codes(&self, creation: &IntercommCreation) -> Vec<i32> {
        let [_, _, many] = words_of(&creation.head);
        let bytes = creation.leader_message.to_vec();
        let codes = bytes.chunks_exact(4).take(many as usize);
        let codes = codes.map(|four| four.try_into().map_or(abi::ERR_SPAWN, i32::from_ne_bytes));
        codes.collect()
    }
}
