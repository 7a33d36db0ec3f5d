//! Rows of the page: one for each instance of the message layer, one for each of its peers.

use alloc::string::String;
use alloc::vec::Vec;

use super::layout::ROW_BODY_BYTES;
use super::text::{ends, text_in};
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within, zero};

/// Most bytes of a peer's address; longer ones lose their middle.
pub const MAX_ADDRESS: usize = 52;
/// Most bytes of the addresses that an instance listens at.
pub const MAX_LISTENING: usize = 160;

const PEER_FIXED_BYTES: usize = 196;
const INSTANCE_FIXED_BYTES: usize = 88;
const _: () = {
    assert!(PEER_FIXED_BYTES + MAX_ADDRESS == ROW_BODY_BYTES);
    assert!(INSTANCE_FIXED_BYTES + MAX_LISTENING <= ROW_BODY_BYTES);
};

const INSTANCE: u8 = 1;
const PEER: u8 = 2;

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// An instance of the message layer.
    Instance(InstanceRow),
    /// One of its peers.
    Peer(PeerRow),
}

/// The status of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceRow {
    /// Its number in the process.
    pub instance: u32,
    /// Peers in its table, connected or not.
    pub peers: u32,
    /// Operations in progress or waiting to be tested for.
    pub operations: u32,
    /// Remote-memory transfers in progress.
    pub transfers: u32,
    /// Unexpected messages that wait to be taken.
    pub unexpected_waiting: u32,
    /// Bytes held for messages without a receive so far, or promised to peers for such messages.
    pub early_bytes: u64,
    /// Most such bytes.
    pub early_limit: u64,
    /// How long an operation may make no progress before it is reported, in ms; 0 never reports.
    pub stall_after_ms: u64,
    /// When this row was written, by the monotonic clock.
    pub published_ns: u64,
    /// Messages received from all peers, including former ones.
    pub received: Count,
    /// Messages sent to all peers.
    pub sent: Count,
    /// Requests that a server has refused because of a missing right, 65535 if there were more; 0
    /// in pages of format 1.
    pub refused: u16,
    /// The addresses that it listens at.
    pub listening: String,
}

/// Messages, or transfers, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub number: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

codes! {
    /// The state of a peer's connection.
    pub enum PhaseCode: "phase" {
        /// Not connected.
        Closed = 1,
        /// Being connected.
        Connecting = 2,
        /// Messages may flow.
        Up = 3,
        /// Going down.
        Falling = 4,
        /// Gone for good.
        Gone = 5,
    }
}

codes! {
    /// The kind of an operation.
    pub enum OpKind: "kind of operation" {
        /// A receive.
        Receive = 1,
        /// A send.
        Send = 2,
        /// A send of an unexpected message.
        SendUnexpected = 3,
        /// A transfer of remote memory.
        Transfer = 4,
        /// Fetching a large unexpected message.
        Fetch = 5,
    }
}

codes! {
    /// The reason of an operation's wait.
    pub enum WaitReason: "reason to wait" {
        /// The connection.
        Connection = 1,
        /// Room in the method: its ring or socket is full.
        Room = 2,
        /// Credit of the peer.
        Credit = 3,
        /// Earlier sends in the queue.
        Queue = 4,
        /// The peer to match earlier announcements.
        Announcements = 5,
        /// The peer to post the receive for an announced message, or to read the message.
        Receive = 6,
        /// A message to arrive.
        Message = 7,
        /// The peer to write a message into the exported receive buffer.
        Write = 8,
        /// A transfer slot: as many transfers as allowed are in progress.
        TransferSlot = 9,
        /// The end of a transfer that is in progress.
        Transfer = 10,
        /// The end of its exports.
        Ending = 11,
    }
}

/// The operation that has waited longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// What it is.
    pub kind: OpKind,
    /// The reason of its wait.
    pub why: WaitReason,
    /// Its tag.
    pub tag: u64,
    /// Bytes of its memory.
    pub size: u64,
    /// Bytes of them that were moved.
    pub moved: u64,
    /// Since when it makes no progress, by the monotonic clock.
    pub since_ns: u64,
}

/// The status of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRow {
    /// The instance that has this peer.
    pub instance: u32,
    /// Its number there.
    pub peer: u32,
    /// The state of the connection.
    pub phase: PhaseCode,
    /// This process looked the peer up; otherwise the peer connected to it.
    pub outbound: bool,
    /// The method has no room for it.
    pub blocked: bool,
    /// The wait was reported in the log as a stall.
    pub stalled: bool,
    /// Its process id, if it is a process of this host; 0 if that is not known.
    pub pid: u32,
    /// Lines about stalls so far.
    pub reports: u32,
    /// Messages sent whole.
    pub sent: Count,
    /// Messages sent by rendezvous.
    pub sent_large: Count,
    /// Messages that came whole.
    pub received: Count,
    /// Messages that came by rendezvous.
    pub received_large: Count,
    /// Transfers of remote memory.
    pub moved: Count,
    /// Bytes that may be sent before the peer matches its held messages.
    pub credit: u32,
    /// The largest possible value of this.
    pub window: u32,
    /// Bytes that the peer may send.
    pub granted: u32,
    /// Bytes of its messages that no receive has matched yet.
    pub held: u32,
    /// Sends that wait.
    pub sends: u32,
    /// Unexpected sends that wait.
    pub unexpected_sends: u32,
    /// Announcements to the peer that it has not matched.
    pub announced: u32,
    /// Receives in progress.
    pub receives: u32,
    /// Transfers in progress.
    pub transfers: u32,
    /// Its expected messages that wait for a receive.
    pub early: u32,
    /// Its unexpected messages that wait to be taken.
    pub unexpected: u32,
    /// When this row was written, by the monotonic clock.
    pub published_ns: u64,
    /// When something was last received from the peer or sent to it, as far as was observed, by the monotonic clock.
    pub progress_ns: u64,
    /// The operation that has waited longest, if there is any.
    pub waiting: Option<Waiting>,
    /// Its address.
    pub address: String,
}

record! { Count { number: u64, bytes: u64 } }

impl Row {
    /// The bytes behind the version word.
    pub fn encode(&self) -> [u8; ROW_BODY_BYTES] {
        let (fixed, text) = match self {
            Self::Instance(row) => row.encode(),
            Self::Peer(row) => row.encode(),
        };
        let mut body = [0; ROW_BODY_BYTES];
        body[..fixed.len()].copy_from_slice(&fixed);
        body[fixed.len()..][..text.len()].copy_from_slice(text.as_bytes());
        body
    }

    /// Reads what [`Row::encode`] writes. The bytes are not trusted.
    pub fn decode(body: &[u8; ROW_BODY_BYTES]) -> Result<Self, Malformed> {
        let mut input = Reader::new(body);
        match input.u8("kind of row")? {
            INSTANCE => {
                InstanceRow::decode(input, &body[INSTANCE_FIXED_BYTES..]).map(Self::Instance)
            }
            PEER => PeerRow::decode(input, &body[PEER_FIXED_BYTES..]).map(Self::Peer),
            other => unknown("kind of row", other),
        }
    }
}

impl InstanceRow {
    fn encode(&self) -> (Vec<u8>, String) {
        let text = ends(&self.listening, MAX_LISTENING);
        let mut out = Writer::new();
        out.u8(INSTANCE);
        out.u8(text.len() as u8);
        out.u16(self.refused);
        out.u32(self.instance);
        out.u32(self.peers);
        out.u32(self.operations);
        out.u32(self.transfers);
        out.u32(self.unexpected_waiting);
        out.u64(self.early_bytes);
        out.u64(self.early_limit);
        out.u64(self.stall_after_ms);
        out.u64(self.published_ns);
        self.received.encode(&mut out);
        self.sent.encode(&mut out);
        (out.finish(), text)
    }

    fn decode(mut input: Reader<'_>, text: &[u8]) -> Result<Self, Malformed> {
        let len = usize::from(input.u8("length of the addresses")?);
        let most = MAX_LISTENING as u64;
        within(len as u64, most, "length of the addresses")?;
        Ok(Self {
            refused: input.u16("refused requests")?,
            instance: input.u32("instance")?,
            peers: input.u32("peers")?,
            operations: input.u32("operations")?,
            transfers: input.u32("transfers")?,
            unexpected_waiting: input.u32("unexpected messages")?,
            early_bytes: input.u64("early bytes")?,
            early_limit: input.u64("limit of early bytes")?,
            stall_after_ms: input.u64("stall time")?,
            published_ns: input.u64("time of writing")?,
            received: Count::decode(&mut input)?,
            sent: Count::decode(&mut input)?,
            listening: text_in(text, len, "addresses")?,
        })
    }
}

const FLAG_OUTBOUND: u8 = 1;
const FLAG_BLOCKED: u8 = 2;
const FLAG_STALLED: u8 = 4;

impl PeerRow {
    fn encode(&self) -> (Vec<u8>, String) {
        let text = ends(&self.address, MAX_ADDRESS);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut out = Writer::new();
        out.u8(PEER);
        out.u8(self.phase as u8);
        out.u8(flag(self.outbound, FLAG_OUTBOUND)
            | flag(self.blocked, FLAG_BLOCKED)
            | flag(self.stalled, FLAG_STALLED));
        out.u8(self.waiting.map_or(0, |waiting| waiting.kind as u8));
        out.u8(self.waiting.map_or(0, |waiting| waiting.why as u8));
        out.u8(text.len() as u8);
        out.u16(0);
        out.u32(self.instance);
        out.u32(self.peer);
        out.u32(self.pid);
        out.u32(self.reports);
        for count in [
            self.sent,
            self.sent_large,
            self.received,
            self.received_large,
            self.moved,
        ] {
            count.encode(&mut out);
        }
        for short in [
            self.credit,
            self.window,
            self.granted,
            self.held,
            self.sends,
            self.unexpected_sends,
            self.announced,
            self.receives,
            self.transfers,
            self.early,
            self.unexpected,
        ] {
            out.u32(short);
        }
        out.u64(self.published_ns);
        out.u64(self.progress_ns);
        let waiting = self.waiting.map_or([0; 4], |waiting| {
            [waiting.tag, waiting.size, waiting.moved, waiting.since_ns]
        });
        waiting.iter().for_each(|long| out.u64(*long));
        (out.finish(), text)
    }

    fn decode(mut input: Reader<'_>, text: &[u8]) -> Result<Self, Malformed> {
        let phase = PhaseCode::from_code(input.u8("phase")?)?;
        let flags = input.u8("flags")?;
        if flags & !(FLAG_OUTBOUND | FLAG_BLOCKED | FLAG_STALLED) != 0 {
            return unknown("flags", flags);
        }
        let (kind, why) = (input.u8("kind of operation")?, input.u8("reason to wait")?);
        let len = usize::from(input.u8("length of the address")?);
        zero(input.u16("padding")?, "padding")?;
        Ok(Self {
            phase,
            outbound: flags & FLAG_OUTBOUND != 0,
            blocked: flags & FLAG_BLOCKED != 0,
            stalled: flags & FLAG_STALLED != 0,
            instance: input.u32("instance")?,
            peer: input.u32("peer")?,
            pid: input.u32("process id")?,
            reports: input.u32("reports")?,
            sent: Count::decode(&mut input)?,
            sent_large: Count::decode(&mut input)?,
            received: Count::decode(&mut input)?,
            received_large: Count::decode(&mut input)?,
            moved: Count::decode(&mut input)?,
            credit: input.u32("credit")?,
            window: input.u32("window")?,
            granted: input.u32("granted credit")?,
            held: input.u32("bytes held")?,
            sends: input.u32("sends")?,
            unexpected_sends: input.u32("unexpected sends")?,
            announced: input.u32("announcements")?,
            receives: input.u32("receives")?,
            transfers: input.u32("transfers")?,
            early: input.u32("early messages")?,
            unexpected: input.u32("unexpected messages")?,
            published_ns: input.u64("time of writing")?,
            progress_ns: input.u64("time of progress")?,
            waiting: waiting(&mut input, kind, why)?,
            address: text_in(text, len, "address")?,
        })
    }
}

fn waiting(input: &mut Reader<'_>, kind: u8, why: u8) -> Result<Option<Waiting>, Malformed> {
    let tag = input.u64("tag")?;
    let size = input.u64("size")?;
    let moved = input.u64("bytes moved")?;
    let since_ns = input.u64("time without progress")?;
    if kind == 0 && why == 0 {
        return zero(tag | size | moved | since_ns, "padding").map(|()| None);
    }
    Ok(Some(Waiting {
        kind: OpKind::from_code(kind)?,
        why: WaitReason::from_code(why)?,
        tag,
        size,
        moved,
        since_ns,
    }))
}
