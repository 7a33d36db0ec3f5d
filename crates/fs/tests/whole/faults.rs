//! Dead, hung and full servers; dead, hung and very many clients; invalid input.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, ClientOptions, CreateOptions};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{DistributionHint, Errno, ReplyBody};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Fixture, Shape, client, pattern};

/// How long anything here may take before it counts as hanging.
const GENEROUS: Duration = Duration::from_secs(60);

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Stops a process, and waits until it has stopped.
pub(crate) fn halt(pid: u32) {
    signal(pid, Signal::STOP);
    let until = Instant::now() + GENEROUS;
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim().starts_with('T'))
    };
    while !is_stopped() {
        assert!(Instant::now() < until, "process {pid} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client with a long time-out instead of the configured one, after which servers end a client's unfinished work.
fn patient_client(configuration: &Configuration) -> Client {
    client(&Configuration {
        timeout: GENEROUS,
        ..configuration.clone()
    })
}

/// Files that lie on one I/O server only.
fn on_server(number: u16) -> CreateOptions {
    CreateOptions {
        distribution: Some(DistributionHint {
            strip_size: 0,
            servers: 1,
            start: number + 1,
        }),
        ..CreateOptions::default()
    }
}

fn busy(client: &mut Client, server: usize) -> u32 {
    match client.storage_status(server).unwrap() {
        ReplyBody::StorageStatus { busy, .. } => busy,
        other => panic!("{other:?}"),
    }
}

/// Waits until a server has nothing in progress.
fn await_idle(client: &mut Client, server: usize) {
    let until = Instant::now() + GENEROUS;
    while busy(client, server) > 0 {
        assert!(Instant::now() < until, "requests stay in progress");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn dead_and_hung_servers_give_clear_errors_in_time() {
    let mut fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let mut file = client.create(b"/f", &on_server(1)).unwrap();
    let bytes = pattern(1, 200_000);
    client.write_at(&mut file, 0, &bytes).unwrap();
    let expect_failure = |client: &mut Client, file: &mut _| {
        let started = Instant::now();
        let mut into = vec![0; bytes.len()];
        // Only for calls that must fail: calls that must succeed may take longer on a busy machine.
        client.limit(Duration::from_secs(1));
        let errors = [
            client.read_at(file, 0, &mut into).unwrap_err(),
            client.write_at(file, 0, &bytes).unwrap_err(),
        ];
        client.limit(Duration::MAX);
        assert!(started.elapsed() < GENEROUS);
        for error in errors {
            let text = error.to_string();
            assert!(text.contains("io1") && text.contains("shm://"), "{text}");
            assert!(text.contains("1 s"), "{text}");
        }
        // Operations that do not need that server succeed.
        let mut other = client.create(b"/other", &on_server(0)).unwrap();
        client.write_at(&mut other, 0, &bytes).unwrap();
    };
    // Server 2 of the configuration is I/O server 1.
    halt(fixture.cluster.pid(2).unwrap());
    expect_failure(&mut client, &mut file);
    signal(fixture.cluster.pid(2).unwrap(), Signal::CONT);
    let mut into = vec![0; bytes.len()];
    client.read_at(&mut file, 0, &mut into).unwrap();
    assert!(into == bytes);

    fixture.cluster.kill(2).unwrap();
    expect_failure(&mut client, &mut file);
    fixture.cluster.restart(2).unwrap();
    into.fill(0);
    client.read_at(&mut file, 0, &mut into).unwrap();
    assert!(into == bytes);
}

#[test]
fn a_full_disk_is_a_clear_error_and_nothing_else() {
    let mount = tempfile::tempdir().unwrap();
    let full = mount.path().join("io1");
    std::fs::create_dir(&full).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "causeway-test"])
        .arg(&full)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        // Without the right to mount, the same refusal comes from a read-only-like place: the store
        // must return the system's error.
        let settings = causeway_fs::data::Settings {
            owner: causeway_fs::data::Owner {
                file_system: 1,
                generation: causeway_wire::fs::Generation::NONE,
            },
            synced: false,
            checksums: true,
            boot: 0,
        };
        let error = causeway_fs::data::Store::open(std::path::Path::new("/proc"), settings);
        assert!(error.is_err());
        return;
    }
    struct Unmount(std::path::PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
            assert!(unmounted.is_ok_and(|status| status.success()));
        }
    }
    let _unmount = Unmount(full.clone());
    let fixture = Fixture::start_with(&Shape::default(), |configuration| {
        configuration.servers[2].directory = full.clone();
    });
    let mut client = fixture.client();
    let kept = pattern(1, 1 << 20);
    let mut kept_file = client.create(b"/kept", &CreateOptions::default()).unwrap();
    client.write_at(&mut kept_file, 0, &kept).unwrap();
    client.fsync(&mut kept_file).unwrap();
    let mut big = client.create(b"/big", &CreateOptions::default()).unwrap();
    let error = client
        .write_at(&mut big, 0, &pattern(2, 16 << 20))
        .unwrap_err();
    assert_eq!(error.errno, Errno::ENOSPC, "{error}");
    assert!(error.to_string().contains("io1"), "{error}");
    // Acknowledged bytes can be read, and operations that do not need that disk succeed.
    let check_kept = |client: &mut Client| {
        let mut file = client.open(b"/kept").unwrap();
        let mut bytes = vec![0; kept.len()];
        assert_eq!(
            client.read_at(&mut file, 0, &mut bytes).unwrap(),
            kept.len()
        );
        assert!(bytes == kept);
    };
    check_kept(&mut client);
    let mut elsewhere = client.create(b"/elsewhere", &on_server(0)).unwrap();
    client
        .write_at(&mut elsewhere, 0, &pattern(3, 8 << 20))
        .unwrap();
    client.make_directory(b"/directory", 0o755, None).unwrap();
    // Making room helps.
    client.unlink(b"/big").unwrap();
    let until = Instant::now() + GENEROUS;
    let mut again = client.create(b"/again", &on_server(1)).unwrap();
    while let Err(error) = client.write_at(&mut again, 0, &pattern(4, 2 << 20)) {
        assert_eq!(error.errno, Errno::ENOSPC, "{error}");
        assert!(Instant::now() < until, "the space does not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
    check_kept(&mut client);
    fixture.cluster.stop().unwrap();
}

/// Not a test of its own: the work of other tests' processes. Without arguments it shows that a
/// client without servers fails and does not hang.
#[test]
fn client_process() {
    let Ok(work) = std::env::var("CAUSEWAY_TEST_CLIENT") else {
        let directory = tempfile::tempdir().unwrap();
        let shape = Shape {
            timeout_ms: 200,
            ..Shape::default()
        };
        let configuration = crate::cluster::configuration(&shape, directory.path());
        let error = client(&configuration).stat(b"/", true).unwrap_err();
        assert!(error.to_string().contains("meta, shm://"), "{error}");
        return;
    };
    let file = std::env::args().next_back().unwrap();
    let configuration = Configuration::load(file.as_ref()).unwrap();
    let result = match work.split_once(' ') {
        Some(("many", count)) => many(&configuration, count.parse().unwrap()),
        Some(("move", path)) => move_data(&configuration, path),
        _ => panic!("{work}"),
    };
    result.unwrap();
    std::process::exit(0);
}

/// Connects many clients to all servers, prints that, and stays until standard input ends.
fn many(configuration: &Configuration, count: usize) -> Result<(), causeway_fs::Error> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Client::connect(configuration, ClientOptions::default())?;
        for server in 0..configuration.servers.len() {
            client.ping(server)?;
        }
        clients.push(client);
    }
    println!("connected");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

/// Writes and reads one file over and over.
fn move_data(configuration: &Configuration, path: &str) -> Result<(), causeway_fs::Error> {
    let mut client = patient_client(configuration);
    let mut file = client.create(path.as_bytes(), &CreateOptions::default())?;
    let mut bytes = pattern(7, 8 << 20);
    println!("connected");
    loop {
        client.write_at(&mut file, 0, &bytes)?;
        client.read_at(&mut file, 0, &mut bytes)?;
    }
}

/// A process that does some work, and ends with the test at the latest.
struct Worker(Child);

impl Worker {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that does this work; returns when it is connected.
fn worker(fixture: &Fixture, work: &str) -> Worker {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::client_process", "--nocapture"])
        .arg(fixture.config_file())
        .env("CAUSEWAY_TEST_CLIENT", work)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut worker = Worker(child);
    let mut out = worker.0.stdout.take().unwrap();
    let mut said = String::new();
    let mut byte = [0];
    while !said.contains("connected") {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{said}");
        said.push(byte[0] as char);
    }
    // Further output of it needs a reader.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    worker
}

#[test]
fn killed_and_hung_clients_leave_nothing_behind() {
    for tcp in [false, true] {
        let fixture = Fixture::start(&Shape {
            tcp,
            timeout_ms: 1500,
            ..Shape::default()
        });
        let mut client = patient_client(fixture.cluster.configuration());
        for round in 0..4u64 {
            let mut worker = worker(&fixture, &format!("move /victim{round}"));
            std::thread::sleep(Duration::from_millis(10 + round * 15));
            if round % 2 == 0 {
                worker.kill();
            } else {
                // It stops in the middle of any operation.
                halt(worker.0.id());
            }
            let started = Instant::now();
            let mut file = client.create(b"/mine", &CreateOptions::default()).unwrap();
            let bytes = pattern(round, 1 << 20);
            client.write_at(&mut file, 0, &bytes).unwrap();
            let mut back = vec![0; bytes.len()];
            client.read_at(&mut file, 0, &mut back).unwrap();
            assert!(back == bytes, "tcp {tcp}, round {round}");
            eprintln!(
                "tcp {tcp}, round {round}: served others after {:?}",
                started.elapsed()
            );
            for server in [1, 2] {
                await_idle(&mut client, server);
            }
            eprintln!(
                "tcp {tcp}, round {round}: idle after {:?}",
                started.elapsed()
            );
        }
        fixture.cluster.stop().unwrap();
    }
}

/// Resident memory of a process in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kilobytes: u64 = line
        .split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kilobytes << 10
}

/// Processor time of a process, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_ascii_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_thousand_clients_come_and_vanish() {
    let fixture = Fixture::start(&Shape {
        servers: 1,
        ..Shape::default()
    });
    let mut mine = fixture.client();
    let workers: Vec<Worker> = (0..10).map(|_| worker(&fixture, "many 100")).collect();
    mine.ping(0).unwrap();
    for server in [0, 1] {
        let pid = fixture.cluster.pid(server).unwrap();
        let (used, before) = (resident(pid), ticks(pid));
        std::thread::sleep(Duration::from_secs(2));
        let spent = ticks(pid) - before;
        eprintln!(
            "server {server} with 1000 clients: {} MiB resident, {spent} ticks in 2 s idle",
            used >> 20
        );
        assert!(used <= 100 << 20, "{used} bytes");
        assert!(
            spent <= 20,
            "an idle server uses the processor: {spent} ticks in 2 s"
        );
    }
    drop(workers);
    let mut file = mine.create(b"/f", &CreateOptions::default()).unwrap();
    mine.write_at(&mut file, 0, &pattern(1, 100_000)).unwrap();
    fixture.cluster.stop().unwrap();
}

/// A connection as the shared-memory method makes it.
fn connect_packets(path: &str) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

#[test]
fn nonsense_on_the_sockets_hurts_no_client() {
    for tcp in [false, true] {
        let fixture = Fixture::start(&Shape {
            tcp,
            ..Shape::default()
        });
        let mut client = fixture.client();
        for server in &fixture.cluster.configuration().servers.clone() {
            let (scheme, rest) = server.addresses[0].split_once("://").unwrap();
            for seed in 0..20 {
                let bytes = pattern(seed, 1 << (seed % 14));
                // The server may close at once; then writing fails, which is as good.
                if scheme == "tcp" {
                    let _ = TcpStream::connect(rest).unwrap().write_all(&bytes);
                } else {
                    let _ = rustix::io::write(connect_packets(rest), &bytes);
                }
            }
        }
        for server in 0..3 {
            client.ping(server).unwrap();
        }
        let mut file = client.create(b"/f", &CreateOptions::default()).unwrap();
        client.write_at(&mut file, 0, &pattern(1, 100_000)).unwrap();
        fixture.cluster.stop().unwrap();
    }
}
