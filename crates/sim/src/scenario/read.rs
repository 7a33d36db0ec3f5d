//! Reading a scenario's file.

use super::setup::{Cards, Changes, Scenario, ScenarioKind, Variant, Workload};
use super::sweep::{self, ProfileValue};
use super::{channels, jobs, network, program, traffic};
use crate::coscheduling::costs::Costs as JobCosts;
use crate::profile::units::Kind as Unit;
use crate::profile::{FileError, Profile, SHIPPED, Section, Source, Sourced, Waits, edit};
use crate::substrates::Costs;
use crate::workloads::design::Design;
use crate::workloads::scaling::{Extent, Kind, Load, Order, PROCESSES, Peers};
use causeway_firmware::Reliability;

/// The kinds of workloads, with their descriptions.
pub const WORKLOADS: &[(&str, &str)] = &[
    ("ping-pong", "two nodes send one message back and forth"),
    (
        "ping-bulk",
        "two nodes send windows of messages to each other",
    ),
    (
        "one-of-all",
        "each process uses one of its interfaces at a time, chosen by chance (type I)",
    ),
    (
        "exchange",
        "each process sends on all its active interfaces, then receives on them (types II to IV)",
    ),
    (
        "channels",
        "channels of constant rate and of video, beside best effort",
    ),
    (
        "traffic",
        "patterns of traffic between all nodes, in open or closed loops, of messages or RDMA",
    ),
    (
        "program",
        "ping, fft, matmul, is or a recorded program in Active Messages, on a substrate of chapter 2",
    ),
    (
        "jobs",
        "parallel jobs that share processors, under a coscheduling strategy of chapter 6",
    ),
];

#[derive(Clone, Copy)]
enum WorkloadName {
    PingPong,
    PingBulk,
    OneOfAll,
    Exchange,
    Channels,
    Traffic,
    Program,
    Jobs,
}

impl WorkloadName {
    /// Whether the workload draws random numbers.
    fn has_chance(self) -> bool {
        matches!(
            self,
            Self::OneOfAll | Self::Channels | Self::Traffic | Self::Jobs
        )
    }
}

const NAMES: &[(&str, WorkloadName)] = &[
    ("ping-pong", WorkloadName::PingPong),
    ("ping-bulk", WorkloadName::PingBulk),
    ("one-of-all", WorkloadName::OneOfAll),
    ("exchange", WorkloadName::Exchange),
    ("channels", WorkloadName::Channels),
    ("traffic", WorkloadName::Traffic),
    ("program", WorkloadName::Program),
    ("jobs", WorkloadName::Jobs),
];

const DESIGNS: &[(&str, Design)] = &[
    ("Base", Design::Base),
    ("Base+O", Design::BaseO),
    ("Base+O+DMAQ", Design::BaseODmaq),
    ("Door+O+DMAQ", Design::DoorODmaq),
    ("Door+O+DMAQ+2CPU", Design::DoorODmaq2Cpu),
    ("SVIA", Design::Svia),
    ("PVIA", Design::Pvia),
    ("QoSVIA", Design::QosVia),
];

/// Rates of best effort beside what is reserved; with none it has only the rest.
const BEST_EFFORT_RATES: (u64, u64, &str) = (0, 1_000_000_000_000, "must be at most 1000 GB/s");
/// Most bytes of a message.
const LONGEST_MESSAGE: u64 = 64 << 10;
/// Most sizes, each of which is a run.
const MOST_SIZES: usize = 256;
/// Most rounds.
const MOST_ROUNDS: u64 = 100_000;
/// Most runs that differ in their seeds.
const MOST_REPLICATIONS: u64 = 1_000;
/// Most interfaces that are simulated: each has queues and buffers.
const MOST_INTERFACES: usize = 1 << 16;

/// Reads a scenario. `file` is its name for errors; `open` reads a file that it names, whose path is relative to the
/// scenario's directory.
pub fn read(
    text: &str,
    file: &str,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Scenario, FileError> {
    let source = Source { file, text };
    let Some(swept) = sweep::read(&mut source.document()?)? else {
        let files = Files {
            open,
            profile: None,
        };
        let (head, what) = one(source, files)?;
        return Ok(head.scenario(None, vec![Variant { value: None, what }]));
    };
    let mut variants = Vec::new();
    let mut first = None;
    for value in &swept.values {
        let variation = swept.apply(source, value)?;
        let (text, profile) = (variation.text.as_str(), variation.profile);
        let (head, what) =
            one(Source { file, text }, Files { open, profile }).map_err(|error| FileError {
                message: format!("with `{}` = {value}: {}", swept.key, error.message),
                line: variation.line_of_file(error.line),
                ..error
            })?;
        first.get_or_insert(head);
        variants.push(Variant {
            value: Some(value.clone()),
            what,
        });
    }
    let head = first.unwrap_or_default();
    Ok(head.scenario(Some(swept.key), variants))
}

/// The parts that all variants of a scenario have in common.
#[derive(Default)]
struct Head {
    name: String,
    replications: u32,
}

impl Head {
    fn scenario(self, swept: Option<String>, variants: Vec<Variant>) -> Scenario {
        Scenario {
            name: self.name,
            swept,
            variants,
            replications: self.replications,
        }
    }
}

/// The files that a scenario names, and the changes of its profile.
#[derive(Clone, Copy)]
struct Files<'a> {
    open: &'a dyn Fn(&str) -> Result<String, String>,
    profile: Option<ProfileValue<'a>>,
}

impl Files<'_> {
    /// The text of the profile that `found` names, which is shipped as `shipped` or a file, with the changes applied.
    fn profile(
        &self,
        root: &Section<'_>,
        found: &Sourced<String>,
        shipped: Option<&str>,
    ) -> Result<String, FileError> {
        let name = &found.value;
        let text = match shipped {
            Some(text) => text.to_owned(),
            None => (self.open)(name)
                .map_err(|why| root.error(&found.span, format!("reading {name}: {why}")))?,
        };
        let Some(ProfileValue { key, value }) = self.profile else {
            return Ok(text);
        };
        edit::with_value(&text, key, value).ok_or_else(|| {
            let wrong = format!("the profile {name} has no `{key}` to be swept");
            root.error(&found.span, wrong)
        })
    }
}

/// Reads one variant.
fn one(source: Source<'_>, files: Files<'_>) -> Result<(Head, ScenarioKind), FileError> {
    let mut root = source.document()?;
    sweep::read(&mut root)?;
    let name = match root.has("name") {
        true => root.text("name")?.value,
        false => source.file.to_owned(),
    };
    let mut workload = root.section("workload")?;
    let kind = workload.own_word("kind", NAMES)?.value;
    let what = match kind {
        WorkloadName::Program => {
            let costs = substrate_costs(&mut root, files)?;
            ScenarioKind::Program(Box::new(program::read(
                &mut root,
                &mut workload,
                costs,
                files.open,
            )?))
        }
        WorkloadName::Jobs => {
            let costs = job_costs(&mut root, files)?;
            let seed = root.count_or("seed", 0, u64::MAX, 1)?;
            ScenarioKind::Jobs(Box::new(jobs::read(&mut workload, costs, seed)?))
        }
        kind => ScenarioKind::Cards(Box::new(cards(&mut root, &mut workload, kind, files)?)),
    };
    let replications = match kind.has_chance() {
        true => root.count_or("replications", 1, MOST_REPLICATIONS, 1)? as u32,
        false => 1,
    };
    workload.finish()?;
    root.finish()?;
    Ok((Head { name, replications }, what))
}

/// The cost table of programs on substrates: the one that comes with the simulator, or the user's.
fn substrate_costs(root: &mut Section<'_>, files: Files<'_>) -> Result<Costs, FileError> {
    let (name, text) = table(root, files, ("programs run", "substrates", Costs::SHIPPED))?;
    Costs::read(&name, &text)
}

/// The cost table of jobs that share processors, likewise.
fn job_costs(root: &mut Section<'_>, files: Files<'_>) -> Result<JobCosts, FileError> {
    let (name, text) = table(root, files, ("jobs run", "coscheduling", JobCosts::SHIPPED))?;
    JobCosts::read(&name, &text)
}

/// The name and text of the table that `profile` names, for kinds of which one comes with the simulator.
fn table(
    root: &mut Section<'_>,
    files: Files<'_>,
    (what, known, shipped): (&str, &str, &str),
) -> Result<(String, String), FileError> {
    let profile = root.text("profile")?;
    let path = profile.value.as_str();
    if path == known {
        let text = files.profile(root, &profile, Some(shipped))?;
        return Ok((format!("{known}.toml"), text));
    }
    if !path.ends_with(".toml") {
        let wrong = format!(
            "`{path}`: {what} on \"{known}\", or on a file of that form, a path that ends in .toml"
        );
        return Err(root.error(&profile.span, wrong));
    }
    Ok((path.to_owned(), files.profile(root, &profile, None)?))
}

fn profile(root: &mut Section<'_>, files: Files<'_>) -> Result<Profile, FileError> {
    let found = root.text("profile")?;
    let name = &found.value;
    let shipped = SHIPPED.iter().find(|(shipped, _)| shipped == name);
    if shipped.is_none() && !name.ends_with(".toml") {
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        let wrong = format!(
            "there is no profile `{name}`; there are {}, or a path that ends in .toml",
            names.join(", ")
        );
        return Err(root.error(&found.span, wrong));
    }
    let text = files.profile(root, &found, shipped.map(|(_, text)| *text))?;
    match shipped {
        Some((name, _)) => Profile::parse(&text, &format!("{name}.toml")),
        None => Profile::parse(&text, name),
    }
}

fn cards(
    root: &mut Section<'_>,
    workload: &mut Section<'_>,
    kind: WorkloadName,
    files: Files<'_>,
) -> Result<Cards, FileError> {
    let mut profile = profile(root, files)?;
    let design = root.own_word("design", DESIGNS)?;
    let settings = changes(root)?;
    profile.card.buffers = settings.buffers;
    settings
        .apply(design.value.settings())
        .check()
        .map_err(|error| {
            root.error(
                &design.span,
                format!("the settings of this design are invalid: {error}"),
            )
        })?;
    library(root, &mut profile)?;
    let sizes = match kind {
        WorkloadName::Channels => Vec::new(),
        // The workload may have a distribution of sizes instead.
        WorkloadName::Traffic if workload.has("sizes") => Vec::new(),
        _ => sizes(root)?,
    };
    let seed = match kind.has_chance() {
        true => root.count_or("seed", 0, u64::MAX, 1)?,
        false => 1,
    };
    let mut rounds = || -> Result<u32, FileError> {
        Ok(workload.own_count("rounds", 1, MOST_ROUNDS)?.value as u32)
    };
    let workload = match kind {
        WorkloadName::PingPong => Workload::PingPong { rounds: rounds()? },
        WorkloadName::PingBulk => Workload::PingBulk {
            rounds: rounds()?.max(2),
            window: workload.own_count("window", 1, 128)?.value as u32,
        },
        WorkloadName::Channels => Workload::Channels(channels::read(workload, seed, files.open)?),
        WorkloadName::Traffic => Workload::Traffic(Box::new(traffic::read(workload, seed)?)),
        kind => interfaces(workload, kind, seed)?,
    };
    let (nodes, whole) = workload.nodes();
    network::read(root, &mut profile, nodes, whole)?;
    Ok(Cards {
        profile,
        design: design.value,
        settings,
        sizes,
        workload,
    })
}

/// Reads `[library]`, if it is present: how processes use the card.
fn library(root: &mut Section<'_>, profile: &mut Profile) -> Result<(), FileError> {
    let Some(mut section) = root.optional_section("library")? else {
        return Ok(());
    };
    let library = &mut profile.library;
    let words = [("poll", Waits::Poll), ("block", Waits::Block)];
    library.waits = section.word_or("waits", &words, library.waits)?;
    let words = [
        ("unreliable", Reliability::Unreliable),
        ("delivery", Reliability::Delivery),
        ("reception", Reliability::Reception),
    ];
    library.reliability = section.word_or("reliability", &words, library.reliability)?;
    section.finish()
}

fn changes(root: &mut Section<'_>) -> Result<Changes, FileError> {
    let Some(mut section) = root.optional_section("settings")? else {
        return Ok(Changes::default());
    };
    let mut payload_bytes = None;
    if section.has("payload") {
        let payload = section.own_quantity("payload", Unit::Size)?;
        let bytes = u32::try_from(payload.value).ok();
        payload_bytes = Some(bytes.filter(|bytes| *bytes <= 1_024).ok_or_else(|| {
            section.error(&payload.span, "`settings.payload` must be at most 1024 B")
        })?);
    }
    let mut flag = |key| -> Result<Option<bool>, FileError> {
        Ok(section
            .optional(key, Section::own_flag)?
            .map(|flag| flag.value))
    };
    let mut changes = Changes {
        payload_bytes,
        shadow_queues: flag("shadow_queues")?,
        tailgating: flag("tailgating")?,
        cut_through: flag("cut_through")?,
        receive_cut_through: flag("receive_cut_through")?,
        net_send_queue: None,
        frame_bytes: None,
        buffers: None,
        best_effort_rate: None,
        best_effort_in_progress: None,
        doorbells_last: flag("doorbells_last")?,
    };
    changes.best_effort_rate = section.optional("best_effort_rate", |section, key| {
        section.own_within(key, Unit::Rate, BEST_EFFORT_RATES)
    })?;
    let in_progress = section.optional("best_effort_in_progress", |section, key| {
        section.own_count(key, 1, 4_096)
    })?;
    changes.best_effort_in_progress = in_progress.map(|found| found.value as u32);
    if section.has("net_send_queue") {
        changes.net_send_queue = Some(section.own_count("net_send_queue", 1, 4_096)?.value as u32);
    }
    if section.has("frame") {
        let frame = section.own_quantity("frame", Unit::Size)?;
        if !(64..=1 << 20).contains(&frame.value) {
            let wrong = "`settings.frame` must be from 64 B to 1 MiB";
            return Err(section.error(&frame.span, wrong));
        }
        changes.frame_bytes = Some(frame.value as u32);
    }
    if section.has("buffers") {
        changes.buffers = Some(section.own_count("buffers", 8, 1 << 20)?.value as u32);
    }
    section.finish()?;
    Ok(changes)
}

fn sizes(root: &mut Section<'_>) -> Result<Vec<u32>, FileError> {
    let mut sizes = Vec::new();
    for found in root.own_quantities("sizes", Unit::Size)? {
        if sizes.len() == MOST_SIZES {
            let wrong = format!("`sizes` may have {MOST_SIZES} entries");
            return Err(root.error(&found.span, wrong));
        }
        if !(1..=LONGEST_MESSAGE).contains(&found.value) {
            let wrong = format!("a message must have from 1 to {LONGEST_MESSAGE} B");
            return Err(root.error(&found.span, wrong));
        }
        sizes.push(found.value as u32);
    }
    Ok(sizes)
}

fn interfaces(
    workload: &mut Section<'_>,
    kind: WorkloadName,
    seed: u64,
) -> Result<Workload, FileError> {
    let nodes = workload.own_count("nodes", 2, 4_096)?;
    if !nodes.value.is_multiple_of(2) {
        let wrong = "`workload.nodes` must be even: processes talk in pairs";
        return Err(workload.error(&nodes.span, wrong));
    }
    let words = [
        ("one node", Extent::Representative),
        ("all nodes", Extent::Whole),
    ];
    let extent = workload.word_or("simulate", &words, Extent::Representative)?;
    let count = nodes.value as usize;
    let others = count - 1;
    let known = workload.optional("peers", |workload, key| {
        workload.own_count(key, 1, others as u64)
    })?;
    let known = known.map(|known| known.value as usize);
    let of_a_process = known.unwrap_or(others);
    let of_a_node = PROCESSES * of_a_process;
    let all = match extent {
        Extent::Representative => of_a_node,
        Extent::Whole => of_a_node * count,
    };
    if all > MOST_INTERFACES {
        let wrong = format!(
            "these nodes have {all} interfaces, {PROCESSES} to each of {of_a_process} others on each; \
             {MOST_INTERFACES} can be simulated; `workload.peers` makes them fewer"
        );
        return Err(workload.error(&nodes.span, wrong));
    }
    let (kind, burst, order) = match kind {
        WorkloadName::OneOfAll => (Kind::OneOfAll, 1, Order::default()),
        _ => {
            let all = of_a_node as u64;
            let words = [
                ("ascending", Order::Ascending),
                ("descending", Order::Descending),
                ("every second", Order::Strided(2)),
                ("every eighth", Order::Strided(8)),
                ("random", Order::Random),
            ];
            (
                Kind::Active(workload.count_or("active", 1, all, all)? as usize),
                workload.count_or("burst", 1, 64, 1)? as u32,
                workload.word_or("order", &words, Order::default())?,
            )
        }
    };
    Ok(Workload::Interfaces(Load {
        nodes: count,
        peers: known.map_or(Peers::All, Peers::Some),
        kind,
        bytes: 0,
        order,
        burst,
        completion_queue: workload.is_set("completion_queue")?,
        rounds: workload.own_count("rounds", 1, MOST_ROUNDS)?.value as u32,
        extent,
        seed,
    }))
}
