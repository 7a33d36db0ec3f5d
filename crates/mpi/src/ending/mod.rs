//! A process takes no further part in the collective operations of a communicator: it has freed it, or has called `MPI_Finalize`. Others that wait for it in an operation would wait
//! for ever. If it has refused a call because of its arguments, they may well do so, and it notifies all of them. Otherwise, it replies to those that ask.
//!
//! A process that has waited for some time in an operation asks those whose messages it waits for, each once for a communicator. The question is kept, and the reply sent
//! when the process that was asked is in `MPI_Finalize`. So processes that never wait for each other for long exchange nothing, and no process gets more than one question of another one
//! about a communicator.
//!
//! The others look for notifications when they have waited for some time in an operation, as they do for those of processes that have given it up ([`crate::schedule`]). One that
//! comes after that, or concerns a communicator whose operations are over, is never received.

pub(crate) mod statement;

use std::sync::Arc;

use causeway_engine::Memory;
use causeway_engine::types::Posted;
use causeway_wire::contact::CALLS_IN_AREAS;

use self::statement::{
    ENDING, FINISHING, FIRST_KEPT, Incoming, NOTIFICATION, Notification, Refused, Statement, Why,
    is_at_or_behind,
};
use crate::abi;
use crate::buffering::OPTIONAL;
use crate::communicator::{Channel, Communicator, Peer};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::matching::MpiPattern;
use crate::node::state::Node;
use crate::process::{Active, POSTS, Process, Waited};
use crate::schedule::{among, tag_of};

/// Notifications that may be on their way at a time: beyond that, those that a process sends without having been asked are left out.
const MOST_NOTIFICATIONS: usize = 1 << 16;

fn statement(communicator: &Communicator, why: Why) -> Statement {
    let refused = communicator.ending.refused;
    let (_, kept_tag) = communicator.next_tags();
    let tag = tag_of((communicator.ending).first_without(communicator.collectives));
    Statement {
        class: refused.map_or(abi::ERR_NOT_SAME, |refused| refused.class),
        tag,
        kept_tag,
        is_freed: why == Why::Freed,
        refused: refused.map_or("", |refused| refused.name).to_owned(),
    }
}

/// Whether a process that has done this call by messages has got messages of all others, or of those that have: they have begun it.
fn is_of_all(name: &str) -> bool {
    const CALLS: [&str; 6] = [
        "Barrier",
        "Allreduce",
        "Allgather",
        "Alltoall",
        "Reduce_scatter",
        "Reduce_scatter_block",
    ];
    let call = name.trim_start_matches("MPI_").trim_start_matches('I');
    CALLS.iter().any(|one| one.eq_ignore_ascii_case(call))
}

impl Process {
    /// This process has refused a call on a communicator, because of its arguments.
    #[cold]
    pub(crate) fn note_refused(&mut self, communicator: usize, name: &'static str, error: &Error) {
        if let Ok(found) = self.communicator_mut(communicator) {
            let phase = match &found.node {
                Node::Ready(ready) => ready.area.next_phase(),
                Node::Used(_) | Node::Never => 0,
            };
            found.ending.refused = Some(Refused {
                name,
                class: error.code(),
                tag: found.next_tags().0,
                phase,
            });
        }
    }

    /// A call of a function on a communicator has failed, before anything was begun if the error is of none. Others may have made it if it is one of those that make something together.
    #[cold]
    pub fn note_failed(&mut self, communicator: usize, name: &'static str, error: &Error) {
        const TOGETHER: [&str; 11] = [
            "MPI_Comm_dup",
            "MPI_Comm_idup",
            "MPI_Comm_split",
            "MPI_Comm_create",
            "MPI_Intercomm_",
            "MPI_Cart_create",
            "MPI_Cart_sub",
            "MPI_Graph_create",
            "MPI_Dist_graph_create",
            "MPI_Win_",
            "MPI_File_open",
        ];
        let is_one = TOGETHER.iter().any(|start| name.starts_with(start));
        if is_one && error.is_of_arguments() && error.communicator().is_none() {
            self.note_refused(communicator, name, error);
        }
    }

    /// All processes have begun an operation of this tag, by messages, if it is a call of this name after which that is certain: none waits for a call that was refused before.
    #[inline]
    pub(crate) fn forget_refused(&mut self, communicator: usize, (tag, name): (u32, &str)) {
        let Ok(found) = self.communicator_mut(communicator) else {
            return;
        };
        if let Some(refused) = found.ending.refused
            && tag < FIRST_KEPT
            && is_at_or_behind(tag, refused.tag)
            && is_of_all(name)
        {
            found.ending.refused = None;
        }
    }

    /// Likewise of an operation in the communicator's memory.
    fn forget_refused_in_area(&mut self, communicator: usize) {
        let Ok(found) = self.communicator_mut(communicator) else {
            return;
        };
        if let (Some(refused), Node::Ready(ready)) = (found.ending.refused, &mut found.node)
            && ready.area.have_all_done(refused.phase)
        {
            (found.ending.refused, ready.refusal) = (None, None);
        }
    }

    /// This process begins no further operation on a communicator. The others are notified if it has refused one, as they may wait for it there.
    pub(crate) fn end_collectives(&mut self, communicator: usize, why: Why) {
        self.forget_refused_in_area(communicator);
        let Ok(found) = self.communicator(communicator) else {
            return;
        };
        if found.everyone.len() < 2 || found.ending.refused.is_none() {
            return;
        }
        self.end_area_use(communicator);
        if self.buffers.optional() >= MOST_NOTIFICATIONS {
            return;
        }
        let Ok(found) = self.communicator_mut(communicator) else {
            return;
        };
        let text = Notification::Statement(statement(found, why)).encode();
        let peers = Arc::clone(&found.everyone);
        found.ending.refused = None;
        self.notify_all(&peers, Channel::Collectives, ENDING, text);
    }

    fn all_handles(&self) -> Vec<usize> {
        let world = std::iter::once(abi::COMM_WORLD);
        world.chain(self.communicators.handles()).collect()
    }

    /// Likewise for all communicators, in `MPI_Finalize`.
    pub(crate) fn end_all_collectives(&mut self) {
        for handle in self.all_handles() {
            self.end_collectives(handle, Why::Finalized);
        }
    }

    /// Asks processes of a communicator, given by their places, whether they take part in the operations that this one waits for: each once, as the reply says which ones it does
    /// not begin.
    #[cold]
    pub(crate) fn ask_whether_begun(&mut self, communicator: usize, places: &[u32]) {
        let Ok(found) = self.communicator(communicator) else {
            return;
        };
        let (asked, own) = (&found.ending.asked, self.peers[self.rank as usize].addr);
        let is_new = |place: &u32| {
            let peer = found.everyone.get(*place as usize);
            !asked.contains(place) && peer.is_some_and(|peer| peer.addr != own)
        };
        let new = Vec::from_iter(places.iter().copied().filter(is_new));
        if new.is_empty() || !self.all_compare_calls(found) {
            return;
        }
        let peers = Vec::from_iter(new.iter().map(|place| found.everyone[*place as usize]));
        if let Ok(found) = self.communicator_mut(communicator) {
            found.ending.asked.extend(new);
        }
        let question = Notification::Question.encode();
        self.notify_all(&peers, Channel::Collectives, ENDING, question);
    }

    /// Replies to those that wait for this process, which begins no further operation, in any communicator.
    pub(crate) fn answer_questions(&mut self) {
        for handle in self.all_handles() {
            self.take_notifications(handle);
            let Ok(found) = self.communicator_mut(handle) else {
                continue;
            };
            let asking = std::mem::take(&mut found.ending.asking);
            if asking.is_empty() {
                continue;
            }
            let places = asking
                .iter()
                .filter_map(|place| found.everyone.get(*place as usize));
            let peers = Vec::from_iter(places.copied());
            let text = Notification::Statement(statement(found, Why::Finalized)).encode();
            self.notify_all(&peers, Channel::Collectives, ENDING, text);
        }
    }

    /// Sends the other processes a message about an operation, which need not be received.
    pub(crate) fn notify_all(&mut self, peers: &[Peer], channel: Channel, tag: u32, text: Vec<u8>) {
        let text = Memory::from_vec(text);
        let own = self.peers[self.rank as usize].addr;
        for peer in peers {
            let is_lost = self.endpoint.loss(peer.addr).is_some();
            if peer.addr != own && !is_lost {
                let word = MpiPattern::word(peer.context + channel.failures(), tag);
                // A process that cannot be notified will notice that the connection is lost.
                let text = std::slice::from_ref(&text);
                let _ = self.post_unattended(peer.addr, text, word, OPTIONAL);
            }
        }
    }

    /// The error of an operation whose messages have this tag, if a process takes no part in it, and the place of that one.
    pub(crate) fn look_for_ending(
        &mut self,
        communicator: usize,
        tag: u32,
    ) -> Option<(u32, Error)> {
        self.take_notifications(communicator);
        let stated = &self.communicator(communicator).ok()?.ending.stated;
        let concerning = stated.iter().find(|(_, one)| one.concerns(tag));
        concerning.map(|(rank, statement)| (*rank, statement.error(*rank)))
    }

    /// Takes the notifications that have come about a communicator.
    fn take_notifications(&mut self, communicator: usize) {
        while let Some((rank, notification)) = self.take_notification(communicator) {
            let Ok(found) = self.communicator_mut(communicator) else {
                return;
            };
            let ending = &mut found.ending;
            match notification {
                None => {}
                Some(Notification::Question) => {
                    ending.asking.insert(rank);
                }
                Some(Notification::Statement(statement)) => {
                    // Each process's latest.
                    ending.stated.retain(|(one, _)| *one != rank);
                    ending.stated.push((rank, statement));
                }
            }
        }
    }

    /// Takes a notification that has come, with the place of its sender; one that cannot be read is none.
    fn take_notification(&mut self, communicator: usize) -> Option<(u32, Option<Notification>)> {
        let found = self.communicator_mut(communicator).ok()?;
        let context = found.context(Channel::Collectives);
        let mut incoming = match found.ending.incoming.take() {
            Some(incoming) => incoming,
            None => self.receive_notification(context)?,
        };
        if let Some(op) = incoming.op {
            match self.endpoint.take(op) {
                Ok(Some(done)) => incoming.bytes = done.result.ok(),
                Ok(None) => {
                    let found = self.communicator_mut(communicator).ok()?;
                    found.ending.incoming = Some(incoming);
                    return None;
                }
                Err(_) => {}
            }
        }
        let peers = &self.communicator(communicator).ok()?.everyone;
        let rank = peers.iter().position(|peer| peer.number == incoming.peer);
        Some((rank.unwrap_or(0) as u32, rank.and_then(|_| incoming.read())))
    }

    fn receive_notification(&mut self, collectives: u32) -> Option<Incoming> {
        let failures = Channel::Collectives.failures() - Channel::Collectives as u32;
        let pattern = MpiPattern {
            context: collectives + failures,
            source: None,
            tag: Some(ENDING),
        };
        let (taken, envelope) = self.endpoint.take_message(pattern)?;
        let text = Memory::zeroed(NOTIFICATION);
        let into = std::slice::from_ref(&text);
        let posted = self.endpoint.receive_taken(taken, pattern, into, POSTS, 0);
        let (op, bytes) = match posted.ok()? {
            Posted::Pending(op) => (Some(op), None),
            Posted::Complete(done) => (None, done.result.ok()),
        };
        let peer = envelope.peer;
        Some(Incoming {
            op,
            bytes,
            text,
            peer,
        })
    }

    /// Begins a barrier of `MPI_Finalize`, apart from the operations of the program: others may not have called the same of these. The checking mode compares it with them, and
    /// processes of earlier formats have it among them.
    pub(crate) fn begin_last_barrier(&mut self, communicator: usize) -> Result<Active> {
        let mut steps = self.barrier(communicator)?.called("MPI_Finalize");
        steps.is_last = true;
        let found = self.communicator(communicator)?;
        let last = among(found, FINISHING);
        if self.checks || !self.all_compare_calls(found) {
            return self.begin(steps);
        }
        Ok(self.begin_among(steps, last))
    }

    /// Whether all processes of a communicator speak the format in which calls are compared, and failures and ends of use are stated.
    pub(crate) fn all_compare_calls(&self, communicator: &Communicator) -> bool {
        self.all_know(communicator, CALLS_IN_AREAS)
    }

    /// Whether all processes of a communicator speak a format.
    pub(crate) fn all_know(&self, communicator: &Communicator, format: u8) -> bool {
        let knows = |group: &Arc<Group>| self.process_table.all_speak(group, format);
        let remote = communicator.remote_group();
        knows(communicator.group()) && remote.is_none_or(knows)
    }

    /// Waits for a barrier of `MPI_Finalize`, and replies to those that wait for this process elsewhere.
    pub(crate) fn wait_for_last_barrier(&mut self, mut barrier: Active) -> Result<()> {
        let mut look = |process: &mut Self| {
            process.answer_questions();
            process.poll(&mut barrier)
        };
        while let Waited::Call(_) = self.wait_until_ready(&mut look)? {}
        Ok(())
    }
}
