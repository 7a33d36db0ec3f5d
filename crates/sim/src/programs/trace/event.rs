//! The contents of lines of traces, whatever their format, and errors in them.

use std::sync::Arc;

use super::collectives::Collective;
use crate::am::port::Rank;

/// Most processes of a trace.
pub const MOST_RANKS: u32 = 4_096;
/// Longest message of a trace, in bytes.
pub const LONGEST_MESSAGE: u64 = 64 << 20;
/// Longest time between two operations, in microseconds.
pub(super) const LONGEST_COMPUTE_US: f64 = 1e9;
/// Most messages of a trace, with those that collective operations consist of.
pub const MOST_MESSAGES: usize = 1 << 22;

/// Distinguishes messages between the same two processes: the n-th that is sent with a mark is the n-th that is received with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// In the text format: the tag.
    Tag(u64),
    /// In a recorded program: the receiver's number of the communicator, the tag, and the message's number among those with both.
    Word(u64, u64),
    /// In a collective operation: its processes.
    Collective(u32),
}

/// A process's action after it has computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Send(Rank, u64, Mark),
    Receive(Rank, u64, Mark),
    Collective(Operation),
    Nothing,
}

/// A process's part in a collective operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operation {
    pub(super) kind: Collective,
    /// The root.
    pub(super) root: Option<Rank>,
    pub(super) bytes: u64,
    /// The processes in the order of their ranks; `None` if all processes of the trace take part.
    pub(super) members: Option<Arc<[Rank]>>,
}

/// A line of a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) compute_us: f64,
    pub(super) what: What,
}

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line cannot be read.
    #[error("line {line} of the trace: {why}")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        why: String,
    },
    /// Messages are sent without being received, or the other way round.
    #[error(
        "process {to} receives {received} messages from process {from}, which sends it {sent}; the two numbers must be equal"
    )]
    Unmatched {
        /// The sender.
        from: Rank,
        /// The receiver.
        to: Rank,
        /// The number of messages sent.
        sent: usize,
        /// The number of messages received.
        received: usize,
    },
    /// A process does not take part in a collective operation.
    #[error(
        "process {rank} takes part in {has} collective operations of the processes {members}, process {other} in {others}; the two numbers must be equal"
    )]
    Absent {
        /// The process.
        rank: Rank,
        /// The number of operations in which it takes part.
        has: usize,
        /// The processes of the operation.
        members: String,
        /// Another process in the group.
        other: Rank,
        /// The number of operations in which that process takes part.
        others: usize,
    },
    /// The trace is larger than can be simulated.
    #[error("the trace has more than {MOST_MESSAGES} messages")]
    TooMany,
    /// The trace is empty.
    #[error("the trace has no events")]
    Empty,
}

/// The lines of each process.
#[derive(Debug, Default)]
pub(super) struct Lines(pub(super) Vec<Vec<Line>>);

impl Lines {
    /// The lines of a process, which exists from now on.
    pub(super) fn of(&mut self, rank: Rank) -> &mut Vec<Line> {
        let index = rank as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, Vec::new());
        }
        &mut self.0[index]
    }
}

/// A process's number.
pub(super) fn process(text: &str) -> Result<Rank, String> {
    match text.parse::<u32>() {
        Ok(rank) if rank < MOST_RANKS => Ok(rank),
        _ => Err(format!(
            "`{text}` is no process: 0 to {} are",
            MOST_RANKS - 1
        )),
    }
}

/// A size.
pub(super) fn size(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(bytes) if bytes <= LONGEST_MESSAGE => Ok(bytes),
        _ => Err(format!("`{text}` is no size: 0 to {LONGEST_MESSAGE} are")),
    }
}

/// Processes in their order: `4-6,0`.
pub(super) fn processes(text: &str) -> Result<Arc<[Rank]>, String> {
    let mut all: Vec<Rank> = Vec::new();
    let mut is_there = vec![false; MOST_RANKS as usize];
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (process(first)?, process(last)?);
        if last < first {
            return Err(format!("`{range}` ends before it begins"));
        }
        for rank in first..=last {
            if std::mem::replace(&mut is_there[rank as usize], true) {
                return Err(format!("process {rank} is named twice"));
            }
            all.push(rank);
        }
    }
    Ok(all.into())
}
