//! Cases that random datatypes do not reach: huge counts, wrong arguments, long chains, envelopes.

use causeway_mpi::datatype::{
    Basic, Combiner, Datatype, Elements, Error, MOST_LEVELS, Order, Piece, Width,
};
use causeway_sys::blocks::{Source, Target};

fn int() -> Datatype {
    Basic::Int.into()
}

fn vector(count: i64, len: i64, stride: i64, old: &Datatype) -> Datatype {
    Datatype::vector(count, len, stride, old, Width::Count).expect("a vector")
}

fn hvector(count: i64, len: i64, stride: i64, old: &Datatype) -> Result<Datatype, Error> {
    Datatype::hvector(count, len, stride, old, Width::Count)
}

#[test]
fn huge_counts_cost_nothing() {
    const MANY: i64 = 1_000_000_000;
    let inner = vector(MANY, 3, 5, &int());
    assert_eq!(inner.size(), 12 * MANY as u64);
    assert_eq!(inner.extent(), 20 * (MANY - 1) + 12);
    assert_eq!(inner.pieces(), MANY as u64);
    let outer = vector(1000, 1, 2, &inner);
    let elements = Elements::new(outer.clone(), 7).expect("it fits");
    let mut cursor = elements.cursor(0);
    let piece = |offset, len| Some(Piece { offset, len });
    assert_eq!(cursor.next_piece(u64::MAX), piece(0, 12));
    assert_eq!(cursor.next_piece(5), piece(20, 5));
    // The third element's second vector's last piece's last byte, and the bytes behind it.
    let position = 2 * outer.size() + 2 * inner.size() - 1;
    let second = 2 * outer.extent() + 2 * inner.extent();
    cursor.seek(position);
    assert_eq!(
        cursor.next_piece(u64::MAX),
        piece(second + inner.extent() - 1, 1)
    );
    assert_eq!(
        cursor.next_piece(u64::MAX),
        piece(second + 2 * inner.extent(), 12)
    );
    let signature = outer.signature();
    assert_eq!(signature.elements(), 3000 * MANY as u64);
    let flat = Datatype::contiguous(3000 * MANY, &int(), Width::Count).expect("it fits");
    assert_eq!(flat.signature().hash(), signature.hash());
    let mixed = Datatype::structure(&[1, 1], &[0, 8], &[int(), Basic::Double.into()], Width::Int);
    let many = Datatype::contiguous(MANY, &mixed.expect("a structure"), Width::Count);
    let many = many.expect("it fits");
    assert_eq!(
        many.elements_in(12 * 777_777_777 + 4),
        Some(2 * 777_777_777 + 1)
    );
    assert_eq!(many.elements_in(12 * 777_777_777 + 5), None);
}

#[test]
fn counts_and_extents_that_do_not_fit_are_refused() {
    let large = Datatype::contiguous(i64::MAX / 4, &int(), Width::Count).expect("it fits");
    assert_eq!(Elements::new(large.clone(), 2).err(), Some(Error::TooLarge));
    let twice = Datatype::contiguous(2, &large, Width::Count);
    assert_eq!(twice.err(), Some(Error::TooLarge));
    assert_eq!(
        hvector(3, 1, i64::MAX / 2 + 1, &int()).err(),
        Some(Error::TooLarge)
    );
    assert_eq!(hvector(2, 1, i64::MAX, &int()).err(), Some(Error::TooLarge));
    assert!(hvector(1, 1, i64::MAX, &int()).is_ok());
    let far = Datatype::resized(&int(), i64::MAX, 1, Width::Count);
    assert_eq!(far.err(), Some(Error::TooLarge));
    let apart = [i64::MIN, i64::MAX - 8];
    let apart = Datatype::hindexed(&[1, 1], &apart, &int(), Width::Count);
    assert_eq!(apart.err(), Some(Error::TooLarge));
    let wide = Datatype::contiguous(1 << 40, &int(), Width::Int);
    assert_eq!(wide.err(), Some(Error::TooLarge), "not an int");
}

#[test]
fn wrong_arguments_are_named() {
    let negative = |what, value| Some(Error::Negative { what, value });
    let contiguous = Datatype::contiguous(-1, &int(), Width::Int);
    assert_eq!(contiguous.err(), negative("count", -1));
    let vector = Datatype::vector(2, -3, 1, &int(), Width::Int);
    assert_eq!(vector.err(), negative("blocklength", -3));
    let indexed = Datatype::indexed(&[1, -2], &[0, 0], &int(), Width::Int);
    assert_eq!(indexed.err(), negative("array_of_blocklengths", -2));
    let subarray = |sizes: &[i64], subsizes: &[i64], starts: &[i64]| {
        Datatype::subarray(sizes, subsizes, starts, Order::C, &int(), Width::Int).err()
    };
    assert!(subarray(&[4], &[5], &[0]).is_some());
    assert!(subarray(&[4], &[3], &[2]).is_some());
    assert!(subarray(&[4], &[0], &[2]).is_some());
    assert!(subarray(&[0], &[1], &[0]).is_some());
    assert!(subarray(&[], &[], &[]).is_some());
    assert_eq!(subarray(&[4], &[3], &[1]), None);
}

#[test]
fn levels_are_bounded_and_chains_are_not() {
    let mut deep = int();
    for _ in 0..MOST_LEVELS {
        let before = deep.clone();
        deep = hvector(2, 1, before.extent() + 1, &before).expect("few levels");
        // The counts of bytes would not fit otherwise.
        deep = Datatype::resized(&deep, 0, 1, Width::Int).expect("a datatype");
        if deep.size() > 1 << 60 {
            break;
        }
    }
    let mut levels = 0;
    let mut thin = int();
    let error = loop {
        let other = Datatype::resized(&thin, 0, 100, Width::Int).expect("a datatype");
        match Datatype::structure(&[1, 1], &[8, 0], &[int(), other], Width::Int) {
            Ok(more) => thin = more,
            Err(error) => break error,
        }
        levels += 1;
        let elements = Elements::new(thin.clone(), 2).expect("it fits");
        assert!(
            elements
                .cursor(elements.bytes() - 1)
                .next_piece(9)
                .is_some()
        );
    };
    assert_eq!((error, levels), (Error::TooDeep, MOST_LEVELS));
    // Mergeable datatypes may be nested to any depth, and freed.
    let mut chain = vector(2, 1, 2, &int());
    for _ in 0..200_000 {
        chain = Datatype::duplicate(&chain).expect("a duplicate");
    }
    assert_eq!(chain.pieces(), 2);
}

/// Pieces of one and two words become words, which are copied without a decision for each; the pieces remain.
#[test]
fn many_short_pieces_of_different_lengths_are_copied_as_words() {
    const COUNT: i64 = 60;
    let places: Vec<i64> = (0..COUNT).map(|index| 3 * index + index % 3).collect();
    let double = Basic::Double.into();
    let listed = Datatype::indexed_block(1, &places, &double, Width::Int).expect("a list");
    assert_eq!(listed.pieces(), COUNT as u64);
    let elements = Elements::new(listed, 1).expect("it fits");
    let mut cursor = elements.cursor(0);
    let pieces: Vec<_> = std::iter::from_fn(|| cursor.next_piece(u64::MAX)).collect();
    let of_two = pieces.iter().filter(|piece| piece.len == 16).count();
    assert_eq!((pieces.len(), of_two), (COUNT as usize - 19, 19));
    let span = (elements.hull().end - elements.hull().start) as usize;
    let memory: Vec<u8> = (0..span).map(|at| (at * 7 + at / 251) as u8).collect();
    let packed = |at: &i64| memory[8 * *at as usize..][..8].to_vec();
    let expected: Vec<u8> = places.iter().flat_map(packed).collect();
    for position in 0..expected.len() {
        for room in [1, 7, 8, 17, 100, 1000] {
            let mut stream = vec![0; room];
            let end = expected.len().min(position + room);
            let source = Source::from(&memory[..]);
            let done = elements.pack(position as u64, source, &mut Target::from(&mut stream[..]));
            assert_eq!(done, Ok((end - position) as u64));
            assert_eq!(stream[..end - position], expected[position..end]);
        }
    }
    // Longer ones stay as they are.
    let lengths: Vec<i64> = (0..COUNT).map(|index| 1 + 8 * (index % 2)).collect();
    let places: Vec<i64> = (0..COUNT).map(|index| 10 * index).collect();
    let listed = Datatype::indexed(&lengths, &places, &double, Width::Int).expect("a list");
    assert_eq!(listed.pieces(), COUNT as u64);
}

#[test]
fn adjacent_pieces_and_loops_merge() {
    let contiguous = Datatype::structure(
        &[2, 1, 3],
        &[0, 8, 16],
        &[int(), Basic::Double.into(), int()],
        Width::Int,
    );
    assert_eq!(contiguous.expect("a structure").pieces(), 1);
    // A vector of vectors with one stride is one loop; an array of it goes on.
    let inner = Datatype::resized(&vector(10, 1, 3, &int()), 0, 120, Width::Int).expect("ok");
    let outer = Datatype::contiguous(10, &inner, Width::Int).expect("ok");
    let elements = Elements::new(outer, 10).expect("ok");
    let mut cursor = elements.cursor(4 * 999);
    let last = Piece {
        offset: 12 * 999,
        len: 4,
    };
    assert_eq!(
        (cursor.next_piece(99), cursor.next_piece(99)),
        (Some(last), None)
    );
    let regular: Vec<i64> = (0..1000).map(|n| n * 7).collect();
    let block = Datatype::indexed_block(2, &regular, &int(), Width::Int).expect("ok");
    assert!(
        format!("{block:?}").contains("Loop"),
        "a list of equal steps is a loop"
    );
}

#[test]
fn contents_are_the_arguments() {
    let old = int();
    let numbers = |of: &Datatype| {
        let contents = of.contents();
        (
            contents.combiner,
            contents.integers.to_vec(),
            contents.addresses.to_vec(),
            contents.counts.to_vec(),
            contents.datatypes.len(),
        )
    };
    let of = Datatype::hvector(3, 2, 40, &old, Width::Int).expect("ok");
    assert_eq!(
        numbers(&of),
        (Combiner::Hvector, vec![3, 2], vec![40], vec![], 1)
    );
    let of = Datatype::hvector(3, 2, 40, &old, Width::Count).expect("ok");
    assert_eq!(
        numbers(&of),
        (Combiner::Hvector, vec![], vec![], vec![3, 2, 40], 1)
    );
    assert_eq!(of.contents().datatypes[0], old);
    let of = Datatype::indexed(&[1, 2], &[5, 9], &old, Width::Int).expect("ok");
    assert_eq!(
        numbers(&of),
        (Combiner::Indexed, vec![2, 1, 2, 5, 9], vec![], vec![], 1)
    );
    let of = Datatype::structure(&[1, 2], &[5, 9], &[of, old.clone()], Width::Int).expect("ok");
    assert_eq!(
        numbers(&of),
        (Combiner::Struct, vec![2, 1, 2], vec![5, 9], vec![], 2)
    );
    let subarray = |width| {
        Datatype::subarray(&[4, 5], &[2, 3], &[1, 0], Order::Fortran, &old, width).expect("ok")
    };
    let expected = vec![2, 4, 5, 2, 3, 1, 0, 15];
    assert_eq!(
        numbers(&subarray(Width::Int)),
        (Combiner::Subarray, expected, vec![], vec![], 1)
    );
    let expected = (
        Combiner::Subarray,
        vec![2, 15],
        vec![],
        vec![4, 5, 2, 3, 1, 0],
        1,
    );
    assert_eq!(numbers(&subarray(Width::Count)), expected);
    assert_eq!(numbers(&old), (Combiner::Named, vec![], vec![], vec![], 0));
}

#[test]
fn fortran_kinds_are_the_smallest_that_suffice() {
    const UNDEFINED: i32 = -32766;
    let real = |precision, range| Datatype::f90_real(precision, range).ok()?.scalar();
    assert_eq!(real(6, 37), Some(Basic::Real4));
    assert_eq!(real(7, 37), Some(Basic::Real8));
    assert_eq!(real(6, 38), Some(Basic::Real8));
    assert_eq!(real(15, UNDEFINED), Some(Basic::Real8));
    assert_eq!(real(UNDEFINED, 308), Some(Basic::Real16));
    assert_eq!(real(34, 1), None);
    assert_eq!(real(UNDEFINED, UNDEFINED), None);
    let integer = |range| Datatype::f90_integer(range).ok()?.scalar();
    assert_eq!(integer(9), Some(Basic::Integer4));
    assert_eq!(integer(10), Some(Basic::Integer8));
    assert_eq!(integer(38), Some(Basic::Integer16));
    assert_eq!(integer(39), None);
    let complex = Datatype::f90_complex(10, UNDEFINED).expect("there is one");
    assert_eq!(complex.scalar(), Some(Basic::Complex16));
    assert!(complex.is_committed() && complex.basic().is_none());
    assert_eq!(*complex.contents().integers, [10, UNDEFINED]);
}
