//! The checking mode: calls of collective operations are compared between the processes before they are done
//! (`CAUSEWAY_MPI_CHECK=1`), so that calls that do not match each other are reported as errors that name
//! ranks and calls.

use std::fmt;
use std::ops::Range;

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::temporary;
use crate::datatype::{Basic, Datatype};
use crate::error::{Error, Result};
use crate::reduction::Op;

/// The environment variable that turns the mode on.
pub const VARIABLE: &str = "CAUSEWAY_MPI_CHECK";

/// Whether the mode is on.
pub(crate) fn is_on() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Elements that a process sends or receives, or has in a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data {
    bytes: u64,
    elements: u64,
    /// Of the sequence of predefined types ([`Signature::hash`](crate::datatype::Signature::hash)).
    hash: u64,
    /// The handle of the one predefined type that all elements have; 0 if there is none.
    only: u64,
}

impl Data {
    /// Bytes of its encoding.
    const BYTES: usize = 32;

    pub(crate) fn of(datatype: &Datatype, count: u64) -> Result<Self> {
        let signature = datatype.signature_of(count)?;
        Ok(Self {
            bytes: signature.bytes(),
            elements: signature.elements(),
            hash: signature.hash(),
            only: signature.only().map_or(0, |basic| basic.handle() as u64),
        })
    }

    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.bytes, self.elements, self.hash, self.only];
        for (into, word) in bytes.chunks_exact_mut(8).zip(words) {
            into.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let [bytes, elements, hash, only] = [0, 8, 16, 24].map(|at| word(bytes, at));
        Self {
            bytes,
            elements,
            hash,
            only,
        }
    }

    /// Whether one may be received as the other. Bytes and packed data may be anything, as many programs send bytes where they receive elements.
    fn matches(self, other: Self) -> bool {
        let are_bytes = |it: Self| matches!(it.basic(), Some(Basic::Byte | Basic::Packed));
        match are_bytes(self) || are_bytes(other) {
            true => self.bytes == other.bytes,
            false => (self.bytes, self.hash) == (other.bytes, other.hash),
        }
    }

    fn basic(self) -> Option<Basic> {
        usize::try_from(self.only).ok().and_then(Basic::from_handle)
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.basic(), self.elements) {
            (_, 0) => f.write_str("no elements"),
            (Some(basic), elements) => write!(f, "{elements} {}", basic.name()),
            (None, elements) => {
                let bytes = self.bytes;
                write!(f, "{elements} elements of several types in {bytes} bytes")
            }
        }
    }
}

/// A word of a description; 0 if there is none.
fn word(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    found.map_or(0, u64::from_ne_bytes)
}

/// A process's description of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Described {
    /// The called function.
    pub(crate) name: &'static str,
    /// The root, if there is one.
    pub(crate) root: i32,
    /// The operation's handle, if there is one.
    pub(crate) operation: usize,
    /// Bytes, if they have to be the same everywhere.
    pub(crate) bytes: u64,
    /// The elements, if they have to be the same everywhere.
    pub(crate) data: Option<Data>,
}

/// Stands for an operation without a root.
const NO_ROOT: i32 = i32::MIN;
/// Stands for an operation whose bytes, or elements, may differ between processes.
const NO_BYTES: u64 = u64::MAX;

impl Default for Described {
    fn default() -> Self {
        Self {
            name: "",
            root: NO_ROOT,
            operation: 0,
            bytes: NO_BYTES,
            data: None,
        }
    }
}

/// Bytes of the name in a description.
const NAME: usize = 40;
/// Bytes of a description before its elements.
const CALL: usize = NAME + 4 + 4 + 8 + 8;

/// Bytes of a description, with elements or without.
pub(crate) fn bytes_of_description(has_data: bool) -> usize {
    match has_data {
        true => CALL + Data::BYTES,
        false => CALL,
    }
}

impl Described {
    /// Its encoding for the other processes.
    pub(crate) fn encode(&self, has_data: bool) -> Memory {
        let mut bytes = self.name.as_bytes()[..self.name.len().min(NAME)].to_vec();
        bytes.resize(NAME, 0);
        bytes.extend(self.root.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend((self.operation as u64).to_ne_bytes());
        bytes.extend(self.bytes.to_ne_bytes());
        if has_data {
            let nothing = Data {
                bytes: NO_BYTES,
                elements: 0,
                hash: 0,
                only: 0,
            };
            bytes.extend(self.data.unwrap_or(nothing).encode());
        }
        Memory::from_vec(bytes)
    }
}

/// A received description.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    name: String,
    root: i32,
    operation: u64,
    bytes: u64,
    data: Option<Data>,
}

impl Call {
    fn decode(description: &[u8]) -> Self {
        let (name, rest) = description.split_at(NAME);
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        let data = rest.get(CALL - NAME..).filter(|data| !data.is_empty());
        let data = data.map(Data::decode);
        Self {
            name: String::from_utf8_lossy(&name[..len]).into_owned(),
            root: rest[..4].try_into().map_or(NO_ROOT, i32::from_ne_bytes),
            operation: word(rest, 8),
            bytes: word(rest, 16),
            data: data.filter(|data| data.bytes != NO_BYTES),
        }
    }

    /// Whether calls of one group belong together.
    fn matches(&self, other: &Self) -> bool {
        let calls = |it: &Self| (it.root, it.operation, it.bytes);
        self.name == other.name && calls(self) == calls(other) && self.has_data_of(other)
    }

    /// Whether calls of two groups do: not all processes of the root's group have data and an operation.
    fn matches_over_groups(&self, other: &Self) -> bool {
        let roots = self.root.min(other.root) < 0 || self.root == other.root;
        let has_both = self.data.is_some() && other.data.is_some();
        let operations = !has_both || self.operation == other.operation;
        self.name == other.name && roots && operations && self.has_data_of(other)
    }

    fn has_data_of(&self, other: &Self) -> bool {
        match (self.data, other.data) {
            (Some(one), Some(other)) => one.matches(other),
            _ => true,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut more = Vec::new();
        match self.root {
            NO_ROOT => {}
            abi::ROOT => more.push("root MPI_ROOT".to_owned()),
            abi::PROC_NULL => more.push("root MPI_PROC_NULL".to_owned()),
            root => more.push(format!("root {root}")),
        }
        if self.operation != 0 {
            let op = usize::try_from(self.operation).ok();
            more.push(match op.and_then(Op::from_handle) {
                Some(op) => op.name().to_owned(),
                None => format!("operation {:#x}", self.operation),
            });
        }
        match (self.data, self.bytes) {
            (Some(data), _) => more.push(data.to_string()),
            (None, NO_BYTES) => {}
            (None, bytes) => more.push(format!("{bytes} bytes")),
        }
        f.write_str(&self.name)?;
        match more.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", more.join(", ")),
        }
    }
}

/// What a process sends to others in an operation, and what it expects of them, by their ranks and in the order of the messages.
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    pub(crate) sent: Vec<(u32, Data)>,
    pub(crate) expected: Vec<(u32, Data)>,
}

/// Encoded elements, to be sent.
pub(crate) fn sent(data: Data) -> Memory {
    Memory::from_vec(data.encode().to_vec())
}

/// Memory for those of another process.
pub(crate) fn received() -> Result<Memory> {
    temporary(Data::BYTES)
}

/// Bytes of a process's finding about the data that are sent to it: a text that ends with a zero, empty if all are as expected.
pub(crate) const FINDING: usize = 160;

/// A comparison of what processes have told each other.
#[derive(Debug)]
pub(crate) enum Comparison {
    /// The descriptions of all processes, in the order of their places.
    Calls {
        descriptions: Vec<Memory>,
        /// The places of this process's group, if the processes are two groups.
        group: Option<Range<u32>>,
    },
    /// What each of these ranks sends to this process, with what is expected of it.
    Data {
        name: &'static str,
        rank: u32,
        /// Whether the senders belong to another group.
        is_inter: bool,
        came: Vec<(u32, Data, Memory)>,
        /// Memory for the finding.
        finding: Memory,
    },
    /// The findings of all processes.
    Findings(Vec<Memory>),
}

impl Comparison {
    /// Fails if calls differ, or a process has found differences. Data that differ are a finding, which all processes get.
    pub(crate) fn compare(&self) -> Result<()> {
        match self {
            Self::Calls {
                descriptions,
                group,
            } => compare_calls(descriptions, group.as_ref()),
            Self::Data {
                name,
                rank,
                is_inter,
                came,
                finding,
            } => {
                let whose = if *is_inter { " of the other group" } else { "" };
                let other = came.iter().find_map(|(from, expected, came)| {
                    let came = Data::decode(&came.to_vec());
                    let differs = !came.matches(*expected);
                    differs.then(|| {
                        format!("{name}: rank {from}{whose} has {came} for rank {rank}, which expects {expected}")
                    })
                });
                let mut text = other.unwrap_or_default().into_bytes();
                text.resize(FINDING, 0);
                finding.copy_from(&Memory::from_vec(text));
                Ok(())
            }
            Self::Findings(all) => {
                let first = all.iter().map(Memory::to_vec).find(|text| text[0] != 0);
                first.map_or(Ok(()), |text| {
                    let len = text.iter().position(|byte| *byte == 0);
                    let text = &text[..len.unwrap_or(text.len())];
                    let text = String::from_utf8_lossy(text).into_owned();
                    Err(Error::new(abi::ERR_NOT_SAME, text))
                })
            }
        }
    }
}

fn compare_calls(descriptions: &[Memory], group: Option<&Range<u32>>) -> Result<()> {
    let descriptions = Vec::from_iter(descriptions.iter().map(Memory::to_vec));
    if descriptions.windows(2).all(|two| two[0] == two[1]) {
        return Ok(());
    }
    let decode = |description: &Vec<u8>| Call::decode(description);
    let calls = Vec::from_iter(descriptions.iter().map(decode));
    let are_same = |one: &Call, other: &Call| match group.is_some() {
        true => one.matches_over_groups(other),
        false => one.matches(other),
    };
    // Bytes match elements of any type, and so not each call has to differ from the first that differs from any.
    let differs = calls.iter().enumerate().find_map(|(first, one)| {
        let other = calls.iter().position(|other| !are_same(one, other))?;
        Some((first, other))
    });
    let Some((first, other)) = differs else {
        return Ok(());
    };
    let rank = |place: usize| match group {
        None => format!("rank {place}"),
        Some(group) => {
            let place = place as u32;
            let (first, whose) = match place {
                place if group.contains(&place) => (group.start, "this group"),
                place if place < group.start => (0, "the other group"),
                _ => (group.end, "the other group"),
            };
            format!("rank {} of {whose}", place - first)
        }
    };
    let text = format!(
        "the processes call different collective operations: {} calls {}, {} calls {}",
        rank(first),
        calls[first],
        rank(other),
        calls[other]
    );
    Err(Error::new(abi::ERR_NOT_SAME, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &'static str, root: i32, bytes: u64) -> Memory {
        let it = Described {
            name,
            root,
            bytes,
            ..Described::default()
        };
        it.encode(true)
    }

    #[test]
    fn calls_that_differ_are_named() {
        let same = [described("MPI_Bcast", 1, 8), described("MPI_Bcast", 1, 8)];
        let comparison = |descriptions: &[Memory], is_whole: bool| Comparison::Calls {
            descriptions: descriptions.to_vec(),
            group: (!is_whole).then_some(1..2),
        };
        assert!(comparison(&same, true).compare().is_ok());
        assert!(comparison(&[], true).compare().is_ok());
        let roots = [described("MPI_Bcast", 1, 8), described("MPI_Bcast", 0, 8)];
        for is_whole in [true, false] {
            let error = comparison(&roots, is_whole).compare();
            let error = error.expect_err("roots differ");
            let first = ["rank 0 of the other group calls", "rank 0 calls"];
            assert!(error.text().contains(first[usize::from(is_whole)]));
        }
        let error = comparison(&roots, true)
            .compare()
            .expect_err("roots differ");
        assert_eq!(error.code(), abi::ERR_NOT_SAME);
        let expected = "the processes call different collective operations: rank 0 calls MPI_Bcast (root 1, 8 bytes), \
                        rank 1 calls MPI_Bcast (root 0, 8 bytes)";
        assert_eq!(error.text(), expected);
        let names = [
            described("MPI_Barrier", NO_ROOT, NO_BYTES),
            roots[0].clone(),
        ];
        let error = comparison(&names, false)
            .compare()
            .expect_err("names differ");
        let expected =
            "rank 0 of the other group calls MPI_Barrier, rank 0 of this group calls MPI_Bcast";
        assert!(error.text().contains(expected));
    }
    #[test]
    fn data_of_other_types_are_named_and_bytes_are_of_any() {
        let of = |basic: Basic, count| Data::of(&Datatype::from(basic), count).expect("small");
        let [ints, floats, bytes] = [(Basic::Int, 2), (Basic::Float, 2), (Basic::Byte, 8)]
            .map(|(basic, count)| of(basic, count));
        assert_eq!(Data::decode(&ints.encode()), ints);
        assert!(ints.matches(bytes) && bytes.matches(floats) && !ints.matches(floats));
        assert!(!ints.matches(of(Basic::Byte, 7)) && ints.matches(of(Basic::Int32, 2)));
        let call = |data| {
            let it = Described {
                name: "MPI_Allreduce",
                operation: abi::SUM,
                bytes: 8,
                data: Some(data),
                ..Described::default()
            };
            it.encode(true)
        };
        for group in [Some(2..4), None] {
            let [here, there] = match group {
                Some(_) => ["rank 1 of the other group", "rank 1 of this group"],
                None => ["rank 1", "rank 3"],
            };
            let descriptions = vec![call(bytes), call(ints), call(ints), call(floats)];
            let comparison = Comparison::Calls {
                descriptions,
                group,
            };
            let error = comparison.compare().expect_err("two types");
            let expected = format!(
                "{here} calls MPI_Allreduce (MPI_SUM, 2 MPI_INT), {there} calls MPI_Allreduce (MPI_SUM, 2 MPI_FLOAT)"
            );
            assert!(error.text().ends_with(&expected), "{}", error.text());
        }
    }

    #[test]
    fn findings_are_those_of_the_first() {
        let of = |count| Data::of(&Datatype::from(Basic::Int), count).expect("small");
        let findings = [of(2), of(3)].map(|came| {
            let finding = Memory::zeroed(FINDING);
            let comparison = Comparison::Data {
                name: "MPI_Gather",
                rank: 0,
                is_inter: false,
                came: vec![(1, of(2), sent(of(2))), (2, of(2), sent(came))],
                finding: finding.clone(),
            };
            comparison.compare().expect("it only finds");
            finding
        });
        assert!(
            Comparison::Findings(vec![findings[0].clone()])
                .compare()
                .is_ok()
        );
        let error = Comparison::Findings(findings.to_vec()).compare();
        let error = error.expect_err("a finding");
        assert_eq!(error.code(), abi::ERR_NOT_SAME);
        let expected = "MPI_Gather: rank 2 has 3 MPI_INT for rank 0, which expects 2 MPI_INT";
        assert_eq!(error.text(), expected);
    }
}
