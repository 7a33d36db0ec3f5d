//! Where the messages of a peer's announced sends are, for peers with many of them
//! (`conversation::withdrawing`).

use std::collections::BTreeMap;

/// Entries that are added, besides as many as there were looked at, before the list is made anew.
const FEW: usize = 64;

/// Where a message is that is still at its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageLocation {
    /// No receive has been found: an early message, by index.
    Early(u32),
    /// This operation, by key, receives it.
    Op(u64),
}

/// A list of announced messages. Every message that is here has an entry; entries of messages that
/// are gone stay, so that what an entry says is to be checked.
#[derive(Debug)]
pub(crate) struct Sends {
    locations: BTreeMap<u64, MessageLocation>,
    most: usize,
}

impl Sends {
    /// A list of those that have a number, the peer's of the send.
    pub(crate) fn new(all: impl Iterator<Item = (Option<u64>, MessageLocation)>) -> Self {
        let mut looks = 0;
        let all = all.inspect(|_| looks += 1);
        let locations = all.filter_map(|(send, location)| Some((send?, location)));
        let locations: BTreeMap<u64, MessageLocation> = locations.collect();
        let most = locations.len() + looks + FEW;
        Self { locations, most }
    }

    /// Notes where a message is now. Returns whether the list is still of use: it may have become
    /// full of messages that are gone.
    pub(crate) fn note(&mut self, send: u64, location: MessageLocation) -> bool {
        self.locations.insert(send, location);
        self.locations.len() <= self.most
    }

    /// Where the message of a send is, or was.
    pub(crate) fn find(&self, send: u64) -> Option<MessageLocation> {
        self.locations.get(&send).copied()
    }
}
