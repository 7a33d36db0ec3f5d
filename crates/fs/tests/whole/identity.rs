//! Servers, directories and configurations that are mixed up: an error that names both sides, never other bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, CreateOptions};
use causeway_fs::config::Configuration;
use causeway_fs::server::{Server, ServerError, StopHandle, format};
use causeway_wire::datafile::BLOCK_BYTES;
use causeway_wire::fs::{Body, Errno};

use crate::cluster::{Fixture, Shape, client, configuration, format_all, pattern};

const LEN: usize = 300_000;

/// A file system whose servers run in threads, each of which can be stopped and started.
struct Rig {
    directory: tempfile::TempDir,
    configuration: Configuration,
    running: BTreeMap<String, (StopHandle, JoinHandle<()>)>,
}

impl Rig {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let configuration = configuration(&Shape::default(), directory.path());
        format_all(&configuration);
        let mut rig = Self {
            directory,
            configuration,
            running: BTreeMap::new(),
        };
        for name in ["meta", "io0", "io1"] {
            rig.serve(name).unwrap();
        }
        rig
    }

    fn serve(&mut self, name: &str) -> Result<(), ServerError> {
        let server = Server::start(&self.configuration, name)?;
        let stop = server.stop_handle();
        let thread = std::thread::spawn(move || server.run().unwrap());
        self.running.insert(name.to_owned(), (stop, thread));
        Ok(())
    }

    fn stop(&mut self, name: &str) {
        let (stop, thread) = self.running.remove(name).unwrap();
        stop.stop();
        thread.join().unwrap();
    }

    fn home(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Stops a server and puts its directory away.
    fn put_away(&mut self, name: &str) -> PathBuf {
        self.stop(name);
        let away = self.directory.path().join(format!("{name}.away"));
        std::fs::rename(self.home(name), &away).unwrap();
        away
    }

    /// Puts a directory back, replacing another one in its place, and starts the server on it.
    fn put_back(&mut self, name: &str, away: &Path) {
        if self.running.contains_key(name) {
            self.stop(name);
        }
        if self.home(name).exists() {
            std::fs::remove_dir_all(self.home(name)).unwrap();
        }
        std::fs::rename(away, self.home(name)).unwrap();
        self.serve(name).unwrap();
    }

    /// The server does not start, reports these words, and changes nothing in any directory.
    #[track_caller]
    fn refused(&mut self, name: &str, words: &[&str]) {
        let before = self.files_at_rest();
        let error = match self.serve(name) {
            Err(error) => error.to_string(),
            Ok(()) => panic!("server {name} starts"),
        };
        says(&error, words);
        let after = self.files_at_rest();
        let names = before.keys().chain(after.keys());
        let changed: BTreeSet<&PathBuf> = names
            .filter(|path| before.get(*path) != after.get(*path))
            .collect();
        assert!(changed.is_empty(), "{error}: {changed:?} changed");
    }

    /// All files but those of running servers, which change them at any time.
    fn files_at_rest(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = files(self.directory.path());
        let running: Vec<PathBuf> = self.running.keys().map(|name| self.home(name)).collect();
        found.retain(|path, _| !running.iter().any(|home| path.starts_with(home)));
        found
    }

    fn client(&self) -> Client {
        client(&self.configuration)
    }

    /// The configuration with its servers changed.
    fn changed(&self, change: impl FnOnce(&mut Configuration)) -> Configuration {
        let mut configuration = self.configuration.clone();
        change(&mut configuration);
        configuration
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for (stop, _) in self.running.values() {
            stop.stop();
        }
        for (_, (_, thread)) in std::mem::take(&mut self.running) {
            let _ = thread.join();
        }
    }
}

/// Names and contents of all files below a `data` directory, without the first pages of datafiles: a running server marks
/// these clean after some seconds.
fn files_but_headers(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = files(data);
    let objects = data.join("objects");
    for (path, content) in &mut found {
        if path.starts_with(&objects) && !content.is_empty() {
            content.drain(..BLOCK_BYTES as usize);
        }
    }
    found
}

/// Names and contents of all files, but of sockets.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files(&path));
            found.insert(path, Vec::new());
        } else if kind.is_file() {
            let content = std::fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

#[track_caller]
fn says(error: &str, words: &[&str]) {
    for word in words {
        assert!(error.contains(word), "{word}: {error}");
    }
}

fn store(client: &mut Client, path: &[u8], seed: u64) -> Vec<u8> {
    let bytes = pattern(seed, LEN);
    let mut file = client.create(path, &CreateOptions::default()).unwrap();
    client.write_at(&mut file, 0, &bytes).unwrap();
    client.fsync(&mut file).unwrap();
    bytes
}

fn fetch(client: &mut Client, path: &[u8]) -> Result<Vec<u8>, causeway_fs::Error> {
    let mut file = client.open(path)?;
    let mut bytes = vec![0; LEN];
    let len = client.read_at(&mut file, 0, &mut bytes)?;
    bytes.truncate(len as usize);
    Ok(bytes)
}

/// Reading and writing with this configuration both fail at once, with these words.
#[track_caller]
fn cannot_be_used(configuration: &Configuration, words: &[&str]) {
    // Far more than the test may take: a mix-up is not a matter of patience.
    let patient = Configuration {
        timeout: Duration::from_secs(600),
        ..configuration.clone()
    };
    let mut client = client(&patient);
    let error = fetch(&mut client, b"/f").unwrap_err();
    assert_eq!(error.errno, Errno::WRONG_TARGET, "{error}");
    says(&error.to_string(), words);
    let written = client
        .create(b"/written", &CreateOptions::default())
        .and_then(|mut file| client.write_at(&mut file, 0, &pattern(9, LEN)));
    let error = written.unwrap_err();
    assert_eq!(error.errno, Errno::WRONG_TARGET, "{error}");
}

#[test]
fn an_io_server_starts_only_on_its_own_directory() {
    let mut rig = Rig::start();
    let bytes = store(&mut rig.client(), b"/f", 1);
    let id = format!("{:032x}", rig.configuration.id);

    let away = rig.put_away("io1");
    std::fs::create_dir(rig.home("io1")).unwrap();
    rig.refused("io1", &["is empty", "mount", "server io1", "--format", &id]);
    std::fs::remove_dir(rig.home("io1")).unwrap();
    rig.refused("io1", &["does not exist", "server io1"]);
    rig.put_back("io1", &away);
    assert!(fetch(&mut rig.client(), b"/f").unwrap() == bytes);

    rig.stop("io1");
    let (data, aside) = (rig.home("io1").join("data"), rig.home("data.away"));
    std::fs::rename(&data, &aside).unwrap();
    rig.refused("io1", &["data does not exist", "server io1", &id]);
    std::fs::create_dir(&data).unwrap();
    rig.refused("io1", &["data is empty", "server io1", &id]);
    std::fs::remove_dir(&data).unwrap();
    std::fs::rename(&aside, &data).unwrap();

    rig.stop("io0");
    let swap = rig.home("swap");
    std::fs::rename(rig.home("io0"), &swap).unwrap();
    std::fs::rename(rig.home("io1"), rig.home("io0")).unwrap();
    std::fs::rename(&swap, rig.home("io1")).unwrap();
    rig.refused(
        "io0",
        &["I/O server io1", "I/O server io0", "another server"],
    );
    rig.refused(
        "io1",
        &["I/O server io1", "I/O server io0", "another server"],
    );
    std::fs::rename(rig.home("io0"), &swap).unwrap();
    std::fs::rename(rig.home("io1"), rig.home("io0")).unwrap();
    std::fs::rename(&swap, rig.home("io1")).unwrap();

    let mut other = Rig::start();
    let strange = other.home("io1");
    let away = rig.home("io1.away");
    std::fs::rename(rig.home("io1"), &away).unwrap();
    other.stop("io1");
    copy(&strange, &rig.home("io1"));
    let other_id = format!("{:032x}", other.configuration.id);
    rig.refused("io1", &["another server", &id, &other_id]);
    rig.put_back("io1", &away);
    rig.serve("io0").unwrap();
    assert!(fetch(&mut rig.client(), b"/f").unwrap() == bytes);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).unwrap()),
        }
    }
}

#[test]
fn a_replaced_io_server_is_refused_until_it_is_accepted() {
    let mut rig = Rig::start();
    let mut before = rig.client();
    let bytes = store(&mut before, b"/f", 1);
    let mut written = before.create(b"/w", &CreateOptions::default()).unwrap();
    before.write_at(&mut written, 0, &bytes).unwrap();
    let away = rig.put_away("io1");
    format(&rig.configuration, "io1").unwrap();
    rig.serve("io1").unwrap();

    // A client that has used the old server at the same address, and a new client.
    for client in [&mut before, &mut rig.client()] {
        let error = fetch(client, b"/f").unwrap_err();
        assert_eq!(error.errno, Errno::WRONG_TARGET, "{error}");
        says(
            &error.to_string(),
            &[
                "io1",
                "generation",
                "mount the right disk",
                "servers accept io1",
            ],
        );
        let mut file = client.open(b"/f").unwrap();
        let error = client.write_at(&mut file, 0, &bytes).unwrap_err();
        assert_eq!(error.errno, Errno::WRONG_TARGET, "{error}");
    }
    rig.put_back("io1", &away);
    assert!(fetch(&mut before, b"/f").unwrap() == bytes);
    assert!(fetch(&mut rig.client(), b"/f").unwrap() == bytes);

    let _lost = rig.put_away("io1");
    format(&rig.configuration, "io1").unwrap();
    rig.serve("io1").unwrap();
    let mut operator = rig.client();
    let (index, _) = rig.configuration.server("io1").unwrap();
    let generation = operator.ping(index).unwrap().identity.generation;
    operator.accept_server("io1", generation).unwrap();
    await_generation(&mut operator, "io1");
    let again = store(&mut rig.client(), b"/g", 2);
    assert!(fetch(&mut before, b"/g").unwrap() == again);
    // Bytes that were written to the old directory and not synced are lost.
    let error = before.fsync(&mut written).unwrap_err();
    assert_eq!(error.errno, Errno::EIO, "{error}");
}

#[test]
fn a_metadata_server_ends_at_once_though_an_io_server_is_down() {
    // Fast once is enough: the machine may be busy. The calls that must be cut short take 3 s.
    let fast = (0..3).any(|_| {
        let mut rig = Rig::start();
        let mut client = rig.client();
        store(&mut client, b"/file", 1);
        rig.stop("io1");
        client.unlink(&b"/file"[..]).unwrap();
        // Meanwhile the server tries to remove its datafiles.
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        rig.stop("meta");
        begun.elapsed() < Duration::from_millis(1500)
    });
    assert!(fast);
}

#[test]
fn an_io_server_that_has_lost_its_enrollment_is_refused_until_it_is_accepted() {
    let mut rig = Rig::start();
    let mut client = rig.client();
    let bytes = store(&mut client, b"/file", 1);
    rig.stop("io1");
    let enrolled = rig.home("io1").join("enrolled");
    std::fs::remove_file(&enrolled).unwrap();
    rig.serve("io1").unwrap();
    // A client that was connected before, and a new one: both fail at once, not after the time-out.
    let begun = Instant::now();
    for mut client in [client, rig.client()] {
        let error = fetch(&mut client, b"/file").unwrap_err();
        assert_eq!(error.errno, Errno::WRONG_TARGET, "{error}");
        let words = ["io1", "`enrolled` is missing", "servers accept io1"];
        says(&error.to_string(), &words);
    }
    assert!(begun.elapsed() < rig.configuration.timeout);
    let mut operator = rig.client();
    let layout = operator.layout().unwrap();
    let generation = layout.named("io1").unwrap().generation;
    operator.accept_server("io1", generation).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let (index, _) = rig.configuration.server("io1").unwrap();
    while operator.ping(index).unwrap().identity.index.is_none() {
        assert!(Instant::now() < deadline, "it was not registered again");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fetch(&mut rig.client(), b"/file").unwrap(), bytes);
}

/// Waits until the metadata server has met the server that replies at a name's address.
fn await_generation(client: &mut Client, name: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let layout = client.layout().unwrap();
        let server = layout.named(name).unwrap();
        let index = client.server_of(server.index).unwrap();
        if client.ping(index).unwrap().identity.generation == server.generation {
            return;
        }
        assert!(Instant::now() < until, "server {name} is not registered");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn lost_or_new_metadata_do_not_touch_datafiles_of_the_io_servers() {
    let mut rig = Rig::start();
    let mut before = rig.client();
    let bytes = store(&mut before, b"/f", 1);
    let data = rig.home("io1").join("data");
    let kept = files_but_headers(&data);

    let away = rig.put_away("meta");
    std::fs::create_dir(rig.home("meta")).unwrap();
    rig.refused(
        "meta",
        &["is empty", "mount", "metadata server meta", "--format"],
    );
    std::fs::remove_dir(rig.home("meta")).unwrap();

    // It is formatted nevertheless.
    format(&rig.configuration, "meta").unwrap();
    rig.serve("meta").unwrap();
    io_servers_take_nothing_from_new_metadata(&rig);
    let error = before.open(b"/f").unwrap_err();
    assert_eq!(error.errno, Errno::ENOENT, "{error}");
    assert!(files_but_headers(&data) == kept);

    rig.put_back("meta", &away);
    assert!(fetch(&mut rig.client(), b"/f").unwrap() == bytes);
    assert!(fetch(&mut before, b"/f").unwrap() == bytes);

    rig.stop("meta");
    let metadata = rig.home("meta").join("metadata");
    let aside = rig.home("metadata.away");
    std::fs::rename(&metadata, &aside).unwrap();
    rig.refused("meta", &["metadata does not exist", "metadata server meta"]);
    std::fs::create_dir(&metadata).unwrap();
    std::fs::copy(aside.join("owner"), metadata.join("owner")).unwrap();
    rig.refused("meta", &["no metadata", "backup"]);
    std::fs::remove_dir_all(&metadata).unwrap();
    std::fs::rename(&aside, &metadata).unwrap();
    rig.serve("meta").unwrap();
    assert!(fetch(&mut rig.client(), b"/f").unwrap() == bytes);
}

/// With metadata that were formatted anew, no I/O server accepts requests.
fn io_servers_take_nothing_from_new_metadata(rig: &Rig) {
    let mut client = rig.client();
    let mut file = client.create(b"/new", &CreateOptions::default()).unwrap();
    let error = client.write_at(&mut file, 0, &pattern(2, LEN)).unwrap_err();
    assert_eq!(error.errno, Errno::WRONG_TARGET, "{error}");
    says(
        &error.to_string(),
        &[
            "other metadata",
            "incarnation",
            "restore the right metadata",
        ],
    );
}

#[test]
fn clients_hold_every_server_against_the_layout() {
    let rig = Rig::start();
    let bytes = store(&mut rig.client(), b"/f", 1);
    let place = |name: &str| rig.configuration.server(name).unwrap().0;
    let (io0, io1) = (place("io0"), place("io1"));

    let swapped = rig.changed(|configuration| {
        let addresses = configuration.servers[io0].addresses.clone();
        configuration.servers[io0].addresses =
            std::mem::replace(&mut configuration.servers[io1].addresses, addresses);
    });
    cannot_be_used(&swapped, &["server io0", "server io1", "addresses"]);

    let renamed = rig.changed(|configuration| {
        configuration.servers[io0].name = "io1".to_owned();
        configuration.servers[io1].name = "io0".to_owned();
    });
    cannot_be_used(&renamed, &["server io0", "server io1", "names"]);

    let strange = rig.changed(|configuration| configuration.id ^= 1);
    let (own, other) = (rig.configuration.id, strange.id);
    cannot_be_used(
        &strange,
        &[&format!("{own:032x}"), &format!("{other:032x}"), "`id`"],
    );

    let reversed = rig.changed(|configuration| configuration.servers.reverse());
    assert!(fetch(&mut client(&reversed), b"/f").unwrap() == bytes);
    let again = store(&mut client(&reversed), b"/r", 2);
    assert!(fetch(&mut rig.client(), b"/r").unwrap() == again);

    let additional = rig.changed(|configuration| {
        let mut entry = configuration.servers[io0].clone();
        entry.name = "io7".to_owned();
        entry.addresses = vec!["shm:///nonexistent/io7.sock".to_owned()];
        configuration.servers.insert(0, entry);
    });
    assert!(fetch(&mut client(&additional), b"/f").unwrap() == bytes);
    let again = store(&mut client(&additional), b"/a", 3);
    assert!(fetch(&mut rig.client(), b"/a").unwrap() == again);

    let missing = rig.changed(|configuration| drop(configuration.servers.remove(io1)));
    let error = fetch(&mut client(&missing), b"/f").unwrap_err();
    says(&error.to_string(), &["io1", "no entry", "configuration"]);
}

#[test]
fn a_server_with_another_number_is_refused() {
    let mut rig = Rig::start();
    let bytes = store(&mut rig.client(), b"/f", 1);
    rig.stop("io1");
    let enrolled = rig.home("io1").join("enrolled");
    let right = std::fs::read_to_string(&enrolled).unwrap();
    let wrong = right.replace("index 1", "index 0");
    assert_ne!(wrong, right);
    std::fs::write(&enrolled, wrong).unwrap();
    rig.serve("io1").unwrap();
    cannot_be_used(&rig.configuration, &["io1", "number 0", "number 1"]);
    rig.stop("io1");
    std::fs::write(&enrolled, right).unwrap();
    rig.serve("io1").unwrap();
    assert!(fetch(&mut rig.client(), b"/f").unwrap() == bytes);
}

#[test]
fn new_files_use_added_servers_and_the_present_strip_size() {
    let mut rig = Rig::start();
    let bytes = store(&mut rig.client(), b"/f", 1);
    rig.stop("meta");
    let entry = {
        let mut entry = rig.configuration.server("io0").unwrap().1.clone();
        entry.name = "io2".to_owned();
        entry.directory = rig.home("io2");
        entry.addresses = vec![format!("shm://{}", rig.home("io2.sock").display())];
        entry
    };
    // The order of entries does not matter.
    rig.configuration.servers.insert(0, entry);
    rig.configuration.distribution.strip_size = 128 << 10;
    format(&rig.configuration, "io2").unwrap();
    rig.serve("meta").unwrap();
    rig.serve("io2").unwrap();
    let mut client = rig.client();
    let distribution = |client: &mut Client, path: &[u8]| match client.open(path).unwrap().node.body
    {
        Body::Stuffed { distribution, .. } | Body::Striped { distribution, .. } => distribution,
        other => panic!("{other:?}"),
    };
    store(&mut client, b"/before", 2);
    let mut servers = distribution(&mut client, b"/before").servers;
    servers.sort_unstable();
    assert_eq!(servers, [0, 1]);
    client.add_server("io2").unwrap();
    let error = client.add_server("io2").unwrap_err();
    assert_eq!(error.errno, Errno::EEXIST, "{error}");
    let error = client.add_server("io9").unwrap_err();
    says(
        &error.to_string(),
        &["io9", "start the metadata server again"],
    );
    await_generation(&mut client, "io2");
    let after = store(&mut client, b"/after", 3);
    let dealt = distribution(&mut client, b"/after");
    assert_eq!(dealt.strip_size, 128 << 10);
    let mut servers = dealt.servers;
    servers.sort_unstable();
    assert_eq!(servers, [0, 1, 2]);
    assert!(fetch(&mut rig.client(), b"/after").unwrap() == after);
    assert!(fetch(&mut rig.client(), b"/f").unwrap() == bytes);
}

#[test]
fn everything_that_server_processes_make_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    fn check(path: &Path) {
        let mode = path.symlink_metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                check(&entry.unwrap().path());
            }
        }
    }
    let fixture = Fixture::start(&Shape::default());
    store(&mut fixture.client(), b"/f", 1);
    for server in &fixture.cluster.configuration().servers {
        check(&server.directory);
    }
    // Names of users' files are in what servers log.
    check(&fixture.config_file().with_file_name("log"));
}

#[test]
fn a_wrong_key_is_final_at_once() {
    use std::os::unix::fs::OpenOptionsExt as _;
    let keys = tempfile::tempdir().unwrap();
    let key = |name: &str, digit: &str| {
        let path = keys.path().join(name);
        let mut file = std::fs::File::options();
        let mut file = file
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        std::io::Write::write_all(&mut file, digit.repeat(64).as_bytes()).unwrap();
        path
    };
    let (right, wrong) = (key("right", "a"), key("wrong", "b"));
    let shape = Shape {
        tcp: true,
        ..Shape::default()
    };
    let fixture = Fixture::start_with(&shape, |configuration| {
        configuration.key_file = Some(right);
    });
    let stranger = Configuration {
        key_file: Some(wrong),
        timeout: Duration::from_secs(600),
        ..fixture.cluster.configuration().clone()
    };
    // With a time-out far above the test's, an error shows that it was not waited for.
    let error = client(&stranger).open(b"/").unwrap_err();
    assert_eq!(error.errno, Errno::EKEYREJECTED, "{error}");
    assert!(!error.to_string().contains("running?"), "{error}");
}

#[test]
fn a_stopped_server_sends_no_reply() {
    use rustix::process::{Pid, Signal, kill_process};
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let (index, _) = fixture.cluster.configuration().server("io0").unwrap();
    client.storage_status(index).unwrap();
    let pid = Pid::from_raw(fixture.cluster.pid(index).unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // A process on another processor runs until the signal has reached it.
    while !is_stopped(pid) {
        std::thread::yield_now();
    }
    client.limit(Duration::from_millis(400));
    let error = client.storage_status(index).unwrap_err();
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(error.errno, Errno::ETIMEDOUT, "{error}");
    says(&error.to_string(), &["no reply within 0.4 s", "io0"]);
    assert!(!error.to_string().contains("we disconnected"), "{error}");
}

/// One of many that wait for each other, as posted ones do, would otherwise get the whole time-out after each before it.
#[test]
fn an_operation_that_waited_while_a_server_was_silent_ends_soon() {
    use rustix::process::{Pid, Signal, kill_process};
    const WHOLE: Duration = Duration::from_secs(60);
    let fixture = Fixture::start_with(&Shape::default(), |configuration| {
        configuration.timeout = WHOLE;
    });
    let mut client = fixture.client();
    let (index, _) = fixture.cluster.configuration().server("io0").unwrap();
    client.storage_status(index).unwrap();
    let pid = Pid::from_raw(fixture.cluster.pid(index).unwrap() as i32).unwrap();
    let posted = Instant::now();
    kill_process(pid, Signal::STOP).unwrap();
    while !is_stopped(pid) {
        std::thread::yield_now();
    }
    client.limit(Duration::from_millis(400));
    client.storage_status(index).unwrap_err();
    client.limit(WHOLE);
    client.has_waited(posted);
    let began = Instant::now();
    let error = client.storage_status(index).unwrap_err();
    assert_eq!(error.errno, Errno::ETIMEDOUT, "{error}");
    assert!(began.elapsed() < WHOLE / 2, "{error}");
    kill_process(pid, Signal::CONT).unwrap();
    client.storage_status(index).unwrap();
}

fn is_stopped(pid: rustix::process::Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    status.lines().any(|line| line == "State:\tT (stopped)")
}
