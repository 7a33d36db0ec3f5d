//! Several processes that append to one file at once, some of which are killed, stopped, or disturbed by truncations or the end of servers: every
//! record is whole, each that was acknowledged is there once, and readers never see anything else.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_fs::client::{Client, CreateOptions, File};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Body, Errno};
use causeway_wire::random::SplitMix64;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Fixture, Shape, client, pattern};
use crate::leases::Caching;

const PATH: &[u8] = b"/log";
/// Bytes in front of a record's content: the appender and its number of the record.
const HEAD: usize = 16;

/// Record `number` of an appender.
fn record(appender: u64, number: u64, len: usize) -> Vec<u8> {
    let mut bytes = [appender.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.extend(pattern(appender << 32 | number, len - HEAD));
    bytes
}

/// The appenders and numbers of the records that the bytes consist of.
fn records(bytes: &[u8], len: usize) -> Vec<(u64, u64)> {
    assert_eq!(bytes.len() % len, 0, "a part of a record");
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let check = |(index, found): (usize, &[u8])| {
        let (appender, number) = (word(&found[..8]), word(&found[8..HEAD]));
        let is_whole = found == record(appender, number, len);
        assert!(is_whole, "record {index} is not whole: {appender} {number}");
        (appender, number)
    };
    bytes.chunks(len).enumerate().map(check).collect()
}

/// Another sequence each time, unless `CAUSEWAY_SEED` names one.
fn dice() -> SplitMix64 {
    let chosen = std::env::var("CAUSEWAY_SEED").ok();
    let chosen = chosen.and_then(|text| text.parse().ok());
    let seed = chosen.unwrap_or(u64::from(std::process::id()));
    println!("seed {seed} (CAUSEWAY_SEED chooses another)");
    SplitMix64::new(seed)
}

/// No call comes near its time-out, however loaded the machine is; a stopped client keeps others waiting for half of it.
fn patient() -> Shape {
    Shape {
        timeout_ms: 60_000,
        ..Shape::default()
    }
}

fn content(client: &mut Client) -> Vec<u8> {
    let mut file = client.open(PATH).unwrap();
    let mut bytes = vec![0xee; file.node.attributes.size as usize];
    let count = client.read_at(&mut file, 0, &mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

fn create(client: &mut Client) -> File {
    client.create(PATH, &CreateOptions::default()).unwrap()
}

/// A process that appends records of `len` bytes, prints each number, and ends after `count` or a failure.
fn append_records(configuration: &Path, appender: u64, len: usize, count: u64) {
    let configuration = Configuration::load(configuration).unwrap();
    let mut client = client(&configuration);
    let mut file = client.open(PATH).unwrap();
    for number in 0..count {
        match client.append(&mut file, &record(appender, number, len)) {
            Ok(_) => println!("appended {number}"),
            Err(error) => {
                println!("failed {number} {error}");
                return;
            }
        }
    }
}

/// Not a test of its own: appenders of the other tests are this program, run with this test and more arguments. Without
/// them it appends to a file of its own.
#[test]
fn appending_process() {
    if std::env::var_os("CAUSEWAY_TEST_APPENDER").is_none() {
        let fixture = Fixture::start(&patient());
        create(&mut fixture.client());
        append_records(&fixture.config_file(), 3, 5000, 10);
        let found = records(&content(&mut fixture.client()), 5000);
        assert!(found.into_iter().eq((0..10).map(|number| (3, number))));
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let [.., configuration, appender, len, count] = &arguments[..] else {
        panic!("the configuration, the appender, and its records must come last");
    };
    let number = |text: &String| text.parse::<u64>().unwrap();
    let len = number(len) as usize;
    append_records(configuration.as_ref(), number(appender), len, number(count));
    std::process::exit(0);
}

struct Appender {
    number: u64,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: Vec<u64>,
    /// A record whose fate the appender does not know.
    failed: Option<u64>,
}

impl Appender {
    fn start(fixture: &Fixture, number: u64, len: usize, count: u64) -> Self {
        let words = ["--exact", "appending::appending_process", "--nocapture"];
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(words)
            .arg("--test-threads=1")
            .arg(fixture.config_file())
            .args([number, len as u64, count].map(|word| word.to_string()))
            .env("CAUSEWAY_TEST_APPENDER", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self {
            number,
            process,
            lines,
            acknowledged: Vec::new(),
            failed: None,
        }
    }

    /// Waits for the next record; `false` at the end.
    fn next(&mut self) -> bool {
        for line in self.lines.by_ref().map_while(Result::ok) {
            // Behind output of the test program itself, on the same line.
            if let Some((_, number)) = line.split_once("appended ") {
                self.acknowledged.push(number.parse().unwrap());
                return true;
            }
            if let Some((_, failure)) = line.split_once("failed ") {
                println!("appender {}: {failure}", self.number);
                let number = failure.split(' ').next().unwrap();
                self.failed = Some(number.parse().unwrap());
            }
        }
        false
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for its end. The file may have the record that it was appending when it ended, or not.
    fn finish(mut self) -> Self {
        while self.next() {}
        self.process.wait().unwrap();
        self
    }
}

/// The file has all acknowledged records in each appender's order, and of the others at most the next one of each.
fn check(appenders: &[Appender], found: &[(u64, u64)]) {
    let mut by_appender: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (appender, number) in found {
        by_appender.entry(*appender).or_default().push(*number);
    }
    for appender in appenders {
        let found = by_appender.remove(&appender.number).unwrap_or_default();
        let count = appender.acknowledged.len() as u64;
        let known: Vec<u64> = (0..count).collect();
        assert_eq!(appender.acknowledged, known);
        let with_next: Vec<u64> = (0..=count).collect();
        assert!(
            found == known || found == with_next,
            "appender {} has {} records, {count} were acknowledged",
            appender.number,
            found.len()
        );
    }
    assert!(by_appender.is_empty(), "{by_appender:?}");
}

/// Reads the file again and again: it consists of whole records at every moment.
fn read_meanwhile(fixture: &Fixture, len: usize, done: &AtomicBool) {
    let mut client = fixture.client();
    while !done.load(Ordering::Acquire) {
        records(&content(&mut client), len);
    }
}

fn shapes() -> [(Shape, usize, u64); 3] {
    let tcp = Shape {
        tcp: true,
        ..patient()
    };
    [
        // Inside requests, in memory that servers reach, and over a network.
        (patient(), 3000, 60),
        (patient(), 100_000, 40),
        (tcp, 70_000, 40),
    ]
}

#[test]
fn a_killed_appender_leaves_no_hole_and_takes_no_record_along() {
    let mut dice = dice();
    for (shape, len, count) in shapes() {
        let fixture = Fixture::start(&shape);
        create(&mut fixture.client());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| read_meanwhile(&fixture, len, &done));
            let mut appenders: Vec<Appender> = (0..4)
                .map(|number| Appender::start(&fixture, number, len, count))
                .collect();
            // At any point of their work.
            for victim in &mut appenders[..2] {
                for _ in 0..dice.below(count / 2) {
                    victim.next();
                }
                victim.signal(Signal::KILL);
            }
            let appenders: Vec<Appender> = appenders.into_iter().map(Appender::finish).collect();
            done.store(true, Ordering::Release);
            for survivor in &appenders[2..] {
                assert_eq!(survivor.acknowledged.len() as u64, count);
            }
            check(&appenders, &records(&content(&mut fixture.client()), len));
        });
        fixture.cluster.stop().unwrap();
    }
}

/// A stopped appender loses its lock to others. Its requests in flight overwrite none of their records, also if the I/O servers were
/// restarted and have forgotten which locks they have seen.
#[test]
fn a_stopped_appender_does_not_keep_others_waiting() {
    std::thread::scope(|scope| {
        for (len, restart) in [(3000, false), (100_000, false), (100_000, true)] {
            scope.spawn(move || stop_an_appender(len, restart));
        }
    });
}

fn stop_an_appender(len: usize, restart: bool) {
    const MANY: u64 = 1 << 40;
    let mut fixture = Fixture::start(&patient());
    create(&mut fixture.client());
    let mut stopped = Appender::start(&fixture, 0, len, MANY);
    for _ in 0..=10 + dice().below(50) {
        assert!(stopped.next());
    }
    stopped.signal(Signal::STOP);
    let others: Vec<Appender> = (1..4)
        .map(|number| Appender::start(&fixture, number, len, 20))
        .collect();
    let others: Vec<Appender> = others.into_iter().map(Appender::finish).collect();
    for other in &others {
        assert_eq!(other.acknowledged.len(), 20, "{:?}", other.failed);
    }
    if restart {
        let metadata = fixture.cluster.configuration().metadata_server();
        let mut servers = fixture.cluster.configuration().io_servers();
        servers.retain(|&server| server != metadata);
        for server in servers {
            fixture.cluster.kill(server).unwrap();
            fixture.cluster.restart(server).unwrap();
        }
    }
    stopped.signal(Signal::CONT);
    for _ in 0..3 {
        stopped.next();
    }
    stopped.signal(Signal::KILL);
    let mut all = vec![stopped.finish()];
    all.extend(others);
    check(&all, &records(&content(&mut fixture.client()), len));
    fixture.cluster.stop().unwrap();
}

/// The release of an append lock may have to wait until a client that caches the file's size has been told, and the appender may die meanwhile. Its
/// record is then there as a whole, or not at all.
#[test]
fn an_appender_that_is_killed_while_its_end_waits_for_leases_tears_no_record() {
    const LEN: usize = 100_000;
    let fixture = Fixture::start_with(&patient(), |configuration| {
        configuration.leases = Duration::from_secs(8);
    });
    let mut own = fixture.client();
    let mut file = create(&mut own);
    let first = record(0, 0, LEN);
    own.append(&mut file, &first).unwrap();
    own.hard_link_object(file.node.object, b"/file").unwrap();
    let mut caching = Caching::start(&fixture);
    caching.look();
    caching.stop();
    let killed = Appender::start(&fixture, 1, 2 * LEN, 1);
    // If the append has not begun at that time, or its end no longer waits, the test covers less.
    let pause = || std::thread::sleep(Duration::from_secs(1));
    pause();
    let next = Appender::start(&fixture, 2, LEN, 1);
    pause();
    killed.signal(Signal::KILL);
    let (_, next) = (killed.finish(), next.finish());
    assert_eq!(next.acknowledged, [0]);
    let (killed, next) = (record(1, 0, 2 * LEN), record(2, 0, LEN));
    let found = content(&mut own);
    let orders = [
        [&first[..], &next].concat(),
        [&first[..], &killed, &next].concat(),
        [&first[..], &next, &killed].concat(),
    ];
    assert!(orders.contains(&found), "{} bytes", found.len());
    caching.kill();
    fixture.cluster.stop().unwrap();
}

/// Restarted I/O servers forget which append locks they have seen, a restarted metadata server which client has the lock.
#[test]
fn killed_servers_take_no_record_along() {
    const LEN: usize = 100_000;
    let mut fixture = Fixture::start(&patient());
    create(&mut fixture.client());
    let mut appenders: Vec<Appender> = (0..3)
        .map(|number| Appender::start(&fixture, number, LEN, 150))
        .collect();
    let mut dice = dice();
    for _ in 0..8 {
        let waited = dice.below(appenders.len() as u64) as usize;
        for _ in 0..dice.below(15) {
            appenders[waited].next();
        }
        let server = dice.below(fixture.cluster.configuration().servers.len() as u64);
        fixture.cluster.kill(server as usize).unwrap();
        fixture.cluster.restart(server as usize).unwrap();
    }
    let appenders: Vec<Appender> = appenders.into_iter().map(Appender::finish).collect();
    for appender in &appenders {
        assert_eq!(appender.acknowledged.len(), 150, "{:?}", appender.failed);
    }
    check(&appenders, &records(&content(&mut fixture.client()), LEN));
    fixture.cluster.stop().unwrap();
}

/// Set also if a test fails.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A record appended while another client truncates the file begins at the file's end after that.
#[test]
fn a_truncation_leaves_no_zeros_before_what_is_appended() {
    const LEN: usize = 9000;
    let fixture = Fixture::start(&patient());
    let mut truncating = fixture.client();
    let mut file = create(&mut truncating);
    let appenders: Vec<Appender> = (0..2)
        .map(|number| Appender::start(&fixture, number, LEN, 60))
        .collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _done = SetWhenDropped(&done);
            for appender in appenders {
                let appender = appender.finish();
                assert_eq!(appender.acknowledged.len(), 60, "{:?}", appender.failed);
            }
        });
        while !done.load(Ordering::Acquire) {
            truncating.truncate(&mut file, 0).unwrap();
            records(&content(&mut truncating), LEN);
        }
    });
    records(&content(&mut truncating), LEN);
}

/// The position after an append, and records across the size at which a file moves to the I/O servers.
#[test]
fn small_and_large_records_of_two_clients_come_one_after_the_other() {
    let fixture = Fixture::start(&patient());
    let mut clients = [fixture.client(), fixture.client()];
    let mut files = clients.each_mut().map(create);
    let mut expected = Vec::new();
    for (number, len) in [5, 9000, 9000, 0, 1, 300_000, 4096, 4097]
        .into_iter()
        .enumerate()
    {
        let bytes = pattern(number as u64, len);
        let which = number % 2;
        let end = clients[which].append(&mut files[which], &bytes).unwrap();
        expected.extend(bytes);
        if len > 0 {
            assert_eq!(end, expected.len() as u64);
        }
    }
    for (client, file) in clients.iter_mut().zip(&mut files) {
        assert!(content(client) == expected);
        client.fsync(file).unwrap();
    }
    assert!(matches!(files[0].node.body, Body::Striped { .. }));
    clients[0].unlink(PATH).unwrap();
    for (client, file) in clients.iter_mut().zip(&mut files) {
        let error = client.append(file, b"late").unwrap_err();
        assert_eq!(error.errno, Errno::ESTALE, "{error}");
    }
}
