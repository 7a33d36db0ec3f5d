//! What a completion belongs to.

use super::ticket::Ticket;

/// [`Purpose::Watch`] in a `user` number.
const WATCH: u64 = 0xffff;

/// What a completion belongs to, as the message layer's `user` number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Reply,
    List,
    Piece(usize),
    /// A receive that ends with its client's connection; the number stands in the place of a ticket's.
    Watch,
}

impl Purpose {
    pub(super) fn user(self, ticket: Ticket) -> u64 {
        let low = match self {
            Self::Reply => 0,
            Self::List => 1,
            Self::Piece(index) => 2 + index as u64,
            Self::Watch => WATCH,
        };
        u64::from(ticket.generation) << 32 | u64::from(ticket.slot) << 16 | low
    }

    pub(super) fn parse(user: u64) -> (Ticket, Self) {
        let ticket = Ticket {
            slot: (user >> 16) as u16,
            generation: (user >> 32) as u32,
        };
        let purpose = match user & 0xffff {
            0 => Self::Reply,
            1 => Self::List,
            WATCH => Self::Watch,
            low => Self::Piece(low as usize - 2),
        };
        (ticket, purpose)
    }
}
