//! Peers that are connected and idle: memory, descriptors, processor.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bmi::{Config, Memory};
use causeway_testkit::directory;
use causeway_testkit::patience::{Patience, eventually};
use causeway_testkit::process::{self, Child, Part};

use crate::{NOW, Node};

/// Instances on each side; every instance on one side is a peer of every instance on the other, so that little of what
/// is measured belongs to an instance rather than to a pair.
const SIDE: usize = 26;
const PAIRS: usize = SIDE * SIDE;

/// Most memory of a pair in both processes together: shared and private pages, and the tables that map them.
const BUDGET_BYTES: usize = 16 << 10;

/// Present use of the processes of both sides.
#[derive(Debug)]
struct Usage {
    /// Pages, of which each process has its share.
    pages_bytes: usize,
    tables_bytes: usize,
    descriptors: usize,
}

/// The number behind `name` in a file of `/proc`, in bytes.
fn bytes_of(path: &Path, name: &str) -> usize {
    let text = std::fs::read_to_string(path).expect("a child of this process's file");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    number.unwrap_or_else(|| panic!("no {name} in {}", path.display())) << 10
}

impl Usage {
    /// Every page of a pair is mapped by both or one of the processes, so that their shares of pages cover the
    /// memory files as well. The program's own pages are left out: their shares grow when other processes that
    /// run the same program end.
    fn of(processes: &[&Child]) -> Self {
        let mut usage = Self {
            pages_bytes: 0,
            tables_bytes: 0,
            descriptors: 0,
        };
        for child in processes {
            let proc = PathBuf::from(format!("/proc/{}", child.pid()));
            for kind in ["Pss_Anon:", "Pss_Shmem:"] {
                usage.pages_bytes += bytes_of(&proc.join("smaps_rollup"), kind);
            }
            usage.tables_bytes += bytes_of(&proc.join("status"), "VmPTE:");
            let descriptors =
                std::fs::read_dir(proc.join("fd")).expect("a child of this process's folder");
            usage.descriptors += descriptors.count();
        }
        usage
    }
}

fn address(folder: &Path, number: usize) -> String {
    format!("shm://{}", folder.join(number.to_string()).display())
}

/// Makes instances, waits for the file `go`, exchanges a message with every instance of the other side, and waits
/// for its end.
fn play(part: &Part) -> ! {
    let folder = Path::new(&part.arguments[0]);
    let listens = part.role == "listeners";
    let mut nodes: Vec<Node> = (0..SIDE)
        .map(|number| match listens {
            true => Node::listening(&[address(folder, number)]),
            false => Node::new(Config::default()),
        })
        .collect();
    part.report("ready");
    eventually("the word to begin", || {
        folder.join("go").exists().then_some(())
    });
    if listens {
        reply_to_all(&mut nodes);
    } else {
        greet_all(folder, &mut nodes);
    }
    part.report("met");
    loop {
        std::thread::park();
    }
}

/// Greets all listeners from all nodes and receives their replies.
fn greet_all(folder: &Path, nodes: &mut [Node]) {
    let mut done = Vec::new();
    for node in nodes.iter_mut() {
        for number in 0..SIDE {
            let to = node
                .bmi
                .lookup(&address(folder, number))
                .expect("an address");
            let greeting = [Memory::from_vec(b"hello".to_vec())];
            let into = [Memory::zeroed(8)];
            let sent = node
                .bmi
                .post_sendunexpected(to, &greeting, 1, node.context, 0);
            let awaited = node.bmi.post_recv(to, &into, 1, node.context, 0);
            let _pending = (sent.expect("posted"), awaited.expect("posted"));
        }
    }
    let mut patience = Patience::new("all listeners reply");
    // The first connection of a send completes later, so both operations are tested for.
    while done.len() < 2 * PAIRS {
        for node in nodes.iter_mut() {
            let tested = node.bmi.testcontext(node.context, 64, NOW, &mut done);
            tested.expect("a context");
        }
        patience.spend();
    }
    assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
}

/// Replies to the greetings of all.
fn reply_to_all(nodes: &mut [Node]) {
    let (mut greeted, mut patience) = (0, Patience::new("all nodes greet"));
    let mut hellos = Vec::new();
    let mut done = Vec::new();
    while greeted < PAIRS {
        for node in nodes.iter_mut() {
            let taken = node.bmi.testunexpected(64, NOW, &mut hellos);
            taken.expect("a test");
            for message in hellos.drain(..) {
                let reply = [Memory::from_vec(b"good day".to_vec())];
                let sent = node.bmi.post_send(message.from, &reply, 1, node.context, 0);
                let _maybe_pending = sent.expect("posted");
                node.bmi.release(message.from);
                greeted += 1;
            }
            let tested = node.bmi.testcontext(node.context, 64, NOW, &mut done);
            tested.expect("a context");
        }
        patience.spend();
    }
    // Replies that were not sent at once are sent now.
    while nodes
        .iter()
        .any(|node| node.bmi.get_info(None).operations > done.len())
    {
        for node in nodes.iter_mut() {
            node.bmi.wait(node.context, NOW);
            let tested = node.bmi.testcontext(node.context, 64, NOW, &mut done);
            tested.expect("a context");
            done.clear();
        }
        patience.spend();
    }
}

#[test]
fn an_idle_peer_costs_little_memory() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let folder = directory::fresh();
    let path = folder.path().to_str().expect("a name in UTF-8");
    let test = "idle::an_idle_peer_costs_little_memory";
    let spawn = |role| {
        let child = Child::spawn(test, role, &[path]);
        assert_eq!(child.next_line(), "ready");
        child
    };
    let (listeners, callers) = (spawn("listeners"), spawn("callers"));
    let processes = [&listeners, &callers];
    let before = Usage::of(&processes);
    std::fs::write(folder.path().join("go"), b"").expect("a file");
    for child in processes {
        assert_eq!(child.next_line(), "met");
    }
    let after = Usage::of(&processes);
    let more = |what: fn(&Usage) -> usize| what(&after).saturating_sub(what(&before));
    let pages = more(|usage| usage.pages_bytes) / PAIRS;
    let tables = more(|usage| usage.tables_bytes) / PAIRS;
    println!("a pair: {pages} bytes of pages, {tables} bytes of page tables");
    assert!(pages >= 4096, "the shared page at least must show: {pages}");
    assert!(
        pages + tables <= BUDGET_BYTES,
        "{pages} bytes of pages, {tables} of page tables for each pair"
    );
    // A socket at each end. One handle of a process (`causeway_sys::pinned`) serves all connections with it.
    let descriptors = more(|usage| usage.descriptors);
    assert!(
        descriptors <= 2 * PAIRS + 8,
        "{descriptors} for {PAIRS} pairs"
    );
}

/// How often this thread has gone to sleep.
fn sleeps() -> u64 {
    let status =
        std::fs::read_to_string("/proc/thread-self/status").expect("a file of this process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("counted").trim().parse().expect("a number")
}

#[test]
fn an_idle_process_sleeps() {
    const CALLERS: usize = 32;
    const IDLE: Duration = Duration::from_secs(2);
    let folder = directory::fresh();
    let mut host = Node::listening(&[address(folder.path(), 0), "tcp://127.0.0.1:0".to_owned()]);
    let addresses = host.bmi.listening();
    let mut callers: Vec<Node> = Vec::new();
    let mut hellos = Vec::new();
    for (number, address) in addresses.iter().cycle().take(CALLERS).enumerate() {
        let mut caller = Node::new(Config::default());
        let to = caller.bmi.lookup(address).expect("an address");
        let greeting = [Memory::from_vec(b"hello".to_vec())];
        let sent = caller
            .bmi
            .post_sendunexpected(to, &greeting, 1, caller.context, 0);
        let _pending = sent.expect("posted");
        let mut patience = Patience::new("a greeting arrives");
        while hellos.len() <= number {
            caller.bmi.wait(caller.context, NOW);
            host.bmi
                .testunexpected(1, NOW, &mut hellos)
                .expect("a test");
            patience.spend();
        }
        callers.push(caller);
    }
    // Remaining packets of the greetings.
    for _ in 0..20 {
        host.bmi.wait(host.context, Duration::from_millis(5));
        for caller in &mut callers {
            caller.bmi.wait(caller.context, NOW);
        }
    }
    let (before, since) = (sleeps(), Instant::now());
    while let Some(left) = IDLE.checked_sub(since.elapsed()) {
        assert!(!host.bmi.wait(host.context, left), "no message was sent");
    }
    let times = sleeps() - before;
    assert!(
        (1..=10).contains(&times),
        "it slept {times} times in {IDLE:?}"
    );
    assert_eq!(host.bmi.get_info(None).connected, CALLERS);
}
