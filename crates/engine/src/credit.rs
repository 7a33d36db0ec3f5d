//! How much a sender may send before its messages are matched.
//!
//! The receiver grants each peer a window of bytes ([`Grant`]) out of one bounded [`Budget`]; the
//! sender spends it ([`Account`]). An eager message costs its length and [`EARLY_RECORD_BYTES`];
//! the credit is returned when the message has left the receiver's early memory. All windows
//! together never commit more than the budget, whatever the number of peers: a peer for which
//! nothing is left gets a window of 0 and announces all its messages instead.
//!
//! The receiver enlarges the window of a peer that needs more. While several senders wait for one receiver, the rate of each is determined
//! by its window. The receiver therefore enlarges no window beyond an even share among the peers that have needed more, and takes from a
//! window above that share to enlarge one below it.

use causeway_wire::bmi::EARLY_RECORD_BYTES;

/// The first window of a peer, in bytes.
const FIRST_WINDOW: u32 = 32 << 10;
/// The first window when half of the budget is committed, in bytes.
const SMALL_WINDOW: u32 = 8 << 10;
/// No window grows beyond this. Half of it is for expected messages: enough for 128 messages of 16
/// KiB, so that programs that post that many at once never announce what could travel whole. (With
/// 1 MiB, 64 messages of 12,000 B took 0.93 µs each instead of 0.26 on an EPYC of the fifth
/// generation, as a third of them were announced.)
const MAX_WINDOW: u32 = 4 << 20;
/// A peer whose window has reached this size is streaming: see [`Grant::is_due`].
const STREAM_WINDOW: u32 = 512 << 10;

/// What an eager message of `len` bytes costs.
#[inline]
pub(crate) fn cost(len: usize) -> u32 {
    // An eager message is shorter than a packet, so the cast keeps its length.
    (len as u32).saturating_add(EARLY_RECORD_BYTES)
}

/// The result of [`Budget::reserve_pull`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// The memory is reserved.
    Yes,
    /// The peer holds its share.
    HasShare,
    /// There is no room.
    NoRoom,
}

/// The receiver's memory for messages for which no receive has been posted yet.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Most bytes of all windows together.
    windows: u64,
    /// Bytes that windows commit now.
    committed: u64,
    /// Peers that have needed a larger window.
    wanting: u64,
    /// Most bytes of large unexpected messages that are fetched or wait to be taken.
    pulls: u64,
    /// Bytes of such messages held now.
    pulled: u64,
}

impl Budget {
    /// Bytes that windows have committed.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Most bytes that may be held.
    pub(crate) fn limit(&self) -> u64 {
        self.windows + self.pulls
    }

    /// One half for windows, one half for large unexpected messages.
    pub(crate) fn new(early_memory: usize) -> Self {
        let half = early_memory as u64 / 2;
        Self {
            windows: half,
            committed: 0,
            wanting: 0,
            pulls: half,
            pulled: 0,
        }
    }

    fn free(&self) -> u64 {
        self.windows.saturating_sub(self.committed)
    }

    /// The first window of a new peer.
    pub(crate) fn first_window(&self) -> u32 {
        let want = if self.free() >= self.windows / 2 {
            FIRST_WINDOW
        } else {
            SMALL_WINDOW
        };
        if u64::from(want) <= self.free() {
            want
        } else {
            0
        }
    }

    /// An even share of what windows may grow to: a quarter stays free for peers to come.
    pub(crate) fn even_share(&self) -> u32 {
        let share = self.windows / 4 * 3 / self.wanting.max(1);
        share.clamp(SMALL_WINDOW.into(), MAX_WINDOW.into()) as u32
    }

    /// Whether new peers get less than the usual first window.
    pub(crate) fn is_memory_short(&self) -> bool {
        self.free() < self.windows / 4
    }

    /// Reserves memory for a large unexpected message of a peer that has reserved `own` bytes so
    /// far. The first message of each peer is allowed as long as there is room, and one of all
    /// peers in any case, as otherwise a message of that size could never arrive. Further ones leave
    /// half of the memory to first ones, and may take as much of the other half as is free then: of
    /// `n` peers that take what they can, each gets one part of `n + 1`.
    pub(crate) fn reserve_pull(&mut self, own: &mut u64, bytes: u64, is_first: bool) -> Reserved {
        let pulled = self.pulled.saturating_add(bytes);
        if !is_first && pulled.saturating_add(*own).saturating_add(bytes) > self.pulls / 2 {
            return Reserved::HasShare;
        }
        if self.pulled > 0 && pulled > self.pulls {
            return Reserved::NoRoom;
        }
        self.pulled = pulled;
        *own += bytes;
        Reserved::Yes
    }

    /// Releases what [`Budget::reserve_pull`] reserved for a peer.
    pub(crate) fn release_pull(&mut self, own: &mut u64, bytes: u64) {
        assert!(bytes <= *own && *own <= self.pulled, "it was reserved");
        *own -= bytes;
        self.pulled -= bytes;
    }

    /// Bytes held for large unexpected messages.
    pub(crate) fn pulled(&self) -> u64 {
        self.pulled
    }

    fn settle(&mut self, before: u32, after: u32) {
        self.committed = self.committed + u64::from(after) - u64::from(before);
    }
}

/// What one peer may send to this side.
#[derive(Debug, Default)]
pub(crate) struct Grant {
    /// How many bytes the peer may have outstanding.
    window: u32,
    /// How many bytes it may still send, as far as this side knows.
    granted: u32,
    /// Bytes of its messages in early memory.
    held: u32,
    /// Counted among the peers that need more window.
    wanting: bool,
    /// If the peer may still send at least this many bytes after a message that leaves early memory
    /// at once, that message changes neither what is committed of the budget nor whether credit is
    /// due.
    quiet_from: u32,
}

impl Grant {
    /// A connection begins; [`Grant::owed`] is sent with the greeting.
    pub(crate) fn open(&mut self, budget: &mut Budget) {
        self.close(budget);
        let before = self.commitment();
        self.window = budget.first_window();
        self.settle(before, budget);
    }

    /// Updates the budget after a change; `before` is what was committed before it.
    fn settle(&mut self, before: u32, budget: &mut Budget) {
        budget.settle(before, self.commitment());
        self.note_quiet();
    }

    #[inline]
    fn note_quiet(&mut self) {
        let free = self.window.checked_sub(self.held);
        self.quiet_from = match free.filter(|free| self.granted <= *free) {
            Some(free) => (free + 1).saturating_sub(self.due_part().max(1)),
            None => u32::MAX,
        };
    }

    /// Takes over the credit of another peer's connection. What is held stays held.
    pub(crate) fn take_over(&mut self, from: &mut Self, budget: &mut Budget) {
        self.close(budget);
        let given = std::mem::take(from);
        let before = self.commitment();
        budget.settle(given.commitment(), 0);
        self.window = given.window;
        self.granted = given.granted;
        self.held += given.held;
        self.wanting = given.wanting;
        self.settle(before, budget);
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.granted + self.held
    }

    fn commitment(&self) -> u32 {
        self.window.max(self.outstanding())
    }

    /// The present size of the window.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// How many bytes the peer may still send.
    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Bytes in early memory.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Charges a message of this cost that has arrived; `false` if the peer was not allowed to send
    /// it.
    #[inline]
    pub(crate) fn arrive(&mut self, cost: u32) -> bool {
        let allowed = cost <= self.granted;
        if allowed {
            self.granted -= cost;
            self.held += cost;
            self.note_quiet();
        }
        allowed
    }

    /// Whether the peer may send a message of this cost.
    #[inline]
    pub(crate) fn allows(&self, cost: u32) -> bool {
        cost <= self.granted
    }

    /// Charges an allowed message of this cost that has arrived and left at once. Returns whether
    /// [credit is due](Self::is_due).
    #[inline]
    pub(crate) fn pass(&mut self, cost: u32, budget: &mut Budget) -> bool {
        let left = self.granted - cost;
        if left >= self.quiet_from {
            self.granted = left;
            return false;
        }
        self.pass_noted(left, budget)
    }

    #[inline(never)]
    fn pass_noted(&mut self, left: u32, budget: &mut Budget) -> bool {
        let before = self.commitment();
        self.granted = left;
        self.settle(before, budget);
        self.is_due()
    }

    /// Accounts for a message of this cost that has left early memory.
    #[inline]
    pub(crate) fn leave(&mut self, cost: u32, budget: &mut Budget) {
        let before = self.commitment();
        self.held -= cost;
        self.settle(before, budget);
    }

    /// How much credit may be granted now.
    #[inline]
    pub(crate) fn owed(&self) -> u32 {
        self.window.saturating_sub(self.outstanding())
    }

    /// Accounts for [`Grant::owed`] that has been sent.
    #[inline]
    pub(crate) fn grant(&mut self, owed: u32) {
        if owed > 0 {
            self.granted += owed;
            self.note_quiet();
        }
    }

    /// How much of the owed credit a message should carry: none as long as the peer has most of its
    /// window. A message without credit takes the receiver fewer instructions.
    #[inline]
    pub(crate) fn worth_carrying(&self) -> u32 {
        let owed = self.owed();
        match owed >= self.window / 16 {
            true => owed,
            false => 0,
        }
    }

    /// Whether the credit should be sent in a packet of its own if no message carries it. A peer
    /// that streams, and so has a large window, is sent credit before it has used up the half that
    /// expected messages may take: a method may have a quarter of the window on the way. In a small
    /// window a single message may be that large, and its reply carries the credit.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let owed = self.owed();
        owed > 0 && owed >= self.due_part()
    }

    #[inline]
    fn due_part(&self) -> u32 {
        let part = if self.window >= STREAM_WINDOW { 4 } else { 2 };
        self.window / part
    }

    /// Whether the window is below an even share.
    pub(crate) fn is_below_share(&self, budget: &Budget) -> bool {
        self.window < budget.even_share()
    }

    /// Enlarges the window of a peer that waits for credit, if the budget allows; returns whether
    /// it did.
    pub(crate) fn enlarge(&mut self, budget: &mut Budget) -> bool {
        if !self.wanting {
            self.wanting = true;
            budget.wanting += 1;
        }
        let goal = (self.window.saturating_mul(2)).clamp(SMALL_WINDOW, MAX_WINDOW);
        let goal = goal.min(budget.even_share());
        // A quarter stays free for later peers; a peer without a window may use that.
        let usable = if self.window == 0 {
            budget.free()
        } else {
            budget.free().saturating_sub(budget.windows / 4)
        };
        if goal <= self.window || u64::from(goal - self.window) > usable {
            return false;
        }
        let before = self.commitment();
        self.window = goal;
        self.settle(before, budget);
        true
    }

    /// Halves a window that has grown, or is above an even share; returns whether it did. The peer
    /// is asked to return the rest.
    pub(crate) fn shrink(&mut self, budget: &mut Budget) -> bool {
        let least = FIRST_WINDOW.min(budget.even_share());
        if self.window <= least {
            return false;
        }
        // The peer may need less now; if it needs more, it reports that again.
        self.clear_demand(budget);
        let before = self.commitment();
        self.window = (self.window / 2).max(least);
        self.settle(before, budget);
        true
    }

    fn clear_demand(&mut self, budget: &mut Budget) {
        budget.wanting -= u64::from(std::mem::take(&mut self.wanting));
    }

    /// Takes back credit that the peer returns; `false` if it never had that much.
    pub(crate) fn reclaim(&mut self, bytes: u64, budget: &mut Budget) -> bool {
        let allowed = bytes <= u64::from(self.granted);
        if allowed {
            let before = self.commitment();
            self.granted -= bytes as u32;
            self.settle(before, budget);
        }
        allowed
    }

    /// The connection has ended: the peer sends no more. What is held stays held.
    pub(crate) fn close(&mut self, budget: &mut Budget) {
        self.clear_demand(budget);
        let before = self.commitment();
        self.window = 0;
        self.granted = 0;
        self.settle(before, budget);
    }
}

/// What this side may send to one peer.
///
/// Expected messages leave half of the window to unexpected ones: expected messages may wait at
/// the receiver until an unexpected message makes it post their receives, and that message must get
/// through.
#[derive(Debug, Default)]
pub(crate) struct Account {
    credit: u32,
    window: u32,
    /// The window has shrunk since that half was reserved: the reserve may not come back.
    reserve_lost: bool,
    /// Messages wait for credit, and the peer has been notified.
    pub(crate) reported_starved: bool,
}

impl Account {
    /// The credit that is left, and the size of the window.
    pub(crate) fn credit_and_window(&self) -> (u32, u32) {
        (self.credit, self.window)
    }

    /// Whether a message of this cost may be sent now.
    #[inline]
    pub(crate) fn affords(&self, cost: u32, unexpected: bool) -> bool {
        let reserve = if unexpected { 0 } else { self.window / 2 };
        self.credit
            .checked_sub(cost)
            .is_some_and(|rest| rest >= reserve)
    }

    /// Whether an unexpected message of this cost is certain to be sent once the receiver has taken
    /// those before it.
    pub(crate) fn will_afford(&self, cost: u32) -> bool {
        cost <= self.window / 2 && !self.reserve_lost
    }

    /// Spends the cost of a message that was sent.
    #[inline]
    pub(crate) fn spend(&mut self, cost: u32) {
        self.credit -= cost;
    }

    /// Adds credit; `false` if the peer grants more than any window has.
    #[inline]
    pub(crate) fn receive(&mut self, credit: u32) -> bool {
        self.reported_starved = false;
        self.credit = self.credit.saturating_add(credit);
        self.window = self.window.max(self.credit);
        if self.credit >= self.window / 2 {
            self.reserve_lost = false;
        }
        self.credit <= 1 << 30
    }

    /// Sets the size of the window, as the peer reports it.
    pub(crate) fn set_window(&mut self, window: u64) {
        let window = window.min(1 << 30) as u32;
        if window < self.window && self.credit < window / 2 {
            self.reserve_lost = true;
        }
        self.window = window;
    }

    /// The peer shrinks the window: removes the credit above the new size, and returns it.
    pub(crate) fn reclaim(&mut self, window: u64) -> u32 {
        self.set_window(window);
        let back = self.credit.saturating_sub(self.window);
        self.credit -= back;
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Random traffic between many peers and one receiver: credit is conserved, the budget holds.
        #[test]
        fn credit_is_conserved(
            early in 0usize..400_000,
            steps in prop::collection::vec((0u8..8, 0usize..40, 0usize..9000), 1..600),
        ) {
            let mut budget = Budget::new(early);
            let mut peers: Vec<(Grant, Account, Vec<u32>)> = Vec::new();
            for (what, who, len) in steps {
                if who >= peers.len() {
                    let mut grant = Grant::default();
                    grant.open(&mut budget);
                    let mut account = Account::default();
                    let owed = grant.owed();
                    prop_assert!(account.receive(owed));
                    grant.grant(owed);
                    peers.push((grant, account, Vec::new()));
                    continue;
                }
                let (grant, account, early) = &mut peers[who];
                let cost = cost(len);
                match what {
                    0..3 => if account.affords(cost, what == 0) {
                        account.spend(cost);
                        prop_assert!(grant.allows(cost));
                        if what == 2 {
                            let is_due = grant.pass(cost, &mut budget);
                            prop_assert_eq!(is_due, grant.is_due());
                        } else {
                            prop_assert!(grant.arrive(cost));
                            early.push(cost);
                        }
                    },
                    3 | 4 => if let Some(cost) = early.pop() {
                        grant.leave(cost, &mut budget);
                        if grant.is_due() {
                            let owed = grant.owed();
                            grant.grant(owed);
                            account.receive(owed);
                        }
                    },
                    5 => { grant.enlarge(&mut budget); }
                    6 => if grant.shrink(&mut budget) {
                        let back = account.reclaim(grant.window().into());
                        prop_assert!(grant.reclaim(back.into(), &mut budget));
                    },
                    _ => {
                        grant.close(&mut budget);
                        *account = Account::default();
                    }
                }
                let sum: u64 = peers.iter().map(|(grant, ..)| u64::from(grant.commitment())).sum();
                prop_assert_eq!(sum, budget.committed);
                let wanting = peers.iter().filter(|(grant, ..)| grant.wanting).count();
                prop_assert_eq!(wanting as u64, budget.wanting);
                prop_assert!(sum <= budget.windows);
            }
        }
    }

    #[test]
    fn more_than_granted_is_noticed() {
        let mut budget = Budget::new(1 << 20);
        let mut grant = Grant::default();
        grant.open(&mut budget);
        assert!(!grant.arrive(1));
        grant.grant(grant.owed());
        assert!(grant.arrive(FIRST_WINDOW));
        assert!(!grant.arrive(1));
        assert!(!grant.reclaim(1, &mut budget));
    }

    #[test]
    fn the_needy_come_to_even_shares() {
        let mut budget = Budget::new(4 << 20);
        let mut grants: Vec<Grant> = (0..64).map(|_| Grant::default()).collect();
        for grant in &mut grants {
            grant.open(&mut budget);
        }
        // The first asks long before the others.
        while grants[0].enlarge(&mut budget) {}
        assert!(grants[0].window() >= 256 << 10);
        for _ in 0..20 {
            for at in 0..grants.len() {
                let poor = !grants[at].enlarge(&mut budget) && grants[at].is_below_share(&budget);
                let most = grants.iter_mut().max_by_key(|grant| grant.window());
                if let Some(most) = most.filter(|_| poor) {
                    most.shrink(&mut budget);
                }
            }
        }
        let windows = grants.iter().map(Grant::window);
        let (least, most) = (windows.clone().min(), windows.max());
        assert!(2 * least.unwrap() >= most.unwrap(), "{least:?} to {most:?}");
    }

    #[test]
    fn one_large_message_always_fits() {
        let mut budget = Budget::new(100);
        let (mut a, mut b) = (0, 0);
        assert_eq!(budget.reserve_pull(&mut a, 1000, true), Reserved::Yes);
        assert_eq!(budget.reserve_pull(&mut b, 1, true), Reserved::NoRoom);
        budget.release_pull(&mut a, 1000);
        assert_eq!(budget.reserve_pull(&mut a, 30, true), Reserved::Yes);
        assert_eq!(budget.reserve_pull(&mut a, 1, false), Reserved::HasShare);
        assert_eq!(budget.reserve_pull(&mut b, 20, true), Reserved::Yes);
        assert_eq!(budget.reserve_pull(&mut b, 1, false), Reserved::HasShare);
        assert_eq!(budget.reserve_pull(&mut 0, 1, true), Reserved::NoRoom);
        assert_eq!((a, b, budget.pulled()), (30, 20, 50));
    }

    #[test]
    fn peers_that_take_what_they_can_leave_an_equal_part() {
        let mut budget = Budget::new(4000);
        let mut held = [0; 9];
        let mut any = true;
        while std::mem::take(&mut any) {
            for own in &mut held {
                any |= budget.reserve_pull(own, 1, false) == Reserved::Yes;
            }
        }
        assert_eq!(held, [100; 9]);
        assert_eq!(budget.pulled(), 900);
    }
}
