//! How many creates and unlinks per second the candidate engines of the metadata store reach, at full
//! durability with a group commit of 1, 8 and 64 operations, and relaxed
//! (`docs/metadata-engine.md`):
//!
//! ```sh
//! cargo run --release -p causeway-fs --example store_rates -- DIRECTORY [SECONDS]
//! ```
//!
//! The directory must lie on a disk; everything happens in a fresh directory below it. A create puts
//! an object's record (120 bytes), a directory entry (9 bytes under a 40-byte key), the parent's record
//! and a session's record (160 bytes), after one lookup of the name; an unlink looks the name and the
//! object up, removes both, and puts the other two.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_fs::config::Durability;
use causeway_fs::meta::store::fjall::Fjall;
use causeway_fs::meta::store::{Batch, Persist, Store};

mod redb;
mod service;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let parent = PathBuf::from(
        arguments
            .next()
            .ok_or("usage: store_rates DIRECTORY [SECONDS]")?,
    );
    let seconds = match arguments.next() {
        Some(text) => text.to_str().ok_or("SECONDS is a number")?.parse()?,
        None => 2.0,
    };
    let duration = Duration::from_secs_f64(seconds);
    let directory = tempfile::tempdir_in(&parent)?;
    println!(
        "fdatasync of 4 KiB appended: {:.0} us",
        measure_sync(directory.path(), false)?
    );
    println!(
        "fdatasync of 4 KiB overwritten: {:.0} us",
        measure_sync(directory.path(), true)?
    );
    println!("| engine | durability | operations per commit | creates/s | unlinks/s |");
    println!("|---|---|---|---|---|");
    for engine in ["fjall", "redb"] {
        let cases = [
            (Persist::Power, 1),
            (Persist::Power, 8),
            (Persist::Power, 64),
            (Persist::Process, 1),
            (Persist::Process, 8),
        ];
        for (number, (persist, group)) in cases.into_iter().enumerate() {
            let directory = directory.path().join(format!("{engine}-{number}"));
            std::fs::create_dir(&directory)?;
            let store: Box<dyn Store> = match engine {
                "fjall" => Box::new(Fjall::open(&directory)?),
                _ => Box::new(redb::Redb::open(&directory)?),
            };
            let (creates, created) = run(&*store, persist, group, duration, u64::MAX, create)?;
            let (unlinks, _) = run(&*store, persist, group, duration, created, unlink)?;
            let durability = match persist {
                Persist::Power => "synced",
                Persist::Process => "relaxed",
            };
            println!("| {engine} | {durability} | {group} | {creates:.0} | {unlinks:.0} |");
        }
    }
    println!();
    println!(
        "| service | operations per commit | creates/s | CPU us per create | unlinks/s | lookups/s |"
    );
    println!("|---|---|---|---|---|---|");
    for (durability, group) in [
        (Durability::Synced, 1),
        (Durability::Synced, 8),
        (Durability::Synced, 64),
        (Durability::Relaxed, 1),
        (Durability::Relaxed, 8),
    ] {
        let directory = directory
            .path()
            .join(format!("service-{durability:?}-{group}"));
        let service::Rates {
            creates,
            create_cpu_us,
            unlinks,
            lookups,
        } = service::run(&directory, durability, group, duration)?;
        println!(
            "| {durability:?} | {group} | {creates:.0} | {create_cpu_us:.1} | {unlinks:.0} | {lookups:.0} |"
        );
    }
    Ok(())
}

type Step = fn(&dyn Store, &mut Batch, u64) -> Result<(), Box<dyn Error>>;

/// Does steps in groups until the time or the `most` steps are over; the rate and the number of steps.
fn run(
    store: &dyn Store,
    persist: Persist,
    group: u64,
    duration: Duration,
    most: u64,
    step: Step,
) -> Result<(f64, u64), Box<dyn Error>> {
    let start = Instant::now();
    let mut done = 0;
    while done < most && start.elapsed() < duration {
        let mut batch = Batch::new();
        for _ in 0..group {
            if done < most {
                step(store, &mut batch, done)?;
                done += 1;
            }
        }
        store.commit(&batch, persist)?;
    }
    Ok((done as f64 / start.elapsed().as_secs_f64(), done))
}

fn create(store: &dyn Store, batch: &mut Batch, number: u64) -> Result<(), Box<dyn Error>> {
    if store.snapshot()?.get(&entry_key(number))?.is_some() {
        return Err("the name exists".into());
    }
    batch.insert(entry_key(number), Some(vec![1; 9]));
    batch.insert(object_key(number), Some(vec![2; 120]));
    put_common(batch, number);
    Ok(())
}

fn unlink(store: &dyn Store, batch: &mut Batch, number: u64) -> Result<(), Box<dyn Error>> {
    let view = store.snapshot()?;
    view.get(&entry_key(number))?.ok_or("no such name")?;
    view.get(&object_key(number))?.ok_or("no such object")?;
    batch.insert(entry_key(number), None);
    batch.insert(object_key(number), None);
    put_common(batch, number);
    Ok(())
}

/// What every change puts: the parent's record and one of eight clients' session records.
fn put_common(batch: &mut Batch, number: u64) {
    batch.insert(
        b"o\0\0\0\0\0\0\0\x01".to_vec(),
        Some(vec![number as u8; 120]),
    );
    let mut session = vec![b's'];
    session.extend_from_slice(&(number % 8).to_be_bytes());
    batch.insert(session, Some(vec![number as u8; 160]));
}

fn entry_key(number: u64) -> Vec<u8> {
    let mut key = vec![b'e'];
    key.extend_from_slice(&1u64.to_be_bytes());
    // Names do not come in the order of objects.
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key.extend_from_slice(format!("file-{scattered:016x}-{number:09}").as_bytes());
    key
}

fn object_key(number: u64) -> Vec<u8> {
    let mut key = vec![b'o'];
    key.extend_from_slice(&(number + 2).to_be_bytes());
    key
}

/// Microseconds of one `fdatasync` behind a write of 4 KiB, the yardstick of every synced rate.
fn measure_sync(directory: &Path, overwrite: bool) -> Result<f64, Box<dyn Error>> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(directory.join("sync"))?;
    let block = [1; 4096];
    const TIMES: u64 = 200;
    if overwrite {
        file.write_all_at(&vec![0; 4096 * TIMES as usize], 0)?;
        file.sync_all()?;
    }
    let start = Instant::now();
    for number in 0..TIMES {
        file.write_all_at(&block, number * 4096)?;
        file.sync_data()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / TIMES as f64)
}
