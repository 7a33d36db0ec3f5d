//! Timelines and traces: what the processes of a job did, from the files that they have written ([`causeway_wire::run::Event`]): as a timeline
//! for Perfetto or chrome://tracing, and as a trace.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use causeway_command::failure::{Doing, Outcome};
use causeway_watch::process::monotonic_ns;
use causeway_wire::run::{Event, Message};

use super::job_rank::JobRank;

/// The files of timelines and traces that the user has requested.
pub(super) struct Outputs {
    timeline: Option<(PathBuf, BufWriter<File>)>,
    trace: Option<(PathBuf, BufWriter<File>)>,
    /// When the program was started.
    begin_ns: u64,
}

/// The file that the process with this page writes its events to.
pub(super) fn file_of(directory: &Path, page: u32) -> PathBuf {
    directory.join(format!("events-{page}"))
}

impl Outputs {
    /// Makes the files.
    pub(super) fn create(timeline: Option<&Path>, trace: Option<&Path>) -> Outcome<Self> {
        let create = |path: &Path| -> Outcome<(PathBuf, BufWriter<File>)> {
            let file = File::create(path).doing(|| format!("creating {}", path.display()))?;
            Ok((path.to_owned(), BufWriter::new(file)))
        };
        Ok(Self {
            timeline: timeline.map(create).transpose()?,
            trace: trace.map(create).transpose()?,
            begin_ns: monotonic_ns(),
        })
    }

    /// Whether the user has requested any.
    pub(super) fn are_wanted(&self) -> bool {
        self.timeline.is_some() || self.trace.is_some()
    }

    /// Writes the files from the event files of these processes, identified by the numbers of their
    /// pages, in this directory.
    pub(super) fn write(self, directory: &Path, processes: Vec<(JobRank, u32)>) -> Outcome {
        let begin_ns = self.begin_ns;
        if let Some((path, mut file)) = self.timeline {
            let written = write_timeline(&mut file, directory, &processes, begin_ns);
            written
                .and_then(|()| file.flush())
                .doing(|| format!("writing {}", path.display()))?;
        }
        if let Some((path, mut file)) = self.trace {
            let written = write_trace(&mut file, directory, &processes, begin_ns);
            written
                .and_then(|()| file.flush())
                .doing(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

/// Calls `body` for each event of a process. A process that has recorded nothing has none.
fn read(
    directory: &Path,
    page: u32,
    mut body: impl FnMut(Event) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let file = match File::open(file_of(directory, page)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::new(file);
    let mut line = String::new();
    while file.read_line(&mut line)? > 0 {
        if let Some(event) = Event::decode(&line) {
            body(event)?;
        }
        line.clear();
    }
    Ok(())
}

/// Messages between one process and another, by peer and word.
type Pairs<T> = HashMap<(u32, u64), T>;

fn write_timeline(
    to: &mut impl Write,
    directory: &Path,
    processes: &[(JobRank, u32)],
    begin_ns: u64,
) -> std::io::Result<()> {
    let at = |ns: u64| ns.saturating_sub(begin_ns) as f64 / 1e3;
    writeln!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for (job_rank, page) in processes.iter().copied() {
        let world = job_rank.world;
        let of_world = processes.iter().filter(|(other, _)| other.world == world);
        let size = of_world.count() as u32;
        // The n-th message sent is the one that the n-th receive got.
        let mut sent: Pairs<u64> = Pairs::new();
        let mut received: Pairs<Vec<(u64, u64, u64)>> = Pairs::new();
        let id = |from: u32, to: u32, word: u64, number: u64| {
            format!("{world}-{from}-{to}-{word}-{number}")
        };
        writeln!(
            to,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{page},\"args\":{{\"name\":\"{job_rank}\"}}}},"
        )?;
        read(directory, page, |event| match event {
            Event::Call { .. } => write_call(to, page, &event, begin_ns),
            Event::Group(_) => Ok(()),
            // Processes of other programs have no number that both ends share.
            Event::Sent(Message { peer, .. }) | Event::Received(Message { peer, .. }, _)
                if peer >= size =>
            {
                Ok(())
            }
            Event::Sent(message) => {
                let number = sent.entry((message.peer, message.word)).or_default();
                *number += 1;
                let id = id(job_rank.rank, message.peer, message.word, *number);
                write_flow(to, ("s", &id), page, at(message.at_ns), message.bytes)
            }
            Event::Received(message, order) => {
                let of = received.entry((message.peer, message.word)).or_default();
                of.push((order, message.at_ns, message.bytes));
                Ok(())
            }
        })?;
        let received = BTreeMap::from_iter(received);
        for ((peer, word), mut messages) in received {
            messages.sort_unstable();
            for (number, (_, at_ns, bytes)) in (1..).zip(messages) {
                let id = id(peer, job_rank.rank, word, number);
                write_flow(to, ("f", &id), page, at(at_ns), bytes)?;
            }
        }
    }
    // A list does not end with a comma.
    writeln!(
        to,
        "{{\"ph\":\"M\",\"name\":\"trace_end\",\"pid\":0,\"args\":{{}}}}\n]}}"
    )
}

/// A call of a process, as timelines and traces describe it.
struct Called<'a> {
    name: &'a str,
    thread: u32,
    begin_ns: u64,
    end_ns: u64,
    peer: String,
    tag: String,
    bytes: u64,
}

impl<'a> Called<'a> {
    /// The call that an event describes, if it is one; `none` replaces a number that it does not
    /// have.
    fn of(event: &'a Event, none: &str) -> Option<Self> {
        let Event::Call {
            name,
            thread,
            begin_ns,
            end_ns,
            peer,
            tag,
            bytes,
        } = event
        else {
            return None;
        };
        let number = |of: &Option<i32>| of.map_or(none.to_owned(), |of| of.to_string());
        Some(Self {
            name,
            thread: *thread,
            begin_ns: *begin_ns,
            end_ns: *end_ns,
            peer: number(peer),
            tag: number(tag),
            bytes: *bytes,
        })
    }

    fn took_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// Writes the event, if it is a call of a process.
fn write_call(to: &mut impl Write, page: u32, event: &Event, begin_ns: u64) -> std::io::Result<()> {
    let Some(call) = Called::of(event, "null") else {
        return Ok(());
    };
    let name = serde_json::to_string(call.name)?;
    let at = call.begin_ns.saturating_sub(begin_ns) as f64 / 1e3;
    let took = call.took_ns() as f64 / 1e3;
    let Called {
        thread,
        peer,
        tag,
        bytes,
        ..
    } = call;
    writeln!(
        to,
        "{{\"ph\":\"X\",\"cat\":\"call\",\"name\":{name},\"pid\":{page},\"tid\":{thread},\
         \"ts\":{at:.3},\"dur\":{took:.3},\
         \"args\":{{\"peer\":{peer},\"tag\":{tag},\"bytes\":{bytes}}}}},"
    )
}

/// One end of the arrow from a send to its receive.
fn write_flow(
    to: &mut impl Write,
    (end, id): (&str, &str),
    page: u32,
    at: f64,
    bytes: u64,
) -> std::io::Result<()> {
    let binds = if end == "f" { ",\"bp\":\"e\"" } else { "" };
    writeln!(
        to,
        "{{\"ph\":\"{end}\",\"cat\":\"message\",\"name\":\"message\",\"id\":\"{id}\",\"pid\":{page},\
         \"tid\":0,\"ts\":{at:.3}{binds},\"args\":{{\"bytes\":{bytes}}}}},"
    )
}

fn write_trace(
    to: &mut impl Write,
    directory: &Path,
    processes: &[(JobRank, u32)],
    begin_ns: u64,
) -> std::io::Result<()> {
    writeln!(to, "# causeway trace 2, {} processes", processes.len())?;
    writeln!(
        to,
        "# rank thread operation peer tag bytes compute_ns call_ns processes"
    )?;
    writeln!(
        to,
        "# or, of a message, before the call in which it went out or was there: rank - sent|received peer word bytes number - -"
    )?;
    for process in processes.iter().copied() {
        write_process_trace(to, directory, process, begin_ns)?;
    }
    Ok(())
}

/// The numbers of a process's receives in the order of posting, by peer and word: the receive that
/// was posted first got the message that was sent first.
fn receive_orders(directory: &Path, page: u32) -> std::io::Result<Pairs<Vec<u64>>> {
    let mut orders: Pairs<Vec<u64>> = Pairs::new();
    read(directory, page, |event| {
        if let Event::Received(message, order) = event {
            let of = orders.entry((message.peer, message.word)).or_default();
            of.push(order);
        }
        Ok(())
    })?;
    orders.values_mut().for_each(|of| of.sort_unstable());
    Ok(orders)
}

fn write_process_trace(
    to: &mut impl Write,
    directory: &Path,
    (job_rank, page): (JobRank, u32),
    begin_ns: u64,
) -> std::io::Result<()> {
    let orders = receive_orders(directory, page)?;
    let mut sent: Pairs<u64> = Pairs::new();
    let job_rank = job_rank.number();
    // When each thread left its last call.
    let mut last: HashMap<u32, u64> = HashMap::new();
    let mut group = None;
    read(directory, page, |event| {
        let message = |what: &str, number: u64, message: &Message| {
            let Message {
                peer, word, bytes, ..
            } = message;
            format!("{job_rank} - {what} {peer} {word} {bytes} {number} - -")
        };
        match &event {
            Event::Group(processes) => {
                group = Some(processes.clone());
                return Ok(());
            }
            Event::Sent(out) => {
                let number = sent.entry((out.peer, out.word)).or_default();
                *number += 1;
                return writeln!(to, "{}", message("sent", *number, out));
            }
            Event::Received(come, order) => {
                let before = orders.get(&(come.peer, come.word));
                let before = before.map_or(0, |of| of.partition_point(|other| other < order));
                return writeln!(to, "{}", message("received", before as u64 + 1, come));
            }
            Event::Call { .. } => {}
        }
        let Some(call) = Called::of(&event, "-") else {
            return Ok(());
        };
        let before = last.insert(call.thread, call.end_ns).unwrap_or(begin_ns);
        let (compute, took) = (call.begin_ns.saturating_sub(before), call.took_ns());
        let group = group.take().unwrap_or_else(|| "-".to_owned());
        let Called {
            name,
            thread,
            peer,
            tag,
            bytes,
            ..
        } = call;
        writeln!(
            to,
            "{job_rank} {thread} {name} {peer} {tag} {bytes} {compute} {took} {group}"
        )
    })
}
