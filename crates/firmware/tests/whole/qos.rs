//! The QoS-aware discipline under load: reserved channels keep their rate, best effort keeps its share.

use causeway_firmware::{
    BestEffort, Direction, Discipline, DmaQueue, Reliability, SECOND, Settings, Time, Traffic, ViId,
};

use crate::designs::design;
use crate::world::{World, level};

const MESSAGE: u32 = 4000;
/// The slowest part: the host DMA engine takes this long for each transfer of a sending card.
const TRANSFER: Time = SECOND / 30_000;

/// A card with a saturated host DMA engine: three reserved channels that send as fast as they can, and a
/// best-effort channel that does too. Messages that each got out in a second.
fn shares(settings: &Settings, rates: [u64; 3]) -> [u32; 4] {
    let mut settings = settings.clone();
    settings.capacity.host_rate = 1_000_000_000;
    settings.capacity.host_message = 0;
    settings.capacity.host_frame = 0;
    settings.capacity.send_message = 0;
    settings.capacity.send_frame = 0;
    let mut world = World::pair(&settings);
    let vis: Vec<ViId> = (0..4)
        .map(|_| world.connect(0, 1, level(Reliability::Unreliable)).0)
        .collect();
    world.settle();
    for (vi, rate) in vis.iter().zip(rates) {
        let traffic = Traffic::Constant {
            rate,
            message_bytes: MESSAGE,
        };
        let firmware = &mut world.nodes[0].firmware;
        firmware
            .reserve(*vi, Direction::Outgoing, traffic)
            .expect("the reservation fits");
    }
    let span = world.nodes[0].host.span(MESSAGE);
    let mut outstanding: Vec<Vec<u64>> = vec![Vec::new(); 4];
    let mut out = [0; 4];
    let mut free_at = 0;
    while world.now < SECOND {
        for (at, &vi) in vis.iter().enumerate() {
            let node = &mut world.nodes[0];
            let before = outstanding[at].len();
            outstanding[at].retain(|&posted| node.status(posted).bits == 0);
            out[at] += (before - outstanding[at].len()) as u32;
            while outstanding[at].len() < 6 {
                let posted = node.send(world.now, vi, &[span]);
                outstanding[at].push(posted);
            }
        }
        // Processors, the network engine and the wire take no time; the host DMA engine does.
        let host = std::mem::take(&mut world.nodes[0].card.running[0]);
        if host.is_empty() {
            world.step();
            continue;
        }
        world.nodes[0].card.running[0] = host;
        while world.nodes[0].due[0] || !world.nodes[0].running[1].is_empty() {
            let node = &mut world.nodes[0];
            if node.due[0] {
                world.turn_of(0);
            } else {
                node.finish(world.now, causeway_firmware::Engine::NetSend);
            }
        }
        free_at = world.now.max(free_at) + TRANSFER;
        world.now = free_at;
        world.nodes[0].finish(free_at, causeway_firmware::Engine::Host);
    }
    out
}

fn qos(rate: u64) -> Settings {
    Settings {
        best_effort: BestEffort {
            rate,
            message_bytes: MESSAGE,
            in_progress: 4,
        },
        ..design("QoSVIA in software")
    }
}

#[test]
fn reserved_channels_share_as_they_reserved() {
    // 10,000 messages in a second get through; 5,500 of them are reserved.
    let rates = [2, 6, 14].map(|thousands| thousands * 1_000_000);
    let [small, middle, large, rest] = shares(&qos(4_000_000), rates);
    for (got, reserved) in [(small, 500), (middle, 1500), (large, 3500)] {
        assert!(got >= reserved * 9 / 10, "{got} of {reserved} reserved");
    }
    assert!(small < middle && middle < large, "{small} {middle} {large}");
    assert!(
        rest >= 900,
        "{rest} of 1,000 messages of best effort's share"
    );
}

#[test]
fn best_effort_starves_only_if_the_operator_wants_it() {
    // All of the capacity is asked for.
    let rates = [12, 12, 16].map(|thousands| thousands * 1_000_000);
    let starved = shares(&qos(0), rates)[3];
    let kept = shares(&qos(2_000_000), rates)[3];
    assert!(starved < 100, "{starved}");
    assert!(kept >= 400, "{kept} of 500");
}

#[test]
fn the_event_driven_discipline_treats_all_alike() {
    let settings = Settings {
        discipline: Discipline::EventDriven,
        host_dma: DmaQueue::Software,
        ..qos(0)
    };
    let got = shares(&settings, [2, 6, 14].map(|thousands| thousands * 1_000_000));
    let (least, most) = (got.iter().min(), got.iter().max());
    assert!(
        least
            .zip(most)
            .is_some_and(|(least, most)| most - least < 100),
        "{got:?}"
    );
}
