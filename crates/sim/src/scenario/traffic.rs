//! Reading traffic between all nodes of a cluster.

use causeway_wire::vi::Operation;

use super::channels::{MEASURED, RATES, SPANS};
use crate::engine::SECOND;
use crate::profile::units::Kind as Unit;
use crate::profile::{FileError, Section};
use crate::workloads::traffic::{LONGEST, Loop, Pattern, Sizes, Traffic, connections};

/// Most nodes.
const MOST_NODES: u64 = 4_096;
/// Most connections: each has two ends with queues and buffers.
const MOST_CONNECTIONS: usize = 1 << 15;
const SIZES: (u64, u64, &str) = (1, LONGEST as u64, "must be from 1 B to 64 KiB");
const THINKS: (u64, u64, &str) = (0, 100 * SECOND, "must be at most 100 s");

#[derive(Clone, Copy)]
enum PatternName {
    AllToAll,
    Uniform,
    Neighbour,
    Permutation,
    Hotspot,
    Zipf,
}

const PATTERNS: &[(&str, PatternName)] = &[
    ("all to all", PatternName::AllToAll),
    ("uniform", PatternName::Uniform),
    ("neighbour", PatternName::Neighbour),
    ("permutation", PatternName::Permutation),
    ("hotspot", PatternName::Hotspot),
    ("zipf", PatternName::Zipf),
];

#[derive(Clone, Copy)]
enum SizesName {
    Uniform,
    Exponential,
    LogUniform,
    Weighted,
}

/// Reads the workload's section of kind `traffic`. Sizes are those of the file unless `[workload.sizes]` gives their
/// distribution.
pub(super) fn read(workload: &mut Section<'_>, seed: u64) -> Result<Traffic, FileError> {
    let nodes = workload.own_count("nodes", 2, MOST_NODES)?;
    let pattern = pattern(workload)?;
    let count = nodes.value as usize;
    let all = connections(pattern, count);
    if all > MOST_CONNECTIONS {
        let wrong = format!(
            "these nodes have {all} connections, one from each to each that it sends to; {MOST_CONNECTIONS} can be \
             simulated"
        );
        return Err(workload.error(&nodes.span, wrong));
    }
    let is_open = [("open", true), ("closed", false)];
    let is_open = workload.own_word("loop", &is_open)?.value;
    let words = [
        ("send", Operation::Send),
        ("rdma write", Operation::RdmaWrite),
        ("rdma read", Operation::RdmaRead),
    ];
    let operation = workload.word_or("operation", &words, Operation::Send)?;
    let when = match is_open {
        true => Loop::Open {
            rate: workload.own_within("rate", Unit::Rate, RATES)?,
            is_exponential: workload.word_or("arrivals", PAUSES, true)?,
        },
        false => closed(workload, operation)?,
    };
    let sizes = match workload.optional_section("sizes")? {
        Some(mut section) => {
            let sizes = sizes(&mut section)?;
            section.finish()?;
            sizes
        }
        None => Sizes::Fixed(0),
    };
    Ok(Traffic {
        nodes: count,
        pattern,
        when,
        sizes,
        operation,
        warm_up: workload.own_within("warm_up", Unit::Time, SPANS)?,
        measured: workload.own_within("measured", Unit::Time, MEASURED)?,
        seed,
    })
}

fn pattern(workload: &mut Section<'_>) -> Result<Pattern, FileError> {
    Ok(match workload.own_word("pattern", PATTERNS)?.value {
        PatternName::AllToAll => Pattern::AllToAll,
        PatternName::Uniform => Pattern::Uniform,
        PatternName::Neighbour => Pattern::Neighbour,
        PatternName::Permutation => Pattern::Permutation,
        PatternName::Hotspot => {
            let share = workload.own_number("share", 0.0, 1.0)?.value;
            Pattern::Hotspot((share * 1_000.0).round() as u32)
        }
        PatternName::Zipf => {
            let exponent = workload.own_number("exponent", 0.25, 4.0)?;
            let quarters = exponent.value * 4.0;
            if quarters.fract() != 0.0 {
                let wrong = "`workload.exponent` must be a multiple of 0.25";
                return Err(workload.error(&exponent.span, wrong));
            }
            Pattern::Zipf(quarters as u32)
        }
    })
}

/// Distributions of pauses: whether exponential.
const PAUSES: &[(&str, bool)] = &[("exponential", true), ("constant", false)];

fn closed(workload: &mut Section<'_>, operation: Operation) -> Result<Loop, FileError> {
    let outstanding = workload.own_count("outstanding", 1, 64)?.value as u32;
    let think = workload.optional("think", |workload, key| {
        workload.own_within(key, Unit::Time, THINKS)
    })?;
    Ok(Loop::Closed {
        outstanding,
        think: think.unwrap_or(0),
        is_exponential: workload.word_or("thinking", PAUSES, false)?,
        // No process replies to RDMA.
        reply_bytes: match operation == Operation::Send && workload.has("reply") {
            true => workload.own_within("reply", Unit::Size, SIZES)? as u32,
            false => 64,
        },
    })
}

/// Reads the distribution of sizes.
fn sizes(section: &mut Section<'_>) -> Result<Sizes, FileError> {
    let kind = section.own_word(
        "distribution",
        &[
            ("uniform", SizesName::Uniform),
            ("exponential", SizesName::Exponential),
            ("log-uniform", SizesName::LogUniform),
            ("weighted", SizesName::Weighted),
        ],
    )?;
    let mut size = |key: &str| -> Result<u32, FileError> {
        Ok(section.own_within(key, Unit::Size, SIZES)? as u32)
    };
    let sizes = match kind.value {
        SizesName::Exponential => Sizes::Exponential(size("mean")?),
        SizesName::Uniform => Sizes::Uniform(size("from")?, size("to")?),
        SizesName::LogUniform => Sizes::LogUniform(size("from")?, size("to")?),
        SizesName::Weighted => {
            let mut entries = Vec::new();
            for mut one in section.sections("size")? {
                let bytes = one.own_within("bytes", Unit::Size, SIZES)? as u32;
                let weight = one.own_count("weight", 1, 1_000_000)?.value as u32;
                one.finish()?;
                entries.push((bytes, weight));
            }
            Sizes::Weighted(entries)
        }
    };
    match sizes {
        Sizes::Uniform(from, to) | Sizes::LogUniform(from, to) if from > to => {
            let wrong = "`workload.sizes.from` must not be larger than `workload.sizes.to`";
            Err(section.error(&kind.span, wrong))
        }
        sizes => Ok(sizes),
    }
}
