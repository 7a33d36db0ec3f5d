//! Timelines that Perfetto and Chrome open: JSON in the trace event format.
//!
//! Each node is a process, each processor, engine and direction of transfer a thread of it; a message's way is a flow
//! of arrows through the slices that carry its number, from the doorbell on. Timestamps are microseconds with
//! six decimals, so that no picosecond is lost. Transfers that overlap on one engine lie on separate lines.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::engine::{MICROSECOND, Time};
use crate::node::record::{Mark, Record, Slice, Stage, Track};

fn microseconds(time: Time) -> String {
    format!("{}.{:06}", time / MICROSECOND, time % MICROSECOND)
}

/// A line's number within its node, and its name. Lines that may overlap leave numbers free for more of their kind.
fn line(track: Track) -> (u32, String) {
    match track {
        Track::Processor(number) => (100 + u32::from(number), format!("card processor {number}")),
        Track::HostDmaDown => (200, "host DMA from host".to_owned()),
        Track::HostDmaUp => (300, "host DMA to host".to_owned()),
        Track::NetSend => (400, "net send DMA".to_owned()),
        Track::NetReceive => (500, "net receive DMA".to_owned()),
        Track::Process(number) => (1_000 + number, format!("process {number}")),
    }
}

/// Lines already in use: node, line, and until when.
#[derive(Default)]
struct Lines {
    used: Vec<(u32, u32, Time)>,
}

impl Lines {
    /// The first line of the track that is free from `start` on.
    fn place(&mut self, slice: &Slice) -> (u32, bool) {
        let (first, _) = line(slice.track);
        let mut number = first;
        loop {
            let known = self
                .used
                .iter_mut()
                .find(|(node, line, _)| (*node, *line) == (slice.node, number));
            match known {
                None => {
                    self.used.push((slice.node, number, slice.end));
                    return (number, true);
                }
                Some((.., until)) if *until <= slice.start => {
                    *until = slice.end;
                    return (number, false);
                }
                Some(_) => number += 1,
            }
        }
    }
}

/// Writes what `record` kept. The order of events depends only on the run.
pub fn write(record: &Record, out: &mut impl Write) -> io::Result<()> {
    let mut slices: Vec<&Slice> = record.slices.iter().flatten().collect();
    slices.sort_by_key(|slice| (slice.start, slice.node, slice.track, slice.end));
    let mut lines = Lines::default();
    let mut nodes = Vec::new();
    let mut flows = Flows::default();
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut separator = "";
    for slice in slices {
        let (number, new_line) = lines.place(slice);
        let mut text = String::new();
        if !nodes.contains(&slice.node) {
            nodes.push(slice.node);
            let _ = write!(
                text,
                "{separator}{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_name\",\"args\":{{\"name\":\"node {0}\"}}}}",
                slice.node
            );
            separator = ",\n";
        }
        if new_line {
            let (_, name) = line(slice.track);
            let _ = write!(
                text,
                "{separator}{{\"ph\":\"M\",\"pid\":{},\"tid\":{number},\"name\":\"thread_name\",\"args\":{{\"name\":\"{name}\"}}}}",
                slice.node
            );
            separator = ",\n";
        }
        let _ = write!(
            text,
            "{separator}{{\"ph\":\"X\",\"pid\":{},\"tid\":{number},\"ts\":{},\"dur\":{},\"name\":\"{}\"",
            slice.node,
            microseconds(slice.start),
            microseconds(slice.end.saturating_sub(slice.start)),
            slice.name
        );
        separator = ",\n";
        match slice.message {
            None => text.push('}'),
            Some((node, message)) => {
                let _ = write!(text, ",\"args\":{{\"message\":\"{node}.{message}\"}}}}");
                flows.step(&mut text, slice, number, (node, message));
            }
        }
        out.write_all(text.as_bytes())?;
    }
    for mark in record.marks.iter().flatten() {
        if matches!(mark.stage, Stage::Rung | Stage::Noticed) {
            out.write_all(instant(separator, mark).as_bytes())?;
            separator = ",\n";
        }
    }
    out.write_all(b"\n]}\n")
}

fn instant(separator: &str, mark: &Mark) -> String {
    format!(
        "{separator}{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{},\"tid\":100,\"ts\":{},\"name\":\"{}\",\"args\":{{\"message\":{},\"vi\":{}}}}}",
        mark.node,
        microseconds(mark.at),
        mark.stage.name(),
        mark.message,
        mark.vi
    )
}

/// Messages whose arrows have begun.
#[derive(Default)]
struct Flows {
    begun: std::collections::BTreeSet<(u32, u64)>,
}

impl Flows {
    /// Adds the arrow from the message's slice before to this one.
    fn step(&mut self, text: &mut String, slice: &Slice, line: u32, message: (u32, u64)) {
        let kind = match self.begun.insert(message) {
            true => 's',
            false => 't',
        };
        let _ = write!(
            text,
            ",\n{{\"ph\":\"{kind}\",\"cat\":\"message\",\"name\":\"message\",\"id\":\"{}.{}\",\"pid\":{},\"tid\":{line},\"ts\":{}}}",
            message.0,
            message.1,
            slice.node,
            microseconds(slice.start)
        );
    }
}
