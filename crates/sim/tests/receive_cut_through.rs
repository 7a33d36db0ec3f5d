//! Frames whose data goes to host memory while they still come in: the gain in time, and that no byte lands before it has
//! arrived.

use std::collections::BTreeMap;

use causeway_sim::engine::{MICROSECOND, Time, duration_at};
use causeway_sim::node::Record;
use causeway_sim::node::record::Track;
use causeway_sim::profile::Profile;
use causeway_sim::workloads::design::Design;
use causeway_sim::workloads::{Keep, ping};

const DESIGNS: [Design; 3] = [Design::Svia, Design::Pvia, Design::QosVia];

fn profile(name: &str) -> Profile {
    Profile::shipped(name).unwrap_or_else(|error| panic!("{error}"))
}

/// One way of a message with cut-through in neither, one or both directions.
fn one_way(design: Design, bytes: u32, [sends, receives]: [bool; 2]) -> Time {
    let mut settings = design.roomy(8);
    settings.cut_through = sends;
    settings.receive_cut_through = receives;
    ping::ping_pong(&profile("qos"), settings, bytes, 20)
        .unwrap_or_else(|error| panic!("{error}"))
        .one_way
}

#[test]
fn a_message_of_one_frame_gains_the_shorter_of_its_two_transfers() {
    let qos = profile("qos");
    let rates = [qos.host_dma.bytes_per_second, qos.link.bytes_per_second];
    let fastest = rates[0].max(rates[1]);
    for design in DESIGNS {
        for bytes in [64, 4_096, 16_384, 65_536] {
            let took = [[false, false], [false, true], [true, false], [true, true]]
                .map(|ways| one_way(design, bytes, ways));
            let name = design.name();
            println!("{name}, {bytes} B: {:?} ns", took.map(|time| time / 1000));
            if ![4_096, 16_384].contains(&bytes) {
                continue;
            }
            let shorter = duration_at(u64::from(bytes), fastest);
            let burst = duration_at(qos.io_bus.burst_bytes, rates[0].min(rates[1]));
            let gain = took[0].saturating_sub(took[1]);
            // The first burst has to be there; the program does part of its work meanwhile.
            assert!(
                gain + 2 * burst >= shorter * 8 / 10,
                "{name}: {bytes} B gain {gain} ps"
            );
            assert!(
                gain <= shorter + 8 * MICROSECOND,
                "{name}: {bytes} B gain {gain} ps"
            );
            // Both directions together gain the sum of both alone, less the time for which one waits for the other.
            let both = took[0].saturating_sub(took[3]);
            assert!(both >= gain, "{name}: {bytes} B gain {both} ps with both");
        }
    }
}

#[test]
fn as_much_is_carried_as_before() {
    for design in DESIGNS {
        for bytes in [4_096, 16_384, 65_536] {
            let [without, with] = [false, true].map(|cuts| {
                let mut settings = design.roomy(16);
                settings.receive_cut_through = cuts;
                ping::ping_bulk(&profile("qos"), settings, bytes, 8, 20)
                    .unwrap_or_else(|error| panic!("{error}"))
            });
            let name = design.name();
            println!("{name}, {bytes} B: {without} and {with} ps a message");
            assert!(with <= without + without / 50, "{name}, {bytes} B");
        }
    }
}

/// Of each message of one frame: when the frame was in, and when the transfer of its data began and was over.
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
    let landed = spans(Track::HostDmaUp, "write data");
    let came = spans(Track::NetReceive, "frame in");
    came.iter()
        .filter_map(|(message, &[_, end])| Some((end, *landed.get(message)?)))
        .collect()
}

/// Also where frames come in with pauses, as they follow data that other transfers delay.
#[test]
fn no_data_lands_before_its_frame() {
    for name in ["qos", "via", "munet", "present"] {
        let mut profile = profile(name);
        // Buffers of 16 KiB, which MU-Net's card has no room for.
        profile.card.memory_bytes = None;
        let burst = duration_at(
            profile.io_bus.burst_bytes,
            profile.host_dma.bytes_per_second,
        );
        for design in DESIGNS {
            for sends in [false, true] {
                let mut settings = design.roomy(16);
                settings.cut_through = sends;
                settings.receive_cut_through = true;
                let run = ping::ping_bulk_recorded(&profile, settings, 16_384, 8, 8, Keep::Slices);
                let (_, record) = run.unwrap_or_else(|error| panic!("{error}"));
                let found = transfers(&record);
                assert!(found.len() >= 100, "{name}: {}", found.len());
                let following = found.iter().filter(|(came, [begun, _])| begun < came);
                let (count, all) = (following.count(), found.len());
                println!(
                    "{name}, {}, {sends}: {count} of {all} follow",
                    design.name()
                );
                // A sequential program spins on its own sends while frames come in.
                let few = count < 10 && design != Design::Svia;
                assert!(!few, "{name}, {}: {count}", design.name());
                for (came, [_, landed]) in found {
                    assert!(landed >= came + burst * 9 / 10, "{name}: {came} {landed}");
                }
                assert_eq!(record.sums.overcommitted, 0, "{name}");
                assert_eq!(record.sums.errors, 0, "{name}");
            }
        }
    }
}
