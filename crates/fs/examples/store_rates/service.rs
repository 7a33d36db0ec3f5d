//! The whole metadata service over the chosen engine: path walk, permissions, session and all.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_fs::config::Durability;
use causeway_fs::meta::{Service, Settings};
use causeway_wire::fs::{Caller, ObjectId, Operation, Place, Request, Target, Timestamp};

/// The result of one run.
pub(crate) struct Rates {
    pub(crate) creates: f64,
    pub(crate) create_cpu_us: f64,
    pub(crate) unlinks: f64,
    pub(crate) lookups: f64,
}

/// Creates and unlinks in batches of `group`, each request by another client; rates per second.
pub(crate) fn run(
    directory: &Path,
    durability: Durability,
    group: u64,
    duration: Duration,
) -> Result<Rates, Box<dyn Error>> {
    let settings = Settings {
        durability,
        io_servers: (0..4).map(|number| format!("io{number}")).collect(),
        ..Settings::default()
    };
    let mut service = Service::open(directory, settings).map_err(|failure| failure.message)?;
    let mkdir = Operation::MakeDirectory {
        place: place("d"),
        mode: 0o755,
        distribution: None,
    };
    apply(&mut service, &[request(0, mkdir)])?;
    let create = |name: String| Operation::Create {
        place: place(&name),
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: Vec::new(),
    };
    let unlink = |name: String| Operation::Unlink {
        place: place(&name),
        expected: None,
    };
    let cpu = cpu_seconds();
    let (creates, created) = rate(&mut service, group, duration, u64::MAX, create)?;
    let create_cpu_us = (cpu_seconds() - cpu) * 1e6 / created as f64;
    let start = Instant::now();
    let reader = service.reader();
    for number in 0..created {
        let lookup = Operation::Lookup {
            place: place(&name(number)),
            follow: true,
            content: true,
        };
        reader
            .answer(&request(number, lookup))
            .ok_or("a lookup changes nothing")?;
    }
    let lookups = created as f64 / start.elapsed().as_secs_f64();
    let (unlinks, _) = rate(&mut service, group, duration, created, unlink)?;
    Ok(Rates {
        creates,
        create_cpu_us,
        unlinks,
        lookups,
    })
}

/// Processor time of this thread: what the service itself costs, however busy the machine is.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn rate(
    service: &mut Service,
    group: u64,
    duration: Duration,
    most: u64,
    operation: impl Fn(String) -> Operation,
) -> Result<(f64, u64), Box<dyn Error>> {
    let start = Instant::now();
    let mut done = 0;
    while done < most && start.elapsed() < duration {
        let count = group.min(most - done);
        let batch: Vec<_> = (done..done + count)
            .map(|number| request(number, operation(name(number))))
            .collect();
        apply(service, &batch)?;
        done += count;
    }
    Ok((done as f64 / start.elapsed().as_secs_f64(), done))
}

fn apply(service: &mut Service, batch: &[Request]) -> Result<(), Box<dyn Error>> {
    let now = Timestamp {
        seconds: 1_800_000_000,
        nanoseconds: 0,
    };
    for reply in service.apply(batch, now) {
        reply
            .result
            .map_err(|failure| format!("{}: {}", failure.errno, failure.message))?;
    }
    Ok(())
}

fn name(number: u64) -> String {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("d/file-{scattered:016x}-{number:09}")
}

fn place(path: &str) -> Place {
    Place {
        base: ObjectId::ROOT,
        path: path.as_bytes().to_vec(),
    }
}

fn request(number: u64, operation: Operation) -> Request {
    static SEQUENCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    Request {
        reply_tag: number,
        target: Target::default(),
        client: u128::from(number % 64),
        slot: 0,
        sequence: SEQUENCE.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        caller: Caller::default(),
        capability: None,
        opening: None,
        holder: None,
        operation,
    }
}
