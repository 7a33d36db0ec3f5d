//! Every interleaving of two sides that copy one transfer, explored by a model checker; see `model`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::claim::{self, From, HelperState, Initiated, Share};

/// Units of a transfer, and transfers that use the block one after the other.
const UNITS: u32 = 3;
const TRANSFERS: usize = 2;

struct Shared {
    claims: AtomicU64,
    done: AtomicU64,
    /// Which transfer the block describes.
    description: AtomicU64,
    wants_ring: AtomicU64,
    rung: AtomicU64,
    /// The copied units: relaxed, so that only the protocol orders them.
    bytes: [[AtomicU64; UNITS as usize]; TRANSFERS],
}

impl Shared {
    fn new() -> Arc<Self> {
        let word = || AtomicU64::new(0);
        Arc::new(Self {
            claims: word(),
            done: word(),
            description: word(),
            wants_ring: word(),
            rung: word(),
            bytes: std::array::from_fn(|_| std::array::from_fn(|_| word())),
        })
    }

    fn share(&self) -> Share<'_, AtomicU64> {
        Share {
            claims: &self.claims,
            done: &self.done,
        }
    }

    fn copy(&self, transfer: usize, unit: u32) {
        let byte = &self.bytes[transfer][unit as usize];
        assert_eq!(byte.load(Relaxed), 0, "the other side copies it too");
        byte.store(1, Relaxed);
    }

    fn open(&self, transfer: usize) -> Initiated {
        self.description.store(transfer as u64, Relaxed);
        self.share().open(UNITS)
    }

    /// The initiator's part until all units are claimed.
    fn start(&self, transfer: usize) -> Initiated {
        let mut initiated = self.open(transfer);
        while !initiated.is_all_claimed() {
            let units = self.share().claim_front(&mut initiated, 1, From::Anywhere);
            units
                .expect("the helper is honest")
                .for_each(|unit| self.copy(transfer, unit));
        }
        initiated
    }

    fn is_settled(&self, initiated: &Initiated) -> bool {
        let HelperState {
            finished, failed, ..
        } = self
            .share()
            .helper_state(initiated)
            .expect("the helper is honest");
        assert!(!failed);
        finished
    }

    /// The helper's part: at most one unit.
    fn help(&self) {
        let Some(units) = self.share().claim_back(UNITS, 1, From::Anywhere) else {
            return;
        };
        let transfer = self.description.load(Relaxed) as usize;
        for unit in units.clone() {
            self.copy(transfer, unit);
        }
        self.share().finish_back(units.end - units.start, true);
        fence(SeqCst);
        if claim::must_ring(&self.wants_ring) {
            self.rung.store(1, Relaxed);
        }
    }

    fn assert_all_copied(&self, transfer: usize) {
        let bytes = &self.bytes[transfer];
        assert!(bytes.iter().all(|byte| byte.load(Relaxed) == 1));
    }
}

/// Both sides together copy every byte of two transfers in the same block exactly once, and the
/// initiator sees all of them when it finds a transfer complete.
#[test]
fn loom_two_sides_copy_every_byte_once() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let helper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || (0..3).for_each(|_| shared.help()))
        };
        for transfer in 0..TRANSFERS {
            let initiated = shared.start(transfer);
            while !shared.is_settled(&initiated) {
                thread::yield_now();
            }
            shared.assert_all_copied(transfer);
        }
        helper.join().expect("the helper does not panic");
    });
}

/// An initiator that would sleep before the helper is done is rung.
#[test]
fn loom_a_starter_that_waits_for_the_helper_is_rung() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let helper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.help())
        };
        let initiated = shared.start(0);
        shared.wants_ring.store(1, SeqCst);
        fence(SeqCst);
        let sleeps = !shared.is_settled(&initiated);
        helper.join().expect("the helper does not panic");
        if sleeps {
            assert_eq!(shared.rung.load(Relaxed), 1);
            assert!(shared.is_settled(&initiated));
        }
        shared.assert_all_copied(0);
    });
}

/// A helper that sends its parts in pieces: the initiator never takes one as invalid because it is not counted yet, and completes
/// when the last has arrived.
#[test]
fn loom_pieces_are_counted_before_they_arrive() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        // The ring: a word for each piece, the unit and one.
        let ring = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let helper = {
            let (shared, ring) = (Arc::clone(&shared), Arc::clone(&ring));
            thread::spawn(move || {
                for slot in ring.iter() {
                    let Some(units) = shared.share().claim_back(UNITS, 1, From::Anywhere) else {
                        return;
                    };
                    shared.share().count_piece(1);
                    slot.store(u64::from(units.start) + 1, Release);
                }
            })
        };
        let mut initiated = shared.start(0);
        let mut front = 0;
        let looks = |initiated: &Initiated| shared.share().helper_state(initiated);
        while !looks(&initiated).expect("the helper is honest").finished {
            match ring[front].load(Acquire) {
                0 => thread::yield_now(),
                unit => {
                    let unit = unit as u32 - 1;
                    let taken = initiated.receive(&(unit..unit + 1));
                    taken.expect("the helper is honest");
                    shared.copy(0, unit);
                    front = (front + 1) % ring.len();
                }
            }
        }
        shared.assert_all_copied(0);
        assert!(!shared.share().is_touched(&initiated));
        helper.join().expect("the helper does not panic");
    });
}

/// An initiator that does not wait for the helper's claims is caught.
#[test]
#[should_panic]
fn loom_an_initiator_that_does_not_wait_is_caught() {
    loom::model(|| {
        let shared = Shared::new();
        let helper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.help())
        };
        shared.start(0);
        shared.assert_all_copied(0);
        helper.join().expect("the helper does not panic");
    });
}
