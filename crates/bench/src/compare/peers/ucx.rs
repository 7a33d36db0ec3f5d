//! UCX, by its own benchmark `ucx_perftest`: a server and a client that read the same list of tests.

use std::path::PathBuf;
use std::time::Duration;

use super::child::{Failed, Program};
use super::pair;
use super::peer::{Peer, Places};
use crate::compare::trial::{Pattern, Trial};
use crate::messages::effort::window;
use crate::parts::figure::Figure;

/// How long a list of tests may take, and more for each size.
const LIST: Duration = Duration::from_secs(30);
const SIZE: Duration = Duration::from_secs(1);

struct Ucx {
    name: String,
    perftest: PathBuf,
    scratch: PathBuf,
}

/// UCX, if its benchmark is installed.
pub(super) fn find(places: &Places) -> Vec<Result<Box<dyn Peer>, String>> {
    let Some(perftest) = places.program(&["ucx_perftest"]) else {
        return Vec::new();
    };
    vec![Ok(Box::new(Ucx {
        name: format!("ucx-{}", places.version("ucx_info", "-v")),
        perftest,
        scratch: places.scratch.clone(),
    }))]
}

/// The suffix, after the size, in the name of a test whose percentile is the 99th.
const P99: &str = "p99";

/// The tests, one per line: a name that contains the size, and the arguments.
fn list(trial: &Trial) -> String {
    let effort = trial.effort;
    let line = |kind: &str, size: u64, count: u64, warm_up: u64| {
        format!("{size} -t {kind} -s {size} -n {count} -w {warm_up}\n")
    };
    match trial.pattern {
        Pattern::Latency => trial
            .sizes
            .iter()
            .flat_map(|&size| {
                let samples = effort.samples(&trial.method, size);
                [
                    line("tag_lat", size, effort.echoes(&trial.method, size), 50),
                    format!("{size}{P99} -t tag_lat -s {size} -n {samples} -w 50 -R 99\n"),
                ]
            })
            .collect(),
        Pattern::Bandwidth => trial
            .stream_sizes()
            .map(|size| {
                let window = window(size) as u64;
                line("tag_bw", size, effort.windows(size) * window, 2 * window)
            })
            .collect(),
        _ => String::new(),
    }
}

/// The figures in the client's lines: name, iterations, percentile, average and overall latency, two bandwidths, two
/// rates.
fn parse(said: &str, trial: &Trial) -> Vec<Figure> {
    let method = &trial.method;
    let lines = said.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let name = fields.first()?;
        let size: u64 = name.strip_suffix(P99).unwrap_or(name).parse().ok()?;
        let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
        (fields.len() == 9).then_some(())?;
        match trial.pattern {
            Pattern::Latency => {
                let which = if name.ends_with(P99) { "/p99" } else { "" };
                let case = format!("latency/{method}{which}");
                Some(vec![Figure::latency(case, size, number(2)?)?])
            }
            _ => {
                let case = format!("bandwidth/{method}");
                Some(Figure::of_stream(&case, method, size, number(8)?))
            }
        }
    });
    lines.flatten().collect()
}

impl Peer for Ucx {
    fn name(&self) -> &str {
        &self.name
    }

    fn can(&self, trial: &Trial) -> bool {
        !list(trial).is_empty()
    }

    fn run(&mut self, trial: &Trial, figures: &mut Vec<Figure>) -> Result<(), Failed> {
        let tests = self.scratch.join("ucx-tests.txt");
        std::fs::write(&tests, list(trial))
            .map_err(|error| format!("{} cannot be written: {error}", tests.display()))?;
        let port = pair::free_port()?;
        let (transports, devices) = match trial.method.as_str() {
            "shm" => ("posix,self,cma", "all"),
            _ => ("tcp,self", "lo"),
        };
        let (port_text, tests) = (port.to_string(), tests.display().to_string());
        let end = |processor: usize, server: &[&str]| {
            let processor = processor.to_string();
            let mut words = server.to_vec();
            words.extend(["-c", &processor, "-p", &port_text, "-b", &tests, "-f", "-v"]);
            Program::new(&self.perftest, &words)
                .with("UCX_TLS", transports)
                .with("UCX_NET_DEVICES", devices)
        };
        let [one, other] = trial.processors;
        let within = LIST + SIZE * u32::try_from(trial.sizes.len()).unwrap_or(u32::MAX);
        let said = pair::run(&end(other, &[]), &end(one, &["127.0.0.1"]), port, within)?;
        figures.extend(parse(&said, trial));
        match figures.is_empty() {
            true => Err("ucx_perftest printed no figures".to_owned().into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::effort::Effort;

    fn trial(pattern: Pattern) -> Trial {
        Trial {
            pattern,
            method: "tcp".to_owned(),
            sizes: vec![0, 8, 1 << 20],
            clients: 2,
            effort: Effort { quick: false },
            processors: [0, 1],
        }
    }

    #[test]
    fn lines_of_the_benchmark_become_figures() {
        let said = "b.txt,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n\
                    8,20000,0.324,0.581,79.607,13.13,0.10,1720955,12562\n\
                    0,20000,0.315,0.331,50.272,0.00,0.00,3017068,19892\n\
                    8p99,20000,0.924,0.581,79.607,13.13,0.10,1720955,12562\n\
                    1048576, 200,47.629,1571.649,1571.649,636.27,636.27,636,636\n";
        let latencies = parse(said, &trial(Pattern::Latency));
        let found = |case: &str| -> Vec<(u64, f64)> {
            let of_case = latencies.iter().filter(|one| one.case == case);
            of_case.map(|one| (one.size, one.value)).collect()
        };
        assert_eq!(
            found("latency/tcp"),
            [(8, 0.324), (0, 0.315), (1 << 20, 47.629)]
        );
        assert_eq!(found("latency/tcp/p99"), [(8, 0.924)]);
        let streams = parse(said, &trial(Pattern::Bandwidth));
        let megabyte = streams.iter().find(|one| one.size == 1 << 20).unwrap();
        assert_eq!(megabyte.case, "bandwidth/tcp");
        assert!((megabyte.value - 666.9).abs() < 0.1, "{}", megabyte.value);
        let rate = streams
            .iter()
            .find(|one| one.case == "rate/tcp" && one.size == 8);
        assert_eq!(rate.unwrap().value, 12562.0);
    }

    #[test]
    fn output_of_another_form_has_no_figures() {
        for said in [
            "",
            "8",
            "8,,,,,,,,",
            "a,b,c,d,e,f,g,h,i",
            "8,1,inf,1,1,1,1,1,1",
            "8,1,2",
        ] {
            assert!(parse(said, &trial(Pattern::Latency)).is_empty(), "{said}");
        }
    }

    #[test]
    fn the_list_has_lines_for_each_size_and_none_for_other_patterns() {
        // The second one is for the 99th percentile.
        assert_eq!(list(&trial(Pattern::Latency)).lines().count(), 6);
        assert_eq!(list(&trial(Pattern::Bandwidth)).lines().count(), 2);
        assert_eq!(list(&trial(Pattern::Ring)), "");
    }
}
