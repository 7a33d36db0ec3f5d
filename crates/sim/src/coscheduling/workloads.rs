//! The workloads of Tables 6.2 and 6.3.

use super::costs::Grains;
use super::programs::{self, Grain, Program};

/// A job of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// LIFE with 3.5 % communication.
    LifeLow,
    /// LIFE with 12 %.
    LifeHigh,
    /// MG with 26 %.
    Mg,
    /// LU with 16 %.
    Lu,
    /// EP with less than 1 %.
    Ep,
}

use Kind::{Ep, LifeHigh, LifeLow, Lu, Mg};

/// Workloads 1 to 12.
pub const WORKLOADS: [&[Kind]; 12] = [
    &[LifeLow, LifeLow, LifeLow, LifeLow],
    &[LifeLow, LifeLow, LifeLow, LifeHigh],
    &[LifeLow, LifeLow, LifeHigh, LifeHigh],
    &[LifeLow, LifeHigh, LifeHigh, LifeHigh],
    &[LifeHigh, LifeHigh, LifeHigh, LifeHigh],
    &[Ep, Ep, Ep, Ep],
    &[Mg, Lu, LifeHigh, Ep],
    &[Mg, Mg, Ep, Ep],
    &[Mg, Mg, Mg, Mg],
    &[LifeLow, LifeLow],
    &[LifeHigh, LifeLow],
    &[LifeHigh, LifeHigh],
];

impl Kind {
    /// The job's name, with the share of communication that the thesis states.
    pub fn name(self) -> &'static str {
        match self {
            LifeLow => "LIFE (3.5 %)",
            LifeHigh => "LIFE (12 %)",
            Mg => "MG (26 %)",
            Lu => "LU (16 %)",
            Ep => "EP (< 1 %)",
        }
    }

    /// The program's parameters.
    pub fn grain(self, grains: &Grains) -> Grain {
        match self {
            LifeLow => grains.life_low,
            LifeHigh => grains.life_high,
            Mg => grains.mg,
            Lu => grains.lu,
            Ep => grains.ep,
        }
    }

    /// Its program.
    pub fn program(self, grains: &Grains) -> Program {
        self.program_with(self.name(), self.grain(grains))
    }

    /// The program with other parameters, and a name for them.
    pub fn program_with(self, name: &str, grain: Grain) -> Program {
        match self {
            LifeLow | LifeHigh => programs::life(name, grain),
            Mg => programs::mg(name, grain),
            Lu => programs::lu(name, grain),
            Ep => programs::ep(name, grain),
        }
    }
}

/// The jobs of a workload, from 1; none if there is no such workload.
pub fn jobs(workload: usize, grains: &Grains) -> Vec<Program> {
    let kinds = workload
        .checked_sub(1)
        .and_then(|place| WORKLOADS.get(place));
    let kinds = kinds.copied().unwrap_or_default();
    kinds.iter().map(|kind| kind.program(grains)).collect()
}
