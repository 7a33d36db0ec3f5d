//! How communicators are made and freed (MPI 5.0 §7.4).
//!
//! Processes that make a communicator together agree on its number: the largest that is free at any of them, told to all with
//! whatever else they have to know of each other.

use std::sync::Arc;

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::temporary;
use crate::collective::Blocks;
use crate::communicator::{Communicator, MOST};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::process::{Active, Process};
use crate::request::OwnedBuffer;

/// What one process tells the others: its next free number, and two more.
const WORDS: usize = 3;
const BYTES: usize = WORDS * 8;

/// What processes have told each other when its operation is done.
#[derive(Debug)]
pub struct Told {
    communicator: usize,
    memory: Memory,
}

impl Told {
    /// What each has told.
    pub(crate) fn all(&self) -> Vec<[i64; WORDS]> {
        let bytes = self.memory.to_vec();
        let each = bytes.chunks_exact(BYTES);
        each.map(|one| {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(one.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, i64::from_ne_bytes);
            }
            words
        })
        .collect()
    }
}

impl Process {
    /// Starts to tell all processes of a communicator this process's next free number and two values of the caller's.
    pub fn tell(&mut self, communicator: usize, values: [i64; 2]) -> Result<(Active, Told)> {
        let size = self.place(communicator)?.size;
        let words = [i64::from(self.next_number), values[0], values[1]];
        let own = Memory::from_vec(words.iter().flat_map(|word| word.to_ne_bytes()).collect());
        let memory = temporary(size as usize * BYTES)?;
        let into = Blocks::Even {
            memory: memory.clone(),
            blocks: size,
        };
        let from = Blocks::Each(vec![OwnedBuffer::bytes(own)]);
        let active = self.allgather(Some(&from), &into, communicator)?;
        let told = Told {
            communicator,
            memory,
        };
        Ok((active, told))
    }

    /// The number that all have agreed on.
    fn agreed(&mut self, told: &[[i64; WORDS]]) -> Result<u32> {
        let largest = told.iter().map(|words| words[0]).max().unwrap_or(0);
        let number = u32::try_from(largest).ok().filter(|number| *number < MOST);
        let number = number
            .ok_or_else(|| Error::new(abi::ERR_NO_MEM, "all communicator numbers are used"))?;
        self.next_number = number + 1;
        Ok(number)
    }

    fn add(&mut self, parent: usize, number: u32, group: Arc<Group>) -> Result<usize> {
        let parent = self.communicator(parent)?;
        let new = Communicator {
            number,
            rank: group.rank_of(self.rank).unwrap_or(0),
            peers: self.peers_of(&group),
            local: group,
            remote: None,
            collectives: 0,
            name: Vec::new(),
            attributes: Default::default(),
            error_handler: parent.error_handler,
            info: Default::default(),
            topology: None,
        };
        self.communicators.insert(new)
    }

    /// Makes a communicator of the same processes. Name and attributes are the caller's business.
    pub fn duplicate(&mut self, told: &Told) -> Result<usize> {
        let number = self.agreed(&told.all())?;
        let group = Arc::clone(&self.communicator(told.communicator)?.local);
        let handle = self.add(told.communicator, number, group)?;
        let parent = self.communicator(told.communicator)?;
        let (info, topology) = (parent.info.clone(), parent.topology.clone());
        let new = self.communicators.get_mut(handle)?;
        (new.info, new.topology) = (info, topology);
        Ok(handle)
    }

    /// Makes a communicator of those with the same colour, in the order of their keys: the two values that were told. `None`
    /// for those whose colour is `MPI_UNDEFINED`.
    pub fn split(&mut self, told: &Told) -> Result<Option<usize>> {
        let all = told.all();
        let number = self.agreed(&all)?;
        let parent = self.communicator(told.communicator)?;
        let color = all[parent.rank as usize][1];
        if color == i64::from(abi::UNDEFINED) {
            return Ok(None);
        }
        let members = parent.local.members();
        let mut chosen: Vec<(i64, usize)> = all
            .iter()
            .enumerate()
            .filter(|(_, words)| words[1] == color)
            .map(|(rank, words)| (words[2], rank))
            .collect();
        chosen.sort_unstable();
        let group = Group::new(chosen.iter().map(|(_, rank)| members[*rank]).collect());
        self.add(told.communicator, number, Arc::new(group))
            .map(Some)
    }

    /// Makes a communicator of a group of its processes. `None` for those that are not in it.
    pub fn create(&mut self, told: &Told, group: &Arc<Group>) -> Result<Option<usize>> {
        let number = self.agreed(&told.all())?;
        let parent = self.communicator(told.communicator)?;
        let is_in = |member: &u32| parent.local.rank_of(*member).is_some();
        if !group.members().iter().all(is_in) {
            let text = "the group has processes that the communicator does not have";
            return Err(Error::new(abi::ERR_GROUP, text));
        }
        match group.rank_of(self.rank) {
            Some(_) => self
                .add(told.communicator, number, Arc::clone(group))
                .map(Some),
            None => Ok(None),
        }
    }

    /// Frees a communicator; returns its error handler.
    pub fn free_communicator(&mut self, handle: usize) -> Result<usize> {
        if matches!(handle, abi::COMM_WORLD | abi::COMM_SELF) {
            let text = "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        self.communicator(handle)?;
        Ok(self.communicators.remove(handle)?.error_handler)
    }

    /// The host of this process, as a colour for [`Process::split`]: the same for those that share memory.
    pub fn host(&self) -> i64 {
        self.hosts[self.rank as usize].into()
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
