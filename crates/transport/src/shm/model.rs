//! Every interleaving of the queue and the doorbell, explored by a model checker. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p causeway-transport --release loom`.
//!
//! The words are the model's, the code is the real one. A pair of asymmetric fences is modelled by
//! its combined effect, a full fence on each side. A lost wake-up shows as a deadlock.

use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex, Notify};
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use super::doorbell::{self, BellMemory, SleepOn};
use super::ring::{Consumer, Manner, Peeked, Producer, RingMemory, Sent};
use causeway_wire::shm::SlotKind;

/// Slots of the model's ring. Each packet takes one.
const SLOTS: usize = 4;

struct Shared {
    headers: [AtomicU64; SLOTS],
    /// The payload behind each header: relaxed, so that only the header orders it.
    payloads: [AtomicU64; SLOTS],
    consumed: AtomicU64,
    notify: AtomicU64,
    wants_room: AtomicU64,
    receiver: Bell,
    sender: Bell,
}

/// A doorbell with the descriptor that its owner sleeps on, and the kernel's queue of the threads that sleep on its
/// word.
pub(super) struct Bell {
    armed: AtomicU64,
    summary: AtomicU64,
    bitmap: AtomicU64,
    sleep: Notify,
    parked: (Mutex<()>, Condvar),
}

impl Bell {
    pub(super) fn new() -> Self {
        Self {
            armed: AtomicU64::new(0),
            summary: AtomicU64::new(0),
            bitmap: AtomicU64::new(0),
            sleep: Notify::new(),
            parked: (Mutex::new(()), Condvar::new()),
        }
    }

    /// As the kernel's futex: sleeps if the word is `sleep`, which is read under its lock.
    fn park(&self, sleep: u64) {
        let queue = self.parked.0.lock().unwrap();
        if self.armed.load(Relaxed) == sleep {
            drop(self.parked.1.wait(queue).unwrap());
        }
    }

    pub(super) fn sleep(&self, sleep: u64, on: SleepOn) {
        match on {
            SleepOn::Descriptors => self.sleep.wait(),
            SleepOn::Word => self.park(sleep),
        }
    }

    fn ring(&self) {
        self.ring_bit(0);
    }

    /// A descriptor of the owner becomes readable.
    pub(super) fn notify(&self) {
        self.sleep.notify();
    }

    /// The owner's sleep on the word ends by the clock.
    pub(super) fn time_is_up(&self) {
        self.wake_parked();
    }

    pub(super) fn ring_bit(&self, bit: u32) {
        if let Some(sleep) = doorbell::ring(self, bit)
            && !doorbell::call(self, sleep)
        {
            self.sleep.notify();
            doorbell::woken(self, sleep);
        }
    }
}

impl BellMemory for Bell {
    type Word = AtomicU64;
    fn armed(&self) -> &AtomicU64 {
        &self.armed
    }
    fn summary(&self) -> &AtomicU64 {
        &self.summary
    }
    fn bitmap(&self, _: usize) -> &AtomicU64 {
        &self.bitmap
    }
    fn full_fence(&self) {
        fence(SeqCst);
    }
    fn wake_parked(&self) {
        let _queue = self.parked.0.lock().unwrap();
        self.parked.1.notify_all();
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            headers: std::array::from_fn(|_| AtomicU64::new(0)),
            payloads: std::array::from_fn(|_| AtomicU64::new(0)),
            consumed: AtomicU64::new(0),
            notify: AtomicU64::new(0),
            wants_room: AtomicU64::new(0),
            receiver: Bell::new(),
            sender: Bell::new(),
        })
    }
}

struct ModelRing(Arc<Shared>);

impl RingMemory for ModelRing {
    type Word = AtomicU64;
    fn slots(&self) -> u64 {
        SLOTS as u64
    }
    fn first(&self) -> u64 {
        3
    }
    fn header(&self, slot: u64) -> &AtomicU64 {
        &self.0.headers[slot as usize]
    }
    fn consumed(&self) -> &AtomicU64 {
        &self.0.consumed
    }
    fn notify(&self) -> &AtomicU64 {
        &self.0.notify
    }
    fn wants_room(&self) -> &AtomicU64 {
        &self.0.wants_room
    }
    fn light_fence(&self) {
        fence(SeqCst);
    }
    fn full_fence(&self) {
        fence(SeqCst);
    }
    fn prefetch(&self, _: u64) {}
    fn prefetch_to_write(&self, _: u64) {}
    fn demote(&self, _: u64) {}
}

/// Takes all packets of the ring, and compares each with the next expected one.
fn take(ring: &mut Consumer<ModelRing>, shared: &Shared, next: &mut u64) -> bool {
    match ring.peek() {
        Peeked::Packet { slot, kind, len } => {
            assert_eq!((kind, len), (SlotKind::Packet, 1));
            let payload = shared.payloads[slot as usize].load(Relaxed);
            assert_eq!(payload, *next, "in order, whole");
            *next += 1;
            if ring.consume(len) {
                shared.sender.ring();
            }
            true
        }
        Peeked::Empty => {
            if ring.found_empty() {
                shared.sender.ring();
            }
            false
        }
        Peeked::Corrupt(word) => panic!("{word:#x}"),
    }
}

/// Polls twice at most, then sleeps, as a caller of the method does.
fn receive(shared: &Arc<Shared>, packets: u64, on: SleepOn, warms: bool) {
    let mut ring = Consumer::new(ModelRing(Arc::clone(shared)), 56);
    let (mut next, mut polled, mut rung, mut number) = (0, true, Vec::new(), 0);
    let mut notification = false;
    while next < packets {
        if polled && take(&mut ring, shared, &mut next) {
            continue;
        }
        if doorbell::is_rung(&shared.receiver) {
            doorbell::collect(&shared.receiver, &mut rung);
            if rung.pop().is_some() {
                rung.clear();
                if warms {
                    ring.disable_notification();
                    notification = false;
                }
                polled = true;
                continue;
            }
        }
        number += 1;
        let sleep = doorbell::sleep(number, on);
        doorbell::arm(&shared.receiver, sleep);
        if polled {
            if !notification {
                ring.enable_notification();
                notification = true;
            }
            if ring.return_credit() {
                shared.sender.ring();
            }
        }
        fence(SeqCst);
        polled = polled && ring.is_ready();
        if !polled && !doorbell::is_rung(&shared.receiver) {
            shared.receiver.sleep(sleep, on);
        }
        doorbell::disarm(&shared.receiver);
    }
}

fn send(shared: &Arc<Shared>, packets: u64, on: SleepOn) {
    let mut ring = Producer::new(ModelRing(Arc::clone(shared)));
    let (mut rung, mut sleeps) = (Vec::new(), 0);
    for packet in 0..packets {
        loop {
            let fill = |ring: &ModelRing, slot: u64| {
                ring.0.payloads[slot as usize].store(packet, Relaxed);
            };
            let manner = Manner {
                kind: SlotKind::Packet,
                fetching: true,
                whole: true,
            };
            match ring.send(manner, 1, fill) {
                Sent::Published => break,
                Sent::MustRing => {
                    shared.receiver.ring();
                    break;
                }
                Sent::Corrupt => panic!("an index went backwards"),
                Sent::Full => {
                    sleeps += 1;
                    let sleep = doorbell::sleep(sleeps, on);
                    doorbell::arm(&shared.sender, sleep);
                    fence(SeqCst);
                    if !doorbell::is_rung(&shared.sender) {
                        shared.sender.sleep(sleep, on);
                    }
                    doorbell::disarm(&shared.sender);
                    doorbell::collect(&shared.sender, &mut rung);
                    rung.clear();
                }
            }
        }
    }
}

fn explore(packets: u64, preemptions: usize, on: SleepOn, warms: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.check(move || {
        let shared = Shared::new();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || send(&shared, packets, on))
        };
        receive(&shared, packets, on, warms);
        sender.join().unwrap();
    });
}

/// Sleepers of both kinds: the receiver has caught up, the sender has filled the ring.
#[test]
fn loom_no_wake_up_is_lost_over_a_full_ring() {
    explore(5, 2, SleepOn::Descriptors, true);
}

/// The same for parked receivers, and for a receiver whose ring keeps notification enabled while it polls it.
#[test]
fn loom_no_receiver_stays_parked_with_a_full_ring() {
    explore(5, 2, SleepOn::Word, false);
}

#[test]
fn loom_no_packet_is_lost_between_notification_and_parked() {
    explore(2, 3, SleepOn::Word, false);
    explore(2, 3, SleepOn::Word, true);
}

#[test]
fn loom_no_packet_is_lost_between_notification_and_asleep() {
    explore(2, 3, SleepOn::Descriptors, true);
}

/// Sleeps until all of `bits` were rung.
fn await_bits(bell: &Bell, bits: u32, on: SleepOn) {
    let (mut seen, mut sleeps, mut rung) = (0u32, 0, Vec::new());
    while seen & bits != bits {
        doorbell::collect(bell, &mut rung);
        if !rung.is_empty() {
            seen |= rung.drain(..).fold(0, |seen, bit| seen | 1 << bit);
            continue;
        }
        sleeps += 1;
        let sleep = doorbell::sleep(sleeps, on);
        doorbell::arm(bell, sleep);
        fence(SeqCst);
        if doorbell::is_quiet(bell, []) {
            bell.sleep(sleep, on);
        }
        doorbell::disarm(bell);
    }
}

/// Two notifiers for one sleeper: one that is late with withdrawing the announcement does not hide the
/// next sleep from the other.
fn two_notifiers(on: SleepOn) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shared = Shared::new();
        let notifiers = [0, 1].map(|bit| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.receiver.ring_bit(bit))
        });
        await_bits(&shared.receiver, 0b11, on);
        for notifier in notifiers {
            notifier.join().unwrap();
        }
    });
}

#[test]
fn loom_two_notifiers_wake_one_sleeper() {
    two_notifiers(SleepOn::Descriptors);
}

#[test]
fn loom_two_notifiers_wake_one_that_is_parked() {
    two_notifiers(SleepOn::Word);
}

/// A notifier that gets only as far as `mute` does not keep the other from waking.
fn a_notifier_that_stops(on: SleepOn, mute: fn(&Bell, u64)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shared = Shared::new();
        let mute = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                if let Some(sleep) = doorbell::ring(&shared.receiver, 0) {
                    mute(&shared.receiver, sleep);
                }
            })
        };
        let notifier = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.receiver.ring_bit(1))
        };
        await_bits(&shared.receiver, 0b10, on);
        mute.join().unwrap();
        notifier.join().unwrap();
    });
}

#[test]
fn loom_a_notifier_that_cannot_wake_hides_no_sleeper() {
    a_notifier_that_stops(SleepOn::Descriptors, |_, _| {});
}

/// It dies after its call.
#[test]
fn loom_a_notifier_that_dies_hides_no_parked_thread() {
    a_notifier_that_stops(SleepOn::Word, |bell, sleep| {
        doorbell::mark_called(bell, sleep)
    });
}

/// Without the check after the arming, a wake-up is lost: the model finds it.
#[test]
#[should_panic]
fn loom_a_sleeper_that_does_not_check_again_is_caught() {
    loom::model(|| {
        let shared = Shared::new();
        let notifier = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.receiver.ring())
        };
        if !doorbell::is_rung(&shared.receiver) {
            doorbell::arm(&shared.receiver, 1);
            shared.receiver.sleep.wait();
        }
        assert_eq!(shared.receiver.summary.load(Acquire), 1);
        notifier.join().unwrap();
    });
}
