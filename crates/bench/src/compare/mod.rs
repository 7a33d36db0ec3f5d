//! `causeway bench compare`: Causeway's messages beside those of the libraries that one can install.
//!
//! Every participant runs the same patterns ([`trial`]) on the same two processors: in each run, each
//! pattern is run by each participant once, so that a slow hour of the machine hits all alike.
//! [`ours`] is Causeway ([`multi_process`] are its processes where there are more than two), [`peers`] the others,
//! [`parts`] which of their figures may be compared, [`findings`] the figures, [`goals`] what was to be reached,
//! `page` the report.

pub(crate) mod findings;
pub(crate) mod goals;
pub(crate) mod multi_process;
mod ours;
mod page;
mod parts;
mod peers;
pub(crate) mod trial;

use std::collections::BTreeSet;
use std::path::PathBuf;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::progress::Progress;
use causeway_command::shutdown::{self, ScratchDirectory};
use causeway_report::units::parse_bytes;
use clap::Args;

use crate::distance::{Distances, Probe};
use crate::messages::effort::Effort;
use crate::outcome::{Benchmark, LIMIT, OURS, Presentation};
use findings::Findings;
use ours::Ours;
use parts::{Part, Parts};
use peers::child::Failed;
use peers::peer::{Peer, Places};
use trial::{Figure, Gap, Pattern, Trial};

/// Measure messages beside UCX, libfabric, Open MPI and MPICH
///
/// Runs the same patterns on the same two processors, one participant after another: latency, bandwidth and rate by
/// size, a
/// server that many clients ask, a token passed round more processes than processors, latency with
/// thousands of idle peers. Prints medians, and ratios within a run beside what is to be reached.
/// `make peers` installs the libraries; those that are missing are left out and named.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway bench compare
  causeway bench compare --quick --html compare.html
  causeway bench compare --who causeway,openmpi --patterns latency --methods shm --sizes 8,1KiB
  causeway bench compare --list
  causeway bench compare --json | jq '.goals[] | {goal, ratio, wanted, reached}'")]
pub(crate) struct Arguments {
    /// Participants, by the beginnings of their names: causeway, openmpi, mpich-5, ucx, libfabric
    #[arg(long = "who", value_name = "LIST", value_delimiter = ',')]
    participants: Vec<String>,
    /// Patterns to run
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values = ["latency", "bandwidth", "load", "ring", "idle"],
          value_parser = ["latency", "bandwidth", "load", "ring", "idle"])]
    patterns: Vec<String>,
    /// Methods to run them over
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["shm", "tcp"],
          value_parser = ["shm", "tcp"])]
    methods: Vec<String>,
    /// Sizes of messages
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes,
          default_values = ["0", "8", "64", "128", "256", "1KiB", "4KiB", "8KiB", "16KiB", "64KiB",
                            "256KiB", "1MiB", "4MiB"])]
    sizes: Vec<u64>,
    /// Numbers of clients that ask a server
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["64"],
          value_parser = clap::value_parser!(u32).range(1..=512))]
    clients: Vec<u32>,
    /// How often everything is run
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// One run with fewer repetitions: an impression, not a measurement
    #[arg(long)]
    quick: bool,
    /// List the participants and the patterns, and measure nothing
    #[arg(long)]
    list: bool,
    /// Where `make peers` has put its libraries
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    #[command(flatten)]
    presentation: Presentation,
}

/// All participants.
struct Participants {
    ours: Option<Ours>,
    peers: Vec<Box<dyn Peer>>,
    /// Participants and the trials that they could not run, which are not tried again in later runs.
    unable: BTreeSet<(String, String)>,
    our_failures: usize,
}

/// Runs the benchmark.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::on_signals()?;
    let processors = two_processors()?;
    if let Some(size) = arguments.sizes.iter().find(|size| **size > 64 << 20) {
        return Err(
            Failure::usage("reading --sizes", format!("{size} bytes are too many"))
                .hint("messages up to 64 MiB are compared"),
        );
    }
    let scratch = ScratchDirectory::new(&std::env::temp_dir(), "peers")?;
    let mut benchmark = Benchmark::new("compare", &arguments.presentation);
    let mut participants = gather(&arguments, &mut benchmark, &scratch)?;
    let trials = trials(&arguments, processors);
    if arguments.list {
        return list(&benchmark, &participants);
    }
    explain(&mut benchmark, processors);
    warn(&mut benchmark, arguments.quick);
    let runs = if arguments.quick { 1 } else { arguments.runs };
    let (findings, gaps) = measure(&mut benchmark, &mut participants, &trials, runs)?;
    benchmark.rows = findings.rows();
    benchmark.gaps = gaps;
    let clients: Vec<usize> = arguments.clients.iter().map(|&one| one as usize).collect();
    benchmark.verdicts = goals::verdicts(&findings, &clients);
    show(&benchmark, &participants);
    benchmark.publish(page::draw)?;
    if participants.our_failures > 0 {
        return Err(Failure::new(
            "measuring Causeway",
            format!(
                "{} trials failed; the notes say why",
                participants.our_failures
            ),
        ));
    }
    Ok(())
}

fn two_processors() -> Outcome<[usize; 2]> {
    let doing = || "finding the processors".to_owned();
    let allowed = causeway_sys::pin::allowed_cpus().doing(doing)?;
    match allowed.as_slice() {
        [one, other, ..] => Ok([*one, *other]),
        _ => Err(Failure::new(doing(), "there is only one")
            .hint("message layers that spin can only be compared on two processors")),
    }
}

fn gather(
    arguments: &Arguments,
    benchmark: &mut Benchmark,
    scratch: &ScratchDirectory,
) -> Outcome<Participants> {
    let takes_part = |name: &str| {
        arguments.participants.is_empty()
            || arguments
                .participants
                .iter()
                .any(|wanted| name.starts_with(wanted.as_str()))
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = Places {
        peers: match &arguments.peers {
            // Programs are started from other directories.
            Some(peers) => std::fs::canonicalize(peers)
                .doing(|| format!("looking for libraries in {}", peers.display()))?,
            None => beside_the_program().unwrap_or_default(),
        },
        path: std::env::split_paths(&path).collect(),
        scratch: scratch.path().to_owned(),
    };
    let only_us = arguments
        .participants
        .iter()
        .all(|wanted| OURS.starts_with(wanted.as_str()));
    let (found, missing) = match only_us && !arguments.participants.is_empty() {
        true => Default::default(),
        false => peers::find(&places),
    };
    for line in missing {
        benchmark.note(line);
    }
    let peers: Vec<_> = found
        .into_iter()
        .filter(|peer| takes_part(peer.name()))
        .collect();
    let known = |wanted: &String| {
        OURS.starts_with(wanted.as_str())
            || peers
                .iter()
                .any(|peer| peer.name().starts_with(wanted.as_str()))
    };
    if let Some(unknown) = arguments.participants.iter().find(|wanted| !known(wanted)) {
        return Err(Failure::usage(
            "reading --who",
            format!("no participant's name begins with {unknown:?}"),
        )
        .hint(format!(
            "`causeway bench compare --list` lists the participants found; `{}` installs the others",
            peers::INSTALL
        )));
    }
    Ok(Participants {
        ours: takes_part(OURS).then(Ours::new).transpose()?,
        peers,
        unable: BTreeSet::new(),
        our_failures: 0,
    })
}

/// `target/peers` for a program in `target/release`.
fn beside_the_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let directory = program.parent()?.parent()?.join("peers");
    directory.is_dir().then_some(directory)
}

fn trials(arguments: &Arguments, processors: [usize; 2]) -> Vec<Trial> {
    let mut trials = Vec::new();
    let chosen = |pattern: &Pattern| arguments.patterns.iter().any(|name| name == pattern.name());
    for pattern in Pattern::ALL.into_iter().filter(chosen) {
        for method in &arguments.methods {
            let clients: &[u32] = match pattern {
                Pattern::Load => &arguments.clients,
                _ => &[0],
            };
            trials.extend(clients.iter().map(|&clients| Trial {
                pattern,
                method: method.clone(),
                sizes: arguments.sizes.clone(),
                clients: clients as usize,
                effort: Effort {
                    quick: arguments.quick,
                },
                processors,
            }));
        }
    }
    trials
}

fn list(benchmark: &Benchmark, participants: &Participants) -> Outcome {
    benchmark.output.line("participants:");
    let names = participants.names();
    for name in &names {
        benchmark.output.line(&format!("  {name}"));
    }
    benchmark.output.line("patterns:");
    for pattern in Pattern::ALL {
        benchmark
            .output
            .line(&format!("  {:10} {}", pattern.name(), pattern.summary()));
    }
    let patterns = Pattern::ALL.map(Pattern::name);
    benchmark.output.object(&serde_json::json!({
        "bench": benchmark.name, "participants": names, "patterns": patterns,
        "notes": benchmark.notes }));
    Ok(())
}

fn explain(benchmark: &mut Benchmark, [one, other]: [usize; 2]) {
    benchmark.note(format!(
        "two processes are bound to processors {one} and {other}; a server to {one} and its clients to \
         {other}; rings of more than two to both"
    ));
    benchmark.note(
        "in each run, each pattern is run by each participant once; ratios are taken within a run, and \
         their medians are shown. Figures are compared only with others that were measured while the two processors \
         were as far apart"
            .to_owned(),
    );
    benchmark.note(
        "repetitions and warm-up are the same for all. Windows are the same for Causeway and the MPIs, \
         which acknowledge each; UCX's ucx_perftest has its own way to limit what is outstanding, and \
         libfabric's fi_pingpong has no windows. Latency and bandwidth of Causeway and the MPIs are those \
         of the median of up to 40 parts of a run, UCX's latency is its median, libfabric's and UCX's \
         other figures are averages"
            .to_owned(),
    );
}

/// What makes ratios unreliable.
fn warn(benchmark: &mut Benchmark, quick: bool) {
    let load: f64 = benchmark.machine.load.parse().unwrap_or(0.0);
    if load > 1.0 {
        benchmark.note(format!(
            "other processes used the processors when this began (load {load}): ratios, and goals that \
             seem reached or missed, may be theirs; measure again on a quiet machine"
        ));
    }
    if quick {
        benchmark.note("one quick run: an impression, not a measurement".to_owned());
    }
}

/// Runs everything `runs` times; then, at most as often, what has too few parts at the distance of the processors at
/// which it is compared.
fn measure(
    benchmark: &mut Benchmark,
    participants: &mut Participants,
    trials: &[Trial],
    runs: u32,
) -> Outcome<(Findings, Vec<Gap>)> {
    let mut parts = Parts::default();
    let mut gaps = Vec::new();
    let mut probe = Probe::start()?;
    let names = participants.names();
    let all: Vec<(usize, String)> = (0..trials.len())
        .flat_map(|trial| names.iter().map(move |name| (trial, name.clone())))
        .collect();
    let enough = runs as usize / 2 + 1;
    let steps = all.len() as u64 * u64::from(runs);
    let mut progress = Progress::steps(&benchmark.output, "comparing", steps);
    for round in 0..2 * runs {
        let due = match round < runs {
            true => all.clone(),
            false => parts.missing(trials.len(), enough),
        };
        if due.is_empty() {
            break;
        }
        if round >= runs {
            let steps = due.len() as u64;
            progress = Progress::steps(&benchmark.output, "measuring again", steps);
        }
        for (number, participant) in due {
            let trial = &trials[number];
            progress.step(&format!("{participant}: {}", trial.name()));
            let mut figures = Vec::new();
            let before = probe.measure()?;
            if let Err(Failed { why, timed_out }) =
                participants.run_trial(&participant, trial, &mut figures)
            {
                progress.say(|| benchmark.note(format!("{participant}, {}: {why}", trial.name())));
                gaps.push(Gap {
                    participant: participant.clone(),
                    trial: trial.clone(),
                    how: if timed_out { "timed out" } else { "failed" },
                    why,
                });
            }
            let after = probe.measure()?;
            parts.add(Part {
                trial: number,
                participant,
                distances: Distances { before, after },
                figures,
            });
        }
    }
    for note in parts.notes(trials) {
        benchmark.note(note);
    }
    Ok((parts.findings(trials.len()), gaps))
}

impl Participants {
    /// The names of all, in the order in which they run. The limits of the machine are measured next to Causeway.
    fn names(&self) -> Vec<String> {
        let ours = self
            .ours
            .iter()
            .flat_map(|_| [OURS.to_owned(), LIMIT.to_owned()]);
        ours.chain(self.peers.iter().map(|peer| peer.name().to_owned()))
            .collect()
    }

    /// Runs a trial with one participant, and adds its figures. Fails if it did not come to the end; figures up to
    /// there are added.
    fn run_trial(
        &mut self,
        participant: &str,
        trial: &Trial,
        figures: &mut Vec<Figure>,
    ) -> Result<(), Failed> {
        let key = (participant.to_owned(), trial.name());
        if self.unable.contains(&key) {
            return Ok(());
        }
        let ours =
            |found: Outcome<Vec<Figure>>| found.map_err(|failure| failure.to_string().into());
        let done = match (participant, &mut self.ours) {
            (OURS, Some(us)) => ours(us.run(trial)).map(|found| figures.extend(found)),
            (LIMIT, Some(us)) => ours(us.limits(trial)).map(|found| figures.extend(found)),
            _ => match self
                .peers
                .iter_mut()
                .find(|peer| peer.name() == participant)
            {
                Some(peer) if peer.can(trial) => peer.run(trial, figures),
                _ => Ok(()),
            },
        };
        if done.is_err() {
            self.our_failures += usize::from(participant == OURS);
            self.unable.insert(key);
        }
        done
    }
}

/// Prints the medians and the verdicts.
fn show(benchmark: &Benchmark, participants: &Participants) {
    let medians = findings::medians(&benchmark.rows, &participants.names(), &benchmark.gaps);
    benchmark.output.line("");
    benchmark.output.line(&medians.text());
    if !benchmark.verdicts.is_empty() {
        benchmark.output.line("");
        benchmark
            .output
            .line(&goals::table(&benchmark.verdicts).text());
    }
}
