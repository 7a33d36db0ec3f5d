//! A program's timeline: its messages' journeys as slices, for [`crate::trace`].

use super::Journey;
use crate::node::Record;
use crate::node::record::{Slice, Track};

/// The track of a stage, and whether it is at the message's receiver.
fn place(journey: &Journey, stage: &str) -> (Track, bool) {
    let receives = stage.starts_with("receive");
    let process = match receives {
        true => journey.to,
        false => journey.from,
    };
    let track = match stage {
        "wire" | "Header sent on network" | "Data sent on network" => Track::Wire,
        "Data in SRAM" => return (Track::NetReceive, true),
        "DMA to host" => return (Track::HostDmaUp, true),
        "Message received by host" => return (Track::Process(journey.to), true),
        "Detected in send queue" => Track::Processor(0),
        stage if stage.ends_with("DMA from host") || stage == "send: DMA" => Track::HostDmaDown,
        stage if stage.ends_with("DMA to host") => Track::HostDmaUp,
        stage if stage.ends_with("network processor") => Track::Processor(0),
        _ => Track::Process(process),
    };
    (track, receives)
}

/// The messages' stages that took time, each where it happened. Messages are numbered in the order of their receipt.
pub fn record(journeys: &[Journey], processes_per_host: u32) -> Record {
    let mut record = Record::default();
    record.keep_slices();
    let host = |process: u32| process / processes_per_host.max(1);
    for (number, journey) in journeys.iter().enumerate() {
        let stages = journey.stages.iter().zip(&journey.begins);
        for (&(name, time), &start) in stages.filter(|((_, time), _)| *time > 0) {
            let (track, receives) = place(journey, name);
            let process = match receives {
                true => journey.to,
                false => journey.from,
            };
            record.slice(Slice {
                node: host(process),
                track,
                name,
                start,
                end: start + time,
                message: Some((host(journey.from), number as u64 + 1)),
            });
        }
    }
    record
}
