//! How operations by messages fail: on one process, which notifies the others, and because others have notified this one, or take no part.

use std::sync::Arc;

use causeway_engine::Memory;
use causeway_engine::types::{OpError, Posted};

use super::{Failed, Notice};
use crate::abi;
use crate::communicator::{Channel, Peer};
use crate::error::{Error, Result};
use crate::matching::MpiPattern;
use crate::process::{POSTS, Process};

/// The class with which others are notified that a persistent operation is not made here: negative for those that end each start of it, if all know that.
fn never_begun(class: i32, all_know: bool) -> i32 {
    if all_know { -class } else { class }
}

impl Process {
    /// Ends a schedule because one of its messages has failed. The other processes are notified: they may wait for messages that
    /// this one would have sent.
    pub(super) fn fail(&mut self, at: u32, error: Failed) {
        let Some(schedule) = self.schedules.get(at) else {
            return;
        };
        let (peers, of) = (schedule.peers.clone(), (schedule.channel, schedule.tag));
        if let Some(error) = self.failed_in_area(at) {
            let class = error.code();
            self.end_with(at, error);
            return self.notify_failure(&peers, of, class);
        }
        // The engine's address does not show which rank it was.
        let lost = self.lost_among(&peers);
        let error = match (error, lost) {
            (Failed::Message(OpError::Peer { .. } | OpError::Withdrawn), Some(lost)) => lost,
            (Failed::Message(OpError::Withdrawn), None) => {
                if let Some(schedule) = self.schedules.get_mut(at) {
                    schedule.is_given_up = true;
                }
                return;
            }
            (Failed::Message(error), _) => Error::from(error),
            (Failed::Length { came, expected }, _) => {
                let text = format!(
                    "a message of {came} bytes has come where one of {expected} was expected: not all ranks call the same with the same lengths"
                );
                Error::new(abi::ERR_TRUNCATE, text)
            }
        };
        let class = error.code();
        self.end_with(at, error);
        self.notify_failure(&peers, of, class);
    }

    /// Notifies the other processes of a communicator that this one does not begin a collective operation, because of this error: they may wait for it. Not if it is the error
    /// of an operation that was begun. An error of arguments leaves no trace either: it may be that only this process has called. Returns the error.
    #[cold]
    pub fn refuse_collective(
        &mut self,
        communicator: usize,
        name: &'static str,
        error: Error,
    ) -> Error {
        if error.communicator().is_some() {
            return error;
        }
        let Ok(found) = self.communicator_mut(communicator) else {
            return error;
        };
        if found.node.take_agreed(found.collectives).is_none() && error.is_of_arguments() {
            self.note_refused(communicator, name, &error);
            return error.on(communicator);
        }
        let of = (Channel::Collectives, found.take_tag());
        let peers = Arc::clone(&found.everyone);
        self.notify_failure(&peers, of, error.code());
        error.on(communicator)
    }

    /// Likewise for a persistent operation: those of the others fail whenever they are started.
    #[cold]
    pub fn refuse_persistent(
        &mut self,
        communicator: usize,
        name: &'static str,
        error: Error,
    ) -> Error {
        let Ok(found) = self.communicator_mut(communicator) else {
            return error;
        };
        if error.is_of_arguments() {
            self.note_refused(communicator, name, &error);
            return error.on(communicator);
        }
        let of = (Channel::Collectives, found.take_kept_tag());
        let peers = Arc::clone(&found.everyone);
        // Processes of earlier formats take a negative class for that of an error.
        let all_know =
            (self.communicator(communicator)).is_ok_and(|found| self.all_compare_calls(found));
        let class = never_begun(error.code(), all_know);
        self.notify_failure(&peers, of, class);
        error.on(communicator)
    }

    /// Notifies processes that this one has given up an operation of theirs, and with an error of which class: they return it, too. The class is negative for one that this
    /// process never starts.
    pub(crate) fn notify_failure(
        &mut self,
        peers: &[Peer],
        (channel, tag): (Channel, u32),
        class: i32,
    ) {
        self.notify_all(peers, channel, tag, class.to_le_bytes().to_vec());
    }

    /// Ends a schedule with an error; operations in progress are cancelled.
    pub(super) fn end_with(&mut self, at: u32, error: Error) {
        let Some(schedule) = self.schedules.get_mut(at) else {
            return;
        };
        schedule.is_done = true;
        schedule.error.get_or_insert(error);
        schedule.messages.clear();
        for op in std::mem::take(&mut schedule.pending) {
            self.endpoint.cancel(op);
        }
    }

    /// Checks whether another process has given up an operation that is in progress here.
    pub(super) fn look_for_failure(&mut self, at: u32) -> Result<()> {
        if let Some(error) = self.failed_in_area(at) {
            self.end_with(at, error);
            return Ok(());
        }
        let Some(schedule) = self.schedules.get(at) else {
            return Ok(());
        };
        // All processes that have called `MPI_Finalize` take part in its barriers, although they state that they begin no further operation.
        if !schedule.is_last
            && let (Channel::Collectives, tag) = (schedule.channel, schedule.tag)
            && let Some((_, error)) = self.look_for_ending(schedule.communicator, tag)
        {
            // Others may wait for this process, and not for the one that takes no part.
            let (peers, class) = (self.peers_of(at), error.code());
            self.end_with(at, error);
            self.notify_failure(&peers, (Channel::Collectives, tag), class);
            return Ok(());
        }
        let Some(schedule) = self.schedules.get_mut(at) else {
            return Ok(());
        };
        let notice = match schedule.notice.take() {
            Some(notice) => Some(notice),
            None => self.find_notice(at)?,
        };
        let Some(notice) = notice else {
            return Ok(());
        };
        if let Some(op) = notice.op
            && let Ok(None) = self.endpoint.take(op)
        {
            // The class is still on its way.
            if let Some(schedule) = self.schedules.get_mut(at) {
                schedule.notice = Some(notice);
            }
            return Ok(());
        }
        self.is_given_up_by(at, &notice);
        Ok(())
    }

    /// Likewise of an operation that has taken long: those that this process waits for are asked whether they take part.
    pub(super) fn look_late(&mut self, at: u32) -> Result<()> {
        self.look_for_failure(at)?;
        let Some(schedule) = self.schedules.get(at) else {
            return Ok(());
        };
        // In the barriers of `MPI_Finalize`, all wait for those that have not called it.
        if schedule.channel == Channel::Collectives && !schedule.is_last {
            let places = schedule.messages.iter().map(|message| message.peer);
            let (communicator, places) = (schedule.communicator, Vec::from_iter(places));
            self.ask_whether_begun(communicator, &places);
        }
        Ok(())
    }

    fn peers_of(&self, at: u32) -> Arc<[Peer]> {
        let schedule = self.schedules.get(at);
        schedule.map_or_else(|| Arc::from([]), |schedule| Arc::clone(&schedule.peers))
    }

    /// The error of a schedule whose call was published in an area, if the calls or operations there show that it fails.
    fn failed_in_area(&mut self, at: u32) -> Option<Error> {
        let schedule = self.schedules.get_mut(at)?;
        let (agreed, communicator) = (schedule.agreed.take()?, schedule.communicator);
        let error = self.check_agreed(communicator, &agreed);
        if error.is_none() {
            self.schedules.get_mut(at)?.agreed = Some(agreed);
        }
        error
    }

    /// Takes a notification that another process has given up an operation which is in progress here, if one has come.
    fn find_notice(&mut self, at: u32) -> Result<Option<Notice>> {
        let Some(schedule) = self.schedules.get(at) else {
            return Ok(None);
        };
        let own = self.peers[self.rank as usize].number;
        let pattern = MpiPattern {
            context: schedule.context - schedule.channel as u32 + schedule.channel.failures(),
            source: None,
            tag: Some(schedule.tag),
        };
        let (peers, is_given_up) = (schedule.peers.clone(), schedule.is_given_up);
        let Some((taken, envelope)) = self.endpoint.take_message(pattern) else {
            if let Some(lost) = is_given_up.then(|| self.lost_among(&peers)).flatten() {
                self.end_with(at, lost);
            }
            return Ok(None);
        };
        debug_assert_ne!(envelope.peer, own);
        let class = Memory::zeroed(size_of::<i32>());
        let into = std::slice::from_ref(&class);
        let posted = (self.endpoint).receive_taken(taken, pattern, into, POSTS, 0)?;
        let op = match posted {
            Posted::Pending(op) => Some(op),
            Posted::Complete(_) => None,
        };
        let peer = envelope.peer;
        Ok(Some(Notice { op, class, peer }))
    }

    /// Ends a schedule that another process has given up.
    fn is_given_up_by(&mut self, at: u32, notice: &Notice) {
        let Some(schedule) = self.schedules.get(at) else {
            return;
        };
        let peers = schedule.peers.clone();
        let class = notice.class.to_vec();
        let class = class.try_into().map_or(0, i32::from_le_bytes);
        let is_never_whole = class < 0;
        let class = match class.saturating_abs() {
            // An earlier version does not say.
            0 => abi::ERR_PROC_ABORTED,
            class => class,
        };
        let rank = peers.iter().position(|peer| peer.number == notice.peer);
        let known = self.lost_among(&peers);
        let error = known.unwrap_or_else(|| {
            let rank = rank.map_or_else(String::new, |rank| format!("rank {rank} "));
            let why = match class {
                abi::ERR_PROC_ABORTED => "since it has lost another".to_owned(),
                abi::ERR_TRUNCATE => {
                    "since a message there had another length than its buffer".to_owned()
                }
                other => format!("which has failed there with the error class {other}"),
            };
            let text = format!("{rank}has given the operation up, {why}");
            Error::new(class, text)
        });
        if is_never_whole && let Some(schedule) = self.schedules.get_mut(at) {
            schedule.never = Some(error.clone());
        }
        self.end_with(at, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_earlier_formats_get_the_class_of_an_error_as_it_is() {
        assert_eq!(never_begun(abi::ERR_NO_MEM, false), abi::ERR_NO_MEM);
        assert_eq!(never_begun(abi::ERR_NO_MEM, true), -abi::ERR_NO_MEM);
    }
}
