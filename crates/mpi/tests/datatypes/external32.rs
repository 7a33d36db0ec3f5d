//! The representation `external32`, against each entry of type maps in turn.

use causeway_mpi::datatype::{Basic, Datatype, Elements, Error, Width};
use causeway_sys::blocks::{Source, Target};
use proptest::prelude::*;

use crate::model::Map;
use crate::properties::short_plans;

/// One element's bytes in this representation, where these are small enough numbers.
fn external(basic: Basic, native: &[u8]) -> Vec<u8> {
    let mut bytes = native.to_vec();
    match basic {
        Basic::Long | Basic::UnsignedLong => bytes.truncate(4),
        Basic::Wchar => bytes.truncate(2),
        Basic::CDoubleComplex => {
            bytes.rotate_left(8);
        }
        _ => {}
    }
    bytes.reverse();
    bytes
}

/// Fills each entry with a number that `external32` has room for.
fn fill(map: &Map, from: i64, memory: &mut [u8]) {
    for (number, (at, basic)) in map.entries.iter().enumerate() {
        let at = (at - from) as usize;
        let bytes = &mut memory[at..at + basic.size()];
        let sure = if *basic == Basic::LongDouble {
            0
        } else {
            bytes.len().min(4)
        };
        bytes.fill(0);
        for (place, byte) in bytes[..sure].iter_mut().enumerate() {
            *byte = (number * 5 + place) as u8 & 0x7f;
        }
        if *basic == Basic::LongDouble {
            // 1, 2, 4, 8: other numbers are tested beside the conversion.
            bytes[7] = 0x80;
            bytes[8..10].copy_from_slice(&(0x3fff + number as u16 % 4).to_le_bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn packed_entries_are_those_of_the_type_map((plan, map) in short_plans(), count in 0..5_u64) {
        let datatype = plan.build(Width::Int).expect("small");
        let elements = Elements::new(datatype, count).expect("small");
        let all = map.times(count);
        // Where entries overlap, the later one has overwritten bytes of the earlier one.
        let mut places = all.bytes();
        places.sort_unstable();
        prop_assume!(places.windows(2).all(|pair| pair[0] != pair[1]));
        let hull = elements.hull();
        let mut memory = vec![0; (hull.end - hull.start) as usize];
        fill(&all, hull.start, &mut memory);
        let mut expected = Vec::new();
        for (at, basic) in &all.entries {
            let at = (at - hull.start) as usize;
            let native = &memory[at..at + basic.size()];
            match basic {
                Basic::LongDouble => {
                    expected.extend([native[9], native[8]]);
                    expected.extend([0; 14]);
                }
                basic => expected.extend(external(*basic, native)),
            }
        }
        let size = elements.external32_bytes().expect("small") as usize;
        prop_assert_eq!(size, expected.len());
        let mut stream = vec![0xee; size + 3];
        let packed = elements.pack_external32(Source::from(&memory[..]), &mut stream);
        prop_assert_eq!(packed, Ok(size));
        prop_assert_eq!(&stream[..size], &expected);
        let mut back = vec![0; memory.len()];
        let read = elements.unpack_external32(&stream, &mut Target::from(&mut back[..]));
        prop_assert_eq!(read, Ok(size));
        prop_assert_eq!(back, memory);
        if size > 0 {
            let short = elements.unpack_external32(&stream[..size - 1], &mut Target::from(&mut [][..]));
            let is_refused = matches!(short, Err(Error::OutOfBounds { .. }));
            prop_assert!(is_refused);
        }
    }
}

#[test]
fn numbers_keep_their_values_or_are_refused() {
    let one = |basic: Basic, native: &[u8]| -> Result<Vec<u8>, Error> {
        let elements = Elements::new(Datatype::from(basic), 1).expect("one");
        let mut stream = vec![0; elements.external32_bytes().expect("few") as usize];
        elements.pack_external32(Source::from(native), &mut stream)?;
        let mut back = vec![0; native.len()];
        elements.unpack_external32(&stream, &mut Target::from(&mut back[..]))?;
        assert_eq!(back, native, "{basic:?}");
        Ok(stream)
    };
    assert_eq!(
        one(Basic::Long, &(-2_i64).to_ne_bytes()),
        Ok(vec![255, 255, 255, 254])
    );
    assert!(one(Basic::Long, &(1_i64 << 31).to_ne_bytes()).is_err());
    let large = (1_u64 << 32) - 1;
    assert_eq!(
        one(Basic::UnsignedLong, &large.to_ne_bytes()),
        Ok(vec![255; 4])
    );
    assert!(one(Basic::UnsignedLong, &(large + 1).to_ne_bytes()).is_err());
    assert_eq!(
        one(Basic::Wchar, &0x2042_u32.to_ne_bytes()),
        Ok(vec![0x20, 0x42])
    );
    assert!(one(Basic::Wchar, &0x1f600_u32.to_ne_bytes()).is_err());
    let double = one(Basic::Double, &1.5_f64.to_ne_bytes());
    assert_eq!(double, Ok(1.5_f64.to_be_bytes().to_vec()));
    for basic in Basic::ALL {
        let elements = Elements::new((*basic).into(), 3).expect("three");
        let size = elements.external32_bytes().expect("few");
        assert_eq!(size, 3 * basic.external32_size() as u64, "{basic:?}");
    }
}
