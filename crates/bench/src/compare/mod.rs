//! `causeway bench compare`: Causeway's messages in comparison with those of libraries that can be
//! installed.
//!
//! Every participant runs the same patterns ([`trial`]) on the same two processors: in each run,
//! each pattern is run by each participant once, so that a slow hour of the machine affects all
//! alike. [`ours`] is Causeway ([`multi_process`] implements its processes in patterns of more than
//! two), [`peers`] the others, `competitors` the processes that compute beside them.
//! [`crate::parts`] decides which of their figures may be compared, [`goals`] are the ratios to be
//! reached, `steps` compares neighbouring sizes, `table` and `page` are the report.

mod competitors;
pub(crate) mod goals;
pub(crate) mod multi_process;
mod ours;
mod page;
pub(crate) mod peers;
mod steps;
pub(crate) mod table;
pub(crate) mod trial;

use std::collections::BTreeSet;
use std::path::PathBuf;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::shutdown::{self, ScratchDirectory};
use clap::Args;

use crate::distance::{Distances, Probe};
use crate::messages::effort::Effort;
use crate::outcome::{Benchmark, Presentation};
use crate::participants::{LIMIT, OURS};
use crate::parts::figure::Figure;
use crate::parts::findings::Findings;
use crate::parts::repeats::{self, Plan};
use crate::sizes::{self, Sizes};
use competitors::Competitors;
use ours::Ours;
use peers::child::Failed;
use peers::peer::{Peer, Places};
use trial::{Gap, Pattern, Trial};

/// The largest message that is compared.
const MOST_BYTES: u64 = 64 << 20;

/// Measure messages beside UCX, libfabric, Open MPI and MPICH
///
/// Runs the same patterns on the same two processors, one participant after another: latency, bandwidth and rate by
/// size, a server that many clients ask, a token passed round more processes than processors, latency with
/// thousands of idle peers, after a pause, to a receiver that computes, beside processes that compute. Prints
/// medians, and ratios within a run beside what is to be reached. How far apart the two processors are is measured
/// before and after each part; parts are compared only with others at the same distance (near or far), and what then
/// lacks parts is measured again. `make peers` installs the libraries; those that are missing are left out and named.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway bench compare
  causeway bench compare --quick --html compare.html
  causeway bench compare --who causeway,openmpi --patterns latency --methods shm --sizes 8,1KiB
  causeway bench compare --seed 7
  causeway bench compare --list
  causeway bench compare --json | jq '.goals[] | {goal, ratio, wanted, reached}'")]
pub(crate) struct Arguments {
    /// Participants, by the beginnings of their names: causeway, openmpi, mpich-5, ucx, libfabric
    #[arg(long = "who", value_name = "LIST", value_delimiter = ',')]
    participants: Vec<String>,
    /// Patterns to run
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values = Pattern::ALL.map(Pattern::name),
          value_parser = Pattern::ALL.map(Pattern::name))]
    patterns: Vec<String>,
    /// Methods to run them over
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["shm", "tcp"],
          value_parser = ["shm", "tcp"])]
    methods: Vec<String>,
    #[command(flatten)]
    sizes: sizes::Choice,
    /// Numbers of clients that send requests to a server
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
    let sizes = arguments.sizes.choose(MOST_BYTES)?;
    let scratch = ScratchDirectory::new(&std::env::temp_dir(), "peers")?;
    let mut benchmark = Benchmark::new("compare", &arguments.presentation);
    let mut participants = gather(&arguments, &mut benchmark, &scratch)?;
    let trials = trials(&arguments, &sizes, processors);
    if arguments.list {
        return list(&benchmark, &participants);
    }
    benchmark.sizes(sizes);
    explain(&mut benchmark, processors);
    benchmark.warn(arguments.quick);
    let runs = if arguments.quick { 1 } else { arguments.runs };
    let findings = measure(&mut benchmark, &mut participants, &trials, runs)?;
    let clients: Vec<usize> = arguments.clients.iter().map(|&one| one as usize).collect();
    benchmark.verdicts = goals::verdicts(&findings, &clients);
    for note in goals::steps_of_peers(&findings) {
        benchmark.note(note);
    }
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

/// The first two processors that this process may use.
pub(crate) fn two_processors() -> Outcome<[usize; 2]> {
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
pub(crate) fn beside_the_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let directory = program.parent()?.parent()?.join("peers");
    directory.is_dir().then_some(directory)
}

fn trials(arguments: &Arguments, sizes: &Sizes, processors: [usize; 2]) -> Vec<Trial> {
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
                sizes: sizes.bytes.clone(),
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
         were as far apart: a participant's first ones there with the first ones of the other, and so on"
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
    benchmark.note(
        "99th percentiles and the patterns pause, computing and contention are of half round trips whose times \
         are taken one by one; what a side does before it replies is subtracted. UCX's 99th percentile is of its last \
         some thousand messages; ucx_perftest and fi_pingpong cannot pause or compute in between"
            .to_owned(),
    );
}

/// Runs everything `runs` times, and repeats trials that then lack figures to be compared with.
fn measure(
    benchmark: &mut Benchmark,
    participants: &mut Participants,
    trials: &[Trial],
    runs: u32,
) -> Outcome<Findings> {
    let mut gaps = Vec::new();
    let mut probe = Probe::new();
    let plan = Plan {
        trials: trials.iter().map(Trial::name).collect(),
        participants: participants.names(),
        runs,
    };
    let output = benchmark.output;
    let parts = repeats::run(plan, &output, |progress, number, participant| {
        let Some(trial) = trials
            .get(number)
            .filter(|trial| participants.can(participant, trial))
        else {
            return Ok((Distances::UNKNOWN, Vec::new()));
        };
        let mut figures = Vec::new();
        let (distances, done) =
            probe.around(|| participants.run_trial(participant, trial, &mut figures));
        if let Err(Failed { why, timed_out }) = done {
            progress
                .print_above(|| benchmark.note(format!("{participant}, {}: {why}", trial.name())));
            gaps.push(Gap {
                participant: participant.to_owned(),
                trial: trial.clone(),
                how: if timed_out { "timed out" } else { "failed" },
                why,
            });
        }
        Ok((distances, figures))
    })?;
    benchmark.gaps = gaps;
    benchmark.parts(&parts, probe.why());
    let findings = parts.findings();
    benchmark.rows = findings.rows();
    Ok(findings)
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

    /// Whether a participant has a pattern, and has not failed at it before.
    fn can(&self, participant: &str, trial: &Trial) -> bool {
        let has = match participant {
            OURS => true,
            LIMIT => Ours::can_limit(trial),
            _ => {
                let mut peers = self.peers.iter();
                peers.any(|peer| peer.name() == participant && peer.can(trial))
            }
        };
        has && !self
            .unable
            .contains(&(participant.to_owned(), trial.name()))
    }

    /// Runs a trial with one participant, and adds its figures. Fails if it did not finish; figures
    /// up to there are added.
    fn run_trial(
        &mut self,
        participant: &str,
        trial: &Trial,
        figures: &mut Vec<Figure>,
    ) -> Result<(), Failed> {
        let done = self.beside_competitors(participant, trial, figures);
        if done.is_err() {
            self.our_failures += usize::from(participant == OURS);
            self.unable.insert((participant.to_owned(), trial.name()));
        }
        done
    }

    fn beside_competitors(
        &mut self,
        participant: &str,
        trial: &Trial,
        figures: &mut Vec<Figure>,
    ) -> Result<(), Failed> {
        let failed = |failure: Failure| Failed::from(failure.to_string());
        let competitors = Competitors::of(trial).map_err(failed)?;
        let mut found = Vec::new();
        let done = match (participant, &mut self.ours) {
            (OURS, Some(us)) => us.run(trial).map_err(failed).map(|all| found.extend(all)),
            (LIMIT, Some(us)) => us
                .limits(trial)
                .map_err(failed)
                .map(|all| found.extend(all)),
            _ => {
                let mut peers = self.peers.iter_mut();
                match peers.find(|peer| peer.name() == participant) {
                    Some(peer) => peer.run(trial, &mut found),
                    None => Ok(()),
                }
            }
        };
        competitors.still_compute().map_err(failed)?;
        figures.append(&mut found);
        done
    }
}

/// Prints the medians and the verdicts.
fn show(benchmark: &Benchmark, participants: &Participants) {
    let medians = table::medians(&benchmark.rows, &participants.names(), &benchmark.gaps);
    benchmark.output.line("");
    benchmark.output.line(&medians.text());
    benchmark.show_other_rows();
    if !benchmark.verdicts.is_empty() {
        benchmark.output.line("");
        benchmark
            .output
            .line(&crate::goals::table(&benchmark.verdicts).text());
    }
}
