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
fn run(dma: HostDma, jobs: &[Job]) -> Vec<(Time, u64)> {
    run_beside(dma, jobs, &[]).0
}

/// The same while a processor writes to the bus at these times, in order; also returns the use of both buses.
fn run_beside(mut dma: HostDma, jobs: &[Job], writes: &[Time]) -> (Vec<(Time, u64)>, [Shared; 2]) {
    let (mut bus, mut memory) = (bus(), memory());
    let mut events = Engine::new();
    for &at in writes {
        events.at(at, None);
    }
    let plan = |dma: &mut HostDma, events: &mut Engine<_>, bus: &IoBus, memory: &Memory| {
        for channel in 0..dma.channels() {
            if let Some(wake) = dma.plan(channel, bus, memory) {
                events.at(wake.at, Some(wake.channel));
            }
        }
    };
    for &job in jobs {
        dma.start(0, job);
        plan(&mut dma, &mut events, &bus, &memory);
    }
    let (mut ended, mut steps) = (Vec::new(), 0);
    loop {
        plan(&mut dma, &mut events, &bus, &memory);
        let Some(event) = events.next() else {
            break;
        };
        let now = events.now();
        if let Some(channel) = event {
            if let Some(advance) = dma.advance(now, channel, &mut bus, &mut memory) {
                steps += advance.steps;
                ended.extend(advance.finished.map(|job| (now, job.token)));
            }
        } else {
            steps += dma.catch_up((now, 0), &mut bus, &mut memory);
            bus.programmed_write(now, 8);
        }
    }
    assert!(dma.is_idle());
    assert_eq!(
        steps,
        bus.bus().uses() - writes.len() as u64 + jobs.len() as u64
    );
    (ended, [bus.bus().clone(), memory.bus().clone()])
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

/// Bursts that are carried out together are those that would have been carried out one by one, whoever else uses the bus meanwhile.
#[test]
fn planning_whole_jobs_changes_nothing() {
    let mut random = causeway_wire::random::SplitMix64::new(7);
    for round in 0..200 {
        let jobs: Vec<Job> = (0..1 + random.below(6))
            .map(|token| match random.below(2) {
                0 => job(token, Direction::FromHost, random.below(6_000)),
                _ => job(token, Direction::ToHost, random.below(6_000)),
            })
            .collect();
        let mut writes: Vec<Time> = (0..random.below(40))
            .map(|_| random.below(100_000 * NANOSECOND))
            .collect();
        writes.sort();
        for channels in [Channels::Any(1), Channels::Any(3), Channels::OneEachWay] {
            let mut each_step = engine(channels);
            each_step.plan_each_step();
            let (one_by_one, used) = run_beside(each_step, &jobs, &writes);
            let (planned, planned_use) = run_beside(engine(channels), &jobs, &writes);
            assert_eq!(planned, one_by_one, "round {round}, {channels:?}");
            let busy =
                |of: &[Shared; 2]| of.each_ref().map(|of| (of.busy(), of.waited(), of.uses()));
            assert_eq!(
                busy(&planned_use),
                busy(&used),
                "round {round}, {channels:?}"
            );
        }
    }
}

#[test]
fn reads_are_refused_once_for_each_burst() {
    let mut dma = engine(Channels::Any(1));
    let (mut bus, mut memory) = (bus(), memory());
    dma.start(0, job(1, Direction::FromHost, 1_000));
    while let Some(next) = dma.plan(0, &bus, &memory) {
        dma.advance(next.at, next.channel, &mut bus, &mut memory);
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
