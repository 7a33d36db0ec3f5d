//! The platform of chapter 6 as a whole: hosts, messages, strategies and programs together.

use causeway_cosched::Strategy;

use causeway_sim::catalogue::{self, Entry, TaskResult};
use causeway_sim::coscheduling::costs::Costs;
use causeway_sim::coscheduling::programs::{self, NODES, Op, Program};
use causeway_sim::coscheduling::{Experiment, Outcome, run, workloads};
use causeway_sim::engine::{MICROSECOND, MILLISECOND, SECOND, Time};
use causeway_sim::figures::{Effort, open};

fn costs() -> Costs {
    Costs::shipped().expect("the profile is right")
}

/// A platform on which all processes begin at once, and no daemons run.
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
    run(&experiment).expect("the run ends")
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
fn computing_processes_share_a_processor_evenly() {
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
fn comparing_arrival_times_takes_processor_time_from_all() {
    let jobs: Vec<Program> = (0..4)
        .map(|_| programs::sequential("s", 0, 2 * SECOND))
        .collect();
    let mut costs = quiet();
    costs.host.look_for_newest = 250 * MICROSECOND;
    let took = |strategy| seconds(outcome(&costs, strategy, &jobs).completion());
    // Four endpoints every 10 ms: 1 ms of each 10.
    let ratio = took(Strategy::PBT) / took(Strategy::PB);
    assert!((1.10..1.12).contains(&ratio), "{ratio}");
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

/// A job whose process on node 0 waits for node 1, while a message of node 2 is there already.
fn waits_beside_another_message() -> Program {
    job(
        &[
            &[Op::Receive(1), Op::Receive(2)],
            &[Op::Compute(SECOND), Op::Send(0, 8)],
            &[Op::Send(0, 8)],
        ],
        1,
    )
}

#[test]
fn a_process_may_spin_on_while_it_has_a_message_that_it_does_not_wait_for() {
    let jobs = [waits_beside_another_message()];
    let mut costs = quiet();
    let blocking = outcome(&costs, Strategy::SB, &jobs);
    assert_eq!(blocking.counts.blocks, 1);
    assert!(blocking.jobs[0].spun < MILLISECOND, "{blocking:?}");
    costs.times.gives_up_without_any = true;
    let spinning = outcome(&costs, Strategy::SB, &jobs);
    assert_eq!(spinning.counts.blocks, 0);
    assert!(spinning.jobs[0].spun > SECOND * 9 / 10, "{spinning:?}");
    // A process without any message blocks as before.
    let alone = job(
        &[&[Op::Receive(1)], &[Op::Compute(SECOND), Op::Send(0, 8)]],
        1,
    );
    assert_eq!(outcome(&costs, Strategy::SB, &[alone]).counts.blocks, 1);
}

#[test]
fn timers_that_drift_change_how_often_nodes_call_their_periodic_function() {
    let jobs: Vec<Program> = (0..NODES)
        .map(|node| programs::sequential("s", node, 2 * SECOND))
        .collect();
    let mut costs = quiet();
    costs.host.look = 100 * MICROSECOND;
    // Each node's processor loses the time of the periodic function, which a slow timer calls less
    // often.
    let times = |costs: &Costs| -> Vec<Time> {
        let outcome = outcome(costs, Strategy::PB, &jobs);
        outcome
            .jobs
            .iter()
            .map(|job| job.ended - job.began)
            .collect()
    };
    let apart = |times: &[Time]| {
        let (least, most) = (times.iter().min(), times.iter().max());
        most.unwrap_or(&0) - least.unwrap_or(&0)
    };
    let same = apart(&times(&costs));
    costs.host.drift = 1_000_000 / 4;
    let different = apart(&times(&costs));
    assert!(
        different > same + 10 * MILLISECOND,
        "{same} ps, {different} ps"
    );
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
        run(&experiment).expect("the run ends")
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

/// Each job's part of each node's processor while all jobs are there.
fn parts(costs: &Costs, jobs: &[Program], seed: u64) -> (Outcome, Vec<Vec<f64>>) {
    let experiment = Experiment {
        costs,
        settings: costs.settings(Strategy::FB),
        jobs,
        seed,
        probe: Some(SECOND / 2),
    };
    let outcome = run(&experiment).expect("the run ends");
    let intervals = outcome.shared_intervals;
    assert!(intervals > 10, "{intervals} intervals");
    let nodes = outcome.shares_of_nodes.chunks(jobs.len());
    let parts = nodes.map(<[f64]>::to_vec).collect();
    (outcome, parts)
}

/// Whether each part is within a tenth of an equal one.
fn assert_equal(parts: &[f64], what: &str) {
    let fair = parts.iter().sum::<f64>() / parts.len() as f64;
    for part in parts {
        let ratio = part / fair;
        assert!((0.9..1.1).contains(&ratio), "{what}: {parts:?}");
    }
}

#[test]
fn fair_boost_gives_each_kind_of_job_its_share() {
    let costs = costs();
    let grains = costs.grains;
    let (work, sleep) = (2 * MILLISECOND, 18 * MILLISECOND);
    let jobs = [
        programs::life("life 12 %", grains.life_high),
        programs::mg("mg", grains.mg),
        programs::sequential("sequential", 0, 25 * SECOND),
        programs::disk_bound("disk", 0, work, sleep, 4_000),
    ];
    let (outcome, nodes) = parts(&costs, &jobs, 1);
    let parts = &nodes[0];
    // A process that waits for its device for nine tenths of its time wants a tenth of the processor, and gets it; the others
    // share the rest.
    let (disk, others) = parts.split_last().expect("there are four");
    assert!((0.09..=0.1).contains(disk), "{parts:?}");
    assert_equal(others, "others");
    assert!(others.iter().sum::<f64>() > 0.88, "{parts:?}");
    for (node, parts) in nodes.iter().enumerate().skip(1) {
        assert_equal(&parts[..2], &format!("node {node}"));
    }
    // Nodes that the sequential jobs are not on coschedule with the one that they are on.
    for job in &outcome.jobs[..2] {
        assert!(seconds(job.ended) < 25.0 * 3.0 * 1.2, "{outcome:?}");
    }
}

/// The claim on our own strategy, on each node, with several seeds, and programs of half the thesis's length.
#[test]
fn fair_boost_is_as_fast_as_periodic_boost_and_fair_in_every_workload() {
    let costs = costs();
    let (mut ours, mut theirs) = (0.0, 0.0);
    for workload in 1..=workloads::WORKLOADS.len() {
        let jobs: Vec<Program> = workloads::jobs(workload, &costs.grains)
            .into_iter()
            .map(|job| job.shortened(2))
            .collect();
        for seed in 1..=3 {
            let (fair, nodes) = parts(&costs, &jobs, seed);
            for (node, parts) in nodes.iter().enumerate() {
                assert_equal(
                    parts,
                    &format!("workload {workload}, seed {seed}, node {node}"),
                );
            }
            if seed == 1 {
                ours += seconds(fair.completion());
            }
        }
        theirs += seconds(outcome(&costs, Strategy::PB, &jobs).completion());
    }
    assert!(ours <= theirs, "FB {ours} s, PB {theirs} s");
    // Ideal coscheduling would take 9 times 50 s and 3 times 25 s.
    assert!(ours < 525.0 * 1.1, "{ours} s");
}

/// Every statement of the text holds, or is listed as open; programs are shortened.
#[test]
fn tables_and_figures_of_chapter_6_are_held_against_their_text() {
    for number in ["6.4", "6.5", "6.6", "6.7"] {
        let table = catalogue::table(number).expect("a table of the catalogue");
        let mut cells = Vec::new();
        for task in Entry::Table(table)
            .tasks(Effort::Quick)
            .expect("it is planned")
        {
            match task.run().expect("it runs") {
                TaskResult::Cells(found) => cells.extend(found),
                TaskResult::Rows(_) => panic!("a table has cells"),
            }
        }
        assert!(cells.iter().all(|cell| cell.paper.is_some()));
        for verdict in table.judge(&cells) {
            let is_open = open::why(number, &verdict.claim).is_some();
            assert!(
                verdict.holds || is_open,
                "table {number}: {}: {}",
                verdict.claim,
                verdict.full_evidence()
            );
        }
    }
}
