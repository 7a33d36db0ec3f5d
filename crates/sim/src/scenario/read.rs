//! Reading a scenario's file.

use super::{Cards, Changes, Scenario, What, Workload, channels, network, program};
use crate::profile::units::Kind as Unit;
use crate::profile::{FileError, Profile, SHIPPED, Section, Source};
use crate::substrates::Costs;
use crate::workloads::design::Design;
use crate::workloads::scaling::{Extent, Kind, PROCESSES, Peers};

/// The kinds of workloads, and what each is.
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
        "program",
        "ping, fft, matmul or is in Active Messages, on a substrate of chapter 2",
    ),
];

#[derive(Clone, Copy)]
enum WorkloadName {
    PingPong,
    PingBulk,
    OneOfAll,
    Exchange,
    Channels,
    Program,
}

const NAMES: &[(&str, WorkloadName)] = &[
    ("ping-pong", WorkloadName::PingPong),
    ("ping-bulk", WorkloadName::PingBulk),
    ("one-of-all", WorkloadName::OneOfAll),
    ("exchange", WorkloadName::Exchange),
    ("channels", WorkloadName::Channels),
    ("program", WorkloadName::Program),
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

/// Most bytes of a message.
const LONGEST_MESSAGE: u64 = 64 << 10;
/// Most sizes, each of which is a run.
const MOST_SIZES: usize = 256;
/// Most rounds.
const MOST_ROUNDS: u64 = 100_000;
/// Most interfaces that are simulated: each has queues and buffers.
const MOST_INTERFACES: usize = 1 << 16;

/// Reads a scenario. `file` is its name for complaints; `open` reads a file that it names, whose path begins where the
/// scenario lies.
pub fn read(
    text: &str,
    file: &str,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Scenario, FileError> {
    let mut root = Source { file, text }.document()?;
    let name = match root.has("name") {
        true => root.text("name")?.value,
        false => file.to_owned(),
    };
    let mut workload = root.section("workload")?;
    let kind = workload.own_word("kind", NAMES)?.value;
    let what = match kind {
        WorkloadName::Program => {
            if let Some(section) = root.optional_section("network")? {
                let wrong = "programs run on one switch without latency (thesis, §2.1), whose link is in their profile; \
                             `[network]` goes with the other workloads";
                return Err(section.error(&section.span(), wrong));
            }
            let costs = costs(&mut root, open)?;
            What::Program(Box::new(program::read(&mut workload, costs, open)?))
        }
        kind => What::Cards(Box::new(cards(&mut root, &mut workload, kind, open)?)),
    };
    workload.finish()?;
    root.finish()?;
    Ok(Scenario { name, what })
}

/// What programs on substrates cost: the table that comes with the simulator, or one's own.
fn costs(
    root: &mut Section<'_>,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Costs, FileError> {
    let profile = root.text("profile")?;
    match profile.value.as_str() {
        "substrates" => Costs::psnow(),
        path if path.ends_with(".toml") => {
            let text = open(path)
                .map_err(|why| root.error(&profile.span, format!("reading {path}: {why}")))?;
            Costs::read(path, &text)
        }
        other => Err(root.error(
            &profile.span,
            format!(
                "`{other}`: programs run on \"substrates\", or on a file of that form, a path that ends in .toml"
            ),
        )),
    }
}

fn profile(
    root: &mut Section<'_>,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Profile, FileError> {
    let found = root.text("profile")?;
    let name = found.value;
    if SHIPPED.iter().any(|(shipped, _)| *shipped == name) {
        return Profile::shipped(&name);
    }
    if !name.ends_with(".toml") {
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        let wrong = format!(
            "there is no profile `{name}`; there are {}, or a path that ends in .toml",
            names.join(", ")
        );
        return Err(root.error(&found.span, wrong));
    }
    let text =
        open(&name).map_err(|why| root.error(&found.span, format!("reading {name}: {why}")))?;
    Profile::parse(&text, &name)
}

fn cards(
    root: &mut Section<'_>,
    workload: &mut Section<'_>,
    kind: WorkloadName,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Cards, FileError> {
    let mut profile = profile(root, open)?;
    let design = root.own_word("design", DESIGNS)?;
    let settings = changes(root)?;
    settings
        .apply(design.value.settings())
        .check()
        .map_err(|error| root.error(&design.span, format!("this card cannot be: {error}")))?;
    let sizes = match kind {
        WorkloadName::Channels => Vec::new(),
        _ => sizes(root)?,
    };
    let seed = match kind {
        // Only these leave something to chance.
        WorkloadName::Channels | WorkloadName::OneOfAll if root.has("seed") => {
            root.own_count("seed", 0, u64::MAX)?.value
        }
        _ => 1,
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
        WorkloadName::Channels => Workload::Channels(channels::read(workload, seed, open)?),
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

fn changes(root: &mut Section<'_>) -> Result<Changes, FileError> {
    let Some(mut section) = root.optional_section("settings")? else {
        return Ok(Changes::default());
    };
    let mut changes = Changes::default();
    if section.has("payload") {
        let payload = section.own_quantity("payload", Unit::Size)?;
        let bytes = u32::try_from(payload.value).ok();
        changes.payload_bytes = Some(bytes.filter(|bytes| *bytes <= 1_024).ok_or_else(|| {
            section.error(&payload.span, "`settings.payload` must be at most 1024 B")
        })?);
    }
    if section.has("shadow_queues") {
        changes.shadow_queues = Some(section.own_flag("shadow_queues")?.value);
    }
    if section.has("tailgating") {
        changes.tailgating = Some(section.own_flag("tailgating")?.value);
    }
    if section.has("cut_through") {
        changes.cut_through = Some(section.own_flag("cut_through")?.value);
    }
    if section.has("net_send_queue") {
        changes.net_send_queue = Some(section.own_count("net_send_queue", 1, 4_096)?.value as u32);
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
    let extent = match workload.has("simulate") {
        true => {
            let words = [
                ("one node", Extent::Representative),
                ("all nodes", Extent::Whole),
            ];
            workload.own_word("simulate", &words)?.value
        }
        false => Extent::Representative,
    };
    let count = nodes.value as usize;
    let others = count - 1;
    let peers = match workload.has("peers") {
        true => Peers::Some(workload.own_count("peers", 1, others as u64)?.value as usize),
        false => Peers::All,
    };
    let of_a_process = match peers {
        Peers::Some(peers) => peers,
        Peers::All => others,
    };
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
    let kind = match kind {
        WorkloadName::OneOfAll => Kind::OneOfAll,
        _ if workload.has("active") => {
            let most = of_a_node as u64;
            Kind::Active(workload.own_count("active", 1, most)?.value as usize)
        }
        _ => Kind::Active(of_a_node),
    };
    let burst = match (kind, workload.has("burst")) {
        (Kind::Active(_), true) => workload.own_count("burst", 1, 64)?.value as u32,
        _ => 1,
    };
    let completion_queue =
        workload.has("completion_queue") && workload.own_flag("completion_queue")?.value;
    let rounds = workload.own_count("rounds", 1, MOST_ROUNDS)?.value as u32;
    Ok(Workload::Interfaces {
        nodes: count,
        peers,
        kind,
        burst,
        completion_queue,
        rounds,
        extent,
        seed,
    })
}
