//! Every decoder against seeded random and mutated inputs: the short form of `make fuzz`.

use std::collections::BTreeSet;

use causeway_testkit::decoders::{all, mutate};
use causeway_testkit::random::{Random, seed};
use causeway_wire::codec::{Malformed, Wire};
use causeway_wire::fs::{Operation, PointerStep, Regions, ReplyBody, WantedSums};
use causeway_wire::{agent, bmi, contact, fs, shm, store, tcp, window};

/// How many inputs each decoder gets.
const INPUTS: usize = 300_000;
/// Decoders with a whole state machine behind them take longer, and get fewer inputs by this
/// factor.
const SLOWER: &[(&str, usize)] = &[("firmware", 100)];

#[test]
fn well_formed_inputs_keep_the_promise() {
    for decoder in all() {
        let samples = (decoder.samples)();
        assert!(!samples.is_empty(), "{}", decoder.name);
        for sample in samples {
            (decoder.feed)(&sample);
        }
    }
}

/// The well-formed inputs of the decoder `name`, each decoded by `decode`, if it can be.
fn samples_of<T>(name: &str, decode: impl Fn(&[u8]) -> Option<T>) -> Vec<T> {
    let decoder = (all().iter().find(|decoder| decoder.name == name)).expect("a decoder's name");
    let samples = (decoder.samples)();
    samples.iter().filter_map(|sample| decode(sample)).collect()
}

/// Asserts that `values` have every variant of `T`, whose encodings begin with the variant's number.
#[track_caller]
fn has_every_variant<T: Wire>(values: impl IntoIterator<Item = T>) {
    let numbers = values.into_iter().map(|value| value.to_bytes()[0]);
    has_every_number(T::from_bytes, numbers);
}

/// Asserts that `numbers` have every number that `decode` knows as the first byte of its input.
#[track_caller]
fn has_every_number<T>(
    decode: impl Fn(&[u8]) -> Result<T, Malformed>,
    numbers: impl IntoIterator<Item = u8>,
) {
    let found: BTreeSet<u8> = numbers.into_iter().collect();
    let missing: Vec<u8> = (0..=u8::MAX)
        .filter(|number| !matches!(decode(&[*number]), Err(Malformed::Unknown { .. })))
        .filter(|number| !found.contains(number))
        .collect();
    let name = std::any::type_name::<T>();
    assert!(missing.is_empty(), "{name}: no sample of {missing:?}");
}

/// Chance alone does not find a variant with several fields.
#[test]
fn every_variant_has_a_well_formed_input() {
    let requests = samples_of("fs_request", |bytes| fs::Request::from_bytes(bytes).ok());
    let operations = || {
        requests
            .iter()
            .map(|(request, _)| request.operation.clone())
    };
    has_every_variant::<Operation>(operations());
    has_every_variant::<WantedSums>(operations().filter_map(|operation| match operation {
        Operation::Read { sums, .. } => Some(sums),
        _ => None,
    }));
    has_every_variant::<Regions>(operations().filter_map(|operation| match operation {
        Operation::Read { regions, .. } | Operation::Write { regions, .. } => Some(regions),
        _ => None,
    }));
    has_every_variant::<PointerStep>(operations().filter_map(|operation| match operation {
        Operation::MovePointer { step, .. } => Some(step),
        _ => None,
    }));
    let replies = samples_of("fs_reply", |bytes| fs::Reply::from_bytes(bytes).ok());
    has_every_variant::<ReplyBody>(
        replies
            .into_iter()
            .filter_map(|(reply, _)| reply.result.ok()),
    );
    has_every_variant(samples_of("agent", |bytes| {
        agent::Request::from_bytes(bytes).ok()
    }));
    has_every_variant(samples_of("agent", |bytes| {
        agent::Reply::from_bytes(bytes).ok()
    }));
    has_every_variant(samples_of("shm_record", |bytes| {
        shm::Record::from_bytes(bytes).ok()
    }));
    has_every_variant(samples_of("meeting", |bytes| {
        contact::LeaderMessage::from_bytes(bytes).ok()
    }));
    has_every_variant(samples_of("window_notice", |bytes| {
        window::Notice::from_bytes(bytes).ok()
    }));
    let first_bytes = |name| samples_of(name, |bytes| bytes.first().copied());
    has_every_number(store::Key::parse, first_bytes("store_key"));
    has_every_number(bmi::Kind::from_bytes, first_bytes("bmi_packet"));
    has_every_number(tcp::Kind::from_bytes, first_bytes("tcp_frames"));
}

#[test]
fn no_input_breaks_a_decoder() {
    let seed = seed(11);
    for decoder in all() {
        let mut random = Random::new(seed);
        let samples = (decoder.samples)();
        let slower = SLOWER.iter().find(|(name, _)| *name == decoder.name);
        for number in 0..INPUTS / slower.map_or(1, |(_, times)| *times) {
            let mut input = match random.below(10) {
                0 => {
                    let len = random.spread(12);
                    random.bytes(len)
                }
                _ => samples[random.below(samples.len())].clone(),
            };
            let cut = random.one_in(20);
            mutate(&mut input, &mut random);
            if cut {
                let other = &samples[random.below(samples.len())];
                input.extend(&other[random.below(other.len())..]);
            }
            let result = std::panic::catch_unwind(|| (decoder.feed)(&input));
            assert!(
                result.is_ok(),
                "{}: input {number} of seed {seed}: {:02x?}",
                decoder.name,
                &input[..input.len().min(4096)]
            );
        }
    }
}

/// A sample cut anywhere is refused or keeps the promise, byte by byte.
#[test]
fn truncated_inputs_are_refused() {
    for decoder in all() {
        for sample in (decoder.samples)() {
            for len in 0..sample.len() {
                (decoder.feed)(&sample[..len]);
            }
        }
    }
}
