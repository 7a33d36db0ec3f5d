//! Locks between clients: they exclude each other, pass on in order, and end with their clients, of which some are killed or stopped.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use causeway_fs::client::{Client, CreateOptions, File, LockOwner, Locks};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Errno, Lock, LockFamily, LockRange, ObjectId};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Fixture, Shape, client};

/// How long anything here may take before it counts as hanging.
const GENEROUS: Duration = Duration::from_secs(120);

/// No call comes near its time-out, however loaded the machine is.
fn patient() -> Shape {
    Shape {
        timeout_ms: 60_000,
        ..Shape::default()
    }
}

fn create(client: &mut Client, path: &[u8]) -> File {
    client.create(path, &CreateOptions::default()).unwrap()
}

fn range(first: u64, last: u64) -> LockRange {
    LockRange { first, last }
}

fn lock(object: ObjectId, owner: u64, exclusive: bool, range: LockRange) -> Lock {
    Lock {
        object,
        family: LockFamily::Record,
        owner,
        exclusive,
        range,
        pid: std::process::id(),
    }
}

fn owner(object: ObjectId, number: u64) -> LockOwner {
    LockOwner {
        object,
        family: LockFamily::Record,
        number,
    }
}

fn errno<T: std::fmt::Debug>(result: Result<T, causeway_fs::Error>) -> Errno {
    result.unwrap_err().errno
}

/// The server has received all earlier requests of these locks' clients.
fn is_asked(locks: &Locks, object: ObjectId) {
    locks.test(&lock(object, 99, false, range(0, 0))).unwrap();
}

#[test]
fn locks_exclude_other_clients_by_range_and_family() {
    let fixture = Fixture::start(&patient());
    let mut clients = [(); 2].map(|()| fixture.client());
    let file = create(&mut clients[0], b"/file");
    let object = file.node.object;
    let [one, other] = clients.each_ref().map(|client| Arc::clone(client.locks()));
    one.lock(&lock(object, 1, true, range(10, 19))).unwrap();
    one.lock(&lock(object, 1, false, range(14, 15))).unwrap();
    let try_range =
        |exclusive, first, last| other.try_lock(&lock(object, 1, exclusive, range(first, last)));
    assert_eq!(errno(try_range(false, 0, 10)), Errno::EAGAIN);
    assert_eq!(errno(try_range(true, 14, 14)), Errno::EAGAIN);
    try_range(false, 14, 15).unwrap();
    try_range(true, 20, u64::MAX).unwrap();
    // The owner of a conflicting lock, if there is one.
    let found = other.test(&lock(object, 1, false, range(0, 30))).unwrap();
    let found = found.expect("a lock");
    assert!(found.exclusive && found.pid == std::process::id());
    assert!([range(10, 13), range(16, 19)].contains(&found.range));
    assert_eq!(
        other.test(&lock(object, 1, true, range(0, 9))).unwrap(),
        None
    );
    // Owners of one client exclude each other, and families do not.
    assert_eq!(
        errno(one.try_lock(&lock(object, 2, true, range(19, 19)))),
        Errno::EAGAIN
    );
    let whole = Lock {
        family: LockFamily::Whole,
        ..lock(object, 1, true, LockRange::ALL)
    };
    other.try_lock(&whole).unwrap();
    assert_eq!(errno(one.try_lock(&whole)), Errno::EAGAIN);
    let part = Lock {
        range: range(0, 5),
        ..whole
    };
    assert_eq!(errno(one.try_lock(&part)), Errno::EINVAL);
    // A part is given back.
    one.unlock(owner(object, 1), range(0, 12)).unwrap();
    try_range(true, 12, 12).unwrap();
    assert_eq!(errno(try_range(true, 13, 13)), Errno::EAGAIN);
    // All of it, as a file that is closed.
    one.release(owner(object, 1)).unwrap();
    one.release(owner(object, 1)).unwrap();
    try_range(true, 0, u64::MAX).unwrap();
    // Only files can be locked.
    assert_eq!(
        errno(one.try_lock(&lock(ObjectId::ROOT, 1, true, range(0, 0)))),
        Errno::EINVAL
    );
    let gone = ObjectId(u64::MAX);
    assert_eq!(
        errno(one.try_lock(&lock(gone, 1, true, range(0, 0)))),
        Errno::ESTALE
    );
    // The client ends.
    drop((clients, other));
    one.lock(&lock(object, 3, true, LockRange::ALL)).unwrap();
    fixture.cluster.stop().unwrap();
}

#[test]
fn a_wait_ends_with_the_lock_or_by_being_cancelled() {
    let fixture = Fixture::start(&patient());
    let mut clients = [(); 3].map(|()| fixture.client());
    let object = create(&mut clients[0], b"/file").node.object;
    let [one, two, three] = clients.each_ref().map(Client::locks);
    let wanted = lock(object, 1, true, range(0, 9));
    one.lock(&wanted).unwrap();
    let second = two.start(&wanted);
    is_asked(two, object);
    let third = three.start(&wanted);
    is_asked(three, object);
    // Not even a lock that is free for a moment overtakes them.
    second.cancel();
    assert_eq!(errno(second.wait()), Errno::ECANCELED);
    let last = two.start(&wanted);
    is_asked(two, object);
    one.unlock(owner(object, 1), LockRange::ALL).unwrap();
    third.wait().unwrap();
    assert_eq!(errno(one.try_lock(&wanted)), Errno::EAGAIN);
    // Cancelling a request that has ended has no effect.
    third.cancel();
    three.unlock(owner(object, 1), range(0, 5)).unwrap();
    three.unlock(owner(object, 1), range(6, 9)).unwrap();
    last.wait().unwrap();
    fixture.cluster.stop().unwrap();
}

#[test]
fn a_deadlock_of_owners_is_reported() {
    let fixture = Fixture::start(&patient());
    for count in [2, 3] {
        let mut clients: Vec<Client> = (0..count).map(|_| fixture.client()).collect();
        let path = format!("/file-{count}");
        let object = create(&mut clients[0], path.as_bytes()).node.object;
        let locks: Vec<&Arc<Locks>> = clients.iter().map(Client::locks).collect();
        let byte = |byte: usize| {
            let byte = (byte % count) as u64;
            lock(object, 1, true, range(byte, byte))
        };
        for (index, locks) in locks.iter().enumerate() {
            locks.lock(&byte(index)).unwrap();
        }
        let mut waits = Vec::new();
        for (index, locks) in locks.iter().enumerate().take(count - 1) {
            waits.push(locks.start(&byte(index + 1)));
            is_asked(locks, object);
        }
        let last = locks[count - 1];
        assert_eq!(errno(last.lock(&byte(count))), Errno::EDEADLK);
        // It has its earlier locks, and the others go on once it releases them.
        assert_eq!(errno(locks[0].try_lock(&byte(count - 1))), Errno::EAGAIN);
        last.unlock(owner(object, 1), LockRange::ALL).unwrap();
        for (index, wait) in waits.iter().enumerate().rev() {
            wait.wait().unwrap();
            let (own, all) = (owner(object, 1), LockRange::ALL);
            locks[index].unlock(own, all).unwrap();
        }
    }
    fixture.cluster.stop().unwrap();
}

#[test]
fn a_thousand_waiters_get_a_lock_one_after_the_other_in_the_order_in_which_they_came() {
    const WAITERS: u64 = 1000;
    let fixture = Fixture::start(&patient());
    let mut clients: Vec<Client> = (0..4).map(|_| fixture.client()).collect();
    let object = create(&mut clients[0], b"/file").node.object;
    let locks: Vec<&Arc<Locks>> = clients.iter().map(Client::locks).collect();
    locks[0]
        .lock(&lock(object, WAITERS, true, LockRange::ALL))
        .unwrap();
    let (sender, granted) = channel();
    for number in 0..WAITERS {
        let locks = locks[number as usize % locks.len()];
        let sender = sender.clone();
        locks.start_with(&lock(object, number, true, LockRange::ALL), move |ended| {
            sender.send((number, ended)).unwrap();
        });
        is_asked(locks, object);
    }
    let mut holder = WAITERS;
    for number in 0..WAITERS {
        // No other client has it meanwhile.
        assert!(granted.try_recv().is_err());
        let last = locks[holder as usize % locks.len()];
        last.unlock(owner(object, holder), LockRange::ALL).unwrap();
        let (next, ended) = granted.recv_timeout(GENEROUS).unwrap();
        ended.unwrap();
        assert_eq!(next, number);
        holder = next;
    }
    fixture.cluster.stop().unwrap();
}

#[test]
fn locks_that_are_lost_with_their_server_are_reported_and_waits_begin_anew() {
    let mut fixture = Fixture::start(&patient());
    let mut clients = [(); 2].map(|()| fixture.client());
    let mut file = create(&mut clients[0], b"/file");
    let other_file = create(&mut clients[0], b"/other");
    let (object, second) = (file.node.object, other_file.node.object);
    let [one, other] = clients.each_ref().map(|client| Arc::clone(client.locks()));
    let wanted = lock(object, 1, true, range(0, 9));
    one.lock(&wanted).unwrap();
    let wait = other.start(&wanted);
    is_asked(&other, object);
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    // The new server knows of no lock.
    wait.wait().unwrap();
    // The old owner gets an error for every operation on that file.
    assert_eq!(errno(one.try_lock(&wanted)), Errno::LOCK_LOST);
    assert_eq!(errno(one.test(&wanted)), Errno::LOCK_LOST);
    let written = clients[0].write_at(&mut file, 0, b"x").map(drop);
    assert_eq!(errno(written), Errno::LOCK_LOST);
    assert_eq!(
        errno(clients[0].read_at(&mut file, 0, &mut [0])),
        Errno::LOCK_LOST
    );
    assert_eq!(errno(one.check(object)), Errno::LOCK_LOST);
    // Operations on other files go on until it has acknowledged the loss.
    one.try_lock(&lock(second, 1, true, range(0, 9))).unwrap();
    // Part by part, or as a whole.
    one.unlock(owner(object, 1), range(3, 20)).unwrap();
    assert_eq!(errno(one.check(object)), Errno::LOCK_LOST);
    one.unlock(owner(object, 1), range(0, 2)).unwrap();
    clients[0].write_at(&mut file, 0, b"x").unwrap();
    assert_eq!(errno(one.try_lock(&wanted)), Errno::EAGAIN);
    other.unlock(owner(object, 1), LockRange::ALL).unwrap();
    one.try_lock(&wanted).unwrap();
    fixture.cluster.stop().unwrap();
}

#[test]
fn many_waits_of_one_client_begin_anew_each_once_when_the_server_is_started_again() {
    // More than the client receives notices for at a time.
    const WAITS: u64 = 200;
    let mut fixture = Fixture::start(&patient());
    let mut clients = [(); 2].map(|()| fixture.client());
    let object = create(&mut clients[0], b"/file").node.object;
    let [one, other] = clients.each_ref().map(|client| Arc::clone(client.locks()));
    one.lock(&lock(object, 0, true, LockRange::ALL)).unwrap();
    let (sender, ended) = channel();
    for number in 1..=WAITS {
        let sender = sender.clone();
        // All but one have to wait again.
        let wanted = lock(object, number, true, range(0, 9));
        other.start_with(&wanted, move |result| {
            sender.send((number, result)).unwrap();
        });
    }
    is_asked(&other, object);
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    for _ in 1..=WAITS {
        let (number, result) = ended.recv_timeout(GENEROUS).unwrap();
        result.unwrap();
        other.unlock(owner(object, number), LockRange::ALL).unwrap();
    }
    // The server has no waiting request left.
    one.release(owner(object, 0)).unwrap();
    one.try_lock(&lock(object, 0, true, LockRange::ALL))
        .unwrap();
    fixture.cluster.stop().unwrap();
}

#[test]
fn an_owner_that_has_given_its_locks_back_part_by_part_loses_none_with_the_server() {
    let mut fixture = Fixture::start(&patient());
    let mut client = fixture.client();
    let object = create(&mut client, b"/file").node.object;
    let second = create(&mut client, b"/other").node.object;
    let locks = client.locks();
    locks.lock(&lock(object, 1, true, range(0, 5))).unwrap();
    locks.lock(&lock(object, 1, false, range(6, 9))).unwrap();
    locks.unlock(owner(object, 1), range(0, 7)).unwrap();
    locks.unlock(owner(object, 1), range(8, 9)).unwrap();
    let kept = lock(second, 1, true, range(0, 9));
    locks.lock(&kept).unwrap();
    locks.unlock(owner(second, 1), range(0, 8)).unwrap();
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    assert_eq!(errno(locks.try_lock(&kept)), Errno::LOCK_LOST);
    locks.check(object).unwrap();
    locks.try_lock(&lock(object, 1, true, range(0, 9))).unwrap();
    fixture.cluster.stop().unwrap();
}

#[test]
fn a_shared_lock_that_was_given_up_for_an_exclusive_one_is_not_lost_with_the_server() {
    let mut fixture = Fixture::start(&patient());
    let mut clients = [(); 2].map(|()| fixture.client());
    let object = create(&mut clients[0], b"/file").node.object;
    let [one, other] = clients.each_ref().map(|client| Arc::clone(client.locks()));
    let whole = |number, exclusive| Lock {
        family: LockFamily::Whole,
        ..lock(object, number, exclusive, LockRange::ALL)
    };
    for number in [1, 2] {
        one.lock(&whole(number, false)).unwrap();
    }
    other.lock(&whole(3, false)).unwrap();
    assert_eq!(errno(one.try_lock(&whole(1, true))), Errno::EAGAIN);
    let wait = one.start(&whole(2, true));
    is_asked(&one, object);
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    // Neither of them had a lock: one waits anew and gets it, the other may ask for it.
    wait.wait().unwrap();
    one.check(object).unwrap();
    assert_eq!(errno(one.try_lock(&whole(1, true))), Errno::EAGAIN);
    fixture.cluster.stop().unwrap();
}

/// Not a test of its own: lockers of the other tests are this program, run with this test and more arguments. It takes a lock on the file,
/// prints that, and holds it until its input ends. Without arguments it does that with a file of its own.
#[test]
fn locking_process() {
    if std::env::var_os("CAUSEWAY_TEST_LOCKER").is_none() {
        let fixture = Fixture::start(&patient());
        let object = create(&mut fixture.client(), b"/file").node.object;
        let mut locker = Locker::start(&fixture, object);
        locker.expect("asked");
        locker.expect("locked");
        return locker.end();
    }
    let arguments: Vec<String> = std::env::args().collect();
    let [.., configuration, object] = &arguments[..] else {
        panic!("the configuration and the object must come last");
    };
    let configuration = Configuration::load(configuration.as_ref()).unwrap();
    let object = ObjectId(object.parse().unwrap());
    let client = client(&configuration);
    let wait = client.locks().start(&lock(object, 1, true, LockRange::ALL));
    is_asked(client.locks(), object);
    println!("asked");
    wait.wait().unwrap();
    println!("locked");
    let _ = std::io::stdin().lines().next();
    drop(client);
    std::process::exit(0);
}

struct Locker {
    process: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Locker {
    fn start(fixture: &Fixture, object: ObjectId) -> Self {
        let words = ["--exact", "locks::locking_process", "--nocapture"];
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(words)
            .arg("--test-threads=1")
            .arg(fixture.config_file())
            .arg(object.0.to_string())
            .env("CAUSEWAY_TEST_LOCKER", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self {
            input: process.stdin.take(),
            process,
            lines,
        }
    }

    /// Waits until it prints this.
    fn expect(&mut self, word: &str) {
        let mut said = self.lines.by_ref().map_while(Result::ok);
        // Behind output of the test program itself, on the same line.
        assert!(
            said.any(|line| line.ends_with(word)),
            "it ended before it {word}"
        );
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn kill(mut self) {
        self.signal(Signal::KILL);
        self.process.wait().unwrap();
    }

    fn end(mut self) {
        if let Some(mut input) = self.input.take() {
            input.write_all(b"\n").unwrap();
        }
        assert!(self.process.wait().unwrap().success());
    }
}

#[test]
fn locks_and_waits_of_a_killed_client_pass_to_others_and_a_stopped_one_keeps_them() {
    for tcp in [false, true] {
        let fixture = Fixture::start(&Shape { tcp, ..patient() });
        let mut client = fixture.client();
        let object = create(&mut client, b"/file").node.object;
        let start = || {
            let mut locker = Locker::start(&fixture, object);
            locker.expect("asked");
            locker
        };
        let [mut first, second, mut third, mut fourth] = [(); 4].map(|()| start());
        first.expect("locked");
        // One waiting process, and the owner.
        second.kill();
        first.kill();
        third.expect("locked");
        // A stopped process keeps its lock, as on a local file system.
        third.signal(Signal::STOP);
        let wanted = lock(object, 1, false, range(5, 5));
        assert_eq!(errno(client.locks().try_lock(&wanted)), Errno::EAGAIN);
        third.signal(Signal::CONT);
        third.end();
        fourth.expect("locked");
        fourth.kill();
        client.locks().lock(&wanted).unwrap();
        fixture.cluster.stop().unwrap();
    }
}
