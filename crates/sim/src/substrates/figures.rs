//! Figures 2.1 to 2.11 as rows of numbers.
//!
//! The text states orders, crossings and knees, and prints no other values than §2.3's; the tests beside hold each
//! statement against these rows.

use super::one_way::{self, OneWay, SHORT_BYTES};
use super::{Combination, Costs, Outcome, Setup, SimError, run};
use crate::am::AmError;
use crate::am::port::Function;
use crate::engine::Time;
use crate::programs::fft::Fft;
use crate::programs::is::IntegerSort;
use crate::programs::matmul::Matmul;
use crate::programs::ping::{BULK_BYTES, ITERATIONS, Ping};

/// One point or bar of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which curve or stack.
    pub series: String,
    /// Where: a size, a clock, a number of processes, a stage.
    pub x: String,
    /// How long, in picoseconds.
    pub value: Time,
}

impl Row {
    fn new(series: impl Into<String>, x: impl ToString, value: Time) -> Self {
        Self {
            series: series.into(),
            x: x.to_string(),
            value,
        }
    }
}

fn failed(error: AmError) -> SimError {
    SimError::Program { rank: 0, error }
}

/// Which combination figures 2.1, 2.2, 2.4 and 2.5 are about.
pub const ONE_WAYS: [(&str, Combination); 4] = [
    ("2.1", Combination::C1Ni1),
    ("2.2", Combination::C1Ni2),
    ("2.4", Combination::C2Ni3),
    ("2.5", Combination::C3Ni3),
];

/// Figures 2.1, 2.2, 2.4 and 2.5: a short message's way, stage by stage.
pub fn one_way(costs: Costs, combination: Combination) -> Result<Vec<Row>, SimError> {
    let OneWay { total, stages } = one_way::warm(combination, costs, SHORT_BYTES)?;
    let mut rows = vec![Row::new(combination.name(), "total", total)];
    rows.extend(
        stages
            .into_iter()
            .map(|(stage, time)| Row::new(combination.name(), stage, time)),
    );
    Ok(rows)
}

/// Sizes of figure 2.3.
pub const SIZES: [usize; 7] = [32, 256, 512, 1024, 2048, 3072, 4032];

/// Figure 2.3: there and back by message size on the two kernel paths.
pub fn figure_2_3(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    for combination in [Combination::C1Ni1, Combination::C1Ni2] {
        for bytes in SIZES {
            let time = one_way::round_trip(combination, costs, bytes)?;
            rows.push(Row::new(combination.name(), bytes, time));
        }
    }
    Ok(rows)
}

/// There and back of a ping, on average over its iterations.
pub fn ping(costs: Costs, combination: Combination, ping: Ping) -> Result<Time, SimError> {
    let outcome = run(&Setup::new(combination, costs, 2), &ping)?;
    let ended = outcome.processes.first().map_or(0, |first| first.ended);
    Ok(ended / ping.iterations.max(1))
}

/// Figure 2.6: Ping_Pong and Ping_Bulk.
pub fn figure_2_6(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    let both = [
        ("Ping_Pong", Ping::pong(ITERATIONS)),
        ("Ping_Bulk", Ping::bulk(ITERATIONS, BULK_BYTES)),
    ];
    for (name, program) in both {
        for combination in Combination::FOUR {
            let time = ping(costs, combination, program)?;
            rows.push(Row::new(combination.name(), name, time));
        }
    }
    Ok(rows)
}

/// Where the processes' time goes: the mean of each account, and of all of them.
fn profile<R>(name: &str, x: impl ToString, outcome: &Outcome<R>) -> Vec<Row> {
    let count = (outcome.processes.len() as u64).max(1);
    let mean = |time: &dyn Fn(&super::Done<R>) -> Time| {
        outcome.processes.iter().map(time).sum::<Time>() / count
    };
    let x = x.to_string();
    let mut rows = vec![Row::new(
        format!("{name} total"),
        &x,
        mean(&|done| done.processor_time()),
    )];
    for function in Function::ALL {
        let series = format!("{name} {}", function.name());
        rows.push(Row::new(series, &x, mean(&|done| done.time_in(function))));
    }
    rows
}

/// The transform on so many processes: its profile.
pub fn fft(
    costs: Costs,
    combination: Combination,
    points: usize,
    ranks: u32,
) -> Result<Vec<Row>, SimError> {
    let program = Fft::new(points).map_err(failed)?;
    let outcome = run(&Setup::new(combination, costs, ranks), &program)?;
    Ok(profile(combination.name(), ranks, &outcome))
}

/// Points of figure 2.7 (a).
pub const FFT_POINTS: usize = 1 << 16;
/// Points of figure 2.7 (b), of which the text says only that they grow.
pub const FFT_GROWTH: [usize; 3] = [1 << 14, 1 << 16, 1 << 18];
/// Processes of figure 2.7 (a).
pub const FFT_RANKS: [u32; 3] = [4, 8, 16];

/// Figure 2.7 (a): 64K points on 4, 8 and 16 processes.
pub fn figure_2_7a(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    for combination in Combination::FOUR {
        for ranks in FFT_RANKS {
            rows.extend(fft(costs, combination, FFT_POINTS, ranks)?);
        }
    }
    Ok(rows)
}

/// Figure 2.7 (b): more and more points. The text does not say on how many processes; here on 4.
pub fn figure_2_7b(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    for combination in Combination::FOUR {
        for points in FFT_GROWTH {
            let program = Fft::new(points).map_err(failed)?;
            let outcome = run(&Setup::new(combination, costs, 4), &program)?;
            rows.extend(profile(combination.name(), points, &outcome));
        }
    }
    Ok(rows)
}

/// Rows of figure 2.8's matrices.
pub const MATMUL_SIZE: usize = 480;

/// Figure 2.8, and what the text says of the kernel paths: 3 processes on each of 3 hosts, 4 on each of 4.
pub fn figure_2_8(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    for combination in Combination::FOUR {
        for side in [3, 4] {
            let setup = Setup {
                processes_per_host: side,
                ..Setup::new(combination, costs, side * side)
            };
            let outcome = run(&setup, &Matmul { size: MATMUL_SIZE })?;
            rows.extend(profile(
                combination.name(),
                format!("{side}x{side}"),
                &outcome,
            ));
        }
    }
    Ok(rows)
}

/// Figure 2.9: the sort on 4 and 8 processes.
pub fn figure_2_9(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    for combination in Combination::FOUR {
        for ranks in [4, 8] {
            let outcome = run(&Setup::new(combination, costs, ranks), &IntegerSort::SAMPLE)?;
            rows.extend(profile(combination.name(), ranks, &outcome));
        }
    }
    Ok(rows)
}

/// One megahertz.
const MHZ: u64 = 1_000_000;

/// The costs with other clocks.
pub fn with_clocks(mut costs: Costs, host_hz: u64, np_hz: u64) -> Costs {
    costs.hardware.host_clock = host_hz;
    costs.hardware.np_clock = np_hz;
    costs
}

/// The network processor's clocks of figure 2.10, in MHz.
pub const NP_CLOCKS: [u64; 10] = [10, 20, 30, 40, 50, 67, 80, 100, 150, 200];
/// The host's clock of figure 2.10, in MHz (§2.5).
pub const HOST_CLOCK: u64 = 200;

/// Figure 2.10: Ping_Pong by the network processor's clock, with few and with many iterations.
pub fn figure_2_10(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    for combination in [Combination::C2Ni3, Combination::C3Ni3] {
        for iterations in [16, 256] {
            for clock in NP_CLOCKS {
                let costs = with_clocks(costs, HOST_CLOCK * MHZ, clock * MHZ);
                let time = ping(costs, combination, Ping::pong(iterations))?;
                let series = format!("{} {iterations} iterations", combination.name());
                rows.push(Row::new(series, clock, time));
            }
        }
    }
    Ok(rows)
}

/// The hosts' clocks of figure 2.11, in MHz; the text does not say which.
pub const HOST_CLOCKS: [u64; 4] = [50, 100, 150, 200];
/// The network processor's clocks of figure 2.11, as parts of 24 of the host's.
pub const NP_PARTS: [u64; 12] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32];
/// Bytes of figure 2.11's blocks (§2.5).
pub const KNEE_BYTES: u64 = 32;
/// Iterations of figure 2.11 (§2.5).
pub const KNEE_ITERATIONS: u64 = 16;

/// Ping_Bulk with 32 bytes and 16 iterations, when the network processor has `parts` of 24 of the host's clock.
pub fn knee_ping(
    costs: Costs,
    combination: Combination,
    host_mhz: u64,
    parts: u64,
) -> Result<Time, SimError> {
    let costs = with_clocks(costs, host_mhz * MHZ, host_mhz * MHZ * parts / 24);
    ping(costs, combination, Ping::bulk(KNEE_ITERATIONS, KNEE_BYTES))
}

/// Figure 2.11: Ping_Bulk by the network processor's clock, for several of the host's.
pub fn figure_2_11(costs: Costs) -> Result<Vec<Row>, SimError> {
    let mut rows = Vec::new();
    for combination in [Combination::C2Ni3, Combination::C3Ni3] {
        for host in HOST_CLOCKS {
            for parts in NP_PARTS {
                let time = knee_ping(costs, combination, host, parts)?;
                let series = format!("{} host {host} MHz", combination.name());
                rows.push(Row::new(series, format!("{parts}/24"), time));
            }
        }
    }
    Ok(rows)
}

/// What doubling the network processor's clock must gain, in thousandths of the round trip, to be worth it: where it gains
/// less, the returns diminish. The text draws the knee and does not define it.
pub const KNEE_GAIN: u64 = 50;

/// The knee of a curve of figure 2.11, in thousandths of the host's clock: the slowest network processor whose
/// doubling gains less than [`KNEE_GAIN`].
pub fn knee(costs: Costs, combination: Combination, host_mhz: u64) -> Result<u64, SimError> {
    let time = |thousandths: u64| {
        let costs = with_clocks(costs, host_mhz * MHZ, host_mhz * MHZ * thousandths / 1_000);
        ping(costs, combination, Ping::bulk(KNEE_ITERATIONS, KNEE_BYTES))
    };
    let gains = |thousandths| -> Result<bool, SimError> {
        let (slow, fast) = (time(thousandths)?, time(2 * thousandths)?);
        Ok(slow.saturating_sub(fast) * 1_000 >= slow * KNEE_GAIN)
    };
    let (mut low, mut high) = (20, 2_000);
    while high - low > 10 {
        let middle = (low + high) / 2;
        match gains(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(high)
}
