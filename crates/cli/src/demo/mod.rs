//! `causeway demo`: the main use, from an empty file system to a verified tree, including the
//! failure of a server.
//!
//! [`tree`] is the data that is stored, [`worker`] one client process, [`phase`] assigns the work,
//! [`drill`] is the failure, [`sampler`] samples the traffic of servers, [`summary`] and [`page`] are
//! the report.

mod drill;
mod page;
mod phase;
mod result;
mod sampler;
mod summary;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_command::cluster::{Cluster, Spec, free_space, require_space};
use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::{Output, printable};
use causeway_command::progress::Progress;
use causeway_command::remote::{join, parent_of};
use causeway_command::shutdown::{self, ScratchDirectory};
use causeway_fs::client::Client;
use causeway_report::machine::Machine;
use causeway_report::units::{bytes_text, count_text, duration_text, rate_text};
use causeway_watch::process::monotonic_ns;
use causeway_wire::fs::Kind;
use clap::Args;

use crate::fs::init::Promise;
use crate::fs::mkdir::make_with_parents;
use crate::fs::tree::walk;
use phase::{Phase, Work};
use result::Findings;
use tree::{Name, Tree};
use worker::{Assignment, Content, Done, Item};

/// Where the tree is stored, and where the second pass stores copies.
const TREE: &str = "/tree";
const COPY: &str = "/copy";
/// The second pass stores one file in this many once more.
const COPY_EVERY: usize = 4;

/// Store a real tree, read it back, survive the death of a server, and write a report
///
/// Starts a file system on this machine, stores a directory tree with several client processes,
/// reads everything back with others and compares SHA-256, kills an I/O server in the middle of a
/// second pass, restarts it, and verifies everything again. Nothing is left behind but the report.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway demo
  causeway demo --tree ~/src --clients 8 --out ~/report.html
  causeway demo --servers 8 --dir /dev/shm --json | jq .ok")]
pub(crate) struct Arguments {
    /// The tree to store [default: the Rust toolchain's own files, or made-up ones]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Number of I/O servers, beside the metadata server
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// Number of client processes
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: u16,
    /// Where to write the report
    #[arg(long, value_name = "FILE", default_value = "causeway-demo.html")]
    out: PathBuf,
    /// The directory in which the servers' storage is made [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What an acknowledgement guarantees
    #[arg(long, value_enum, default_value_t = Promise::Relaxed)]
    durability: Promise,
    /// Seconds after which an operation fails that cannot be done
    #[arg(long, value_name = "SECONDS", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// Keep the servers' storage and say where it is
    #[arg(long)]
    keep: bool,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the demonstration.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let output = Output::new(arguments.json);
    shutdown::on_signals()?;
    let parent = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let mut scratch = ScratchDirectory::new(&parent, "demo")?;
    let (tree, source) = choose_tree(&arguments, scratch.path(), &output)?;
    let needed = tree.bytes + tree.bytes / 2 + (256 << 20);
    require_space(scratch.path(), needed).map_err(|failure| {
        failure.hint("choose another place with --dir, or a smaller tree with --tree")
    })?;
    let mut result = perform(&arguments, &tree, source, scratch.path(), &output)?;
    result.storage = storage_text(scratch.path());
    page::write(&result, &arguments.out)?;
    summary::summarize(&result, &arguments.out, &output);
    if arguments.keep {
        scratch.keep();
        let place = scratch.path().join("storage").display().to_string();
        output.line(&format!(
            "storage kept: causeway fs dev --dir {place} serves it again"
        ));
    }
    match result.differing {
        0 => Ok(()),
        count => Err(Failure::new(
            "the demonstration",
            format!(
                "{} of {} comparisons differ",
                count_text(count),
                count_text(result.compared)
            ),
        )
        .hint(format!("see {}", arguments.out.display()))),
    }
}

fn choose_tree(arguments: &Arguments, scratch: &Path, output: &Output) -> Outcome<(Tree, String)> {
    if let Some(top) = &arguments.tree {
        return Ok((tree::scan(top)?, top.display().to_string()));
    }
    if let Some(top) = tree::sysroot() {
        output.line(&format!(
            "the tree: the Rust toolchain's own files, {}",
            top.display()
        ));
        return Ok((
            tree::scan(&top)?,
            format!("the Rust toolchain, {}", top.display()),
        ));
    }
    output.line("the tree: made-up files, as there is no rustc here (choose one with --tree)");
    let top = scratch.join("source");
    tree::make_up(&top)?;
    Ok((tree::scan(&top)?, "made-up files".to_owned()))
}

fn storage_text(place: &Path) -> String {
    match free_space(place) {
        Ok((_, true)) => "memory (tmpfs)".to_owned(),
        _ => "disk".to_owned(),
    }
}

fn perform(
    arguments: &Arguments,
    tree: &Tree,
    source: String,
    scratch: &Path,
    output: &Output,
) -> Outcome<Findings> {
    let clients = usize::from(arguments.clients);
    let mut cluster = Cluster::start(&Spec {
        directory: scratch.join("storage"),
        servers: usize::from(arguments.servers),
        durability: arguments.durability.into(),
        tcp: false,
        timeout: Some(Duration::from_secs(arguments.timeout)),
        checksums: true,
        environment: Vec::new(),
    })?;
    output.line(&format!(
        "{} servers are running; {} files, {} in {} directories; {clients} client processes",
        cluster.configuration().servers.len(),
        count_text(tree.leaves.len() as u64),
        bytes_text(tree.bytes),
        count_text(tree.directories.len() as u64)
    ));
    let mut result = before(arguments, tree, source, &cluster);
    let sampler = sampler::Sampler::start(cluster.configuration())?;
    let assignment = Assignment {
        config: cluster.file().to_owned(),
        source: tree.top.clone(),
    };
    let mut show = Show {
        output,
        clients,
        assignment,
    };
    let expected = store(&mut show, &cluster, tree, &mut result)?;
    verify(&mut show, "read back", tree, &[], &expected, &mut result)?;
    let copies = fail_and_recover(&mut show, &mut cluster, tree, &expected, &mut result)?;
    verify(
        &mut show,
        "verify again",
        tree,
        &copies,
        &expected,
        &mut result,
    )?;
    compare_names(&cluster, tree, &expected, &mut result)?;
    result.histories = sampler.finish();
    Ok(result)
}

/// The facts that are known before the first phase.
fn before(arguments: &Arguments, tree: &Tree, source: String, cluster: &Cluster) -> Findings {
    Findings {
        machine: Machine::here(),
        source,
        files: tree.leaves.len() as u64,
        bytes: tree.bytes,
        directories: tree.directories.len() as u64,
        servers: usize::from(arguments.servers),
        clients: usize::from(arguments.clients),
        durability: match arguments.durability {
            Promise::Synced => "synced",
            Promise::Relaxed => "relaxed",
        },
        storage: String::new(),
        timeout: cluster.configuration().timeout,
        origin_ns: monotonic_ns(),
        phases: Vec::new(),
        histories: Vec::new(),
        victim: String::new(),
        killed_ns: None,
        restarted_ns: None,
        answered_ns: None,
        compared: 0,
        differing: 0,
        differences: Vec::new(),
    }
}

/// The data that all phases need.
struct Show<'a> {
    output: &'a Output,
    clients: usize,
    assignment: Assignment,
}

impl Show<'_> {
    fn phase(
        &mut self,
        name: &'static str,
        work: Vec<Work>,
        drill: Option<&mut drill::Drill<'_>>,
        each: &mut dyn FnMut(&Done),
    ) -> Outcome<Phase> {
        let bytes = work.iter().map(|work| work.bytes).sum();
        let progress = Progress::new(self.output, name, bytes);
        let phase = phase::run(
            name,
            self.clients,
            &self.assignment,
            work,
            &progress,
            drill,
            each,
        )?;
        progress.finish();
        self.output.line(&format!(
            "{name}: {} files, {} in {} ({})",
            count_text(phase.items),
            bytes_text(phase.bytes()),
            duration_text(phase.time()),
            rate_text(phase.bytes(), phase.time())
        ));
        Ok(phase)
    }
}

/// Large files first, so that none of them is left for the end.
fn in_order(mut work: Vec<Work>) -> Vec<Work> {
    const LARGE: u64 = 8 << 20;
    work.sort_by_key(|work| std::cmp::Reverse(work.bytes.max(LARGE)));
    work
}

fn item(number: usize, leaf: &tree::Leaf) -> Item {
    Item {
        number,
        path: Name::new(&leaf.path),
        link: leaf.link,
        check: None,
        store: None,
    }
}

fn store(
    show: &mut Show<'_>,
    cluster: &Cluster,
    tree: &Tree,
    result: &mut Findings,
) -> Outcome<BTreeMap<usize, Content>> {
    let mut client = Client::connect(cluster.configuration(), Default::default())?;
    for directory in &tree.directories {
        let path = match directory.path.as_slice() {
            [] => TREE.as_bytes().to_vec(),
            path => join(TREE.as_bytes(), path),
        };
        // Writable for its owner until everything is in it; the comparison of names allows for that.
        client.make_directory(&path, directory.mode | 0o700, None)?;
    }
    let work = tree.leaves.iter().enumerate().map(|(number, leaf)| {
        let mut item = item(number, leaf);
        item.store = Some(TREE.to_owned());
        Work::new(item, leaf.size)
    });
    let mut expected = BTreeMap::new();
    let work = in_order(work.collect());
    let phase = show.phase("store", work, None, &mut |done| {
        if let Some(content) = &done.stored {
            expected.insert(done.number, content.clone());
        }
    })?;
    note_lost(&phase, result);
    result.phases.push(phase);
    Ok(expected)
}

fn note_lost(phase: &Phase, result: &mut Findings) {
    for lost in &phase.lost {
        result.compared += 1;
        result.add_difference(format!("{}: {lost}", phase.name));
    }
}

/// Compares the data that was read with the source.
fn compare(
    result: &mut Findings,
    phase: &str,
    path: &str,
    found: Option<&Content>,
    expected: Option<&Content>,
) {
    result.compared += 1;
    match (found, expected) {
        (Some(found), Some(expected)) if found == expected => {}
        (Some(found), Some(expected)) => {
            result.add_difference(format!(
                "{phase}: {path}: read {found:?}, the source has {expected:?}"
            ));
        }
        (None, _) => result.add_difference(format!("{phase}: {path}: was not read")),
        (_, None) => result.add_difference(format!("{phase}: {path}: was never stored")),
    }
}

fn verify(
    show: &mut Show<'_>,
    name: &'static str,
    tree: &Tree,
    copies: &[usize],
    expected: &BTreeMap<usize, Content>,
    result: &mut Findings,
) -> Outcome {
    let total = tree.leaves.len();
    let checked = |number: usize, leaf: &tree::Leaf, top: &str, shift: usize| {
        let mut item = item(number + shift, leaf);
        item.check = Some(top.to_owned());
        Work::new(item, leaf.size)
    };
    let mut work: Vec<Work> = tree
        .leaves
        .iter()
        .enumerate()
        .map(|(n, leaf)| checked(n, leaf, TREE, 0))
        .collect();
    for &number in copies {
        if let Some(leaf) = tree.leaves.get(number) {
            work.push(checked(number, leaf, COPY, total));
        }
    }
    let phase = show.phase(name, in_order(work), None, &mut |done| {
        let number = done.number % total.max(1);
        let (path, found) = (tree.shown(number), done.found.as_ref());
        compare(result, name, &path, found, expected.get(&number));
    })?;
    note_lost(&phase, result);
    result.phases.push(phase);
    Ok(())
}

/// The second pass: everything is read again and every fourth file stored again, while a server is
/// killed and restarted. Returns the files whose copies were acknowledged.
fn fail_and_recover(
    show: &mut Show<'_>,
    cluster: &mut Cluster,
    tree: &Tree,
    expected: &BTreeMap<usize, Content>,
    result: &mut Findings,
) -> Outcome<Vec<usize>> {
    const NAME: &str = "fail and recover";
    let mut client = Client::connect(cluster.configuration(), Default::default())?;
    let mut made = std::collections::BTreeSet::new();
    let mut work = Vec::new();
    for (number, leaf) in tree.leaves.iter().enumerate() {
        let mut item = item(number, leaf);
        item.check = Some(TREE.to_owned());
        let mut bytes = leaf.size;
        if number.is_multiple_of(COPY_EVERY) {
            item.store = Some(COPY.to_owned());
            bytes += leaf.size;
            let copy = join(COPY.as_bytes(), &leaf.path);
            let parent = parent_of(&copy);
            if made.insert(parent.to_vec()) {
                make_with_parents(&mut client, parent, 0o755, None)?;
            }
        }
        work.push(Work::new(item, bytes));
    }
    interleave(&mut work);
    let victim = sampler::busiest(cluster.configuration())?;
    result.victim = cluster.name(victim).to_owned();
    let mut drill = drill::Drill::new(cluster, victim, show.clients);
    let mut copies = Vec::new();
    let phase = show.phase(NAME, work, Some(&mut drill), &mut |done| {
        let (path, found) = (tree.shown(done.number), done.found.as_ref());
        compare(result, NAME, &path, found, expected.get(&done.number));
        if done.stored.is_some() {
            copies.push(done.number);
        }
    })?;
    result.killed_ns = drill.killed_ns;
    result.restarted_ns = drill.restarted_ns;
    result.answered_ns = drill.answered_ns;
    note_lost(&phase, result);
    result.phases.push(phase);
    Ok(copies)
}

/// Spreads large and small files evenly, with the largest one right after the middle, where the
/// failure happens.
fn interleave(work: &mut Vec<Work>) {
    let step = 2_654_435_761_u64;
    work.sort_by_key(|work| (work.item.number as u64).wrapping_mul(step) & 0xffff_ffff);
    if let Some(at) = (0..work.len()).max_by_key(|at| work[*at].bytes) {
        let largest = work.remove(at);
        let middle = (work.len() + 1).div_ceil(2).min(work.len());
        work.insert(middle, largest);
    }
}

/// Walks the stored tree and compares every name, kind, size and mode with the source.
fn compare_names(
    cluster: &Cluster,
    tree: &Tree,
    expected: &BTreeMap<usize, Content>,
    result: &mut Findings,
) -> Outcome {
    let mut client = Client::connect(cluster.configuration(), Default::default())?;
    let mut wanted: BTreeMap<Vec<u8>, (Kind, u64)> = BTreeMap::new();
    for (number, leaf) in tree.leaves.iter().enumerate() {
        let kind = match leaf.link {
            true => Kind::SymbolicLink,
            false => Kind::File,
        };
        let stored = expected.get(&number);
        let bytes = stored.map_or(leaf.size, |content| content.bytes);
        wanted.insert(join(TREE.as_bytes(), &leaf.path), (kind, bytes));
    }
    for directory in tree
        .directories
        .iter()
        .filter(|directory| !directory.path.is_empty())
    {
        wanted.insert(join(TREE.as_bytes(), &directory.path), (Kind::Directory, 0));
    }
    let node = client.stat(TREE.as_bytes(), true)?;
    let mut differences = Vec::new();
    let mut compared = 0;
    walk(&mut client, TREE.as_bytes(), &node, &mut |_, visited| {
        if visited.leaving || visited.path == TREE.as_bytes() {
            return Ok(());
        }
        compared += 1;
        let size = match visited.attributes.kind {
            Kind::Directory => 0,
            _ => visited.attributes.size,
        };
        if wanted.remove(visited.path) != Some((visited.attributes.kind, size)) {
            differences.push(format!(
                "names: {}: not as in the source",
                printable(visited.path)
            ));
        }
        Ok(())
    })?;
    result.compared += compared;
    for path in wanted.into_keys() {
        differences.push(format!("names: {}: is missing", printable(&path)));
    }
    for difference in differences {
        result.add_difference(difference);
    }
    Ok(())
}
