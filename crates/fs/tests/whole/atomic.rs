//! Atomic access and shared pointers: accesses of several clients to several servers take effect one after the other, clients that are killed or
//! stopped do not block others, and whatever a restarted server does not know is an error.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_bmi::Memory;
use causeway_fs::client::{AppendLockWait, AtomicAccess, Client, CreateOptions, File};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Body, Errno, Operation, PointerStep, Region, ReplyBody};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Fixture, Shape, client};
use crate::liar::Liar;

const PATH: &[u8] = b"/file";
/// Bytes of a piece: pieces of the two registers alternate, over the strips of all servers.
const PIECE: u64 = 1000;
const PIECES: u64 = 400;

/// No call comes near its time-out, however loaded the machine is.
fn patient() -> Shape {
    Shape {
        timeout_ms: 60_000,
        ..Shape::default()
    }
}

/// Every second piece: the register 0 or 1.
fn register(which: u64) -> Vec<Region> {
    let region = |piece: u64| Region {
        offset: (2 * piece + which) * PIECE,
        len: PIECE,
    };
    (0..PIECES).map(region).collect()
}

fn stamps(value: u8) -> Memory {
    Memory::from_vec(vec![value; (PIECES * PIECE) as usize])
}

fn begin(client: &mut Client, file: &mut File) -> Result<AtomicAccess, causeway_fs::Error> {
    let mut wait = AppendLockWait::default();
    loop {
        if let Some(access) = client.begin_atomic(file, &mut wait)? {
            return Ok(access);
        }
    }
}

fn write(
    client: &mut Client,
    file: &mut File,
    which: u64,
    value: u8,
) -> Result<(), causeway_fs::Error> {
    let mut access = begin(client, file)?;
    client.write_atomic(file, &mut access, &register(which), &[stamps(value)])?;
    client.end_atomic(file, access)
}

/// What the two registers have, which must be one value each.
fn read(client: &mut Client, file: &mut File) -> (u8, u8) {
    let mut access = begin(client, file).unwrap();
    let all = [Region {
        offset: 0,
        len: 2 * PIECES * PIECE,
    }];
    let into = [Memory::zeroed(all[0].len as usize)];
    client.read_atomic(file, &mut access, &all, &into).unwrap();
    client.end_atomic(file, access).unwrap();
    let bytes = into[0].to_vec();
    let mut found = [const { BTreeSet::<u8>::new() }; 2];
    for (piece, bytes) in bytes.chunks(PIECE as usize).enumerate() {
        found[piece % 2].extend(bytes);
    }
    let [first, second] = found.map(Vec::from_iter);
    match (&first[..], &second[..]) {
        ([first], [second]) => (*first, *second),
        torn => panic!("a write was seen in part: {torn:?}"),
    }
}

fn create(client: &mut Client) -> File {
    client.create(PATH, &CreateOptions::default()).unwrap()
}

/// Each register has one writer, whose values ascend. In one order of all accesses, what one reader finds in both registers is nowhere
/// older and somewhere newer than what another one finds, or the same; each reader finds nothing older than before.
#[test]
fn accesses_to_several_servers_have_one_order() {
    for tcp in [false, true] {
        let fixture = Fixture::start(&Shape { tcp, ..patient() });
        let mut file = create(&mut fixture.client());
        write(&mut fixture.client(), &mut file, 0, 0).unwrap();
        write(&mut fixture.client(), &mut file, 1, 0).unwrap();
        let done = [const { AtomicBool::new(false) }; 2];
        let mut seen: Vec<(u8, u8)> = std::thread::scope(|scope| {
            for which in 0..2 {
                let (fixture, done) = (&fixture, &done);
                scope.spawn(move || {
                    let mut client = fixture.client();
                    let mut file = client.open(PATH).unwrap();
                    for value in 1..=40 {
                        write(&mut client, &mut file, which, value).unwrap();
                    }
                    done[which as usize].store(true, Ordering::Release);
                });
            }
            let read_all = || {
                let mut client = fixture.client();
                let mut file = client.open(PATH).unwrap();
                let mut seen = vec![(0, 0)];
                loop {
                    let ended = done.iter().all(|done| done.load(Ordering::Acquire));
                    let (last, now) = (seen[seen.len() - 1], read(&mut client, &mut file));
                    assert!(last.0 <= now.0 && last.1 <= now.1, "{last:?}, then {now:?}");
                    seen.push(now);
                    if ended {
                        return seen;
                    }
                }
            };
            let readers = [(); 2].map(|()| scope.spawn(read_all));
            readers
                .into_iter()
                .flat_map(|reader| reader.join().unwrap())
                .collect()
        });
        seen.sort_unstable();
        for pair in seen.windows(2) {
            assert!(pair[0].1 <= pair[1].1, "no order has both {pair:?}");
        }
        assert_eq!(seen.last(), Some(&(40, 40)));
        fixture.cluster.stop().unwrap();
    }
}

/// Not a test of its own: a process of the other tests, which takes the append lock, writes, reports that, and continues on
/// request.
#[test]
fn accessing_process() {
    if std::env::var_os("CAUSEWAY_TEST_ACCESS").is_none() {
        let fixture = Fixture::start(&patient());
        let mut client = fixture.client();
        let mut file = create(&mut client);
        write(&mut client, &mut file, 0, 7).unwrap();
        write(&mut client, &mut file, 1, 8).unwrap();
        assert_eq!(read(&mut client, &mut file), (7, 8));
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let configuration = arguments.last().expect("the configuration comes last");
    let configuration = Configuration::load(configuration.as_ref()).unwrap();
    let mut client = client(&configuration);
    let mut file = client.open(PATH).unwrap();
    let mut access = begin(&mut client, &mut file).unwrap();
    client
        .write_atomic(&mut file, &mut access, &register(0), &[stamps(100)])
        .unwrap();
    println!("wrote");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    match client.end_atomic(&file, access) {
        Ok(()) => println!("ended"),
        Err(error) => println!("failed {:?}", error.errno.name()),
    }
    std::process::exit(0);
}

struct Holder {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Starts a process; returns once it has the lock and has written.
    fn start(fixture: &Fixture) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "atomic::accessing_process", "--nocapture"])
            .arg("--test-threads=1")
            .arg(fixture.config_file())
            .env("CAUSEWAY_TEST_ACCESS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut holder = Self { process, lines };
        holder.line_with("wrote");
        holder
    }

    fn line_with(&mut self, text: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(text)).expect("a line")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

#[test]
fn a_killed_client_keeps_nobody_waiting() {
    let fixture = Fixture::start(&patient());
    let mut client = fixture.client();
    let mut file = create(&mut client);
    write(&mut client, &mut file, 1, 1).unwrap();
    for value in 2..5 {
        let mut holder = Holder::start(&fixture);
        holder.signal(Signal::KILL);
        write(&mut client, &mut file, 0, value).unwrap();
        assert_eq!(read(&mut client, &mut file), (value, 1));
        holder.process.wait().unwrap();
    }
    fixture.cluster.stop().unwrap();
}

/// Half of the time-out later, other clients get the lock, and the stopped client's operation then
/// fails.
#[test]
fn a_stopped_client_loses_its_turn_and_is_told_so() {
    let fixture = Fixture::start(&Shape {
        timeout_ms: 20_000,
        ..Shape::default()
    });
    let mut client = fixture.client();
    let mut file = create(&mut client);
    write(&mut client, &mut file, 1, 1).unwrap();
    let mut holder = Holder::start(&fixture);
    holder.signal(Signal::STOP);
    write(&mut client, &mut file, 0, 2).unwrap();
    assert_eq!(read(&mut client, &mut file), (2, 1));
    holder.signal(Signal::CONT);
    drop(holder.process.stdin.take());
    let told = holder.line_with("failed");
    assert!(told.contains("OVERTAKEN"), "{told}");
    holder.process.wait().unwrap();
    assert_eq!(read(&mut client, &mut file), (2, 1));
    fixture.cluster.stop().unwrap();
}

fn begun(client: &mut Client, file: &mut File) -> AtomicAccess {
    let mut access = begin(client, file).unwrap();
    client
        .write_atomic(file, &mut access, &register(0), &[stamps(9)])
        .unwrap();
    access
}

#[test]
fn a_restarted_server_knows_neither_turns_nor_pointers_and_says_so() {
    let mut fixture = Fixture::start(&patient());
    let mut client = fixture.client();
    let mut file = create(&mut client);
    let object = file.node.object;
    let step = |client: &mut Client, step| client.move_pointer(object, 77, step);
    assert_eq!(step(&mut client, PointerStep::Put(5)).unwrap(), 5);
    assert_eq!(step(&mut client, PointerStep::Add(3)).unwrap(), 5);
    let access = begun(&mut client, &mut file);
    assert!(matches!(file.node.body, Body::Striped { .. }));
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    let ended = client.end_atomic(&file, access).unwrap_err();
    assert_eq!(ended.errno, Errno::OVERTAKEN, "{ended}");
    for lost in [PointerStep::Add(1), PointerStep::Get] {
        let error = step(&mut client, lost).unwrap_err();
        assert_eq!(error.errno, Errno::POINTER_LOST, "{error}");
    }
    assert_eq!(step(&mut client, PointerStep::Put(8)).unwrap(), 8);
    assert_eq!(step(&mut client, PointerStep::Add(1)).unwrap(), 8);
    assert_eq!(step(&mut client, PointerStep::End).unwrap(), 9);
    let error = step(&mut client, PointerStep::Get).unwrap_err();
    assert_eq!(error.errno, Errno::POINTER_LOST, "{error}");
    // An I/O server that is started again while a client has the lock gets the rest of its writes by a new connection.
    let access = begun(&mut client, &mut file);
    let server = fixture.cluster.configuration().io_servers()[0];
    fixture.cluster.restart(server).unwrap();
    let mut access = access;
    client
        .write_atomic(&mut file, &mut access, &register(0), &[stamps(3)])
        .unwrap();
    client.end_atomic(&file, access).unwrap();
    write(&mut client, &mut file, 1, 4).unwrap();
    assert_eq!(read(&mut client, &mut file), (3, 4));
    fixture.cluster.stop().unwrap();
}

/// The reply to the release of an append lock may be lost, and the request comes again, possibly after others have had the
/// lock.
#[test]
fn a_repeated_end_of_a_turn_is_acknowledged() {
    let fixture = Fixture::start(&patient());
    let object = create(&mut fixture.client()).node.object;
    let uid = rustix::process::geteuid().as_raw();
    let mut liars = [71, 72].map(|client| Liar::new(&fixture, client, uid));
    let begin = |liar: &mut Liar| match liar.metadata(Operation::BeginAppend { object }) {
        Ok((ReplyBody::AppendLock { append_lock, .. }, _)) => append_lock,
        other => panic!("{other:?}"),
    };
    let check = |liar: &mut Liar, append_lock, end| {
        let reply = liar.metadata(Operation::CheckAppendLock {
            object,
            append_lock,
            end,
        });
        reply.map(drop).map_err(|failure| failure.errno)
    };
    let [one, two] = &mut liars;
    let append_lock = begin(one);
    assert_eq!(check(two, append_lock, true), Err(Errno::OVERTAKEN));
    for _ in 0..2 {
        assert_eq!(check(one, append_lock, true), Ok(()));
    }
    assert_eq!(check(one, append_lock, false), Err(Errno::OVERTAKEN));
    let later = begin(two);
    assert_eq!(check(one, append_lock, true), Ok(()));
    assert_eq!(check(two, later, false), Ok(()));
    assert_eq!(check(two, append_lock, true), Err(Errno::OVERTAKEN));
    for _ in 0..2 {
        assert_eq!(check(two, later, true), Ok(()));
    }
    // The first one's next lock replaces the one before.
    let last = begin(one);
    assert_eq!(check(one, last, true), Ok(()));
    assert_eq!(check(one, append_lock, true), Err(Errno::OVERTAKEN));
    fixture.cluster.stop().unwrap();
}

/// Units that clients get lie one behind the other, and each once.
#[test]
fn a_shared_pointer_gives_each_unit_to_one_client() {
    let fixture = Fixture::start(&patient());
    let mut client = fixture.client();
    let object = create(&mut client).node.object;
    client
        .move_pointer(object, 5, PointerStep::Put(1000))
        .unwrap();
    let add_all = |which: u64| {
        let mut client = fixture.client();
        let add = |number: u64| {
            let many = (number * 7 + which) % 13;
            let at = client.move_pointer(object, 5, PointerStep::Add(many));
            (at.unwrap(), many)
        };
        Vec::from_iter((0..300u64).map(add))
    };
    let mut given: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let adders = [0, 1, 2, 3].map(|which| scope.spawn(move || add_all(which)));
        let adders = adders.into_iter();
        adders.flat_map(|adder| adder.join().unwrap()).collect()
    });
    given.sort_unstable();
    let end = given.iter().fold(1000, |next, (at, many)| {
        assert_eq!(*at, next);
        next + many
    });
    let at = client.move_pointer(object, 5, PointerStep::Get).unwrap();
    assert_eq!(at, end);
    // Only what can be read or written has one.
    let directory = client.stat(&b"/"[..], true).unwrap().object;
    let error = client
        .move_pointer(directory, 5, PointerStep::Put(0))
        .unwrap_err();
    assert_eq!(error.errno, Errno::EINVAL, "{error}");
    fixture.cluster.stop().unwrap();
}
