//! How two groups make an inter-communicator (MPI 5.0 §7.6): each tells its leader, the leaders tell each other, and tell their
//! groups.

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::temporary;
use crate::collective::{Place, broadcast_by_tree, split};
use crate::communicator::{Channel, Peer};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::making::{reached, telling};
use crate::process::{Active, Process};
use crate::schedule::Among;
use crate::steps::Steps;
use crate::told::WORDS;

/// What is told of one process: its number in the program, and its number of the new communicator.
const ENTRY: usize = 8;
/// How many processes a group has stands before them; this stands for a leader that has not reached the other.
const NOBODY: u32 = u32::MAX;

/// Two groups that are making an inter-communicator.
#[derive(Debug)]
pub struct Meeting {
    local: Among,
    place: Place,
    leader: u32,
    /// The other leader, at the leader.
    other: Option<Among>,
    error_handler: usize,
    communicator: usize,
    /// Processes of the own group.
    group: Vec<u32>,
    number: u32,
    told: Memory,
    /// Lists of processes: the own group's, and the other's.
    ours: Memory,
    theirs: Memory,
    stage: u32,
    /// Why this process cannot take part to the end. It goes on all the same, as its group waits for it.
    failed: Option<Error>,
}

fn put(memory: &Memory, at: usize, value: u32) {
    let value = Memory::from_vec(value.to_ne_bytes().to_vec());
    memory.slice(at..at + 4).copy_from(&value);
}

fn get(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(NOBODY, u32::from_ne_bytes)
}

impl Process {
    /// Begins to make an inter-communicator of the processes of `local` and those of another communicator, whose leader has
    /// the rank `remote_leader` in `peer`, which only the local leader looks at.
    pub fn meet(
        &mut self,
        local: usize,
        leader: i32,
        (peer, remote_leader, tag): (usize, i32, i32),
    ) -> Result<Meeting> {
        let communicator = self.communicator(local)?;
        if communicator.remote.is_some() {
            let text = "local_comm is an inter-communicator";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        // Out of range is an error here.
        communicator.peer(leader)?;
        let rank = communicator.rank();
        let is_leader = leader as u32 == rank;
        let other = is_leader.then(|| self.other_leader(peer, remote_leader, tag));
        let (other, failed) = match other.transpose() {
            Ok(other) => (other, None),
            Err(error) => (None, Some(error)),
        };
        let group = self.communicator(local)?.local.members().to_vec();
        let among = self.among_all(local)?;
        let mut meeting = self.meeting((local, rank, leader as u32), among, other, group)?;
        meeting.failed = failed;
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
    /// looks at the other group.
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
                Some(self.strangers(&leader, name)?)
            }
            None => None,
        };
        let among = self.strangers(group, name)?;
        let members = group.members().to_vec();
        self.meeting((abi::COMM_SELF, rank, leader as u32), among, other, members)
    }

    fn meeting(
        &mut self,
        (communicator, rank, leader): (usize, u32, u32),
        local: Among,
        other: Option<Among>,
        group: Vec<u32>,
    ) -> Result<Meeting> {
        let size = group.len() as u32;
        // Every process of the program fits, since nobody else knows how many the other group has.
        let list = || temporary(4 + ENTRY * self.peers.len());
        let (ours, theirs) = (list()?, list()?);
        put(&theirs, 0, NOBODY);
        Ok(Meeting {
            error_handler: self.communicator(communicator)?.error_handler,
            place: Place { rank, size },
            told: temporary(group.len() * WORDS * 8)?,
            number: self.number()?,
            local,
            leader,
            other,
            communicator,
            group,
            ours,
            theirs,
            stage: 0,
            failed: None,
        })
    }

    /// Starts the next operation of a meeting, if there is one. `went` is how the one before has gone.
    pub fn go_on(&mut self, meeting: &mut Meeting, went: Result<()>) -> Result<Option<Active>> {
        let stage = meeting.stage;
        meeting.stage += 1;
        let steps = Steps::on(meeting.communicator).called("MPI_Intercomm_create");
        match stage {
            0 => self.tell_leader(meeting, steps).map(Some),
            1 => {
                went?;
                match meeting.other.take() {
                    Some(other) => self.tell_leaders(meeting, other, steps).map(Some),
                    None => self.go_on(meeting, Ok(())),
                }
            }
            2 => {
                if let Err(error) = went {
                    meeting.failed = Some(error);
                    put(&meeting.theirs, 0, NOBODY);
                }
                self.tell_group_of_others(meeting, steps).map(Some)
            }
            _ => went.map(|()| None),
        }
    }

    fn tell_leader(&mut self, meeting: &mut Meeting, mut steps: Steps) -> Result<Active> {
        let blocks = split(&meeting.told, meeting.place.size);
        let words = [meeting.number.into(), 0, 0];
        telling(&mut steps, meeting.place, words, &blocks)?;
        Ok(self.begin_among(steps, meeting.local.clone()))
    }

    fn tell_leaders(
        &mut self,
        meeting: &mut Meeting,
        other: Among,
        mut steps: Steps,
    ) -> Result<Active> {
        put(&meeting.ours, 0, meeting.place.size);
        let numbers = meeting.told.to_vec();
        for (at, process) in meeting.group.iter().enumerate() {
            put(&meeting.ours, 4 + at * ENTRY, *process);
            put(&meeting.ours, 8 + at * ENTRY, get(&numbers, at * WORDS * 8));
        }
        steps.receive(0, meeting.theirs.clone());
        steps.send(0, meeting.ours.clone());
        Ok(self.begin_among(steps, other))
    }

    fn tell_group_of_others(&mut self, meeting: &mut Meeting, mut steps: Steps) -> Result<Active> {
        broadcast_by_tree(&mut steps, meeting.place, meeting.leader, &meeting.theirs);
        Ok(self.begin_among(steps, meeting.local.clone()))
    }

    /// Makes the inter-communicator. Returns its handle.
    pub fn met(&mut self, meeting: &Meeting, handler: Option<usize>) -> Result<usize> {
        if let Some(error) = &meeting.failed {
            return Err(error.clone());
        }
        let theirs = meeting.theirs.to_vec();
        let many = get(&theirs, 0);
        if many == NOBODY {
            let text = "the leaders of the two groups have not reached each other";
            return Err(Error::new(abi::ERR_PROC_ABORTED, text).on(meeting.communicator));
        }
        let member = |process: u32, number: u32| {
            let peer = self.peers.get(process as usize);
            let wrong = || Error::new(abi::ERR_INTERN, "the other leader told of no process");
            let peer = *peer.ok_or_else(wrong)?;
            Ok((process, reached(peer, number.into())?))
        };
        let entry = |at: usize| member(get(&theirs, 4 + at * ENTRY), get(&theirs, 8 + at * ENTRY));
        let remote = (0..many as usize)
            .map(entry)
            .collect::<Result<Vec<(u32, Peer)>>>()?;
        let numbers = meeting.told.to_vec();
        let local = meeting.group.iter().enumerate();
        let local = local.map(|(at, process)| member(*process, get(&numbers, at * WORDS * 8)));
        let local = local.collect::<Result<Vec<_>>>()?;
        if remote
            .iter()
            .any(|(process, _)| meeting.group.contains(process))
        {
            let text = "the two groups have processes in common";
            return Err(Error::new(abi::ERR_COMM, text).on(meeting.communicator));
        }
        let first = |all: &[(u32, Peer)]| all.iter().map(|(process, _)| *process).min();
        let is_first = first(&local) < first(&remote);
        let handler = handler.unwrap_or(meeting.error_handler);
        self.add((meeting.number, handler), &local, Some((&remote, is_first)))
    }
}
