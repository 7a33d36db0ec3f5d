//! How two groups make an inter-communicator: groups of one program (MPI 5.0 §7.6), and groups of programs that were started separately
//! (§11.7 to §11.9).
//!
//! The processes of each group exchange their numbers of the new communicator and their addresses; the leaders exchange those of their
//! groups, and send them to their groups. Leaders have a communicator in common, or one calls at a port of the other. A program that is
//! started by another one's processes calls at a port of these.

use causeway_engine::Memory;
use causeway_wire::codec::{Reader, Wire};
use causeway_wire::contact::{Contact, MAX_TEXT, Meeting as Said, Member};

use crate::abi;
use crate::buffer::temporary;
use crate::collective::{Place, broadcast_by_tree, split};
use crate::communicator::{Channel, Peer};
use crate::contacts::Identity;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::making::{reached, telling, telling_more};
use crate::ports::{CALLS, MOST_BYTES, Port, REPLIES, What};
use crate::process::{Active, Process};
use crate::programs::Spawn;
use crate::schedule::Among;
use crate::steps::Steps;
use crate::told::{Told, WORDS};

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
enum Talk {
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
    Replied(Said),
}

/// The next step of a leader's exchange.
enum Next {
    Wait(Talk, Active),
    /// The exchange is over: this result is sent to the group.
    Over(Said),
}

/// Two groups that are making an inter-communicator.
#[derive(Debug)]
pub struct Meeting {
    name: &'static str,
    local: Among,
    place: Place,
    leader: u32,
    communicator: usize,
    error_handler: usize,
    /// The processes of this process's group.
    group: Vec<u32>,
    /// The session that they come from.
    session: Option<usize>,
    /// The numbers that the group has exchanged, once they have arrived, and the memory for the addresses of all.
    told: Told,
    contacts: Memory,
    /// How the leader reaches the other one; the error if that has failed.
    other: Option<Result<Other>>,
    talk: Option<Talk>,
    /// The head of the leader's result for its group: bytes that follow, the error's class, and how many processes should be started.
    head: Memory,
    answer: Memory,
    stage: u32,
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

fn said_nothing() -> Error {
    Error::new(
        abi::ERR_INTERN,
        "the leader of the other group has said nothing",
    )
}

impl Process {
    /// Begins to make an inter-communicator of the processes of `local` and those of another communicator, whose leader has
    /// the rank `remote_leader` in `peer`, which only the local leader reads.
    pub fn meet(
        &mut self,
        local: usize,
        leader: i32,
        (peer, remote_leader, tag): (usize, i32, i32),
    ) -> Result<Meeting> {
        self.meet_by(local, leader, "MPI_Intercomm_create", |process| {
            process
                .other_leader(peer, remote_leader, tag)
                .map(Other::Peer)
        })
    }

    /// Begins to make an inter-communicator with the group that calls at the port of this name; only the root uses the name.
    pub fn accept(&mut self, local: usize, root: i32, name: Option<&[u8]>) -> Result<Meeting> {
        let opened = self.open_up(false);
        let mut meeting = self.meet_by(local, root, "MPI_Comm_accept", |process| {
            opened?;
            let name = name.ok_or_else(|| Error::new(abi::ERR_PORT, "the port has no name"))?;
            process.own_port(name).map(Other::Caller)
        })?;
        meeting.is_first = Some(true);
        Ok(meeting)
    }

    /// Begins to make an inter-communicator with the group that accepts calls at the port of this name.
    pub fn connect(&mut self, local: usize, root: i32, name: Option<&[u8]>) -> Result<Meeting> {
        let opened = self.open_up(false);
        let mut meeting = self.meet_by(local, root, "MPI_Comm_connect", |_| {
            opened?;
            let name = name.ok_or_else(|| Error::new(abi::ERR_PORT, "the port has no name"))?;
            Ok(Other::Called(Box::new(Port::read(name)?)))
        })?;
        meeting.is_first = Some(false);
        Ok(meeting)
    }

    /// Begins to start programs and to make an inter-communicator with them. Only the root has the programs; if it cannot start them, it reports
    /// the reason.
    pub fn spawn(
        &mut self,
        local: usize,
        root: i32,
        what: Option<Result<Spawn>>,
    ) -> Result<Meeting> {
        let opened = self.open_up(true);
        let mut meeting = self.meet_by(local, root, "MPI_Comm_spawn", |_| {
            opened?;
            let nothing = || Error::new(abi::ERR_ARG, "the root says no program");
            Ok(Other::Started(Box::new(what.ok_or_else(nothing)??)))
        })?;
        meeting.is_first = Some(true);
        Ok(meeting)
    }

    fn meet_by(
        &mut self,
        local: usize,
        leader: i32,
        name: &'static str,
        other: impl FnOnce(&mut Self) -> Result<Other>,
    ) -> Result<Meeting> {
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
        let mut meeting = self.meeting((local, rank, leader as u32), among, other, &group)?;
        meeting.name = name;
        Ok(meeting)
    }

    /// The other group's leader.
    fn other_leader(&self, peer: usize, leader: i32, tag: i32) -> Result<Among> {
        let through = self.communicator(peer)?;
        Ok(Among {
            channel: Channel::Making,
            context: through.context(Channel::Making),
            tag: crate::communicator::check_tag(tag)?,
            peers: [through.peer(leader)?].into(),
        })
    }

    /// Begins to make an inter-communicator of two groups that need not have a communicator in common. Only the local leader
    /// uses its arguments about the other group.
    pub fn meet_strangers(
        &mut self,
        local: (&Group, i32),
        remote: Option<(&Group, i32)>,
        name: &[u8],
    ) -> Result<Meeting> {
        let (group, leader) = local;
        group.member(leader)?;
        let rank = self.rank_in(group)?;
        let other = match remote {
            Some((remote, leader)) => {
                let leader = Group::new(vec![remote.member(leader)?]);
                Some(self.strangers(&leader, name).map(Other::Peer))
            }
            None => None,
        };
        let among = self.strangers(group, name)?;
        self.meeting((abi::COMM_SELF, rank, leader as u32), among, other, group)
    }

    fn meeting(
        &mut self,
        (communicator, rank, leader): (usize, u32, u32),
        local: Among,
        other: Option<Result<Other>>,
        group: &Group,
    ) -> Result<Meeting> {
        let size = group.size();
        let nothing = || temporary(0);
        Ok(Meeting {
            name: "MPI_Intercomm_create",
            error_handler: self.communicator(communicator)?.error_handler,
            place: Place { rank, size },
            told: Told {
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
            talk: None,
            head: temporary(HEAD * 8)?,
            answer: nothing()?,
            stage: 0,
            is_first: None,
            port: None,
            codes: Vec::new(),
        })
    }

    /// Starts the next operation of a meeting, if there is one. `went` is the outcome of the operation before.
    pub fn go_on(&mut self, meeting: &mut Meeting, went: Result<()>) -> Result<Option<Active>> {
        if let Some(talk) = meeting.talk.take() {
            return self.talk(meeting, talk, went).map(Some);
        }
        went?;
        let stage = meeting.stage;
        meeting.stage += 1;
        let mut steps = Steps::on(meeting.communicator).called(meeting.name);
        match stage {
            0 => {
                let own = self.contacts.own.to_bytes();
                let blocks = split(&meeting.told.memory, meeting.place.size);
                let words = [meeting.told.number.into(), own.len() as i64, 0];
                telling(&mut steps, meeting.place, words, &blocks)?;
            }
            1 => {
                let own = Memory::from_vec(self.contacts.own.to_bytes());
                let told = meeting.told.all();
                let place = meeting.place;
                meeting.contacts = telling_more(&mut steps, place, &told, 1, &own)?;
            }
            2 if meeting.other.is_some() => return self.begin_talk(meeting).map(Some),
            2 | 3 => {
                meeting.stage = 4;
                broadcast_by_tree(&mut steps, meeting.place, meeting.leader, &meeting.head);
            }
            4 => {
                let [len, ..] = words_of(&meeting.head);
                if meeting.place.rank != meeting.leader {
                    if len > MOST_BYTES {
                        return Err(said_nothing());
                    }
                    meeting.answer = temporary(len as usize)?;
                }
                broadcast_by_tree(&mut steps, meeting.place, meeting.leader, &meeting.answer);
            }
            _ => return Ok(None),
        }
        Ok(Some(self.begin_among(steps, meeting.local.clone())))
    }

    /// The contacts of the own group for other processes.
    fn members_told(&self, meeting: &Meeting) -> Result<Vec<Member>> {
        let bytes = meeting.contacts.to_vec();
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
        meeting.told.all().into_iter().map(member).collect()
    }

    /// Starts the exchange between the leaders of the two groups.
    fn begin_talk(&mut self, meeting: &mut Meeting) -> Result<Active> {
        let other = meeting.other.take().unwrap_or_else(|| Err(said_nothing()));
        let begun = match other {
            Err(error) => Err(error),
            Ok(Other::Peer(among)) => self.tell_length(meeting, among),
            Ok(Other::Caller(port)) => {
                let (active, hearing) = self.hear(What::Call(port), meeting.communicator);
                Ok(Next::Wait(Talk::Call(hearing), active))
            }
            Ok(Other::Called(port)) => self.call(meeting, &port),
            Ok(Other::Started(spawn)) => self.start_programs(meeting, &spawn),
        };
        self.talking(meeting, begun)
    }

    /// Returns the leader's next operation to wait for; after an error, it notifies its group.
    fn talking(&mut self, meeting: &mut Meeting, next: Result<Next>) -> Result<Active> {
        match next {
            Ok(Next::Wait(talk, active)) => {
                meeting.talk = Some(talk);
                Ok(active)
            }
            Ok(Next::Over(said)) => self.end_talk(meeting, Ok(said)),
            Err(error) => self.end_talk(meeting, Err(error)),
        }
    }

    /// Ends the leaders' exchange: this leader sends its group the outcome.
    fn end_talk(&mut self, meeting: &mut Meeting, said: Result<Said>) -> Result<Active> {
        if let Some(port) = meeting.port.take() {
            self.shut_port(port);
            if said.is_err() {
                // The programs may call when it is too late.
                self.ports.be_asked();
            }
        }
        let (said, class) = match said {
            Ok(Said::Refused(why)) => (Said::Refused(why), abi::ERR_PORT),
            Ok(said) => (said, abi::SUCCESS),
            Err(error) => {
                let why = error.text().chars().take(MAX_TEXT / 4).collect();
                let class = match (error.code(), meeting.is_first) {
                    // No process listens at the port that was called.
                    (abi::ERR_PROC_ABORTED, Some(false)) => abi::ERR_PORT,
                    (code, _) => code,
                };
                (Said::Refused(why), class)
            }
        };
        if class != abi::SUCCESS {
            meeting.codes.fill(abi::ERR_SPAWN);
        }
        let codes = meeting.codes.iter().flat_map(|code| code.to_ne_bytes());
        let mut bytes = Vec::from_iter(codes);
        bytes.extend(said.to_bytes());
        let words = [bytes.len(), class as usize, meeting.codes.len()];
        put_words(&words.map(|word| word as u64), &meeting.head);
        meeting.answer = Memory::from_vec(bytes);
        meeting.stage = 3;
        let next = self.go_on(meeting, Ok(()))?;
        next.ok_or_else(said_nothing)
    }

    fn tell_length(&mut self, meeting: &Meeting, other: Among) -> Result<Next> {
        let ours = Said::Group(self.members_told(meeting)?).to_bytes();
        let (lengths, ours) = (temporary(16)?, Memory::from_vec(ours));
        put_words(&[ours.len() as u64], &lengths.slice(8..16));
        let mut steps = Steps::on(meeting.communicator).called(meeting.name);
        steps.receive(0, lengths.slice(0..8));
        steps.send(0, lengths.slice(8..16));
        let active = self.begin_among(steps, other.clone());
        Ok(Next::Wait(Talk::Lengths(other, lengths, ours), active))
    }

    fn tell_other_group(
        &mut self,
        meeting: &Meeting,
        (other, lengths, ours): (Among, Memory, Memory),
    ) -> Result<Next> {
        let [len, ..] = words_of(&lengths.slice(0..8));
        if len > MOST_BYTES {
            return Err(said_nothing());
        }
        let theirs = temporary(len as usize)?;
        let mut steps = Steps::on(meeting.communicator).called(meeting.name);
        steps.receive(0, theirs.clone());
        steps.send(0, ours);
        let active = self.begin_among(steps, other);
        Ok(Next::Wait(Talk::Group(theirs), active))
    }

    fn call(&mut self, meeting: &Meeting, port: &Port) -> Result<Next> {
        let own = &self.contacts.own;
        if (port.contact.world, port.contact.rank) == (own.world, own.rank)
            && !self.ports.open.contains(&port.tag)
        {
            let text = "this process has closed the port";
            return Err(Error::new(abi::ERR_PORT, text));
        }
        let process = self.learn(&port.contact)?;
        let peer = self.peers[process as usize];
        let reply = self.ports.draw();
        let said = Said::Call {
            reply,
            root: meeting.leader,
            group: self.members_told(meeting)?,
        };
        let active = self.say(peer.number, (CALLS, port.tag), &said)?;
        Ok(Next::Wait(Talk::Calling(reply, peer), active))
    }

    fn start_programs(&mut self, meeting: &mut Meeting, spawn: &Spawn) -> Result<Next> {
        meeting.codes = vec![abi::ERR_SPAWN; spawn.most()];
        let tag = self.ports.open();
        meeting.port = Some(tag);
        let port = Port {
            tag,
            contact: self.contacts.own.clone(),
        };
        meeting.codes = self.start_all(spawn, &port.name()?)?;
        let (active, hearing) = self.hear(What::Call(tag), meeting.communicator);
        Ok(Next::Wait(Talk::Call(hearing), active))
    }

    /// Continues the leaders' exchange.
    fn talk(&mut self, meeting: &mut Meeting, talk: Talk, went: Result<()>) -> Result<Active> {
        let next = match went {
            Err(error) => Err(error),
            Ok(()) => self.talk_on(meeting, talk),
        };
        let next = next.map_err(|error| match error.code() {
            abi::ERR_PORT if meeting.port.is_some() => Error::new(abi::ERR_SPAWN, error.text()),
            _ => error,
        });
        self.talking(meeting, next)
    }

    fn talk_on(&mut self, meeting: &mut Meeting, talk: Talk) -> Result<Next> {
        match talk {
            Talk::Lengths(other, lengths, ours) => {
                self.tell_other_group(meeting, (other, lengths, ours))
            }
            Talk::Group(theirs) => {
                let said = Said::from_bytes(&theirs.to_vec()).map_err(|error| {
                    let text = format!("the leader of the other group said: {error}");
                    Error::new(abi::ERR_INTERN, text)
                });
                said.map(Next::Over)
            }
            Talk::Call(hearing) => {
                let (said, from) = self.take_heard(hearing).ok_or_else(said_nothing)??;
                let Said::Call { reply, group, .. } = said else {
                    let text = "what was said at the port was no call";
                    return Err(Error::new(abi::ERR_PORT, text));
                };
                let ours = Said::Group(self.members_told(meeting)?);
                let active = self.say(from, (REPLIES, reply), &ours)?;
                Ok(Next::Wait(Talk::Replied(Said::Group(group)), active))
            }
            Talk::Calling(reply, peer) => {
                let (active, hearing) = self.hear(What::Reply(reply, peer), meeting.communicator);
                Ok(Next::Wait(Talk::Reply(hearing), active))
            }
            Talk::Reply(hearing) => {
                let (said, _) = self.take_heard(hearing).ok_or_else(said_nothing)??;
                Ok(Next::Over(said))
            }
            Talk::Replied(said) => Ok(Next::Over(said)),
        }
    }

    /// Makes the inter-communicator. Returns its handle.
    pub fn met(&mut self, meeting: &Meeting, handler: Option<usize>) -> Result<usize> {
        let [_, class, many] = words_of(&meeting.head);
        let bytes = meeting.answer.to_vec();
        let said = bytes.get(4 * many as usize..).unwrap_or_default();
        let said = Said::from_bytes(said).map_err(|_| said_nothing())?;
        let remote = match said {
            Said::Group(group) => group,
            Said::Refused(why) => {
                let class = i32::try_from(class).unwrap_or(abi::ERR_OTHER);
                return Err(Error::new(class, why).on(meeting.communicator));
            }
            Said::Call { .. } => return Err(said_nothing()),
        };
        let remote = remote.iter().map(|member| {
            let process = self.learn(&member.contact)?;
            let peer = self.peers[process as usize];
            Ok((process, reached(peer, member.number.into())?))
        });
        let remote = remote.collect::<Result<Vec<(u32, Peer)>>>()?;
        let local = meeting.group.iter().zip(meeting.told.all());
        let local = local.map(|(process, words)| {
            Ok((*process, reached(self.peers[*process as usize], words[0])?))
        });
        let local = local.collect::<Result<Vec<(u32, Peer)>>>()?;
        if remote
            .iter()
            .any(|(process, _)| meeting.group.contains(process))
        {
            let text = "the two groups have processes in common";
            return Err(Error::new(abi::ERR_COMM, text).on(meeting.communicator));
        }
        let first = |all: &[(u32, Peer)]| -> Option<Identity> {
            let all = all.iter();
            all.filter_map(|(process, _)| self.contacts.identity(*process))
                .min()
        };
        let is_first = meeting
            .is_first
            .unwrap_or_else(|| first(&local) < first(&remote));
        let handler = handler.unwrap_or(meeting.error_handler);
        let remote = Some((&*remote, is_first));
        let new = self.add((meeting.told.number, handler), &local, remote)?;
        self.set_session(new, meeting.session)
    }

    /// For each process that should be started, 0, or the class of the error.
    pub fn codes(&self, meeting: &Meeting) -> Vec<i32> {
        let [_, _, many] = words_of(&meeting.head);
        let bytes = meeting.answer.to_vec();
        let codes = bytes.chunks_exact(4).take(many as usize);
        let codes = codes.map(|four| four.try_into().map_or(abi::ERR_SPAWN, i32::from_ne_bytes));
        codes.collect()
    }
}
