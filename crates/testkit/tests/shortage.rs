//! Processes that run out of file descriptors: both sides get an error that names the shortage and the process, and the next client is
//! served as soon as descriptors are free again.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_bmi::{Bmi, Config, Context, Memory, OpError, PeerError, Posted};
use causeway_testkit::process::{self, Child, Part};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MOMENT: Duration = Duration::from_millis(20);
const TAG: u64 = 3;
/// Descriptors that a process has left.
const FEW: u64 = 12;
const MANY_CLIENTS: usize = 40;
/// Descriptors that a client has left, one time after the other: they run out at every step of a connection.
const CLIENT_HAS: [u64; 5] = [0, 1, 2, 3, FEW];

struct Node {
    bmi: Bmi,
    context: Context,
}

impl Node {
    fn new(listen: &[String]) -> Self {
        let mut bmi = Bmi::new(Config {
            listen: listen.to_vec(),
            publish: false,
            ..Config::default()
        })
        .unwrap();
        let context = bmi.open_context().unwrap();
        Self { bmi, context }
    }

    /// Sends the server a request and waits for the reply.
    fn request(&mut self, address: &str) -> Result<u64, OpError> {
        let server = self.bmi.lookup(address).unwrap();
        let into = [Memory::zeroed(8)];
        let posted = (self.bmi).post_recv(server, &into, TAG, self.context, 1);
        let request = [Memory::zeroed(1)];
        let sent = (self.bmi).post_sendunexpected(server, &request, TAG, self.context, 2);
        assert!(sent.is_ok());
        let op = match posted.unwrap() {
            Posted::Complete(done) => return done.result,
            Posted::Pending(op) => op,
        };
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(done) = self.bmi.test(op, MOMENT).unwrap() {
                return done.result;
            }
            assert!(Instant::now() < limit, "neither a reply nor an error");
        }
    }

    fn serve_one(&mut self) {
        let mut unexpected = Vec::new();
        let mut done = Vec::new();
        (self.bmi)
            .testunexpected(1, MOMENT, &mut unexpected)
            .unwrap();
        for request in unexpected {
            let reply = [Memory::zeroed(2)];
            let sent = (self.bmi).post_send(request.from, &reply, TAG, self.context, 0);
            assert!(sent.is_ok());
            self.bmi.release(request.from);
        }
        let now = Duration::ZERO;
        (self.bmi)
            .testcontext(self.context, usize::MAX, now, &mut done)
            .unwrap();
    }
}

/// Leaves this process exactly `few` descriptors. The kernel's limit bounds their numbers, not how many are open,
/// and there may be gaps between the numbers of descriptors that a process has inherited.
fn leave(few: u64) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let limit = |current| setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    limit(maximum);
    let listed: Vec<u64> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|number| number.parse().unwrap())
        .collect();
    // Without the one that this list was read through.
    let is_open = |number: &u64| std::fs::exists(format!("/proc/self/fd/{number}")).unwrap();
    let open: BTreeSet<u64> = listed.into_iter().filter(is_open).collect();
    let free = (0..).filter(|number| !open.contains(number));
    limit(free.take(few as usize + 1).last());
}

fn play(part: &Part) -> ! {
    let address = &part.arguments[0];
    match part.role.as_str() {
        "server" => {
            let mut node = Node::new(std::slice::from_ref(address));
            leave(FEW);
            part.report(&node.bmi.listening()[0]);
            let began = Instant::now();
            let mut told = false;
            loop {
                node.serve_one();
                // A listening socket that stays readable would keep it busy for ever.
                if began.elapsed() > Duration::from_secs(3) && !told {
                    told = true;
                    part.report(&format!("{}", process::thread_time().as_millis()));
                }
            }
        }
        _ => {
            let mut node = Node::new(&[]);
            for left in CLIENT_HAS {
                leave(left);
                part.report(&match node.request(address) {
                    Ok(size) => format!("took {size}"),
                    Err(error) => error.to_string(),
                });
            }
            loop {
                std::thread::park();
            }
        }
    }
}

fn address(scheme: &str, dir: &Path) -> String {
    match scheme {
        "shm" => format!("shm://{}", dir.join("s").display()),
        _ => "tcp://127.0.0.1:0".to_owned(),
    }
}

#[test]
fn a_server_without_descriptors_says_so_and_serves_again_when_it_has_some() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let test = "a_server_without_descriptors_says_so_and_serves_again_when_it_has_some";
    for scheme in ["shm", "tcp"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Child::spawn(test, "server", &[&address(scheme, dir.path())]);
        let at = server.next_line();
        let mut served = Vec::new();
        let mut refused = 0;
        for _ in 0..MANY_CLIENTS {
            let mut client = Node::new(&[]);
            match client.request(&at) {
                Ok(size) => {
                    assert_eq!((size, refused), (2, 0), "{scheme}");
                    served.push(client);
                }
                Err(OpError::Peer { cause, .. }) => {
                    refused += 1;
                    let expected = matches!(&cause, PeerError::Full(why)
                        if why.contains("no file descriptors left"));
                    assert!(expected, "{scheme}: {cause:?}");
                }
                Err(other) => panic!("{scheme}: {other}"),
            }
        }
        assert!(!served.is_empty() && refused > 0, "{scheme}");
        // A client that stays connected is served all the while.
        assert!(matches!(served[0].request(&at), Ok(2)), "{scheme}");
        served.truncate(served.len() / 2);
        let mut next = Node::new(&[]);
        let limit = Instant::now() + Duration::from_secs(60);
        while let Err(error) = next.request(&at) {
            // Until the server has noticed that the others have left.
            assert!(Instant::now() < limit, "{scheme}: {error}");
        }
        let busy_ms: u64 = server.next_line().parse().unwrap();
        assert!(busy_ms < 1000, "{scheme}: {busy_ms} ms of 3 s");
    }
}

#[test]
fn a_client_without_descriptors_says_so_and_connects_when_it_has_some() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let test = "a_client_without_descriptors_says_so_and_connects_when_it_has_some";
    for scheme in ["shm", "tcp"] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Node::new(&[address(scheme, dir.path())]);
        let at = server.bmi.listening()[0].clone();
        let client = Child::spawn(test, "client", &[&at]);
        let expected = "this process cannot connect: it has too many open files";
        std::thread::scope(|scope| {
            let replies = scope.spawn(move || CLIENT_HAS.map(|_| client.next_line()));
            while !replies.is_finished() {
                server.serve_one();
            }
            let replies = replies.join().unwrap();
            let refused = replies.partition_point(|reply| reply.contains(expected));
            assert!(
                (1..CLIENT_HAS.len()).contains(&refused),
                "{scheme}: {replies:?}"
            );
            let all_served = replies[refused..].iter().all(|reply| reply == "took 2");
            assert!(all_served, "{scheme}: {replies:?}");
        });
    }
}
