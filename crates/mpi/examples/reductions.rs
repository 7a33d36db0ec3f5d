//! Prints how fast elements are combined, beside `memcpy` of as many bytes.
//!
//! `cargo run --release -p causeway-mpi --example reductions`

use std::hint::black_box;
use std::time::{Duration, Instant};

use causeway_mpi::datatype::Basic;
use causeway_mpi::reduction::{Kernel, Op};
use causeway_sys::blocks::{Source, Target};

/// Each case is run as often as fits, in so many rounds, of which the fastest counts.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(5);
const SIZES: [usize; 3] = [1 << 10, 32 << 10, 1 << 20];

/// GB/s of the fastest round of something that moves `bytes`.
fn rate(bytes: usize, mut run: impl FnMut()) -> f64 {
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

fn main() {
    println!(
        "{:40} {:>8} {:>8} {:>8}",
        "GB/s of one operand", "1 KiB", "32 KiB", "1 MiB"
    );
    let from = vec![0_u8; 1 << 20];
    let mut into = vec![0_u8; 1 << 20];
    let copied = SIZES.map(|size| {
        rate(size, || {
            black_box(&mut into[..size]).copy_from_slice(black_box(&from[..size]))
        })
    });
    println!(
        "{:40} {:8.2} {:8.2} {:8.2}",
        "memcpy", copied[0], copied[1], copied[2]
    );
    let basics = [
        Basic::Int8,
        Basic::Int,
        Basic::Long,
        Basic::Float,
        Basic::Double,
        Basic::LongDouble,
        Basic::Real2,
        Basic::Real16,
        Basic::CDoubleComplex,
        Basic::CBool,
        Basic::DoubleInt,
        Basic::TwoInt,
    ];
    for basic in basics {
        for op in [Op::Sum, Op::Prod, Op::Max, Op::Band, Op::Land, Op::Minloc] {
            let Some(kernel) = Kernel::of(op, basic) else {
                continue;
            };
            let rates = SIZES.map(|size| {
                rate(size, || {
                    let mut target = Target::from(black_box(&mut into[..]));
                    let count = size / kernel.unit();
                    kernel.apply(Source::from(black_box(&from[..])), &mut target, count);
                })
            });
            let name = format!("{} of {}", op.name(), basic.name());
            println!(
                "{name:40} {:8.2} {:8.2} {:8.2}",
                rates[0], rates[1], rates[2]
            );
        }
    }
}
