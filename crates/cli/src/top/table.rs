//! A sample of all processes, as lines for people and as JSON.

use causeway_report::style::{Style, paint};
use causeway_report::table::line_up;
use causeway_watch::text::{age, bytes};
use causeway_wire::watch::{
    Count, InstanceRow, OpKind, PeerRow, PhaseCode, WaitReason, Waiting, ends,
};
use serde_json::{Value, json};

use super::sample::{Peer, Process, Rate, Sample};

/// Widest name of a process and of a peer.
const MOST_NAME: usize = 36;
const MOST_ADDRESS: usize = 40;
/// Shorter waits are normal and not shown.
const SHORTEST_WAIT_NS: u64 = 100_000_000;
/// Columns that keep their width while their figures change.
const STEADY_PROCESS: [usize; 13] = [5, 8, 5, 5, 10, 5, 10, 4, 8, 5, 7, 7, 0];
const STEADY: [usize; 12] = [5, 0, 0, 5, 10, 9, 5, 10, 9, 9, 0, 0];

/// A line and its style.
pub(super) struct Line {
    pub(super) text: String,
    pub(super) style: Option<Style>,
}

impl Line {
    fn new(text: impl Into<String>, style: Option<Style>) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }

    /// The line as it is written to a terminal.
    pub(super) fn painted(&self) -> String {
        match self.style {
            Some(style) => paint(&self.text, style),
            None => self.text.clone(),
        }
    }
}

/// The whole table, most interesting rows first.
pub(super) fn lines(sample: &Sample) -> Vec<Line> {
    let mut lines = processes(sample);
    lines.push(Line::new("", None));
    lines.extend(peers(sample));
    let missing: u64 = sample.processes.iter().map(|p| p.missing_rows).sum();
    if missing > 0 {
        lines.push(Line::new(
            format!("({missing} more peers have no room in their process's page)"),
            None,
        ));
    }
    lines
}

fn cells<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn processes(sample: &Sample) -> Vec<Line> {
    let mut rows = vec![cells([
        "PID", "STATE", "PEERS", "IN/s", "B/s", "OUT/s", "B/s", "OPS", "EARLY", "UNEXP", "REFUSED",
        "SEEN", "PROCESS",
    ])];
    let sum = |process: &Process, of: fn(&InstanceRow) -> u64| -> u64 {
        process.instances.iter().map(of).sum()
    };
    for process in &sample.processes {
        let seen = process.instances.iter().map(|row| row.published_ns).max();
        rows.push(vec![
            process.pid.to_string(),
            process.state.text().to_owned(),
            sum(process, |row| row.peers.into()).to_string(),
            messages(process.received),
            rate(process.received),
            messages(process.sent),
            rate(process.sent),
            sum(process, |row| row.operations.into()).to_string(),
            bytes(sum(process, |row| row.early_bytes)),
            sum(process, |row| row.unexpected_waiting.into()).to_string(),
            sum(process, |row| row.refused.into()).to_string(),
            seen.map_or_else(|| "-".to_owned(), |at| age(sample.at_ns.saturating_sub(at))),
            ends(&process.name, MOST_NAME),
        ]);
    }
    let lines = line_up(&rows, &[0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], &STEADY_PROCESS);
    let style = |index: usize| (index == 0).then_some(Style::Bold);
    let lines = lines.into_iter().enumerate();
    lines
        .map(|(index, text)| Line::new(text, style(index)))
        .collect()
}

/// The peers of all processes, stalled ones first, then by traffic.
fn peers(sample: &Sample) -> Vec<Line> {
    let mut all: Vec<(&Process, &Peer)> = sample
        .processes
        .iter()
        .flat_map(|process| process.peers.iter().map(move |peer| (process, peer)))
        .collect();
    all.sort_by(|(_, one), (_, two)| {
        let traffic = |peer: &Peer| peer.received.bytes + peer.sent.bytes;
        let messages = |peer: &Peer| peer.received.messages + peer.sent.messages;
        let ahead = two.row.stalled.cmp(&one.row.stalled);
        ahead
            .then(traffic(two).total_cmp(&traffic(one)))
            .then(messages(two).total_cmp(&messages(one)))
    });
    let mut rows = vec![cells([
        "PID", "PEER", "STATE", "IN/s", "B/s", "SIZE", "OUT/s", "B/s", "SIZE", "CREDIT", "QUEUED",
        "WAITS",
    ])];
    let mut styles = vec![Some(Style::Bold)];
    for (process, peer) in all {
        rows.push(peer_cells(sample, process, peer));
        styles.push(peer.row.stalled.then_some(Style::Red));
    }
    let lines = line_up(&rows, &[0, 3, 4, 5, 6, 7, 8, 9], &STEADY);
    lines
        .into_iter()
        .zip(styles)
        .map(|(text, style)| Line::new(text, style))
        .collect()
}

fn peer_cells(sample: &Sample, process: &Process, peer: &Peer) -> Vec<String> {
    let row = &peer.row;
    let mut address = ends(&row.address, MOST_ADDRESS);
    if row.pid != 0 {
        address.push_str(&format!(" ({})", row.pid));
    }
    let waits = row
        .waiting
        .filter(|waiting| sample.at_ns.saturating_sub(waiting.since_ns) >= SHORTEST_WAIT_NS)
        .map_or_else(String::new, |waiting| wait(&waiting, sample.at_ns));
    vec![
        process.pid.to_string(),
        address,
        phase(row).to_owned(),
        messages(peer.received),
        rate(peer.received),
        size(peer.received),
        messages(peer.sent),
        rate(peer.sent),
        size(peer.sent),
        format!("{}/{}", short(row.credit), short(row.window)),
        queued(row),
        waits,
    ]
}

fn short(bytes: u32) -> String {
    if bytes < 1024 {
        bytes.to_string()
    } else {
        format!("{}K", bytes / 1024)
    }
}

fn messages(rate: Rate) -> String {
    match rate.messages {
        0.0 => "-".to_owned(),
        few if few < 10.0 => format!("{few:.1}"),
        some if some < 1e4 => format!("{some:.0}"),
        many if many < 1e6 => format!("{:.0}k", many / 1e3),
        more => format!("{:.1}M", more / 1e6),
    }
}

fn rate(rate: Rate) -> String {
    match rate.bytes {
        0.0 => "-".to_owned(),
        some => bytes(some as u64),
    }
}

/// The average message.
fn size(rate: Rate) -> String {
    match rate.messages {
        0.0 => "-".to_owned(),
        messages => bytes((rate.bytes / messages) as u64),
    }
}

fn phase(row: &PeerRow) -> &'static str {
    match row.phase {
        PhaseCode::Closed => "closed",
        PhaseCode::Connecting => "connecting",
        PhaseCode::Up if row.blocked => "full",
        PhaseCode::Up => "up",
        PhaseCode::Falling => "falling",
        PhaseCode::Gone => "gone",
    }
}

/// The queues that are not empty.
fn queued(row: &PeerRow) -> String {
    let depths = [
        (row.sends, "send"),
        (row.unexpected_sends, "unexp"),
        (row.announced, "announced"),
        (row.receives, "recv"),
        (row.transfers, "moving"),
        (row.early, "early"),
        (row.unexpected, "waiting"),
    ];
    let deep = depths.iter().filter(|(depth, _)| *depth > 0);
    let deep: Vec<String> = deep
        .map(|(depth, what)| format!("{depth} {what}"))
        .collect();
    if deep.is_empty() {
        "-".to_owned()
    } else {
        deep.join(", ")
    }
}

fn kind(waiting: &Waiting) -> &'static str {
    match waiting.kind {
        OpKind::Receive => "receive",
        OpKind::Send => "send",
        OpKind::SendUnexpected => "unexpected send",
        OpKind::Transfer => "transfer",
        OpKind::Fetch => "fetch",
    }
}

fn why(waiting: &Waiting) -> &'static str {
    match waiting.why {
        WaitReason::Connection => "the connection",
        WaitReason::Room => "room in the ring or socket",
        WaitReason::Credit => "credit",
        WaitReason::Queue => "earlier sends",
        WaitReason::Announcements => "receives of earlier messages",
        WaitReason::Receive => "the peer's receive",
        WaitReason::Message => "a message",
        WaitReason::Write => "the peer to write",
        WaitReason::TransferSlot => "its turn",
        WaitReason::Transfer => "the transfer",
        WaitReason::Ending => "the end of exports",
    }
}

fn wait(waiting: &Waiting, now_ns: u64) -> String {
    let moved = match waiting.moved {
        0 => String::new(),
        moved => format!(" {} of", bytes(moved)),
    };
    format!(
        "{} {} of{moved} {} tag {} for {}",
        age(now_ns.saturating_sub(waiting.since_ns)),
        kind(waiting),
        bytes(waiting.size),
        waiting.tag,
        why(waiting)
    )
}

/// The sample as JSON.
pub(super) fn json(sample: &Sample) -> Value {
    let seconds = |at_ns: u64| sample.at_ns.saturating_sub(at_ns) as f64 / 1e9;
    let processes = sample.processes.iter().map(|process| {
        let instances = process.instances.iter().map(|row| {
            let own = |peer: &&Peer| peer.row.instance == row.instance;
            let peers = process.peers.iter().filter(own);
            json!({
                "instance": row.instance, "listening": row.listening, "operations": row.operations, "refused": row.refused,
                "transfers": row.transfers, "received": count(row.received), "sent": count(row.sent),
                "unexpected_waiting": row.unexpected_waiting, "early_bytes": row.early_bytes,
                "early_limit": row.early_limit, "stall_after_ms": row.stall_after_ms,
                "seen_s_ago": seconds(row.published_ns),
                "peers": peers.map(|peer| peer_json(peer, &seconds)).collect::<Vec<_>>() })
        });
        json!({
            "pid": process.pid, "name": process.name, "state": process.state.text(),
            "age_s": seconds(process.started_ns), "missing_rows": process.missing_rows,
            "instances": instances.collect::<Vec<_>>() })
    });
    json!({ "processes": processes.collect::<Vec<_>>(), "not_allowed": sample.not_allowed,
        "troubles": sample.errors })
}

fn count(count: Count) -> Value {
    json!({ "number": count.number, "bytes": count.bytes })
}

fn peer_json(peer: &Peer, seconds: &impl Fn(u64) -> f64) -> Value {
    let row = &peer.row;
    let rate = |rate: Rate| json!({ "messages_per_s": rate.messages, "bytes_per_s": rate.bytes });
    json!({
        "address": row.address, "pid": (row.pid != 0).then_some(row.pid), "state": phase(row),
        "outbound": row.outbound, "blocked": row.blocked, "stalled": row.stalled,
        "stall_reports": row.reports, "in": rate(peer.received), "out": rate(peer.sent),
        "sent": count(row.sent), "sent_large": count(row.sent_large),
        "received": count(row.received), "received_large": count(row.received_large),
        "moved": count(row.moved), "credit": row.credit, "window": row.window,
        "granted": row.granted, "held": row.held,
        "queued": { "sends": row.sends, "unexpected_sends": row.unexpected_sends,
            "announced": row.announced, "receives": row.receives, "transfers": row.transfers,
            "early": row.early, "unexpected": row.unexpected },
        "seen_s_ago": seconds(row.published_ns),
        "waiting": row.waiting.map(|waiting| json!({
            "operation": kind(&waiting), "for": why(&waiting), "tag": waiting.tag,
            "size": waiting.size, "moved": waiting.moved,
            "age_s": seconds(waiting.since_ns) })) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_watch::process::State;

    fn peer(address: &str, bytes: f64, stalled: bool) -> Peer {
        Peer {
            row: PeerRow {
                instance: 0,
                peer: 0,
                phase: PhaseCode::Up,
                outbound: true,
                blocked: false,
                stalled,
                pid: 4242,
                reports: 0,
                sent: Count::default(),
                sent_large: Count::default(),
                received: Count::default(),
                received_large: Count::default(),
                moved: Count::default(),
                credit: 12 << 10,
                window: 64 << 10,
                granted: 0,
                held: 0,
                sends: 3,
                unexpected_sends: 0,
                announced: 1,
                receives: 0,
                transfers: 0,
                early: 0,
                unexpected: 0,
                published_ns: 0,
                progress_ns: 0,
                waiting: Some(Waiting {
                    kind: OpKind::Send,
                    why: WaitReason::Receive,
                    tag: 7,
                    size: 4 << 20,
                    moved: 0,
                    since_ns: 1_000_000_000,
                }),
                address: address.to_owned(),
            },
            received: Rate {
                messages: bytes / 100.0,
                bytes,
            },
            sent: Rate::default(),
        }
    }

    fn sample(peers: Vec<Peer>) -> Sample {
        Sample {
            processes: vec![Process {
                pid: 99,
                name: "program".to_owned(),
                state: State::Sleeping,
                started_ns: 0,
                missing_rows: 2,
                received: Rate::default(),
                sent: Rate::default(),
                instances: vec![InstanceRow::default()],
                peers,
            }],
            at_ns: 11_200_000_000,
            not_allowed: 0,
            errors: Vec::new(),
        }
    }

    #[test]
    fn stalled_peers_come_first_then_the_busiest() {
        let sample = sample(vec![
            peer("shm://quiet", 0.0, false),
            peer("shm://busy", 1e6, false),
            peer("shm://stuck", 0.0, true),
        ]);
        let lines = lines(&sample);
        let at = |name: &str| lines.iter().position(|line| line.text.contains(name));
        assert!(at("stuck") < at("busy") && at("busy") < at("quiet"));
        let stuck = at("stuck").map(|index| &lines[index]).expect("a line");
        assert!(matches!(stuck.style, Some(Style::Red)));
        assert_eq!(
            stuck.text.split_whitespace().collect::<Vec<_>>().join(" "),
            "99 shm://stuck (4242) up - - - - - - 12K/64K 3 send, 1 announced 10.2 s send of 4.0 MiB \
             tag 7 for the peer's receive"
        );
        let busy = at("busy").map(|index| &lines[index].text).expect("a line");
        assert!(busy.contains("10k") && busy.contains("976.6 KiB") && busy.contains("100 B"));
        assert!(
            lines
                .last()
                .is_some_and(|line| line.text.contains("2 more peers"))
        );
    }

    #[test]
    fn programs_get_the_same() {
        let json = json(&sample(vec![peer("shm://stuck", 0.0, true)]));
        let peer = &json["processes"][0]["instances"][0]["peers"][0];
        assert_eq!(peer["stalled"], true);
        assert_eq!(peer["queued"]["sends"], 3);
        assert_eq!(peer["waiting"]["for"], "the peer's receive");
        assert_eq!(peer["waiting"]["age_s"], 10.2);
    }
}
