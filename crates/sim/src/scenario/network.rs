//! The network of a scenario: parameters of links and switches, and how they are joined.
//!
//! Without `[network]` all nodes are attached to one switch, and links are the profile's. Keys of the section itself change all links
//! and switches; `tree` builds levels of switches, and `[[network.switch]]` with `[[network.link]]` names
//! each, and `fat tree` two levels with several paths between them. Cycles of named switches, and anything that does not connect exactly
//! the workload's nodes, are refused with the line of the error.

use std::collections::VecDeque;
use std::ops::Range;

use crate::engine::SECOND;
use crate::hardware::{
    Broken, LinkChange, Outage, Routing, SwitchChange, Topology, TopologyError, WhenFull,
};
use crate::profile::units::Kind as Unit;
use crate::profile::{FileError, Profile, Section, Sourced};
use crate::substrates::Links;

/// Most ports of a switch, and most switches.
const MOST: u64 = 4_096;
/// Slowest and fastest link.
const RATES: (u64, u64, &str) = (
    100_000,
    1_000_000_000_000,
    "must be from 100 kB/s to 1000 GB/s",
);
const LATENCIES: (u64, u64, &str) = (0, SECOND, "must be at most 1 s");
/// Limits of the times of failures.
const MOMENTS: (u64, u64, &str) = (0, 1_000_000 * SECOND, "must be at most 1000000 s");
const BUFFERS: (u64, u64, &str) = (1, 1 << 30, "must be from 1 B to 1 GiB");

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Star,
    Tree,
    FatTree,
    Switches,
}

const SHAPES: &[(&str, Shape)] = &[
    ("star", Shape::Star),
    ("tree", Shape::Tree),
    ("fat tree", Shape::FatTree),
    ("switches", Shape::Switches),
];

/// Reads `[network]`, if it is present, into the profile. The workload has `nodes` nodes; only one of them is simulated unless
/// `whole`.
pub(super) fn read(
    root: &mut Section<'_>,
    profile: &mut Profile,
    nodes: usize,
    whole: bool,
) -> Result<(), FileError> {
    let mut links = Links {
        link: profile.link.clone(),
        switch: profile.switch.clone(),
        topology: profile.topology.take(),
    };
    section(root, &mut links, nodes, whole)?;
    profile.link = links.link;
    profile.switch = links.switch;
    profile.topology = links.topology;
    Ok(())
}

/// Reads `[network]`, if it is present, for programs on this many hosts; returns whether it is.
pub(super) fn read_links(
    root: &mut Section<'_>,
    links: &mut Links,
    hosts: usize,
) -> Result<bool, FileError> {
    let Some(place) = section(root, links, hosts, true)? else {
        return Ok(false);
    };
    if links.topology.as_ref().is_some_and(Topology::has_outages) {
        let wrong =
            "programs run without failures: their substrates do not send again what is lost";
        return Err(root.error(&place, wrong));
    }
    let drops = links.switch.when_full == WhenFull::Drop;
    if drops || links.topology.as_ref().is_some_and(Topology::drops) {
        let wrong = "the substrates of programs do not send again what is lost; switches must stop senders, \
                     \"stop\" or \"credit\"";
        return Err(root.error(&place, wrong));
    }
    Ok(true)
}

/// Reads the section, and returns its position.
fn section(
    root: &mut Section<'_>,
    profile: &mut Links,
    nodes: usize,
    whole: bool,
) -> Result<Option<Range<usize>>, FileError> {
    let Some(mut section) = root.optional_section("network")? else {
        return Ok(None);
    };
    let at = section.span();
    let link = link(&mut section, "rate", "latency")?;
    let switch = switch(&mut section, "switch_latency")?;
    source(&mut section)?;
    change(profile, link, switch);
    if profile.switch.when_full == WhenFull::Credit {
        let time = within(&mut section, "credit_time", Unit::Time, LATENCIES)?;
        profile.switch.credit_time = time.unwrap_or(profile.switch.credit_time);
    }
    let explicit = section.has("switch") || section.has("link");
    let (shape, place) = match section.has("topology") {
        true => {
            let found = section.own_word("topology", SHAPES)?;
            (found.value, found.span)
        }
        false if explicit => (Shape::Switches, section.span()),
        false => (Shape::Star, section.span()),
    };
    if !whole && !matches!(shape, Shape::Star) {
        let wrong = "one node stands for all of them here, and is attached to one switch; with other topologies \
                     `workload.simulate` must be \"all nodes\"";
        return Err(section.error(&place, wrong));
    }
    let (topology, names) = joined(&mut section, shape, nodes)?;
    profile.topology = topology;
    if section.has("failure") {
        let topology = profile.topology.take();
        let topology = topology.map_or_else(|| Topology::star(nodes), Ok);
        let mut topology = topology.map_err(|error| section.error(&at, error.to_string()))?;
        if !whole {
            let wrong = "one node stands for all of them here, which cannot fail apart; `workload.simulate` must be \"all nodes\"";
            return Err(section.error(&at, wrong));
        }
        for mut one in section.sections("failure")? {
            let outage = failure(&mut one, &topology, &names)?;
            one.finish()?;
            topology.add_outage(outage);
        }
        profile.topology = Some(topology);
    }
    section.finish()?;
    Ok(Some(at))
}

/// Reads how nodes and switches are joined, and the names of the switches; those that the file does not name have
/// numbers for names.
fn joined(
    section: &mut Section<'_>,
    shape: Shape,
    nodes: usize,
) -> Result<(Option<Topology>, Vec<String>), FileError> {
    let topology = match shape {
        Shape::Star => {
            if section.has("ports") {
                let ports = section.own_count("ports", 1, MOST)?;
                if (ports.value as usize) < nodes {
                    let wrong = format!("the switch has too few ports for {nodes} nodes");
                    return Err(section.error(&ports.span, wrong));
                }
            }
            None
        }
        Shape::Tree => {
            let fan_out = section.own_count("fan_out", 2, MOST)?;
            let uplink = link(section, "uplink_rate", "uplink_latency")?;
            let tree = Topology::regular(nodes, fan_out.value as usize, uplink);
            Some(tree.map_err(|error| section.error(&fan_out.span, error.to_string()))?)
        }
        Shape::FatTree => Some(fat_tree(section, nodes)?),
        Shape::Switches => {
            let (topology, names) = switches(section, nodes)?;
            return Ok((Some(topology), names));
        }
    };
    Ok((topology, Vec::new()))
}

/// Reads the keys of a fat tree.
fn fat_tree(section: &mut Section<'_>, nodes: usize) -> Result<Topology, FileError> {
    let fan_out = section.own_count("fan_out", 1, MOST)?;
    let spines = section.own_count("spines", 1, MOST)?.value as usize;
    let uplink = link(section, "uplink_rate", "uplink_latency")?;
    let routing = section.word_or("routing", Routing::WORDS, Routing::default())?;
    let tree = Topology::fat(nodes, fan_out.value as usize, spines, uplink, routing);
    tree.map_err(|error| section.error(&fan_out.span, error.to_string()))
}

/// Reads `[[network.failure]]`: the part that fails, and when.
fn failure(
    section: &mut Section<'_>,
    topology: &Topology,
    names: &[String],
) -> Result<Outage, FileError> {
    let switch = |section: &Section<'_>, found: &Sourced<String>| {
        let named = names.iter().position(|name| *name == found.value);
        let number = || found.value.parse::<usize>().ok();
        let number = named.or_else(|| number().filter(|_| names.is_empty()));
        number
            .filter(|number| *number < topology.switches())
            .ok_or_else(|| {
                let known = match names.is_empty() {
                    true => format!(
                        "the switches have the numbers 0 to {}",
                        topology.switches() - 1
                    ),
                    false => format!("there are {}", names.join(", ")),
                };
                section.error(
                    &found.span,
                    format!("there is no switch `{}`; {known}", found.value),
                )
            })
    };
    let stops = section.is_set("stops")?;
    if stops && !section.has("node") {
        return Err(section.error(&section.span(), "`stops` is for a `node`"));
    }
    let what = if section.has("node") {
        let most = topology.nodes() as u64 - 1;
        Broken::Node(section.own_count("node", 0, most)?.value as usize)
    } else if section.has("switch") {
        let found = section.own_texts("switch")?;
        match found.as_slice() {
            [one] => Broken::Switch(switch(section, one)?),
            _ => {
                return Err(
                    section.error(&section.span(), "a failure is of one switch: [\"left\"]")
                );
            }
        }
    } else {
        let found = section.own_texts("link")?;
        let [one, other] = found.as_slice() else {
            let wrong =
                "a link has two ends: [\"left\", \"right\"]; a node's own fails with `node`";
            return Err(section.error(&section.span(), wrong));
        };
        let (a, b) = (switch(section, one)?, switch(section, other)?);
        if !topology.joins(a, b) {
            let wrong = format!(
                "no link joins switches `{}` and `{}`",
                one.value, other.value
            );
            return Err(section.error(&one.span, wrong));
        }
        Broken::Cable(a, b)
    };
    let from = section.own_within("from", Unit::Time, MOMENTS)?;
    let to = section.own_within("to", Unit::Time, MOMENTS)?;
    if to <= from {
        let wrong = "a failure must end after it has begun";
        return Err(section.error(&section.span(), wrong));
    }
    Ok(Outage {
        what,
        from,
        to,
        stops,
    })
}

fn change(profile: &mut Links, link: LinkChange, switch: SwitchChange) {
    let set = |value: &mut u64, new: Option<u64>| *value = new.unwrap_or(*value);
    set(&mut profile.link.bytes_per_second, link.bytes_per_second);
    set(&mut profile.link.latency, link.latency);
    set(&mut profile.switch.latency, switch.latency);
    set(&mut profile.switch.buffer_bytes, switch.buffer_bytes);
    profile.switch.when_full = switch.when_full.unwrap_or(profile.switch.when_full);
}

/// A value that may be missing.
fn within(
    section: &mut Section<'_>,
    key: &str,
    unit: Unit,
    range: (u64, u64, &str),
) -> Result<Option<u64>, FileError> {
    section.optional(key, |section, key| section.own_within(key, unit, range))
}

fn link(section: &mut Section<'_>, rate: &str, latency: &str) -> Result<LinkChange, FileError> {
    Ok(LinkChange {
        bytes_per_second: within(section, rate, Unit::Rate, RATES)?,
        latency: within(section, latency, Unit::Time, LATENCIES)?,
    })
}

fn switch(section: &mut Section<'_>, latency: &str) -> Result<SwitchChange, FileError> {
    let word = |section: &mut Section<'_>, key: &str| section.own_word(key, WhenFull::WORDS);
    Ok(SwitchChange {
        latency: within(section, latency, Unit::Time, LATENCIES)?,
        buffer_bytes: within(section, "buffer", Unit::Size, BUFFERS)?,
        when_full: section
            .optional("when_full", word)?
            .map(|found| found.value),
    })
}

/// The source of values, which is for readers only.
fn source(section: &mut Section<'_>) -> Result<(), FileError> {
    section.optional("source", Section::text).map(|_| ())
}

/// A switch that the file names.
struct Named {
    name: String,
    place: Range<usize>,
    ports: u64,
    used: u64,
    change: SwitchChange,
}

/// The parts that have been connected so far.
struct Joined {
    switches: Vec<Named>,
    /// For each node its switch, the changes of its link, and the position of that in the file.
    nodes: Vec<Option<(usize, LinkChange, Range<usize>)>>,
    cables: Vec<(usize, usize, LinkChange)>,
    /// For each switch those that a cable leads to.
    neighbours: Vec<Vec<usize>>,
}

/// One end of a link.
enum End {
    Node(usize),
    Switch(usize),
}

/// Reads `[[network.switch]]` and `[[network.link]]`.
fn switches(section: &mut Section<'_>, nodes: usize) -> Result<(Topology, Vec<String>), FileError> {
    let mut joined = Joined {
        switches: Vec::new(),
        nodes: (0..nodes).map(|_| None).collect(),
        cables: Vec::new(),
        neighbours: Vec::new(),
    };
    let mut sections = section.sections("switch")?;
    if sections.len() as u64 > MOST {
        let wrong = format!("there may be {MOST} switches");
        return Err(section.error(&section.span(), wrong));
    }
    for one in &mut sections {
        let named = joined.named(one)?;
        joined.switches.push(named);
        joined.neighbours.push(Vec::new());
    }
    for (number, mut one) in sections.into_iter().enumerate() {
        if one.has("nodes") {
            for found in one.own_texts("nodes")? {
                for node in joined.range(&one, &found.value, &found.span)? {
                    joined.attach(&one, node, number, LinkChange::default(), &found.span)?;
                }
            }
        }
        one.finish()?;
    }
    if section.has("link") {
        for mut one in section.sections("link")? {
            joined.link(&mut one)?;
            one.finish()?;
        }
    }
    let names = joined.switches.iter().map(|one| one.name.clone()).collect();
    Ok((joined.finish(section)?, names))
}

impl Joined {
    /// Reads a switch, without the nodes on it.
    fn named(&self, section: &mut Section<'_>) -> Result<Named, FileError> {
        let name = section.text("name")?;
        if name.value.trim().is_empty() || name.value.starts_with("node ") {
            let wrong = "a switch's name must not be empty, nor begin with \"node \"";
            return Err(section.error(&name.span, wrong));
        }
        if let Some(other) = self.switches.iter().find(|other| other.name == name.value) {
            let wrong = format!(
                "there is a switch `{}` already, on line {}; each needs a name of its own",
                name.value,
                section.line(&other.place)
            );
            return Err(section.error(&name.span, wrong));
        }
        let ports = section.count_or("ports", 1, MOST, u64::MAX)?;
        source(section)?;
        Ok(Named {
            name: name.value,
            place: name.span,
            ports,
            used: 0,
            change: switch(section, "latency")?,
        })
    }

    /// The nodes of a text such as `3` or `0-7`.
    fn range(
        &self,
        section: &Section<'_>,
        text: &str,
        place: &Range<usize>,
    ) -> Result<std::ops::RangeInclusive<usize>, FileError> {
        let count = self.nodes.len();
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last && last < count => Ok(first..=last),
            _ => {
                let wrong = format!(
                    "`{text}` names no nodes; the workload has nodes 0 to {}, written 3 or \"0-{}\"",
                    count - 1,
                    count - 1
                );
                Err(section.error(place, wrong))
            }
        }
    }

    fn take_port(
        &mut self,
        section: &Section<'_>,
        switch: usize,
        place: &Range<usize>,
    ) -> Result<(), FileError> {
        let named = &mut self.switches[switch];
        named.used += 1;
        match named.used <= named.ports {
            true => Ok(()),
            false => {
                let wrong = format!(
                    "switch `{}` (line {}) has {} ports, and this takes one more",
                    named.name,
                    section.line(&named.place),
                    named.ports
                );
                Err(section.error(place, wrong))
            }
        }
    }

    fn attach(
        &mut self,
        section: &Section<'_>,
        node: usize,
        switch: usize,
        link: LinkChange,
        place: &Range<usize>,
    ) -> Result<(), FileError> {
        if let Some((other, _, before)) = &self.nodes[node] {
            let wrong = format!(
                "node {node} is attached to switch `{}` already (line {}); it can be attached to one only",
                self.switches[*other].name,
                section.line(before)
            );
            return Err(section.error(place, wrong));
        }
        self.take_port(section, switch, place)?;
        self.nodes[node] = Some((switch, link, place.clone()));
        Ok(())
    }

    fn end(
        &self,
        section: &Section<'_>,
        text: &str,
        place: &Range<usize>,
    ) -> Result<End, FileError> {
        if let Some(number) = text.strip_prefix("node ") {
            let nodes = self.range(section, number, place)?;
            if nodes.clone().count() > 1 {
                return Err(section.error(place, "a link has one node at its end"));
            }
            return Ok(End::Node(*nodes.start()));
        }
        let found = self.switches.iter().position(|one| one.name == text);
        found.map(End::Switch).ok_or_else(|| {
            let names: Vec<String> = self
                .switches
                .iter()
                .take(16)
                .map(|one| format!("`{}`", one.name))
                .collect();
            let wrong = format!(
                "there is no switch `{text}`; there are {}; a node is written \"node 3\"",
                names.join(", ")
            );
            section.error(place, wrong)
        })
    }

    /// Reads `[[network.link]]`.
    fn link(&mut self, section: &mut Section<'_>) -> Result<(), FileError> {
        let ends = section.own_texts("ends")?;
        let change = link(section, "rate", "latency")?;
        source(section)?;
        let place = section.span();
        let [a, b] = ends.as_slice() else {
            let wrong = "a link has two ends: two switches, or a node and a switch";
            return Err(section.error(&place, wrong));
        };
        match (
            self.end(section, &a.value, &a.span)?,
            self.end(section, &b.value, &b.span)?,
        ) {
            (End::Node(node), End::Switch(switch)) | (End::Switch(switch), End::Node(node)) => {
                self.attach(section, node, switch, change, &a.span)
            }
            (End::Node(_), End::Node(_)) => {
                let wrong = "a link joins two switches, or a node and a switch; not two nodes";
                Err(section.error(&a.span, wrong))
            }
            (End::Switch(one), End::Switch(other)) => {
                if let Some(way) = self.way(one, other) {
                    let names: Vec<String> = way
                        .iter()
                        .map(|&switch| format!("`{}`", self.switches[switch].name))
                        .collect();
                    let wrong = format!(
                        "this link closes a cycle: {} are joined already; links between switches must form a tree, as \
                         stopped senders could wait for each other around a cycle for ever. Leave one of them out",
                        names.join(" - ")
                    );
                    return Err(section.error(&a.span, wrong));
                }
                self.take_port(section, one, &a.span)?;
                self.take_port(section, other, &b.span)?;
                self.cables.push((one, other, change));
                self.neighbours[one].push(other);
                self.neighbours[other].push(one);
                Ok(())
            }
        }
    }

    /// For each switch that is connected with `to` the next one on the way there, which for `to` is itself.
    fn next_towards(&self, to: usize) -> Vec<Option<usize>> {
        let mut next: Vec<Option<usize>> = vec![None; self.switches.len()];
        next[to] = Some(to);
        let mut to_visit = VecDeque::from([to]);
        while let Some(here) = to_visit.pop_front() {
            for &other in &self.neighbours[here] {
                if next[other].is_none() {
                    next[other] = Some(here);
                    to_visit.push_back(other);
                }
            }
        }
        next
    }

    /// The switches on the way between two, if they are connected.
    fn way(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let next = self.next_towards(to);
        let mut way = vec![from];
        let mut here = from;
        while let Some(further) = next[here] {
            if further == here {
                return Some(way);
            }
            way.push(further);
            here = further;
        }
        None
    }

    fn finish(self, section: &Section<'_>) -> Result<Topology, FileError> {
        let apart = self.next_towards(0).iter().position(Option::is_none);
        if let Some(apart) = apart {
            let wrong = format!(
                "no links lead from switch `{}` to switch `{}`; all switches must be connected",
                self.switches[apart].name, self.switches[0].name
            );
            return Err(section.error(&self.switches[apart].place, wrong));
        }
        let alone: Vec<String> = (0..self.nodes.len())
            .filter(|&node| self.nodes[node].is_none())
            .map(|node| node.to_string())
            .collect();
        if !alone.is_empty() {
            let more = match alone.len() {
                0..=8 => String::new(),
                all => format!(" and {} more", all - 8),
            };
            let wrong = format!(
                "each of the workload's {} nodes must be attached to a switch, by its `nodes` or by a link; these are not: {}{more}",
                self.nodes.len(),
                alone[..alone.len().min(8)].join(", ")
            );
            return Err(section.error(&self.switches[0].place, wrong));
        }
        let nodes: Vec<(usize, LinkChange)> = self
            .nodes
            .into_iter()
            .flatten()
            .map(|(switch, link, _)| (switch, link))
            .collect();
        let switch_of = nodes.iter().map(|&(switch, _)| switch).collect();
        let cables: Vec<(usize, usize)> = self.cables.iter().map(|&(a, b, _)| (a, b)).collect();
        let refused = |error: TopologyError| section.error(&section.span(), error.to_string());
        let mut tree = Topology::tree(switch_of, self.switches.len(), &cables).map_err(refused)?;
        for (node, (_, link)) in nodes.into_iter().enumerate() {
            tree.change_node_link(node, link);
        }
        for (a, b, link) in self.cables {
            tree.change_cable(a, b, link);
        }
        for (number, named) in self.switches.into_iter().enumerate() {
            tree.change_switch(number, named.change);
        }
        Ok(tree)
    }
}
