//! Random datatypes, nested in each other.

use causeway_mpi::datatype::{Basic, Datatype, Distribution, Elements, Order, Piece, Width};
use causeway_sys::blocks::{Source, Target};
use causeway_sys::memory::Memory;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::{Map, Plan};

/// Data of more entries are not tried: the model is slow.
const MOST_ENTRIES: usize = 600;

fn basics() -> impl Strategy<Value = Basic> {
    prop::sample::select(vec![
        Basic::Byte,
        Basic::Char,
        Basic::Short,
        Basic::Int,
        Basic::Double,
        Basic::LongDouble,
        Basic::CDoubleComplex,
        Basic::ShortInt,
        Basic::DoubleInt,
        Basic::LongDoubleInt,
    ])
}

fn orders() -> impl Strategy<Value = Order> {
    prop::sample::select(vec![Order::C, Order::Fortran])
}

fn subarrays() -> impl Strategy<Value = Vec<(i64, i64, i64)>> {
    let dimension = (1..6_i64).prop_flat_map(|size| {
        (1..=size).prop_flat_map(move |subsize| {
            (0..=size - subsize).prop_map(move |start| (size, subsize, start))
        })
    });
    vec(dimension, 1..4)
}

fn darrays() -> impl Strategy<Value = Vec<(i64, Distribution, Option<i32>, i32)>> {
    let dimension = (1..8_i64, 0..3, prop::option::of(1..4), 1..4).prop_map(
        |(size, distribution, argument, processes)| match distribution {
            0 => (size, Distribution::None, argument, 1),
            1 => {
                // Blocks must cover the array.
                let covers = |block: &i32| i64::from(block * processes) >= size;
                (
                    size,
                    Distribution::Block,
                    argument.filter(covers),
                    processes,
                )
            }
            _ => (size, Distribution::Cyclic, argument, processes),
        },
    );
    vec(dimension, 1..4)
}

fn plans() -> impl Strategy<Value = Plan> {
    let leaf = basics().prop_map(Plan::Named);
    leaf.prop_recursive(4, 20, 3, |inner| {
        let of = inner.clone().prop_map(Box::new);
        let blocks = || vec((0..4_i64, -6..7_i64), 0..5);
        let byte_blocks = || vec((0..4_i64, -40..41_i64), 0..5);
        prop_oneof![
            (0..5_i64, of.clone()).prop_map(|(n, of)| Plan::Contiguous(n, of)),
            (0..4_i64, 0..4_i64, -5..6_i64, of.clone())
                .prop_map(|(n, len, stride, of)| Plan::Vector(n, len, stride, of)),
            (0..4_i64, 0..4_i64, -50..51_i64, of.clone())
                .prop_map(|(n, len, stride, of)| Plan::Hvector(n, len, stride, of)),
            (blocks(), of.clone()).prop_map(|(blocks, of)| Plan::Indexed(blocks, of)),
            (byte_blocks(), of.clone()).prop_map(|(blocks, of)| Plan::Hindexed(blocks, of)),
            (0..4_i64, vec(-6..7_i64, 0..5), of.clone())
                .prop_map(|(len, at, of)| Plan::IndexedBlock(len, at, of)),
            (0..4_i64, vec(-40..41_i64, 0..5), of.clone())
                .prop_map(|(len, at, of)| Plan::HindexedBlock(len, at, of)),
            vec((0..3_i64, -30..31_i64, inner), 0..4).prop_map(Plan::Struct),
            (-20..21_i64, -40..41_i64, of.clone())
                .prop_map(|(lower, extent, of)| Plan::Resized(lower, extent, of)),
            (subarrays(), orders(), of.clone())
                .prop_map(|(dimensions, order, of)| Plan::Subarray(dimensions, order, of)),
            (darrays(), 0..27, orders(), of.clone()).prop_map(|(dimensions, rank, order, of)| {
                Plan::Darray(dimensions, rank, order, of)
            }),
            of.prop_map(Plan::Dup),
        ]
    })
}

/// A plan whose type map is short enough.
pub(crate) fn short_plans() -> impl Strategy<Value = (Plan, Map)> {
    plans()
        .prop_map(|plan| {
            let map = plan.map();
            (plan, map)
        })
        .prop_filter("a short type map", |(_, map)| {
            map.entries.len() <= MOST_ENTRIES
        })
}

/// Memory of elements: no byte equals its neighbours.
fn filled(elements: &Elements) -> Vec<u8> {
    let hull = elements.hull();
    (0..hull.end - hull.start)
        .map(|n| (n * 37 + n / 256 * 11 + 1) as u8)
        .collect()
}

fn packed(elements: &Elements, memory: &[u8], position: u64, room: usize) -> Vec<u8> {
    let mut stream = vec![0xee; room];
    let mut target = Target::from(&mut stream[..]);
    let count = elements.pack(position, Source::from(memory), &mut target);
    stream.truncate(count.expect("the memory is large enough") as usize);
    stream
}

fn offsets_of(pieces: &[Piece]) -> Vec<i64> {
    let bytes = |piece: Piece| (0..piece.len as i64).map(move |n| n + piece.offset);
    pieces.iter().copied().flat_map(bytes).collect()
}

fn are_maximal(pieces: &[Piece]) -> bool {
    let mut pairs = pieces.windows(2);
    pairs.all(|pair| pair[0].offset + pair[0].len as i64 != pair[1].offset)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn sizes_and_bounds_are_those_of_the_type_map((plan, map) in short_plans()) {
        let datatype = plan.build(Width::Int).expect("a small datatype");
        prop_assert_eq!(datatype.size(), map.size());
        let bounds = (datatype.lower_bound(), datatype.upper_bound());
        prop_assert_eq!(bounds, map.bounds());
        let (from, to) = map.data();
        let data = (datatype.true_lower_bound(), datatype.true_extent());
        prop_assert_eq!(data, (from, to - from));
        prop_assert_eq!(datatype.signature().elements(), map.entries.len() as u64);
        prop_assert_eq!(datatype.contents().combiner, plan.combiner());
        let is_basic = matches!(plan, Plan::Named(_));
        prop_assert_eq!(datatype.is_committed(), datatype.basic().is_some() || plan.is_dup_of_named());
        prop_assert_eq!(datatype.basic().is_some(), is_basic);
    }

    #[test]
    fn pieces_are_the_bytes_of_the_type_map_in_order(
        (plan, map) in short_plans(),
        count in 0..4_u64,
    ) {
        let elements = Elements::new(plan.build(Width::Int).expect("small"), count).expect("small");
        let bytes = map.times(count).bytes();
        prop_assert_eq!(elements.bytes(), bytes.len() as u64);
        let cursor = || elements.cursor(0);
        let mut all = cursor();
        let pieces: Vec<_> = std::iter::from_fn(|| all.next_piece(u64::MAX)).collect();
        prop_assert_eq!(offsets_of(&pieces), &bytes[..]);
        prop_assert!(are_maximal(&pieces));
        let is_one = pieces.len() <= 1;
        prop_assert_eq!(elements.is_contiguous(), is_one);
        let hull = elements.hull();
        prop_assert!(bytes.iter().all(|at| hull.contains(at)));
        let ends = (bytes.iter().min().copied(), bytes.iter().max().map(|at| at + 1));
        if let (Some(from), Some(to)) = ends {
            prop_assert_eq!(hull, from..to);
        }
        if elements.datatype().is_contiguous() {
            prop_assert!(bytes.iter().enumerate().all(|(n, at)| n as i64 == *at));
        }
    }

    #[test]
    fn a_cursor_resumes_at_every_byte((plan, map) in short_plans(), limit in 1..20_u64) {
        let elements = Elements::new(plan.build(Width::Count).expect("small"), 2).expect("small");
        let bytes = map.times(2).bytes();
        for from in 0..=bytes.len() {
            let mut cursor = elements.cursor(from as u64);
            let mut found = Vec::new();
            while let Some(piece) = cursor.next_piece(limit) {
                prop_assert!(piece.len <= limit);
                found.push(piece);
                prop_assert_eq!(cursor.position(), (from + offsets_of(&found).len()) as u64);
                if found.len() == 40 {
                    break;
                }
            }
            let found = offsets_of(&found);
            prop_assert_eq!(&found[..], &bytes[from..from + found.len()]);
            prop_assert!(found.len() >= 40.min(bytes.len() - from));
        }
    }

    #[test]
    fn packed_bytes_are_those_of_the_type_map(
        (plan, map) in short_plans(),
        count in 0..40_u64,
        step in 1..200_usize,
    ) {
        let elements = Elements::new(plan.build(Width::Int).expect("small"), count).expect("small");
        let memory = filled(&elements);
        let hull = elements.hull();
        let places: Vec<_> = map.times(count).bytes();
        let places: Vec<_> = places.iter().map(|at| (at - hull.start) as usize).collect();
        let expected: Vec<_> = places.iter().map(|at| memory[*at]).collect();
        prop_assert_eq!(&packed(&elements, &memory, 0, expected.len() + 9), &expected);
        // In steps, each where the one before ended.
        let mut at = 0;
        while at < expected.len().min(30 * step) {
            let part = packed(&elements, &memory, at as u64, step);
            let end = (at + step).min(expected.len());
            prop_assert_eq!(&part[..], &expected[at..end]);
            at = end;
        }
        // And back, which writes bytes of data only.
        let mut back = vec![0; memory.len()];
        let half = expected.len() / 3;
        for (position, part) in [(0, &expected[..half]), (half as u64, &expected[half..])] {
            let mut target = Target::from(&mut back[..]);
            let count = elements.unpack(position, Source::from(part), &mut target);
            prop_assert_eq!(count, Ok(part.len() as u64));
        }
        let mut model = vec![0; memory.len()];
        for (place, byte) in places.iter().zip(&expected) {
            model[*place] = *byte;
        }
        prop_assert_eq!(back, model);
    }

    /// Where elements of the target overlap, which the standard forbids, each byte may be that of any of these elements.
    #[test]
    fn copied_bytes_are_packed_and_unpacked(
        (from, _) in short_plans(),
        (to, map) in short_plans(),
        counts in prop::sample::select(vec![(1, 1), (3, 2), (0, 3), (300, 400)]),
    ) {
        let make = |plan: Plan, count| {
            Elements::new(plan.build(Width::Int).expect("small"), count).expect("small")
        };
        let (from, to) = (make(from, counts.0), make(to, counts.1));
        let mut memory = filled(&from);
        memory.extend([9; 5]);
        let hull = to.hull();
        let mut copied = vec![0; (hull.end - hull.start) as usize + 5];
        let mut expected = copied.clone();
        let stream = packed(&from, &memory, 0, from.bytes() as usize);
        let mut target = Target::from(&mut expected[..]);
        let bytes = to.unpack(0, Source::from(&stream[..]), &mut target);
        let mut target = Target::from(&mut copied[..]);
        prop_assert_eq!(from.copy_to(Source::from(&memory[..]), &to, &mut target), bytes);
        let mut times_written = vec![0_u32; copied.len()];
        for at in map.times(counts.1).bytes() {
            times_written[(at - hull.start) as usize] += 1;
        }
        for (at, times) in times_written.iter().enumerate() {
            let is_right = *times > 1 || copied[at] == expected[at];
            prop_assert!(is_right, "{} instead of {} at {at}", copied[at], expected[at]);
        }
    }

    #[test]
    fn fragments_are_the_packed_bytes((plan, _) in short_plans(), from in 0..100_u64, most in 1..9_usize) {
        let elements = Elements::new(plan.build(Width::Int).expect("small"), 3).expect("small");
        let bytes = filled(&elements);
        let memory = Memory::from_vec(bytes.clone());
        let (mut fragments, mut position) = (Vec::new(), from);
        loop {
            let before = fragments.len();
            let count = elements.fragments(position, &memory, most, &mut fragments);
            let count = count.expect("the memory is large enough");
            prop_assert!(fragments.len() - before <= most);
            position += count;
            if count == 0 {
                break;
            }
        }
        let found: Vec<_> = fragments.iter().flat_map(Memory::to_vec).collect();
        prop_assert_eq!(found, packed(&elements, &bytes, from, 1 << 20));
    }

    #[test]
    fn elements_are_counted_as_in_the_type_map((plan, map) in short_plans()) {
        let datatype = plan.build(Width::Int).expect("small");
        let twice = map.times(2);
        let mut ends = vec![0];
        for (_, of) in &twice.entries {
            ends.push(ends[ends.len() - 1] + of.size() as u64);
        }
        for bytes in 0..=ends[ends.len() - 1] {
            let expected = ends.iter().position(|end| *end == bytes).map(|n| n as u64);
            prop_assert_eq!(datatype.elements_in(bytes), expected);
            if let Some(elements) = expected {
                prop_assert_eq!(datatype.bytes_of_elements(elements), Some(bytes));
            }
            let whole = (0..=2).find(|count| count * map.size() == bytes);
            prop_assert_eq!(datatype.count_in(bytes), whole);
        }
    }

    #[test]
    fn signatures_are_equal_if_the_type_maps_are(a in short_plans(), b in short_plans()) {
        let scalars = |map: &Map| -> Vec<_> {
            map.entries.iter().map(|(_, of)| of.form()).collect()
        };
        let (one, other) = (scalars(&a.1), scalars(&b.1));
        let [first, second] = [&a.0, &b.0].map(|plan| plan.build(Width::Int).expect("small"));
        let (first, second) = (first.signature(), second.signature());
        let are_equal = (first.elements(), first.hash()) == (second.elements(), second.hash());
        prop_assert_eq!(are_equal, one == other);
        // A structure of single elements has the same signature.
        let basics: Vec<Datatype> = a.1.entries.iter().map(|(_, of)| (*of).into()).collect();
        let ones = vec![1; basics.len()];
        let at: Vec<_> = a.1.entries.iter().map(|(at, _)| *at).collect();
        let flat = Datatype::structure(&ones, &at, &basics, Width::Int).expect("small");
        prop_assert_eq!(flat.signature().hash(), first.hash());
        for len in 0..=basics.len() {
            let part = Datatype::structure(&ones[..len], &at[..len], &basics[..len], Width::Int);
            let hash = part.expect("small").signature().hash();
            prop_assert_eq!(first.hash_of_first(len as u64), Some(hash));
        }
        prop_assert_eq!(first.hash_of_first(basics.len() as u64 + 1), None);
    }
}

impl Plan {
    /// Whether it counts as committed without a commit.
    fn is_dup_of_named(&self) -> bool {
        match self {
            Self::Named(_) => true,
            Self::Dup(of) => of.is_dup_of_named(),
            _ => false,
        }
    }
}
