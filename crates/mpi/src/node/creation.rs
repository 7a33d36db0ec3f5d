//! How a communicator gets an area.

use std::sync::Arc;

use causeway_wire::contact::{CALLS_IN_AREAS, READING, UNEVEN_IN_AREAS};

use super::area::{self, Area, MOST_RANKS};
use super::state::{Node, Ready};
use crate::caller::Caller;
use crate::error::Result;
use crate::process::{Active, Process};
use crate::sharing::Sharing;

/// A communicator gets an area at its use of this number, because many communicators are made for a single
/// operation.
const USES: u32 = 3;
/// Areas that a process has at a time. With 64 processes each has 4.2 MB, of which only used pages are memory.
const MOST_AREAS: usize = 32;

/// State of a communicator's area.
pub(crate) enum Found {
    /// An area, and the number of the operation, which is taken.
    Area(Arc<Area>, u64),
    /// It is to be made now.
    Make,
    None,
}

impl Process {
    /// The area of a communicator, for a blocking operation that all of its processes begin. To be called once for each of them.
    #[inline]
    pub(crate) fn find_area(&mut self, communicator: usize) -> Result<Found> {
        let checks = self.checks;
        let communicator = self.communicator_mut(communicator)?;
        match &mut communicator.node {
            Node::Ready(ready) => {
                let area = Arc::clone(&ready.area);
                return Ok(Found::Area(area, communicator.take_number()));
            }
            Node::Never => {}
            Node::Used(uses) => {
                *uses += 1;
                let is_due = *uses >= USES;
                let size = communicator.size();
                if checks || !(2..=MOST_RANKS).contains(&size) || communicator.remote.is_some() {
                    communicator.node = Node::Never;
                } else if is_due {
                    return Ok(Found::Make);
                }
            }
        }
        Ok(Found::None)
    }

    /// Whether all processes of a communicator do scans and operations on blocks of any lengths in areas as well. Where they do not, none of these counts as a use.
    #[inline]
    pub(super) fn all_do_uneven(&self, communicator: usize) -> Result<bool> {
        let communicator = self.communicator(communicator)?;
        Ok(match &communicator.node {
            Node::Ready(ready) => ready.area.does_uneven(),
            Node::Never => false,
            Node::Used(_) => {
                let group = communicator.group();
                self.process_table.all_speak(group, UNEVEN_IN_AREAS)
            }
        })
    }

    /// Begins to make the area of a communicator.
    fn begin_area(&mut self, communicator: usize) -> Result<Sharing> {
        self.areas.retain(|area| area.strong_count() > 0);
        let group = self.communicator(communicator)?.group();
        let all_know = self.process_table.all_speak(group, CALLS_IN_AREAS);
        let is_wanted = all_know && self.areas.len() < MOST_AREAS;
        let size = group.size();
        Ok(Sharing::new(communicator, area::len(size), is_wanted))
    }

    /// Takes the next step in making it. Returns what has to be complete before the one after that; none when it is over.
    fn step_of_area(&mut self, sharing: &mut Sharing) -> Result<Option<Active>> {
        // If it fails half-way, it is not begun again.
        self.communicator_mut(sharing.communicator())?.node = Node::Never;
        self.share_memory(sharing)
    }

    /// The area is made, if that has worked.
    fn end_area(&mut self, sharing: Sharing) -> Result<()> {
        let group = self.communicator(sharing.communicator())?.group();
        let all_read = self.process_table.all_speak(group, READING);
        let all_do_uneven = self.process_table.all_speak(group, UNEVEN_IN_AREAS);
        let communicator = self.communicator_mut(sharing.communicator())?;
        if let Some(memory) = sharing.into_memory() {
            let area = Area::new(memory, communicator.rank, communicator.size());
            if all_read {
                area.allow_reading();
            }
            if all_do_uneven {
                area.allow_uneven();
            }
            let area = Arc::new(area);
            communicator.node = Node::Ready(Ready::new(Arc::clone(&area)));
            self.areas.push(Arc::downgrade(&area));
        }
        Ok(())
    }
}

/// Makes the area of a communicator, which an operation has requested ([`super::Started::Make`]).
#[cold]
pub fn make_area(caller: &mut impl Caller, communicator: usize) -> Result<()> {
    let mut sharing = caller.with(|process| process.begin_area(communicator))?;
    while let Some(active) = caller.with(|process| process.step_of_area(&mut sharing))? {
        caller.wait(active)?;
    }
    caller.with(|process| process.end_area(sharing))
}
