//! The format of traces that people and their scripts write.

use super::collectives::Collective;
use super::event::{
    LONGEST_COMPUTE_US, Line, Lines, Mark, Operation, TraceError, What, process, processes, size,
};
use crate::am::port::Rank;

/// Reads the lines of each process.
pub(super) fn read(text: &str) -> Result<Lines, TraceError> {
    let mut lines = Lines::default();
    for (place, line) in text.lines().enumerate() {
        let number = place + 1;
        let fields: Vec<&str> = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        if fields.is_empty() {
            continue;
        }
        let (rank, compute_us, what) =
            event(&fields).map_err(|why| TraceError::Line { line: number, why })?;
        lines.of(rank).push(Line {
            number,
            compute_us,
            what,
        });
    }
    Ok(lines)
}

fn event(fields: &[&str]) -> Result<(Rank, f64, What), String> {
    let (rank, operation, peer, bytes, compute, last) = match *fields {
        [rank, operation, peer, bytes, compute] => (rank, operation, peer, bytes, compute, None),
        [rank, operation, peer, bytes, compute, last] => {
            (rank, operation, peer, bytes, compute, Some(last))
        }
        _ => {
            return Err(format!(
                "there are {} fields; \"rank operation peer bytes compute_us\" is expected, and a tag or a list of processes may follow",
                fields.len()
            ));
        }
    };
    let rank = process(rank)?;
    let bytes = size(bytes)?;
    let compute_us = match compute.parse::<f64>() {
        Ok(time) if (0.0..=LONGEST_COMPUTE_US).contains(&time) => time,
        _ => {
            return Err(format!(
                "`{compute}` is no time: 0 to {LONGEST_COMPUTE_US} µs are"
            ));
        }
    };
    let other = || match process(peer)? {
        other if other == rank => Err(format!("process {rank} is its own peer")),
        other => Ok(other),
    };
    let tag = || match last.unwrap_or("0").parse() {
        Ok(tag) => Ok(Mark::Tag(tag)),
        Err(_) => Err(format!(
            "`{}` is no tag: numbers are",
            last.unwrap_or_default()
        )),
    };
    let found = Collective::NAMES
        .iter()
        .find(|(name, _)| *name == operation);
    let what = match (operation, found) {
        (_, Some((name, kind))) => {
            let root = match kind.has_root() {
                true => Some(process(peer)?),
                false if peer == "-" => None,
                false => return Err(format!("`{name}` has the peer `-`")),
            };
            if *kind == Collective::Barrier && bytes > 0 {
                return Err(format!("`{name}` has 0 bytes"));
            }
            What::Collective(Operation {
                kind: *kind,
                root,
                bytes,
                members: last.map(processes).transpose()?,
            })
        }
        ("send", _) => What::Send(other()?, bytes, tag()?),
        ("recv", _) => What::Receive(other()?, bytes, tag()?),
        ("compute", _) if peer == "-" && bytes == 0 && last.is_none() => What::Nothing,
        ("compute", _) => return Err("`compute` has the peer `-` and 0 bytes".to_owned()),
        (word, _) => {
            let names = Collective::NAMES.map(|(name, _)| name).join(", ");
            return Err(format!(
                "`{word}` is no operation: send, recv, compute, {names} are"
            ));
        }
    };
    Ok((rank, compute_us, what))
}
