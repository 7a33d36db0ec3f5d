//! Why no operation in an area can go on, as the processes report it to each other there.

use super::call::Call;
use crate::abi;
use crate::error::Error;

/// See the module's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A rank is lost.
    Lost(u32),
    /// Two ranks have called what does not belong together, in a phase.
    Differs { calls: [(u32, Call); 2], phase: u64 },
    /// A rank could not begin its call, which has failed with an error of this class. Its first phase would have been this one.
    Refused {
        rank: u32,
        call: Call,
        class: i32,
        phase: u64,
    },
    /// A rank begins no operation from this phase on: it has freed the communicator, or has called `MPI_Finalize`.
    Ended { rank: u32, phase: u64 },
    /// A rank's memory could not be read by a process that had read it before, in the operation that begins with this phase.
    Unread { rank: u32, phase: u64 },
    /// Operations fail from this phase on; the process that has found it describes it a little later.
    Undescribed { phase: u64 },
}

/// Words of a failure in memory.
pub(crate) const WORDS: usize = 4;

impl Failure {
    /// Its encoding; the first word is not 0.
    pub(crate) fn encode(&self) -> [u64; WORDS] {
        let ranks = |a: u32, b: u32| u64::from(a) << 8 | u64::from(b) << 16;
        match self {
            Self::Lost(rank) => [1 | ranks(*rank, 0), 0, 0, 0],
            Self::Differs {
                calls: [(one, its), (other, theirs)],
                phase,
            } => [2 | ranks(*one, *other), its.word(), theirs.word(), *phase],
            Self::Refused {
                rank,
                call,
                class,
                phase,
            } => [3 | ranks(*rank, 0), call.word(), *class as u64, *phase],
            Self::Undescribed { phase } => [4, 0, 0, *phase],
            Self::Ended { rank, phase } => [5 | ranks(*rank, 0), 0, 0, *phase],
            Self::Unread { rank, phase } => [6 | ranks(*rank, 0), 0, 0, *phase],
        }
    }

    /// Reads what another process has written, whatever that is.
    pub(crate) fn decode(words: [u64; WORDS]) -> Option<Self> {
        let rank = |at: u32| (words[0] >> at & 0xff) as u32;
        match words[0] & 0xff {
            1 => Some(Self::Lost(rank(8))),
            2 => Some(Self::Differs {
                calls: [
                    (rank(8), Call::of_word(words[1])),
                    (rank(16), Call::of_word(words[2])),
                ],
                phase: words[3],
            }),
            // An error of class 0 would be a success.
            3 if words[2] as i32 <= 0 => None,
            3 => Some(Self::Refused {
                rank: rank(8),
                call: Call::of_word(words[1]),
                class: words[2] as i32,
                phase: words[3],
            }),
            4 => Some(Self::Undescribed { phase: words[3] }),
            5 => Some(Self::Ended {
                rank: rank(8),
                phase: words[3],
            }),
            6 => Some(Self::Unread {
                rank: rank(8),
                phase: words[3],
            }),
            _ => None,
        }
    }

    /// The phase from which on operations fail; none if all do, and none can be done by messages either.
    pub(crate) fn phase(&self) -> Option<u64> {
        match self {
            Self::Lost(_) => None,
            Self::Differs { phase, .. }
            | Self::Refused { phase, .. }
            | Self::Ended { phase, .. }
            | Self::Unread { phase, .. }
            | Self::Undescribed { phase } => Some(*phase),
        }
    }

    /// The error of an operation that has begun with this phase.
    #[cold]
    pub(crate) fn error(&self, first: u64) -> Error {
        let earlier = match self.phase().is_some_and(|phase| first > phase) {
            true => "an operation on this communicator has failed before: ",
            false => "",
        };
        let (class, text) = match self {
            Self::Lost(rank) => {
                let text =
                    format!("rank {rank} is lost, as a process of the communicator has found");
                (abi::ERR_PROC_ABORTED, text)
            }
            Self::Differs {
                calls: [(one, its), (other, theirs)],
                ..
            } => {
                let (one_calls, other_calls) = (its.in_words(), theirs.in_words());
                let difference = its.difference(*theirs);
                let text = format!(
                    "{earlier}rank {one} calls {one_calls}, rank {other} calls {other_calls}{difference}"
                );
                (its.class(*theirs), text)
            }
            Self::Refused {
                rank, call, class, ..
            } => {
                let call = call.name();
                let text =
                    format!("{earlier}rank {rank} has not begun {call}, because of its arguments");
                (*class, text)
            }
            Self::Ended { rank, .. } => {
                let text = format!(
                    "rank {rank} has called MPI_Finalize or has freed the communicator, and takes no part in this operation"
                );
                (abi::ERR_NOT_SAME, text)
            }
            Self::Unread { rank, .. } => {
                let text = format!("{earlier}the memory of rank {rank} cannot be read any more");
                (abi::ERR_OTHER, text)
            }
            Self::Undescribed { .. } => {
                let text = format!("{earlier}another rank's call does not belong to this one");
                (abi::ERR_NOT_SAME, text)
            }
        };
        Error::new(class, text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::Function;
    use super::*;

    #[test]
    fn failures_are_read_as_they_were_written() {
        let call = |bytes| Call::new(Function::Bcast, bytes).with_root(2);
        let all = [
            Failure::Lost(63),
            Failure::Differs {
                calls: [(1, call(4)), (63, call(8))],
                phase: 1 << 40,
            },
            Failure::Refused {
                rank: 5,
                call: call(0),
                class: abi::ERR_TRUNCATE,
                phase: 7,
            },
            Failure::Undescribed { phase: 9 },
            Failure::Ended { rank: 63, phase: 8 },
            Failure::Unread { rank: 2, phase: 3 },
        ];
        for failure in all {
            assert_eq!(Failure::decode(failure.encode()), Some(failure));
        }
        let refused = |class: i32| [3, 0, class as u64, 7];
        let none = [[0; WORDS], [7, 0, 0, 7], refused(0), refused(-5)];
        assert!(none.iter().all(|words| Failure::decode(*words).is_none()));
        let text = all[1].error(1 << 40);
        let expected =
            "rank 1 calls MPI_Bcast (root 2, 4 bytes), rank 63 calls MPI_Bcast (root 2, 8 bytes)";
        assert_eq!((text.code(), text.text()), (abi::ERR_TRUNCATE, expected));
        assert!(
            all[1]
                .error(1 + (1 << 40))
                .text()
                .contains("has failed before")
        );
    }
}
