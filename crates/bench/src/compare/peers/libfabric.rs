//! libfabric, by its own benchmark `fi_pingpong`. It has round trips only, one size a run.

use std::path::PathBuf;
use std::time::Duration;

use super::child::{Failed, Program};
use super::pair;
use super::peer::{Peer, Places, program_at};
use crate::compare::trial::{Pattern, Trial};
use crate::parts::figure::Figure;

/// How long a size may take.
const SIZE: Duration = Duration::from_secs(15);

struct Libfabric {
    name: String,
    pingpong: PathBuf,
    taskset: PathBuf,
}

/// libfabric, if its benchmark is installed.
pub(super) fn find(places: &Places) -> Vec<Result<Box<dyn Peer>, String>> {
    let Some(pingpong) = places.program(&["fi_pingpong"]) else {
        return Vec::new();
    };
    let Some(taskset) = places
        .program(&["taskset"])
        .or_else(|| program_at("/usr/bin/taskset".as_ref()))
    else {
        return vec![Err(
            "fi_pingpong has to be bound to a processor by taskset, which is missing (util-linux)"
                .to_owned(),
        )];
    };
    vec![Ok(Box::new(Libfabric {
        name: format!("libfabric-{}", places.version("fi_info", "--version")),
        pingpong,
        taskset,
    }))]
}

/// Microseconds one way, from the line of the one size: `64 2k =2k 250k 0.02s 3.54 18.08 0.06`.
fn parse(said: &str) -> Option<f64> {
    said.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, acknowledged, _, seconds, _, microseconds, _] = fields.as_slice() else {
            return None;
        };
        let fits = acknowledged.starts_with('=') && seconds.ends_with('s');
        fits.then(|| microseconds.parse().ok()).flatten()
    })
}

impl Libfabric {
    /// Microseconds one way, on average over this many round trips.
    fn size(&self, trial: &Trial, size: u64, count: u64) -> Result<f64, Failed> {
        let port = pair::free_port()?;
        let provider = match trial.method.as_str() {
            "shm" => "shm",
            _ => "tcp;ofi_rxm",
        };
        let (port_text, size, count) = (port.to_string(), size.to_string(), count.to_string());
        let end = |processor: usize, place: &[&str]| {
            let (processor, pingpong) =
                (processor.to_string(), self.pingpong.display().to_string());
            let mut words = vec!["-c", &processor, &pingpong, "-e", "rdm", "-m", "tagged"];
            words.extend(["-p", provider, "-I", &count, "-S", &size]);
            words.extend(place);
            Program::new(&self.taskset, &words).with("FI_TCP_IFACE", "lo")
        };
        let [one, other] = trial.processors;
        let said = pair::run(
            &end(other, &["-B", &port_text]),
            &end(one, &["-P", &port_text, "127.0.0.1"]),
            port,
            SIZE,
        )?;
        parse(&said).ok_or_else(|| "fi_pingpong printed no figure".to_owned().into())
    }
}

impl Peer for Libfabric {
    fn name(&self) -> &str {
        &self.name
    }

    fn can(&self, trial: &Trial) -> bool {
        matches!(trial.pattern, Pattern::Latency | Pattern::Contention)
    }

    fn run(&mut self, trial: &Trial, figures: &mut Vec<Figure>) -> Result<(), Failed> {
        let method = &trial.method;
        if trial.pattern == Pattern::Contention {
            let mean = self.size(trial, 8, contended_rounds(trial))?;
            figures.extend(Figure::latency(
                format!("contention/{method}/mean"),
                8,
                mean,
            ));
            return Ok(());
        }
        for &size in &trial.sizes {
            let echoes = trial.effort.echoes(method, size);
            let latency = self.size(trial, size, echoes).map_err(|failed| Failed {
                why: format!("{size} bytes: {}", failed.why),
                ..failed
            })?;
            figures.extend(Figure::latency(format!("latency/{method}"), size, latency));
        }
        Ok(())
    }
}

/// The number of round trips that take about as long, beside processes that compute, as the
/// measurements of other participants, which are limited by time.
fn contended_rounds(trial: &Trial) -> u64 {
    let in_a_millisecond = if trial.method == "shm" { 300 } else { 20 };
    trial.milliseconds() * in_a_millisecond
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_size_is_found() {
        let said = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                    1m      200     =200     400m        0.45s    941.02    1114.30       0.00\n";
        assert_eq!(parse(said), Some(1114.30));
        let nothing =
            "0       200     =200     0           0.01s      0.00      30.65       0.03\n";
        assert_eq!(parse(nothing), Some(30.65));
    }

    #[test]
    fn output_of_another_form_has_no_figure() {
        for said in [
            "",
            "[error] util/pingpong.c:408 : failed to connect",
            "1 2 3 4 5 6 7 8",
            "a b =c d es f g h",
        ] {
            assert_eq!(parse(said), None, "{said}");
        }
    }
}
