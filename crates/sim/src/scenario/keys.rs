//! Every key that a scenario may have, from the list in `keys.txt`.

/// A key of a scenario's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The table that it is in; empty for the file itself.
    pub table: &'static str,
    /// The workloads or shapes that have the key; empty for all.
    pub of: &'static str,
    /// The key's name.
    pub name: &'static str,
    /// The allowed values.
    pub allowed: &'static str,
    /// The default; empty if the key must be present.
    pub default: &'static str,
}

/// All of them, table by table.
pub fn keys() -> impl Iterator<Item = Key> {
    let mut table = "";
    let lines = include_str!("keys.txt").lines();
    lines.filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_end_matches(']');
        }
        let mut columns = line.split('|').map(str::trim);
        let key = Key {
            table,
            name: columns.next()?,
            of: columns.next()?,
            allowed: columns.next()?,
            default: columns.next()?,
        };
        (!line.starts_with('#')).then_some(key)
    })
}

/// Whether a table may occur several times, so that it is written `[[table]]`.
pub fn is_list(table: &str) -> bool {
    let lists = keys().filter(|key| key.allowed.starts_with("tables"));
    table.rsplit_once('.').is_some_and(|(parent, name)| {
        lists
            .into_iter()
            .any(|key| (key.table, key.name) == (parent, name))
    })
}

#[cfg(test)]
mod tests {
    use super::{is_list, keys as all_keys};
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
    fn tables_of_which_there_may_be_several_are_known_as_such() {
        let tables: std::collections::BTreeSet<&str> = all_keys().map(|key| key.table).collect();
        let lists: Vec<&str> = tables.into_iter().filter(|table| is_list(table)).collect();
        // What the readers read as lists.
        let readers = [
            include_str!("channels.rs"),
            include_str!("jobs.rs"),
            include_str!("network.rs"),
            include_str!("traffic.rs"),
        ];
        let mut read = 0;
        for part in readers
            .iter()
            .flat_map(|text| text.split(".sections(\"").skip(1))
        {
            let (name, _) = part.split_once('"').unwrap_or_default();
            let ending = format!(".{name}");
            let named = lists.iter().filter(|list| list.ends_with(&ending));
            assert_eq!(named.count(), 1, "{name} in {lists:?}");
            read += 1;
        }
        assert_eq!(read, lists.len(), "{lists:?}");
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
                 {rest}\nzzz = 1\n"
            )
        };
        let native = |rest: &str| program(&format!("time = \"native\"\n{rest}"));
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
            native("processes = 2\nprogram = \"ping\"\niterations = 1"),
            native("processes = 4\nprogram = \"fft\"\npoints = 64"),
            native("processes = 4\nprogram = \"matmul\"\nrows = 4"),
            program("processes = 2\nprogram = \"replay\"\nfile = \"a.trace\""),
            native("processes = 4\nprogram = \"is\"\nkeys = 64\nbuckets = 8"),
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
        let jobs = |rest: &str| {
            format!(
                "profile = \"coscheduling\"\n{rest}[workload]\nkind = \"jobs\"\nstrategy = \"PB\"\n"
            )
        };
        let job = |of: &str| format!("[[workload.job]]\nprogram = {of}\nzzz = 1\n");
        texts.extend([
            format!("{}[[workload.job]]\nprogram = \"ep\"\n", jobs("zzz = 1\n")),
            format!("{}zzz = 1\n[[workload.job]]\nprogram = \"ep\"\n", jobs("")),
            jobs("") + &job("\"ep\""),
            jobs("") + &job("\"sequential\"\ncompute = \"1 s\""),
            jobs("") + &job("\"disk\"\ncompute = \"1 s\"\nsleep = \"1 s\"\niterations = 1"),
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
                let is_listed = all_keys().any(|key| key.table == table && key.name == name);
                assert!(is_listed, "[{table}] {name}");
                read.push((table.clone(), name));
            }
        }
        for key in all_keys() {
            let is_read = read.contains(&(key.table.to_owned(), key.name.to_owned()));
            assert!(is_read, "[{}] {}", key.table, key.name);
        }
    }
}
