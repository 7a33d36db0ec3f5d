use super::*;

fn wrong(text: &str) -> String {
    Trace::parse(text).expect_err(text).to_string()
}

/// The events of a process, without its computing.
fn actions(trace: &Trace, rank: usize) -> Vec<Action> {
    let actions = trace.ranks[rank].iter().map(|event| event.action);
    actions
        .filter(|action| *action != Action::Nothing)
        .collect()
}

fn computed(trace: &Trace, rank: usize) -> f64 {
    trace.ranks[rank].iter().map(|event| event.compute_us).sum()
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    assert!(wrong("0 send 1 8\n").contains("line 1"), "fields");
    assert!(wrong("\n0 put 1 8 0\n").contains("line 2"), "operation");
    assert!(wrong("0 send 0 8 0\n").contains("its own peer"));
    assert!(wrong("0 send 9999 8 0\n").contains("no process"));
    assert!(wrong("0 send 1 -8 0\n").contains("no size"));
    assert!(wrong("0 send 1 8 NaN\n").contains("no time"));
    assert!(wrong("0 send 1 8 0 x\n").contains("no tag"));
    assert!(wrong("0 compute 1 0 5\n").contains("`-`"));
    assert!(wrong("0 send 1 8 0\n").contains("receives 0 messages"));
    assert!(wrong("0 send 1 8 0\n1 recv 0 9 0\n").contains("line 2"));
    assert!(wrong("0 send 1 8 0 1\n1 recv 0 8 0 2\n").contains("that tag"));
    assert!(wrong("# nothing\n").contains("no events"));
}

#[test]
fn collective_operations_that_do_not_fit_each_other_are_refused() {
    assert!(wrong("0 barrier 1 0 0\n").contains("`-`"));
    assert!(wrong("0 barrier - 8 0\n").contains("0 bytes"));
    assert!(wrong("0 bcast - 8 0\n").contains("no process"));
    assert!(wrong("0 bcast 9 8 0 0-1\n1 bcast 9 8 0 0-1\n").contains("takes no part"));
    assert!(wrong("2 barrier - 0 0 0-1\n").contains("process 2 takes no part"));
    assert!(wrong("0 barrier - 0 0 0-1,1\n").contains("named twice"));
    assert!(wrong("0 barrier - 0 0 1-0\n").contains("ends before"));
    assert!(wrong("0 barrier - 0 0 0-4294967295\n").contains("no process"));
    assert!(wrong("0 barrier - 0 0\n1 compute - 0 0\n").contains("in 0"));
    assert!(wrong("0 barrier - 0 0\n1 scan - 0 0\n").contains("line 1"));
    assert!(wrong("0 bcast 0 8 0\n1 bcast 1 8 0\n").contains("another root"));
    let text: String = (0..4_096)
        .map(|rank| format!("{rank} alltoall - 8 0\n"))
        .collect();
    assert!(wrong(&text).contains("more than"));
}

#[test]
fn a_receive_is_for_the_message_with_its_tag() {
    let text = "0 send 1 8 0 1\n0 send 1 16 0 2\n0 send 1 24 0 1\n1 recv 0 16 0 2\n1 recv 0 8 0 1\n1 recv 0 24 0 1\n";
    let trace = Trace::parse(text).expect("it is a trace");
    let wanted = [2, 1, 3].map(|place| Action::Receive(0, place));
    assert_eq!(actions(&trace, 1), wanted);
}

#[test]
fn an_operation_of_some_processes_knows_their_order_and_the_root_by_its_number() {
    // Process 3 is rank 0 of these, and 1 is the root.
    let text = "3 gather 1 8 5 3,1\n1 gather 1 0 5 3,1\n0 compute - 0 1\n2 compute - 0 1\n";
    let trace = Trace::parse(text).expect("it is a trace");
    assert_eq!(trace.ranks(), 4);
    assert_eq!(actions(&trace, 3), [Action::Send(1, 8)]);
    assert_eq!(actions(&trace, 1), [Action::Receive(3, 1)]);
    assert_eq!(computed(&trace, 3), 5.0);
    // What the root of a scatter says counts, and of others the most.
    let text = "0 scatter 0 16 0\n1 scatter 0 99 0\n";
    let trace = Trace::parse(text).expect("it is a trace");
    assert_eq!(actions(&trace, 0), [Action::Send(1, 16)]);
}

/// A trace of an MPI program with these lines, which have the columns of messages or of calls.
fn recorded(lines: &[&str]) -> String {
    let mut text = "# causeway trace 2, 2 processes\n# rank thread …\n".to_owned();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[test]
fn a_recorded_program_computes_between_its_calls_and_waits_where_it_waited() {
    let trace = Trace::parse(&recorded(&[
        "0 - sent 1 7 8 1 - -",
        "0 0 MPI_Isend 1 0 8 2000 500 -",
        "0 - sent 1 7 16 2 - -",
        "0 0 MPI_Isend 1 0 16 1000 500 -",
        "0 0 MPI_File_write - - 16 1000 3000 -",
        // What has come while the process sends is waited for in the next call that may wait.
        "1 0 MPI_Irecv 0 0 8 1000 100 -",
        "1 - received 0 7 8 1 - -",
        "1 - sent 0 9 32 1 - -",
        "1 - sent 1 9 32 1 - -",
        "1 0 MPI_Send 0 0 32 4000 100 -",
        "1 - received 1 9 32 1 - -",
        "1 - received 0 7 16 2 - -",
        "1 0 MPI_Waitall - - 0 6000 100 -",
        "0 - received 1 9 32 1 - -",
        "0 0 MPI_Recv 1 0 32 0 100 -",
    ]))
    .expect("it is a trace");
    assert_eq!(trace.ranks(), 2);
    let own = [
        Action::Send(1, 8),
        Action::Send(1, 16),
        Action::Receive(1, 1),
    ];
    assert_eq!(actions(&trace, 0), own);
    // The file's time is the program's own.
    assert_eq!(computed(&trace, 0), 7.0);
    let own = [
        Action::Send(0, 32),
        Action::Receive(0, 1),
        Action::Receive(0, 2),
    ];
    assert_eq!(actions(&trace, 1), own);
    assert_eq!(computed(&trace, 1), 11.0);
    let before = trace.ranks[1]
        .iter()
        .take_while(|event| event.action != own[1]);
    assert_eq!(before.map(|event| event.compute_us).sum::<f64>(), 11.0);
}

#[test]
fn an_operation_that_does_not_block_happens_where_it_is_waited_for() {
    let both = |lines: &[&str]| {
        let of = |rank: u32| lines.iter().map(move |line| format!("{rank} {line}"));
        let all: Vec<String> = of(0).chain(of(1)).collect();
        recorded(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let text = both(&[
        "0 MPI_Iallreduce - - 8 1000 0 1,0",
        "0 MPI_Wait - - 0 1000 0 -",
        "0 MPI_Bcast 1 - 8 1000 0 -",
        "0 MPI_Reduce_scatter_block - - 8 0 0 -",
        "0 MPI_Finalize - - 0 0 0 -",
    ]);
    let trace = Trace::parse(&text).expect("it is a trace");
    let own = [
        Action::Send(1, 8),
        Action::Receive(1, 1),
        Action::Receive(1, 2),
        Action::Send(1, 8),
        Action::Receive(1, 3),
    ];
    assert_eq!(actions(&trace, 0), own);
    let first = trace.ranks[0]
        .iter()
        .position(|event| event.action == own[0]);
    let before = trace.ranks[0].iter().take(first.unwrap_or(0));
    assert_eq!(before.map(|event| event.compute_us).sum::<f64>(), 2.0);
    for (call, what) in [
        ("0 MPI_Put 1 - 8 0 0 -", "MPI_Put is not replayed"),
        ("0 MPI_Alltoallv - - 0 0 0 -", "MPI_Alltoallv is not"),
        ("0 MPI_Neighbor_allgather - - 0 0 0 -", "is not replayed"),
        ("0 MPI_Bcast_init 0 - 8 0 0 -", "is not replayed"),
        ("0 MPI_Bcast 0 - 8 0 0 ?", "inter-communicators"),
        ("0 MPI_Bcast 0 - 8 0 0", "8 fields"),
        ("0 MPI_Bcast 0 - 8 x 0 -", "no time"),
        ("- told 1 1 8 1 - -", "neither sent nor received"),
        ("- sent 1 - 8 1 - -", "no numbers"),
    ] {
        let told = wrong(&both(&[call]));
        assert!(told.contains(what) && told.contains("line 3"), "{told}");
    }
    assert!(wrong("# causeway trace 1, 2 processes\n").contains("record the program again"));
    assert!(wrong(&recorded(&["1.0 0 MPI_Barrier - - 0 0 0 -"])).contains("spawned"));
}
