use causeway_mpi::matching::Mpi;
use causeway_testkit::simulator::conversations::{Plan, run};
#[test]
fn many() {
    for in_pieces in [true, false] {
        let mut bad = Vec::new();
        for seed in 0..3000 {
            let r = std::panic::catch_unwind(|| { run::<Mpi>(seed + 5000, Plan { nodes: 3, steps: 3000, faults: true, in_pieces }); });
            if r.is_err() { bad.push(seed); }
        }
        println!("in_pieces {in_pieces}: {bad:?}");
    }
}
