//! Groups of processes, and operations on them (MPI 5.0 §7.3).

use std::collections::HashMap;

use crate::abi;
use crate::error::{Error, Result};

/// An ordered set of processes, named by their numbers in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    members: Vec<u32>,
    /// Ranks by process, unless each process is its own rank.
    ranks: Option<HashMap<u32, u32>>,
    /// The handle of the session that the processes come from, if any (MPI 5.0 §11.3).
    session: Option<usize>,
}

impl Group {
    /// The group of these processes, which differ from each other.
    pub fn new(members: Vec<u32>) -> Self {
        let is_identity = members
            .iter()
            .enumerate()
            .all(|(rank, member)| rank == *member as usize);
        let ranks = (!is_identity).then(|| {
            let ranks = members.iter().enumerate();
            ranks.map(|(rank, member)| (*member, rank as u32)).collect()
        });
        Self {
            members,
            ranks,
            session: None,
        }
    }

    /// The same, from a session.
    pub fn of_session(self, session: Option<usize>) -> Self {
        Self { session, ..self }
    }

    /// The handle of the session that it comes from, if any.
    pub fn session(&self) -> Option<usize> {
        self.session
    }

    /// A group of these processes, from the same session as this one.
    fn derived(&self, members: Vec<u32>) -> Self {
        Self::new(members).of_session(self.session)
    }

    /// The number of processes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The processes, in the order of their ranks.
    #[inline]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The rank of a process.
    #[inline]
    pub fn rank_of(&self, process: u32) -> Option<u32> {
        match &self.ranks {
            None => (process < self.size()).then_some(process),
            Some(ranks) => ranks.get(&process).copied(),
        }
    }

    /// The process of a rank.
    pub fn member(&self, rank: i32) -> Result<u32> {
        let member = usize::try_from(rank)
            .ok()
            .and_then(|rank| self.members.get(rank));
        member.copied().ok_or_else(|| {
            let text = format!("rank {rank} in a group of {}", self.size());
            Error::new(abi::ERR_RANK, text)
        })
    }

    /// `MPI_IDENT`, `MPI_SIMILAR` or `MPI_UNEQUAL`.
    pub fn compare(&self, other: &Self) -> i32 {
        if self.members == other.members {
            return abi::IDENT;
        }
        let is_in = |member: &u32| other.rank_of(*member).is_some();
        match self.size() == other.size() && self.members.iter().all(is_in) {
            true => abi::SIMILAR,
            false => abi::UNEQUAL,
        }
    }

    fn filtered(&self, keep: impl Fn(u32) -> bool) -> Vec<u32> {
        let members = self.members.iter().copied();
        members.filter(|member| keep(*member)).collect()
    }

    /// The processes of this group, then those of the other that are not in this one.
    pub fn union(&self, other: &Self) -> Self {
        let mut members = self.members.clone();
        members.extend(other.filtered(|member| self.rank_of(member).is_none()));
        self.derived(members)
    }

    /// The processes that are in both, in the order of this one.
    pub fn intersection(&self, other: &Self) -> Self {
        self.derived(self.filtered(|member| other.rank_of(member).is_some()))
    }

    /// The processes that are not in the other one.
    pub fn difference(&self, other: &Self) -> Self {
        self.derived(self.filtered(|member| other.rank_of(member).is_none()))
    }

    /// Those of these ranks, in this order.
    pub fn including(&self, ranks: &[i32]) -> Result<Self> {
        let mut members = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            members.push(self.member(rank)?);
        }
        check_distinct(&members)?;
        Ok(self.derived(members))
    }

    /// Those of all other ranks.
    pub fn excluding(&self, ranks: &[i32]) -> Result<Self> {
        let without = self.including(ranks)?;
        Ok(self.difference(&without))
    }

    /// The ranks that ranges of a first, a last and a step mean.
    pub fn ranks_of_ranges(&self, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for &[first, last, step] in ranges {
            if step == 0 {
                return Err(Error::new(abi::ERR_ARG, "a range has the step 0"));
            }
            let (first, last, step) = (i64::from(first), i64::from(last), i64::from(step));
            let mut rank = first;
            while (step > 0 && rank <= last) || (step < 0 && rank >= last) {
                // Checked here, as a range may be endless otherwise.
                let rank_here = i32::try_from(rank).unwrap_or(-1);
                self.member(rank_here)?;
                ranks.push(rank_here);
                rank += step;
            }
        }
        Ok(ranks)
    }

    /// What ranks of this group are in another.
    pub fn translate(&self, ranks: &[i32], other: &Self) -> Result<Vec<i32>> {
        let translate = |rank: &i32| {
            if *rank == abi::PROC_NULL {
                return Ok(abi::PROC_NULL);
            }
            let there = other.rank_of(self.member(*rank)?);
            Ok(there.map_or(abi::UNDEFINED, |rank| rank as i32))
        };
        ranks.iter().map(translate).collect()
    }
}

fn check_distinct(members: &[u32]) -> Result<()> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(Error::new(abi::ERR_RANK, "a rank is named twice")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_made_as_the_standard_says() {
        let world = Group::new((0..6).collect());
        let even = world.including(&[4, 2, 0]).expect("ranks of the world");
        let low = world.including(&[0, 1, 2]).expect("ranks of the world");
        assert_eq!(even.union(&low).members(), [4, 2, 0, 1]);
        assert_eq!(even.intersection(&low).members(), [2, 0]);
        assert_eq!(even.difference(&low).members(), [4]);
        assert_eq!(
            world.excluding(&[0, 5]).expect("ranks").members(),
            [1, 2, 3, 4]
        );
        assert_eq!(even.rank_of(4), Some(0));
        assert_eq!(even.rank_of(1), None);
        let back = even
            .translate(&[0, 1, abi::PROC_NULL], &low)
            .expect("ranks");
        assert_eq!(back, [abi::UNDEFINED, 2, abi::PROC_NULL]);
        let other = world.including(&[0, 2, 4]).expect("ranks of the world");
        assert_eq!(even.compare(&other), abi::SIMILAR);
        assert_eq!(even.compare(&low), abi::UNEQUAL);
        assert!(world.including(&[1, 1]).is_err());
        assert!(world.including(&[6]).is_err());
        let ranges = [[4, 0, -2], [1, 1, 5]];
        assert_eq!(world.ranks_of_ranges(&ranges).expect("ranks"), [4, 2, 0, 1]);
        assert!(world.ranks_of_ranges(&[[0, i32::MAX, 1]]).is_err());
        assert!(world.ranks_of_ranges(&[[0, 1, 0]]).is_err());
    }
}
