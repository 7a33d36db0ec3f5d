//! Operations and their states.
//!
//! ```text
//! receive   Posted ─► Matched ─► Pulling ────────────────────────────► Done
//!              │         └─────► ToClear ─► Cleared ─► (ToClear …) ──► Done
//!              ├──────────────────────────────────────────────────────► Done   (the sender has written: it was offered)
//!              └────► Retracting ─────────────────────────────────────► Done   (it was offered, and is cancelled)
//! send      Queued ─► Held ───────────────────────────────────────────► Done   (sent whole, and the method has let it wait)
//!              ├────► ToAnnounce ─► Announced ─► ToPush ─► Pushing ──► Done
//!              │                        └────────────────────────────► Done   (the receiver has read)
//!              └────► ToWrite ─► Writing ─────────────────────────────► Done   (or Queued again)
//! parts     of a receive: Matched as Collecting, of a send: Announced ─► SendingParts, both ─► Done
//! transfer  ToMove ─► Moving ────────────────────────────────────────► Done
//! ```
//! A receive whose message comes whole is `Placed` while a method writes its bytes into the memory.
//! Eager sends whose packets leave at once, and receives that find their message, skip all of it. `Finishing` comes before `Done`
//! while exports of the operation's memory are being ended.

use causeway_sys::memory::HeldSpan;
use causeway_transport::{Cursor, Direction};
use causeway_wire::bmi::{Announcement, Clearance, Offer};
use causeway_wire::region::Regions;
pub(crate) use causeway_wire::watch::OpKind;

use crate::fragments::Fragments;
use crate::lists::{Linked, Links, NONE};
use crate::types::{OpError, Tag};

/// An operation. The fields that every small message needs come first, in three cache lines
/// together with what the table of operations keeps before them: a receiver touches all of them for
/// each message.
#[repr(C)]
pub(crate) struct Op {
    /// In the conversation's list unless it is [`State::Posted`]; once done, in its completion
    /// queue.
    pub(crate) links: Links,
    /// [`NONE`] for a receive that any of several peers may satisfy, until one has.
    pub(crate) peer: u32,
    /// The completion queue.
    pub(crate) queue: u32,
    pub(crate) user: u64,
    pub(crate) tag: Tag,
    /// Size of the memory in bytes; of a receive, its room.
    pub(crate) size: u64,
    /// Bytes that were moved, in parts or in total once it is done.
    pub(crate) moved: u64,
    /// Why it has failed.
    pub(crate) error: Option<Box<OpError>>,
    /// The one fragment of a receive whose message has not arrived, by a shared reference
    /// ([`Shared::references`](crate::shared::Shared::references)).
    pub(crate) held: HeldSpan,
    pub(crate) kind: OpKind,
    /// A receive that messages of several peers may satisfy.
    pub(crate) any_peer: bool,
    /// A send that counts towards the limit of announcements at the peer.
    pub(crate) announced: bool,
    /// A send that is done only when its receive has been found: it is announced even if it is
    /// small.
    pub(crate) synchronous: bool,
    /// A receive into whose memory the sender may write before it has announced a message.
    pub(crate) offered: bool,
    /// The other side has cancelled; what is in progress decides whether that was in time. Of an announced send: it was recalled.
    pub(crate) withdrawn: bool,
    /// Its transfer is among those that wait to be started.
    pub(crate) queued: bool,
    /// The end of the moved bytes within the fragments.
    pub(crate) cursor: Cursor,
    pub(crate) fragments: Fragments,
    /// Keys under which the memory is exported to the peer.
    pub(crate) exports: Vec<u64>,
    pub(crate) state: State,
}

impl Linked for Op {
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// See the module's page. (The representation puts the discriminant first.)
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// A receive that waits for its message; it is in the matcher.
    Posted,
    /// A receive with its message, which is still at the sender.
    Matched(Incoming),
    /// This side reads the message.
    Pulling(Incoming),
    /// The method is writing a whole message of `size` bytes into the memory.
    Placed { size: u64 },
    /// A part of the memory is to be exported to the sender.
    ToClear(Incoming),
    /// The sender may write up to byte `end`.
    Cleared { incoming: Incoming, end: u64 },
    /// Parts of a receive's message arrive in packets, in order.
    Collecting(Incoming),
    /// A send in the peer's queue.
    Queued,
    /// A send whose packet the method has accepted, and not sent: no byte of it is left in the
    /// caller's memory. At most one for each peer. Later sends to the same peer are done at once
    /// although the method holds their packets, too: this one is not done before all have left.
    Held,
    /// A send whose memory is to be exported to the receiver.
    ToAnnounce { starved: bool },
    /// The peer has been sent the announcement.
    Announced,
    /// The message is being sent in parts to this receive.
    SendingParts { receive: u64 },
    /// The peer's memory has been exported; the send waits to be started.
    ToPush(Clearance),
    /// This side writes up to byte `end`.
    Pushing { receive: u64, end: u64 },
    /// A send that is to be written into an offered receive; it waits to be started.
    ToWrite(Offer),
    /// This side writes it.
    Writing(Offer),
    /// A receive that was offered, and is cancelled: the sender has yet to reply whether it has
    /// written.
    Retracting,
    /// A transfer that waits to be started.
    ToMove(Remote),
    /// A transfer in progress.
    Moving,
    /// Exports of its memory are being ended.
    Finishing,
    /// It can be tested for: it has moved [`Op::moved`] bytes, or has an [`Op::error`].
    Done,
}

/// A message that is still at its sender.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) announcement: Announcement,
    pub(crate) from_busy_server: bool,
    /// The sender sends it in parts.
    pub(crate) in_parts: bool,
}

/// The far side of a transfer.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) direction: Direction,
    pub(crate) regions: Regions,
}

/// An unused operation, which [`Op::renew`] turns into a new one.
impl Default for Op {
    fn default() -> Self {
        Self {
            links: Links::default(),
            kind: OpKind::Receive,
            peer: NONE,
            any_peer: false,
            queue: 0,
            user: 0,
            tag: 0,
            fragments: Fragments::None,
            held: HeldSpan::default(),
            error: None,
            size: 0,
            state: State::Finishing,
            exports: Vec::new(),
            moved: 0,
            cursor: Cursor::default(),
            announced: false,
            synchronous: false,
            offered: false,
            withdrawn: false,
            queued: false,
        }
    }
}

impl Op {
    /// Changes the state to `Posted`, mostly from a state without data: then nothing has to be
    /// dropped, and it is a single store.
    #[inline(always)]
    pub(crate) fn wait_for_message(&mut self) {
        self.leave_state(State::Posted);
    }

    /// Likewise to `Done`.
    #[inline(always)]
    pub(crate) fn mark_done(&mut self) {
        self.leave_state(State::Done);
    }

    /// (Assigning would call a function that drops the former state, even where there is nothing to drop: ten
    /// instructions for each message, twice.)
    #[inline(always)]
    fn leave_state(&mut self, next: State) {
        if !matches!(self.state, State::Posted | State::Finishing | State::Done) {
            self.drop_state();
        }
        // These three own nothing.
        std::mem::forget(std::mem::replace(&mut self.state, next));
    }

    #[cold]
    #[inline(never)]
    fn drop_state(&mut self) {
        self.state = State::Finishing;
    }

    /// Turns a blank or finished operation, which has no memory any more, into a new one, in place:
    /// it is too large to be copied for each message. The caller sets its memory and its state.
    #[inline(always)]
    pub(crate) fn renew(
        &mut self,
        kind: OpKind,
        peer: u32,
        (queue, user): (u32, u64),
        tag: Tag,
        size: u64,
    ) {
        self.kind = kind;
        self.peer = peer;
        self.queue = queue;
        self.user = user;
        self.tag = tag;
        self.size = size;
        self.exports.clear();
        self.moved = 0;
        self.cursor = Cursor::default();
        self.announced = false;
        self.synchronous = false;
        self.offered = false;
        self.withdrawn = false;
        self.queued = false;
        self.any_peer = false;
    }
}
