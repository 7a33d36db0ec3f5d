//! A card's memory limits what a scenario may have on it.

use super::tests::scenario;
use super::{Measure, ScenarioError};
use crate::figures::table;
use crate::node::{BuildError, CardFull};
use crate::profile::Profile;
use crate::workloads::{Keep, RunError};

/// Two nodes on cards with this much memory.
fn ping_pong(memory: &str, settings: &str) -> String {
    format!(
        "profile = \"qos\"
design = \"PVIA\"
sizes = [\"4 KiB\"]
{settings}
[workload]
kind = \"ping-pong\"
rounds = 5
[sweep]
key = \"profile.card.memory\"
values = [\"{memory}\"]
"
    )
}

fn run(text: &str) -> Result<Vec<Measure>, ScenarioError> {
    let found = scenario(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let steps = found.steps();
    let measures = steps[0].run(Keep::Sums);
    measures.map(|(measures, _)| measures)
}

fn refused(text: &str) -> CardFull {
    match run(text) {
        Err(ScenarioError::Run(RunError::Build(BuildError::CardFull(full)))) => full,
        other => panic!("{other:?}\n{text}"),
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_takes_how_much() {
    let full = refused(&ping_pong("1 MiB", ""));
    let said = full.to_string();
    assert_eq!(full.has_bytes, 1 << 20);
    assert!(full.needs_bytes() > 1 << 20);
    // 64 buffers of 16 KiB with their frame's header.
    assert!(said.contains("1052672 B for 64 buffers, "), "{said}");
    for part in [
        "the card of node 0 needs ",
        "and has 1048576 B",
        "descriptors in progress",
        "doorbells",
        "`card.memory`",
        "`settings.buffers`",
        "`settings.frame`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn as_much_as_is_needed_is_enough_and_a_byte_less_is_not() {
    let few = "[settings]\nbuffers = 16\nframe = \"4 KiB\"";
    let needs = refused(&ping_pong("1 KiB", few)).needs_bytes();
    assert!((66_560..262_144).contains(&needs), "{needs}");
    assert!(run(&ping_pong(&format!("{needs} B"), few)).is_ok());
    let less = refused(&ping_pong(&format!("{} B", needs - 1), few));
    assert_eq!((less.needs_bytes(), less.has_bytes), (needs, needs - 1));
}

/// The thesis measured Tables 5.1 and 5.2 on cards of 2 MiB; its simulator has "infinite sized buffers" (§5.4.2).
#[test]
fn the_tables_fit_on_the_card_that_they_were_measured_on() {
    let unlimited = Profile::shipped("qos").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(unlimited.card.memory_bytes, None);
    let mut profile = unlimited.clone();
    profile.card.memory_bytes = Some(2 << 20);
    let tables = [table::table_5_1_on, table::table_5_2_on];
    for of in tables {
        let (limited, unlimited) = (of(&profile), of(&unlimited));
        let limited = limited.unwrap_or_else(|error| panic!("{error}"));
        let unlimited = unlimited.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{limited:?}"), format!("{unlimited:?}"));
    }
    profile.card.memory_bytes = Some(1 << 20);
    assert!(table::table_5_1_on(&profile).is_err());
}

#[test]
fn workloads_with_more_interfaces_need_more() {
    let interfaces = |memory: &str, settings: &str| {
        format!(
            "profile = \"via\"
design = \"Door+O+DMAQ\"
sizes = [\"1 KiB\"]
{settings}
[workload]
kind = \"exchange\"
nodes = 32
rounds = 2
[sweep]
key = \"profile.card.memory\"
values = [\"{memory}\"]
"
        )
    };
    assert!(run(&interfaces("unlimited", "")).is_ok());
    let full = refused(&interfaces("2 MiB", ""));
    assert_eq!(full.needs[0].what, "buffers");
    let few = "[settings]\nbuffers = 128\nframe = \"4 KiB\"";
    assert!(run(&interfaces("2 MiB", few)).is_ok());
}

/// The cards of MU-Net and pSNOW have 256 KiB.
#[test]
fn small_cards_need_few_and_short_buffers() {
    let few = "[settings]\nbuffers = 16\nframe = \"4 KiB\"";
    for profile in ["munet", "psnow"] {
        let on = |settings| {
            let text = ping_pong("256 KiB", settings);
            text.replace("\"qos\"", &format!("{profile:?}"))
        };
        assert_eq!(refused(&on("")).has_bytes, 256 << 10);
        assert!(run(&on(few)).is_ok(), "{profile}");
    }
}

#[test]
fn wrong_values_name_their_key() {
    for (settings, wanted) in [
        ("[settings]\nbuffers = 7", "settings.buffers"),
        ("[settings]\nframe = \"63 B\"", "settings.frame"),
        ("[settings]\nframe = \"2 MiB\"", "settings.frame"),
    ] {
        let error = scenario(&ping_pong("2 MiB", settings)).expect_err(settings);
        assert!(error.to_string().contains(wanted), "{error}");
    }
    for memory in ["0 B", "infinite", "2 TiB"] {
        let error = scenario(&ping_pong(memory, "")).expect_err(memory);
        assert!(error.to_string().contains("memory"), "{error}");
    }
}
