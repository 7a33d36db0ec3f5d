//! Transfers that both sides copy, with helpers that are slow, dead, stopped or make invalid claims.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use causeway_sys::mapping::Mapping;
use causeway_sys::memory::Memory;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::shm::PairLayout;
use causeway_wire::shm::split_copy as format;

use super::*;
use crate::method::{Access, Direction, Registration, Sharing, Transfer};
use crate::shm::claim::{From, Share};
use crate::shm::pair::Pair;
use crate::shm::split_initiator;

const LEN: usize = 4 << 20;

pub(super) fn pair(host: &mut Host, peer: Peer) -> &mut Pair {
    host.shm.peers.get_mut(peer).unwrap().pair().unwrap()
}

pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7) as u8).collect()
}

/// A get by the client, from memory of the server's.
pub(super) struct Get {
    pub(super) met: ConnectedPair,
    pub(super) near: Memory,
    region: RegionDescriptor,
    mapping: Arc<Mapping>,
}

impl Get {
    /// Meets, exports, and starts a get of `LEN` bytes. Nothing is copied yet.
    fn start(config: ShmConfig) -> Self {
        Self::between(meet(config), LEN)
    }

    /// The same between two that have met, of so many bytes.
    pub(super) fn between(mut met: ConnectedPair, len: usize) -> Self {
        let far = Memory::from_vec(pattern(len));
        let region = (met.server.shm)
            .grant(met.to_client, &far, Registration::NONE, Access::Read)
            .unwrap();
        let near = Memory::zeroed(len);
        let mapping = pair(&mut met.server, met.to_client).view();
        let mut get = Self {
            met,
            near,
            region,
            mapping,
        };
        get.transfer();
        get
    }

    pub(super) fn transfer(&mut self) {
        let transfer = Transfer {
            direction: Direction::Get,
            local: vec![self.near.clone()].into(),
            remote: vec![self.region].into(),
            notify: Some(b"read".to_vec().into()),
            registrations: Vec::new(),
            token: 7,
        };
        let met = &mut self.met;
        met.client.shm.transfer(met.to_server, transfer).unwrap();
    }

    /// A word of the first block of the client, which is side 0.
    fn word(&self, offset: usize) -> &AtomicU64 {
        let layout = PairLayout::new(ShmConfig::default().ring_bytes, 8192).unwrap();
        self.mapping.word(layout.split_copy_block(0, 0) + offset)
    }

    pub(super) fn share(&self) -> Share<'_, AtomicU64> {
        Share {
            claims: self.word(format::CLAIMS),
            done: self.word(format::DONE),
        }
    }

    /// Claims a part as a helper would that then does not go on. Returns which bytes.
    fn claim(&mut self) -> std::ops::Range<usize> {
        self.met.client.poll();
        let units = (LEN as u64 / format::UNIT_BYTES) as u32;
        let part = self.share().claim_back(units, 10, From::OwnHalf).unwrap();
        let bytes = |unit: u32| unit as usize * format::UNIT_BYTES as usize;
        bytes(part.start)..bytes(part.end)
    }

    fn poll_client(&mut self) {
        for _ in 0..200 {
            self.met.client.poll();
        }
    }

    pub(super) fn finish(&mut self, what: &str) {
        let client = &mut self.met.client;
        client.until(what, |client| !client.log.done.is_empty());
    }
}

/// Polls until the host agrees to sleep.
pub(super) fn falls_asleep(host: &mut Host) {
    let give_up = Instant::now() + PATIENCE;
    while !host.shm.arm(Instant::now()) {
        host.poll();
        assert!(Instant::now() < give_up, "something keeps it awake");
    }
}

/// The progress counters of both sides show whether a shared transfer advances.
#[test]
fn a_shared_transfer_shows_as_activity() {
    let mut get = Get::start(ShmConfig::default());
    get.claim();
    let to_server = get.met.to_server;
    let begun = get.met.client.shm.activity(to_server);
    get.poll_client();
    let copied = get.met.client.shm.activity(to_server);
    assert_ne!(copied, begun, "the initiator has copied the rest");
    get.poll_client();
    let waiting = get.met.client.shm.activity(to_server);
    assert_eq!(waiting, copied, "the helper does not go on");
    get.share().finish_back(5, true);
    assert_ne!(get.met.client.shm.activity(to_server), waiting);
    get.share().finish_back(5, true);
    get.finish("the helper has finished its part");

    let to_client = get.met.to_client;
    get.transfer();
    get.met.client.poll();
    let before = get.met.server.shm.activity(to_client);
    (get.met.server).until("it helps", |server| {
        server.shm.activity(to_client) != before
    });
}

/// Both sides copy; with sharing off on either side the initiator does it alone.
#[test]
fn both_sides_copy_unless_one_does_not_want_to() {
    for (offers, helps) in [(true, true), (true, false), (false, true)] {
        let mut met = meet(ShmConfig::default());
        met.client.shm.share_copies(Sharing {
            offers,
            helps: true,
        });
        met.server.shm.share_copies(Sharing {
            offers: true,
            helps,
        });
        let far = Memory::from_vec(pattern(LEN));
        let region = (met.server.shm)
            .grant(met.to_client, &far, Registration::NONE, Access::Read)
            .unwrap();
        let near = Memory::zeroed(LEN);
        let transfer = Transfer {
            direction: Direction::Get,
            local: vec![near.clone()].into(),
            remote: vec![region].into(),
            registrations: Vec::new(),
            notify: None,
            token: 7,
        };
        met.client.shm.transfer(met.to_server, transfer).unwrap();
        both(
            &mut met.client,
            &mut met.server,
            "it is done",
            |client, _| !client.log.done.is_empty(),
        );
        assert_eq!(met.client.log.done, [(7, Ok(()))]);
        assert!(near.to_vec() == pattern(LEN));
        let helped = pair(&mut met.client, met.to_server).transfers.helped;
        assert_eq!(helped, offers && helps, "{offers} {helps}");
    }
}

/// While the peer has a message of this side's to read, it has no time to help: a transfer is not shared if one step copies it, and
/// of a longer one as much as a step copies is claimed at once.
#[test]
fn each_side_reads_its_own_of_two_messages_that_are_exchanged() {
    let step = split_initiator::BATCH as usize;
    for (exchanged, len) in [(false, step), (true, step), (true, LEN)] {
        let mut met = meet(ShmConfig::default());
        let own = Memory::from_vec(pattern(len));
        if exchanged {
            (met.client.shm)
                .grant(met.to_server, &own, Registration::NONE, Access::Read)
                .unwrap();
        }
        let mut get = Get::between(met, len);
        get.met.client.poll();
        let front = &pair(&mut get.met.client, get.met.to_server).transfers.queue;
        let shared = front.front().and_then(|front| front.offer.as_ref());
        let claimed = shared.map(|offer| offer.claimed_by_initiator());
        let expected = match (exchanged, len) {
            (false, _) => Some(len as u64 / 2),
            (true, LEN) => Some(step as u64),
            (true, _) => None,
        };
        assert_eq!(claimed, expected, "{exchanged} {len}");
        get.finish("it is read");
        assert_eq!(get.met.client.log.done, [(7, Ok(()))]);
        assert!(get.near.to_vec() == pattern(len));
    }
}

/// No transfer completes before a slow helper has finished its claims; a sleeping initiator is rung then.
#[test]
fn a_transfer_waits_for_units_that_the_helper_has_claimed() {
    let mut get = Get::start(ShmConfig::default());
    let part = get.claim();
    get.poll_client();
    assert!(get.met.client.log.done.is_empty());
    let bytes = get.near.to_vec();
    assert!(bytes[..part.start] == pattern(LEN)[..part.start]);
    assert!(bytes[part.clone()].iter().all(|&byte| byte == 0));
    falls_asleep(&mut get.met.client);
    assert!(!sleep_on(&get.met.client.shm, Duration::ZERO));
    let (met, share) = (&mut get.met, format::DONE);
    // The steps of the real helper behind its copying.
    get.near
        .slice(part.clone())
        .write_at(0, &pattern(LEN)[part.clone()]);
    let units = (part.len() as u64 / format::UNIT_BYTES) as u32;
    let done = pair(&mut met.server, met.to_client).view();
    let layout = PairLayout::new(ShmConfig::default().ring_bytes, 8192).unwrap();
    done.word(layout.split_copy_block(0, 0) + share)
        .fetch_add(units.into(), SeqCst);
    let wants = done.word(layout.split_copies(0) + format::WANTS_RING);
    assert!(crate::shm::claim::must_ring(wants));
    pair(&mut met.server, met.to_client).ring_peer();
    assert!(sleep_on(&met.client.shm, PATIENCE));
    met.client.shm.disarm();
    get.finish("it is done");
    assert_eq!(get.met.client.log.done, [(7, Ok(()))]);
    assert!(get.near.to_vec() == pattern(LEN));
}

/// The initiator copies the units that a helper could not copy.
#[test]
fn units_that_the_helper_fails_to_copy_are_copied_again() {
    let mut get = Get::start(ShmConfig::default());
    let part = get.claim();
    let units = (part.len() as u64 / format::UNIT_BYTES) as u32;
    get.share().finish_back(units, false);
    get.finish("it is done");
    assert_eq!(get.met.client.log.done, [(7, Ok(()))]);
    assert!(get.near.to_vec() == pattern(LEN));
}

/// Memory with an unfinished claim of a helper is kept when the connection is given up, until the helper dies;
/// that of a dead helper is not.
#[test]
fn memory_that_a_helper_may_still_touch_is_kept() {
    if !has_own_process("shm::tests::split_copy::memory_that_a_helper_may_still_touch_is_kept") {
        return;
    }
    for dies in [false, true] {
        let mut get = Get::start(ShmConfig::default());
        get.claim();
        get.poll_client();
        let Get { met, near, .. } = get;
        let ConnectedPair {
            mut client,
            server,
            to_server,
            ..
        } = met;
        let server = (!dies).then_some(server);
        client
            .shm
            .disconnect(Instant::now(), to_server, &mut client.log);
        assert!(matches!(
            client.log.done[..],
            [(7, Err(TransferError::Peer(PeerError::Disconnected)))]
        ));
        assert_eq!(near.sharers(), 1 + usize::from(!dies), "dies: {dies}");
        drop(server);
        client.tick();
        assert_eq!(near.sharers(), 1, "dead at last");
    }
}

/// An export that ends while both copy fails the transfer, after the helper has finished its claims.
#[test]
fn an_export_that_ends_fails_the_transfer_after_the_helper_is_done() {
    let mut get = Get::start(ShmConfig::default());
    let part = get.claim();
    let key = get.region.key;
    get.met.server.shm.revoke(get.met.to_client, key);
    get.poll_client();
    assert!(get.met.client.log.done.is_empty());
    let units = (part.len() as u64 / format::UNIT_BYTES) as u32;
    get.share().finish_back(units, true);
    get.finish("it fails");
    let done = &get.met.client.log.done;
    assert_eq!(done[..], [(7, Err(TransferError::Protection))]);
}

/// Claims that no helper makes end the connection, and no transfer completes as if it had been copied.
#[test]
fn invalid_claims_of_a_helper_end_the_connection() {
    let mut get = Get::start(ShmConfig::default());
    get.met.client.poll();
    get.word(format::CLAIMS).store(u64::MAX, SeqCst);
    get.finish("it fails");
    assert!(get.met.client.log.done[0].1.is_err());
    let down = &get.met.client.log.down;
    assert!(
        matches!(down[..], [(_, PeerError::Protocol(_))]),
        "{down:?}"
    );
}

/// An initiator that offers memory without permission, or memory that does not exist, gets no help and no harm.
#[test]
fn invalid_offers_of_transfers_are_declined() {
    let mut met = meet(ShmConfig::default());
    let far = Memory::from_vec(pattern(LEN));
    let region = (met.server.shm)
        .grant(met.to_client, &far, Registration::NONE, Access::Read)
        .unwrap();
    let target = Memory::zeroed(64 << 10);
    let client = pair(&mut met.client, met.to_server);
    let good = crate::shm::split_copy::Description {
        direction: Direction::Get,
        key: region.key,
        helper_address: region.base,
        initiator_address: target.as_ptr() as u64,
        len: 64 << 10,
        object: None,
        in_pieces: false,
    };
    let bad = [
        crate::shm::split_copy::Description {
            key: region.key ^ 1 << 40,
            ..good
        },
        crate::shm::split_copy::Description {
            helper_address: region.base - 4096,
            ..good
        },
        crate::shm::split_copy::Description {
            helper_address: region.base + LEN as u64 - 4096,
            ..good
        },
        crate::shm::split_copy::Description {
            direction: Direction::Put,
            ..good
        },
        crate::shm::split_copy::Description {
            initiator_address: 4096,
            ..good
        },
        crate::shm::split_copy::Description {
            helper_address: u64::MAX - 100,
            len: 1 << 40,
            ..good
        },
    ];
    let offers = bad.map(|description| client.offers.open(&description).unwrap());
    client.offers.announce_open();
    for _ in 0..100 {
        met.server.poll();
    }
    let client = pair(&mut met.client, met.to_server);
    for offer in &offers {
        let helped = client.offers.helper_state(offer).unwrap();
        assert!(helped.failed, "{offer:?}");
    }
    assert!(far.to_vec() == pattern(LEN));
    falls_asleep(&mut met.server);
    met.server.shm.disarm();
}

/// Reports of copied units from a process of another user are not relied on: it gets no units to copy, and units that it counts
/// as copied nevertheless count for no transfer.
#[test]
fn a_process_of_another_user_copies_no_part_of_a_transfer() {
    for (other_user, shares) in [(false, true), (true, false)] {
        let mut get = Get::start(ShmConfig::default());
        let to_server = get.met.to_server;
        get.finish("the first transfer is done");
        get.met.client.log.done.clear();
        let client = pair(&mut get.met.client, to_server);
        if let Some(credentials) = client.credentials.as_mut().filter(|_| other_user) {
            credentials.uid = credentials.uid.wrapping_add(1);
        }
        get.near = Memory::from_vec(vec![0xee; LEN]);
        get.transfer();
        get.met.client.poll();
        let queue = &pair(&mut get.met.client, to_server).transfers.queue;
        let offered = queue.front().is_some_and(|active| active.offer.is_some());
        assert_eq!(offered, shares);
        if other_user {
            // The words of the block are the peer's to write, too.
            let units = (LEN as u64 / format::UNIT_BYTES) as u32;
            let claimed = get.share().claim_back(units, 10, From::OwnHalf);
            let count = claimed.map_or(10, |units| units.end - units.start);
            get.share().finish_back(count, true);
        }
        get.finish("the transfer is done");
        assert_eq!(get.met.client.log.done[..], [(7, Ok(()))]);
        assert!(get.near.to_vec() == pattern(LEN));
    }
}
