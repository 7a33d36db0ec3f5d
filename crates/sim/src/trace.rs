//! Timelines that Perfetto and Chrome open: JSON in the trace event format.
//!
//! Each node is a process, each processor, engine and direction of transfer a thread of it; a
//! message's path is a flow of arrows through the slices with its number, from the doorbell to the
//! last transfer of its completion. Timestamps are microseconds with six decimals, so that no
//! picosecond is lost. Transfers that overlap on one engine are on separate lines.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Write};

use causeway_firmware::Side;

use crate::engine::{MICROSECOND, NANOSECOND, Time};
use crate::node::record::{Mark, Record, Slice, Stage, Track};

fn microseconds(time: Time) -> String {
    format!("{}.{:06}", time / MICROSECOND, time % MICROSECOND)
}

/// A line's number within its node, and its name. Lines that may overlap leave numbers free for more of their kind.
fn line(track: Track) -> (u32, String) {
    match track {
        Track::Doorbell => (50, "send doorbells".to_owned()),
        Track::Processor(number) => (100 + u32::from(number), format!("card processor {number}")),
        Track::HostDmaDown => (200, "host DMA from host".to_owned()),
        Track::HostDmaUp => (300, "host DMA to host".to_owned()),
        Track::NetSend => (400, "net send DMA".to_owned()),
        Track::NetReceive => (500, "net receive DMA".to_owned()),
        Track::Wire => (600, "wire".to_owned()),
        Track::Process(number) => (1_000 + number, format!("process {number}")),
    }
}

/// Lines in use: node, line, and until when.
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

/// How long each doorbell of a send waited until the program noticed it. Doorbells of a work queue are noticed in the order in
/// which they were rung.
fn doorbells(marks: &[Mark]) -> Vec<Slice> {
    let mut marks: Vec<&Mark> = marks
        .iter()
        .filter(|mark| mark.side == Side::Send)
        .filter(|mark| matches!(mark.stage, Stage::Rung | Stage::Noticed))
        .collect();
    marks.sort_by_key(|mark| mark.at);
    let mut rung: BTreeMap<(u32, u32), VecDeque<Time>> = BTreeMap::new();
    let mut found = Vec::new();
    for mark in marks {
        let queue = rung.entry((mark.node, mark.vi)).or_default();
        match mark.stage {
            Stage::Rung => queue.push_back(mark.at),
            _ => {
                if let Some(start) = queue.pop_front() {
                    found.push(Slice {
                        node: mark.node,
                        track: Track::Doorbell,
                        name: "doorbell",
                        start,
                        // An arrow needs a slice that is visible.
                        end: mark.at.max(start + NANOSECOND),
                        message: Some((mark.node, mark.message)),
                    });
                }
            }
        }
    }
    found
}

/// Writes the timeline of `record`. The order of events depends only on the run.
pub fn write(record: &Record, out: &mut impl Write) -> io::Result<()> {
    let marks = record.marks.as_deref().unwrap_or_default();
    let mut slices = doorbells(marks);
    slices.extend(record.slices.iter().flatten().copied());
    slices.sort_by_key(|slice| (slice.start, slice.node, slice.track, slice.end));
    let mut flows = Flows::new(&slices);
    let mut lines = Lines::default();
    let mut nodes = BTreeSet::new();
    let mut events = Events {
        out,
        separator: "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n",
    };
    for slice in &slices {
        let node = slice.node;
        let (number, new_line) = lines.place(slice);
        if nodes.insert(node) {
            events.name("process_name", node, 0, &format!("node {node}"))?;
        }
        if new_line {
            let (_, name) = line(slice.track);
            events.name("thread_name", node, number, &name)?;
        }
        events.slice(slice, number)?;
        if let Some(message) = slice.message
            && let Some(kind) = flows.step(message)
        {
            events.arrow(kind, slice, number, message)?;
        }
    }
    let instants = [Stage::Rung, Stage::Noticed];
    for mark in marks.iter().filter(|mark| instants.contains(&mark.stage)) {
        events.instant(mark)?;
    }
    if slices.is_empty() {
        events.name("process_name", 0, 0, "nothing was recorded")?;
    }
    events.out.write_all(b"\n]}\n")
}

/// Events to be written.
struct Events<'a, W> {
    out: &'a mut W,
    /// The separator before the next one.
    separator: &'static str,
}

impl<W: Write> Events<'_, W> {
    fn put(&mut self, event: &str) -> io::Result<()> {
        self.out.write_all(self.separator.as_bytes())?;
        self.separator = ",\n";
        self.out.write_all(event.as_bytes())
    }

    fn name(&mut self, what: &str, node: u32, line: u32, name: &str) -> io::Result<()> {
        self.put(&format!(
            "{{\"ph\":\"M\",\"pid\":{node},\"tid\":{line},\"name\":\"{what}\",\"args\":{{\"name\":\"{name}\"}}}}"
        ))
    }

    fn slice(&mut self, slice: &Slice, line: u32) -> io::Result<()> {
        let mut text = format!(
            "{{\"ph\":\"X\",\"pid\":{},\"tid\":{line},\"ts\":{},\"dur\":{},\"name\":\"{}\"",
            slice.node,
            microseconds(slice.start),
            microseconds(slice.end.saturating_sub(slice.start)),
            slice.name
        );
        if let Some((node, message)) = slice.message {
            let _ = write!(text, ",\"args\":{{\"message\":\"{node}.{message}\"}}");
        }
        text.push('}');
        self.put(&text)
    }

    /// The arrow from the message's previous slice to this one, or from this one to the next.
    fn arrow(
        &mut self,
        kind: &str,
        slice: &Slice,
        line: u32,
        (node, message): (u32, u64),
    ) -> io::Result<()> {
        self.put(&format!(
            "{{\"ph\":\"{kind}\",\"bp\":\"e\",\"cat\":\"message\",\"name\":\"message\",\"id\":\"{node}.{message}\",\"pid\":{},\"tid\":{line},\"ts\":{}}}",
            slice.node,
            microseconds(slice.start)
        ))
    }

    fn instant(&mut self, mark: &Mark) -> io::Result<()> {
        self.put(&format!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{},\"tid\":100,\"ts\":{},\"name\":\"{}\",\"args\":{{\"message\":{},\"vi\":{}}}}}",
            mark.node,
            microseconds(mark.at),
            mark.stage.name(),
            mark.message,
            mark.vi
        ))
    }
}

/// The number of slices of each message, and how many of them have been written.
struct Flows(BTreeMap<(u32, u64), (usize, usize)>);

impl Flows {
    fn new(slices: &[Slice]) -> Self {
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for message in slices.iter().filter_map(|slice| slice.message) {
            counts.entry(message).or_default().0 += 1;
        }
        Self(counts)
    }

    /// The kind of arrow at the message's next slice: its beginning, a step, or its end.
    fn step(&mut self, message: (u32, u64)) -> Option<&'static str> {
        let (all, written) = self.0.get_mut(&message)?;
        *written += 1;
        match (*written, *all) {
            (_, 1) => None,
            (1, _) => Some("s"),
            (written, all) if written == all => Some("f"),
            _ => Some("t"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_leads_from_the_doorbell_to_the_last_slice() {
        let slice = |node, track, start| Slice {
            node,
            track,
            name: "work",
            start,
            end: start + 10 * NANOSECOND,
            message: Some((0, 7)),
        };
        let mark = |at, stage, message| Mark {
            at,
            node: 0,
            vi: 3,
            side: Side::Send,
            message,
            stage,
        };
        let record = Record {
            marks: Some(vec![
                mark(1_000, Stage::Rung, 0),
                mark(5_000, Stage::Noticed, 7),
            ]),
            slices: Some(vec![
                slice(1, Track::NetReceive, 90_000),
                slice(0, Track::NetSend, 50_000),
                slice(0, Track::NetSend, 55_000),
            ]),
            ..Record::default()
        };
        let mut text = Vec::new();
        write(&record, &mut text).expect("memory takes it");
        let read: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
        let events = read["traceEvents"].as_array().expect("a list");
        let arrows: Vec<(&str, i64, f64)> = events
            .iter()
            .filter(|event| event["cat"] == "message")
            .map(|event| {
                let number = |key: &str| event[key].as_i64().expect("a number");
                let kind = event["ph"].as_str().expect("text");
                (kind, number("tid"), event["ts"].as_f64().expect("a time"))
            })
            .collect();
        // The two that overlap on one engine lie on two lines.
        let expected = [
            ("s", 50, 0.001),
            ("t", 400, 0.05),
            ("t", 401, 0.055),
            ("f", 500, 0.09),
        ];
        assert_eq!(arrows, expected);
        let empty = Record::default();
        let mut text = Vec::new();
        write(&empty, &mut text).expect("memory takes it");
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
    }
}
