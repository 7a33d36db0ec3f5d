//! Limits how many connections a user has for whom the agent of a node makes the handshakes.
//!
//! A process that holds the cluster's key is trusted not to use up what a server has. A user who needs an agent is not: one user of one node
//! has at most an eighth of the peers that there may be, and of the files that the process may have open.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::half_open::Source;

/// One user may have one in this many of the peers, and of the open files.
const PART: usize = 8;

/// From where a user connects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum UserOrigin {
    /// A node that has proven which it is, by its name.
    Node(String),
    /// A host, where nodes prove nothing.
    Host(Source),
    /// This host, whatever its address.
    Here,
}

/// Counts as one of a user's connections until it is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    _counted: Arc<()>,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct UserLimits {
    most: usize,
    held: HashMap<(UserOrigin, u32), Weak<()>>,
    /// How many entries there were when those of users who have left were removed.
    swept: usize,
}

impl UserLimits {
    /// Limits for a method that may have so many peers and open files.
    pub(super) fn new(max_peers: usize, open_files: usize) -> Self {
        Self {
            most: (max_peers.min(open_files) / PART).max(1),
            held: HashMap::new(),
            swept: 0,
        }
    }

    /// Most connections of one user.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Counts one more connection of a user; `None` if the user is at the limit.
    pub(super) fn take(&mut self, origin: UserOrigin, uid: u32) -> Option<CountedConnection> {
        if self.held.len() > 2 * self.swept + 64 {
            self.held.retain(|_, held| held.strong_count() > 0);
            self.swept = self.held.len();
        }
        let held = self.held.entry((origin, uid)).or_default();
        if held.strong_count() >= self.most {
            return None;
        }
        let counted = held.upgrade().unwrap_or_default();
        *held = Arc::downgrade(&counted);
        Some(CountedConnection { _counted: counted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_an_eighth_and_leaves_it_to_nobody_else() {
        let mut user_limits = UserLimits::new(16, 1 << 20);
        let node = |name: &str| UserOrigin::Node(name.to_owned());
        let first = user_limits.take(node("a"), 5).unwrap();
        let _second = user_limits.take(node("a"), 5).unwrap();
        assert!(user_limits.take(node("a"), 5).is_none());
        // Other users at the same node, and the same user number at another node, where it may be
        // another user's, have limits of their own.
        assert!(user_limits.take(node("a"), 6).is_some());
        assert!(user_limits.take(node("b"), 5).is_some());
        assert!(user_limits.take(UserOrigin::Here, 5).is_some());
        drop(first);
        assert!(user_limits.take(node("a"), 5).is_some());
        // Users who have left take no memory.
        for uid in 0..1000 {
            assert!(user_limits.take(UserOrigin::Here, uid).is_some());
        }
        assert!(user_limits.held.len() < 200, "{}", user_limits.held.len());
    }
}
