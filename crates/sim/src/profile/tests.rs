//! Profiles that are wrong are refused where they are wrong.

use super::edit::{Entry, entries};
use super::*;
use crate::coscheduling::costs::Costs;
use crate::substrates;

/// The text of a shipped profile with the first line that begins with `from` replaced, and that line's number.
fn changed(from: &str, to: &str) -> (String, usize) {
    let (_, text) = SHIPPED[3];
    let line = text
        .lines()
        .position(|line| line.starts_with(from))
        .expect("the profile has such a line");
    let lines: Vec<&str> = text
        .lines()
        .enumerate()
        .map(|(number, old)| if number == line { to } else { old })
        .collect();
    (lines.join("\n"), line + 1)
}

fn refused(from: &str, to: &str) -> String {
    let (text, line) = changed(from, to);
    let error = Profile::parse(&text, "my.toml").expect_err("it is wrong");
    assert_eq!(
        (error.file.as_str(), error.line),
        ("my.toml", line),
        "{error}"
    );
    error.to_string()
}

#[test]
fn shipped_profiles_are_read() {
    for (name, _) in SHIPPED {
        let profile = Profile::shipped(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.name, *name);
        assert!(profile.summary.len() > 20);
    }
    let error = Profile::shipped("cray").expect_err("there is none");
    assert!(
        error
            .to_string()
            .contains("psnow, munet, via, qos, present")
    );
}

/// The number of an entry whose unit is cycles or a time, in cycles or picoseconds.
fn number(entry: &Entry) -> u64 {
    let kinds = [units::Kind::Cycles, units::Kind::Time];
    let read = kinds
        .iter()
        .find_map(|&kind| units::parse(&entry.value, kind).ok());
    read.unwrap_or_else(|| panic!("{entry:?}"))
}

/// The number of the same key in another shipped profile.
fn number_in(profile: &str, key: &str) -> u64 {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == profile);
    let found = entries(shipped.expect("it is shipped").1);
    number(found.iter().find(|entry| entry.key == key).expect(key))
}

#[test]
fn sources_that_relate_to_other_profiles_are_true() {
    let mut related = 0;
    for (name, text) in SHIPPED {
        // `munet` and `psnow` have the same steps, so that neither is another profile for the other.
        let others: &[&str] = match *name {
            "via" => &["qos", "munet", "psnow"],
            _ => &["qos", "via"],
        };
        for entry in entries(text) {
            let (key, source) = (entry.key.as_str(), entry.source.as_str());
            let is_true = if source.contains("as qos") {
                number(&entry) == number_in("qos", key)
            } else if source.contains("a quarter of the qos profile") {
                number(&entry) == ((number_in("qos", key) + 2) / 4).max(1)
            } else if source.contains("in the range of the other profiles") {
                let of: Vec<u64> = others.iter().map(|other| number_in(other, key)).collect();
                of.iter().any(|&of| of <= number(&entry))
                    && of.iter().any(|&of| of >= number(&entry))
            } else {
                continue;
            };
            assert!(is_true, "{name}: {entry:?}");
            related += 1;
        }
    }
    assert!(related > 90, "{related}");
}

/// Sources other than the thesis, by their beginnings: systems and parts whose documentation gives the value.
const OTHER_SOURCES: [&str; 19] = [
    "Solaris, ",
    "Ultra Enterprise 1",
    "UltraSPARC",
    "S-Bus",
    "Myrinet",
    "LANai 7",
    "Pentium",
    "PCI 2.1",
    "Fore SBA-200",
    "ATM",
    "x86",
    "DDR5",
    "PCIe 5",
    "Ethernet",
    "Linux 6",
    "servers of 2024",
    "switches of 2024",
    "5 m of cable",
    // What else is so of an engine with one channel, or with one for each direction.
    "one channel",
];

#[test]
fn each_source_is_of_one_of_four_kinds() {
    let others = [
        ("coscheduling", Costs::SHIPPED),
        ("substrates", substrates::Costs::SHIPPED),
        ("endpoints", include_str!("../../profiles/endpoints.toml")),
    ];
    for (name, text) in SHIPPED.iter().copied().chain(others) {
        for entry in entries(text) {
            let own = ["thesis, ", "fitted to ", "chosen"];
            let mut kinds = own.into_iter().chain(OTHER_SOURCES);
            let is_one = kinds.any(|kind| entry.source.starts_with(kind));
            assert!(is_one, "{name}: {entry:?}");
        }
    }
    let found = entries(Costs::SHIPPED);
    for entry in &found {
        if entry.source == "chosen, as life_low" {
            let life = found.iter().find(|of| of.key == "life_low.imbalance");
            assert_eq!(
                life.map(|life| &life.value),
                Some(&entry.value),
                "{entry:?}"
            );
        }
    }
}

#[test]
fn keys_that_have_no_effect_any_more_are_refused_as_such() {
    let (_, text) = SHIPPED[3];
    for (table, key) in [
        ("memory", "cache_access"),
        ("memory", "line"),
        ("host_dma", "queue_length"),
    ] {
        let with = format!("[{table}]\n{key} = {{ value = 1, source = \"x\" }}\n");
        let text = text.replace(&format!("[{table}]\n"), &with);
        let error = Profile::parse(&text, "my.toml").expect_err(key);
        let wrong = format!("`{table}.{key}` has no effect: remove it");
        assert_eq!(error.message, wrong);
    }
}

#[test]
fn unknown_keys_wrong_units_and_missing_sources_name_their_line() {
    assert!(refused("width", "width = { value = \"64 MHz\", source = \"x\" }").contains("KiB"));
    assert!(refused("width", "width = \"64 bit\"").contains("source"));
    assert!(refused("width", "width = { value = \"64 bit\", source = \" \" }").contains("words"));
    assert!(refused("width", "width = { value = 64, source = \"x\" }").contains("unit"));
    assert!(
        refused(
            "width",
            "width = { value = \"64 bit\", source = \"x\", a = 1 }"
        )
        .contains("`a`")
    );
    assert!(refused("width", "width = = 3").contains("my.toml"));
}

#[test]
fn a_key_that_is_not_known_is_told_with_those_that_are() {
    let (_, text) = SHIPPED[3];
    let text = text.replace("[io_bus]\n", "[io_bus]\nspeed = 3\n");
    let line = text
        .lines()
        .position(|line| line == "speed = 3")
        .expect("it was put in");
    let error = Profile::parse(&text, "my.toml").expect_err("it is not known");
    assert_eq!(error.line, line + 1);
    assert!(
        error
            .message
            .contains("[io_bus] knows no `speed`; it knows clock")
    );
}

#[test]
fn a_key_that_is_missing_is_told_with_its_table() {
    let (text, _) = changed("burst", "");
    let error = Profile::parse(&text, "my.toml").expect_err("it is missing");
    let table = text
        .lines()
        .position(|line| line == "[io_bus]")
        .expect("the table is there");
    assert_eq!(
        (error.line, error.message.as_str()),
        (table + 1, "[io_bus] lacks `burst`")
    );
}

#[test]
fn impossible_hardware_is_refused() {
    let error = refused(
        "rate = { value = \"13",
        "rate = { value = \"900 MB/s\", source = \"x\" }",
    );
    assert!(error.contains("more than its bus"), "{error}");
    assert!(refused("processors", "processors = { value = 0, source = \"x\" }").contains("from 1"));
    assert!(
        refused("width", "width = { value = \"0 bit\", source = \"x\" }").contains("more than 0")
    );
    assert!(
        refused("page", "page = { value = \"5 KiB\", source = \"x\" }").contains("power of two")
    );
    assert!(
        refused(
            "when_full",
            "when_full = { value = \"wait\", source = \"x\" }"
        )
        .contains("\"stop\" or \"credit\" or \"drop\"")
    );
}

#[test]
fn what_would_not_fit_in_picoseconds_is_refused() {
    let (_, via) = super::SHIPPED[2];
    for (from, to, allowed) in [
        (
            "clock = { value = \"132 MHz\"",
            "clock = { value = \"1 Hz\"",
            "from 1 MHz",
        ),
        (
            "latency = { value = \"0 ns\"",
            "latency = { value = \"2 s\"",
            "at most 1 s",
        ),
        (
            "rate = { value = \"85 MB/s\"",
            "rate = { value = \"1 B/s\"",
            "from 100 kB/s",
        ),
        (
            "post = { value = \"400 cycles\"",
            "post = { value = \"9000000000 cycles\"",
            "1000000 cycles",
        ),
        (
            "framing = { value = \"8 B\"",
            "framing = { value = \"1 MiB\"",
            "at most 65536 B",
        ),
        (
            "memory = { value = \"unlimited\"",
            "memory = { value = \"99999 GiB\"",
            "at most 1024 GiB",
        ),
    ] {
        assert!(via.contains(from), "{from}");
        let text = via.replacen(from, to, 1);
        let error = Profile::parse(&text, "via.toml").expect_err(to);
        let (short, _) = to.split_once(" =").unwrap_or((to, ""));
        assert!(
            error.message.contains(allowed) && error.message.contains(short),
            "{error}"
        );
        let line = text.lines().nth(error.line - 1).unwrap_or_default();
        assert!(line.contains(to), "{error}");
    }
}
