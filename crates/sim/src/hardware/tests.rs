//! Whole transfers over bus and DMA engine.

use super::*;
use crate::engine::{Engine, NANOSECOND, Time};

fn memory() -> Memory {
    Memory::new(MemorySpec {
        page_bytes: 4_096,
        bytes_per_second: 800_000_000,
    })
}

fn bus() -> IoBus {
    IoBus::new(IoBusSpec {
        clock_hz: 66_666_666,
        width_bytes: 8,
        arbitration_cycles: 2,
        address_cycles: 1,
        retry_cycles: 1,
        burst_bytes: 256,
        bridge_latency: 150 * NANOSECOND,
    })
}

fn engine(channels: Channels) -> HostDma {
    HostDma::new(HostDmaSpec {
        startup: 500 * NANOSECOND,
        bytes_per_second: 132_000_000,
        channels,
    })
}

/// Runs `jobs`, all started at 0, and returns when each has ended.
fn run(mut dma: HostDma, jobs: &[Job]) -> Vec<(Time, u64)> {
    let (mut bus, mut memory) = (bus(), memory());
    let mut events = Engine::new();
    for &job in jobs {
        if let Some(wake) = dma.start(0, job) {
            events.at(wake.at, wake.channel);
        }
    }
    let mut ended = Vec::new();
    while let Some(channel) = events.next() {
        let advance = dma.advance(events.now(), channel, &mut bus, &mut memory);
        if let Some(job) = advance.finished {
            ended.push((events.now(), job.token));
        }
        if let Some(wake) = advance.wake {
            events.at(wake.at, wake.channel);
        }
    }
    assert!(dma.is_idle());
    ended
}

fn job(token: u64, direction: Direction, bytes: u64) -> Job {
    Job {
        token,
        direction,
        bytes,
        stamp: 0,
    }
}

#[test]
fn a_transfer_takes_what_its_slowest_part_takes() {
    let up = run(
        engine(Channels::Any(1)),
        &[job(1, Direction::ToHost, 16_384)],
    );
    let slowest = 16_384 * 1_000_000_000_000 / 132_000_000;
    let startup = 500 * NANOSECOND;
    assert_eq!(up.len(), 1);
    assert!(up[0].0 >= startup + slowest);
    assert!(up[0].0 < startup + slowest + 3 * 1_000 * NANOSECOND);
}

#[test]
fn a_queue_keeps_the_order() {
    let jobs = [
        job(1, Direction::FromHost, 64),
        job(2, Direction::ToHost, 4_096),
        job(3, Direction::FromHost, 64),
    ];
    let order: Vec<u64> = run(engine(Channels::Any(1)), &jobs)
        .iter()
        .map(|&(_, token)| token)
        .collect();
    assert_eq!(order, [1, 2, 3]);
    let each_way: Vec<u64> = run(engine(Channels::OneEachWay), &jobs)
        .iter()
        .map(|&(_, token)| token)
        .collect();
    assert_eq!(each_way, [1, 3, 2], "short reads pass the long write");
}

#[test]
fn the_queue_is_kept_in_the_order_of_stamps() {
    let stamped = |token, stamp| Job {
        stamp,
        ..job(token, Direction::FromHost, 64)
    };
    let jobs = [stamped(1, 9), stamped(2, 5), stamped(3, 3), stamped(4, 5)];
    let order: Vec<u64> = run(engine(Channels::Any(1)), &jobs)
        .iter()
        .map(|&(_, token)| token)
        .collect();
    assert_eq!(order, [1, 3, 2, 4], "the first is in service already");
}

#[test]
fn two_ways_at_a_time_are_faster_but_share_the_bus() {
    let both = [
        job(1, Direction::FromHost, 65_536),
        job(2, Direction::ToHost, 65_536),
    ];
    let last = |ended: &[(Time, u64)]| ended.iter().map(|&(at, _)| at).max().expect("jobs ended");
    let one = last(&run(engine(Channels::Any(1)), &both));
    let two = last(&run(engine(Channels::OneEachWay), &both));
    let alone = last(&run(engine(Channels::Any(1)), &both[..1]));
    assert!(two < one * 2 / 3, "{two} against {one}");
    assert!(two >= alone);
}

#[test]
fn reads_are_refused_once_for_each_burst() {
    let mut dma = engine(Channels::Any(1));
    let (mut bus, mut memory) = (bus(), memory());
    let mut wake = dma.start(0, job(1, Direction::FromHost, 1_000));
    while let Some(next) = wake {
        wake = dma
            .advance(next.at, next.channel, &mut bus, &mut memory)
            .wake;
    }
    assert_eq!(bus.retries(), 4);
    assert_eq!(bus.bus().uses(), 8);
    assert_eq!(memory.bus().uses(), 4);
}

#[test]
fn programmed_writes_do_not_stall() {
    let mut bus = bus();
    let posted = bus.programmed_write(0, 4);
    assert_eq!(posted.accepted, 0);
    assert!(posted.delivered > 150 * NANOSECOND);
    // Stores in a row wait for the bus.
    let far = bus.programmed_write(1_000_000_000, 64);
    let next = bus.programmed_write(1_000_000_000, 4);
    assert_eq!(next.accepted + 150 * NANOSECOND, far.delivered);
}
