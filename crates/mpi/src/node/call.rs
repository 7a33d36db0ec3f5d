//! What a process writes into an area about its call, so that calls that do not belong together are found before anything of them is read.

use crate::abi;

/// Whose slots a process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotsOf {
    None,
    Rank(u32),
    /// Of all ranks below this one.
    Below(u32),
    All,
}

/// The called function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Function {
    Barrier = 1,
    Bcast,
    Reduce,
    Allreduce,
    ReduceScatter,
    Allgather,
    Alltoall,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgatherv,
    Alltoallv,
    Scan,
    Exscan,
}

use Function::*;

/// A name that another one begins with comes before it.
const FUNCTIONS: [(Function, &str); 15] = [
    (Barrier, "MPI_Barrier"),
    (Bcast, "MPI_Bcast"),
    (Reduce, "MPI_Reduce"),
    (Allreduce, "MPI_Allreduce"),
    (ReduceScatter, "MPI_Reduce_scatter"),
    (Allgather, "MPI_Allgather"),
    (Alltoall, "MPI_Alltoall"),
    (Gather, "MPI_Gather"),
    (Gatherv, "MPI_Gatherv"),
    (Scatter, "MPI_Scatter"),
    (Scatterv, "MPI_Scatterv"),
    (Allgatherv, "MPI_Allgatherv"),
    (Alltoallv, "MPI_Alltoallv"),
    (Scan, "MPI_Scan"),
    (Exscan, "MPI_Exscan"),
];

/// A call in one word, which is the same for calls that belong together. Of others of which data would be read, it differs, except that one in 4096 of those that differ only in
/// their elements or parts is not noticed:
///
/// ```text
/// bits 0 to 35: bytes, of a block where there are several | 36 to 39: the low bits of the operation's number | 40 to 45: the root | 46 to 49: the function
/// 50: the data go by messages | 51: this is not the operation's first phase | 52 to 63: a number made of the elements and the parts
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call(u64);

const BYTES: u64 = (1 << 36) - 1;
const NUMBER: u32 = 36;
const ROOT: u32 = 40;
const FUNCTION: u32 = 46;
const BY_MESSAGES: u64 = 1 << 50;
const CONTINUED: u64 = 1 << 51;
const ELEMENTS: u32 = 52;

impl Call {
    #[inline]
    pub(crate) fn new(function: Function, bytes: u64) -> Self {
        Self(bytes.min(BYTES) | (function as u64) << FUNCTION)
    }

    /// No call.
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// A call of the function of this name, of which nothing else is known.
    pub(crate) fn named(name: &str) -> Self {
        let called = |(_, one): &&(Function, &str)| name.starts_with(one);
        let found = FUNCTIONS.iter().rev().find(called);
        found.map_or(Self::none(), |(function, _)| Self::new(*function, 0))
    }

    /// The same with a block of so many bytes.
    #[cold]
    pub(crate) fn with_block(self, bytes: u64) -> Self {
        Self(self.0 & !BYTES | bytes.min(BYTES))
    }

    /// The same with a root, which is below 64.
    #[inline]
    pub(crate) fn with_root(self, root: u32) -> Self {
        Self(self.0 | u64::from(root & 63) << ROOT)
    }

    /// The same of the operation of this number among all of the communicator's. Processes that are in the same phase have begun as many operations before,
    /// also by messages, unless their calls do not belong together.
    #[inline]
    pub(crate) fn numbered(self, number: u64) -> Self {
        Self(self.0 | (number & 15) << NUMBER)
    }

    /// The same of a reduction by this operation, if it is one of the standard's, of elements of so many bytes, in parts of so many bytes.
    #[inline]
    pub(crate) fn with_elements(
        self,
        operation: Option<usize>,
        unit: usize,
        parts: &[u64],
    ) -> Self {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let first = operation.unwrap_or(0) as u64 | (unit as u64) << 32;
        let all = std::iter::once(first).chain(parts.iter().copied());
        let mixed = all.fold(0u64, |mixed, one| {
            (mixed.rotate_left(23) ^ one).wrapping_mul(ODD)
        });
        Self(self.0 & !(u64::MAX << ELEMENTS) | mixed >> ELEMENTS << ELEMENTS)
    }

    /// The same if only the beginning is in the area.
    pub(crate) fn by_messages(self) -> Self {
        Self(self.0 | BY_MESSAGES)
    }

    /// Whether a process that has tried this call, and failed because of its arguments, now finds `theirs` where it calls `own`: the others have begun what it has not.
    #[cold]
    pub(crate) fn was_meant(self, theirs: Self, own: Self) -> bool {
        const KIND: u64 = BYTES | 63 << ROOT | 15 << FUNCTION | u64::MAX << ELEMENTS;
        let is_function = |call: Self| self.function() == call.function();
        is_function(theirs) && (theirs.0 ^ own.0) & KIND != 0
    }

    /// The same in later phases.
    #[inline]
    pub(crate) fn continued(self) -> Self {
        Self(self.0 | CONTINUED)
    }

    pub(crate) fn of_word(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    fn function(self) -> Option<&'static (Function, &'static str)> {
        let found = self.0 >> FUNCTION & 15;
        FUNCTIONS.iter().find(|(one, _)| *one as u64 == found)
    }

    #[inline]
    fn root(self) -> u32 {
        (self.0 >> ROOT & 63) as u32
    }

    fn has_root(self) -> bool {
        matches!(
            self.function(),
            Some((Bcast | Reduce | Gather | Gatherv | Scatter | Scatterv, _))
        )
    }

    /// Whose slots a process reads.
    #[inline]
    pub(crate) fn sources(self, rank: u32) -> SlotsOf {
        const FROM_ROOT: u64 = 1 << Bcast as u64 | 1 << Scatter as u64 | 1 << Scatterv as u64;
        const TO_ROOT: u64 = 1 << Reduce as u64 | 1 << Gather as u64 | 1 << Gatherv as u64;
        const FROM_LOWER: u64 = 1 << Scan as u64 | 1 << Exscan as u64;
        let is_root = self.root() == rank;
        let kind = 1_u64 << (self.0 >> FUNCTION & 15);
        if kind & FROM_ROOT != 0 {
            match is_root {
                true => SlotsOf::None,
                false => SlotsOf::Rank(self.root()),
            }
        } else if kind & TO_ROOT != 0 && !is_root {
            SlotsOf::None
        } else if kind & FROM_LOWER != 0 {
            SlotsOf::Below(rank)
        } else {
            SlotsOf::All
        }
    }

    /// The class of the error if another process calls `other`.
    pub(crate) fn class(self, other: Self) -> i32 {
        const SAME: u64 = 0x3fff << NUMBER;
        let differ = self.0 ^ other.0;
        match differ & SAME == 0 && differ & BYTES != 0 {
            true => abi::ERR_TRUNCATE,
            false => abi::ERR_NOT_SAME,
        }
    }

    /// The called function's name.
    pub(crate) fn name(self) -> &'static str {
        self.function().map_or("its operation", |(_, name)| *name)
    }

    /// As text.
    pub(crate) fn in_words(self) -> String {
        let Some((function, name)) = self.function() else {
            return "no operation".to_owned();
        };
        let bytes = self.0 & BYTES;
        let bytes = match function {
            Barrier => None,
            // The processes' blocks have lengths of their own.
            Gatherv | Scatterv | Allgatherv | Alltoallv if bytes == 0 => None,
            Gatherv | Scatterv | Allgatherv | Alltoallv => {
                Some(format!("a block of {bytes} bytes"))
            }
            Allgather | Alltoall | Gather | Scatter => Some(format!("blocks of {bytes} bytes")),
            ReduceScatter => Some(format!("{bytes} bytes in all")),
            _ => Some(format!("{bytes} bytes")),
        };
        let root = self.has_root().then(|| format!("root {}", self.root()));
        let more = Vec::from_iter(root.into_iter().chain(bytes));
        let more = match more.is_empty() {
            true => String::new(),
            false => format!(" ({})", more.join(", ")),
        };
        let begun = match self.0 & CONTINUED {
            0 => "",
            _ => ", which has begun before",
        };
        format!("{name}{more}{begun}")
    }

    /// What two calls that are the same in words differ in.
    pub(crate) fn difference(self, other: Self) -> &'static str {
        let differ = self.0 ^ other.0;
        if self.in_words() != other.in_words() {
            ""
        } else if differ >> NUMBER & 15 != 0 {
            ", but earlier or later in the order of operations"
        } else if differ >> ELEMENTS != 0 {
            ", but with other parts, another datatype or another operation"
        } else {
            ", but with an operation of the program's or data with gaps"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tell_calls_apart() {
        let of = |bytes| Call::new(Allreduce, bytes).with_elements(None, 8, &[]);
        assert_eq!(of(16), of(16));
        assert_ne!(of(16), of(24));
        assert_eq!(of(16).class(of(24)), abi::ERR_TRUNCATE);
        assert_eq!(of(16).in_words(), "MPI_Allreduce (16 bytes)");
        assert_ne!(of(16), Call::new(Allreduce, 16).with_elements(None, 4, &[]));
        assert_ne!(of(16), of(16).continued());
        let sum = Call::new(Allreduce, 16).with_elements(Some(0x23), 8, &[]);
        assert_ne!(of(16), sum);
        assert_eq!(of(16).class(sum), abi::ERR_NOT_SAME);
        let bcast = |root| Call::new(Bcast, u64::MAX).with_root(root);
        assert_eq!(
            bcast(63).in_words(),
            "MPI_Bcast (root 63, 68719476735 bytes)"
        );
        assert_eq!(bcast(63).class(bcast(1)), abi::ERR_NOT_SAME);
        assert_eq!(bcast(3).sources(3), SlotsOf::None);
        assert_eq!(bcast(3).by_messages().sources(0), SlotsOf::Rank(3));
        let later = of(16).numbered(17);
        assert_eq!(of(16).class(later), abi::ERR_NOT_SAME);
        assert!(of(16).difference(later).contains("later"));
        let tried = Call::named("MPI_Bcast");
        assert!(tried.was_meant(bcast(2).by_messages().numbered(3), of(16)));
        assert!(tried.was_meant(bcast(2), bcast(1)) && !tried.was_meant(of(24), of(16)));
        assert!(!tried.was_meant(bcast(2).by_messages().numbered(3), bcast(2)));
        assert_eq!(Call::new(Scan, 8).sources(3), SlotsOf::Below(3));
        let gather = Call::new(Gather, 8).with_root(3);
        let found = [3, 2].map(|rank| gather.sources(rank));
        assert_eq!(found, [SlotsOf::All, SlotsOf::None]);
        let scatter = Call::new(Scatterv, 0).with_root(3);
        let found = [3, 2].map(|rank| scatter.sources(rank));
        assert_eq!(found, [SlotsOf::None, SlotsOf::Rank(3)]);
        let names = [
            "MPI_Reduce",
            "MPI_Reduce_scatter_block",
            "MPI_Alltoall",
            "MPI_Alltoallv",
            "MPI_Neighbor_alltoall",
        ];
        let found = names.map(|name| Call::named(name).name());
        let expected = [
            "MPI_Reduce",
            "MPI_Reduce_scatter",
            "MPI_Alltoall",
            "MPI_Alltoallv",
            "its operation",
        ];
        assert_eq!(found, expected);
        let parts = |parts: &[u64]| Call::new(ReduceScatter, 48).with_elements(None, 8, parts);
        assert_ne!(parts(&[1, 2, 3]), parts(&[1, 3, 2]));
        assert!(
            parts(&[1, 2, 3])
                .difference(parts(&[1, 3, 2]))
                .contains("parts")
        );
        assert_eq!(of(16).class(bcast(0)), abi::ERR_NOT_SAME);
    }
}
