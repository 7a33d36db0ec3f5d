//! Networks of several switches: what they carry, and what is refused.

use super::tests::{refused, scenario};
use super::{Measure, Scenario};
use crate::workloads::Keep;

/// Nodes 1 to 4 send to node 0, over an uplink if `network` says so.
fn many_to_one(network: &str) -> String {
    format!(
        "profile = \"qos\"
design = \"SVIA\"
[workload]
kind = \"channels\"
shape = \"many to one\"
others = 4
warm_up = \"5 ms\"
measured = \"50 ms\"
[[workload.channel]]
kind = \"constant\"
count = 4
rate = \"10 MB/s\"
size = \"4 KiB\"
{network}"
    )
}

/// Senders behind one switch, the receiver behind another one.
const TWO_SWITCHES: &str = "[[network.switch]]
name = \"near\"
nodes = [0]
[[network.switch]]
name = \"far\"
nodes = [\"1-4\"]
ports = 5
[[network.link]]
ends = [\"near\", \"far\"]
rate = \"20 MB/s\"
";

fn run(scenario: &Scenario) -> Vec<Measure> {
    scenario.steps()[0].run(Keep::Sums).expect("it runs").0
}

fn sum(measures: &[Measure], metric: &str) -> f64 {
    let wanted = measures.iter().filter(|one| one.metric == metric);
    let wanted = wanted.filter(|one| !one.case.ends_with("/all"));
    wanted.map(|one| one.value).sum()
}

/// What is received in all, in MB/s, and how many frames are lost.
fn carried(network: &str) -> (f64, f64) {
    let text = many_to_one(network);
    let measures = run(&scenario(&text).unwrap_or_else(|error| panic!("{error}")));
    (sum(&measures, "received_mb_s"), sum(&measures, "count"))
}

#[test]
fn an_uplink_limits_what_crosses_it() {
    let (star, _) = carried("");
    assert!((39.0..41.0).contains(&star), "{star}");
    let narrow = carried(TWO_SWITCHES).0;
    // Of 20 MB/s, a frame's header and framing take less than 3 %.
    assert!((19.4..20.0).contains(&narrow), "{narrow}");
    let wide = carried(&TWO_SWITCHES.replace("20 MB/s", "100 MB/s")).0;
    assert!((39.0..41.0).contains(&wide), "{wide}");
    let tree = "[network]\ntopology = \"tree\"\nfan_out = 2\nuplink_rate = \"20 MB/s\"\n";
    // Nodes 0 and 1 share a switch; the others come through one uplink.
    let tree = carried(tree).0;
    assert!((29.4..30.0).contains(&tree), "{tree}");
}

#[test]
fn stopped_senders_lose_nothing_and_full_switches_drop() {
    let three = "[network]
buffer = \"16 KiB\"
when_full = \"credit\"
[[network.switch]]
name = \"a\"
nodes = [0]
[[network.switch]]
name = \"b\"
[[network.switch]]
name = \"c\"
nodes = [\"1-4\"]
[[network.link]]
ends = [\"a\", \"b\"]
rate = \"20 MB/s\"
[[network.link]]
ends = [\"c\", \"b\"]
";
    let (stopped, lost) = carried(three);
    assert!((19.4..20.0).contains(&stopped) && lost == 0.0, "{stopped}");
    let (dropped, lost) = carried(&three.replace("credit", "drop"));
    // The uplink stays busy, and frames that it cannot carry are lost: half of 40 MB/s in frames of
    // 4 KiB.
    assert!((19.0..20.0).contains(&dropped), "{dropped}");
    let expected = 20e6 / 4_096.0 * 0.055;
    assert!((0.9 * expected..1.1 * expected).contains(&lost), "{lost}");
    // Only frames that pass the switch that drops are lost.
    let one = three.replace("name = \"b\"", "name = \"b\"\nwhen_full = \"drop\"");
    assert_eq!(carried(&one), (dropped, lost));
}

#[test]
fn all_nodes_of_an_exchange_may_hang_on_a_tree() {
    let text = |network: &str| {
        format!(
            "profile = \"via\"\ndesign = \"Base+O\"\nsizes = [\"1 KiB\"]\n[workload]\nkind = \"exchange\"\nnodes = 4\n\
             rounds = 5\nsimulate = \"all nodes\"\n{network}"
        )
    };
    let latency = |network: &str| {
        let scenario = scenario(&text(network)).unwrap_or_else(|error| panic!("{error}"));
        run(&scenario)[0].value
    };
    let tree = "[network]\ntopology = \"tree\"\nfan_out = 2\n";
    let (star, tree_of_two) = (latency(""), latency(tree));
    let about = 0.9 * star..1.1 * star;
    assert!(about.contains(&tree_of_two), "{star} {tree_of_two}");
    let far = latency(&format!("{tree}uplink_latency = \"1 ms\"\n"));
    assert!(far > star + 1_000.0, "{star} {far}");
    let one = text(tree).replace("all nodes", "one node");
    refused(&one, "tree", "tree", 10, &["all nodes"]);
}

#[test]
fn what_is_no_tree_over_the_nodes_is_refused() {
    let text = many_to_one(TWO_SWITCHES);
    let mut cases: Vec<(&str, &str, usize, &[&str])> = vec![
        ("\"far\"\n", "\"near\"\n", 18, &["already, on line 15"]),
        ("\"far\"\n", "\"\"\n", 18, &["empty"]),
        (
            "[\"1-4\"]",
            "[\"1-3\"]",
            15,
            &["these are not: 4", "attached"],
        ),
        ("[\"1-4\"]", "[\"1-5\"]", 19, &["1-5", "0 to 4"]),
        ("[\"1-4\"]", "[\"4-1\"]", 19, &["4-1"]),
        (
            "[\"1-4\"]",
            "[1, 2, 3, 4, 0]",
            19,
            &["node 0", "`near`", "line 16"],
        ),
        ("[\"1-4\"]", "[]", 19, &["at least one"]),
        ("[\"1-4\"]", "[1.5]", 19, &["names or numbers"]),
        (
            "ports = 5",
            "ports = 4",
            22,
            &["`far` (line 18)", "4 ports"],
        ),
        ("ports = 5", "ports = 3", 19, &["3 ports"]),
        ("ports = 5", "ports = 0", 20, &["from 1 to 4096"]),
        ("ports = 5", "port = 5", 20, &["port", "knows", "ports"]),
        (
            "\"near\", \"far\"",
            "\"near\", \"fur\"",
            22,
            &["`fur`", "`near`, `far`"],
        ),
        ("\"near\", \"far\"", "\"near\"", 21, &["two ends"]),
        (
            "\"near\", \"far\"",
            "\"far\", \"far\"",
            22,
            &["cycle", "far"],
        ),
        (
            "\"near\", \"far\"",
            "\"node 1\", \"near\"",
            22,
            &["node 1", "`far`", "line 19"],
        ),
        (
            "\"near\", \"far\"",
            "\"node 1\", \"node 2\"",
            22,
            &["two nodes"],
        ),
        (
            "\"near\", \"far\"",
            "\"node 0-1\", \"near\"",
            22,
            &["one node"],
        ),
        ("\"20 MB/s\"", "\"20 MB\"", 23, &["a rate", "Gbit/s"]),
        ("\"20 MB/s\"", "\"0 MB/s\"", 23, &["100 kB/s"]),
        (
            "rate = \"20 MB/s\"",
            "latency = \"2 s\"",
            23,
            &["at most 1 s"],
        ),
        (
            "rate = \"20 MB/s\"",
            "speed = \"20 MB/s\"",
            23,
            &["speed", "rate"],
        ),
        (
            "name = \"near\"",
            "name = \"near\"\nbuffer = \"0 B\"",
            16,
            &["from 1 B"],
        ),
        (
            "name = \"near\"",
            "name = \"near\"\nwhen_full = \"wait\"",
            16,
            &["\"credit\"", "\"drop\""],
        ),
    ];
    let again = "[[network.switch]]\nname = \"c\"\n[[network.link]]\nends = [\"c\", \"far\"]\n\
                 [[network.link]]\nends = [\"c\", \"near\"]\n[[network.link]]";
    cases.push((
        "[[network.link]]",
        again,
        28,
        &["cycle", "`near` - `c` - `far`", "tree"],
    ));
    let apart = "[[network.switch]]\nname = \"c\"\n[[network.link]]";
    cases.push(("[[network.link]]", apart, 22, &["`c`", "`near`"]));
    for (line, by, at, words) in cases {
        refused(&text, line, by, at, words);
    }
}

#[test]
fn shapes_have_keys_of_their_own() {
    let star = many_to_one("[network]\nports = 8\nlatency = \"1 us\"\nsource = \"a guess\"\n");
    assert!(scenario(&star).is_ok());
    refused(&star, "ports = 8", "ports = 4", 15, &["too few ports", "5"]);
    refused(&star, "ports = 8", "fan_out = 8", 15, &["fan_out", "ports"]);
    refused(
        &star,
        "ports = 8",
        "topology = \"ring\"",
        15,
        &["\"star\"", "\"tree\"", "\"switches\""],
    );
    refused(
        &star,
        "ports = 8",
        "topology = \"switches\"",
        14,
        &["lacks `switch`"],
    );
    refused(
        &star,
        "ports = 8",
        "topology = \"tree\"",
        14,
        &["lacks `fan_out`"],
    );
    let tree = "topology = \"tree\"\nfan_out = 1";
    refused(&star, "ports = 8", tree, 16, &["from 2 to 4096"]);
    let links = star.clone() + "[[network.link]]\nends = [\"a\", \"b\"]\n";
    refused(&links, "ports = 8", "", 14, &["lacks `switch`"]);
}

/// An FFT of eight processes; how long it takes in µs.
fn fft(network: &str) -> f64 {
    let text = format!(
        "profile = \"substrates\"\n[workload]\nkind = \"program\"\nprogram = \"fft\"\nsubstrate = \"(C2,NI3)\"\n\
         processes = 8\nprocesses_per_host = 2\npoints = 1024\n{network}"
    );
    run(&scenario(&text).unwrap_or_else(|error| panic!("{error}")))[0].value
}

#[test]
fn programs_run_on_networks_too() {
    let star = fft("");
    assert_eq!(fft("[network]\n"), star, "the default is the same switch");
    let tree = "[network]\ntopology = \"tree\"\nfan_out = 2\n";
    let far = fft(&format!("{tree}uplink_latency = \"1 ms\"\n"));
    assert!(far > star + 2_000.0, "{star} {far}");
    let narrow = fft(&format!("{tree}uplink_rate = \"1 MB/s\"\n"));
    assert!(narrow > 1.2 * star, "{star} {narrow}");
    let fat = format!("{}spines = 2\n", tree.replace("tree", "fat tree"));
    let fat = fft(&fat);
    assert!((0.9 * star..1.1 * star).contains(&fat), "{star} {fat}");
    let program = "profile = \"substrates\"\n[workload]\nkind = \"program\"\nprogram = \"fft\"\nsubstrate = \"(C2,NI3)\"\n\
                   processes = 8\npoints = 1024\n[network]\nlatency = \"1 us\"\n";
    refused(
        program,
        "latency = \"1 us\"",
        "when_full = \"drop\"",
        8,
        &["do not send again"],
    );
    let four = "topology = \"tree\"\nfan_out = 2\n[[network.failure]]\nnode = 8\nfrom = \"0 s\"\nto = \"1 s\"";
    refused(program, "latency = \"1 us\"", four, 12, &["from 0 to 7"]);
    let fails = four.replace("node = 8", "node = 7");
    refused(
        program,
        "latency = \"1 us\"",
        &fails,
        8,
        &["without failures"],
    );
}

#[test]
fn credits_limit_the_rate_to_a_buffer_for_each_round_trip() {
    let with = |keys: &str| {
        let text = format!("[network]\nbuffer = \"8 KiB\"\nlatency = \"100 us\"\n{keys}");
        let text = many_to_one(&text)
            .replace("others = 4", "others = 1")
            .replace("count = 4", "count = 1");
        let measures = run(&scenario(&text).unwrap_or_else(|error| panic!("{error}")));
        sum(&measures, "received_mb_s")
    };
    let stopped = with("");
    assert!((9.8..10.2).contains(&stopped), "{stopped}");
    // One frame fits: 4 KiB for 100 µs there, 100 µs back, and its time on the link.
    let credited = with("when_full = \"credit\"\n");
    assert!(
        (9.8..10.2).contains(&credited),
        "18 MB/s would fit: {credited}"
    );
    let slow = with("when_full = \"credit\"\ncredit_time = \"600 us\"\n");
    assert!((4.5..5.2).contains(&slow), "{slow}");
    let text = many_to_one("[network]\ncredit_time = \"1 us\"\n");
    refused(&text, "credit_time", "credit_time", 15, &["credit_time"]);
}

/// Channels from each of four nodes to node 0, which is behind the other switch of a fat tree.
fn fat(keys: &str) -> String {
    let keys = format!(
        "[network]\ntopology = \"fat tree\"\nfan_out = 1\nuplink_rate = \"20 MB/s\"\n{keys}"
    );
    many_to_one(&keys)
}

#[test]
fn a_fat_trees_ways_are_used_side_by_side() {
    let carried = |keys: &str| {
        let text = fat(keys);
        let measures = run(&scenario(&text).unwrap_or_else(|error| panic!("{error}")));
        sum(&measures, "received_mb_s")
    };
    // All to one node: those from the top switches to its leaf are what limits.
    let one = carried("spines = 1\n");
    assert!((19.4..20.0).contains(&one), "{one}");
    let two = carried("spines = 2\nrouting = \"least busy\"\n");
    assert!((35.0..40.5).contains(&two), "{two}");
    let same = carried("spines = 2\nrouting = \"destination\"\n");
    assert!((19.4..20.0).contains(&same), "one way to one node: {same}");
    let text = fat("spines = 2\n");
    refused(&text, "spines = 2", "spines = 0", 18, &["from 1"]);
    refused(
        &text,
        "spines = 2",
        "spines = 2\nrouting = \"x\"",
        19,
        &["\"least busy\""],
    );
}

#[test]
fn what_is_on_a_link_that_fails_is_lost() {
    let lost = |network: &str| {
        let text = many_to_one(network);
        let measures = run(&scenario(&text).unwrap_or_else(|error| panic!("{error}")));
        (sum(&measures, "received_mb_s"), sum(&measures, "count"))
    };
    let failure = |what: &str, from: &str, to: &str| {
        format!("{TWO_SWITCHES}[[network.failure]]\n{what}\nfrom = \"{from}\"\nto = \"{to}\"\n")
            .replace("20 MB/s", "100 MB/s")
    };
    let all = lost(&failure("node = 0", "10 s", "11 s"));
    assert!((39.0..41.0).contains(&all.0) && all.1 == 0.0, "{all:?}");
    // The last 20 of 50 ms.
    for what in [
        "node = 0",
        "switch = [\"far\"]",
        "link = [\"far\", \"near\"]",
    ] {
        let (received, frames) = lost(&failure(what, "41.4 ms", "1 s"));
        assert!((23.0..25.0).contains(&received), "{what}: {received}");
        assert!((180.0..210.0).contains(&frames), "{what}: {frames}");
    }
    let (received, _) = lost(&failure("node = 1", "0 s", "1 s"));
    assert!((29.0..31.0).contains(&received), "{received}");
    let text = many_to_one(&failure("node = 0", "1 s", "2 s"));
    refused(&text, "node = 0", "node = 5", 25, &["from 0 to 4"]);
    refused(
        &text,
        "node = 0",
        "switch = [\"middle\"]",
        25,
        &["middle", "near, far"],
    );
    refused(
        &text,
        "node = 0",
        "link = [\"near\", \"near\"]",
        25,
        &["no link joins"],
    );
    refused(&text, "to = \"2 s\"", "to = \"1 s\"", 24, &["end"]);
}

#[test]
fn as_many_switches_as_there_may_be_are_read_in_a_row() {
    // If each switch looked at each cable for each other switch, this would take minutes.
    const COUNT: usize = 4_096;
    let mut network = String::new();
    for switch in 0..COUNT {
        let nodes = match switch {
            0 => "nodes = [\"0-4\"]\n",
            _ => "",
        };
        network += &format!("[[network.switch]]\nname = \"s{switch}\"\n{nodes}");
    }
    for switch in 1..COUNT {
        let before = switch - 1;
        network += &format!("[[network.link]]\nends = [\"s{before}\", \"s{switch}\"]\n");
    }
    let text = many_to_one(&network);
    assert!(scenario(&text).is_ok());
    let last = format!("[\"s{}\", \"s{}\"]", COUNT - 2, COUNT - 1);
    let error = scenario(&text.replace(&last, "[\"s0\", \"s1\"]")).expect_err("a cycle");
    assert!(error.message.contains("`s0` - `s1`"), "{error}");
    let without = text.replace(&format!("[[network.link]]\nends = {last}\n"), "");
    let error = scenario(&without).expect_err("the last one is apart");
    assert!(error.message.contains("`s4095`"), "{error}");
}
