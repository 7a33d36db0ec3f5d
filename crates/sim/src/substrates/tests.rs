use super::*;
use crate::am::port::{Awaited, Function, Work};
use crate::am::{ActiveMessages, Arrival, HandlerId, Handlers};
use crate::engine::{MICROSECOND, MILLISECOND};
use crate::programs::barrier::{Barrier, HasBarrier, on_arrival, on_release, pass};
use crate::programs::ping::Ping;

/// What a program of these tests does.
type Body = fn(&mut dyn FnMut(Act) -> Result<(), AmError>, Rank) -> Result<(), AmError>;

/// One thing that a program of these tests can do.
enum Act {
    Send(Rank),
    AwaitFrom(Rank),
    Poll,
    Compute(u64),
    Barrier,
}

#[derive(Debug, Default)]
struct Received {
    barrier: Barrier,
    from: Vec<Rank>,
}

impl HasBarrier for Received {
    fn barrier(&mut self) -> &mut Barrier {
        &mut self.barrier
    }
}

fn on_word(arrival: &mut Arrival<'_, Received>) -> Result<(), AmError> {
    let source = arrival.source;
    arrival.state.from.push(source);
    Ok(())
}

const HANDLERS: &Handlers<Received> = &[on_arrival, on_release, on_word];

#[derive(Clone)]
struct Script(Body);

impl Program for Script {
    type State = Received;
    type Output = ();

    fn handlers() -> &'static Handlers<Received> {
        HANDLERS
    }

    fn begin(&self, _rank: Rank, _ranks: u32) -> Result<Received, AmError> {
        Ok(Received::default())
    }

    fn run<A: ActiveMessages<State = Received>>(&self, am: &mut A) -> Result<(), AmError> {
        let rank = am.rank();
        let mut act = |act: Act| match act {
            Act::Send(to) => am.request(to, HandlerId(2), &[]),
            Act::AwaitFrom(from) => am.wait_until(Awaited::from(from, "a word"), |received| {
                received.from.contains(&from)
            }),
            Act::Poll => am.poll().map(|_| ()),
            Act::Compute(cycles) => {
                am.work(Work {
                    integer: cycles,
                    ..Work::default()
                });
                Ok(())
            }
            Act::Barrier => pass(am, HandlerId(0), HandlerId(1)),
        };
        (self.0)(&mut act, rank)
    }
}

fn costs() -> Costs {
    Costs::psnow().expect("the shipped table is right")
}

fn setup(combination: Combination, ranks: u32, processes_per_host: u32) -> Setup {
    Setup {
        processes_per_host,
        ..Setup::new(combination, costs(), ranks)
    }
}

const ALL: [Combination; 5] = [
    Combination::Direct(MICROSECOND),
    Combination::C1Ni1,
    Combination::C1Ni2,
    Combination::C2Ni3,
    Combination::C3Ni3,
];

#[test]
fn a_circle_of_waiters_is_told_by_name() {
    for combination in ALL {
        let script = Script(|act, rank| act(Act::AwaitFrom((rank + 1) % 3)));
        let error = run(&setup(combination, 3, 1), &script).expect_err("nobody sends");
        let text = error.to_string();
        assert!(matches!(error, SimError::Deadlock { .. }), "{text}");
        for rank in 0..3 {
            let line = format!(
                "process {rank} waits for a word from process {}",
                (rank + 1) % 3
            );
            assert!(text.contains(&line), "{text}");
        }
    }
}

#[test]
fn waiting_for_a_process_that_has_ended_is_told() {
    let script = Script(|act, rank| match rank {
        0 => {
            act(Act::Send(1))?;
            act(Act::AwaitFrom(1))
        }
        _ => Ok(()),
    });
    let error = run(&setup(Combination::C2Ni3, 2, 1), &script).expect_err("1 ends at once");
    let text = error.to_string();
    assert!(
        text.contains("process 0 waits for a word from process 1"),
        "{text}"
    );
    assert!(text.contains("process 1 has ended with 1 messages unread, the first from process 0"));
}

#[test]
fn a_program_that_computes_for_ever_is_told() {
    let script = Script(|act, rank| match rank {
        0 => {
            act(Act::Send(1))?;
            act(Act::AwaitFrom(1))
        }
        _ => loop {
            act(Act::Compute(1_000_000))?;
        },
    });
    let error = run(&setup(Combination::C2Ni3, 2, 1), &script).expect_err("1 never polls");
    let text = error.to_string();
    assert!(
        matches!(error, SimError::NeverPolls { rank: 1, .. }),
        "{text}"
    );
    assert!(
        text.contains("process 0 waits for a word from process 1"),
        "{text}"
    );
    assert!(text.contains("process 1 last polled at 0 µs and runs with 1 messages unread"));
}

#[test]
fn a_program_that_polls_for_ever_is_told() {
    let script = Script(|act, _| {
        loop {
            act(Act::Compute(1_000_000))?;
            act(Act::Poll)?;
        }
    });
    let setup = Setup {
        limits: Limits {
            longest: 100 * SECOND,
            ..setup(Combination::C2Ni3, 2, 1).limits
        },
        ..setup(Combination::C2Ni3, 2, 1)
    };
    let error = run(&setup, &script).expect_err("it never ends");
    assert!(matches!(error, SimError::TooLong { .. }), "{error}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let script = Script(|_, _| Ok(()));
    for (ranks, per_host) in [(0, 1), (1, 0)] {
        let error = run(&setup(Combination::C2Ni3, ranks, per_host), &script);
        assert!(matches!(error, Err(SimError::Settings(_))));
    }
}

#[test]
fn processes_of_one_host_share_its_processor() {
    // 50 ms each at 100 MHz.
    let script = Script(|act, _| act(Act::Compute(5_000_000)));
    let alone = run(&setup(Combination::C2Ni3, 2, 1), &script).expect("it runs");
    assert_eq!(alone.ended, 50 * MILLISECOND);
    let shared = run(&setup(Combination::C2Ni3, 2, 2), &script).expect("it runs");
    // The processes alternate in slices of 10 ms. The switches are part of them, so that each process needs a short sixth one.
    let switches = 11;
    let switch = 30 * MICROSECOND;
    assert_eq!(shared.ended, 100 * MILLISECOND + switches * switch);
    let first = shared.processes[0].ended;
    assert!(first > 90 * MILLISECOND && first < shared.ended);
    let compute: Time = shared
        .processes
        .iter()
        .map(|process| process.time_in(Function::Compute))
        .sum();
    assert_eq!(
        compute, shared.ended,
        "switches go on the accounts of who is switched to"
    );
}

#[test]
fn two_processors_run_two_processes_at_once() {
    let script = Script(|act, rank| {
        act(Act::Compute(5_000_000))?;
        act(Act::Send(1 - rank))?;
        act(Act::AwaitFrom(1 - rank))
    });
    let setup = Setup {
        processors_per_host: 2,
        ..setup(Combination::C2Ni3, 2, 2)
    };
    let outcome = run(&setup, &script).expect("it runs");
    assert!(outcome.ended < 51 * MILLISECOND, "{}", outcome.ended);
}

#[test]
fn a_program_that_computes_out_of_all_proportion_is_told() {
    let script = Script(|act, _| {
        act(Act::Compute(u64::MAX))?;
        act(Act::Poll)
    });
    let error = run(&setup(Combination::C2Ni3, 2, 2), &script).expect_err("it never ends");
    assert!(matches!(error, SimError::TooLong { .. }), "{error}");
}

#[test]
fn words_get_through_while_others_compute_and_wait() {
    for combination in ALL {
        for per_host in [1, 2, 4] {
            let script = Script(|act, rank| {
                act(Act::Compute(u64::from(rank) * 300_000))?;
                act(Act::Send((rank + 1) % 8))?;
                act(Act::Send((rank + 3) % 8))?;
                act(Act::AwaitFrom((rank + 7) % 8))?;
                act(Act::AwaitFrom((rank + 5) % 8))?;
                act(Act::Barrier)
            });
            let outcome = run(&setup(combination, 8, per_host), &script).expect("it runs");
            for (process, rank) in outcome.processes.iter().zip(0_u64..) {
                assert!(process.time_in(Function::Compute) >= rank * 3 * MILLISECOND);
                assert!(process.processor_time() <= process.ended);
            }
            // No processor did more than it had time for.
            for host in outcome.processes.chunks(per_host as usize) {
                let busy: Time = host.iter().map(|process| process.processor_time()).sum();
                assert!(busy <= outcome.ended, "{combination:?} {per_host}");
            }
        }
    }
}

#[test]
fn misses_happen_once_for_each_page() {
    let outcome = run(&setup(Combination::C3Ni3, 2, 1), &Ping::bulk(100, 1024)).expect("it runs");
    // The sender's page, its receive queue's; the receiver's queue's and its buffer's.
    assert_eq!(outcome.tlb_misses, 4);
    let pinned = run(&setup(Combination::C2Ni3, 2, 1), &Ping::bulk(100, 1024)).expect("it runs");
    assert_eq!((pinned.tlb_misses, pinned.interrupted), (0, vec![0, 0]));
}

#[test]
fn native_time_can_be_charged_instead() {
    let setup = Setup {
        clocking: Clocking::Measured {
            cycles_per_microsecond: 100,
        },
        ..setup(Combination::C2Ni3, 4, 1)
    };
    let fft = crate::programs::fft::Fft::new(1 << 12).expect("a power of two");
    let outcome = run(&setup, &fft).expect("it runs, and its result is right");
    let compute = outcome.processes[0].time_in(Function::Compute);
    assert!(compute > 0);
}

#[test]
fn a_thousand_processes_pass_a_barrier() {
    let script = Script(|act, _| {
        act(Act::Barrier)?;
        act(Act::Barrier)
    });
    let outcome = run(&setup(Combination::C2Ni3, 1_024, 4), &script).expect("it runs");
    assert_eq!(outcome.processes.len(), 1_024);
}

#[test]
fn costs_are_read_strictly() {
    let text = include_str!("../../profiles/substrates.toml");
    let complaint = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let error = Costs::read("costs.toml", &text.replace(from, to)).expect_err(to);
        error.to_string()
    };
    let unit = complaint("{ value = \"12 cycles\"", "{ value = \"12 us\"");
    assert!(
        unit.contains("costs.toml:12") && unit.contains("cycles"),
        "{unit}"
    );
    let unknown = complaint("quantum =", "quanta =");
    assert!(unknown.contains("lacks `quantum`"), "{unknown}");
    let stopped = complaint("{ value = \"50 MHz\"", "{ value = \"0 MHz\"");
    assert!(stopped.contains("np_clock"), "{stopped}");
    let odd = complaint("{ value = \"4 KiB\"", "{ value = \"5000 B\"");
    assert!(odd.contains("power of two"), "{odd}");
    let hasty = complaint("{ value = \"10 ms\"", "{ value = \"10 us\"");
    assert!(hasty.contains("longer than a context switch"), "{hasty}");
    let huge = complaint(
        "{ value = \"8000 cycles\"",
        "{ value = \"99999999999 cycles\"",
    );
    assert!(huge.contains("at most 1000000 cycles"), "{huge}");
    let one_way = complaint("tlb_ways = { value = 4", "tlb_ways = { value = 1");
    assert!(one_way.contains("from 2 to 64"), "{one_way}");
}

#[test]
fn the_stages_of_a_way_add_up() {
    for combination in Combination::FOUR {
        let way = one_way::warm(combination, costs(), one_way::SHORT_BYTES).expect("it runs");
        let stages: Time = way.stages.iter().map(|(_, time)| time).sum();
        assert_eq!(stages, way.total, "{}", combination.name());
        let names: Vec<_> = way.stages.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&"wire") && names.last() == Some(&"waiting for polls"));
    }
}

#[test]
fn a_message_that_fits_in_a_descriptor_goes_without_dma() {
    let settings = munet::MuNet::shipped().expect("the shipped table is right");
    let [short, long] =
        [128, 129].map(|bytes| munet::anatomy(settings, bytes, 1).expect("it runs"));
    let header = |rows: [Time; 6]| rows[1] - rows[0];
    assert!(header(long) > header(short) + MICROSECOND / 2);
    assert!(short.is_sorted() && long.is_sorted());
}

/// The same to the picosecond, in this run, in another, and in every build.
#[test]
fn times_are_the_same_everywhere() {
    let times = || {
        let pongs = Combination::FOUR.map(|one| {
            let outcome = run(&setup(one, 2, 1), &Ping::pong(16)).expect("it runs");
            outcome.processes[0].ended
        });
        let fft = crate::programs::fft::Fft::new(1 << 12).expect("a power of two");
        let outcome = run(&setup(Combination::C3Ni3, 8, 2), &fft).expect("it runs");
        (pongs, outcome.ended, outcome.events)
    };
    assert_eq!(times(), times());
    // A new calibration changes these.
    assert_eq!(
        times(),
        (
            [14_612_160_000, 14_685_120_000, 1_231_600_000, 1_607_000_000],
            11_988_320_000,
            2_050
        )
    );
}
