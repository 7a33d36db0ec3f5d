//! Calibrates the profile `qos` for Tables 5.1 and 5.2 once more, and reports how far its fitted values are determined.
//!
//! ```text
//! cargo run --release -p causeway-sim --example calibrate -- 1 40 [start=shipped]
//! ```
//!
//! The first number is the seed that splits the tables' entries into two halves, the second how many rounds are searched.
//! Values with a source that begins with "fitted to Table 5" are free, and so is what of the structure was fitted: where data begin in a page, and how many
//! messages of best effort are under way. Values begin at round numbers that know nothing of the tables, or, with `start=shipped`, at the shipped ones; one half
//! of the entries is fitted, the other held out. SVIA's entries of Table 5.2, which are below the sum of its stages, are in neither
//! (docs/simulator.md, "Table 5.2"). Then each value that is shipped is changed by 30 % either way, and each word.
#![forbid(unsafe_code)]

use std::error::Error;

use causeway_sim::figures::table::{self, Assumed, Cell};
use causeway_sim::profile::{Profile, edit};
use causeway_sim::workloads::ping::DATA_OFFSET;
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

/// What is fitted: numbers of the profile, and assumptions besides.
#[derive(Clone)]
struct Fit {
    values: Vec<Free>,
    assumed: Assumed,
}

/// Where data may begin in a page, and how many messages of best effort may be under way.
const OFFSETS: [u32; 2] = [0, DATA_OFFSET];
const IN_PROGRESS: [u32; 4] = [1, 2, 3, 4];

/// An entry of a table.
struct Entry {
    cell: Cell,
    table: &'static str,
}

fn main() -> Found<()> {
    let mut args = std::env::args().skip(1);
    let seed = args.next().map_or(Ok(1), |arg| arg.parse())?;
    let rounds = args.next().map_or(Ok(40), |arg| arg.parse())?;
    let starts_shipped = match args.next().as_deref() {
        None => false,
        Some("start=shipped") => true,
        Some(other) => return Err(format!("`{other}`: there is `start=shipped` only").into()),
    };
    let text = include_str!("../profiles/qos.toml");
    let shipped = Fit {
        values: free(text)?,
        assumed: Assumed::default(),
    };
    let (fitted, held) = halves(entries(text, &shipped)?.len(), seed);
    let start = match starts_shipped {
        true => shipped.clone(),
        false => Fit {
            values: shipped.values.iter().map(neutral).collect(),
            assumed: Assumed {
                data_offset: OFFSETS[0],
                in_progress: IN_PROGRESS[0],
            },
        },
    };
    let found = search(text, start, &fitted, rounds)?;
    for (what, fit) in [
        ("shipped, fitted to all entries", &shipped),
        ("fitted to one half", &found),
    ] {
        let entries = entries(text, fit)?;
        for (part, of) in [("fitted", &fitted), ("held out", &held)] {
            for table in ["5.1", "5.2"] {
                let chosen = chosen(&entries, of, Some(table));
                let met = chosen.iter().filter(|cell| cell.agrees()).count();
                println!(
                    "{what}: {met} of {} {part} entries of Table {table} met, loss {:.3} each",
                    chosen.len(),
                    loss(&chosen) / chosen.len().max(1) as f64
                );
            }
        }
    }
    println!(
        "\n{:34} {:>12} {:>12}  entries that change with -30 %, +30 %",
        "value", "shipped", "half"
    );
    let mut determined = 0;
    for (place, value) in shipped.values.iter().enumerate() {
        let changes = [0.7, 1.3].map(|factor| {
            let mut other = shipped.clone();
            other.values[place].number *= factor;
            changed(text, &shipped, &other)
        });
        let [low, high] = changes;
        let (low, high) = (low?, high?);
        determined += usize::from(low + high > 0);
        let half = found
            .values
            .get(place)
            .map_or(f64::NAN, |found| found.number);
        println!(
            "{:34} {:>12} {:>12}  {low}, {high}",
            value.key,
            value.text(value.number),
            value.text(half)
        );
    }
    println!(
        "{determined} of {} fitted values change an entry's verdict",
        shipped.values.len()
    );
    for (name, half, others) in words(&shipped, &found) {
        let changes: Found<Vec<String>> = others
            .into_iter()
            .map(|(word, fit)| Ok(format!("{word}: {}", changed(text, &shipped, &fit)?)))
            .collect();
        println!(
            "{name}, {half} with the half; entries that change with {}",
            changes?.join(", ")
        );
    }
    Ok(())
}

/// A word's name, what the fitted half has, and the other words with the fit that has them.
type Word = (&'static str, u32, Vec<(u32, Fit)>);

/// What is fitted besides numbers.
fn words(shipped: &Fit, half: &Fit) -> [Word; 2] {
    let with = |assumed| Fit {
        assumed,
        ..shipped.clone()
    };
    let offsets = OFFSETS.map(|data_offset| {
        let assumed = Assumed {
            data_offset,
            ..shipped.assumed
        };
        (data_offset, with(assumed))
    });
    let in_progress = IN_PROGRESS.map(|in_progress| {
        let assumed = Assumed {
            in_progress,
            ..shipped.assumed
        };
        (in_progress, with(assumed))
    });
    [
        (
            "where data begin in a page",
            half.assumed.data_offset,
            offsets.into(),
        ),
        (
            "messages of best effort",
            half.assumed.in_progress,
            in_progress.into(),
        ),
    ]
}

/// The values that are free.
fn free(text: &str) -> Found<Vec<Free>> {
    let fitted = |entry: &edit::Entry| {
        let number = entry.value.split(' ').next().unwrap_or_default();
        entry.source.starts_with("fitted to Table 5") && number.parse::<f64>().is_ok()
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

/// The printed entries of both tables, without those that no values reach.
fn entries(text: &str, fit: &Fit) -> Found<Vec<Entry>> {
    let profile = Profile::parse(&profile(text, &fit.values)?, "qos.toml")?;
    let of = |table: &'static str, cells: Vec<Cell>| {
        let printed = cells.into_iter().filter(|cell| cell.paper.is_some());
        let reached = printed.filter(|cell| !cell.case.starts_with("svia/bulk"));
        reached.map(move |cell| Entry { cell, table })
    };
    let stages = table::table_5_1_with(&profile, fit.assumed)?;
    let bulk = table::table_5_2_with(&profile, fit.assumed)?;
    Ok(of("5.1", stages).chain(of("5.2", bulk)).collect())
}

/// The entries at these places, of one table or of both.
fn chosen<'a>(entries: &'a [Entry], of: &[usize], table: Option<&str>) -> Vec<&'a Cell> {
    let at = of.iter().filter_map(|&place| entries.get(place));
    at.filter(|entry| table.is_none_or(|table| entry.table == table))
        .map(|entry| &entry.cell)
        .collect()
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

fn loss_of(text: &str, fit: &Fit, of: &[usize]) -> Found<f64> {
    Ok(loss(&chosen(&entries(text, fit)?, of, None)))
}

/// Changes one value at a time, by a step that shrinks when no change helps any more, and each word.
fn search(text: &str, mut fit: Fit, of: &[usize], rounds: u32) -> Found<Fit> {
    let mut best = loss_of(text, &fit, of)?;
    let mut step = 1.5;
    for round in 0..rounds {
        let before = best;
        for place in 0..fit.values.len() {
            for factor in [step, 1.0 / step] {
                let mut tried = fit.clone();
                tried.values[place].number *= factor;
                // Hardware that cannot exist is no candidate.
                let Ok(loss) = loss_of(text, &tried, of) else {
                    continue;
                };
                if loss < best {
                    (best, fit) = (loss, tried);
                    break;
                }
            }
        }
        for (_, _, words) in words(&fit, &fit) {
            for (_, tried) in words {
                let loss = loss_of(text, &tried, of)?;
                if loss < best {
                    (best, fit) = (loss, tried);
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
    Ok(fit)
}

/// Entries whose verdict is not the same with both.
fn changed(text: &str, fit: &Fit, other: &Fit) -> Found<usize> {
    let before = entries(text, fit)?;
    let Ok(after) = entries(text, other) else {
        return Ok(before.len());
    };
    let pairs = before.iter().zip(&after);
    Ok(pairs
        .filter(|(before, after)| before.cell.agrees() != after.cell.agrees())
        .count())
}
