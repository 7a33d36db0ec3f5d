//! A server without requests costs next to nothing, also after every kind of fault. Processor
//! time is measured, and how often the server's thread has slept, not how long something took: a loaded machine
//! changes neither.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Bmi, Config, Context, Memory, Posted, Unexpected};
use causeway_sys::socket::RecordSocket;
use causeway_testkit::process::{self, Child};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
const MOMENT: Duration = Duration::from_millis(20);
const TAG: u64 = 3;
/// How long the server is left alone.
const REST: Duration = Duration::from_secs(2);
/// A thousandth of that.
const MOST_BUSY: Duration = Duration::from_millis(2);
/// Ticks, probes of peers over UDP, and some to spare.
const MOST_SLEEPS: u64 = 60;

struct Server {
    bmi: Bmi,
    context: Context,
    callers: Vec<Unexpected>,
    /// Sends that have not completed.
    unfinished: usize,
}

fn config(listen: &[String]) -> Config {
    Config {
        listen: listen.to_vec(),
        connect_timeout: CONNECT_TIMEOUT,
        publish: false,
        ..Config::default()
    }
}

impl Server {
    fn new(listen: &[String]) -> Self {
        let mut bmi = Bmi::new(config(listen)).unwrap();
        let context = bmi.open_context().unwrap();
        let callers = Vec::new();
        Self {
            bmi,
            context,
            callers,
            unfinished: 0,
        }
    }

    fn work(&mut self) {
        self.bmi.wait(self.context, MOMENT);
        let mut done = Vec::new();
        (self.bmi)
            .testcontext(self.context, usize::MAX, Duration::ZERO, &mut done)
            .unwrap();
        self.unfinished -= done.len();
        (self.bmi)
            .testunexpected(usize::MAX, Duration::ZERO, &mut self.callers)
            .unwrap();
    }

    fn work_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.work();
        }
    }

    fn wait_for_callers(&mut self, count: usize) {
        let limit = Instant::now() + Duration::from_secs(60);
        while self.callers.len() < count {
            assert!(Instant::now() < limit, "{} came", self.callers.len());
            self.work();
        }
    }

    /// Sends; the result is ignored.
    fn send(&mut self, to: Addr, len: usize) {
        let data = [Memory::zeroed(len)];
        let posted = self.bmi.post_send(to, &data, TAG, self.context, 0);
        self.unfinished += usize::from(matches!(posted, Ok(Posted::Pending(_))));
    }

    /// Waits until all messages have arrived or failed. Over UDP, the server probes a silent peer before it reports
    /// the peer down.
    fn finish(&mut self) {
        let limit = Instant::now() + Duration::from_secs(60);
        while self.unfinished > 0 {
            assert!(Instant::now() < limit, "{} unfinished", self.unfinished);
            self.work();
        }
    }

    /// Cost of the thread without requests: processor time, and number of sleeps.
    fn rests(&mut self) -> (Duration, u64) {
        let (busy, sleeps) = (process::thread_time(), sleeps());
        let end = Instant::now() + REST;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let woken = self.bmi.wait(self.context, left);
            assert!(!woken, "nothing happens");
        }
        (process::thread_time() - busy, self::sleeps() - sleeps)
    }
}

fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Calls the server a number of times, from instances of its own, and then stays, or ends half of them.
fn run_client(address: &str, act: &str) -> ! {
    let mut all: Vec<(Bmi, Context)> = (0..5)
        .map(|_| {
            let mut bmi = Bmi::new(config(&[])).unwrap();
            let context = bmi.open_context().unwrap();
            let server = bmi.lookup(address).unwrap();
            let hello = [Memory::zeroed(8)];
            let posted = bmi.post_sendunexpected(server, &hello, TAG, context, 0);
            assert!(posted.is_ok());
            (bmi, context)
        })
        .collect();
    let mut step = |count: usize| {
        all.truncate(count);
        for (bmi, context) in &mut all {
            bmi.wait(*context, Duration::from_millis(1));
        }
    };
    let end = Instant::now() + MOMENT * 20;
    loop {
        let leaves = act == "leave" && Instant::now() > end;
        step(if leaves { 2 } else { 5 });
    }
}

/// Every fault that unknown callers, peers and the server itself can cause at one address.
fn trouble(server: &mut Server, test: &str, address: &str, dir: &Path) {
    let unused = match address.split("://").next() {
        Some("shm") => format!("shm://{}", dir.join("unused").display()),
        Some("tcp") => "tcp://127.0.0.1:1".to_owned(),
        _ => "udp://127.0.0.1:1".to_owned(),
    };
    let to = server.bmi.lookup(&unused).unwrap();
    server.send(to, 9);
    let (_, place) = address.split_once("://").unwrap();
    let mut silent = Vec::new();
    for len in [0, 1, 24, 500] {
        let garbage = vec![0x5a; len];
        match address.split("://").next() {
            Some("shm") => {
                let socket = RecordSocket::connect(Path::new(place)).unwrap();
                let _ = socket.send(&garbage, &[]);
            }
            Some("tcp") => {
                let mut stream = TcpStream::connect(place).unwrap();
                stream.write_all(&garbage).unwrap();
                silent.push(stream);
            }
            _ => {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.send_to(&garbage, place).unwrap();
            }
        }
    }
    let before = server.callers.len();
    let mut killed = Child::spawn(test, "client", &[address, "stay"]);
    let _leaver = Child::spawn(test, "client", &[address, "leave"]);
    server.wait_for_callers(before + 10);
    for at in before..before + 10 {
        server.send(server.callers[at].from, 100);
    }
    server.work_for(MOMENT * 30);
    killed.kill();
    // Small and large messages, to clients that have ended and to clients that do not receive them.
    for at in before..before + 10 {
        server.send(server.callers[at].from, 100);
        server.send(server.callers[at].from, 1 << 20);
    }
    server.work_for(CONNECT_TIMEOUT + Duration::from_millis(700));
    drop(silent);
}

/// A server that listens on `schemes`, each of which it has trouble on. `test` is the calling test's name.
fn costs_nothing(test: &str, schemes: &[&str]) {
    if let Some(part) = process::part() {
        run_client(&part.arguments[0], &part.arguments[1]);
    }
    let dir = tempfile::tempdir().unwrap();
    let listen: Vec<String> = schemes
        .iter()
        .map(|scheme| match *scheme {
            "shm" => format!("shm://{}", dir.path().join("s").display()),
            scheme => format!("{scheme}://127.0.0.1:0"),
        })
        .collect();
    let mut server = Server::new(&listen);
    for address in server.bmi.listening() {
        trouble(&mut server, test, &address, dir.path());
    }
    // The last clients have ended with their test's handles.
    server.finish();
    server.work_for(Duration::from_millis(700));
    let (busy, sleeps) = server.rests();
    println!("{schemes:?}: {busy:?} busy in {REST:?}, {sleeps} sleeps");
    assert!(busy < MOST_BUSY, "{schemes:?}: {busy:?} busy in {REST:?}");
    assert!(
        sleeps < MOST_SLEEPS,
        "{schemes:?}: {sleeps} sleeps in {REST:?}"
    );
}

#[test]
fn an_idle_server_of_shm_costs_nothing() {
    costs_nothing("an_idle_server_of_shm_costs_nothing", &["shm"]);
}

#[test]
fn an_idle_server_of_tcp_costs_nothing() {
    costs_nothing("an_idle_server_of_tcp_costs_nothing", &["tcp"]);
}

#[test]
fn an_idle_server_of_udp_costs_nothing() {
    costs_nothing("an_idle_server_of_udp_costs_nothing", &["udp"]);
}

#[test]
fn an_idle_server_of_all_methods_costs_nothing() {
    costs_nothing(
        "an_idle_server_of_all_methods_costs_nothing",
        &["shm", "tcp", "udp"],
    );
}
