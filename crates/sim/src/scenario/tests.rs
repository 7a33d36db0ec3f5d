//! What a scenario's file may say, and what is made of it.

use super::{Measure, Parts, Scenario, read, summarize};
use crate::node::Record;
use crate::profile::FileError;
use crate::workloads::Keep;

fn nothing(_: &str) -> Result<String, String> {
    Err("no such file".to_owned())
}

pub(super) fn scenario(text: &str) -> Result<Scenario, FileError> {
    read(text, "mine.toml", &nothing)
}

const EXCHANGE: &str = "profile = \"via\"
design = \"Base+O\"
sizes = [\"128 B\", \"4 KiB\"]

[workload]
kind = \"exchange\"
nodes = 4
active = 6
rounds = 5
";

const CHANNELS: &str = "profile = \"qos\"
design = \"QoSVIA\"
seed = 7

[workload]
kind = \"channels\"
shape = \"one to many\"
others = 2
warm_up = \"1 ms\"
measured = \"10 ms\"

[[workload.channel]]
kind = \"constant\"
count = 2
rate = \"8 MB/s\"
size = \"4 KiB\"

[[workload.channel]]
kind = \"video\"
rate = \"47.5 kB/s\"
streams = 20

[[workload.channel]]
kind = \"best effort\"
rate = \"10 MB/s\"
size = \"4 KiB\"
";

const FFT: &str = "profile = \"substrates\"
[workload]
kind = \"program\"
program = \"fft\"
substrate = \"(C2,NI3)\"
processes = 4
points = 1024
";

#[test]
fn each_workload_runs_and_does_so_alike() {
    let ping = "profile = \"qos\"\ndesign = \"PVIA\"\nsizes = [\"4 B\"]\n[workload]\nkind = \"ping-pong\"\nrounds = 3\n";
    let bulk = "profile = \"qos\"\ndesign = \"SVIA\"\nsizes = [\"64 KiB\"]\n[workload]\nkind = \"ping-bulk\"\nrounds = 2\nwindow = 128\n";
    let chance = "profile = \"via\"\ndesign = \"Base\"\nsizes = [\"128 B\"]\nseed = 3\n[workload]\nkind = \"one-of-all\"\nnodes = 4\nrounds = 5\n";
    for (text, metric) in [
        (EXCHANGE, "latency_us"),
        (CHANNELS, "jitter_theta"),
        (FFT, "time_us"),
        (ping, "latency_us"),
        (bulk, "latency_us"),
        (chance, "latency_us"),
    ] {
        let scenario = scenario(text).expect(text);
        for step in scenario.steps() {
            let (found, record) = step.run(Keep::Sums).expect(text);
            assert!(found.iter().any(|one| one.metric == metric), "{found:?}");
            assert!(record.slices.is_none());
            let (all, record) = step.run(Keep::Statistics).expect(text);
            let means = |of: &[Measure]| -> Vec<(String, String)> {
                let mean =
                    |one: &Measure| (one.case.clone() + &one.metric, format!("{:.3}", one.value));
                of.iter().map(mean).collect()
            };
            assert_eq!(means(&all)[..found.len()], means(&found), "{text}");
            assert_eq!(all, step.run(Keep::Slices).expect(text).0);
            every_run_has_distributions_and_use(&all, &record);
        }
    }
    assert_eq!(scenario(EXCHANGE).expect("it is right").steps().len(), 2);
}

fn every_run_has_distributions_and_use(measures: &[Measure], record: &Record) {
    let all = measures.iter().find(|one| one.case.ends_with("/messages"));
    let all = all.expect("latencies of all messages");
    let Parts::Messages(latencies) = &all.of else {
        panic!("{all:?}");
    };
    assert!(
        latencies.count() > 3 && latencies.quantile(0.5) > 0,
        "{all:?}"
    );
    let statistics = record.statistics.as_ref().expect("they are kept");
    assert_eq!(statistics.latencies, **latencies);
    for resource in ["host-processor", "link"] {
        let name = format!("/use/{resource}");
        let shares = measures.iter().find(|one| one.case.ends_with(&name));
        let Some(Parts::Instances(shares)) = shares.map(|one| &one.of) else {
            panic!("{resource} {measures:?}");
        };
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        assert!(
            shares.iter().any(|share| *share > 0.001),
            "{resource}: {shares:?}"
        );
    }
    let sum: u64 = statistics
        .timeline
        .intervals()
        .map(|one| one.messages)
        .sum();
    assert!(sum <= latencies.count());
}

/// What a scenario's first step measures, without and with cut-through.
fn with_cut_through(text: &str, metric: &str) -> [Vec<f64>; 2] {
    let with = text.replace("[workload]", "[settings]\ncut_through = true\n[workload]");
    [text, &with].map(|text| {
        let scenario = scenario(text).expect(text);
        let (found, _) = scenario.steps()[0].run(Keep::Sums).expect(text);
        let of_it = found.iter().filter(|one| one.metric == metric);
        of_it.map(|one| one.value).collect()
    })
}

#[test]
fn frames_follow_their_data_if_the_file_says_so() {
    let ping = "profile = \"qos\"\ndesign = \"QoSVIA\"\nsizes = [\"16 KiB\"]\n[workload]\nkind = \"ping-pong\"\nrounds = 3\n";
    let [without, with] = with_cut_through(ping, "latency_us");
    assert!(with.last() < without.last(), "{without:?} {with:?}");
    let crowd = CHANNELS.replace("count = 2", "count = 10");
    let [without, with] = with_cut_through(&crowd, "latency_us");
    assert_eq!(
        without.len(),
        13,
        "of each, and of those of constant rate together"
    );
    for (without, with) in without.iter().zip(&with) {
        assert!(with < without, "{without} {with}");
    }
}

#[test]
fn native_time_may_be_charged_and_is_no_promise() {
    let counted = scenario(FFT).expect("it is right");
    assert!(counted.is_reproducible());
    let text = format!("{FFT}time = \"native\"\nscale = 2.5\n");
    let native = scenario(&text).expect("it is right");
    assert!(!native.is_reproducible());
    let (found, _) = native.steps()[0].run(Keep::Sums).expect("it runs");
    assert!(found[0].value > 0.0, "{found:?}");
    assert!(scenario(&format!("{FFT}time = \"model\"\n")).is_ok_and(|one| one.is_reproducible()));
}

#[test]
fn programs_have_timelines_too() {
    let scenario = scenario(FFT).expect("it is right");
    let (measures, record) = scenario.steps()[0].run(Keep::Slices).expect("it runs");
    assert_eq!(
        measures,
        scenario.steps()[0]
            .run(Keep::Statistics)
            .expect("it runs")
            .0
    );
    let slices = record.slices.expect("slices");
    let wire = slices.iter().filter(|slice| slice.name == "wire").count();
    assert!(wire > 12, "each process sends to each other one");
    for one in &slices {
        let of_message = slices.iter().filter(|other| other.message == one.message);
        let times: Vec<_> = of_message.map(|slice| (slice.start, slice.end)).collect();
        assert!(times.is_sorted() && times.len() > 3, "{one:?}");
    }
}

#[test]
fn seeds_make_a_difference_where_there_is_chance() {
    let found = |seed: &str| {
        let text = CHANNELS.replace("seed = 7", seed);
        let scenario = scenario(&text).expect("it is right");
        scenario.steps()[0].run(Keep::Sums).expect("it runs").0
    };
    assert_ne!(found("seed = 7"), found("seed = 8"));
    assert_eq!(found("seed = 7"), found("seed = 7"));
}

/// `text` with one line replaced; the error must name the line and have these words.
pub(super) fn refused(text: &str, line: &str, by: &str, at: usize, words: &[&str]) {
    assert!(text.contains(line), "{line}");
    let error = scenario(&text.replacen(line, by, 1)).expect_err(by);
    assert_eq!(
        (error.line, error.file.as_str()),
        (at, "mine.toml"),
        "{error}"
    );
    for word in words {
        assert!(error.message.contains(word), "{word}: {error}");
    }
}

#[test]
fn what_is_wrong_is_refused_with_its_line_and_what_is_allowed() {
    refused(
        EXCHANGE,
        "\"via\"",
        "\"vja\"",
        1,
        &["vja", "munet", ".toml"],
    );
    refused(
        EXCHANGE,
        "\"via\"",
        "\"my.toml\"",
        1,
        &["my.toml", "no such file"],
    );
    refused(
        EXCHANGE,
        "Base+O",
        "Base+P",
        2,
        &["\"Base+O\"", "\"QoSVIA\""],
    );
    refused(EXCHANGE, "128 B", "128 ns", 3, &["a size", "KiB"]);
    refused(EXCHANGE, "128 B", "0 B", 3, &["from 1 to 65536"]);
    let many = format!("[{}]", "\"4 B\",\n".repeat(300));
    refused(
        EXCHANGE,
        "[\"128 B\", \"4 KiB\"]",
        &many,
        3 + 256,
        &["256 entries"],
    );
    refused(
        EXCHANGE,
        "[\"128 B\", \"4 KiB\"]",
        "[]",
        3,
        &["at least one"],
    );
    refused(
        EXCHANGE,
        "\"exchange\"",
        "\"swap\"",
        6,
        &["ping-pong", "channels"],
    );
    refused(EXCHANGE, "nodes = 4", "nodes = 0", 7, &["from 2 to 4096"]);
    refused(EXCHANGE, "nodes = 4", "nodes = 5", 7, &["even"]);
    refused(EXCHANGE, "active = 6", "active = 13", 8, &["from 1 to 12"]);
    refused(
        EXCHANGE,
        "active = 6",
        "activ = 6",
        8,
        &["activ", "active", "burst"],
    );
    refused(EXCHANGE, "rounds = 5", "rounds = 0", 9, &["from 1"]);
    refused(EXCHANGE, "rounds = 5\n", "", 5, &["rounds"]);
    let whole = "nodes = 512\nsimulate = \"all nodes\"";
    refused(EXCHANGE, "nodes = 4", whole, 7, &["interfaces", "65536"]);
    refused(
        EXCHANGE,
        "design",
        "seed = 4\ndesign",
        2,
        &["seed", "sizes"],
    );
    let shadow = "[settings]\npayload = \"2 KiB\"\n[workload]";
    refused(EXCHANGE, "[workload]", shadow, 6, &["1024"]);
    let tailgating = "[settings]\ntailgating = 1\n[workload]";
    refused(EXCHANGE, "[workload]", tailgating, 6, &["true or false"]);
    refused(CHANNELS, "\"1 ms\"", "\"1 MB\"", 9, &["a time"]);
    refused(CHANNELS, "\"10 ms\"", "\"0 ms\"", 10, &["1 ms"]);
    refused(CHANNELS, "count = 2", "count = 0", 14, &["from 1 to 256"]);
    refused(CHANNELS, "\"8 MB/s\"", "\"8 MB\"", 15, &["a rate"]);
    refused(CHANNELS, "\"8 MB/s\"", "\"0 MB/s\"", 15, &["1 kB/s"]);
    refused(
        CHANNELS,
        "streams = 20",
        "streams = 20\nsize = \"1 B\"",
        22,
        &["size"],
    );
    refused(FFT, "processes = 4", "processes = 0", 6, &["from 1"]);
    refused(FFT, "points = 1024", "points = 1000", 6, &["power of two"]);
    refused(FFT, "\"substrates\"", "\"via\"", 1, &["substrates"]);
    let scale = "points = 1024\nscale = 2";
    refused(FFT, "points = 1024", scale, 8, &["scale", "time"]);
    let time = "points = 1024\ntime = \"real\"";
    refused(FFT, "points = 1024", time, 8, &["\"model\" or \"native\""]);
    for scale in ["0", "\"2\"", "nan", "0x10", "1e9"] {
        let native = format!("points = 1024\ntime = \"native\"\nscale = {scale}");
        refused(FFT, "points = 1024", &native, 9, &["from 0.1 to 1000000"]);
    }
}

#[test]
fn a_replayed_program_computes_for_a_multiple_of_what_was_recorded() {
    let trace = |_: &str| Ok("0 send 1 8 100\n1 recv 0 8 0\n".to_owned());
    let text = "profile = \"substrates\"\n[workload]\nkind = \"program\"\nprogram = \"replay\"\nfile = \"a.trace\"\n\
                substrate = \"(C2,NI3)\"\nprocesses = 2\n";
    let ended = |more: &str| {
        let scenario = read(&format!("{text}{more}"), "mine.toml", &trace).expect("it is right");
        let (found, _) = scenario.steps()[0].run(Keep::Sums).expect("it runs");
        found[0].value
    };
    let slower = ended("scale = 4\n") - ended("");
    assert!((295.0..305.0).contains(&slower), "{slower} µs");
    for (wrong, word) in [
        ("scale = 0\n", "from 0.1"),
        ("time = \"native\"\n", "\"model\""),
    ] {
        let error = read(&format!("{text}{wrong}"), "mine.toml", &trace).expect_err(wrong);
        assert!(
            (error.line, error.message.contains(word)) == (8, true),
            "{error}"
        );
    }
}

#[test]
fn a_card_that_cannot_be_is_refused() {
    let text = EXCHANGE.replace("Base+O", "Base");
    let tailgating = "[settings]\ntailgating = true\n[workload]";
    refused(
        &text,
        "[workload]",
        tailgating,
        2,
        &["tailgating", "sequential"],
    );
}

#[test]
fn hardware_of_ones_own_is_read_as_strictly() {
    let (_, via) = crate::profile::SHIPPED[2];
    let text = EXCHANGE.replace("\"via\"", "\"mine/card.toml\"");
    let open = |path: &str| {
        assert_eq!(path, "mine/card.toml");
        Ok(via.to_owned())
    };
    assert!(read(&text, "mine.toml", &open).is_ok());
    let broken = |_: &str| Ok(via.replacen("[host]", "[hosts]", 1));
    let error = read(&text, "mine.toml", &broken).expect_err("it lacks a section");
    assert_eq!(error.file, "mine/card.toml");
}

#[test]
fn a_sweep_runs_each_value_of_a_key() {
    let text = EXCHANGE.replace("active = 6", "active = 3")
        + "[sweep]\nkey = \"workload.active\"\nvalues = [2, 6, 12]\n";
    let found = scenario(&text).expect("it is right");
    assert_eq!(found.swept.as_deref(), Some("workload.active"));
    let steps = found.steps();
    assert_eq!(steps.len(), 6, "two sizes each");
    assert_eq!(steps[2].value, Some("6"));
    let latency = |step: usize| steps[step].run(Keep::Sums).expect("it runs").0[0].value;
    assert!(latency(0) < latency(2) && latency(2) < latency(4));
    // Text, lists, truth values, and the profile's keys.
    for (key, values, count) in [
        ("design", "[\"Base\", \"Base+O\"]", 4),
        ("sizes", "[[\"1 KiB\"], [\"2 KiB\"]]", 2),
        ("profile.host_dma.rate", "[\"50 MB/s\", \"85 MB/s\"]", 4),
    ] {
        let text = format!("{EXCHANGE}[sweep]\nkey = \"{key}\"\nvalues = {values}\n");
        let found = scenario(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.steps().len(), count, "{key}");
    }
    let slow = format!(
        "{EXCHANGE}[sweep]\nkey = \"profile.host_dma.rate\"\nvalues = [\"20 MB/s\", \"85 MB/s\"]\n"
    );
    let found = scenario(&slow).expect("it is right");
    let steps = found.steps();
    let latency = |step: usize| steps[step].run(Keep::Sums).expect("it runs").0[0].value;
    assert!(latency(1) > latency(3), "4 KiB over a slower engine");
}

#[test]
fn a_sweep_sets_keys_that_were_left_out() {
    let sweep = |text: &str, key: &str, values: &str| {
        scenario(&format!(
            "{text}[sweep]\nkey = \"{key}\"\nvalues = {values}\n"
        ))
    };
    for (text, key, values) in [
        (EXCHANGE, "workload.burst", "[1, 2]"),
        (EXCHANGE, "name", "[\"a\", \"b\"]"),
        (CHANNELS, "workload.resolution", "[\"0 ns\", \"1 us\"]"),
        (CHANNELS, "workload.channel.2.count", "[1, 2]"),
        (CHANNELS, "replications", "[1, 1]"),
        (EXCHANGE, "settings.payload", "[\"8 B\", \"64 B\"]"),
        (EXCHANGE, "library.waits", "[\"poll\", \"block\"]"),
        (CHANNELS, "network.rate", "[\"20 MB/s\", \"160 MB/s\"]"),
    ] {
        let found = sweep(text, key, values).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.variants.len(), 2, "{key}");
    }
    let bursts = sweep(EXCHANGE, "workload.burst", "[1, 2]").expect("it is right");
    let steps = bursts.steps();
    assert_ne!(steps[0].parameters(), steps[2].parameters());
    // A table that is absent is added with the key, behind a last line without an end, too.
    let open =
        format!("{EXCHANGE}[sweep]\nvalues = [\"poll\", \"block\"]\nkey = \"library.waits\"");
    let waits = scenario(&open).unwrap_or_else(|error| panic!("{error}"));
    let latency = |step: usize| waits.steps()[step].run(Keep::Sums).expect("it runs").0[0].value;
    assert_ne!(latency(0), latency(2), "sleepers are woken by an interrupt");
    // Values that cannot be have the line of the sweep's key, and errors elsewhere their own.
    let error = sweep(EXCHANGE, "workload.burst", "[1, 65]").expect_err("it is wrong");
    assert_eq!(error.line, 11, "{error}");
    let wrong = EXCHANGE.replace("rounds = 5", "rounds = 0");
    let error = sweep(&wrong, "workload.burst", "[1]").expect_err("it is wrong");
    assert_eq!(error.line, 9, "{error}");
    let error = sweep(EXCHANGE, "settings.payload", "[\"8 MB\"]").expect_err("it is wrong");
    assert_eq!(error.line, 11, "{error}");
    let error = scenario(&open.replace("block", "sleep")).expect_err("it is wrong");
    assert_eq!(error.line, 12, "{error}");
    // There may be several tables of a list, and some keys are of other tables.
    for key in [
        "network.switch.0.latency",
        "network.switch.latency",
        "settings.waits",
    ] {
        let error = sweep(EXCHANGE, key, "[\"1 us\"]").expect_err(key);
        assert_eq!(error.line, 11, "{error}");
    }
    let inline = EXCHANGE.replace("[workload]", "settings = { payload = \"8 B\" }\n[workload]");
    let error = sweep(&inline, "settings.tailgating", "[true]").expect_err("not a header");
    assert!(error.message.contains("settings.tailgating"), "{error}");
}

#[test]
fn channels_are_taken_together_by_rate_and_size() {
    let other = "[[workload.channel]]\nkind = \"constant\"\ncount = 2\nrate = \"2 MB/s\"\nsize = \"1 KiB\"\n";
    let found = scenario(&format!("{CHANNELS}{other}")).expect("it is right");
    let (measures, _) = found.steps()[0].run(Keep::Statistics).expect("it runs");
    let received = |case: &str, size_bytes: u32| {
        let found = measures.iter().find(|one| {
            (one.case.as_str(), one.metric.as_str()) == (case, "received_mb_s")
                && one.size_bytes == size_bytes
        });
        found
            .unwrap_or_else(|| panic!("{case}: {measures:?}"))
            .value
    };
    let (fast, slow) = (
        received("qosvia/constant/all-8-mb-s", 4_096),
        received("qosvia/constant/all-2-mb-s", 1_024),
    );
    assert!((15.0..17.0).contains(&fast) && (3.5..4.5).contains(&slow));
    assert!((received("qosvia/constant/all", 0) - fast - slow).abs() < 1e-9);
    // Where all of a kind are alike there is one row.
    let found = scenario(CHANNELS).expect("it is right");
    let (measures, _) = found.steps()[0].run(Keep::Statistics).expect("it runs");
    assert!(!measures.iter().any(|one| one.case.contains("/all-")));
}

#[test]
fn the_programs_loop_and_best_effort_can_be_set() {
    let with = |settings: &str| {
        let text = CHANNELS.replace("seed = 7\n", &format!("seed = 7\n[settings]\n{settings}\n"));
        scenario(&text).map(|found| found.steps()[0].run(Keep::Statistics).expect("it runs").0)
    };
    let usual = with("").expect("it is right");
    assert_eq!(
        usual,
        with("best_effort_rate = \"0 B/s\"\nbest_effort_in_progress = 2\ndoorbells_last = false")
            .expect("these are the design's")
    );
    for other in [
        "best_effort_rate = \"5 MB/s\"",
        "best_effort_in_progress = 1",
        "doorbells_last = true",
    ] {
        assert_ne!(with(other).expect("it is right"), usual, "{other}");
    }
    let error = with("best_effort_in_progress = 0").expect_err("it is wrong");
    assert!(error.message.contains("from 1 to 4096"), "{error}");
}

#[test]
fn values_of_several_have_the_several() {
    let parts = |text: &str, case: &str| {
        let found = scenario(text).unwrap_or_else(|error| panic!("{error}"));
        let (measures, _) = found.steps()[0].run(Keep::Statistics).expect("it runs");
        let found = measures.iter().find(|one| one.case == case);
        let one = found.unwrap_or_else(|| panic!("{case}: {measures:?}"));
        match &one.of {
            Parts::One => panic!("{case} is one value"),
            Parts::Messages(times) => {
                let mean = times.mean() / crate::engine::MICROSECOND as f64;
                assert!((mean - one.value).abs() < 1e-6, "{case}");
                times.count()
            }
            Parts::Instances(values) => values.len() as u64,
        }
    };
    assert!(parts(EXCHANGE, "base+o/vis-12/wait") > 5 * 12);
    let pong = "profile = \"qos\"\ndesign = \"SVIA\"\nsizes = [\"4 KiB\"]\n[workload]\nkind = \"ping-pong\"\nrounds = 9\n";
    for case in ["svia/send/0", "svia/send/6", "svia/recv/0", "svia/recv/5"] {
        assert_eq!(parts(pong, case), 9, "{case}");
    }
    assert_eq!(parts(FFT, "(C2,NI3)/fft/am_poll"), 4);
}

#[test]
fn a_sweep_that_cannot_be_is_refused_with_the_line_of_its_key() {
    let sweep = |key: &str, values: &str| {
        let text = format!("{EXCHANGE}[sweep]\nkey = \"{key}\"\nvalues = {values}\n");
        scenario(&text).expect_err("it is wrong")
    };
    let line = |error: &FileError| error.line;
    let missing = sweep("workload.colour", "[1]");
    assert_eq!(line(&missing), 11, "{missing}");
    assert!(missing.message.contains("workload.colour"), "{missing}");
    assert_eq!(line(&sweep("workload", "[1]")), 11);
    assert_eq!(line(&sweep("sweep.key", "[1]")), 11);
    assert_eq!(line(&sweep("workload.active", "[]")), 12);
    let wrong = sweep("workload.active", "[1, 13]");
    assert_eq!(line(&wrong), 8, "{wrong}");
    assert!(
        wrong.message.contains("= 13") && wrong.message.contains("from 1 to 12"),
        "{wrong}"
    );
    let profile = sweep("profile.host_dma.colour", "[\"1 MB/s\"]");
    assert!(profile.message.contains("host_dma.colour"), "{profile}");
    assert_eq!(line(&profile), 1);
}

#[test]
fn replications_differ_in_their_seeds_and_tell_how_sure_a_mean_is() {
    let text = CHANNELS.replace("seed = 7", "seed = 7\nreplications = 4");
    let found = scenario(&text).expect("it is right");
    let steps = found.steps();
    let runs: Vec<Vec<Measure>> = steps
        .iter()
        .map(|step| step.run(Keep::Statistics).expect("it runs").0)
        .collect();
    let later = scenario(&CHANNELS.replace("seed = 7", "seed = 9")).expect("it is right");
    let third = later.steps()[0].run(Keep::Statistics).expect("it runs").0;
    assert_eq!(runs[2], third);
    let summaries = summarize(&runs);
    let best = summaries
        .iter()
        .find(|one| one.case == "qosvia/best-effort/3" && one.metric == "latency_us")
        .expect("it is measured");
    assert_eq!(best.runs, 4);
    let half = best.estimate.half_width.expect("of four runs");
    assert!(
        half > 0.0 && best.min < best.median && best.median < best.max,
        "{best:?}"
    );
    let percentiles = best.percentiles.expect("of messages");
    assert!(percentiles.is_sorted() && percentiles[0] == best.median);
    let all = summaries
        .iter()
        .find(|one| one.case == "qosvia/constant/all");
    let parts = summaries
        .iter()
        .filter(|one| one.case.starts_with("qosvia/constant/") && one.metric == "received_mb_s");
    let parts: Vec<f64> = parts.map(|one| one.estimate.mean).collect();
    assert_eq!(all.map(|one| one.estimate.mean), Some(parts[0] + parts[1]));
    refused(
        EXCHANGE,
        "rounds = 5",
        "rounds = 5\n[x]\nreplications = 2",
        10,
        &["x"],
    );
    refused(
        EXCHANGE,
        "design",
        "replications = 2\ndesign",
        2,
        &["replications", "sizes"],
    );
}
