//! Properties of the claims of two sides that share a transfer.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use causeway_wire::random::SplitMix64;
use causeway_wire::shm::split_copy::{Claims, FAILED};

use crate::shm::claim::{From, HelperState, InvalidClaims, LEAST_STEAL, Share, portion};

/// The words of one block.
#[derive(Default)]
struct Block {
    claims: AtomicU64,
    done: AtomicU64,
}

impl Block {
    fn share(&self) -> Share<'_, AtomicU64> {
        Share {
            claims: &self.claims,
            done: &self.done,
        }
    }
}

fn any_from(random: u64) -> From {
    if random.is_multiple_of(2) {
        From::OwnHalf
    } else {
        From::Anywhere
    }
}

#[test]
fn a_portion_is_at_most_what_is_left_and_at_least_one_unit_if_any_is_left() {
    let mut random = SplitMix64::new(11);
    for _ in 0..100_000 {
        let left = random.number() as u32 % 5000;
        let own = if left == 0 {
            0
        } else {
            random.number() as u32 % (left + 1)
        };
        let most = random.number() as u32 % 300;
        let taken = portion(own, left, most, From::Anywhere);
        assert!(taken <= left && taken <= most);
        assert_eq!(taken == 0, left == 0 || most == 0);
        assert_eq!(portion(own, left, most, From::All), left.min(most));
        let of_own = portion(own, left, most, From::OwnHalf);
        assert_eq!(of_own, own.min(most));
        if own == 0 {
            assert!(taken <= (left / 2).max(LEAST_STEAL));
        }
    }
}

/// In any order of claims, every unit is claimed once, and the transfer is complete
/// exactly when the last part is finished.
#[test]
fn two_sides_claim_every_unit_once_in_any_order() {
    let mut random = SplitMix64::new(12);
    for _ in 0..2000 {
        let block = Block::default();
        let units = 1 + random.number() as u32 % 200;
        let mut initiated = block.share().open(units);
        let mut taken = vec![0; units as usize];
        let mut unfinished = Vec::new();
        let mut helped = 0;
        while !initiated.is_all_claimed() || !unfinished.is_empty() {
            let (most, from) = (1 + random.number() as u32 % 40, any_from(random.number()));
            match random.number() % 3 {
                0 => {
                    let part = block
                        .share()
                        .claim_front(&mut initiated, most, from)
                        .unwrap();
                    part.for_each(|unit| taken[unit as usize] += 1);
                }
                1 => {
                    // The helper's reading of the length may be out of date.
                    let believed = units + random.number() as u32 % 3;
                    if let Some(part) = block.share().claim_back(believed, most, from) {
                        part.clone().for_each(|unit| taken[unit as usize] += 1);
                        helped += part.len();
                        unfinished.push(part.len() as u32);
                    }
                }
                _ => {
                    if let Some(part) = unfinished.pop() {
                        block.share().finish_back(part, true);
                    }
                }
            }
            let HelperState {
                any,
                finished,
                failed,
            } = block.share().helper_state(&initiated).unwrap();
            assert!(!failed && (!any || helped > 0));
            if initiated.is_all_claimed() {
                assert_eq!(finished, unfinished.is_empty());
            }
        }
        assert!(taken.iter().all(|&times| times == 1));
    }
}

#[test]
fn a_closed_transfer_has_no_unclaimed_units_and_waits_for_claimed_ones() {
    let block = Block::default();
    let mut initiated = block.share().open(100);
    assert_eq!(
        block.share().claim_back(100, 7, From::OwnHalf),
        Some(93..100)
    );
    block.share().close(&mut initiated).unwrap();
    assert!(initiated.is_all_claimed());
    assert_eq!(block.share().claim_back(100, 7, From::Anywhere), None);
    assert!(!block.share().helper_state(&initiated).unwrap().finished);
    block.share().finish_back(7, false);
    let HelperState {
        any,
        finished,
        failed,
    } = block.share().helper_state(&initiated).unwrap();
    assert!(any && finished && failed);
}

#[test]
fn words_that_no_helper_writes_are_invalid() {
    let lies = [
        Claims {
            front: 11,
            back: 90,
        }
        .pack(),
        Claims { front: 9, back: 90 }.pack(),
        Claims {
            front: 10,
            back: 101,
        }
        .pack(),
        Claims { front: 10, back: 5 }.pack(),
        u64::MAX,
        0,
    ];
    for lie in lies {
        let block = Block::default();
        let mut initiated = block.share().open(100);
        let own = block.share().claim_front(&mut initiated, 10, From::OwnHalf);
        assert_eq!(own, Ok(0..10));
        block.claims.store(lie, Relaxed);
        let next = block
            .share()
            .claim_front(&mut initiated, 10, From::Anywhere);
        assert_eq!(next, Err(InvalidClaims), "{lie:#x}");
        assert_eq!(
            block.share().close(&mut initiated),
            Err(InvalidClaims),
            "{lie:#x}"
        );
    }
    let block = Block::default();
    let mut initiated = block.share().open(100);
    block.share().close(&mut initiated).unwrap();
    block.done.store(1, Relaxed);
    assert_eq!(block.share().helper_state(&initiated), Err(InvalidClaims));
    block.done.store(FAILED, Relaxed);
    assert!(block.share().helper_state(&initiated).unwrap().failed);
    block
        .claims
        .store(Claims { front: 0, back: 9 }.pack(), Relaxed);
    let declined = block.share().claim_back(9, 9, From::Anywhere);
    assert_eq!(declined, None, "all of it is done again");
    block.done.store(0, Relaxed);
    // The helper does not trust the initiator either.
    for word in [5, Claims { front: 8, back: 8 }.pack()] {
        block.claims.store(word, Relaxed);
        assert_eq!(block.share().claim_back(u32::MAX, 10, From::OwnHalf), None);
    }
    block.claims.store(u64::MAX << 32, Relaxed);
    let part = block
        .share()
        .claim_back(3, u32::MAX, From::Anywhere)
        .unwrap();
    assert_eq!(part, 2..u32::MAX);
}
