//! Collective operations as the messages that they consist of: those of the usual algorithms, without the cost of combining operands.

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Dissemination: in round k each process sends to the one 2ᵏ ranks after it.
    Barrier,
    /// A binomial tree from the root.
    Broadcast,
    /// A binomial tree to the root.
    Reduce,
    /// Recursive doubling; processes beyond a power of two combine with a neighbour first, and get the result at the end.
    AllReduce,
    /// Each process sends its block to the root.
    Gather,
    /// The root sends each process its block.
    Scatter,
    /// A ring: each process passes on the block that it received last.
    AllGather,
    /// Each process sends a block to each other one, the k-th to the one k ranks after it, and then receives theirs.
    AllToAll,
    /// Each process receives the combined operands of those before it, and passes them on with its own.
    Scan,
}

impl Collective {
    /// All of them, with their names in traces.
    pub const NAMES: [(&'static str, Self); 9] = [
        ("barrier", Self::Barrier),
        ("bcast", Self::Broadcast),
        ("reduce", Self::Reduce),
        ("allreduce", Self::AllReduce),
        ("gather", Self::Gather),
        ("scatter", Self::Scatter),
        ("allgather", Self::AllGather),
        ("alltoall", Self::AllToAll),
        ("scan", Self::Scan),
    ];

    /// The name in traces.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(name, _)| name)
    }

    /// Whether one process has a role of its own.
    pub fn has_root(self) -> bool {
        matches!(
            self,
            Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter
        )
    }
}

/// A message of a process's share in an operation, with the rank of the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Send(u32),
    Receive(u32),
}

/// The messages of the process with this rank, among this many and with this root.
pub(super) fn steps(kind: Collective, rank: u32, count: u32, root: u32) -> Vec<Step> {
    let after = |by: u32| (rank + by) % count;
    let before = |by: u32| (rank + count - by % count) % count;
    match kind {
        Collective::Barrier => (0..u32::BITS)
            .map(|round| 1 << round)
            .take_while(|far| *far < count)
            .flat_map(|far| [Step::Send(after(far)), Step::Receive(before(far))])
            .collect(),
        Collective::Broadcast => tree(rank, count, root),
        Collective::Reduce => {
            let turned = tree(rank, count, root).into_iter().rev();
            let turned = turned.map(|step| match step {
                Step::Send(to) => Step::Receive(to),
                Step::Receive(from) => Step::Send(from),
            });
            turned.collect()
        }
        Collective::AllReduce => doubling(rank, count),
        Collective::Gather if rank == root => others(rank, count).map(Step::Receive).collect(),
        Collective::Gather => vec![Step::Send(root)],
        Collective::Scatter if rank == root => others(rank, count).map(Step::Send).collect(),
        Collective::Scatter => vec![Step::Receive(root)],
        Collective::AllGather => (1..count)
            .flat_map(|_| [Step::Send(after(1)), Step::Receive(before(1))])
            .collect(),
        Collective::AllToAll => {
            let to = (1..count).map(|far| Step::Send(after(far)));
            let from = (1..count).map(|far| Step::Receive(before(far)));
            to.chain(from).collect()
        }
        Collective::Scan => {
            let from = (rank > 0).then(|| Step::Receive(rank - 1));
            let to = (rank + 1 < count).then(|| Step::Send(rank + 1));
            from.into_iter().chain(to).collect()
        }
    }
}

fn others(rank: u32, count: u32) -> impl Iterator<Item = u32> {
    (0..count).filter(move |other| *other != rank)
}

/// A binomial tree: the parent of the process, and its children.
fn tree(rank: u32, count: u32, root: u32) -> Vec<Step> {
    let own = (rank + count - root) % count;
    let real = |place: u32| (place + root) % count;
    let lowest = match own {
        0 => count.next_power_of_two(),
        _ => own & own.wrapping_neg(),
    };
    let from = (own > 0).then(|| Step::Receive(real(own - lowest)));
    let halves = std::iter::successors(Some(lowest >> 1), |far| Some(far >> 1));
    let to = halves
        .take_while(|far| *far > 0)
        .filter(|far| own + far < count)
        .map(|far| Step::Send(real(own + far)));
    from.into_iter().chain(to).collect()
}

fn doubling(rank: u32, count: u32) -> Vec<Step> {
    let whole = 1 << count.ilog2();
    // In the rounds, each of these first pairs counts as one process.
    let pairs = count - whole;
    if rank < 2 * pairs && rank.is_multiple_of(2) {
        return vec![Step::Send(rank + 1), Step::Receive(rank + 1)];
    }
    let is_paired = rank < 2 * pairs;
    let own = if is_paired { rank / 2 } else { rank - pairs };
    let real = |place: u32| match place < pairs {
        true => 2 * place + 1,
        false => place + pairs,
    };
    let rounds = (0..u32::BITS)
        .map(|round| 1 << round)
        .take_while(|far| *far < whole)
        .map(|far| real(own ^ far))
        .flat_map(|other| [Step::Send(other), Step::Receive(other)]);
    let first = is_paired.then(|| Step::Receive(rank - 1));
    let last = is_paired.then(|| Step::Send(rank - 1));
    first.into_iter().chain(rounds).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Runs an operation: what each process has heard of by the end, directly or by way of others, and how many messages it was.
    fn heard(kind: Collective, count: u32, root: u32) -> (Vec<BTreeSet<u32>>, usize) {
        let plans: Vec<_> = (0..count)
            .map(|rank| steps(kind, rank, count, root))
            .collect();
        let mut next = vec![0; count as usize];
        let mut known: Vec<_> = (0..count).map(|rank| BTreeSet::from([rank])).collect();
        let mut sent: Vec<(u32, u32, BTreeSet<u32>)> = Vec::new();
        let mut messages = 0;
        loop {
            let mut is_moving = false;
            for rank in 0..count {
                let index = rank as usize;
                match plans[index].get(next[index]) {
                    Some(Step::Send(to)) => {
                        sent.push((rank, *to, known[index].clone()));
                        messages += 1;
                    }
                    Some(Step::Receive(from)) => {
                        let found = sent
                            .iter()
                            .position(|(source, to, _)| (source, *to) == (from, rank));
                        let Some(place) = found else {
                            continue;
                        };
                        known[index].extend(sent.remove(place).2);
                    }
                    None => continue,
                }
                next[index] += 1;
                is_moving = true;
            }
            if !is_moving {
                break;
            }
        }
        assert!(sent.is_empty(), "{kind:?} {count} {root}: {sent:?}");
        for (rank, plan) in plans.iter().enumerate() {
            assert_eq!(next[rank], plan.len(), "{kind:?} {count}: {rank} waits");
        }
        (known, messages)
    }

    #[test]
    fn who_has_to_hears_of_all_that_it_needs_and_nobody_waits_forever() {
        for count in 1..20 {
            let all = BTreeSet::from_iter(0..count);
            for root in [0, count / 2, count - 1] {
                for (_, kind) in Collective::NAMES {
                    let (known, messages) = heard(kind, count, root);
                    let others = count as usize - 1;
                    for (rank, known) in (0..).zip(known) {
                        let needed = match kind {
                            Collective::Broadcast | Collective::Scatter => BTreeSet::from([root]),
                            Collective::Reduce | Collective::Gather if rank != root => {
                                BTreeSet::new()
                            }
                            Collective::Scan => BTreeSet::from_iter(0..=rank),
                            _ => all.clone(),
                        };
                        assert!(known.is_superset(&needed), "{kind:?} {count} {root} {rank}");
                    }
                    match kind {
                        Collective::AllGather | Collective::AllToAll => {
                            assert_eq!(messages, others * count as usize);
                        }
                        Collective::Barrier | Collective::AllReduce => {}
                        _ => assert_eq!(messages, others, "{kind:?} {count}"),
                    }
                }
            }
        }
    }

    #[test]
    fn a_power_of_two_needs_no_more_rounds_than_its_exponent() {
        let rounds = |kind, count| steps(kind, count - 1, count, 0).len() / 2;
        assert_eq!(rounds(Collective::Barrier, 8), 3);
        assert_eq!(rounds(Collective::Barrier, 9), 4);
        assert_eq!(rounds(Collective::AllReduce, 8), 3);
        assert_eq!(steps(Collective::Broadcast, 0, 8, 0).len(), 3);
    }
}
