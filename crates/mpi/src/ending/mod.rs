//! A process takes no further part in the collective operations of a communicator: it has freed it, or has called `MPI_Finalize`. Others that wait for it in an operation would wait
//! for ever, so it notifies them if that may be: if it has refused a call because of its arguments, or if the others do not come to `MPI_Finalize` for long.
//!
//! The others look for notifications when they have waited for some time in an operation, as they do for those of processes that have given it up ([`crate::schedule`]). One that
//! comes after that, or concerns a communicator whose operations are over, is never received.

pub(crate) mod statement;

use std::sync::Arc;
use std::time::Duration;

use causeway_engine::Memory;
use causeway_engine::types::Posted;
use causeway_wire::contact::CALLS_IN_AREAS;

use self::statement::{ENDING, FINISHING, Incoming, NOTIFICATION, Refused, Statement, Why};
use crate::abi;
use crate::buffering::OPTIONAL;
use crate::communicator::{Channel, Communicator, Peer};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::matching::MpiPattern;
use crate::process::{Active, POSTS, Process};
use crate::schedule::among;

/// After how long without any event a process in `MPI_Finalize` notifies the others.
const BEFORE_NOTIFYING: Duration = Duration::from_secs(1);

/// Communicators about which a process notifies others, so that those that do not receive it store few messages.
const MOST_NOTIFICATIONS: u32 = 1000;

fn statement(communicator: &Communicator, why: Why) -> Statement {
    let refused = communicator.ending.refused;
    let (tag, kept_tag) = communicator.next_tags();
    Statement {
        class: refused.map_or(abi::ERR_NOT_SAME, |refused| refused.class),
        tag,
        kept_tag,
        is_freed: why == Why::Freed,
        refused: refused.map_or("", |refused| refused.name).to_owned(),
    }
}

impl Process {
    /// This process has refused a call on a communicator, because of its arguments.
    #[cold]
    pub(crate) fn note_refused(&mut self, communicator: usize, name: &'static str, error: &Error) {
        if let Ok(found) = self.communicator_mut(communicator) {
            let class = error.code();
            found.ending.refused = Some(Refused { name, class });
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

    /// This process begins no further operation on a communicator. The others are notified if it has refused one, as they may wait for it there; or in any case.
    pub(crate) fn end_collectives(&mut self, communicator: usize, why: Why, in_any_case: bool) {
        let Ok(found) = self.communicator(communicator) else {
            return;
        };
        if found.everyone.len() < 2 || !(in_any_case || found.ending.refused.is_some()) {
            return;
        }
        self.end_area_use(communicator);
        if self.notifications >= MOST_NOTIFICATIONS {
            return;
        }
        self.notifications += 1;
        let Ok(found) = self.communicator_mut(communicator) else {
            return;
        };
        let text = statement(found, why).encode();
        let peers = Arc::clone(&found.everyone);
        found.ending.refused = None;
        self.notify_all(&peers, Channel::Collectives, ENDING, text);
    }

    /// Likewise for all communicators, in `MPI_Finalize`.
    pub(crate) fn end_all_collectives(&mut self, in_any_case: bool) {
        let mut all = vec![abi::COMM_WORLD];
        all.extend(self.communicators.handles());
        for handle in all {
            self.end_collectives(handle, Why::Finalized, in_any_case);
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

    /// The error of an operation whose messages have this tag, if a process takes no part in it.
    pub(crate) fn look_for_ending(&mut self, communicator: usize, tag: u32) -> Option<Error> {
        while let Some((rank, statement)) = self.take_statement(communicator) {
            let found = self.communicator_mut(communicator).ok()?;
            // Each process's latest.
            found.ending.stated.retain(|(one, _)| *one != rank);
            found.ending.stated.push((rank, statement));
        }
        let stated = &self.communicator(communicator).ok()?.ending.stated;
        let concerning = stated.iter().find(|(_, one)| one.concerns(tag));
        concerning.map(|(rank, statement)| statement.error(*rank))
    }

    /// Takes a statement that has come.
    fn take_statement(&mut self, communicator: usize) -> Option<(u32, Statement)> {
        let found = self.communicator_mut(communicator).ok()?;
        let (context, peers) = (found.context(Channel::Collectives), &found.everyone);
        let peers = Arc::clone(peers);
        let mut incoming = match found.ending.incoming.take() {
            Some(incoming) => incoming,
            None => self.receive_statement(context)?,
        };
        if let Some(op) = incoming.op {
            let Ok(taken) = self.endpoint.take(op) else {
                return None;
            };
            let Some(done) = taken else {
                let found = self.communicator_mut(communicator).ok()?;
                found.ending.incoming = Some(incoming);
                return None;
            };
            incoming.bytes = done.result.ok();
        }
        let rank = peers.iter().position(|peer| peer.number == incoming.peer)?;
        Some((rank as u32, incoming.statement()?))
    }

    fn receive_statement(&mut self, collectives: u32) -> Option<Incoming> {
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
        let steps = self.barrier(communicator)?.called("MPI_Finalize");
        let found = self.communicator(communicator)?;
        let last = among(found, FINISHING);
        if self.checks || !self.all_compare_calls(found) {
            return self.begin(steps);
        }
        Ok(self.begin_among(steps, last))
    }

    /// Whether all processes of a communicator speak the format in which calls are compared, and failures and ends of use are stated.
    pub(crate) fn all_compare_calls(&self, communicator: &Communicator) -> bool {
        let knows = |group: &Arc<Group>| self.process_table.all_speak(group, CALLS_IN_AREAS);
        let remote = communicator.remote_group();
        knows(communicator.group()) && remote.is_none_or(knows)
    }

    /// Waits for the barrier in which all call `MPI_Finalize`.
    pub(crate) fn wait_for_last_barrier(&mut self, mut barrier: Active) -> Result<()> {
        loop {
            let seen = self.endpoint.event_count();
            self.drain();
            if self.poll(&mut barrier)?.is_some() {
                return Ok(());
            }
            if !self.endpoint.wait_for_event(seen, BEFORE_NOTIFYING) {
                break;
            }
        }
        self.end_all_collectives(true);
        self.wait_here(&mut barrier)
    }
}
