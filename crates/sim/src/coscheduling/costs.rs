//! The costs of everything in chapter 6, read from a table in which each value names its source.

use causeway_cosched::{Arrival, Pick, Settings, Strategy};

use super::dispatch::{HIGHEST, LEVELS, Moved, Raised, Row, Rules, Table, Woken};
use super::programs::Grain;
use crate::engine::{NANOSECOND, Time};
use crate::profile::units::Kind;
use crate::profile::{FileError, Section, Source};

/// The hosts and their operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// How often the dispatcher checks for a higher thread, and for expired quanta.
    pub tick: Time,
    /// How often threads are raised: all of them, or those that starve.
    pub raise: Time,
    /// Switching from one thread to another.
    pub switch: Time,
    /// From the card's signal to the driver's handler.
    pub interrupt_delay: Time,
    /// Processor time of the handler.
    pub interrupt: Time,
    /// A call of the driver that does not return before it has blocked or yielded.
    pub driver_call: Time,
    /// The driver's periodic function, for each endpoint.
    pub look: Time,
    /// The additional time for each endpoint if it compares the times at which messages arrived.
    pub look_for_newest: Time,
    /// Mean time between a daemon's wake-ups.
    pub daemon_interval: Time,
    /// The time that a daemon computes then.
    pub daemon_work: Time,
    /// Jobs begin within this time of the first.
    pub job_skew: Time,
    /// A job's processes begin within this time of each other.
    pub process_skew: Time,
    /// Clocks differ by at most this.
    pub clock_error: Time,
    /// Nodes' timers run fast or slow by at most this many millionths.
    pub drift: u64,
}

/// Messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Processor time of sending.
    pub send: Time,
    /// Processor time of receiving.
    pub receive: Time,
    /// From card to card, besides the time of the bytes.
    pub transit: Time,
    /// Bytes per second.
    pub rate: u64,
    /// Messages to a process that its library has not taken; with more the sender waits. 0 for no limit.
    pub window: u32,
    /// Whether a process that waits for a receive posted earlier calls the driver when its spin
    /// expires, as a process within the receive call does.
    pub waits_give_up: bool,
    /// Whether one that waits within a collective operation does.
    pub collectives_give_up: bool,
    /// Additional time of the card's program for a message when it compares the destination with the running process.
    pub compare: Time,
    /// How often the card fetches which process the host runs.
    pub sample: Time,
    /// Time of the card for that.
    pub sample_work: Time,
}

/// The strategies' times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a process spins.
    pub spin: Time,
    /// Whether a process blocks again if it was woken by a message other than the awaited one.
    pub blocks_again: bool,
    /// Whether a process whose spin has expired gives up only if no message is there for it, as opposed
    /// to only not the awaited one.
    pub gives_up_without_any: bool,
    /// How often the periodic function is called.
    pub period: Time,
    /// How often that of [`Pick::Share`] is.
    pub share_period: Time,
    /// A slice of [`Pick::Share`].
    pub slice: Time,
}

/// The programs' parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grains {
    /// LIFE with 3.5 % communication.
    pub life_low: Grain,
    /// LIFE with 12 %.
    pub life_high: Grain,
    /// MG with 26 %.
    pub mg: Grain,
    /// LU with 16 %.
    pub lu: Grain,
    /// EP with less than 1 %.
    pub ep: Grain,
}

/// All of chapter 6's costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The hosts.
    pub host: Host,
    /// The time-sharing class.
    pub table: Table,
    /// Its rules that are the same at all levels.
    pub rules: Rules,
    /// Messages.
    pub messages: Messages,
    /// The strategies.
    pub times: Times,
    /// The programs.
    pub grains: Grains,
}

fn time(section: &mut Section<'_>, key: &str) -> Result<Time, FileError> {
    Ok(section.quantity(key, Kind::Time)?.value)
}

fn positive(section: &mut Section<'_>, key: &str) -> Result<Time, FileError> {
    Ok(section.positive(key, Kind::Time)?.value)
}

impl Costs {
    /// A strategy with its times.
    pub fn settings(&self, strategy: Strategy) -> Settings {
        Settings {
            strategy,
            spin_ns: self.times.spin / NANOSECOND,
            blocks_again: self.times.blocks_again,
            period_ns: match strategy.arrival {
                Arrival::Periodic(Pick::Share) => self.times.share_period / NANOSECOND,
                _ => self.times.period / NANOSECOND,
            },
            slice_ns: self.times.slice / NANOSECOND,
        }
    }

    /// The text of the table that is shipped.
    pub const SHIPPED: &str = include_str!("../../profiles/coscheduling.toml");

    /// The table that is shipped.
    pub fn shipped() -> Result<Self, FileError> {
        Self::read("coscheduling.toml", Self::SHIPPED)
    }

    /// Reads a table; each value of it names its source.
    pub fn read(file: &str, text: &str) -> Result<Self, FileError> {
        let mut file = Source { file, text }.document()?;
        let host = file.part("host", host)?;
        let (table, rules) = file.part("ts_dptbl", table)?;
        let costs = Self {
            host,
            table,
            rules,
            messages: file.part("messages", messages)?,
            times: file.part("strategies", times)?,
            grains: grains(&mut file)?,
        };
        file.finish()?;
        Ok(costs)
    }
}

fn host(section: &mut Section<'_>) -> Result<Host, FileError> {
    Ok(Host {
        tick: positive(section, "tick")?,
        raise: positive(section, "raise")?,
        switch: time(section, "switch")?,
        interrupt_delay: time(section, "interrupt_delay")?,
        interrupt: time(section, "interrupt")?,
        driver_call: time(section, "driver_call")?,
        look: time(section, "look")?,
        look_for_newest: time(section, "look_for_newest")?,
        daemon_interval: positive(section, "daemon_interval")?,
        daemon_work: time(section, "daemon_work")?,
        job_skew: positive(section, "job_skew")?,
        process_skew: positive(section, "process_skew")?,
        clock_error: positive(section, "clock_error")?,
        drift: section.count("drift", 0, 1_000)?.value,
    })
}

/// Bands of levels with the same quantum: the first level, and the key's end.
const QUANTA: [(usize, &str); 6] = [
    (0, "quantum_0"),
    (10, "quantum_10"),
    (20, "quantum_20"),
    (30, "quantum_30"),
    (40, "quantum_40"),
    (59, "quantum_59"),
];
/// Bands of levels from which a blocked thread comes back at the same level.
const WOKEN: [(usize, &str); 6] = [
    (0, "woken_0"),
    (10, "woken_10"),
    (20, "woken_20"),
    (30, "woken_30"),
    (40, "woken_40"),
    (47, "woken_47"),
];

/// Bands of levels from which a thread that starves is boosted to the same level.
const STARVED: [(usize, &str); 7] = [
    (0, "starved_0"),
    (10, "starved_10"),
    (20, "starved_20"),
    (30, "starved_30"),
    (40, "starved_40"),
    (47, "starved_47"),
    (49, "starved_49"),
];

fn table(section: &mut Section<'_>) -> Result<(Table, Rules), FileError> {
    let mut table: Table = [Row::default(); LEVELS];
    for (first, key) in QUANTA {
        let quantum = positive(section, key)?;
        for row in table.iter_mut().skip(first) {
            row.quantum = quantum;
        }
    }
    let most = u64::from(HIGHEST);
    for (first, key) in WOKEN {
        let woken = section.count(key, 0, most)?.value as u8;
        for row in table.iter_mut().skip(first) {
            row.woken = woken;
        }
    }
    for (first, key) in STARVED {
        let starved = section.count(key, 0, most)?.value as u8;
        for row in table.iter_mut().skip(first) {
            row.starved = starved;
        }
    }
    let max_wait = section.count("max_wait", 0, 32_000)?.value as u16;
    for row in &mut table {
        row.max_wait = max_wait;
    }
    let falls = section.count("falls", 1, most)?.value as usize;
    for (level, row) in table.iter_mut().enumerate().take(LEVELS) {
        row.expired = level.saturating_sub(falls) as u8;
    }
    let words = [
        ("always", Woken::Raised),
        ("once in a while", Woken::RaisedOnceInAWhile),
    ];
    let woken = section.word("woken", &words)?.value;
    let words = [
        ("keeps its own", Moved::KeepsItsOwn),
        ("keeps its quantum", Moved::KeepsItsQuantum),
        ("changes", Moved::Changes),
    ];
    let moved = section.word("moved", &words)?.value;
    let words = [("all", Raised::All), ("starved", Raised::Starved)];
    let raised = section.word("raised", &words)?.value;
    let rules = Rules {
        woken,
        moved,
        raised,
    };
    Ok((table, rules))
}

fn messages(section: &mut Section<'_>) -> Result<Messages, FileError> {
    Ok(Messages {
        send: time(section, "send")?,
        receive: time(section, "receive")?,
        transit: time(section, "transit")?,
        rate: section.positive("rate", Kind::Rate)?.value,
        window: section.count("window", 0, 1 << 16)?.value as u32,
        waits_give_up: section
            .word("waits", &[("spin", false), ("give up", true)])?
            .value,
        collectives_give_up: section
            .word("collectives", &[("spin", false), ("give up", true)])?
            .value,
        compare: time(section, "compare")?,
        sample: positive(section, "sample")?,
        sample_work: time(section, "sample_work")?,
    })
}

fn times(section: &mut Section<'_>) -> Result<Times, FileError> {
    Ok(Times {
        spin: positive(section, "spin")?,
        blocks_again: section
            .word("woken", &[("spins", false), ("blocks again", true)])?
            .value,
        gives_up_without_any: section
            .word(
                "gives_up",
                &[
                    ("without the message", false),
                    ("without any message", true),
                ],
            )?
            .value,
        period: positive(section, "period")?,
        share_period: positive(section, "share_period")?,
        slice: positive(section, "slice")?,
    })
}

fn grains(file: &mut Section<'_>) -> Result<Grains, FileError> {
    Ok(Grains {
        life_low: file.part("life_low", grain)?,
        life_high: file.part("life_high", grain)?,
        mg: file.part("mg", |section| grain_of(section, "grids", 8))?,
        lu: file.part("lu", |section| grain_of(section, "planes", 4_096))?,
        ep: file.part("ep", |section| grain_of(section, "sums", 4_096))?,
    })
}

fn grain(section: &mut Section<'_>) -> Result<Grain, FileError> {
    Ok(Grain {
        iterations: section.count("iterations", 1, 1 << 24)?.value as u32,
        compute: positive(section, "compute")?,
        message: section.positive("message", Kind::Size)?.value.min(1 << 24) as u32,
        imbalance: section.count("imbalance", 0, 1_000)?.value,
        parts: 0,
    })
}

/// The grain of a program that has from 1 to `most` parts of this name.
fn grain_of(section: &mut Section<'_>, parts: &str, most: u64) -> Result<Grain, FileError> {
    Ok(Grain {
        parts: section.count(parts, 1, most)?.value as u32,
        ..grain(section)?
    })
}
