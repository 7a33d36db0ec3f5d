//! The platform of chapter 6 as a whole: hosts, messages, strategies and programs together.

use causeway_cosched::Strategy;

use causeway_sim::coscheduling::costs::Costs;
use causeway_sim::coscheduling::programs::{self, NODES, Op, Program};
use causeway_sim::coscheduling::{Experiment, Outcome, run};
use causeway_sim::engine::{MICROSECOND, MILLISECOND, SECOND, Time};

fn costs() -> Costs {
    Costs::shipped().expect("the profile is right")
}

/// A platform on which everything begins at once, and nothing else goes on.
fn quiet() -> Costs {
    let mut costs = costs();
    costs.host.job_skew = 1;
    costs.host.process_skew = 1;
    costs.host.daemon_work = 0;
    costs
}

fn outcome(costs: &Costs, strategy: Strategy, jobs: &[Program]) -> Outcome {
    let experiment = Experiment {
        costs,
        settings: costs.settings(strategy),
        jobs,
        seed: 1,
        probe: None,
    };
    run(&experiment).expect("it ends")
}

/// A job of the ranks that are given; others are not there.
fn job(ranks: &[&[Op]], repeats: u32) -> Program {
    let mut bodies: Vec<Vec<Op>> = ranks.iter().map(|ops| ops.to_vec()).collect();
    bodies.resize(NODES, Vec::new());
    Program::new("job", bodies, repeats, 0)
}

fn seconds(time: Time) -> f64 {
    time as f64 / SECOND as f64
}

#[test]
fn a_message_takes_what_the_thesis_says_with_every_strategy() {
    let ping = job(
        &[
            &[Op::Send(1, 0), Op::Receive(1)],
            &[Op::Receive(0), Op::Send(0, 0)],
        ],
        1_000,
    );
    let costs = quiet();
    for (name, strategy) in Strategy::all() {
        let outcome = outcome(&costs, strategy, std::slice::from_ref(&ping));
        let one_way = outcome.completion() / 2_000;
        let apart = one_way.abs_diff(32 * MICROSECOND);
        assert!(apart < 2 * MICROSECOND, "{name}: {one_way} ps");
    }
}

#[test]
fn long_messages_move_at_the_platforms_rate() {
    let bytes = 1 << 20;
    let stream = job(&[&[Op::Send(1, bytes)], &[Op::Receive(0)]], 100);
    let mut costs = quiet();
    costs.messages.window = 4;
    let outcome = outcome(&costs, Strategy::LOCAL, &[stream]);
    let rate = 100.0 * f64::from(bytes) / seconds(outcome.completion());
    assert!((25.5e6..26.3e6).contains(&rate), "{rate:.0} B/s");
}

#[test]
fn waiting_for_long_is_computed_and_not_stepped() {
    let wait = job(
        &[
            &[Op::Receive(1)],
            &[Op::Compute(100 * SECOND), Op::Send(0, 8)],
        ],
        1,
    );
    let outcome = outcome(&quiet(), Strategy::LOCAL, &[wait]);
    let spun = outcome.jobs[0].spun;
    assert!((99 * SECOND..101 * SECOND).contains(&spun), "{spun}");
    // Quanta, the second's raise and daemons: not 800,000 ticks.
    assert!(outcome.events < 20_000, "{} events", outcome.events);
}

#[test]
fn what_computes_shares_a_processor_evenly() {
    let jobs: Vec<Program> = (0..4)
        .map(|_| programs::sequential("s", 0, 2 * SECOND))
        .collect();
    for strategy in [Strategy::LOCAL, Strategy::PB, Strategy::FB] {
        let outcome = outcome(&quiet(), strategy, &jobs);
        let completion = seconds(outcome.completion());
        assert!((8.0..8.1).contains(&completion), "{completion} s");
        for job in &outcome.jobs {
            assert!(seconds(job.ended) > 7.2, "{job:?}");
        }
    }
}

#[test]
fn a_process_that_blocks_leaves_its_processor_to_others() {
    let wait = job(
        &[&[Op::Receive(1)], &[Op::Compute(SECOND), Op::Send(0, 8)]],
        1,
    );
    let other = programs::sequential("s", 0, SECOND);
    let jobs = [wait, other];
    let local = outcome(&quiet(), Strategy::LOCAL, &jobs);
    let blocking = outcome(&quiet(), Strategy::SB, &jobs);
    assert!(seconds(local.jobs[1].ended) > 1.4, "{local:?}");
    assert!(seconds(blocking.jobs[1].ended) < 1.01, "{blocking:?}");
    assert_eq!(blocking.counts.blocks, 1);
    assert_eq!(blocking.counts.interrupts, 1);
    assert!(blocking.jobs[0].spun < MILLISECOND);
}

#[test]
fn a_message_to_a_process_that_does_not_run_makes_it_run_soon() {
    // The second job's process on node 0 has to reply, while another computes there.
    let asks = job(
        &[
            &[Op::Receive(1), Op::Send(1, 8)],
            &[Op::Compute(2 * MILLISECOND), Op::Send(0, 8), Op::Receive(0)],
        ],
        500,
    );
    let jobs = [programs::sequential("s", 0, 20 * SECOND), asks];
    let took = |strategy| seconds(outcome(&quiet(), strategy, &jobs).jobs[1].ended);
    let local = took(Strategy::LOCAL);
    for strategy in [Strategy::SB, Strategy::DCS_SB, Strategy::PB_SB] {
        let found = took(strategy);
        assert!(found < local * 0.9, "{strategy:?}: {found} s, {local} s");
    }
}

#[test]
fn an_outcome_depends_on_its_seed_and_nothing_else() {
    let costs = costs();
    let jobs = [
        programs::life("a", costs.grains.life_high).shortened(40),
        programs::mg("b", costs.grains.mg).shortened(40),
    ];
    let with = |seed| {
        let experiment = Experiment {
            costs: &costs,
            settings: costs.settings(Strategy::PB_SY),
            jobs: &jobs,
            seed,
            probe: Some(SECOND / 10),
        };
        run(&experiment).expect("it ends")
    };
    assert_eq!(with(3), with(3));
    assert_ne!(with(3), with(4));
}

#[test]
fn no_strategy_loses_a_wake_up_or_a_message() {
    let costs = costs();
    let grains = costs.grains;
    let jobs = [
        programs::life("life", grains.life_high).shortened(100),
        programs::lu("lu", grains.lu).shortened(100),
        programs::mg("mg", grains.mg).shortened(100),
        programs::disk_bound("disk", 2, MILLISECOND, 10 * MILLISECOND, 20),
    ];
    for window in [0, 1, 3] {
        let mut costs = costs.clone();
        costs.messages.window = window;
        for (name, strategy) in Strategy::all() {
            let outcome = outcome(&costs, strategy, &jobs);
            let used: Time = outcome.jobs.iter().map(|job| job.cpu).sum();
            let there = NODES as u64 * (outcome.completion() + 2 * SECOND);
            assert!(used <= there, "{name}: more time used than there was");
            assert!(
                outcome.jobs.iter().all(|job| job.ended > job.began),
                "{name}"
            );
        }
    }
}

#[test]
fn each_program_alone_takes_25_seconds_with_its_part_of_communication() {
    let costs = costs();
    let grains = costs.grains;
    let expected = [
        (programs::life("life 3.5 %", grains.life_low), 3.5),
        (programs::life("life 12 %", grains.life_high), 12.0),
        (programs::mg("mg", grains.mg), 26.0),
        (programs::lu("lu", grains.lu), 16.0),
        (programs::ep("ep", grains.ep), 0.5),
    ];
    for (program, communication) in expected {
        let computes = seconds(program.computes());
        let outcome = outcome(&costs, Strategy::LOCAL, std::slice::from_ref(&program));
        let took = seconds(outcome.completion());
        let found = 100.0 * (1.0 - computes / took);
        assert!((24.0..26.0).contains(&took), "{}: {took} s", program.name);
        assert!(
            (found - communication).abs() < 1.0,
            "{}: {found:.1} % communication",
            program.name
        );
    }
}

/// Each job's processor time on a node over its fair share, the equal one, while all of them are there.
fn fairness(costs: &Costs, strategy: Strategy, jobs: &[Program]) -> Vec<f64> {
    let experiment = Experiment {
        costs,
        settings: costs.settings(strategy),
        jobs,
        seed: 1,
        probe: Some(SECOND),
    };
    let outcome = run(&experiment).expect("it ends");
    let first_end = outcome.jobs.iter().map(|job| job.ended).min().unwrap_or(0);
    // All have begun after two seconds.
    let probes: Vec<&Vec<f64>> = outcome
        .shares
        .iter()
        .filter(|(at, _)| (3 * SECOND..first_end).contains(at))
        .map(|(_, shares)| shares)
        .collect();
    assert!(probes.len() > 5, "{} probes", probes.len());
    let sum = |job: usize| probes.iter().map(|shares| shares[job]).sum::<f64>();
    let all: f64 = (0..jobs.len()).map(sum).sum();
    (0..jobs.len())
        .map(|job| sum(job) * jobs.len() as f64 / all)
        .collect()
}

#[test]
fn fair_boost_gives_each_kind_of_job_its_share() {
    let costs = costs();
    let grains = costs.grains;
    let jobs = [
        programs::life("life 12 %", grains.life_high),
        programs::life("life 3.5 %", grains.life_low),
        programs::mg("mg", grains.mg),
        programs::sequential("sequential", 0, 25 * SECOND),
    ];
    let found = fairness(&costs, Strategy::FB, &jobs);
    for share in &found {
        assert!((0.9..1.1).contains(share), "{found:?}");
    }
}
