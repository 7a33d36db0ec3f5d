//! Random interleavings against a reference: per (sender, receiver, tag) the n-th message that is
//! not cancelled meets the n-th receive, every operation completes exactly once, contents are right.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Send {
        from: usize,
        to: usize,
        tag: u64,
        size: usize,
        pieces: usize,
    },
    Receive {
        at: usize,
        from: usize,
        tag: u64,
    },
    Unexpected {
        from: usize,
        to: usize,
        size: usize,
    },
    Poll {
        at: usize,
    },
    Take {
        at: usize,
    },
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0usize..64,
        2 => 1000usize..9000,
        1 => 10_000usize..70_000,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let other = (0usize..3, 1usize..3).prop_map(|(a, d)| (a, (a + d) % 3));
    prop_oneof![
        3 => (other.clone(), 0u64..3, size(), 1usize..4).prop_map(
            |((from, to), tag, size, pieces)| Step::Send { from, to, tag, size, pieces }
        ),
        3 => (other.clone(), 0u64..3).prop_map(|((at, from), tag)| Step::Receive { at, from, tag }),
        1 => (other, 0usize..60_000).prop_map(|((from, to), size)| {
            Step::Unexpected { from, to, size }
        }),
        4 => (0usize..3).prop_map(|at| Step::Poll { at }),
        1 => (0usize..3).prop_map(|at| Step::Take { at }),
    ]
}

const ROOM: usize = 70_000;

/// What was posted, to be compared at the end.
#[derive(Default)]
struct Model {
    /// Seeds and sizes of the messages of one (from, to, tag), in order.
    sent: HashMap<(usize, usize, u64), Vec<(usize, usize)>>,
    /// Memory and number of the receives, in order.
    received: HashMap<(usize, usize, u64), Vec<(Memory, u64)>>,
    /// Seeds and sizes of unexpected messages of one (from, to).
    unexpected: HashMap<(usize, usize), Vec<(usize, usize)>>,
    posts: u64,
}

/// The three processes know each other by the addresses that messages between them use: the
/// lower-numbered one called the higher-numbered one.
fn trio(case: u64, config: &Config, options: Options) -> (Vec<Node>, Vec<Vec<Addr>>) {
    let names: Vec<_> = (0..3).map(|n| format!("model-{case}-{n}")).collect();
    let mut nodes: Vec<_> = names
        .iter()
        .map(|name| node_with(name, config.clone(), options))
        .collect();
    let mut addrs = vec![vec![Addr(0); 3]; 3];
    for low in 0..3 {
        for high in low + 1..3 {
            let (front, back) = nodes.split_at_mut(high);
            let (client, server) = (&mut front[low], &mut back[0]);
            let to = client
                .bmi
                .lookup(&format!("mem://{}", names[high]))
                .unwrap();
            addrs[low][high] = to;
            addrs[high][low] = meet(client, server, to);
        }
    }
    (nodes, addrs)
}

fn run(case: u64, steps: Vec<Step>, config: Config, options: Options, policy: RendezvousPolicy) {
    let (mut nodes, addrs) = trio(case, &config, options);
    for node in &mut nodes {
        let option = InfoOption::Rendezvous(policy);
        node.bmi.set_info(None, option).unwrap();
    }
    let mut model = Model::default();
    let post = |model: &mut Model| {
        model.posts += 1;
        model.posts
    };
    for (seed, step) in steps.into_iter().enumerate() {
        match step {
            Step::Send {
                from,
                to,
                tag,
                size,
                pieces,
            } => {
                let data = memory(seed, size);
                let cuts: Vec<_> = (0..=pieces).map(|n| size * n / pieces).collect();
                let parts: Vec<_> = cuts.windows(2).map(|w| data.slice(w[0]..w[1])).collect();
                let user = post(&mut model);
                nodes[from].send(addrs[from][to], &parts, tag, user);
                model
                    .sent
                    .entry((from, to, tag))
                    .or_default()
                    .push((seed, size));
            }
            Step::Receive { at, from, tag } => {
                receive(&mut nodes, &addrs, &mut model, at, from, tag)
            }
            Step::Unexpected { from, to, size } => {
                let user = post(&mut model);
                nodes[from].send_unexpected(addrs[from][to], &memory(seed, size), 0, user);
                model
                    .unexpected
                    .entry((from, to))
                    .or_default()
                    .push((seed, size));
            }
            Step::Poll { at } => nodes[at].step(),
            Step::Take { at } => nodes[at].collect_unexpected(),
        }
    }
    settle(&mut nodes, &addrs, &mut model);
    compare(&nodes, &addrs, &model);
}

fn receive(
    nodes: &mut [Node],
    addrs: &[Vec<Addr>],
    model: &mut Model,
    at: usize,
    from: usize,
    tag: u64,
) {
    let into = Memory::zeroed(ROOM);
    model.posts += 1;
    let parts = [into.slice(0..10), into.slice(10..ROOM)];
    nodes[at].recv(addrs[at][from], &parts, tag, model.posts);
    let list = model.received.entry((from, at, tag)).or_default();
    list.push((into, model.posts));
}

/// Evens out sends and receives, then runs until all have completed.
fn settle(nodes: &mut [Node], addrs: &[Vec<Addr>], model: &mut Model) {
    for from in 0..3 {
        for to in 0..3 {
            for tag in 0..3 {
                let key = (from, to, tag);
                let sent = model.sent.get(&key).map_or(0, Vec::len);
                let received = model.received.get(&key).map_or(0, Vec::len);
                for _ in received..sent {
                    receive(nodes, addrs, model, to, from, tag);
                }
                for _ in sent..received {
                    model.posts += 1;
                    let seed = model.posts as usize;
                    nodes[from].send(addrs[from][to], &[memory(seed, 77)], tag, model.posts);
                    model.sent.entry(key).or_default().push((seed, 77));
                }
            }
        }
    }
    let unexpected: usize = model.unexpected.values().map(Vec::len).sum();
    let posts = model.posts as usize;
    let mut all: Vec<_> = nodes.iter_mut().collect();
    drive(&mut all, |nodes| {
        nodes.iter_mut().for_each(|node| node.collect_unexpected());
        nodes.iter().map(|node| node.done.len()).sum::<usize>() == posts
            && nodes
                .iter()
                .map(|node| node.unexpected.len())
                .sum::<usize>()
                == unexpected
    });
    idle(&mut all);
}

fn compare(nodes: &[Node], addrs: &[Vec<Addr>], model: &Model) {
    let done: usize = nodes.iter().map(|node| node.done.len()).sum();
    assert_eq!(done as u64, model.posts, "each operation completes once");
    for (key, sent) in &model.sent {
        let (_, to, _) = *key;
        for ((seed, size), (into, user)) in sent.iter().zip(&model.received[key]) {
            assert_eq!(nodes[to].result(*user), Some(&Ok(*size as u64)), "{key:?}");
            assert_eq!(into.to_vec()[..*size], bytes(*seed, *size), "{key:?}");
            assert_eq!(into.sharers(), 1);
        }
    }
    for (&(from, to), sent) in &model.unexpected {
        let from = addrs[to][from];
        let got = nodes[to].unexpected.iter().filter(|m| m.from == from);
        let got: Vec<_> = got.map(|message| message.data.clone()).collect();
        let want: Vec<_> = sent.iter().map(|&(seed, size)| bytes(seed, size)).collect();
        assert!(got == want, "unexpected messages of {from:?}");
    }
    for node in nodes {
        let info = node.bmi.get_info(None);
        let left = (
            info.operations,
            info.transfers,
            info.early_bytes,
            info.unexpected_waiting,
        );
        assert_eq!(left, (0, 0, 0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_reference(
        steps in prop::collection::vec(step(), 1..150),
        case in any::<u64>(),
        small in any::<bool>(),
        policy in prop_oneof![
            Just(RendezvousPolicy::Adaptive),
            Just(RendezvousPolicy::Pull),
            Just(RendezvousPolicy::Push),
        ],
    ) {
        let config = Config {
            early_memory: if small { 20_000 } else { 1 << 20 },
            ..Config::default()
        };
        let options = if small {
            Options { queue_packets: 3, max_packet: 4352, max_piece: 5000, ..Options::default() }
        } else {
            Options::default()
        };
        run(case, steps, config, options, policy);
    }
}
