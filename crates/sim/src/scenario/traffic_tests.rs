//! Traffic in patterns and loops, and the library's ways to use a card.

use super::tests::{refused, scenario};
use super::{Measure, Parts};
use crate::workloads::Keep;

fn traffic(rest: &str) -> String {
    format!(
        "profile = \"qos\"
design = \"PVIA\"
sizes = [\"1 KiB\"]
[workload]
kind = \"traffic\"
nodes = 8
warm_up = \"1 ms\"
measured = \"10 ms\"
{rest}
"
    )
}

const OPEN: &str = "loop = \"open\"\nrate = \"4 MB/s\"\n";
const CLOSED: &str = "loop = \"closed\"\noutstanding = 2\n";

fn run(text: &str) -> Vec<Measure> {
    let found = scenario(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let steps = found.steps();
    steps[0]
        .run(Keep::Statistics)
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

fn find<'a>(measures: &'a [Measure], case: &str, metric: &str) -> &'a Measure {
    let found = measures
        .iter()
        .find(|one| one.case.ends_with(case) && one.metric == metric);
    found.unwrap_or_else(|| panic!("{case} {metric}: {measures:?}"))
}

fn value(measures: &[Measure], case: &str, metric: &str) -> f64 {
    find(measures, case, metric).value
}

/// What each node receives, in MB/s.
fn received(measures: &[Measure]) -> Vec<f64> {
    match &find(measures, "each-node", "received_mb_s").of {
        Parts::Instances(each) => each.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_pattern_sends_where_it_says() {
    for (pattern, evenly) in [
        ("\"all to all\"", true),
        ("\"uniform\"", false),
        ("\"neighbour\"", true),
        ("\"permutation\"", true),
        ("\"zipf\"\nexponent = 1", false),
        ("\"hotspot\"\nshare = 0.5", false),
    ] {
        let text = traffic(&format!(
            "pattern = {pattern}\n{OPEN}arrivals = \"constant\""
        ));
        let measures = run(&text);
        let all = value(&measures, "pvia/all", "received_mb_s");
        assert!((31.0..33.0).contains(&all), "{pattern}: {all}");
        let each = received(&measures);
        if evenly {
            let even = each.iter().all(|rate| (3.8..4.3).contains(rate));
            assert!(even, "{pattern}: {each:?}");
        }
        let first = each[0];
        let last = each[7];
        match pattern {
            // 7 of 32 MB/s are half of what the others send, and an eighth of their other half comes there too.
            "\"hotspot\"\nshare = 0.5" => assert!((13.0..18.0).contains(&first), "{each:?}"),
            "\"zipf\"\nexponent = 1" => assert!(first > 4.0 * last, "{each:?}"),
            _ => assert!(
                each.iter().all(|rate| (2.0..6.5).contains(rate)),
                "{each:?}"
            ),
        }
        assert_eq!(run(&text), measures, "{pattern}");
    }
}

#[test]
fn closed_loops_keep_to_their_requests_and_think_times() {
    let closed = |keys: &str| {
        let measures = run(&traffic(&format!(
            "pattern = \"neighbour\"\n{CLOSED}{keys}"
        )));
        let rate = value(&measures, "pvia/all", "rate_per_s");
        let response = value(&measures, "response", "latency_us");
        (rate, response)
    };
    // Little's law: two requests of each of eight nodes, each for its response and think time.
    for (keys, think) in [
        ("", 0.0),
        ("think = \"500 us\"\n", 500.0),
        ("think = \"500 us\"\nthinking = \"exponential\"\n", 500.0),
    ] {
        let (rate, response) = closed(keys);
        let expected = 16.0 / (response + think) * 1e6;
        assert!(
            (0.9 * expected..1.1 * expected).contains(&rate),
            "{keys}: {rate} {expected}"
        );
    }
    let (_, short) = closed("reply = \"1 B\"\n");
    let (_, long) = closed("reply = \"16 KiB\"\n");
    assert!(long > short + 100.0, "{short} {long}");
}

#[test]
fn sizes_are_distributed_as_the_file_says() {
    let mean = |sizes: &str| {
        let text = traffic(&format!(
            "pattern = \"uniform\"\n{OPEN}[workload.sizes]\n{sizes}"
        ));
        let text = text
            .replace("sizes = [\"1 KiB\"]\n", "")
            .replace("10 ms", "100 ms");
        let measures = run(&text);
        let bytes = value(&measures, "pvia/all", "received_mb_s") * 1e6;
        bytes / value(&measures, "pvia/all", "rate_per_s")
    };
    for (sizes, expected) in [
        (
            "distribution = \"uniform\"\nfrom = \"1 KiB\"\nto = \"3 KiB\"",
            2_048.0,
        ),
        ("distribution = \"exponential\"\nmean = \"2 KiB\"", 2_048.0),
        (
            "distribution = \"log-uniform\"\nfrom = \"64 B\"\nto = \"4 KiB\"",
            1_008.0,
        ),
        (
            "distribution = \"weighted\"\n[[workload.sizes.size]]\nbytes = \"64 B\"\nweight = 9\n\
             [[workload.sizes.size]]\nbytes = \"8 KiB\"\nweight = 1",
            877.0,
        ),
    ] {
        let found = mean(sizes);
        assert!(
            (0.85 * expected..1.15 * expected).contains(&found),
            "{sizes}: {found}"
        );
    }
}

#[test]
fn rdma_and_reliable_connections_can_be_had() {
    let response = |rest: &str, library: &str| {
        let text = traffic(&format!(
            "pattern = \"permutation\"\n{CLOSED}{rest}\n[library]\n{library}"
        ));
        let measures = run(&text);
        assert!(value(&measures, "pvia/all", "received_mb_s") > 1.0);
        (
            value(&measures, "response", "latency_us"),
            value(&measures, "messages", "latency_us"),
        )
    };
    let (send, _) = response("", "");
    let (write, own) = response("operation = \"rdma write\"", "");
    assert!(write < send, "nobody answers a write: {write} {send}");
    assert!(own <= write, "{own} {write}");
    let (read, _) = response("operation = \"rdma read\"", "reliability = \"delivery\"");
    let (delivered, _) = response("operation = \"rdma write\"", "reliability = \"delivery\"");
    let (placed, _) = response("operation = \"rdma write\"", "reliability = \"reception\"");
    assert!(
        write < delivered && delivered < placed,
        "{write} {delivered} {placed}"
    );
    assert!(read > write, "{read} {write}");
}

#[test]
fn reliable_connections_lose_nothing_when_a_link_fails() {
    let unfinished = |reliability: &str| {
        let text = traffic(&format!(
            "pattern = \"neighbour\"\nloop = \"open\"\nrate = \"2 MB/s\"\n[library]\nreliability = \"{reliability}\"\n\
             [[network.failure]]\nnode = 3\nfrom = \"6 ms\"\nto = \"11 ms\"\n[network]\n"
        ));
        let measures = run(&text.replace("10 ms", "30 ms"));
        assert!(
            value(&measures, "frames-lost", "count") > 3.0,
            "{reliability}"
        );
        value(&measures, "all/unfinished", "count")
    };
    let (unreliable, reliable) = (unfinished("unreliable"), unfinished("delivery"));
    assert!(
        unreliable > 4.0 && reliable <= 2.0,
        "{unreliable} {reliable}"
    );
}

#[test]
fn a_node_that_stands_still_sends_nothing_and_goes_on() {
    let measured = |reliability: &str, failure: &str| {
        let text = traffic(&format!(
            "pattern = \"neighbour\"\nloop = \"open\"\nrate = \"2 MB/s\"\n[library]\nreliability = \"{reliability}\"\n\
             [[network.failure]]\nnode = 3\n{failure}from = \"6 ms\"\nto = \"11 ms\"\n[network]\n"
        ));
        let measures = run(&text.replace("10 ms", "30 ms"));
        let count = |case: &str| value(&measures, case, "count");
        (count("frames-lost"), count("all/unfinished"))
    };
    let (of_link, _) = measured("unreliable", "");
    let (of_node, _) = measured("unreliable", "stops = true\n");
    // Those that it would have sent are not there to be lost.
    assert!(
        of_node > 3.0 && of_node < 0.7 * of_link,
        "{of_node} {of_link}"
    );
    let (_, unfinished) = measured("delivery", "stops = true\n");
    assert!(unfinished <= 2.0, "{unfinished}");
}

#[test]
fn who_blocks_leaves_the_processor_and_waits_longer() {
    let with = |waits: &str| {
        let text = traffic(&format!(
            "pattern = \"neighbour\"\n{CLOSED}think = \"300 us\"\n[library]\nwaits = \"{waits}\"\n"
        ));
        let measures = run(&text);
        (
            value(&measures, "response", "latency_us"),
            value(&measures, "use/host-processor", "share"),
        )
    };
    let (polled, busy) = with("poll");
    let (blocked, idle) = with("block");
    assert!(blocked > polled + 5.0, "{blocked} {polled}");
    assert!(busy > 2.0 * idle, "{busy} {idle}");
    // The other workloads, too: a wake-up that is lost would leave them stuck.
    for (kind, design) in [
        ("exchange", "Base+O"),
        ("one-of-all", "Base"),
        ("exchange", "Door+O+DMAQ+2CPU"),
    ] {
        for queue in [false, true] {
            let text = format!(
                "profile = \"via\"\ndesign = \"{design}\"\nsizes = [\"128 B\", \"4 KiB\"]\n[library]\nwaits = \"block\"\n\
                 [workload]\nkind = \"{kind}\"\nnodes = 4\nrounds = 20\ncompletion_queue = {queue}\n"
            );
            let blocked = run(&text);
            let polled = run(&text.replace("block", "poll"));
            assert!(blocked[0].value != polled[0].value, "{kind} {queue}");
        }
    }
}

#[test]
fn only_admitted_channels_are_run_if_the_file_says_so() {
    let channels = |keys: &str| {
        run(&format!(
            "profile = \"qos\"\ndesign = \"QoSVIA\"\n[workload]\nkind = \"channels\"\nshape = \"one to many\"\nothers = 2\n\
             warm_up = \"1 ms\"\nmeasured = \"20 ms\"\n{keys}\n[[workload.channel]]\nkind = \"constant\"\ncount = 20\n\
             rate = \"8 MB/s\"\nsize = \"4 KiB\"\n"
        ))
    };
    let all = channels("");
    let admitted = channels("admission = true");
    let count = value(&admitted, "admission/admitted", "count");
    assert!((4.0..14.0).contains(&count), "{count}");
    assert_eq!(count + value(&admitted, "admission/refused", "count"), 20.0);
    let rate = value(&admitted, "constant/all", "received_mb_s");
    assert!(
        (0.97 * 8.0 * count..1.03 * 8.0 * count).contains(&rate),
        "{rate}: what is admitted is carried"
    );
    let latency = |measures: &[Measure]| value(measures, "constant/all", "latency_us");
    assert!(latency(&all) > 2.0 * latency(&admitted));
    let offers: Vec<f64> = admitted
        .iter()
        .filter(|one| one.metric == "rate_mb_s")
        .map(|one| one.value)
        .collect();
    assert!(
        offers.iter().all(|offer| (0.0..8.0).contains(offer)),
        "{offers:?}"
    );
}

#[test]
fn traffic_that_cannot_be_is_refused() {
    let text = traffic(&format!("pattern = \"zipf\"\nexponent = 1\n{OPEN}"));
    refused(&text, "nodes = 8", "nodes = 1", 6, &["from 2 to 4096"]);
    refused(&text, "nodes = 8", "nodes = 200", 6, &["39800", "32768"]);
    refused(
        &text,
        "exponent = 1",
        "exponent = 0.3",
        10,
        &["multiple of 0.25"],
    );
    refused(
        &text,
        "\"zipf\"",
        "\"ring\"",
        9,
        &["\"hotspot\"", "\"all to all\""],
    );
    refused(
        &text,
        "loop = \"open\"",
        "loop = \"closed\"",
        4,
        &["outstanding"],
    );
    refused(&text, "rate", "think = \"1 us\"\nrate", 12, &["think"]);
    let sizes = "[workload.sizes]\ndistribution = \"uniform\"\nfrom = \"2 B\"\nto = \"1 B\"";
    refused(
        &text.replace("sizes = [\"1 KiB\"]\n", ""),
        "rate = \"4 MB/s\"",
        &format!("rate = \"4 MB/s\"\n{sizes}"),
        13,
        &["from"],
    );
    let both = format!("rate = \"4 MB/s\"\n{}", sizes.replace("2 B", "1 B"));
    refused(&text, "rate = \"4 MB/s\"", &both, 3, &["sizes"]);
}
