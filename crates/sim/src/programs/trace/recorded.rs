//! Traces of MPI programs, as `causeway run --trace` writes them.
//!
//! The messages of a process precede the call in which they were sent or had arrived. A receive is
//! waited for in the next call that may wait, since a message that has arrived during another call,
//! such as one that posts a send, was not needed yet. For the same reason a nonblocking collective
//! operation happens in the next call that waits, or before the next collective operation.

use std::sync::Arc;

use super::collectives::Collective;
use super::event::{
    LONGEST_COMPUTE_US, Line, Lines, Mark, Operation, TraceError, What, process, processes, size,
};
use crate::am::port::Rank;

/// The beginning of such a trace.
const BEGIN: &str = "# causeway trace ";
/// The only version with enough information.
const VERSION: &str = "2,";

/// Blocking operations by their names after `MPI_`. Operations whose counts differ by process, for
/// which a call does not record a single one, are not included.
const COLLECTIVES: [(&str, Collective); 14] = [
    ("Barrier", Collective::Barrier),
    ("Bcast", Collective::Broadcast),
    ("Reduce", Collective::Reduce),
    ("Allreduce", Collective::AllReduce),
    ("Gather", Collective::Gather),
    ("Gatherv", Collective::Gather),
    ("Scatter", Collective::Scatter),
    ("Scatterv", Collective::Scatter),
    ("Allgather", Collective::AllGather),
    ("Allgatherv", Collective::AllGather),
    ("Alltoall", Collective::AllToAll),
    ("Reduce_scatter_block", Collective::AllToAll),
    ("Scan", Collective::Scan),
    ("Exscan", Collective::Scan),
];

/// Calls that communicate in ways of which a trace records too little.
const UNKNOWN: [&str; 17] = [
    "Alltoallv",
    "Alltoallw",
    "Ialltoallv",
    "Ialltoallw",
    "Reduce_scatter",
    "Ireduce_scatter",
    "Put",
    "Rput",
    "Get",
    "Rget",
    "Accumulate",
    "Raccumulate",
    "Get_accumulate",
    "Rget_accumulate",
    "Fetch_and_op",
    "Compare_and_swap",
    "Win_fence",
];

/// Beginnings of the names of more such calls.
const UNKNOWN_KINDS: [&str; 4] = ["Neighbor_", "Ineighbor_", "Psend_", "Precv_"];

/// Whether a text is a recorded program's trace.
pub(super) fn is_recorded(text: &str) -> bool {
    text.starts_with(BEGIN)
}

/// Reads the lines of each process.
pub(super) fn read(text: &str) -> Result<Lines, TraceError> {
    let mut lines = Lines::default();
    let mut own = Process::default();
    for (place, line) in text.lines().enumerate() {
        let number = place + 1;
        let wrong = |why: String| TraceError::Line { line: number, why };
        if let Some(version) = line.strip_prefix(BEGIN) {
            if !version.starts_with(VERSION) {
                let why =
                    "this version of a trace does not tell messages; record the program again";
                return Err(wrong(why.to_owned()));
            }
            continue;
        }
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(' ').collect();
        let &[rank, thread, name, peer, tag, bytes, compute, took, group] = fields.as_slice()
        else {
            let count = fields.len();
            return Err(wrong(format!("there are {count} fields; 9 are expected")));
        };
        let rank = match rank.contains('.') {
            false => process(rank).map_err(wrong)?,
            true => return Err(wrong(format!("{rank} is a process of a spawned program"))),
        };
        if rank != own.rank {
            own.end(&mut lines);
            own.rank = rank;
        }
        let done = match (thread, name) {
            ("-", _) => own.message(number, name, (peer, tag, bytes, compute)),
            _ => own.call(
                (number, &mut lines),
                name,
                CallFields {
                    peer,
                    bytes,
                    compute,
                    took,
                    group,
                },
            ),
        };
        done.map_err(wrong)?;
    }
    own.end(&mut lines);
    Ok(lines)
}

/// The fields of a call that are used.
#[derive(Clone, Copy)]
struct CallFields<'a> {
    peer: &'a str,
    bytes: &'a str,
    compute: &'a str,
    took: &'a str,
    group: &'a str,
}

/// A process whose lines are being read.
#[derive(Default)]
struct Process {
    rank: Rank,
    /// Messages of the call whose line comes next.
    messages: Vec<(usize, What)>,
    /// Receives that a later call waits for.
    later: Vec<(usize, What)>,
}

impl Process {
    fn message(
        &mut self,
        line: usize,
        what: &str,
        (peer, word, bytes, number): (&str, &str, &str, &str),
    ) -> Result<(), String> {
        let (peer, bytes) = (process(peer)?, size(bytes)?);
        let (Ok(word), Ok(number)) = (word.parse(), number.parse()) else {
            return Err(format!("`{word}` and `{number}` are no numbers"));
        };
        let mark = Mark::Word(word, number);
        let what = match what {
            "sent" => What::Send(peer, bytes, mark),
            "received" => What::Receive(peer, bytes, mark),
            _ => return Err(format!("`{what}` is neither sent nor received")),
        };
        // A message of a process to itself is a copy.
        if peer != self.rank {
            self.messages.push((line, what));
        }
        Ok(())
    }

    fn call(
        &mut self,
        (line, lines): (usize, &mut Lines),
        call: &str,
        fields: CallFields<'_>,
    ) -> Result<(), String> {
        let name = call.strip_prefix("MPI_").unwrap_or(call);
        let name = name.strip_suffix("_c").unwrap_or(name);
        let is_inexact = UNKNOWN.contains(&name)
            || UNKNOWN_KINDS.iter().any(|kind| name.starts_with(kind))
            || collective(name.strip_suffix("_init").unwrap_or_default()).is_some();
        if is_inexact {
            return Err(format!(
                "{call} is not replayed: a trace does not tell enough of it"
            ));
        }
        let mut compute_us = microseconds(fields.compute)?;
        if name.starts_with("File_") {
            compute_us = (compute_us + microseconds(fields.took)?).min(LONGEST_COMPUTE_US);
        }
        let own = lines.of(self.rank);
        own.push(Line {
            number: line,
            compute_us,
            what: What::Nothing,
        });
        let blocking = collective(name);
        let nonblocking = started(name);
        if waits(name) || blocking.is_some() || nonblocking.is_some() {
            own.extend(self.later.drain(..).map(plain));
        }
        let is_waiting = waits(name) || blocking.is_some();
        for (line, what) in self.messages.drain(..) {
            match what {
                What::Receive(..) if !is_waiting => self.later.push((line, what)),
                _ => own.push(plain((line, what))),
            }
        }
        if let Some(kind) = blocking {
            own.push(plain((line, part(kind, fields)?)));
        } else if let Some(kind) = nonblocking {
            self.later.push((line, part(kind, fields)?));
        }
        Ok(())
    }

    /// Ends a process: it waits for everything that it has not waited for.
    fn end(&mut self, lines: &mut Lines) {
        let rest = self.later.drain(..).chain(self.messages.drain(..));
        lines.of(self.rank).extend(rest.map(plain));
    }
}

fn plain((number, what): (usize, What)) -> Line {
    Line {
        number,
        compute_us: 0.0,
        what,
    }
}

/// Whether a call may wait for messages.
fn waits(name: &str) -> bool {
    const BEGINS: [&str; 6] = ["Wait", "Recv", "Mrecv", "Sendrecv", "Test", "Finalize"];
    let local = ["Recv_init", "Test_cancelled"];
    BEGINS.iter().any(|begin| name.starts_with(begin)) && !local.contains(&name)
}

fn collective(name: &str) -> Option<Collective> {
    let found = COLLECTIVES.iter().find(|(known, _)| *known == name);
    found.map(|(_, kind)| *kind)
}

/// The operation that a call begins without waiting for it.
fn started(name: &str) -> Option<Collective> {
    let rest = name.strip_prefix('I')?;
    let found = COLLECTIVES.iter().find(|(known, _)| {
        let same = known.len() == rest.len();
        same && known.to_ascii_lowercase() == rest
    });
    found.map(|(_, kind)| *kind)
}

/// A process's part in an operation.
fn part(kind: Collective, fields: CallFields<'_>) -> Result<What, String> {
    let members: Option<Arc<[Rank]>> = match fields.group {
        "-" => None,
        "?" => return Err("operations of inter-communicators are not replayed".to_owned()),
        group => Some(processes(group)?),
    };
    Ok(What::Collective(Operation {
        kind,
        root: kind.has_root().then(|| process(fields.peer)).transpose()?,
        bytes: size(fields.bytes)?,
        members,
    }))
}

fn microseconds(nanoseconds: &str) -> Result<f64, String> {
    match nanoseconds.parse::<u64>() {
        Ok(time) if time as f64 / 1e3 <= LONGEST_COMPUTE_US => Ok(time as f64 / 1e3),
        _ => Err(format!("`{nanoseconds}` is no time in nanoseconds")),
    }
}
