//! Channels of a scenario: their senders, receivers and messages.

use crate::engine::MILLISECOND;
use crate::profile::units::Kind as Unit;
use crate::profile::{FileError, Section};
use crate::workloads::quality::{Experiment, Flow, Shape};
use crate::workloads::{mpeg, ping};

/// Most channels of a node; each has an interface and 64 posted receives.
const MOST_CHANNELS: u64 = 256;
/// Limits of the measured time.
pub(super) const MEASURED: (u64, u64, &str) = (
    MILLISECOND,
    100_000 * MILLISECOND,
    "must be from 1 ms to 100 s",
);
/// Limits of the time before measuring, and of the shortest jitter that counts.
pub(super) const SPANS: (u64, u64, &str) = (0, 100_000 * MILLISECOND, "must be at most 100 s");
/// Slowest and fastest channel.
pub(super) const RATES: (u64, u64, &str) =
    (1_000, 1_000_000_000_000, "must be from 1 kB/s to 1000 GB/s");
/// Bytes of a message on a channel.
const SIZES: (u64, u64, &str) = (1, 16_384, "must be from 1 B to 16 KiB");

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

/// Reads the workload's section of kind `channels`. `open` reads a file that is named beside the scenario.
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
    let warm_up = workload.own_within("warm_up", Unit::Time, SPANS)?;
    let measured = workload.own_within("measured", Unit::Time, MEASURED)?;
    let resolution = workload.optional("resolution", |workload, key| {
        workload.own_within(key, Unit::Time, SPANS)
    })?;
    let admission = workload.is_set("admission")?;
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
        resolution: resolution.unwrap_or(0),
        admission,
        data_offset: ping::DATA_OFFSET,
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
    let count = section.count_or("count", 1, MOST_CHANNELS, 1)? as usize;
    let rate = section.own_within("rate", Unit::Rate, RATES)?;
    let flow = match kind.value {
        FlowName::Video => Flow::Video {
            streams: section.own_count("streams", 1, 10_000)?.value as u32,
            stream_rate: rate,
        },
        FlowName::BestEffort => Flow::BestEffort {
            rate,
            message_bytes: section.own_within("size", Unit::Size, SIZES)? as u32,
        },
        FlowName::Constant => Flow::Constant {
            rate,
            message_bytes: section.own_within("size", Unit::Size, SIZES)? as u32,
        },
    };
    Ok((flow, count))
}
