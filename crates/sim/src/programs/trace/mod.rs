//! Traces: the computation, sends and receives of the processes of a recorded program, in two
//! formats.
//!
//! One is for people and their scripts (`text.rs`): one event a line, with five fields between blanks, and a sixth that may be left out.
//!
//! ```text
//! # rank operation peer bytes compute_us
//! 0 send 1 4096 120.5
//! 1 recv 0 4096 0
//! 1 compute - 0 300
//! 0 allreduce - 64 10
//! 1 allreduce - 64 20 0-1
//! ```
//!
//! `compute_us` is the time that the process computes before the operation, in microseconds of the
//! simulated host; `compute` does nothing else, and has no peer. Each process's events happen in
//! the order of their lines; lines of different processes may be mixed. The sixth field of `send`
//! and `recv` is a tag (0 if it is left out): the n-th message that a process sends to another with
//! a tag is the n-th that the other receives from it with that tag. Collective operations
//! ([`Collective`]) have their root as peer, or none, and as sixth field the processes that take
//! part, in the order of their ranks (all if it is left out); `bytes` are those of a process's
//! block or operands. Text after `#` is a comment.
//!
//! The other is that of `causeway run --trace` (`recorded.rs`).
//!
//! Both become lines (`event.rs`), and those become events here: operations are replaced by the messages that they consist of, and each
//! receive gets the number of its message among those of its sender.

mod collectives;
mod event;
mod recorded;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use collectives::Collective;
use collectives::Step;
pub use event::{LONGEST_MESSAGE, MOST_MESSAGES, MOST_RANKS, TraceError};
use event::{Lines, Mark, Operation, What};

use crate::am::port::Rank;

/// A process's action after it has computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Send(Rank, u64),
    /// Waits until this many messages have arrived from a process.
    Receive(Rank, u64),
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) compute_us: f64,
    pub(super) action: Action,
}

/// A recorded program: the events of each process.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub(super) ranks: Vec<Vec<Event>>,
    pub(super) longest: u64,
}

impl Trace {
    /// Reads a trace, of either format.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut lines = match recorded::is_recorded(text) {
            true => recorded::read(text)?,
            false => text::read(text)?,
        };
        let ranks = add_members(&mut lines)?;
        if ranks == 0 {
            return Err(TraceError::Empty);
        }
        let blocks = blocks(&lines, ranks)?;
        let mut joined = Joined {
            blocks,
            all: (0..ranks).collect(),
            done: vec![BTreeMap::new(); ranks as usize],
            messages: Vec::new(),
            ranks: vec![Vec::new(); ranks as usize],
        };
        for (rank, lines) in (0..).zip(&lines.0) {
            for line in lines {
                joined.add(rank, line)?;
            }
        }
        let Joined {
            mut messages,
            mut ranks,
            ..
        } = joined;
        number(&mut messages, &mut ranks)?;
        let longest = messages.iter().map(|message| message.bytes).max();
        Ok(Self {
            ranks,
            longest: longest.unwrap_or(0),
        })
    }

    /// The number of processes.
    pub fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }
}

/// Adds the processes that an operation names. Returns their number.
fn add_members(lines: &mut Lines) -> Result<u32, TraceError> {
    let mut most = lines.0.len();
    for line in lines.0.iter().flatten() {
        if let What::Collective(Operation {
            members: Some(members),
            root,
            ..
        }) = &line.what
        {
            let last = members.iter().chain(root).max();
            most = most.max(last.map_or(0, |rank| *rank as usize + 1));
        }
    }
    lines.0.resize(most, Vec::new());
    Ok(most as u32)
}

/// The processes that take part in operations, in the order of their ranks.
type Members = Arc<[Rank]>;

/// The properties of an operation on which its processes agree.
#[derive(Clone, Copy)]
struct Agreed {
    kind: Collective,
    root: Option<Rank>,
    bytes: u64,
    line: usize,
}

/// The operations of the processes of each group.
struct Group {
    number: u32,
    agreed: Vec<Agreed>,
}

/// The operations of each group. If sizes differ, the one that counts is the root's if it sends to
/// others, and otherwise the largest; other processes' sizes are ignored.
fn blocks(lines: &Lines, ranks: u32) -> Result<BTreeMap<Members, Group>, TraceError> {
    let all: Members = (0..ranks).collect();
    let mut groups: BTreeMap<Members, Group> = BTreeMap::new();
    // The number of operations of each group that a process has had so far.
    let mut counts: BTreeMap<Members, BTreeMap<Rank, usize>> = BTreeMap::new();
    for (rank, line) in (0..)
        .zip(&lines.0)
        .flat_map(|(rank, lines)| lines.iter().map(move |line| (rank, line)))
    {
        let What::Collective(operation) = &line.what else {
            continue;
        };
        let wrong = |why: String| TraceError::Line {
            line: line.number,
            why,
        };
        let members = operation.members.as_ref().unwrap_or(&all);
        let name = operation.kind.name();
        for named in [Some(rank), operation.root].into_iter().flatten() {
            if !members.contains(&named) {
                return Err(wrong(format!(
                    "process {named} takes no part in this {name}"
                )));
            }
        }
        let count = counts.entry(Arc::clone(members)).or_default();
        let count = count.entry(rank).or_default();
        let number = groups.len() as u32;
        let group = groups.entry(Arc::clone(members)).or_insert(Group {
            number,
            agreed: Vec::new(),
        });
        let own = Agreed {
            kind: operation.kind,
            root: operation.root,
            bytes: operation.bytes,
            line: line.number,
        };
        match group.agreed.get_mut(*count) {
            None => group.agreed.push(own),
            Some(known) if (known.kind, known.root) != (own.kind, own.root) => {
                let (other, line) = (known.kind.name(), known.line);
                let why = format!(
                    "process {rank} takes part in {name}, the one of line {line} in {other}, or with another root"
                );
                return Err(wrong(why));
            }
            Some(known) if own.kind == Collective::Scatter => {
                if own.root == Some(rank) {
                    known.bytes = own.bytes;
                }
            }
            Some(known) => known.bytes = known.bytes.max(own.bytes),
        }
        *count += 1;
    }
    for (members, counts) in &counts {
        let has = |rank: Rank| counts.get(&rank).copied().unwrap_or(0);
        let most = members.iter().copied().max_by_key(|rank| has(*rank));
        let least = members.iter().copied().min_by_key(|rank| has(*rank));
        if let (Some(other), Some(rank)) = (most, least)
            && has(rank) < has(other)
        {
            return Err(TraceError::Absent {
                rank,
                has: has(rank),
                members: causeway_wire::run::ranges(members),
                other,
                others: has(other),
            });
        }
    }
    Ok(groups)
}

/// An end of a message.
#[derive(Clone, Copy)]
struct Message {
    line: usize,
    from: Rank,
    to: Rank,
    mark: Mark,
    bytes: u64,
    is_sent: bool,
    /// The index of the event among those of its process.
    event: usize,
}

struct Joined {
    blocks: BTreeMap<Members, Group>,
    all: Members,
    /// The number of operations of each group that each process has had.
    done: Vec<BTreeMap<u32, usize>>,
    messages: Vec<Message>,
    ranks: Vec<Vec<Event>>,
}

impl Joined {
    fn add(&mut self, rank: Rank, line: &event::Line) -> Result<(), TraceError> {
        let own = &mut self.ranks[rank as usize];
        let operation = match &line.what {
            What::Collective(operation) => operation,
            What::Send(to, bytes, mark) => {
                return self.message(rank, line, (Step::Send(*to), *bytes, *mark));
            }
            What::Receive(from, bytes, mark) => {
                return self.message(rank, line, (Step::Receive(*from), *bytes, *mark));
            }
            What::Nothing => {
                own.push(Event {
                    compute_us: line.compute_us,
                    action: Action::Nothing,
                });
                return Ok(());
            }
        };
        own.push(Event {
            compute_us: line.compute_us,
            action: Action::Nothing,
        });
        let members = operation.members.as_ref().unwrap_or(&self.all);
        let place = |wanted: Rank| members.iter().position(|member| *member == wanted);
        let (Some(group), Some(own)) = (self.blocks.get(members), place(rank)) else {
            return Ok(());
        };
        let number = group.number;
        let count = self.done[rank as usize].entry(number).or_default();
        let Some(agreed) = group.agreed.get(*count).copied() else {
            return Ok(());
        };
        *count += 1;
        let root = agreed.root.and_then(place).unwrap_or(0) as u32;
        let members = Arc::clone(members);
        let silent = event::Line {
            compute_us: 0.0,
            ..line.clone()
        };
        for step in collectives::steps(agreed.kind, own as u32, members.len() as u32, root) {
            let step = match step {
                Step::Send(to) => Step::Send(members[to as usize]),
                Step::Receive(from) => Step::Receive(members[from as usize]),
            };
            let message = (step, agreed.bytes, Mark::Collective(number));
            self.message(rank, &silent, message)?;
        }
        Ok(())
    }

    fn message(
        &mut self,
        rank: Rank,
        line: &event::Line,
        (step, bytes, mark): (Step, u64, Mark),
    ) -> Result<(), TraceError> {
        if self.messages.len() >= 2 * MOST_MESSAGES {
            return Err(TraceError::TooMany);
        }
        let (from, to, is_sent, action) = match step {
            Step::Send(to) => (rank, to, true, Action::Send(to, bytes)),
            Step::Receive(from) => (from, rank, false, Action::Receive(from, 0)),
        };
        let own = &mut self.ranks[rank as usize];
        self.messages.push(Message {
            line: line.number,
            from,
            to,
            mark,
            bytes,
            is_sent,
            event: own.len(),
        });
        own.push(Event {
            compute_us: line.compute_us,
            action,
        });
        Ok(())
    }
}

/// Finds for each receive the number of its message among those of its sender. Each message has to be sent and received once, and have
/// the expected length.
fn number(messages: &mut [Message], ranks: &mut [Vec<Event>]) -> Result<(), TraceError> {
    // The sort is stable, so that messages of a pair stay in their order.
    messages.sort_by_key(|message| (message.from, message.to));
    for pair in messages.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to)) {
        let with_mark = |is_sent: bool| -> Vec<(u64, &Message)> {
            let ends = pair.iter().filter(|message| message.is_sent == is_sent);
            let mut ends = Vec::from_iter((1..).zip(ends));
            ends.sort_by_key(|(_, message)| message.mark);
            ends
        };
        let (sent, received) = (with_mark(true), with_mark(false));
        let (from, to) = (pair[0].from, pair[0].to);
        let is_alike = sent.len() == received.len();
        let marks = || sent.iter().zip(&received);
        if !is_alike || marks().any(|((_, sent), (_, received))| sent.mark != received.mark) {
            return Err(unmatched((from, to), &sent, &received));
        }
        for ((place, sent), (_, received)) in marks() {
            if sent.bytes != received.bytes {
                return Err(TraceError::Line {
                    line: received.line,
                    why: format!(
                        "process {to} receives {} bytes from process {from}; line {} sends {}",
                        received.bytes, sent.line, sent.bytes
                    ),
                });
            }
            ranks[to as usize][received.event].action = Action::Receive(from, *place);
        }
    }
    Ok(())
}

/// The error where messages with a mark are sent and not received, or the other way round.
fn unmatched(
    (from, to): (Rank, Rank),
    sent: &[(u64, &Message)],
    received: &[(u64, &Message)],
) -> TraceError {
    if sent.len() != received.len() {
        let (sent, received) = (sent.len(), received.len());
        return TraceError::Unmatched {
            from,
            to,
            sent,
            received,
        };
    }
    let mut ends = sent.iter().zip(received);
    let found = ends.find(|((_, sent), (_, received))| sent.mark != received.mark);
    let line = found.map_or(0, |(_, (_, received))| received.line);
    TraceError::Line {
        line,
        why: format!("process {to} receives what process {from} does not send with that tag"),
    }
}

#[cfg(test)]
mod tests;
