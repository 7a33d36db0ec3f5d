//! Two clients that change the same few names at the same moments: every result, and what is there in the end, is that of one order of the
//! changes, by a model of a POSIX name space.

use std::sync::Barrier;

use causeway_fs::Error;
use causeway_fs::client::{Client, CreateOptions};
use causeway_wire::fs::Errno;
use causeway_wire::random::SplitMix64;

use crate::cluster::{Fixture, Shape};
use crate::posix_model::{Model, Step};

/// Pairs of acts of one test.
const PAIRS: usize = 400;
/// More orders than this stay possible only if results tell nothing.
const MOST_STATES: usize = 4096;

/// What one client does.
#[derive(Debug, Clone)]
enum Act {
    Change(Step),
    /// Looks at what a name stands for.
    Look(String),
}

/// A result: what a name stands for, as [`Model::dump`] has it without times, or nothing.
type Outcome = Result<Option<String>, Errno>;

fn path(random: &mut SplitMix64) -> String {
    let mut component = || ["a", "b", "c"][random.below(3) as usize];
    let (first, second) = (component(), component());
    match random.below(3) {
        0 => format!("/{first}"),
        _ => format!("/{first}/{second}"),
    }
}

fn act(random: &mut SplitMix64) -> Act {
    let one = path(random);
    Act::Change(match random.below(12) {
        0 | 1 => Step::Create(one),
        2..=4 => Step::MakeDirectory(one),
        5 => Step::Unlink(one),
        6 => Step::RemoveDirectory(one),
        7 | 8 => Step::Rename(one, path(random), random.below(4) == 0),
        9 => Step::Exchange(one, path(random)),
        _ => return Act::Look(one),
    })
}

fn done<T>(result: Result<T, Error>) -> Outcome {
    result.map(|_| None).map_err(|error| error.errno)
}

fn carry_out(client: &mut Client, act: &Act) -> Outcome {
    let step = match act {
        Act::Change(step) => step,
        Act::Look(path) => {
            return match client.stat(path.as_bytes(), false) {
                Ok(node) => {
                    let attributes = &node.attributes;
                    let (kind, links) = (attributes.kind, attributes.links);
                    Ok(Some(format!(
                        "{kind:?} links {links} size {}",
                        attributes.size
                    )))
                }
                Err(error) if matches!(error.errno, Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
                Err(error) => Err(error.errno),
            };
        }
    };
    match step {
        Step::Create(path) => {
            let options = CreateOptions {
                exclusive: true,
                content: path.as_bytes().to_vec(),
                ..CreateOptions::default()
            };
            done(client.create(path.as_bytes(), &options))
        }
        Step::MakeDirectory(path) => done(client.make_directory(path.as_bytes(), 0o755, None)),
        Step::Unlink(path) => done(client.unlink(path.as_bytes())),
        Step::RemoveDirectory(path) => done(client.remove_directory(path.as_bytes())),
        Step::Rename(from, to, no_replace) => {
            done(client.rename(from.as_bytes(), to.as_bytes(), *no_replace))
        }
        Step::Exchange(first, second) => done(client.exchange(first.as_bytes(), second.as_bytes())),
        Step::SymbolicLink(..) | Step::Link(..) => unreachable!("they are not drawn"),
    }
}

fn on_model(model: &mut Model, act: &Act) -> Outcome {
    match act {
        Act::Change(step) => model.apply(step, 0).map(|()| None),
        Act::Look(path) => Ok(model.dump().iter().find_map(|line| {
            let (described, _) = line
                .strip_prefix(&format!("{path} "))?
                .split_once(" modified")?;
            Some(described.to_owned())
        })),
    }
}

/// The states that either order of two acts with these results leads to.
fn after(states: &[Model], acts: &[Act; 2], outcomes: &[Outcome; 2]) -> Vec<Model> {
    let mut after: Vec<(Vec<String>, Model)> = Vec::new();
    for state in states {
        for order in [[0, 1], [1, 0]] {
            let mut model = state.clone();
            let agrees = order
                .into_iter()
                .all(|which| on_model(&mut model, &acts[which]) == outcomes[which]);
            let dump = model.dump();
            if agrees && after.iter().all(|(other, _)| *other != dump) {
                after.push((dump, model));
            }
        }
    }
    after.into_iter().map(|(_, model)| model).collect()
}

#[test]
fn what_two_clients_do_at_one_moment_is_done_in_one_order() {
    for (tcp, seed) in [(false, 1), (true, 2)] {
        let fixture = Fixture::start(&Shape {
            tcp,
            timeout_ms: 60_000,
            ..Shape::default()
        });
        let mut clients = [fixture.client(), fixture.client()];
        let mut random = SplitMix64::new(seed);
        let mut states = vec![Model::new()];
        let (mut done, mut refused) = (0, 0);
        for pair in 0..PAIRS {
            let acts = [act(&mut random), act(&mut random)];
            let barrier = Barrier::new(2);
            let outcomes = std::thread::scope(|scope| {
                let [one, other] = &mut clients;
                let go = |client, act| {
                    let barrier = &barrier;
                    move || {
                        barrier.wait();
                        carry_out(client, act)
                    }
                };
                let first = scope.spawn(go(one, &acts[0]));
                let second = go(other, &acts[1])();
                [first.join().unwrap(), second]
            });
            let next = after(&states, &acts, &outcomes);
            assert!(
                !next.is_empty() && next.len() <= MOST_STATES,
                "seed {seed}, pair {pair}: {acts:?} gave {outcomes:?}; {} states",
                next.len()
            );
            let succeeded = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            (done, refused) = (done + succeeded, refused + outcomes.len() - succeeded);
            states = next;
        }
        // Both kinds of results say something about the order.
        assert!(done.min(refused) >= PAIRS / 5, "{done}, {refused}");
        // Whatever is possible agrees with what is there.
        let names = ["/a", "/b", "/c"];
        for directory in names {
            for path in [directory.to_owned()]
                .into_iter()
                .chain(names.map(|name| format!("{directory}{name}")))
            {
                let act = Act::Look(path);
                let found = carry_out(&mut clients[0], &act);
                states.retain_mut(|state| on_model(state, &act) == found);
            }
        }
        assert!(!states.is_empty(), "seed {seed}");
        fixture.cluster.stop().unwrap();
    }
}
