//! Every key that a scenario may have.

/// A key of a scenario's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The table that it is in; empty for the file itself.
    pub table: &'static str,
    /// For which workloads or shapes; empty for all.
    pub of: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What may be written.
    pub allowed: &'static str,
    /// What holds if it is left out; empty if it must be there.
    pub default: &'static str,
}

const fn key(
    table: &'static str,
    of: &'static str,
    name: &'static str,
    allowed: &'static str,
    default: &'static str,
) -> Key {
    Key {
        table,
        of,
        name,
        allowed,
        default,
    }
}

const CARDS: &str = "all but program";
const SIZED: &str = "all but channels, program; traffic without [workload.sizes]";
const ROUNDS: &str = "all but channels, traffic, program";
const CHANCE: &str = "one-of-all, channels, traffic";
const INTERFACES: &str = "one-of-all, exchange";

/// All of them, table by table.
pub const KEYS: &[Key] = &[
    key("", "", "name", "text", "the file's name"),
    key(
        "",
        "",
        "profile",
        "a profile, or a file: \"mine.toml\"; program: \"substrates\", or a file",
        "",
    ),
    key(
        "",
        CARDS,
        "design",
        "Base, Base+O, Base+O+DMAQ, Door+O+DMAQ, Door+O+DMAQ+2CPU, SVIA, PVIA, QoSVIA",
        "",
    ),
    key(
        "",
        SIZED,
        "sizes",
        "list of up to 256 sizes, 1 B to 64 KiB: [\"128 B\", \"4 KiB\"]",
        "",
    ),
    key("", CHANCE, "seed", "whole number", "1"),
    key(
        "",
        CHANCE,
        "replications",
        "1 to 1000 runs, each with a seed of its own",
        "1",
    ),
    key(
        "sweep",
        "",
        "key",
        "a key of the file, \"workload.channel.0.rate\", or of the profile, \"profile.host_dma.rate\"",
        "",
    ),
    key("sweep", "", "values", "list of 1 to 256 values", ""),
    key(
        "settings",
        CARDS,
        "payload",
        "size, up to 1024 B",
        "the design's",
    ),
    key(
        "settings",
        CARDS,
        "shadow_queues",
        "true or false",
        "the design's",
    ),
    key(
        "settings",
        CARDS,
        "tailgating",
        "true or false",
        "the design's",
    ),
    key("settings", CARDS, "cut_through", "true or false", "false"),
    key(
        "settings",
        CARDS,
        "receive_cut_through",
        "true or false",
        "false",
    ),
    key(
        "settings",
        CARDS,
        "net_send_queue",
        "1 to 4096 entries",
        "the design's",
    ),
    key(
        "library",
        CARDS,
        "waits",
        "poll, block (sleep until the card interrupts)",
        "poll",
    ),
    key(
        "library",
        CARDS,
        "reliability",
        "unreliable, delivery, reception",
        "unreliable",
    ),
    key(
        "network",
        "",
        "topology",
        "star, tree, \"fat tree\", switches",
        "star; switches if some are named",
    ),
    key(
        "network",
        "",
        "rate",
        "rate of links, 100 kB/s to 1000 GB/s",
        "the profile's",
    ),
    key(
        "network",
        "",
        "latency",
        "time over a link, up to 1 s",
        "the profile's",
    ),
    key(
        "network",
        "",
        "switch_latency",
        "time through a switch, up to 1 s",
        "the profile's",
    ),
    key(
        "network",
        "",
        "buffer",
        "size of a switch's output buffer, 1 B to 1 GiB",
        "the profile's",
    ),
    key(
        "network",
        "",
        "when_full",
        "stop, credit (the same), drop",
        "the profile's",
    ),
    key(
        "network",
        "credit",
        "credit_time",
        "time until a credit counts, besides the link's latency",
        "0 ns",
    ),
    key("network", "", "source", "text, for readers", "none"),
    key(
        "network",
        "star",
        "ports",
        "1 to 4096 of the switch",
        "as many as nodes",
    ),
    key(
        "network",
        "tree, fat tree",
        "fan_out",
        "2 to 4096 nodes or switches below each switch",
        "",
    ),
    key(
        "network",
        "fat tree",
        "spines",
        "1 to 4096 switches above",
        "",
    ),
    key(
        "network",
        "fat tree",
        "routing",
        "destination, pair (each always one way), \"least busy\"",
        "destination",
    ),
    key(
        "network",
        "tree, fat tree",
        "uplink_rate",
        "rate of links between switches",
        "rate",
    ),
    key(
        "network",
        "tree, fat tree",
        "uplink_latency",
        "time over links between switches",
        "latency",
    ),
    key("network", "switches", "switch", "tables, see below", ""),
    key("network", "switches", "link", "tables, see below", "none"),
    key("network", "", "failure", "tables, see below", "none"),
    key(
        "network.failure",
        "",
        "node",
        "a node, whose link fails; or",
        "",
    ),
    key(
        "network.failure",
        "",
        "switch",
        "a switch: [\"left\"], [2]; or",
        "",
    ),
    key(
        "network.failure",
        "",
        "link",
        "two switches that are joined: [\"left\", \"right\"]",
        "",
    ),
    key("network.failure", "", "from", "time", ""),
    key("network.failure", "", "to", "time", ""),
    key(
        "network.switch",
        "switches",
        "name",
        "text, each its own",
        "",
    ),
    key(
        "network.switch",
        "switches",
        "nodes",
        "list of nodes on it: [0, \"2-5\"]",
        "those of links",
    ),
    key(
        "network.switch",
        "switches",
        "ports",
        "1 to 4096",
        "as many as are used",
    ),
    key(
        "network.switch",
        "switches",
        "latency",
        "time through it",
        "switch_latency",
    ),
    key(
        "network.switch",
        "switches",
        "buffer",
        "size",
        "the network's",
    ),
    key(
        "network.switch",
        "switches",
        "when_full",
        "stop, credit, drop",
        "the network's",
    ),
    key(
        "network.switch",
        "switches",
        "source",
        "text, for readers",
        "none",
    ),
    key(
        "network.link",
        "switches",
        "ends",
        "two switches, or a node and a switch: [\"node 3\", \"left\"]",
        "",
    ),
    key("network.link", "switches", "rate", "rate", "the network's"),
    key(
        "network.link",
        "switches",
        "latency",
        "time",
        "the network's",
    ),
    key(
        "network.link",
        "switches",
        "source",
        "text, for readers",
        "none",
    ),
    key("workload", "", "kind", "a workload", ""),
    key("workload", ROUNDS, "rounds", "1 to 100000", ""),
    key("workload", "ping-bulk", "window", "1 to 128 messages", ""),
    key("workload", INTERFACES, "nodes", "2 to 4096, even", ""),
    key(
        "workload",
        INTERFACES,
        "peers",
        "1 to all other nodes that a process has an interface to",
        "all",
    ),
    key(
        "workload",
        INTERFACES,
        "simulate",
        "\"one node\" (all are alike), \"all nodes\"",
        "one node",
    ),
    key(
        "workload",
        INTERFACES,
        "completion_queue",
        "true or false",
        "false",
    ),
    key(
        "workload",
        "exchange",
        "active",
        "1 to all interfaces of a node",
        "all",
    ),
    key("workload", "exchange", "burst", "1 to 64 messages", "1"),
    key(
        "workload",
        "exchange",
        "order",
        "of interfaces: ascending, descending, \"every second\", \"every eighth\", random",
        "ascending",
    ),
    key(
        "workload",
        "channels",
        "shape",
        "\"one to many\", \"many to one\", \"both ways\"",
        "",
    ),
    key(
        "workload",
        "channels",
        "others",
        "1 to 64 other nodes; not with \"both ways\"",
        "",
    ),
    key("workload", "channels", "warm_up", "time, up to 100 s", ""),
    key(
        "workload",
        "channels",
        "measured",
        "time, 1 ms to 100 s",
        "",
    ),
    key(
        "workload",
        "channels",
        "resolution",
        "time; shorter jitter is not late",
        "0 ns",
    ),
    key(
        "workload",
        "channels",
        "trace",
        "a file: bits of a picture on each line",
        "a model of MPEG-1",
    ),
    key(
        "workload",
        "channels",
        "admission",
        "true or false: only channels that admission control takes are run",
        "false",
    ),
    key("workload", "channels", "channel", "tables, see below", ""),
    key(
        "workload.channel",
        "channels",
        "kind",
        "constant, video, \"best effort\"",
        "",
    ),
    key(
        "workload.channel",
        "channels",
        "count",
        "1 to 256 channels like this",
        "1",
    ),
    key(
        "workload.channel",
        "channels",
        "rate",
        "rate, 1 kB/s to 1000 GB/s; of each stream of video",
        "",
    ),
    key(
        "workload.channel",
        "channels",
        "size",
        "size of a message, 1 B to 16 KiB; not with video",
        "",
    ),
    key(
        "workload.channel",
        "channels",
        "streams",
        "1 to 10000; with video only",
        "",
    ),
    key("workload", "traffic", "nodes", "2 to 4096", ""),
    key(
        "workload",
        "traffic",
        "pattern",
        "\"all to all\", uniform, neighbour, permutation, hotspot, zipf",
        "",
    ),
    key(
        "workload",
        "hotspot",
        "share",
        "0 to 1 of the messages that go to node 0",
        "",
    ),
    key(
        "workload",
        "zipf",
        "exponent",
        "0.25 to 4, a multiple of 0.25",
        "",
    ),
    key("workload", "traffic", "loop", "open, closed", ""),
    key("workload", "open", "rate", "rate of each node", ""),
    key(
        "workload",
        "open",
        "arrivals",
        "exponential, constant",
        "exponential",
    ),
    key(
        "workload",
        "closed",
        "outstanding",
        "1 to 64 requests of each node",
        "",
    ),
    key(
        "workload",
        "closed",
        "think",
        "time from a reply to the next request",
        "0 ns",
    ),
    key(
        "workload",
        "closed",
        "thinking",
        "exponential, constant",
        "constant",
    ),
    key(
        "workload",
        "closed",
        "reply",
        "size of a reply; not with RDMA",
        "64 B",
    ),
    key(
        "workload",
        "traffic",
        "operation",
        "send, \"rdma write\", \"rdma read\"",
        "send",
    ),
    key("workload", "traffic", "warm_up", "time, up to 100 s", ""),
    key("workload", "traffic", "measured", "time, 1 ms to 100 s", ""),
    key(
        "workload.sizes",
        "traffic",
        "distribution",
        "uniform, log-uniform, exponential, weighted",
        "",
    ),
    key("workload.sizes", "uniform, log-uniform", "from", "size", ""),
    key("workload.sizes", "uniform, log-uniform", "to", "size", ""),
    key("workload.sizes", "exponential", "mean", "size", ""),
    key(
        "workload.sizes",
        "weighted",
        "size",
        "tables, see below",
        "",
    ),
    key("workload.sizes.size", "weighted", "bytes", "size", ""),
    key(
        "workload.sizes.size",
        "weighted",
        "weight",
        "1 to 1000000",
        "",
    ),
    key(
        "workload",
        "program",
        "program",
        "ping, fft, matmul, is, replay",
        "",
    ),
    key(
        "workload",
        "program",
        "file",
        "a trace, beside the scenario; with replay only",
        "",
    ),
    key(
        "workload",
        "program",
        "substrate",
        "(C1,NI1), (C1,NI2), (C2,NI3), (C3,NI3)",
        "",
    ),
    key("workload", "program", "processes", "1 to 4096", ""),
    key(
        "workload",
        "program",
        "processes_per_host",
        "1 to processes",
        "1",
    ),
    key(
        "workload",
        "program",
        "time",
        "model, native (not reproducible)",
        "model",
    ),
    key(
        "workload",
        "program",
        "scale",
        "0.1 to 1000000 simulated times the native time; with native only",
        "1",
    ),
    key("workload", "ping", "iterations", "1 to 1000000", ""),
    key(
        "workload",
        "ping",
        "block",
        "4 to 65536 bytes; a request without data if left out",
        "none",
    ),
    key(
        "workload",
        "fft",
        "points",
        "4 to 4194304, a power of two",
        "",
    ),
    key("workload", "matmul", "rows", "1 to 4096", ""),
    key("workload", "is", "keys", "1 to 16777216", ""),
    key("workload", "is", "buckets", "1 to 1048576", ""),
];

#[cfg(test)]
mod tests {
    use super::KEYS;
    use crate::scenario::read;

    /// What the reader of a table says that it knows.
    fn known(text: &str) -> (String, Vec<String>) {
        let opened = |_: &str| Ok("0 send 1 8 0\n1 recv 0 8 0\n".to_owned());
        let error = read(text, "s.toml", &opened).expect_err(text);
        let (table, keys) = error
            .message
            .split_once(" knows no `zzz`; it knows ")
            .unwrap_or_else(|| panic!("{error}"));
        let table = table.trim_matches(['[', ']']).replace("the file", "");
        (table, keys.split(", ").map(str::to_owned).collect())
    }

    #[test]
    fn each_key_that_is_read_is_listed_and_the_other_way_round() {
        let cards = "profile = \"qos\"\ndesign = \"SVIA\"\n";
        let sized = format!("{cards}sizes = [\"4 B\"]\n");
        let network = "[network]\nswitch_latency = \"1 ns\"\n";
        let switches = "[[network.switch]]\nname = \"a\"\nnodes = [\"0-1\"]\n";
        let channels = "[workload]\nkind = \"channels\"\nshape = \"one to many\"\nothers = 1\nwarm_up = \"0 ms\"\n\
                        measured = \"1 ms\"\n";
        let constant =
            "[[workload.channel]]\nkind = \"constant\"\nrate = \"1 MB/s\"\nsize = \"1 B\"\n";
        let video = "[[workload.channel]]\nkind = \"video\"\nrate = \"1 MB/s\"\nstreams = 1\n";
        let program = |rest: &str| {
            format!(
                "profile = \"substrates\"\n[workload]\nkind = \"program\"\nsubstrate = \"(C2,NI3)\"\n\
                 time = \"native\"\n{rest}\nzzz = 1\n"
            )
        };
        let pong = "[workload]\nkind = \"ping-pong\"\nrounds = 1\n";
        let mut texts = vec![
            format!("{sized}zzz = 1\n{pong}"),
            format!("{cards}zzz = 1\n{channels}{constant}"),
            format!("{sized}[settings]\nzzz = 1\n{pong}"),
            format!("{sized}{network}zzz = 1\n{pong}"),
            format!("{sized}{network}topology = \"tree\"\nfan_out = 2\nzzz = 1\n{pong}"),
            format!("{sized}{network}zzz = 1\n{switches}{pong}"),
            format!("{sized}{switches}zzz = 1\n{pong}"),
            format!(
                "{sized}{switches}[[network.switch]]\nname = \"b\"\n[[network.link]]\nends = [\"a\", \"b\"]\nzzz = 1\n{pong}"
            ),
            format!("{sized}{pong}zzz = 1\n"),
            format!("{sized}{pong}[sweep]\nkey = \"design\"\nvalues = [\"SVIA\"]\nzzz = 1\n"),
            format!("{sized}{network}when_full = \"credit\"\nzzz = 1\n{pong}"),
            format!(
                "{sized}{network}topology = \"fat tree\"\nfan_out = 2\nspines = 2\nrouting = \"pair\"\nzzz = 1\n{pong}"
            ),
            format!(
                "{sized}[network]\ntopology = \"fat tree\"\nfan_out = 1\nspines = 2\n[[network.failure]]\n\
                 link = [0, 2]\nfrom = \"0 s\"\nto = \"1 s\"\nzzz = 1\n{pong}"
            ),
            format!("{sized}[workload]\nkind = \"ping-bulk\"\nrounds = 1\nwindow = 1\nzzz = 1\n"),
            format!("{cards}{channels}zzz = 1\n{constant}"),
            format!("{cards}{channels}{constant}zzz = 1\n"),
            format!("{cards}{channels}{video}zzz = 1\n"),
            program("processes = 2\nprogram = \"ping\"\niterations = 1"),
            program("processes = 4\nprogram = \"fft\"\npoints = 64"),
            program("processes = 4\nprogram = \"matmul\"\nrows = 4"),
            program("processes = 2\nprogram = \"replay\"\nfile = \"a.trace\""),
            program("processes = 4\nprogram = \"is\"\nkeys = 64\nbuckets = 8"),
        ];
        let traffic = |rest: &str| {
            format!(
                "{cards}[workload]\nkind = \"traffic\"\nnodes = 4\nwarm_up = \"0 s\"\nmeasured = \"1 ms\"\n{rest}\n"
            )
        };
        let open = "loop = \"open\"\nrate = \"1 MB/s\"";
        let closed = "loop = \"closed\"\noutstanding = 1";
        let sizes = |rest: &str| format!("pattern = \"uniform\"\n{open}\n[workload.sizes]\n{rest}");
        texts.extend([
            traffic(&format!("pattern = \"hotspot\"\nshare = 0.5\n{open}\nzzz = 1\n[workload.sizes]\ndistribution = \"exponential\"\nmean = \"1 B\"")),
            traffic(&format!("pattern = \"zipf\"\nexponent = 1\n{closed}\nzzz = 1\n[workload.sizes]\ndistribution = \"exponential\"\nmean = \"1 B\"")),
            traffic(&sizes("distribution = \"uniform\"\nfrom = \"1 B\"\nto = \"2 B\"\nzzz = 1")),
            traffic(&sizes("distribution = \"exponential\"\nmean = \"1 B\"\nzzz = 1")),
            traffic(&sizes("distribution = \"weighted\"\nzzz = 1\n[[workload.sizes.size]]\nbytes = \"1 B\"\nweight = 1")),
            traffic(&sizes("distribution = \"weighted\"\n[[workload.sizes.size]]\nbytes = \"1 B\"\nweight = 1\nzzz = 1")),
            format!("{sized}[library]\nzzz = 1\n{pong}"),
        ]);
        for kind in ["exchange", "one-of-all"] {
            texts.push(format!(
                "{sized}[workload]\nkind = \"{kind}\"\nnodes = 2\nrounds = 1\nzzz = 1\n"
            ));
        }
        let mut read = Vec::new();
        for text in &texts {
            let (table, keys) = known(text);
            // The file's tables have keys of their own.
            let tables = ["workload", "settings", "network", "sweep", "library"];
            let names = keys.into_iter();
            let is_table = |name: &str| match table.as_str() {
                "" => tables.contains(&name),
                "workload" => name == "sizes",
                _ => false,
            };
            for name in names.filter(|name| !is_table(name)) {
                let is_listed = KEYS
                    .iter()
                    .any(|key| key.table == table && key.name == name);
                assert!(is_listed, "[{table}] {name}");
                read.push((table.clone(), name));
            }
        }
        for key in KEYS {
            let is_read = read.contains(&(key.table.to_owned(), key.name.to_owned()));
            assert!(is_read, "[{}] {}", key.table, key.name);
        }
    }
}
