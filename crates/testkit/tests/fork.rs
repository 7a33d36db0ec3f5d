//! A forked child and the instances of its parent: the child gets clear errors, and no call of its
//! own, not even dropping the instances, disturbs the parent or its peers.
//!
//! A program of its own, since test processes have threads, and only a process without them can be copied whole.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_bmi::{
    Access, Addr, Bmi, Config, Context, Direction, Error, InfoOption, Memory, Parked, Posted,
    RegionDescriptor,
};
use causeway_sys::fork::run_in_child;
use causeway_testkit::patience::Patience;
use rustix::process::{Pid, WaitOptions, waitpid};

const TAG: u64 = 3;
/// Bytes of a message that every method transfers by rendezvous.
const LARGE: usize = 1 << 20;
const MOMENT: Duration = Duration::from_millis(1);
/// After this number of sleeps an instance parks; then it has a relay thread that waits on its
/// descriptors.
const SLEEPS: u32 = 40;

struct Node {
    bmi: Bmi,
    context: Context,
}

impl Node {
    fn new(listen: &[String]) -> Self {
        let mut bmi = Bmi::new(Config {
            listen: listen.to_vec(),
            ..Config::default()
        })
        .unwrap();
        let context = bmi.open_context().unwrap();
        Self { bmi, context }
    }

    /// The result of an operation, while `meanwhile` goes on.
    fn finish(&mut self, posted: Posted, mut meanwhile: impl FnMut()) -> u64 {
        let op = match posted {
            Posted::Complete(done) => return done.result.unwrap(),
            Posted::Pending(op) => op,
        };
        let mut patience = Patience::new("an operation completes");
        loop {
            if let Some(done) = self.bmi.test(op, Duration::ZERO).unwrap() {
                return done.result.unwrap();
            }
            meanwhile();
            patience.spend();
        }
    }

    /// Requests `bytes` bytes of the server at `address`.
    fn request(&mut self, address: Addr, bytes: usize, mut meanwhile: impl FnMut()) {
        let into = [Memory::zeroed(bytes)];
        let received = (self.bmi).post_recv(address, &into, TAG, self.context, 0);
        let request = [Memory::from_vec(bytes.to_le_bytes().to_vec())];
        let sent = (self.bmi).post_sendunexpected(address, &request, TAG, self.context, 0);
        self.finish(sent.unwrap(), &mut meanwhile);
        let received = self.finish(received.unwrap(), &mut meanwhile);
        assert_eq!(received, bytes as u64);
        assert!(into[0].to_vec().iter().all(|byte| *byte == 7));
    }

    /// Sends what callers request.
    fn serve(&mut self) {
        let mut requests = Vec::new();
        (self.bmi)
            .testunexpected(8, Duration::ZERO, &mut requests)
            .unwrap();
        for request in requests {
            let bytes = usize::from_le_bytes(request.data.try_into().unwrap());
            let data = [Memory::from_vec(vec![7; bytes])];
            let sent = (self.bmi).post_send(request.from, &data, TAG, self.context, 0);
            // Completions are not needed: the caller reports whether it has received all bytes.
            let _ = sent.unwrap();
            self.bmi.release(request.from);
        }
        let mut done = Vec::new();
        (self.bmi)
            .testcontext(self.context, 64, Duration::ZERO, &mut done)
            .unwrap();
        assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
    }
}

/// Two instances of the parent, and their handles for each other.
struct Parent {
    server: Node,
    client: Node,
    /// The client's addresses of the server, by method.
    addresses: BTreeMap<String, Addr>,
    /// The server's address of the client.
    buffer: Memory,
    plain: Memory,
    region: RegionDescriptor,
}

impl Parent {
    fn new(listen: &[String]) -> Self {
        let mut server = Node::new(listen);
        let mut client = Node::new(&[]);
        let mut addresses = BTreeMap::new();
        for text in server.bmi.listening() {
            let address = client.bmi.lookup(&text).unwrap();
            addresses.insert(text, address);
        }
        for &address in addresses.values() {
            client.request(address, LARGE, || server.serve());
        }
        let shm = addresses[&listen[0]];
        let buffer = client.bmi.memalloc(shm, 1 << 16).unwrap();
        buffer.write_at(0, b"parent's");
        let plain = Memory::zeroed(64);
        let region = client.bmi.export(shm, &plain, Access::ReadWrite).unwrap();
        for node in [&mut server, &mut client] {
            for _ in 0..SLEEPS {
                let mut none = Vec::new();
                node.bmi.testunexpected(1, MOMENT, &mut none).unwrap();
            }
        }
        Self {
            server,
            client,
            addresses,
            buffer,
            plain,
            region,
        }
    }

    fn exchange(&mut self) {
        for &address in self.addresses.values() {
            for bytes in [8, LARGE] {
                self.client.request(address, bytes, || self.server.serve());
            }
        }
    }

    /// Goes on until the child ends, and a little longer.
    fn go_on_beside(&mut self, child: i32) {
        let child = Pid::from_raw(child).unwrap();
        let mut patience = Patience::new("the child ends");
        let ended = loop {
            self.exchange();
            if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
                break status;
            }
            patience.spend();
        };
        assert_eq!(ended.exit_status(), Some(0), "{ended:?}");
        for _ in 0..20 {
            self.exchange();
        }
    }
}

/// This library's shared mappings in the process.
fn shared_mappings() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps.lines().filter(|line| line.contains("memfd:causeway"));
    ours.map(str::to_owned).collect()
}

fn assert_forked<T: std::fmt::Debug>(what: &str, result: Result<T, Error>) {
    let error = result.expect_err(what);
    assert!(matches!(error, Error::Forked), "{what}: {error}");
    assert!(error.to_string().contains("after fork()"), "{error}");
}

/// Every call, with the parent's instances.
fn touch(parent: &mut Parent, listen: &str) {
    let (address, region) = (parent.addresses[listen], parent.region);
    let Node { bmi, context } = &mut parent.client;
    let context = *context;
    let data = [Memory::zeroed(8)];
    let (soon, long) = (Duration::ZERO, Duration::from_secs(100));
    let mut done = Vec::new();
    let mut unexpected = Vec::new();
    for idle in [soon, long] {
        assert_forked("testcontext", bmi.testcontext(context, 1, idle, &mut done));
        let tested = bmi.testunexpected(1, idle, &mut unexpected);
        assert_forked("testunexpected", tested);
        assert_forked("testsome", bmi.testsome(&[], idle, &mut done));
        assert!(bmi.wait(context, idle), "testing reports the reason");
    }
    assert!(bmi.prepare_wait(None, &[]).is_none());
    bmi.check_parked();
    let sent = bmi.post_send(address, &data, TAG, context, 0);
    assert_forked("post_send", sent);
    let sent = bmi.post_sendunexpected(address, &data, TAG, context, 0);
    assert_forked("post_sendunexpected", sent);
    let received = bmi.post_recv(address, &data, TAG, context, 0);
    assert_forked("post_recv", received);
    let moved = bmi.post_transfer(address, Direction::Put, &data, &[region], context, 0);
    assert_forked("post_transfer", moved);
    assert_forked("lookup", bmi.lookup(listen));
    assert_forked("memalloc", bmi.memalloc(address, 8));
    let exported = bmi.export(address, &data[0], Access::Read);
    assert_forked("export", exported);
    assert_forked("open_context", bmi.open_context());
    let option = InfoOption::Spin(soon);
    assert_forked("set_info", bmi.set_info(None, option));
    assert!(bmi.map(address, &region).is_none());
    assert!(bmi.report(address).is_none() && bmi.identity(address).is_none());
    bmi.waker().wake();
    bmi.unexport(address, &region);
    bmi.close_context(context);
    bmi.retain(address);
    for _ in 0..4 {
        bmi.release(address);
    }
    bmi.disconnect(address);
}

/// A wait that the parent has prepared but not begun.
fn prepare_wait(bmi: &mut Bmi) -> Parked {
    let mut patience = Patience::new("a wait is prepared");
    loop {
        if let Some(mut parked) = bmi.prepare_wait(None, &[]) {
            if parked.is_sleep() {
                return parked;
            }
            parked.wait();
            bmi.finish_wait(parked);
        }
        patience.spend();
    }
}

/// Operations in flight when the parent forked do not belong to the child either.
fn touch_operation(parent: &mut Parent, posted: &Posted) {
    let Posted::Pending(op) = posted else {
        panic!("no message was sent for it");
    };
    let bmi = &mut parent.client.bmi;
    assert_forked("test", bmi.test(*op, Duration::ZERO));
    assert_forked("test", bmi.test(*op, Duration::from_secs(100)));
    bmi.cancel(*op);
}

fn play_child(mut parent: Parent, mut parked: Parked, listen: &str, posted: &Posted) {
    assert_eq!(shared_mappings(), Vec::<String>::new());
    touch_operation(&mut parent, posted);
    // The prepared sleep is the parent's: the wait returns.
    parked.wait();
    parent.client.bmi.finish_wait(parked);
    touch(&mut parent, listen);
    assert_eq!(parent.plain.to_vec(), [0; 64], "the heap is copied");
    let kept = parent.buffer.clone();
    drop(parent);
    drop(kept);
    // The child's own instance works.
    let mut own = Node::new(&[]);
    let server = own.bmi.lookup(listen).unwrap();
    for bytes in [8, LARGE] {
        own.request(server, bytes, || {});
    }
    assert_ne!(shared_mappings(), Vec::<String>::new());
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server");
    let listen = [
        format!("shm://{}", path.display()),
        "tcp://127.0.0.1:0".to_owned(),
        "udp://127.0.0.1:0".to_owned(),
    ];
    let mut parent = Parent::new(&listen);
    let shm = parent.addresses[&listen[0]];
    let into = [Memory::zeroed(5)];
    let waiting = (parent.client.bmi).post_recv(shm, &into, TAG + 1, parent.client.context, 0);
    let waiting = waiting.unwrap();
    for _ in 0..3 {
        // The child drops its copies of objects that the parent goes on using.
        let parked = prepare_wait(&mut parent.client.bmi);
        let mut copied = Some((parent, parked));
        let child = run_in_child(|| {
            let (parent, parked) = copied.take().unwrap();
            play_child(parent, parked, &listen[0], &waiting);
        })
        .unwrap();
        let parked;
        (parent, parked) = copied.unwrap();
        parent.client.bmi.finish_wait(parked);
        parent.go_on_beside(child);
        assert!(path.exists(), "the child has removed its parent's socket");
    }
    let mut kept = [0; 8];
    parent.buffer.read_at(0, &mut kept);
    assert_eq!(&kept, b"parent's");
    let info = parent.client.bmi.get_info(None);
    assert_eq!((info.connected, info.operations), (3, 1), "{info:?}");
    drop(parent);
    assert!(!path.exists());
    println!("a child disturbs neither its parent nor the peers: ok");
}
