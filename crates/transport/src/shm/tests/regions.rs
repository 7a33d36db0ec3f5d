//! Remote memory: both ways, both engines, lists, protection, revocation, mapping.

use causeway_sys::memfd;
use causeway_sys::memory::{Memory, with_foreign_read_only};
use causeway_wire::region::RegionDescriptor;

use super::*;
use crate::method::{Access, Direction, Registration, Transfer};
use crate::shm::AttachPolicy;

fn engines() -> [ShmConfig; 2] {
    [AttachPolicy::Auto, AttachPolicy::Off].map(|attach| ShmConfig {
        attach,
        ..ShmConfig::default()
    })
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 7 + at / 251 + seed) as u8)
        .collect()
}

impl ConnectedPair {
    /// Starts a transfer from the client and waits for its end.
    fn transfer(
        &mut self,
        direction: Direction,
        local: Vec<Memory>,
        remote: Vec<RegionDescriptor>,
        notify: Option<&[u8]>,
    ) -> Result<(), TransferError> {
        self.start(direction, local, remote, notify);
        both(
            &mut self.client,
            &mut self.server,
            "the transfer is done",
            |client, _| !client.log.done.is_empty(),
        );
        let (token, result) = self.client.log.done.remove(0);
        assert_eq!(token, 42);
        result
    }

    fn start(
        &mut self,
        direction: Direction,
        local: Vec<Memory>,
        remote: Vec<RegionDescriptor>,
        notify: Option<&[u8]>,
    ) {
        let transfer = Transfer {
            direction,
            local: local.into(),
            remote: remote.into(),
            notify: notify.map(<[u8]>::to_vec).map(Into::into),
            registrations: Vec::new(),
            token: 42,
        };
        self.client.shm.transfer(self.to_server, transfer).unwrap();
    }

    fn export(&mut self, memory: &Memory, access: Access) -> RegionDescriptor {
        self.server
            .shm
            .grant(self.to_client, memory, Registration::NONE, access)
            .unwrap()
    }
}

#[test]
fn bytes_move_both_ways_and_the_notify_comes_after_them() {
    for config in engines() {
        let mut met = meet(config);
        for len in [0, 1, 63, 4096, 65_537, 1 << 20, (3 << 20) + 17] {
            let far = Memory::from_vec(pattern(len, 1));
            let region = met.export(&far, Access::ReadWrite);
            let near = Memory::zeroed(len);
            met.transfer(Direction::Get, vec![near.clone()], vec![region], None)
                .unwrap();
            assert_eq!(near.to_vec(), pattern(len, 1));
            let back = Memory::from_vec(pattern(len, 2));
            met.transfer(Direction::Put, vec![back], vec![region], Some(b"landed"))
                .unwrap();
            met.server.until("the notify is there", |server| {
                !server.log.packets.is_empty()
            });
            assert_eq!(met.server.log.packets.pop_front().unwrap().1, b"landed");
            assert_eq!(far.to_vec(), pattern(len, 2));
            met.server.shm.revoke(met.to_client, region.key);
            assert_eq!(far.sharers(), 1, "nothing holds the memory any more");
        }
    }
}

#[test]
fn lists_of_thousands_of_fragments_have_one_completion() {
    for config in engines() {
        let mut met = meet(config);
        const FRAGMENTS: usize = 5000;
        let far = Memory::from_vec(pattern(FRAGMENTS * 48, 3));
        let separate: Vec<Memory> = (0..50).map(|n| Memory::from_vec(pattern(16, n))).collect();
        let region = met.export(&far, Access::Read);
        // Every other 24 bytes, from the back, then regions each with a key of its own.
        let mut remote: Vec<RegionDescriptor> = (0..FRAGMENTS)
            .rev()
            .map(|n| region.part(n as u64 * 48, 24))
            .collect();
        for memory in &separate {
            remote.push(met.export(memory, Access::Read));
        }
        let near = Memory::zeroed(FRAGMENTS * 24 + 50 * 16);
        let local = vec![
            near.slice(0..7),
            near.slice(7..7),
            near.slice(7..100_001),
            near.slice(100_001..near.len()),
        ];
        met.transfer(Direction::Get, local, remote, None).unwrap();
        let whole = far.to_vec();
        let mut expected: Vec<u8> = (0..FRAGMENTS)
            .rev()
            .flat_map(|n| whole[n * 48..n * 48 + 24].to_vec())
            .collect();
        expected.extend(separate.iter().flat_map(Memory::to_vec));
        assert!(near.to_vec() == expected);
    }
}

#[test]
fn many_transfers_share_the_way_and_all_complete() {
    for config in engines() {
        let mut met = meet(config);
        let far = Memory::from_vec(pattern(300_000, 5));
        let region = met.export(&far, Access::Read);
        let near: Vec<Memory> = (0..40).map(|_| Memory::zeroed(300_000)).collect();
        for memory in &near {
            met.start(Direction::Get, vec![memory.clone()], vec![region], None);
        }
        both(
            &mut met.client,
            &mut met.server,
            "all are done",
            |client, _| client.log.done.len() == near.len(),
        );
        assert!(met.client.log.done.iter().all(|(_, result)| result.is_ok()));
        assert!(near.iter().all(|memory| memory.to_vec() == far.to_vec()));
    }
}

#[test]
fn access_to_memory_that_is_not_exported_is_refused_and_harms_nothing_else() {
    for config in engines() {
        let mut met = meet(config);
        let far = Memory::zeroed(4096);
        let region = met.export(&far, Access::Read);
        let near = Memory::from_vec(vec![1; 4096]);
        let protection = Err(TransferError::Protection);
        let attempt = |met: &mut ConnectedPair, direction, remote| {
            met.transfer(direction, vec![near.clone()], vec![remote], Some(b"never"))
        };
        assert_eq!(attempt(&mut met, Direction::Put, region), protection);
        for wrong in [
            RegionDescriptor {
                key: region.key ^ 1 << 40,
                ..region
            },
            RegionDescriptor { key: 0, ..region },
            RegionDescriptor {
                base: region.base + 1,
                ..region
            },
            RegionDescriptor {
                base: region.base - 1,
                ..region
            },
            RegionDescriptor {
                base: u64::MAX - 10,
                ..region
            },
        ] {
            assert_eq!(attempt(&mut met, Direction::Get, wrong), protection);
        }
        let shorter = region.part(0, 100);
        assert_eq!(
            attempt(&mut met, Direction::Get, shorter),
            Err(TransferError::Length {
                local: 4096,
                remote: 100
            })
        );
        attempt(&mut met, Direction::Get, region).unwrap();
        met.server.until("its notify is there", |server| {
            !server.log.packets.is_empty()
        });
        assert_eq!(
            met.server.log.packets.len(),
            1,
            "of failed transfers there is none"
        );
        met.server.shm.revoke(met.to_client, region.key);
        met.server.shm.revoke(met.to_client, region.key);
        assert_eq!(attempt(&mut met, Direction::Get, region), protection);
        assert_eq!(far.to_vec(), vec![0; 4096]);
        assert!(met.client.log.down.is_empty() && met.server.log.down.is_empty());
    }
}

#[test]
fn lent_memory_is_no_target() {
    let mut met = meet(ShmConfig::default());
    let far = Memory::from_vec(vec![1; 64]);
    let region = met.export(&far, Access::ReadWrite);
    with_foreign_read_only(&[9; 64], |memory| {
        let got = met.transfer(Direction::Get, vec![memory.clone()], vec![region], None);
        assert!(matches!(got, Err(TransferError::Copy(_))));
        met.transfer(Direction::Put, vec![memory.clone()], vec![region], None)
            .unwrap();
        let (client, server) = (&mut met.client, met.to_server);
        assert!(
            client
                .shm
                .grant(server, memory, Registration::NONE, Access::ReadWrite)
                .is_err()
        );
        let read = client
            .shm
            .grant(server, memory, Registration::NONE, Access::Read)
            .unwrap();
        client.shm.revoke(server, read.key);
    });
    assert_eq!(far.to_vec(), [9; 64]);
}

/// One process copies as fast as it can; the other ends the export and then overwrites the memory.
/// The copier must never see the new bytes, nor write after the end.
#[test]
fn an_ended_export_is_not_touched_any_more() {
    let (_folder, address) = place();
    let mut owner = Host::listening(ShmConfig::default(), &address);
    const ROUNDS: usize = 60;
    const LEN: usize = 2 << 20;
    let copier = std::thread::spawn(move || {
        let mut copier = Host::new(ShmConfig::default());
        let peer = copier.shm.connect(Instant::now(), &address).unwrap();
        copier.shm.send(peer, &[b"hello"]).unwrap();
        let marks = Memory::from_vec(vec![0xEE; LEN]);
        for _ in 0..ROUNDS {
            copier.until("an export is there", |copier| {
                !copier.log.packets.is_empty()
            });
            let (_, region) = copier.log.packets.pop_front().unwrap();
            let region = <RegionDescriptor as causeway_wire::codec::Wire>::from_bytes(&region);
            copier.log.done.clear();
            while copier.log.done.iter().all(|(_, result)| result.is_ok()) {
                let transfer = Transfer {
                    direction: Direction::Put,
                    local: vec![marks.clone()].into(),
                    remote: vec![region.unwrap()].into(),
                    registrations: Vec::new(),
                    notify: None,
                    token: 1,
                };
                copier.shm.transfer(peer, transfer).unwrap();
                let before = copier.log.done.len();
                copier.until("a transfer is done", |copier| {
                    copier.log.done.len() > before
                });
            }
            let (_, result) = copier.log.done.pop().unwrap();
            assert_eq!(result, Err(TransferError::Protection));
            copier.shm.send(peer, &[b"refused"]).unwrap();
        }
    });
    owner.until("the copier is there", |owner| !owner.log.packets.is_empty());
    let (peer, _) = owner.log.packets.pop_front().unwrap();
    for round in 0..ROUNDS {
        let memory = Memory::zeroed(LEN);
        let region = owner
            .shm
            .grant(peer, &memory, Registration::NONE, Access::Write)
            .unwrap();
        let bytes = causeway_wire::codec::Wire::to_bytes(&region);
        owner.shm.send(peer, &[&bytes]).unwrap();
        let mut last = [0];
        for _ in 0..round * 50 {
            owner.poll();
            memory.read_at(LEN - 1, &mut last);
        }
        owner.shm.revoke(peer, region.key);
        memory.clear();
        owner.until("the copier was refused", |owner| {
            !owner.log.packets.is_empty()
        });
        owner.log.packets.clear();
        assert!(
            memory.to_vec().iter().all(|&byte| byte == 0),
            "written after the end"
        );
    }
    copier.join().unwrap();
}

/// As far as this kernel can populate them: before 5.14 pages are allocated at the first touch.
#[test]
fn allocated_memory_has_its_pages() {
    let probe = memfd::create_fixed("test", 65_536).unwrap();
    let memory = Memory::map_object(probe.try_clone().unwrap(), 65_536, 1).unwrap();
    memory.make_present().unwrap();
    let mut met = meet(ShmConfig::default());
    let buffer = met.server.shm.allocate(100_000).unwrap();
    let (file, ..) = buffer.object().unwrap();
    assert_eq!(memfd::has_all_pages(file), memfd::has_all_pages(&probe));
}

#[test]
fn allocated_memory_is_mapped_and_shares_its_bytes() {
    let mut met = meet(ShmConfig::default());
    let buffer = met.server.shm.allocate(100_000).unwrap();
    assert_eq!(buffer.len(), 100_000);
    let part = buffer.slice(5000..60_000);
    let region = met.export(&part, Access::ReadWrite);
    let mapped = met.client.shm.map(met.to_server, &region).unwrap();
    part.write_at(10, b"from the owner");
    assert_eq!(mapped.slice(10..24).to_vec(), b"from the owner");
    mapped.write_at(54_999, b"!");
    assert_eq!(part.slice(54_999..55_000).to_vec(), b"!");
    let inner = region.part(10, 14);
    let inner = met.client.shm.map(met.to_server, &inner).unwrap();
    assert_eq!(inner.to_vec(), b"from the owner");
    let read = met.export(&part, Access::Read);
    assert!(
        !met.client
            .shm
            .map(met.to_server, &read)
            .unwrap()
            .is_writable()
    );
    met.server.shm.revoke(met.to_client, region.key);
    assert!(met.client.shm.map(met.to_server, &region).is_none());
    let report = met.client.shm.report(met.to_server).unwrap();
    assert!(
        report
            .facts
            .iter()
            .any(|(what, _)| *what == "mapping its memory")
    );
    // Ordinary memory is not in any object.
    let ordinary = met.export(&Memory::zeroed(64), Access::Read);
    assert!(met.client.shm.map(met.to_server, &ordinary).is_none());
    // A span outside of the object.
    let mut beyond = read;
    if let Some(span) = &mut beyond.object {
        span.offset = 90_000;
    }
    assert!(met.client.shm.map(met.to_server, &beyond).is_none());
}

#[test]
fn freed_objects_are_dropped_by_peers_and_the_cache_is_bounded() {
    let mut met = meet(ShmConfig::default());
    let mut kept = Vec::new();
    for _ in 0..100 {
        let buffer = met.server.shm.allocate(4096).unwrap();
        let region = met.export(&buffer, Access::Read);
        assert!(met.client.shm.map(met.to_server, &region).is_some());
        kept.push((buffer, region));
    }
    let first = kept[0].1;
    assert!(
        met.client.shm.map(met.to_server, &first).is_none(),
        "forgotten"
    );
    both(
        &mut met.client,
        &mut met.server,
        "the owner knows that",
        |_, server| {
            let to_client = met.to_client;
            let pair = server.shm.peers.get_mut(to_client).unwrap().pair().unwrap();
            !pair.objects.was_sent(first.object.unwrap().object)
        },
    );
    let again = met.export(&kept[0].0.clone(), Access::Read);
    assert!(
        met.client.shm.map(met.to_server, &again).is_some(),
        "sent again"
    );
    for (_, region) in kept
        .drain(..)
        .map(|(buffer, region)| (drop(buffer), region))
    {
        met.server.shm.revoke(met.to_client, region.key);
    }
    met.server.shm.revoke(met.to_client, again.key);
    met.server.tick();
    assert!(met.server.shm.objects.is_empty());
    met.client.tick();
    let pair = met
        .client
        .shm
        .peers
        .get_mut(met.to_server)
        .unwrap()
        .pair()
        .unwrap();
    assert!(
        pair.objects
            .find(again.object.unwrap(), again.base, 1)
            .is_none()
    );
}

#[test]
fn a_process_copies_from_and_to_itself() {
    for config in engines() {
        let (_folder, address) = place();
        let mut host = Host::listening(config, &address);
        let to_self = host.shm.connect(Instant::now(), &address).unwrap();
        host.shm.send(to_self, &[b"x"]).unwrap();
        host.until("it has arrived", |host| !host.log.packets.is_empty());
        let (from, _) = host.log.packets.pop_front().unwrap();
        let far = Memory::from_vec(pattern(200_000, 1));
        let region = host
            .shm
            .grant(from, &far, Registration::NONE, Access::Read)
            .unwrap();
        let near = Memory::zeroed(200_000);
        let transfer = Transfer {
            direction: Direction::Get,
            local: vec![near.clone()].into(),
            remote: vec![region].into(),
            notify: Some(b"done".to_vec().into()),
            registrations: Vec::new(),
            token: 1,
        };
        host.shm.transfer(to_self, transfer).unwrap();
        host.until("it is done", |host| {
            !host.log.done.is_empty() && !host.log.packets.is_empty()
        });
        assert_eq!(host.log.done, [(1, Ok(()))]);
        assert_eq!(near.to_vec(), far.to_vec());
        host.shm.revoke(from, region.key);
    }
}

#[test]
fn the_table_of_regions_is_bounded_and_reused() {
    let mut met = meet(ShmConfig::default());
    let memory = Memory::zeroed(16);
    let regions: Vec<RegionDescriptor> = (0..super::super::REGION_SLOTS)
        .map(|_| met.export(&memory, Access::Read))
        .collect();
    let full = met
        .server
        .shm
        .grant(met.to_client, &memory, Registration::NONE, Access::Read);
    assert!(full.unwrap_err().to_string().contains("limit of 8192"));
    for region in &regions {
        met.server.shm.revoke(met.to_client, region.key);
    }
    let again = met.export(&memory, Access::Read);
    assert!(regions.iter().all(|region| region.key != again.key));
}
