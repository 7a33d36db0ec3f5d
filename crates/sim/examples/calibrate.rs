//! Calibrates the profile `qos` for Table 5.1 once more, and reports how far its fitted values are determined.
//!
//! ```text
//! cargo run --release -p causeway-sim --example calibrate -- 1 40
//! ```
//!
//! The first number is the seed that splits the table's entries into two halves, the second how many rounds are searched. Values with a
//! source that begins with "fitted to Table 5.1" are free. They begin at round numbers that do not depend on the table; one half of the
//! entries is fitted, the other held out. Then each value that is shipped is changed by 30 % either way.
#![forbid(unsafe_code)]

use std::error::Error;

use causeway_sim::figures::table::{self, Cell};
use causeway_sim::profile::{Profile, edit};
use causeway_sim::workloads::random::Random;

type Found<T> = Result<T, Box<dyn Error>>;

/// A free value: its key, its number, and its unit.
#[derive(Clone)]
struct Free {
    key: String,
    number: f64,
    unit: String,
}

impl Free {
    fn text(&self, number: f64) -> String {
        match self.unit.as_str() {
            "cycles" | "ns" => format!("{:.0} {}", number.max(1.0), self.unit),
            unit => format!("{number:.3} {unit}"),
        }
    }
}

fn main() -> Found<()> {
    let mut args = std::env::args().skip(1);
    let seed = args.next().map_or(Ok(1), |arg| arg.parse())?;
    let rounds = args.next().map_or(Ok(40), |arg| arg.parse())?;
    let text = include_str!("../profiles/qos.toml");
    let shipped = free(text)?;
    let (fitted, held) = halves(cells(text)?.len(), seed);
    let start: Vec<Free> = shipped.iter().map(neutral).collect();
    let found = search(text, start, &fitted, rounds)?;
    for (what, values) in [
        ("shipped, fitted to all entries", &shipped),
        ("fitted to one half", &found),
    ] {
        let cells = cells(&profile(text, values)?)?;
        for (part, of) in [("fitted", &fitted), ("held out", &held)] {
            let chosen: Vec<&Cell> = of.iter().filter_map(|&place| cells.get(place)).collect();
            let met = chosen.iter().filter(|cell| cell.agrees()).count();
            println!(
                "{what}: {met} of {} {part} entries met, loss {:.3} each",
                chosen.len(),
                loss(&chosen) / chosen.len() as f64
            );
        }
    }
    println!(
        "\n{:34} {:>12} {:>12}  entries that change with -30 %, +30 %",
        "value", "shipped", "half"
    );
    let mut determined = 0;
    for (place, value) in shipped.iter().enumerate() {
        let changes = [0.7, 1.3].map(|factor| changed(text, &shipped, place, factor));
        let [low, high] = changes;
        let (low, high) = (low?, high?);
        determined += usize::from(low + high > 0);
        let half = found.get(place).map_or(f64::NAN, |found| found.number);
        println!(
            "{:34} {:>12} {:>12}  {low}, {high}",
            value.key,
            value.text(value.number),
            value.text(half)
        );
    }
    println!(
        "{determined} of {} fitted values change an entry's verdict",
        shipped.len()
    );
    Ok(())
}

/// The values that are free.
fn free(text: &str) -> Found<Vec<Free>> {
    let fitted = |entry: &edit::Entry| {
        let number = entry.value.split(' ').next().unwrap_or_default();
        entry.source.starts_with("fitted to Table 5.1") && number.parse::<f64>().is_ok()
    };
    edit::entries(text)
        .into_iter()
        .filter(fitted)
        .map(|entry| {
            let (number, unit) = entry.value.split_once(' ').ok_or("a number and its unit")?;
            Ok(Free {
                key: entry.key,
                number: number.parse()?,
                unit: unit.to_owned(),
            })
        })
        .collect()
}

/// A value that does not depend on the table.
fn neutral(value: &Free) -> Free {
    let number = match value.unit.as_str() {
        "MB/s" => 100.0,
        "ns" => 300.0,
        _ if value.key.starts_with("library") => 400.0,
        _ if value.key.ends_with("idle_loop") => 100.0,
        _ => 50.0,
    };
    Free {
        number,
        ..value.clone()
    }
}

fn profile(text: &str, values: &[Free]) -> Found<String> {
    let mut text = text.to_owned();
    for value in values {
        let number = value.text(value.number);
        text = edit::with_value(&text, &value.key, &number).ok_or("the key is there")?;
    }
    Ok(text)
}

fn cells(text: &str) -> Found<Vec<Cell>> {
    let profile = Profile::parse(text, "qos.toml")?;
    Ok(table::table_5_1_on(&profile)?)
}

/// Places of the entries that are fitted, and of those that are held out.
fn halves(count: usize, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut random = Random::new(seed);
    let mut places: Vec<(u64, usize)> = (0..count)
        .map(|place| (random.below(1 << 32), place))
        .collect();
    places.sort_unstable();
    let mut places: Vec<usize> = places.into_iter().map(|(_, place)| place).collect();
    let held = places.split_off(count / 2);
    (places, held)
}

/// The squares of distances, in units of what is allowed.
fn loss(cells: &[&Cell]) -> f64 {
    let one = |cell: &&Cell| {
        let paper = cell.paper.unwrap_or(cell.causeway);
        ((cell.causeway - paper) / (0.1 * paper).max(2.0)).powi(2)
    };
    cells.iter().map(one).sum()
}

fn loss_of(text: &str, values: &[Free], of: &[usize]) -> Found<f64> {
    let cells = cells(&profile(text, values)?)?;
    let chosen: Vec<&Cell> = of.iter().filter_map(|&place| cells.get(place)).collect();
    Ok(loss(&chosen))
}

/// Changes one value at a time, by a step that shrinks when no change helps any more.
fn search(text: &str, mut values: Vec<Free>, of: &[usize], rounds: u32) -> Found<Vec<Free>> {
    let mut best = loss_of(text, &values, of)?;
    let mut step = 1.5;
    for round in 0..rounds {
        let before = best;
        for place in 0..values.len() {
            for factor in [step, 1.0 / step] {
                let mut tried = values.clone();
                tried[place].number *= factor;
                // Hardware that cannot exist is no candidate.
                let Ok(loss) = loss_of(text, &tried, of) else {
                    continue;
                };
                if loss < best {
                    (best, values) = (loss, tried);
                    break;
                }
            }
        }
        if best > before * 0.99 {
            step = 1.0 + (step - 1.0) * 0.6;
        }
        eprintln!(
            "round {}: loss {:.3} each, step {step:.3}",
            round + 1,
            best / of.len() as f64
        );
        if step < 1.02 {
            break;
        }
    }
    Ok(values)
}

/// Entries whose verdict changes with one value.
fn changed(text: &str, values: &[Free], place: usize, factor: f64) -> Found<usize> {
    let before = cells(&profile(text, values)?)?;
    let mut values = values.to_vec();
    values[place].number *= factor;
    let Ok(after) = profile(text, &values).and_then(|text| cells(&text)) else {
        return Ok(before.len());
    };
    let pairs = before.iter().zip(&after);
    Ok(pairs
        .filter(|(before, after)| before.agrees() != after.agrees())
        .count())
}
