//! The checking mode: calls of collective operations are compared between the processes before they are done
//! (`CAUSEWAY_MPI_CHECK=1`), so that calls that do not match each other are reported as errors that name
//! ranks and calls.

use causeway_engine::Memory;

use crate::abi;
use crate::error::{Error, Result};

/// The environment variable that turns the mode on.
pub const VARIABLE: &str = "CAUSEWAY_MPI_CHECK";

/// Whether the mode is on.
pub(crate) fn is_on() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
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
}

/// Stands for an operation without a root.
const NO_ROOT: i32 = i32::MIN;
/// Stands for an operation whose bytes may differ between processes.
const NO_BYTES: u64 = u64::MAX;

impl Default for Described {
    fn default() -> Self {
        Self {
            name: "",
            root: NO_ROOT,
            operation: 0,
            bytes: NO_BYTES,
        }
    }
}

/// Bytes of the name in a description.
const NAME: usize = 40;
/// Bytes of a description.
pub(crate) const BYTES: usize = NAME + 4 + 4 + 8 + 8;

impl Described {
    /// Its encoding for the other processes.
    pub(crate) fn encode(&self) -> Memory {
        let mut bytes = self.name.as_bytes()[..self.name.len().min(NAME)].to_vec();
        bytes.resize(NAME, 0);
        bytes.extend(self.root.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend((self.operation as u64).to_ne_bytes());
        bytes.extend(self.bytes.to_ne_bytes());
        Memory::from_vec(bytes)
    }
}

/// A received description as text.
fn in_words(description: &[u8]) -> String {
    let (name, rest) = description.split_at(NAME);
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
    let mut text = String::from_utf8_lossy(&name[..len]).into_owned();
    let root = rest[..4].try_into().map_or(NO_ROOT, i32::from_ne_bytes);
    let word = |at: usize| rest[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    let mut more = Vec::new();
    match root {
        NO_ROOT => {}
        abi::ROOT => more.push("root MPI_ROOT".to_owned()),
        abi::PROC_NULL => more.push("root MPI_PROC_NULL".to_owned()),
        root => more.push(format!("root {root}")),
    }
    if word(8) != 0 {
        more.push(format!("operation {:#x}", word(8)));
    }
    if word(16) != NO_BYTES {
        more.push(format!("{} bytes", word(16)));
    }
    if !more.is_empty() {
        text += &format!(" ({})", more.join(", "));
    }
    text
}

/// The descriptions of all processes, to be compared.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The descriptions, one of each process of the compared group.
    pub(crate) descriptions: Vec<Memory>,
    /// Whether the whole description has to be the same everywhere; over inter-communicators, only names have to be.
    pub(crate) is_whole: bool,
}

impl Comparison {
    /// Fails if calls differ.
    pub(crate) fn compare(&self) -> Result<()> {
        let all = Vec::from_iter(self.descriptions.iter().map(Memory::to_vec));
        let compared = |description: &[u8]| {
            let len = if self.is_whole { BYTES } else { NAME };
            description[..len].to_vec()
        };
        let Some(first) = all.first() else {
            return Ok(());
        };
        let other = all
            .iter()
            .position(|description| compared(description) != compared(first));
        let Some(other) = other else {
            return Ok(());
        };
        let text = format!(
            "the processes call different collective operations: rank 0 calls {}, rank {other} calls {}",
            in_words(first),
            in_words(&all[other])
        );
        Err(Error::new(abi::ERR_NOT_SAME, text))
    }
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
        it.encode()
    }

    #[test]
    fn calls_that_differ_are_named() {
        let same = [described("MPI_Bcast", 1, 8), described("MPI_Bcast", 1, 8)];
        let comparison = |descriptions: &[Memory], is_whole| Comparison {
            descriptions: descriptions.to_vec(),
            is_whole,
        };
        assert!(comparison(&same, true).compare().is_ok());
        assert!(comparison(&[], true).compare().is_ok());
        let roots = [described("MPI_Bcast", 1, 8), described("MPI_Bcast", 0, 8)];
        assert!(comparison(&roots, false).compare().is_ok());
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
        assert!(error.text().contains("rank 0 calls MPI_Barrier, rank 1"));
    }
}
