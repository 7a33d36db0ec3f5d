//! Frames that leave while their data still comes from host memory: the gain in time, and that no byte leaves before it
//! has arrived.

use std::collections::BTreeMap;

use causeway_sim::engine::{MICROSECOND, Time, duration_at};
use causeway_sim::node::Record;
use causeway_sim::node::record::Track;
use causeway_sim::profile::Profile;
use causeway_sim::workloads::design::Design;
use causeway_sim::workloads::{Keep, ping};

const OVERLAPPING: [Design; 2] = [Design::Pvia, Design::QosVia];

fn profile(name: &str) -> Profile {
    Profile::shipped(name).unwrap_or_else(|error| panic!("{error}"))
}

fn one_way(design: Design, bytes: u32, cut_through: bool) -> Time {
    let mut settings = design.roomy(8);
    settings.cut_through = cut_through;
    ping::ping_pong(&profile("qos"), settings, bytes, 20)
        .unwrap_or_else(|error| panic!("{error}"))
        .one_way
}

#[test]
fn a_message_of_one_frame_gains_the_shorter_of_its_two_transfers() {
    let qos = profile("qos");
    let rates = [qos.host_dma.bytes_per_second, qos.link.bytes_per_second];
    let fastest = rates[0].max(rates[1]);
    for design in OVERLAPPING {
        for bytes in [4_096, 16_384] {
            let shorter = duration_at(bytes, fastest);
            let before = one_way(design, bytes as u32, false);
            let gain = before.saturating_sub(one_way(design, bytes as u32, true));
            let name = design.name();
            println!("{name}, {bytes} B: {} of {} ns", gain / 1000, before / 1000);
            // The last burst goes out after the rest; the program does part of its work meanwhile.
            assert!(gain >= shorter * 9 / 10, "{name}: {bytes} B gain {gain} ps");
            let most = shorter + 5 * MICROSECOND;
            assert!(gain <= most, "{name}: {bytes} B gain {gain} ps");
        }
    }
}

#[test]
fn of_several_frames_the_last_one_counts() {
    for design in OVERLAPPING {
        let [without, with] = [false, true].map(|cuts| one_way(design, 65_536, cuts));
        assert!(without - with >= 90 * MICROSECOND, "{without} {with}");
    }
}

#[test]
fn as_much_is_carried_as_before() {
    for design in OVERLAPPING {
        for bytes in [4_096, 16_384, 65_536] {
            let [without, with] = [false, true].map(|cuts| {
                let mut settings = design.roomy(16);
                settings.cut_through = cuts;
                ping::ping_bulk(&profile("qos"), settings, bytes, 8, 20)
                    .unwrap_or_else(|error| panic!("{error}"))
            });
            let name = design.name();
            println!("{name}, {bytes} B: {without} and {with} ps a message");
            assert!(with <= without + without / 100, "{name}, {bytes} B");
        }
    }
}

/// Of each message of one frame: when all its data had come, and when the frame began to leave and had left.
fn transfers(record: &Record) -> Vec<(Time, [Time; 2])> {
    let slices = record.slices.as_deref().unwrap_or_default();
    let spans = |track: Track, name: &str| -> BTreeMap<_, [Time; 2]> {
        let of_it = slices
            .iter()
            .filter(|slice| slice.track == track && slice.name == name);
        of_it
            .filter_map(|slice| Some((slice.message?, [slice.start, slice.end])))
            .collect()
    };
    let filled = spans(Track::HostDmaDown, "read data");
    let sent = spans(Track::NetSend, "send frame");
    filled
        .iter()
        .filter_map(|(message, &[_, end])| Some((end, *sent.get(message)?)))
        .collect()
}

#[test]
fn no_frame_overtakes_its_data() {
    for name in ["qos", "via", "munet", "present"] {
        let mut profile = profile(name);
        // Buffers of 16 KiB, which MU-Net's card has no room for.
        profile.card.memory_bytes = None;
        let burst = duration_at(profile.io_bus.burst_bytes, profile.link.bytes_per_second);
        for design in [Design::Svia, Design::Pvia, Design::QosVia] {
            for bytes in [4_096, 16_384] {
                let mut settings = design.roomy(16);
                settings.cut_through = true;
                let run = ping::ping_bulk_recorded(&profile, settings, bytes, 8, 8, Keep::Slices);
                let (_, record) = run.unwrap_or_else(|error| panic!("{error}"));
                let found = transfers(&record);
                assert!(found.len() >= 100, "{name}: {}", found.len());
                let followed = found.iter().filter(|(filled, [start, _])| start < filled);
                assert!(followed.count() >= 10, "{name}, {bytes} B");
                for (filled, [_, left]) in found {
                    assert!(left >= filled + burst, "{name}: {filled} {left}");
                }
                assert_eq!(record.sums.overcommitted, 0, "{name}");
            }
        }
    }
}
