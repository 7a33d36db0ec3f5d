//! libfabric, by its own benchmark `fi_pingpong`. It has round trips only, one size a run.

use std::path::PathBuf;
use std::time::Duration;

use super::child::{Failed, Program};
use super::pair;
use super::peer::{Peer, Places, program_at};
use crate::compare::trial::{Figure, Pattern, Trial};

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
    fn size(&self, trial: &Trial, size: u64) -> Result<f64, Failed> {
        let port = pair::free_port()?;
        let provider = match trial.method.as_str() {
            "shm" => "shm",
            _ => "tcp;ofi_rxm",
        };
        let count = trial.effort.echoes(&trial.method, size).to_string();
        let (port_text, size) = (port.to_string(), size.to_string());
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
        trial.pattern == Pattern::Latency
    }

    fn run(&mut self, trial: &Trial, figures: &mut Vec<Figure>) -> Result<(), Failed> {
        for &size in &trial.sizes {
            let latency = self.size(trial, size).map_err(|failed| Failed {
                why: format!("{size} bytes: {}", failed.why),
                ..failed
            })?;
            let case = format!("latency/{}", trial.method);
            figures.extend(Figure::new(case, size, "latency_us", latency));
        }
        Ok(())
    }
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
    fn nonsense_has_no_figure() {
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
