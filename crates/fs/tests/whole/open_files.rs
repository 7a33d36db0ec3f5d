//! Files that programs have open stay, also without a name, until they are closed, and no longer: whichever client removes the name, and
//! whichever of the programs and servers is killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;
use causeway_fs::open_file::{OpenFile, OpenFlags};
use causeway_fs::pool::Clients;
use causeway_wire::fs::Errno;
use causeway_wire::random::SplitMix64;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Fixture, Shape, pattern};

/// How long anything here may take before it counts as hanging.
const GENEROUS: Duration = Duration::from_secs(120);

/// No call comes near its time-out, however loaded the machine is.
fn patient() -> Shape {
    Shape {
        timeout_ms: 60_000,
        ..Shape::default()
    }
}

/// Servers that soon remove what no program says to have open after their start.
fn with_short_grace() -> Shape {
    Shape {
        timeout_ms: 4_000,
        ..Shape::default()
    }
}

/// The same where programs say it after each of many ends of the server.
fn with_grace() -> Shape {
    Shape {
        timeout_ms: 8_000,
        ..Shape::default()
    }
}

/// Clients of a program, whose calls have much time whatever the servers' configuration says.
fn program(fixture: &Fixture) -> Arc<Clients> {
    let configuration = Configuration {
        timeout: GENEROUS,
        ..fixture.cluster.configuration().clone()
    };
    Arc::new(Clients::connect(&configuration, &ClientOptions::default(), 2).unwrap())
}

const READ_WRITE: OpenFlags = OpenFlags {
    read: true,
    write: true,
    create: false,
    exclusive: false,
    truncate: false,
    append: false,
    no_follow: false,
    sync: false,
};

const MAKE: OpenFlags = OpenFlags {
    create: true,
    ..READ_WRITE
};

fn open(program: &Arc<Clients>, path: &str, flags: OpenFlags) -> Result<OpenFile, Errno> {
    OpenFile::open(program, path.as_bytes(), flags, 0o644).map_err(|error| error.errno)
}

fn write(file: &OpenFile, content: &[u8]) {
    file.writing(|client, file| client.write_at(file, 0, content))
        .unwrap();
}

fn read(file: &OpenFile, len: usize) -> Result<Vec<u8>, Errno> {
    let mut content = vec![0; len];
    let count = file
        .reading(|client, file| client.read_at(file, 0, &mut content))
        .map_err(|error| error.errno)?;
    content.truncate(count);
    Ok(content)
}

fn call<T>(
    program: &Clients,
    work: impl FnOnce(&mut Client) -> Result<T, causeway_fs::Error>,
) -> Result<T, Errno> {
    program.call(None, work).map_err(|error| error.errno)
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + GENEROUS;
    while !is() {
        assert!(Instant::now() < deadline, "{what}: not yet");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Objects beside the root directory, and datafiles.
fn left(fixture: &Fixture, program: &Clients) -> (u64, usize) {
    let space = call(program, |client| client.space(&[])).unwrap();
    let servers = fixture.cluster.configuration().servers.iter();
    let datafiles = servers
        .map(|server| datafiles(&server.directory.join("data/objects")))
        .sum();
    (space.objects - 1, datafiles)
}

/// Datafiles below a directory, if there is one.
fn datafiles(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => datafiles(&entry.path()),
        _ => 1,
    };
    entries.map(|entry| count(entry.unwrap())).sum()
}

fn all_is_gone(fixture: &Fixture, program: &Clients) {
    until("what was closed is gone", || {
        left(fixture, program) == (0, 0)
    });
    let findings = program
        .call(None, |client| client.check_metadata(None, false))
        .unwrap()
        .findings;
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn an_open_file_stays_whichever_client_removes_or_replaces_its_names() {
    for tcp in [false, true] {
        let fixture = Fixture::start(&Shape { tcp, ..patient() });
        let (one, other) = (program(&fixture), program(&fixture));
        let large = pattern(1, 200_000);
        let [small, big, replaced] = ["/small", "/big", "/old"].map(|path| {
            let file = open(&one, path, MAKE).unwrap();
            write(&file, if path == "/big" { &large } else { b"abc" });
            file
        });
        // Opened by both, of which one closes it at once.
        drop(open(&one, "/big", READ_WRITE).unwrap());
        let second = open(&other, "/big", READ_WRITE).unwrap();
        write(&open(&other, "/new", MAKE).unwrap(), b"new");
        call(&other, |client| client.unlink(b"/small")).unwrap();
        call(&other, |client| client.unlink(b"/big")).unwrap();
        call(&other, |client| client.rename(b"/new", b"/old", false)).unwrap();
        assert_eq!(open(&one, "/small", READ_WRITE).err(), Some(Errno::ENOENT));
        assert_eq!(
            read(&open(&one, "/old", READ_WRITE).unwrap(), 9).unwrap(),
            b"new"
        );
        assert_eq!(read(&small, 9).unwrap(), b"abc");
        assert_eq!(read(&replaced, 9).unwrap(), b"abc");
        assert!(read(&big, 300_000).unwrap() == large);
        write(&small, b"defghi");
        assert_eq!(read(&small, 9).unwrap(), b"defghi");
        for file in [&small, &big, &replaced] {
            assert_eq!(file.attributes().unwrap().links, 0);
            file.sync().unwrap();
        }
        drop(big);
        // The other program's, whose connections nothing of the first one's disturbs.
        drop(one);
        assert!(read(&second, 300_000).unwrap() == large);
        drop((second, small, replaced));
        call(&other, |client| client.unlink(b"/old")).unwrap();
        all_is_gone(&fixture, &other);
        fixture.cluster.stop().unwrap();
    }
}

/// Opens as a kernel does, which first looks up a name and then opens what it has found.
#[test]
fn what_was_looked_up_can_be_opened_though_it_has_been_replaced() {
    let fixture = Fixture::start(&patient());
    let (one, other) = (program(&fixture), program(&fixture));
    let contents = |round: u32| format!("content {round}").into_bytes();
    let make = |program, path, round| write(&open(program, path, MAKE).unwrap(), &contents(round));
    make(&one, "/file", 0);
    for round in 0..20 {
        let found = call(&one, |client| client.stat(b"/file", false)).unwrap();
        make(&other, "/new", round + 1);
        call(&other, |client| client.rename(b"/new", b"/file", false)).unwrap();
        let mut read = vec![0; 99];
        let count = call(&one, |client| {
            let mut file = client.open_object_held(found.object)?;
            client.read_at(&mut file, 0, &mut read)
        });
        assert_eq!(read[..count.unwrap()], contents(round));
    }
    call(&other, |client| client.unlink(b"/file")).unwrap();
    all_is_gone(&fixture, &other);
    fixture.cluster.stop().unwrap();
}

/// What a file system must show: objects, names, and what is open.
#[derive(Default)]
struct Model {
    contents: Vec<Vec<u8>>,
    names: BTreeMap<String, usize>,
}

impl Model {
    fn links(&self, object: usize) -> u32 {
        self.names.values().filter(|one| **one == object).count() as u32
    }
}

struct Handle {
    file: OpenFile,
    object: usize,
}

/// Two programs open, create, unlink, rename, link, truncate, read, write and close, and find what POSIX says, also when the metadata
/// server is killed in between.
fn run_against_the_model(seed: u64, kills: bool) {
    let shape = if kills { with_grace() } else { patient() };
    let mut fixture = Fixture::start(&shape);
    let programs = [program(&fixture), program(&fixture)];
    let mut random = SplitMix64::new(seed);
    let mut model = Model::default();
    let mut handles: Vec<Handle> = Vec::new();
    for step in 0..300 {
        let mut below = |most: u64| random.below(most) as usize;
        let program = &programs[below(2)];
        let (name, to) = (format!("/n{}", below(4)), format!("/n{}", below(4)));
        let known = model.names.get(&name).copied();
        let what = below(12);
        let which = below(handles.len().max(1) as u64);
        let size = [3, 700, 20_000, 90_000][below(4)];
        match what {
            0..3 => {
                let file = open(program, &name, MAKE).unwrap();
                let object = known.unwrap_or_else(|| {
                    model.contents.push(Vec::new());
                    model.names.insert(name, model.contents.len() - 1);
                    model.contents.len() - 1
                });
                handles.push(Handle { file, object });
            }
            3 => match (open(program, &name, READ_WRITE), known) {
                (Ok(file), Some(object)) => handles.push(Handle { file, object }),
                (Err(errno), None) => assert_eq!(errno, Errno::ENOENT),
                (opened, known) => panic!("{:?} {known:?}", opened.err()),
            },
            4 | 5 => {
                let removed = call(program, |client| client.unlink(name.as_bytes()));
                assert_eq!(removed, known.map(drop).ok_or(Errno::ENOENT));
                model.names.remove(&name);
            }
            6 => {
                let renamed = call(program, |client| {
                    client.rename(name.as_bytes(), to.as_bytes(), false)
                });
                assert_eq!(renamed, known.map(drop).ok_or(Errno::ENOENT));
                // Of two names of one file, both stay.
                if let Some(object) = known
                    && model.names.get(&to) != Some(&object)
                {
                    model.names.remove(&name);
                    model.names.insert(to, object);
                }
            }
            7 => {
                let linked = call(program, |client| {
                    client.hard_link(name.as_bytes(), to.as_bytes())
                });
                match (known, model.names.contains_key(&to)) {
                    (None, _) => assert_eq!(linked.err(), Some(Errno::ENOENT)),
                    (Some(_), true) => assert_eq!(linked.err(), Some(Errno::EEXIST)),
                    (Some(object), false) => {
                        linked.unwrap();
                        model.names.insert(to, object);
                    }
                }
            }
            8 if !handles.is_empty() => drop(handles.swap_remove(which)),
            9 | 10 if !handles.is_empty() => {
                let Handle { file, object } = &handles[which];
                let content = pattern(step, size);
                write(file, &content);
                let known = &mut model.contents[*object];
                if known.len() < size {
                    known.resize(size, 0);
                }
                known[..size].copy_from_slice(&content);
            }
            _ if !handles.is_empty() => {
                let Handle { file, object } = &handles[which];
                let expected = &model.contents[*object];
                assert!(read(file, 100_000).unwrap() == *expected, "seed {seed}");
                let attributes = file.attributes().unwrap();
                assert_eq!(attributes.links, model.links(*object));
                assert_eq!(attributes.size, expected.len() as u64);
            }
            _ => {}
        }
        if kills && step % 100 == 99 {
            fixture.cluster.kill(0).unwrap();
            fixture.cluster.restart(0).unwrap();
        }
    }
    for Handle { file, object } in &handles {
        assert!(read(file, 100_000).unwrap() == model.contents[*object]);
    }
    handles.clear();
    for name in model.names.keys() {
        call(&programs[0], |client| client.unlink(name.as_bytes())).unwrap();
    }
    all_is_gone(&fixture, &programs[0]);
    fixture.cluster.stop().unwrap();
}

#[test]
fn two_programs_find_what_posix_says_of_open_files() {
    for seed in 1..4 {
        run_against_the_model(seed, false);
    }
}

#[test]
fn two_programs_find_what_posix_says_while_the_metadata_server_is_killed() {
    for seed in 11..13 {
        run_against_the_model(seed, true);
    }
}

/// Not a test of its own: holders of the other tests are this program, run with this test and the configuration. A holder opens files, has
/// their names removed, says so, has them open until it is killed, and reads them again when it is asked to; or it makes files and removes
/// them all the time. Without arguments it makes sure that an open file is read.
#[test]
fn holding_process() {
    let Ok(purpose) = std::env::var("CAUSEWAY_TEST_HOLDER") else {
        let fixture = Fixture::start(&patient());
        let mut holder = Holder::start(&fixture);
        holder.expect("holds");
        return holder.kill();
    };
    let arguments: Vec<String> = std::env::args().collect();
    let configuration = Configuration::load(arguments.last().unwrap().as_ref()).unwrap();
    let clients = if purpose == "makes" { MAKERS } else { 2 };
    let options = ClientOptions::default();
    let program = Arc::new(Clients::connect(&configuration, &options, clients).unwrap());
    if purpose == "makes" {
        make_and_remove(&program, usize::MAX, || println!("makes"));
    }
    let files: Vec<OpenFile> = (0..HELD)
        .map(|number| {
            let path = format!("/held-{}-{number}", std::process::id());
            let file = open(&program, &path, MAKE).unwrap();
            write(&file, &pattern(number, 50_000));
            call(&program, |client| client.unlink(path.as_bytes())).unwrap();
            file
        })
        .collect();
    let check = || {
        for (number, file) in files.iter().enumerate() {
            assert!(read(file, 100_000).unwrap() == pattern(number as u64, 50_000));
        }
    };
    check();
    println!("holds");
    for _ in std::io::stdin().lines() {
        check();
        println!("reads");
    }
    std::process::exit(0);
}

/// Threads that make files.
const MAKERS: usize = 4;

fn made_name(thread: usize) -> String {
    format!("/made-{thread}")
}

/// In several threads, each this many times: makes a file, removes its name, and closes it.
fn make_and_remove(program: &Arc<Clients>, times: usize, begun: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..MAKERS {
            let begun = &begun;
            scope.spawn(move || {
                let path = made_name(thread);
                for round in 0..times {
                    let file = open(program, &path, MAKE).unwrap();
                    call(program, |client| client.unlink(path.as_bytes())).unwrap();
                    drop(file);
                    if round == 10 {
                        begun();
                    }
                }
            });
        }
    });
}

/// Files that a holder has open.
const HELD: u64 = 5;

struct Holder {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(fixture: &Fixture) -> Self {
        Self::with(fixture, "holds")
    }

    fn with(fixture: &Fixture, purpose: &str) -> Self {
        let words = ["--exact", "open_files::holding_process", "--nocapture"];
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(words)
            .arg("--test-threads=1")
            .arg(fixture.config_file())
            .env("CAUSEWAY_TEST_HOLDER", purpose)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Waits until it says this.
    fn expect(&mut self, word: &str) {
        let mut said = self.lines.by_ref().map_while(Result::ok);
        assert!(
            said.any(|line| line.ends_with(word)),
            "it ended before it {word}"
        );
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Has it read its files.
    fn read_again(&mut self) {
        writeln!(self.process.stdin.as_mut().unwrap()).unwrap();
        self.expect("reads");
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn a_killed_program_leaves_nothing_and_takes_nothing_of_others() {
    for tcp in [false, true] {
        let fixture = Fixture::start(&Shape { tcp, ..patient() });
        let own = program(&fixture);
        let file = open(&own, "/own", MAKE).unwrap();
        write(&file, b"own");
        call(&own, |client| client.unlink(b"/own")).unwrap();
        let [mut first, mut second] = [(); 2].map(|()| Holder::start(&fixture));
        first.expect("holds");
        second.expect("holds");
        assert_eq!(left(&fixture, &own).0, 1 + 2 * HELD);
        first.kill();
        until("the killed program's files are gone", || {
            left(&fixture, &own).0 == 1 + HELD
        });
        second.kill();
        until("all but the own file are gone", || {
            left(&fixture, &own).0 == 1
        });
        assert_eq!(read(&file, 9).unwrap(), b"own");
        drop(file);
        all_is_gone(&fixture, &own);
        fixture.cluster.stop().unwrap();
    }
}

#[test]
fn a_program_that_is_killed_while_it_makes_files_leaves_none() {
    let fixture = Fixture::start(&patient());
    let own = program(&fixture);
    for _ in 0..5 {
        let mut maker = Holder::with(&fixture, "makes");
        maker.expect("makes");
        maker.kill();
        until("what it has made can be removed", || {
            for thread in 0..MAKERS {
                let path = made_name(thread);
                let removed = call(&own, |client| client.unlink(path.as_bytes()));
                assert!(matches!(removed, Ok(()) | Err(Errno::ENOENT)));
            }
            left(&fixture, &own) == (0, 0)
        });
    }
    all_is_gone(&fixture, &own);
    fixture.cluster.stop().unwrap();
}

#[test]
fn what_is_closed_while_the_server_is_started_again_goes() {
    let mut fixture = Fixture::start(&with_grace());
    let own = program(&fixture);
    let (begun, begins) = std::sync::mpsc::channel();
    let program = Arc::clone(&own);
    let makers = std::thread::spawn(move || {
        make_and_remove(&program, 200, || begun.send(()).unwrap());
    });
    begins.recv().unwrap();
    for _ in 0..3 {
        fixture.cluster.kill(0).unwrap();
        fixture.cluster.restart(0).unwrap();
    }
    makers.join().unwrap();
    all_is_gone(&fixture, &own);
    fixture.cluster.stop().unwrap();
}

/// Nobody has said yet what is open when the server is stopped in an orderly way: the next one waits for that, too.
#[test]
fn a_server_that_is_stopped_before_programs_have_said_what_is_open_forgets_nothing() {
    let mut fixture = Fixture::start(&patient());
    let own = program(&fixture);
    let mut holder = Holder::start(&fixture);
    holder.expect("holds");
    holder.signal(Signal::STOP);
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    assert_eq!(left(&fixture, &own).0, HELD);
    fixture.cluster.stop_server(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    make_and_remove_unknown(&own);
    assert_eq!(left(&fixture, &own).0, HELD + 1);
    holder.signal(Signal::CONT);
    holder.read_again();
    holder.kill();
    fixture.cluster.stop().unwrap();
}

/// Programs that run say what they have open; what killed ones had is removed once the grace is over.
#[test]
fn open_files_outlive_the_metadata_server_and_those_of_dead_programs_do_not() {
    let mut fixture = Fixture::start(&with_short_grace());
    let (one, other) = (program(&fixture), program(&fixture));
    let before = open(&one, "/before", MAKE).unwrap();
    let within = open(&one, "/within", MAKE).unwrap();
    let after = open(&one, "/after", MAKE).unwrap();
    for file in [&before, &within, &after] {
        write(file, &pattern(7, 50_000));
    }
    call(&other, |client| client.unlink(b"/before")).unwrap();
    let mut holder = Holder::start(&fixture);
    holder.expect("holds");
    fixture.cluster.kill(0).unwrap();
    holder.kill();
    fixture.cluster.restart(0).unwrap();
    // The program that has it open does nothing at all meanwhile.
    call(&other, |client| client.unlink(b"/within")).unwrap();
    make_and_remove_unknown(&other);
    until("what nobody has open is gone", || {
        left(&fixture, &other).0 == 3
    });
    call(&other, |client| client.unlink(b"/after")).unwrap();
    for file in [&before, &within, &after] {
        assert!(read(file, 100_000).unwrap() == pattern(7, 50_000));
    }
    // Once more, in an orderly way, and with nothing left open afterwards.
    fixture.cluster.stop_server(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    for file in [&before, &within, &after] {
        assert!(read(file, 100_000).unwrap() == pattern(7, 50_000));
    }
    drop((before, within, after));
    all_is_gone(&fixture, &other);
    drop((one, other));
    fixture.cluster.stop().unwrap();
}

/// The program's thread, which has nothing to say to the first new server, learns of what is opened there.
#[test]
fn a_program_that_had_nothing_open_when_the_server_ended_keeps_what_it_opens_later() {
    let mut fixture = Fixture::start(&with_short_grace());
    let (one, other) = (program(&fixture), program(&fixture));
    drop(open(&one, "/first", MAKE).unwrap());
    call(&other, |client| client.unlink(b"/first")).unwrap();
    until("the first file is gone", || left(&fixture, &other).0 == 0);
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    let file = open(&one, "/file", MAKE).unwrap();
    write(&file, b"abc");
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    call(&other, |client| client.unlink(b"/file")).unwrap();
    make_and_remove_unknown(&other);
    until("what nobody has open is gone", || {
        left(&fixture, &other).0 == 1
    });
    assert_eq!(read(&file, 9).unwrap(), b"abc");
    drop(file);
    all_is_gone(&fixture, &other);
    fixture.cluster.stop().unwrap();
}

/// A file that goes with its name, but not before the grace is over.
fn make_and_remove_unknown(program: &Clients) {
    let made = call(program, |client| {
        client.create(b"/unknown", &Default::default())?;
        client.unlink(b"/unknown")
    });
    made.unwrap();
}

#[test]
fn a_link_is_not_followed_to_make_a_file_if_none_is_to_be_followed() {
    let fixture = Fixture::start(&patient());
    let own = program(&fixture);
    let no_follow = OpenFlags {
        no_follow: true,
        ..MAKE
    };
    for (target, link) in [(&b"/there"[..], &b"/link"[..]), (b"/absent", b"/dangling")] {
        call(&own, |client| client.symbolic_link(target, link)).unwrap();
    }
    drop(open(&own, "/there", no_follow).unwrap());
    drop(open(&own, "/there", no_follow).unwrap());
    for link in ["/link", "/dangling"] {
        assert_eq!(open(&own, link, no_follow).map(drop), Err(Errno::ELOOP));
    }
    let absent = call(&own, |client| client.stat(b"/absent", true));
    assert_eq!(absent.map(drop), Err(Errno::ENOENT));
    drop(open(&own, "/dangling", MAKE).unwrap());
    assert!(call(&own, |client| client.stat(b"/absent", true)).is_ok());
    fixture.cluster.stop().unwrap();
}

#[test]
fn too_many_open_files_are_an_error_that_names_the_setting() {
    let fixture = Fixture::start_with(&patient(), |configuration| configuration.open_files = 3);
    let own = program(&fixture);
    let mut files: Vec<OpenFile> = (0..3)
        .map(|number| open(&own, &format!("/{number}"), MAKE).unwrap())
        .collect();
    for path in [&b"/0"[..], b"/new"] {
        let refused = OpenFile::open(&own, path, MAKE, 0o644);
        let error = refused.map(drop).unwrap_err();
        assert_eq!(error.errno, Errno::EMFILE);
        assert!(error.to_string().contains("`open_files`"), "{error}");
    }
    let made = call(&own, |client| client.stat(b"/new", true)).map(drop);
    assert_eq!(made, Err(Errno::ENOENT));
    // A close waits for nothing: the next one that opens a file takes it along.
    for number in 0..50 {
        drop(files.pop());
        until("there is room for another one", || {
            open(&own, &format!("/{number}"), MAKE).is_ok_and(|file| {
                drop(file);
                true
            })
        });
        until("the other one is closed", || {
            let again = open(&own, "/0", MAKE).ok();
            let is_open = again.is_some();
            files.extend(again);
            is_open
        });
    }
    fixture.cluster.stop().unwrap();
}
