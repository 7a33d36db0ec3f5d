//! Prints how fast datatypes are packed and unpacked, beside `memcpy` of as many bytes.
//!
//! `cargo run --release -p causeway-mpi --example datatypes`

use std::hint::black_box;
use std::time::{Duration, Instant};

use causeway_mpi::datatype::{Basic, Datatype, Elements, Error, Order, Width};
use causeway_sys::blocks::{Source, Target};

/// Each case is run as often as fits, in so many rounds, of which the fastest counts.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(10);

/// GB/s of the fastest round of something that moves `bytes`.
fn rate(bytes: u64, mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (start, mut runs) = (Instant::now(), 0_u32);
        while start.elapsed() < ROUND {
            run();
            runs += 1;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(runs));
    }
    bytes as f64 / best / 1e9
}

/// A vector of `bytes` in pieces of `len`, as far apart again.
fn pieces(bytes: i64, len: i64) -> Result<Elements, Error> {
    let old = Basic::Byte.into();
    let vector = Datatype::vector(bytes / len, len, 2 * len, &old, Width::Int)?;
    Elements::new(vector, 1)
}

fn cases() -> Result<Vec<(String, Elements)>, Error> {
    let mut cases = Vec::new();
    for len in [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 1024, 4096] {
        cases.push((format!("1 MiB in {len}-byte pieces"), pieces(1 << 20, len)?));
    }
    cases.push(("4 KiB in 64-byte pieces".into(), pieces(4096, 64)?));
    cases.push(("16 MiB in 64-byte pieces".into(), pieces(16 << 20, 64)?));
    let double: Datatype = Basic::Double.into();
    let part = |sizes: [i64; 3], subsizes: [i64; 3], starts: [i64; 3]| {
        Datatype::subarray(&sizes, &subsizes, &starts, Order::C, &double, Width::Int)
    };
    let cube = part([128, 128, 128], [64, 64, 32], [32, 32, 32])?;
    cases.push((
        "3-D subarray 64×64×32 of 128³ doubles".into(),
        Elements::new(cube, 1)?,
    ));
    let face = part([128, 128, 128], [128, 128, 1], [0, 0, 64])?;
    cases.push((
        "3-D face 128×128×1 of 128³ doubles".into(),
        Elements::new(face, 1)?,
    ));
    let particle = Datatype::structure(
        &[1, 3, 3],
        &[0, 8, 40],
        &[Basic::Int.into(), double.clone(), double.clone()],
        Width::Int,
    )?;
    cases.push((
        "10,000 structures of 3 pieces".into(),
        Elements::new(particle, 10_000)?,
    ));
    let offsets: Vec<i64> = (0..16_384).map(|n| n * 3 + n * n % 2).collect();
    let scattered = Datatype::indexed_block(1, &offsets, &double, Width::Int)?;
    cases.push((
        "16,384 doubles at displacements".into(),
        Elements::new(scattered, 1)?,
    ));
    let blocks: Vec<i64> = (0..4096).map(|n| n % 5 + 1).collect();
    let offsets: Vec<i64> = (0..4096).map(|n| n * 7).collect();
    let indexed = Datatype::indexed(&blocks, &offsets, &double, Width::Int)?;
    cases.push((
        "4,096 blocks of 1 to 5 doubles".into(),
        Elements::new(indexed, 1)?,
    ));
    Ok(cases)
}

fn main() -> Result<(), Error> {
    println!(
        "{:42} {:>8} {:>8} {:>8} {:>10}",
        "GB/s", "memcpy", "pack", "unpack", "ns a piece"
    );
    for (name, elements) in cases()? {
        let hull = elements.hull();
        let bytes = elements.bytes();
        let mut memory = vec![1_u8; (hull.end - hull.start) as usize];
        let mut stream = vec![2_u8; bytes as usize];
        let mut other = vec![3_u8; bytes as usize];
        let copied = rate(bytes, || {
            black_box(&mut other[..]).copy_from_slice(black_box(&stream[..]));
        });
        let packed = rate(bytes, || {
            let mut to = Target::from(black_box(&mut stream[..]));
            let done = elements.pack(0, Source::from(black_box(&memory[..])), &mut to);
            assert_eq!(done, Ok(bytes));
        });
        let unpacked = rate(bytes, || {
            let mut to = Target::from(black_box(&mut memory[..]));
            let done = elements.unpack(0, Source::from(black_box(&stream[..])), &mut to);
            assert_eq!(done, Ok(bytes));
        });
        let pieces = elements.datatype().pieces() * elements.count();
        let each = bytes as f64 / packed / pieces as f64;
        println!("{name:42} {copied:8.2} {packed:8.2} {unpacked:8.2} {each:10.2}");
    }
    Ok(())
}
