//! Channels of a scenario: who sends what to whom.

use crate::engine::MILLISECOND;
use crate::profile::units::Kind as Unit;
use crate::profile::{FileError, Section};
use crate::workloads::mpeg;
use crate::workloads::quality::{Experiment, Flow, Shape};

/// Most channels of a node; each has an interface and 64 posted receives.
const MOST_CHANNELS: u64 = 256;
/// Longest time that is measured, in milliseconds.
const LONGEST_MS: u64 = 100_000;
/// Most bytes of a message on a channel.
const LONGEST_MESSAGE: u64 = 16_384;
/// Fastest channel: what no hardware here carries, and what no sum of channels overflows with.
const FASTEST: u64 = 1_000_000_000_000;

#[derive(Clone, Copy)]
enum ShapeName {
    OneToMany,
    ManyToOne,
    BothWays,
}

#[derive(Clone, Copy)]
enum FlowName {
    Constant,
    Video,
    BestEffort,
}

/// Reads the workload's section, whose kind is `channels`. `open` reads a file that is named beside the scenario.
pub(super) fn read(
    workload: &mut Section<'_>,
    seed: u64,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Experiment, FileError> {
    let shape = workload.own_word(
        "shape",
        &[
            ("one to many", ShapeName::OneToMany),
            ("many to one", ShapeName::ManyToOne),
            ("both ways", ShapeName::BothWays),
        ],
    )?;
    let mut others =
        || -> Result<usize, FileError> { Ok(workload.own_count("others", 1, 64)?.value as usize) };
    let shape = match shape.value {
        ShapeName::OneToMany => Shape::OneToMany(others()?),
        ShapeName::ManyToOne => Shape::ManyToOne(others()?),
        ShapeName::BothWays => Shape::BothWays,
    };
    let span = |workload: &mut Section<'_>, key: &str, least: u64| {
        let found = workload.own_quantity(key, Unit::Time)?;
        match (least..=LONGEST_MS * MILLISECOND).contains(&found.value) {
            true => Ok(found.value),
            false => {
                let wrong = match least {
                    0 => format!("`workload.{key}` must be at most {LONGEST_MS} ms"),
                    _ => format!("`workload.{key}` must be from 1 ms to {LONGEST_MS} ms"),
                };
                Err(workload.error(&found.span, wrong))
            }
        }
    };
    let warm_up = span(workload, "warm_up", 0)?;
    let measured = span(workload, "measured", MILLISECOND)?;
    let resolution = match workload.has("resolution") {
        true => span(workload, "resolution", 0)?,
        false => 0,
    };
    let trace = match workload.has("trace") {
        false => None,
        true => {
            let file = workload.text("trace")?;
            let text = open(&file.value).map_err(|why| {
                workload.error(&file.span, format!("reading {}: {why}", file.value))
            })?;
            Some(mpeg::parse_trace(&text, &file.value)?.to_vec())
        }
    };
    let place = workload.span();
    let mut channels = Vec::new();
    for mut section in workload.sections("channel")? {
        let (flow, count) = channel(&mut section)?;
        section.finish()?;
        channels.extend(std::iter::repeat_n(flow, count));
    }
    if channels.len() as u64 > MOST_CHANNELS {
        let wrong = format!(
            "there are {} channels; there may be {MOST_CHANNELS}",
            channels.len()
        );
        return Err(workload.error(&place, wrong));
    }
    Ok(Experiment {
        shape,
        channels,
        trace,
        warm_up,
        measured,
        resolution,
        seed,
    })
}

/// Reads one channel, and how many there are of it.
fn channel(section: &mut Section<'_>) -> Result<(Flow, usize), FileError> {
    let kind = section.own_word(
        "kind",
        &[
            ("constant", FlowName::Constant),
            ("video", FlowName::Video),
            ("best effort", FlowName::BestEffort),
        ],
    )?;
    let count = match section.has("count") {
        true => section.own_count("count", 1, MOST_CHANNELS)?.value as usize,
        false => 1,
    };
    let rate = section.own_quantity("rate", Unit::Rate)?;
    if !(1_000..=FASTEST).contains(&rate.value) {
        let wrong = "a channel's rate must be from 1 kB/s to 1000 GB/s";
        return Err(section.error(&rate.span, wrong));
    }
    let rate = rate.value;
    let flow = match kind.value {
        FlowName::Video => Flow::Video {
            streams: section.own_count("streams", 1, 10_000)?.value as u32,
            stream_rate: rate,
        },
        kind => {
            let size = section.own_quantity("size", Unit::Size)?;
            if !(1..=LONGEST_MESSAGE).contains(&size.value) {
                let wrong = format!("a channel's messages must have from 1 to {LONGEST_MESSAGE} B");
                return Err(section.error(&size.span, wrong));
            }
            let message_bytes = size.value as u32;
            match kind {
                FlowName::BestEffort => Flow::BestEffort {
                    rate,
                    message_bytes,
                },
                _ => Flow::Constant {
                    rate,
                    message_bytes,
                },
            }
        }
    };
    Ok((flow, count))
}
