use super::fft::Fft;
use super::is::IntegerSort;
use super::matmul::Matmul;
use super::ping::Ping;
use crate::engine::MICROSECOND;
use crate::substrates::{Combination, Costs, Setup, SimError, run};

fn direct(ranks: u32) -> Setup {
    let costs = Costs::psnow().expect("the shipped table is right");
    Setup::new(Combination::Direct(10 * MICROSECOND), costs, ranks)
}

#[test]
fn pings_come_back() {
    for ping in [Ping::pong(20), Ping::bulk(20, 1024), Ping::bulk(3, 100_000)] {
        let outcome = run(&direct(2), &ping).expect("it runs");
        assert!(outcome.processes[0].ended >= ping.iterations * 20 * MICROSECOND);
    }
}

#[test]
fn the_spectrum_is_that_of_one_process_alone() {
    let fft = Fft::new(1 << 10).expect("a power of two");
    let spectrum = |ranks| -> Vec<(f64, f64)> {
        let outcome = run(&direct(ranks), &fft).expect("it runs and checks itself");
        outcome
            .processes
            .into_iter()
            .flat_map(|process| process.output)
            .collect()
    };
    let alone = spectrum(1);
    assert_eq!(alone.len(), 1 << 10);
    for ranks in [2, 4, 16] {
        assert_eq!(
            spectrum(ranks),
            alone,
            "the same operations in the same order"
        );
    }
}

#[test]
fn the_product_is_that_of_one_process_alone() {
    let matmul = Matmul { size: 48 };
    let alone = &run(&direct(1), &matmul).expect("it runs").processes[0].output;
    for side in [2_usize, 3, 4] {
        let outcome = run(&direct((side * side) as u32), &matmul).expect("it runs");
        let own = 48 / side;
        for (rank, process) in outcome.processes.iter().enumerate() {
            let (row, column) = (rank / side * own, rank % side * own);
            for (i, part) in process.output.chunks_exact(own).enumerate() {
                let begin = (row + i) * 48 + column;
                assert_eq!(part, &alone[begin..begin + own]);
            }
        }
    }
}

#[test]
fn every_key_gets_a_rank_of_its_own() {
    let sort = IntegerSort {
        keys: 1 << 12,
        buckets: 1 << 8,
    };
    for ranks in [1, 2, 4, 8] {
        let outcome = run(&direct(ranks), &sort).expect("it runs and checks itself");
        let mut all: Vec<u32> = outcome
            .processes
            .into_iter()
            .flat_map(|process| process.output)
            .collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1 << 12));
    }
}

#[test]
fn sizes_that_cannot_be_shared_are_refused() {
    assert!(Fft::new(1000).is_err());
    let fft = Fft::new(16).expect("a power of two");
    let refused = run(&direct(8), &fft).expect_err("8 processes need 64 points");
    assert!(matches!(refused, SimError::Program { .. }), "{refused}");
    assert!(run(&direct(5), &Matmul { size: 50 }).is_err());
    assert!(run(&direct(3), &IntegerSort::SAMPLE).is_err());
    assert!(run(&direct(3), &Ping::pong(1)).is_err());
}
