//! A sort of integers by buckets (§2.4.4): each process counts its keys, the counts are merged
//! around a ring, and then the owner of each bucket assigns each process its share of the bucket's
//! ranks. The ring leaves each process with the merged counts of its own share of the buckets. It
//! turns them into the rank after each bucket's last key; a process sends a request with its local
//! counts, which are subtracted, and the result is the rank at which its keys begin. The order of
//! requests is rotated, so that no owner gets all of them at once.

use super::Program;
use super::barrier::{Barrier, HasBarrier, on_arrival, on_release, pass};
use super::fft::scramble;
use crate::am::port::{Awaited, Rank, Work};
use crate::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers, Region};

/// Counting a key, or assigning its rank.
const KEY: Work = Work {
    floating: 0,
    integer: 4,
    cached: 2,
    memory: 2,
};

/// Adding, summing or subtracting a bucket.
const BUCKET: Work = Work {
    floating: 0,
    integer: 3,
    cached: 2,
    memory: 1,
};

/// A sort of fixed keys.
#[derive(Debug, Clone, Copy)]
pub struct IntegerSort {
    /// The number of keys.
    pub keys: usize,
    /// Keys are smaller than this.
    pub buckets: usize,
}

impl IntegerSort {
    /// The sample size of the NAS suite: 2¹⁶ keys below 2¹¹.
    pub const SAMPLE: Self = Self {
        keys: 1 << 16,
        buckets: 1 << 11,
    };

    /// The `index`-th key: the mean of four random numbers, as in the NAS suite.
    fn key(&self, index: usize) -> u32 {
        let sum: u64 = (0..4)
            .map(|draw| scramble(4 * index as u64 + draw) % self.buckets as u64)
            .sum();
        (sum / 4) as u32
    }

    /// The rank must be among those of equal keys, and no other key of this process may have it.
    fn check(&self, first: usize, ranks: &[u32]) -> Result<(), AmError> {
        let mut counts = vec![0_u32; self.buckets];
        for index in 0..self.keys {
            if let Some(count) = counts.get_mut(self.key(index) as usize) {
                *count += 1;
            }
        }
        let mut begins = Vec::with_capacity(self.buckets);
        let mut sum = 0;
        for &count in &counts {
            begins.push(sum);
            sum += count;
        }
        let mut taken = vec![false; self.keys];
        for (index, &rank) in ranks.iter().enumerate() {
            let key = self.key(first + index) as usize;
            let begin = begins.get(key).copied().unwrap_or(0);
            let end = begin + counts.get(key).copied().unwrap_or(0);
            let is_new = taken
                .get_mut(rank as usize)
                .is_some_and(|taken| !std::mem::replace(taken, true));
            if !(begin..end).contains(&rank) || !is_new {
                return Err(AmError::WrongResult(format!(
                    "key {key} got rank {rank}; its ranks are {begin} to {end}"
                )));
            }
        }
        Ok(())
    }
}

/// The state that handlers change, and the data that they need for it.
#[derive(Debug, Default)]
pub struct SortState {
    barrier: Barrier,
    /// Rounds of the ring that have arrived.
    rounds: usize,
    /// How many keys are in the shares before this one.
    before: Option<u64>,
    /// The replies that have arrived, and the ranks.
    answers: usize,
    landed: usize,
    /// The position of the owned share of the ranks, and where replies are stored.
    ends: Option<Region>,
    answered: Option<Region>,
}

impl HasBarrier for SortState {
    fn barrier(&mut self) -> &mut Barrier {
        &mut self.barrier
    }
}

const ARRIVE: HandlerId = HandlerId(0);
const RELEASE: HandlerId = HandlerId(1);
const ROUND: HandlerId = HandlerId(2);
const BEFORE: HandlerId = HandlerId(3);
const SUBTRACT: HandlerId = HandlerId(4);
const ANSWER: HandlerId = HandlerId(5);
const LANDED: HandlerId = HandlerId(6);

fn on_round(arrival: &mut Arrival<'_, SortState>) -> Result<(), AmError> {
    arrival.state.rounds += 1;
    Ok(())
}

fn on_before(arrival: &mut Arrival<'_, SortState>) -> Result<(), AmError> {
    arrival.state.before = Some(arrival.word(0)?);
    Ok(())
}

/// Subtracts the requester's counts from the ends of the buckets, and stores the result for the
/// requester to read.
fn on_subtract(arrival: &mut Arrival<'_, SortState>) -> Result<(), AmError> {
    let landed = arrival.landing()?;
    let (Some(ends), Some(answered)) = (arrival.state.ends, arrival.state.answered) else {
        return Err(arrival.refuse("nothing is owned yet"));
    };
    let buckets = (landed.bytes / 4) as usize;
    let counts: Vec<u32> = arrival.memory.numbers(landed.place, buckets).collect();
    let left: Vec<u32> = arrival
        .memory
        .numbers::<u32>(ends.at(0), buckets)
        .zip(counts)
        .map(|(end, count)| end.wrapping_sub(count))
        .collect();
    let answer = answered.at(landed.place.offset);
    let is_written = arrival
        .memory
        .write_numbers(ends.at(0), left.iter().copied())
        && arrival.memory.write_numbers(answer, left);
    if !is_written {
        return Err(arrival.refuse("more buckets than are owned"));
    }
    arrival.work(BUCKET.times(2 * buckets as u64));
    arrival.reply(ANSWER, &[])
}

fn on_answer(arrival: &mut Arrival<'_, SortState>) -> Result<(), AmError> {
    arrival.state.answers += 1;
    Ok(())
}

fn on_landed(arrival: &mut Arrival<'_, SortState>) -> Result<(), AmError> {
    arrival.state.landed += 1;
    Ok(())
}

/// A process's memory, and its share of the buckets.
struct Share {
    rank: usize,
    ranks: usize,
    buckets: usize,
    bytes: u64,
    /// Local counts, merged counts, those that arrive around the ring, owned ends, requesters'
    /// counts, replies, beginnings.
    local: Region,
    merged: Region,
    incoming: Region,
    ends: Region,
    asked: Region,
    answered: Region,
    begins: Region,
}

impl IntegerSort {
    fn settle<A: ActiveMessages<State = SortState>>(&self, am: &mut A) -> Result<Share, AmError> {
        let ranks = am.ranks() as usize;
        let buckets = self.buckets / ranks;
        let (share, all) = (buckets * 4, self.buckets * 4);
        let share = Share {
            rank: am.rank() as usize,
            ranks,
            buckets,
            bytes: share as u64,
            local: am.make_region(all)?,
            merged: am.make_region(all)?,
            incoming: am.make_region(all)?,
            ends: am.make_region(share)?,
            asked: am.make_region(all)?,
            answered: am.make_region(all)?,
            begins: am.make_region(all)?,
        };
        am.state().ends = Some(share.ends);
        am.state().answered = Some(share.answered);
        Ok(share)
    }

    /// Merges the counts around the ring: each share passes all processes and ends at its owner.
    fn merge<A: ActiveMessages<State = SortState>>(
        am: &mut A,
        share: &Share,
    ) -> Result<(), AmError> {
        let Share {
            rank,
            ranks,
            buckets,
            bytes,
            ..
        } = *share;
        let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        for round in 0..ranks - 1 {
            let goes = (rank + 2 * ranks - 1 - round) % ranks;
            let comes = (rank + 2 * ranks - 2 - round) % ranks;
            let span = share.merged.at(goes as u64 * bytes).span(bytes);
            let into = share.incoming.at(round as u64 * bytes);
            am.store(next as Rank, span, into, ROUND, round as u64)?;
            let awaited = Awaited::from(before as Rank, "counts around the ring");
            am.wait_until(awaited, |state| state.rounds > round)?;
            let place = share.merged.at(comes as u64 * bytes);
            let sums: Vec<u32> = am
                .memory()
                .numbers::<u32>(share.incoming.at(round as u64 * bytes), buckets)
                .zip(am.memory().numbers::<u32>(place, buckets))
                .map(|(a, b)| a.wrapping_add(b))
                .collect();
            am.memory_mut().write_numbers(place, sums);
            am.work(BUCKET.times(buckets as u64));
        }
        Ok(())
    }

    /// Turns the owned share of the merged counts into the rank after each bucket's last key.
    fn sum<A: ActiveMessages<State = SortState>>(am: &mut A, share: &Share) -> Result<(), AmError> {
        let Share {
            rank,
            ranks,
            buckets,
            bytes,
            ..
        } = *share;
        let own: Vec<u32> = am
            .memory()
            .numbers(share.merged.at(rank as u64 * bytes), buckets)
            .collect();
        let total: u64 = own.iter().map(|&count| u64::from(count)).sum();
        let mut end = 0;
        if rank > 0 {
            let awaited = Awaited::from(rank as Rank - 1, "the number of smaller keys");
            am.wait_until(awaited, |state| state.before.is_some())?;
            end = am.state().before.unwrap_or(0);
        }
        if rank + 1 < ranks {
            am.request(rank as Rank + 1, BEFORE, &[end + total])?;
        }
        let ends = own.into_iter().map(|count| {
            end += u64::from(count);
            end as u32
        });
        am.memory_mut().write_numbers(share.ends.at(0), ends);
        am.work(BUCKET.times(buckets as u64));
        Ok(())
    }

    /// Requests from each owner where this process's keys begin.
    fn ask<A: ActiveMessages<State = SortState>>(am: &mut A, share: &Share) -> Result<(), AmError> {
        let Share {
            rank, ranks, bytes, ..
        } = *share;
        for step in 0..ranks {
            let owner = (rank + step) % ranks;
            let counts = share.local.at(owner as u64 * bytes).span(bytes);
            // Each process has a slot of its own at the owner, the owner itself too.
            let slot = rank as u64 * bytes;
            am.store(owner as Rank, counts, share.asked.at(slot), SUBTRACT, 0)?;
            let awaited = Awaited::from(owner as Rank, "an answer about ranks");
            am.wait_until(awaited, |state| state.answers > step)?;
            let source = share.answered.at(slot).span(bytes);
            let into = share.begins.at(owner as u64 * bytes);
            am.get(owner as Rank, source, into, LANDED, 0)?;
            let awaited = Awaited::from(owner as Rank, "ranks");
            am.wait_until(awaited, |state| state.landed > step)?;
        }
        Ok(())
    }
}

impl Program for IntegerSort {
    type State = SortState;
    /// The ranks of the process's keys.
    type Output = Vec<u32>;

    fn handlers() -> &'static Handlers<SortState> {
        &[
            on_arrival,
            on_release,
            on_round,
            on_before,
            on_subtract,
            on_answer,
            on_landed,
        ]
    }

    fn begin(&self, _rank: Rank, ranks: u32) -> Result<SortState, AmError> {
        let ranks = ranks as usize;
        let divides = |count: usize| count > 0 && ranks > 0 && count.is_multiple_of(ranks);
        if divides(self.keys) && divides(self.buckets) && u32::try_from(self.keys).is_ok() {
            return Ok(SortState::default());
        }
        Err(AmError::WrongResult(format!(
            "{} keys and {} buckets cannot be shared equally by {ranks} processes",
            self.keys, self.buckets
        )))
    }

    fn run<A: ActiveMessages<State = SortState>>(&self, am: &mut A) -> Result<Vec<u32>, AmError> {
        let share = self.settle(am)?;
        let own = self.keys / share.ranks;
        let first = share.rank * own;
        let keys: Vec<u32> = (first..first + own).map(|index| self.key(index)).collect();
        let mut counts = vec![0_u32; self.buckets];
        for &key in &keys {
            if let Some(count) = counts.get_mut(key as usize) {
                *count += 1;
            }
        }
        am.memory_mut()
            .write_numbers(share.local.at(0), counts.iter().copied());
        am.memory_mut().write_numbers(share.merged.at(0), counts);
        am.work(KEY.times(own as u64));

        Self::merge(am, &share)?;
        Self::sum(am, &share)?;
        pass(am, ARRIVE, RELEASE)?;
        Self::ask(am, &share)?;

        let mut begins: Vec<u32> = am
            .memory()
            .numbers(share.begins.at(0), self.buckets)
            .collect();
        let mut ranks = Vec::with_capacity(own);
        for &key in &keys {
            if let Some(next) = begins.get_mut(key as usize) {
                ranks.push(*next);
                *next += 1;
            }
        }
        am.work(KEY.times(own as u64));
        pass(am, ARRIVE, RELEASE)?;
        self.check(first, &ranks)?;
        Ok(ranks)
    }
}
