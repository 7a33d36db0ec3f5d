//! Random operations against a small model of a POSIX name space, on every engine.

use std::sync::Arc;

use causeway_fs::meta::store::fjall::Fjall;
use causeway_fs::meta::store::memory::Memory;
use causeway_fs::meta::store::{Store, StoreError};
use causeway_fs::meta::{Service, Settings};
use causeway_wire::fs::{Errno, Operation, ReplyBody, Request};
use proptest::prelude::*;

mod meta_support;
mod posix_model;
#[path = "../examples/store_rates/redb.rs"]
mod redb;

use meta_support::{dump, findings, place, request, time};
use posix_model::{Model, Step, split};

/// Few names, so that operations meet.
fn path() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        5 => Just("a"), 5 => Just("b"), 3 => Just("c"), 1 => Just("."), 1 => Just(".."),
    ];
    let parts = prop::collection::vec(component, 0..4);
    (parts, prop::bool::weighted(0.1), any::<bool>()).prop_map(|(parts, slash, rooted)| {
        let start = if rooted || parts.is_empty() { "/" } else { "" };
        let end = if slash && !parts.is_empty() { "/" } else { "" };
        format!("{start}{}{end}", parts.join("/"))
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => path().prop_map(Step::Create),
        4 => path().prop_map(Step::MakeDirectory),
        1 => (path(), path()).prop_map(|(path, target)| Step::SymbolicLink(path, target)),
        2 => (path(), path()).prop_map(|(from, to)| Step::Link(from, to)),
        1 => path().prop_map(Step::Unlink),
        1 => path().prop_map(Step::RemoveDirectory),
        4 => (path(), path(), prop::bool::weighted(0.2))
            .prop_map(|(from, to, no_replace)| Step::Rename(from, to, no_replace)),
        2 => (path(), path()).prop_map(|(first, second)| Step::Exchange(first, second)),
    ]
}

/// The request of a step. A link names an object by its number, so the object is looked up before.
fn operation(service: &mut Service, step: &Step) -> Result<Operation, Errno> {
    Ok(match step {
        Step::Create(path) => Operation::Create {
            place: place(path),
            exclusive: true,
            mode: 0o644,
            distribution: None,
            content: path.as_bytes().to_vec(),
        },
        Step::MakeDirectory(path) => Operation::MakeDirectory {
            place: place(path),
            mode: 0o755,
            distribution: None,
        },
        Step::SymbolicLink(path, target) => Operation::SymbolicLink {
            place: place(path),
            target: target.as_bytes().to_vec(),
        },
        Step::Link(from, to) => {
            if from.ends_with('/') || matches!(split(from).last(), None | Some(&"." | &"..")) {
                return Err(Errno::EINVAL);
            }
            let lookup = Operation::Lookup {
                place: place(from),
                follow: false,
                content: false,
            };
            match service.apply(&[request(lookup)], time(0)).remove(0).result {
                Ok(ReplyBody::Node(node)) => Operation::HardLink {
                    object: node.object,
                    place: place(to),
                },
                Ok(other) => panic!("no node: {other:?}"),
                Err(failure) => return Err(failure.errno),
            }
        }
        Step::Unlink(path) => Operation::Unlink {
            place: place(path),
            expected: None,
        },
        Step::RemoveDirectory(path) => Operation::RemoveDirectory {
            place: place(path),
            expected: None,
        },
        Step::Exchange(first, second) => Operation::Exchange {
            first: place(first),
            second: place(second),
        },
        Step::Rename(from, to, no_replace) => Operation::Rename {
            from: place(from),
            to: place(to),
            no_replace: *no_replace,
        },
    })
}

type Open = Box<dyn Fn() -> Result<Arc<dyn Store>, StoreError> + Send>;

fn agrees(open: Open, batches: &[Vec<Step>]) -> Result<(), TestCaseError> {
    let mut service = Service::with_opener(open, Settings::default()).expect("opens");
    let (mut model, mut now) = (Model::new(), 0);
    for steps in batches {
        now += 1;
        // Steps that need a lookup go with the state before their batch: they are sent alone.
        let batched = !steps.iter().any(|step| matches!(step, Step::Link(..)));
        let mut requests: Vec<Request> = Vec::new();
        let mut results = Vec::new();
        for step in steps {
            match operation(&mut service, step) {
                Err(_) if !batched => {
                    let expected = model.apply(step, now);
                    prop_assert!(expected.is_err(), "{step:?}");
                }
                Err(errno) => panic!("only links are looked up: {errno}"),
                Ok(operation) if batched => requests.push(request(operation)),
                Ok(operation) => {
                    let reply = service.apply(&[request(operation)], time(now)).remove(0);
                    let result = reply.result.map(drop).map_err(|failure| failure.errno);
                    prop_assert_eq!(result, model.apply(step, now), "{:?}", step);
                }
            }
        }
        results.extend(service.apply(&requests, time(now)));
        for (step, reply) in steps.iter().zip(results) {
            let result = reply.result.map(drop).map_err(|failure| failure.errno);
            prop_assert_eq!(result, model.apply(step, now), "{:?} in {:?}", step, steps);
        }
    }
    prop_assert_eq!(dump(&service), model.dump());
    prop_assert_eq!(findings(&service), Vec::<String>::new());
    Ok(())
}

fn batches() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 1..6), 1..40)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        max_shrink_iters: 2000,
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn in_memory(batches in batches()) {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        agrees(Box::new(move || Ok(store.clone())), &batches)?;
    }
}

proptest! {
    #![proptest_config(cases(10))]

    #[test]
    fn on_fjall(batches in batches()) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().to_owned();
        agrees(Box::new(move || Ok(Arc::new(Fjall::open(&path)?) as _)), &batches)?;
    }

    #[test]
    fn on_redb(batches in batches()) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().to_owned();
        agrees(Box::new(move || Ok(Arc::new(redb::Redb::open(&path)?) as _)), &batches)?;
    }
}
