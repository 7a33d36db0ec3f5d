//! Programs that cache names and attributes by leases: they always agree with the server, whoever changes something, and whatever is
//! killed or stopped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_fs::Error;
use causeway_fs::client::{Client, ClientOptions, CreateOptions, Leases, Named, Passed};
use causeway_fs::config::Configuration;
use causeway_fs::pool::Clients;
use causeway_wire::fs::{Errno, Leased, Node, ObjectId, SetAttributes, SetXattrMode};
use causeway_wire::random::SplitMix64;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::cluster::{Fixture, Shape};

/// How long anything here may take before it counts as hanging.
const GENEROUS: Duration = Duration::from_secs(120);
const ROOT: ObjectId = ObjectId::ROOT;

/// No call comes near its time-out, however loaded the machine is.
fn patient() -> Shape {
    Shape {
        timeout_ms: 60_000,
        ..Shape::default()
    }
}

/// A program that caches, and looks at its cache first.
struct Program {
    leases: Arc<Leases>,
    clients: Clients,
    recalled: Arc<Mutex<Vec<Leased>>>,
    hits: u64,
}

impl Program {
    fn start(configuration: &Configuration) -> Self {
        let options = ClientOptions::default();
        let recalled = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&recalled);
        let leases = Leases::start(configuration, &options, move |passed: &[Passed]| {
            let leases = passed.iter().map(|passed| match passed {
                Passed::Attributes { object, .. } => Leased::Attributes(*object),
                Passed::Name {
                    directory, name, ..
                } => Leased::Entry(*directory, name.clone()),
            });
            told.lock().unwrap().extend(leases);
        });
        let leases = Arc::new(leases.unwrap());
        let clients =
            Clients::connect_caching(configuration, &options, 2, Arc::clone(&leases)).unwrap();
        let mut program = Self {
            leases,
            clients,
            recalled,
            hits: 0,
        };
        program.caches_again();
        program
    }

    /// Waits until the server gives it leases: it learns in the background where recalls reach the program.
    fn caches_again(&mut self) {
        let begun = Instant::now();
        while self.leases.node(ROOT).is_none() {
            assert!(begun.elapsed() < GENEROUS, "it gets no leases");
            let looked = self.call(|client| client.stat_object_cached(ROOT));
            looked.unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn call<T>(&self, work: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
        self.clients.call(None, work)
    }

    /// What a name refers to, as the program sees it.
    fn look(&mut self, name: &str) -> Option<Node> {
        // As a kernel, which looks at the directory's mode first.
        if self.leases.node(ROOT).is_none() {
            let _ = self.call(|client| client.stat_object_cached(ROOT));
        }
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        let by = (user.as_raw(), group.as_raw());
        match self.leases.find(ROOT, name.as_bytes(), by) {
            Some(found) => {
                // Another user may be refused.
                let other = (by.0 + 1, by.1);
                assert!(self.leases.find(ROOT, name.as_bytes(), other).is_none());
                self.hits += 1;
                match found {
                    Named::Node(node, _) => Some(*node),
                    Named::Nothing => None,
                }
            }
            None => match self.call(|client| client.stat_cached(ROOT, name.as_bytes())) {
                Ok((node, _)) => Some(node),
                Err(error) => {
                    assert_eq!(error.errno, Errno::ENOENT, "{error}");
                    None
                }
            },
        }
    }

    /// The same, until it is read from the cache. Whoever has missed a recall gets no leases for a while.
    fn look_at_cached(&mut self, name: &str) -> Option<Node> {
        let (begun, hits) = (Instant::now(), self.hits);
        loop {
            let seen = self.look(name);
            if self.hits > hits {
                return seen;
            }
            assert!(begun.elapsed() < GENEROUS, "nothing is cached");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn look_at_object(&mut self, object: ObjectId) -> Node {
        match self.leases.node(object) {
            Some((node, _)) => {
                self.hits += 1;
                node
            }
            None => {
                self.call(|client| client.stat_object_cached(object))
                    .unwrap()
                    .0
            }
        }
    }

    fn set_mode(&self, object: ObjectId, mode: u16) {
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        self.call(|client| client.set_attributes(object, set))
            .unwrap();
    }

    fn was_recalled(&self, lease: &Leased) -> bool {
        self.recalled.lock().unwrap().contains(lease)
    }
}

/// The truth, by a client that caches nothing.
fn truth(client: &mut Client, name: &str) -> Option<Node> {
    match client.stat(name.as_bytes(), false) {
        Ok(node) => Some(node),
        Err(error) if error.errno == Errno::ENOENT => None,
        Err(error) => panic!("{error}"),
    }
}

/// What the reference model knows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    object: ObjectId,
    mode: u16,
}

/// Makes a change, here and in the model. Those that must fail do so in both.
fn change(client: &mut Client, model: &mut BTreeMap<String, Known>, random: &mut SplitMix64) {
    let names = ["a", "b", "c", "d"];
    let name = names[random.below(4) as usize];
    let other = names[random.below(4) as usize];
    let known = model.get(name).copied();
    let mode = 0o600 + random.below(0o100) as u16;
    let path = name.as_bytes();
    match (random.below(8), known) {
        (0 | 1, None) => {
            let options = CreateOptions {
                exclusive: true,
                mode,
                ..CreateOptions::default()
            };
            let object = client.create(path, &options).unwrap().node.object;
            model.insert(name.to_owned(), Known { object, mode });
        }
        (0, Some(_)) => {
            client.unlink(path).unwrap();
            model.remove(name);
        }
        (2, Some(known)) => {
            client.rename(path, other.as_bytes(), false).unwrap();
            // Two names of one file stay as they are.
            if model
                .get(other)
                .is_none_or(|there| there.object != known.object)
            {
                model.remove(name);
                model.insert(other.to_owned(), known);
            }
        }
        (3, Some(known)) if !model.contains_key(other) => {
            client
                .hard_link_object(known.object, other.as_bytes())
                .unwrap();
            model.insert(other.to_owned(), known);
        }
        (4 | 5, Some(known)) => {
            let set = SetAttributes {
                mode: Some(mode),
                ..SetAttributes::default()
            };
            client.set_attributes(known.object, set).unwrap();
            for there in model
                .values_mut()
                .filter(|there| there.object == known.object)
            {
                there.mode = mode;
            }
        }
        (6, Some(known)) => {
            let value = mode.to_le_bytes();
            client
                .set_xattr(known.object, b"user.x", &value, SetXattrMode::Any)
                .unwrap();
        }
        (7, Some(_)) => {
            let mut file = client.open(path).unwrap();
            client
                .write_at(&mut file, random.below(20_000), b"content")
                .unwrap();
            client.fsync(&mut file).unwrap();
        }
        _ => assert_eq!(client.unlink(b"absent").unwrap_err().errno, Errno::ENOENT),
    }
}

#[test]
fn programs_that_cache_agree_with_the_server_after_every_change() {
    let fixture = Fixture::start(&patient());
    let configuration = fixture.cluster.configuration();
    let mut programs = [(); 2].map(|()| Program::start(configuration));
    let mut plain = fixture.client();
    let mut model = BTreeMap::new();
    let mut random = SplitMix64::new(12);
    for step in 0..500 {
        // A third of the changes are made by a client without leases.
        match random.below(3) as usize {
            2 => change(&mut plain, &mut model, &mut random),
            program => programs[program]
                .call(|client| {
                    change(client, &mut model, &mut random);
                    Ok(())
                })
                .unwrap(),
        }
        let root = plain.stat_object(ROOT).unwrap();
        for name in ["a", "b", "c", "d"] {
            let truth = truth(&mut plain, name);
            let known = truth.as_ref().map(|node| Known {
                object: node.object,
                mode: node.attributes.mode,
            });
            assert_eq!(known, model.get(name).copied(), "{name}, step {step}");
            for program in &mut programs {
                assert_eq!(program.look(name), truth, "{name}, step {step}");
                assert_eq!(program.look_at_object(ROOT), root, "step {step}");
            }
        }
    }
    // Otherwise this has tested nothing.
    for program in &programs {
        assert!(program.hits > 300, "{} hits", program.hits);
        assert!(!program.recalled.lock().unwrap().is_empty());
    }
    fixture.cluster.stop().unwrap();
}

#[test]
fn own_changes_recall_nothing_and_unrelated_ones_end_nothing() {
    // What is cached outlasts the test.
    let fixture = Fixture::start_with(&patient(), |configuration| {
        configuration.leases = Duration::from_secs(30);
    });
    let configuration = fixture.cluster.configuration();
    let mut programs = [(); 2].map(|()| Program::start(configuration));
    let mut made = [ROOT; 2];
    for (made, name) in made.iter_mut().zip(["one", "two"]) {
        let options = CreateOptions::default();
        let file = programs[0].call(|client| client.create(name.as_bytes(), &options));
        *made = file.unwrap().node.object;
    }
    for program in &mut programs {
        program.look("one").unwrap();
        program.look("two").unwrap();
    }
    let [one, two] = made;
    programs[0].set_mode(one, 0o600);
    assert!(programs[1].was_recalled(&Leased::Attributes(one)));
    assert!(!programs[0].was_recalled(&Leased::Attributes(one)));
    // The program that has changed it has leases on what it is now, although the change had to wait.
    let cached = |program: &Program| program.leases.node(one);
    assert_eq!(cached(&programs[1]), None);
    let (node, _) = cached(&programs[0]).expect("the reply to the change is cached");
    assert_eq!(node.attributes.mode, 0o600);
    assert!(
        programs
            .iter()
            .all(|program| program.leases.node(two).is_some())
    );
    fixture.cluster.stop().unwrap();
}

/// A request that opens a file waits for leases, too, and opens it then.
#[test]
fn a_file_that_is_made_once_leases_have_ended_stays_open() {
    let fixture = Fixture::start(&patient());
    let holder = Program::start(fixture.cluster.configuration());
    let mut own = fixture.client();
    let options = CreateOptions::default();
    let mut file = own.create_held(b"file", &options).unwrap();
    assert!(holder.was_recalled(&Leased::Attributes(ROOT)));
    fixture.client().unlink(b"file").unwrap();
    own.write_at(&mut file, 0, b"content").unwrap();
    let mut read = [0; 7];
    own.read_at(&mut file, 0, &mut read).unwrap();
    assert_eq!(&read, b"content");
    fixture.cluster.stop().unwrap();
}

#[test]
fn programs_agree_after_the_server_was_killed() {
    let mut fixture = Fixture::start(&patient());
    let configuration = fixture.cluster.configuration().clone();
    let mut programs = [(); 2].map(|()| Program::start(&configuration));
    let options = CreateOptions::default();
    let file = programs[0].call(|client| client.create(b"file", &options));
    let object = file.unwrap().node.object;
    for round in 0..3u16 {
        for program in &mut programs {
            program.caches_again();
            program.look_at_cached("file");
        }
        fixture.cluster.kill(0).unwrap();
        // What it has cached is valid as long as its lease, and no server makes a change before
        // that has ended.
        fixture.cluster.restart(0).unwrap();
        programs[0].set_mode(object, 0o600 + round);
        for program in &mut programs {
            let mode = program.look("file").unwrap().attributes.mode;
            assert_eq!(mode, 0o600 + round);
        }
    }
    fixture.cluster.stop().unwrap();
}

/// Not a test of its own: a program that caches, which other tests stop and kill.
#[test]
fn caching_process() {
    if std::env::var_os("CAUSEWAY_TEST_CACHES").is_none() {
        let fixture = Fixture::start(&patient());
        let mut own = fixture.client();
        own.create(b"file", &CreateOptions::default()).unwrap();
        let mut process = Caching::start(&fixture);
        assert_eq!(process.look(), 0o644);
        return process.kill();
    }
    let arguments: Vec<String> = std::env::args().collect();
    let configuration = Configuration::load(arguments.last().unwrap().as_ref()).unwrap();
    let mut program = Program::start(&configuration);
    for line in std::io::stdin().lines().map_while(Result::ok) {
        if let Ok(mode) = u16::from_str_radix(&line, 8) {
            let object = program.look("file").unwrap().object;
            program.set_mode(object, mode);
            println!("has set it.");
            continue;
        }
        let mode = program.look("file").unwrap().attributes.mode;
        let again = program.look_at_cached("file").unwrap().attributes.mode;
        println!("sees {mode:o} {again:o}.");
    }
    std::process::exit(0);
}

/// A process that caches the attributes of `/file`.
pub(crate) struct Caching {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Caching {
    pub(crate) fn start(fixture: &Fixture) -> Self {
        let words = ["--exact", "leases::caching_process", "--nocapture"];
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(words)
            .arg("--test-threads=1")
            .arg(fixture.config_file())
            .env("CAUSEWAY_TEST_CACHES", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The mode that it sees.
    pub(crate) fn look(&mut self) -> u16 {
        writeln!(self.process.stdin.as_mut().unwrap()).unwrap();
        let mut said = self.lines.by_ref().map_while(Result::ok);
        let line = said.find_map(|line| {
            let seen = line.split_once("sees ")?.1;
            Some(seen.strip_suffix('.')?.to_owned())
        });
        let line = line.expect("it ended");
        let (mode, again) = line.split_once(' ').unwrap();
        assert_eq!(mode, again);
        u16::from_str_radix(mode, 8).unwrap()
    }

    /// Has it set the mode, and does not wait for that.
    fn begin_to_set(&mut self, mode: u16) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{mode:o}").unwrap();
    }

    /// Returns once all its threads have stopped.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped());
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).unwrap();
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn a_program_that_is_stopped_or_killed_delays_others_and_is_right_when_it_goes_on() {
    for tcp in [false, true] {
        let shape = Shape { tcp, ..patient() };
        let time = Duration::from_secs(1);
        let fixture = Fixture::start_with(&shape, |configuration| configuration.leases = time);
        let mut own = fixture.client();
        let file = own.create(b"file", &CreateOptions::default()).unwrap();
        let object = file.node.object;
        let mut set = |mode| {
            let set = SetAttributes {
                mode: Some(mode),
                ..SetAttributes::default()
            };
            own.set_attributes(object, set).unwrap();
        };
        let mut caching = Caching::start(&fixture);
        let asked = Instant::now();
        assert_eq!(caching.look(), 0o644);
        caching.stop();
        set(0o600);
        // The lease was granted after that, and no recall has ended it.
        assert!(asked.elapsed() >= time);
        // It has a recall in its queue that came too late.
        caching.go_on();
        assert_eq!(caching.look(), 0o600);
        set(0o640);
        assert_eq!(caching.look(), 0o640);
        caching.kill();
        set(0o604);
        fixture.cluster.stop().unwrap();
    }
}

/// Programs of the next test; `make many` has a thousand.
fn holders() -> usize {
    let holders = std::env::var("CAUSEWAY_HOLDERS").ok();
    holders.map_or(60, |holders| holders.parse().expect("a number"))
}

/// A change waits for the one that is stopped, once, and not for each of the others in turn.
#[test]
fn one_stopped_program_of_many_that_cache_a_file_delays_a_change_by_one_lease() {
    // So many that all hold leases at one moment.
    let time = Duration::from_secs(2) + Duration::from_millis(20) * holders() as u32;
    let fixture = Fixture::start_with(&patient(), |configuration| configuration.leases = time);
    let mut own = fixture.client();
    let file = own.create(b"file", &CreateOptions::default()).unwrap();
    let object = file.node.object;
    let start = |_| Program::start(fixture.cluster.configuration());
    let mut programs: Vec<_> = (1..holders()).map(start).collect();
    let mut caching = Caching::start(&fixture);
    let begun = Instant::now();
    caching.look();
    for program in &mut programs {
        program.look_at_cached("file").unwrap();
    }
    caching.stop();
    let all_hold = begun.elapsed() < time;
    let begun = Instant::now();
    let set = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    own.set_attributes(object, set).unwrap();
    // Several times as long as a busy machine takes for the rest, and far less than a second lease for each of the others.
    let waited = begun.elapsed();
    assert!(waited < time + Duration::from_secs(30), "{waited:?}");
    for program in &mut programs {
        assert!(!all_hold || program.was_recalled(&Leased::Attributes(object)));
        assert_eq!(
            program.look("file").map(|node| node.attributes.mode),
            Some(0o600)
        );
    }
    caching.go_on();
    assert_eq!(caching.look(), 0o600);
    fixture.cluster.stop().unwrap();
}

/// Waits until a change of an object's attributes waits for the leases of others.
fn await_recall(watching: &Program, object: ObjectId) {
    let begun = Instant::now();
    while !watching.was_recalled(&Leased::Attributes(object)) {
        assert!(begun.elapsed() < GENEROUS, "nothing changes it");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Of a program that is killed while its change waits, the change is made before later ones, or not at all.
#[test]
fn a_change_whose_client_is_killed_while_it_waits_undoes_no_later_one() {
    let fixture = Fixture::start(&patient());
    let mut own = fixture.client();
    let file = own.create(b"file", &CreateOptions::default()).unwrap();
    let object = file.node.object;
    let mut watching = Program::start(fixture.cluster.configuration());
    watching.look_at_cached("file").unwrap();
    let [mut stopped, mut killed] = [(); 2].map(|()| Caching::start(&fixture));
    stopped.look();
    stopped.stop();
    killed.begin_to_set(0o600);
    await_recall(&watching, object);
    killed.kill();
    let setting = std::thread::spawn(move || {
        let set = SetAttributes {
            mode: Some(0o640),
            ..SetAttributes::default()
        };
        own.set_attributes(object, set).unwrap();
        own
    });
    stopped.kill();
    let mut own = setting.join().unwrap();
    let mode = |node: Node| node.attributes.mode;
    assert_eq!(truth(&mut own, "file").map(mode), Some(0o640));
    assert_eq!(watching.look("file").map(mode), Some(0o640));
    // Nothing is left that keeps others from leases.
    watching.look_at_cached("file").unwrap();
    fixture.cluster.stop().unwrap();
}

/// The client sends its change again, which the next run of the server makes once no lease of the earlier one is good any more.
#[test]
fn a_change_that_waits_when_the_server_is_stopped_is_made_by_the_next_run() {
    let mut fixture = Fixture::start(&patient());
    let mut own = fixture.client();
    let file = own.create(b"file", &CreateOptions::default()).unwrap();
    let object = file.node.object;
    let mut watching = Program::start(fixture.cluster.configuration());
    watching.look_at_cached("file").unwrap();
    let mut stopped = Caching::start(&fixture);
    stopped.look();
    stopped.stop();
    let setting = std::thread::spawn(move || {
        let set = SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        };
        own.set_attributes(object, set).unwrap();
        own
    });
    await_recall(&watching, object);
    fixture.cluster.stop_server(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    let mut own = setting.join().unwrap();
    let mode = |node: Node| node.attributes.mode;
    assert_eq!(truth(&mut own, "file").map(mode), Some(0o600));
    stopped.go_on();
    assert_eq!(stopped.look(), 0o600);
    assert_eq!(watching.look("file").map(mode), Some(0o600));
    stopped.kill();
    fixture.cluster.stop().unwrap();
}
