//! Schedules: [`Steps`] that were started, driven by progress. Blocking, nonblocking and persistent forms of an operation
//! are one schedule; a persistent one is started again and again.
//!
//! Steps start in their order. Sends and receives proceed concurrently until a `Step::Fence`, which waits for all before
//! it. Messages of one operation carry the operation's number on its communicator as their tag, in a context apart from
//! that of the program's messages.

use std::sync::Arc;
use std::time::Duration;

use causeway_engine::Memory;
use causeway_engine::types::{Completion, OpError, OpId, Posted, Queue};
use causeway_transport::slab::Slab;
use causeway_wire::contact::CALLS_IN_AREAS;

use crate::abi;
use crate::communicator::{Channel, Communicator, Peer};
use crate::ending::statement::{FIRST_KEPT, KEPT_TAGS};
use crate::error::{Error, Result};
use crate::matching::MpiPattern;
use crate::node::operation::Agreed;
use crate::operation;
use crate::process::{Active, FOR_EVER, POSTS, Process};
use crate::status::Status;
use crate::steps::{Step, Steps};

/// A call of one of the program's functions. The caller makes it, then calls [`Process::called`].
#[derive(Debug)]
pub struct Call {
    key: u64,
    /// The function and its arguments.
    pub operation: operation::Call,
}

/// How long a process waits for a message of an operation before it looks whether another one has given the operation up.
const BEFORE_LOOKING: Duration = Duration::from_millis(20);

/// After how long it looks again if calls are compared in shared memory: another rank's call may turn out to be another one when it is made.
const BEFORE_LOOKING_AGAIN: Duration = Duration::from_millis(100);

/// A process's notification that it has given up an operation.
#[derive(Debug)]
struct Notice {
    /// Its receive, if it is in progress.
    op: Option<OpId>,
    /// The class of the error.
    class: Memory,
    /// The matcher's number of the process.
    peer: u32,
}

#[derive(Debug)]
struct Schedule {
    steps: Vec<Step>,
    at: usize,
    communicator: usize,
    /// How messages are distinguished from those of other operations: which of a communicator's contexts it is, the
    /// number that it has here, and the tag.
    channel: Channel,
    context: u32,
    tag: u32,
    peers: Arc<[Peer]>,
    /// Sends and receives in progress, and the bytes of each message if it has to have so many.
    pending: Vec<OpId>,
    lengths: Vec<Option<u64>>,
    /// Messages have to be as long as the memory for them.
    is_exact: bool,
    /// Where in the communicator's shared memory the call was published, to be compared with the others'.
    agreed: Option<Agreed>,
    /// Another process has withdrawn a message: it has given the operation up, and says why in a message that comes next.
    is_given_up: bool,
    /// The notification that says so.
    notice: Option<Notice>,
    /// The error of each start, as another process never starts its part: it could not be made there.
    never: Option<Error>,
    /// A function of the program's is being called.
    is_calling: bool,
    error: Option<Error>,
    is_done: bool,
    /// It is kept when it is done, to be started again.
    is_kept: bool,
}

/// All schedules of a process.
#[derive(Debug)]
pub(crate) struct Schedules {
    /// The queue in which their sends and receives complete.
    queue: Queue,
    places: Slab<Option<Box<Schedule>>>,
    calls: Vec<Call>,
    /// Operations whose requests were freed.
    pub(crate) orphans: Vec<Active>,
}

impl Schedule {
    fn new(steps: Steps, among: Among, is_kept: bool) -> Box<Self> {
        let Among {
            channel,
            context,
            tag,
            peers,
        } = among;
        Box::new(Self {
            communicator: steps.communicator,
            is_exact: steps.is_exact,
            steps: steps.finished(),
            at: 0,
            channel,
            context,
            tag,
            peers,
            pending: Vec::new(),
            lengths: Vec::new(),
            agreed: None,
            is_given_up: false,
            notice: None,
            never: None,
            is_calling: false,
            error: None,
            is_done: false,
            is_kept,
        })
    }
}

impl Schedules {
    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            queue,
            places: Slab::default(),
            calls: Vec::new(),
            orphans: Vec::new(),
        }
    }

    /// Whether nothing is in progress.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.orphans.is_empty()
    }

    /// Whether a schedule is the only operation in progress.
    #[inline]
    pub(crate) fn is_only(&self, at: u32) -> bool {
        self.places.get(at).is_some() && self.places.len() == 1 && self.orphans.is_empty()
    }

    /// The sends and receives of a schedule in progress.
    fn pending(&self, at: u32) -> &[OpId] {
        let schedule = self.get(at);
        schedule.map_or(&[], |schedule| &schedule.pending)
    }

    fn add(&mut self, schedule: Box<Schedule>) -> u32 {
        self.places.insert(Some(schedule))
    }

    fn remove(&mut self, at: u32) {
        self.places.remove(at);
    }

    /// The schedule at a place.
    #[inline]
    fn get(&self, at: u32) -> Option<&Schedule> {
        self.places.get(at)?.as_deref()
    }

    /// The schedule at a place, for a change.
    #[inline]
    fn get_mut(&mut self, at: u32) -> Option<&mut Schedule> {
        self.places.get_mut(at)?.as_deref_mut()
    }

    /// The schedule that a key was made for.
    fn find(&mut self, key: u64) -> Option<(u32, &mut Schedule)> {
        let schedule = self.places.find_entry(key)?.as_deref_mut()?;
        Some((key as u32, schedule))
    }
}

/// The peers of steps, and how their messages are distinguished from others.
#[derive(Debug, Clone)]
pub(crate) struct Among {
    pub(crate) channel: Channel,
    pub(crate) context: u32,
    pub(crate) tag: u32,
    pub(crate) peers: Arc<[Peer]>,
}

/// Why a message of a schedule has failed.
#[derive(Debug)]
enum Failed {
    Message(OpError),
    /// It has another length than the memory for it.
    Length {
        came: u64,
        expected: u64,
    },
}

fn check_length(
    result: std::result::Result<u64, OpError>,
    expected: Option<u64>,
) -> std::result::Result<(), Failed> {
    let came = result.map_err(Failed::Message)?;
    match expected {
        Some(expected) if expected != came => Err(Failed::Length { came, expected }),
        _ => Ok(()),
    }
}

/// The class with which others are notified that a persistent operation is not made here: negative for those that end each start of it, if all know that.
fn never_begun(class: i32, all_know: bool) -> i32 {
    if all_know { -class } else { class }
}

pub(crate) fn among(communicator: &Communicator, tag: u32) -> Among {
    Among {
        channel: Channel::Collectives,
        context: communicator.context(Channel::Collectives),
        tag,
        peers: Arc::clone(&communicator.everyone),
    }
}

impl Communicator {
    /// Takes the number of the next operation.
    #[inline]
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.collectives;
        self.collectives = number + 1;
        number
    }

    /// Takes the tag of the next operation's messages.
    #[inline]
    fn take_tag(&mut self) -> u32 {
        (self.take_number() % u64::from(FIRST_KEPT)) as u32
    }

    /// Takes the tag of the next persistent operation.
    fn take_kept_tag(&mut self) -> u32 {
        let tag = self.kept_collectives;
        self.kept_collectives = (tag + 1) % KEPT_TAGS;
        FIRST_KEPT | tag
    }

    /// The tags of the next operation's messages, and of the next persistent one's.
    pub(crate) fn next_tags(&self) -> (u32, u32) {
        let tag = (self.collectives % u64::from(FIRST_KEPT)) as u32;
        (tag, FIRST_KEPT | self.kept_collectives)
    }
}

impl Process {
    /// Starts an operation on its communicator.
    pub fn begin(&mut self, steps: Steps) -> Result<Active> {
        let communicator = steps.communicator;
        let found = self.communicator_mut(communicator)?;
        let agreed = found.node.take_agreed(found.collectives);
        let among = self.among_all(communicator)?;
        let at = self.add_steps(steps, among, false)?;
        if let Some(schedule) = self.schedules.get_mut(at) {
            schedule.agreed = agreed;
        }
        self.advance(at);
        Ok(Active::of_schedule(at, communicator))
    }

    /// The same for a part of the program's call of this name. In the checking mode, all parts of a call are described alike, but processes of builds that describe them as the
    /// operations that they are need the same from the others.
    pub(crate) fn begin_part(&mut self, steps: Steps, name: &'static str) -> Result<Active> {
        let group = self.communicator(steps.communicator)?.group();
        let steps = match self.process_table.all_speak(group, CALLS_IN_AREAS) {
            true => steps.part_of(name),
            false => steps,
        };
        self.begin(steps)
    }

    /// All processes of a communicator, for one operation that all of them begin.
    pub(crate) fn among_all(&mut self, communicator: usize) -> Result<Among> {
        let communicator = self.communicator_mut(communicator)?;
        let tag = communicator.take_tag();
        Ok(among(communicator, tag))
    }

    /// Keeps steps that are started again and again ([`Process::start_again`]). Returns their place.
    pub(crate) fn keep_steps(&mut self, steps: Steps) -> Result<u32> {
        let communicator = self.communicator_mut(steps.communicator)?;
        let tag = communicator.take_kept_tag();
        let among = among(communicator, tag);
        self.add_steps(steps, among, true)
    }

    fn add_steps(&mut self, mut steps: Steps, among: Among, is_kept: bool) -> Result<u32> {
        if self.checks {
            self.prepend_comparison(&mut steps)?;
        }
        Ok(self.schedules.add(Schedule::new(steps, among, is_kept)))
    }

    /// Starts steps among processes that have no communicator. Errors are those of the communicator of the steps.
    pub(crate) fn begin_among(&mut self, steps: Steps, among: Among) -> Active {
        let communicator = steps.communicator;
        let at = self.schedules.add(Schedule::new(steps, among, false));
        self.advance(at);
        Active::of_schedule(at, communicator)
    }

    /// Starts kept steps again; their last start must be done.
    pub(crate) fn start_again(&mut self, at: u32) -> Result<Active> {
        let gone = || Error::new(abi::ERR_REQUEST, "the operation is over");
        let schedule = self.schedules.get_mut(at).ok_or_else(gone)?;
        (schedule.at, schedule.is_done) = (0, false);
        (schedule.error, schedule.notice, schedule.is_given_up) = (None, None, false);
        let communicator = schedule.communicator;
        if let Some(error) = schedule.never.clone() {
            self.end_with(at, error);
        }
        self.advance(at);
        Ok(Active::of_schedule(at, communicator))
    }

    /// Frees kept steps, once they are done.
    pub(crate) fn drop_kept(&mut self, at: u32, is_active: bool) {
        if !is_active {
            self.schedules.remove(at);
        } else if let Some(schedule) = self.schedules.get_mut(at) {
            schedule.is_kept = false;
        }
    }

    /// Takes the sends and receives that have completed, and advances their schedules.
    pub(crate) fn advance_schedules(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        let queue = self.schedules.queue;
        // The queue exists as long as the process.
        let _ = self
            .endpoint
            .test_queue(queue, usize::MAX, Duration::ZERO, &mut taken);
        for done in taken.drain(..) {
            self.step_done(done);
        }
        self.taken = taken;
        let orphans = std::mem::take(&mut self.schedules.orphans);
        for mut orphan in orphans {
            if let Ok(None) = self.poll(&mut orphan) {
                self.schedules.orphans.push(orphan);
            }
        }
    }

    fn step_done(&mut self, done: Completion) {
        let Completion { op, user, result } = done;
        let Some((at, schedule)) = self.schedules.find(user) else {
            return;
        };
        let place = schedule.pending.iter().position(|pending| *pending == op);
        let Some(place) = place else {
            // The operation was cancelled when its schedule failed.
            return;
        };
        schedule.pending.swap_remove(place);
        let expected = schedule.lengths.swap_remove(place);
        let is_last = schedule.pending.is_empty();
        match check_length(result, expected) {
            Err(error) => self.fail(at, error),
            Ok(()) if is_last => self.advance(at),
            Ok(()) => {}
        }
    }

    /// Ends a schedule because one of its messages has failed. The other processes are notified: they may wait for messages that
    /// this one would have sent.
    fn fail(&mut self, at: u32, error: Failed) {
        let Some(schedule) = self.schedules.get(at) else {
            return;
        };
        let (peers, of) = (schedule.peers.clone(), (schedule.channel, schedule.tag));
        if let Some(error) = self.failed_in_area(at) {
            let class = error.code();
            self.end_with(at, error);
            return self.notify_failure(&peers, of, class);
        }
        // The engine's address does not show which rank it was.
        let lost = self.lost_among(&peers);
        let error = match (error, lost) {
            (Failed::Message(OpError::Peer { .. } | OpError::Withdrawn), Some(lost)) => lost,
            (Failed::Message(OpError::Withdrawn), None) => {
                if let Some(schedule) = self.schedules.get_mut(at) {
                    schedule.is_given_up = true;
                }
                return;
            }
            (Failed::Message(error), _) => Error::from(error),
            (Failed::Length { came, expected }, _) => {
                let text = format!(
                    "a message of {came} bytes has come where one of {expected} was expected: not all ranks call the same with the same lengths"
                );
                Error::new(abi::ERR_TRUNCATE, text)
            }
        };
        let class = error.code();
        self.end_with(at, error);
        self.notify_failure(&peers, of, class);
    }

    /// Notifies the other processes of a communicator that this one does not begin a collective operation, because of this error: they may wait for it. Not if it is the error
    /// of an operation that was begun. An error of arguments leaves no trace either: it may be that only this process has called. Returns the error.
    #[cold]
    pub fn refuse_collective(
        &mut self,
        communicator: usize,
        name: &'static str,
        error: Error,
    ) -> Error {
        if error.communicator().is_some() {
            return error;
        }
        let Ok(found) = self.communicator_mut(communicator) else {
            return error;
        };
        if found.node.take_agreed(found.collectives).is_none() && error.is_of_arguments() {
            self.note_refused(communicator, name, &error);
            return error.on(communicator);
        }
        let of = (Channel::Collectives, found.take_tag());
        let peers = Arc::clone(&found.everyone);
        self.notify_failure(&peers, of, error.code());
        error.on(communicator)
    }

    /// Likewise for a persistent operation: those of the others fail whenever they are started.
    #[cold]
    pub fn refuse_persistent(
        &mut self,
        communicator: usize,
        name: &'static str,
        error: Error,
    ) -> Error {
        let Ok(found) = self.communicator_mut(communicator) else {
            return error;
        };
        if error.is_of_arguments() {
            self.note_refused(communicator, name, &error);
            return error.on(communicator);
        }
        let of = (Channel::Collectives, found.take_kept_tag());
        let peers = Arc::clone(&found.everyone);
        // Processes of earlier formats take a negative class for that of an error.
        let all_know = (self.communicator(communicator))
            .is_ok_and(|found| self.all_compare_calls(found));
        let class = never_begun(error.code(), all_know);
        self.notify_failure(&peers, of, class);
        error.on(communicator)
    }

    /// Notifies processes that this one has given up an operation of theirs, and with an error of which class: they return it, too. The class is negative for one that this
    /// process never starts.
    pub(crate) fn notify_failure(
        &mut self,
        peers: &[Peer],
        (channel, tag): (Channel, u32),
        class: i32,
    ) {
        self.notify_all(peers, channel, tag, class.to_le_bytes().to_vec());
    }

    /// Ends a schedule with an error; operations in progress are cancelled.
    fn end_with(&mut self, at: u32, error: Error) {
        let Some(schedule) = self.schedules.get_mut(at) else {
            return;
        };
        schedule.is_done = true;
        schedule.error.get_or_insert(error);
        schedule.lengths.clear();
        for op in std::mem::take(&mut schedule.pending) {
            self.endpoint.cancel(op);
        }
    }

    /// Checks whether another process has given up an operation that is in progress here.
    fn look_for_failure(&mut self, at: u32) -> Result<()> {
        if let Some(error) = self.failed_in_area(at) {
            self.end_with(at, error);
            return Ok(());
        }
        let Some(schedule) = self.schedules.get(at) else {
            return Ok(());
        };
        if let (Channel::Collectives, tag) = (schedule.channel, schedule.tag)
            && let Some(error) = self.look_for_ending(schedule.communicator, tag)
        {
            self.end_with(at, error);
            return Ok(());
        }
        let Some(schedule) = self.schedules.get_mut(at) else {
            return Ok(());
        };
        let notice = match schedule.notice.take() {
            Some(notice) => Some(notice),
            None => self.find_notice(at)?,
        };
        let Some(notice) = notice else {
            return Ok(());
        };
        if let Some(op) = notice.op
            && let Ok(None) = self.endpoint.take(op)
        {
            // The class is still on its way.
            if let Some(schedule) = self.schedules.get_mut(at) {
                schedule.notice = Some(notice);
            }
            return Ok(());
        }
        self.is_given_up_by(at, &notice);
        Ok(())
    }

    /// The error of a schedule whose call was published in an area, if the calls or operations there show that it fails.
    fn failed_in_area(&mut self, at: u32) -> Option<Error> {
        let schedule = self.schedules.get_mut(at)?;
        let (agreed, communicator) = (schedule.agreed.take()?, schedule.communicator);
        let error = self.check_agreed(communicator, &agreed);
        if error.is_none() {
            self.schedules.get_mut(at)?.agreed = Some(agreed);
        }
        error
    }

    /// Takes a notification that another process has given up an operation which is in progress here, if one has come.
    fn find_notice(&mut self, at: u32) -> Result<Option<Notice>> {
        let Some(schedule) = self.schedules.get(at) else {
            return Ok(None);
        };
        let own = self.peers[self.rank as usize].number;
        let pattern = MpiPattern {
            context: schedule.context - schedule.channel as u32 + schedule.channel.failures(),
            source: None,
            tag: Some(schedule.tag),
        };
        let (peers, is_given_up) = (schedule.peers.clone(), schedule.is_given_up);
        let Some((taken, envelope)) = self.endpoint.take_message(pattern) else {
            if let Some(lost) = is_given_up.then(|| self.lost_among(&peers)).flatten() {
                self.end_with(at, lost);
            }
            return Ok(None);
        };
        debug_assert_ne!(envelope.peer, own);
        let class = Memory::zeroed(size_of::<i32>());
        let into = std::slice::from_ref(&class);
        let posted = (self.endpoint).receive_taken(taken, pattern, into, POSTS, 0)?;
        let op = match posted {
            Posted::Pending(op) => Some(op),
            Posted::Complete(_) => None,
        };
        let peer = envelope.peer;
        Ok(Some(Notice { op, class, peer }))
    }

    /// Ends a schedule that another process has given up.
    fn is_given_up_by(&mut self, at: u32, notice: &Notice) {
        let Some(schedule) = self.schedules.get(at) else {
            return;
        };
        let peers = schedule.peers.clone();
        let class = notice.class.to_vec();
        let class = class.try_into().map_or(0, i32::from_le_bytes);
        let is_never_whole = class < 0;
        let class = match class.saturating_abs() {
            // An earlier version does not say.
            0 => abi::ERR_PROC_ABORTED,
            class => class,
        };
        let rank = peers.iter().position(|peer| peer.number == notice.peer);
        let known = self.lost_among(&peers);
        let error = known.unwrap_or_else(|| {
            let rank = rank.map_or_else(String::new, |rank| format!("rank {rank} "));
            let why = match class {
                abi::ERR_PROC_ABORTED => "since it has lost another".to_owned(),
                abi::ERR_TRUNCATE => {
                    "since a message there had another length than its buffer".to_owned()
                }
                other => format!("which has failed there with the error class {other}"),
            };
            let text = format!("{rank}has given the operation up, {why}");
            Error::new(class, text)
        });
        if is_never_whole && let Some(schedule) = self.schedules.get_mut(at) {
            schedule.never = Some(error.clone());
        }
        self.end_with(at, error);
    }

    /// Does all steps that can be done now.
    fn advance(&mut self, at: u32) {
        let key = self.schedules.places.key(at);
        let queue = self.schedules.queue;
        loop {
            let Some(schedule) = self.schedules.get_mut(at) else {
                return;
            };
            if schedule.is_calling || schedule.is_done || schedule.is_given_up {
                return;
            }
            let Some(step) = schedule.steps.get(schedule.at) else {
                schedule.is_done = schedule.pending.is_empty();
                return;
            };
            let mut expected = None;
            let posted = match step {
                Step::Fence if schedule.pending.is_empty() => None,
                Step::Fence => return,
                Step::Send { to, from } => {
                    let to = schedule.peers[*to as usize];
                    let word = MpiPattern::word(to.context + schedule.channel as u32, schedule.tag);
                    let from = std::slice::from_ref(from);
                    Some(self.endpoint.post_send(to.addr, from, word, queue, key))
                }
                Step::Receive { from, into } => {
                    let pattern = MpiPattern {
                        context: schedule.context,
                        source: Some(schedule.peers[*from as usize].number),
                        tag: Some(schedule.tag),
                    };
                    expected = schedule.is_exact.then_some(into.len() as u64);
                    let into = std::slice::from_ref(into);
                    Some(self.endpoint.post_receive(pattern, into, queue, key))
                }
                Step::Copy { from, into } => {
                    into.copy_from(from);
                    None
                }
                Step::Pack(what) => {
                    let (from, into) = &**what;
                    if let Err(error) = from.pack_into(into) {
                        schedule.error.get_or_insert(error);
                    }
                    None
                }
                Step::Unpack(what) => {
                    let (from, into) = &**what;
                    if let Err(error) = into.unpack_from(from) {
                        schedule.error.get_or_insert(error);
                    }
                    None
                }
                Step::Compare(what) => {
                    if let Err(error) = what.compare() {
                        return self.end_with(at, error);
                    }
                    None
                }
                Step::Combine {
                    what,
                    from,
                    into,
                    count,
                } => {
                    match what.apply(from, into, *count) {
                        Ok(None) => {}
                        Ok(Some(operation)) => {
                            schedule.is_calling = true;
                            schedule.at += 1;
                            return self.schedules.calls.push(Call { key, operation });
                        }
                        Err(error) => {
                            schedule.error.get_or_insert(error);
                        }
                    }
                    None
                }
            };
            schedule.at += 1;
            let failed = match posted {
                Some(Ok(Posted::Pending(op))) => {
                    schedule.pending.push(op);
                    schedule.lengths.push(expected);
                    None
                }
                Some(Ok(Posted::Complete(done))) => {
                    // Once the schedule is done, the process may compute without progress.
                    self.endpoint.flush();
                    check_length(done.result, expected).err()
                }
                Some(Err(error)) => {
                    schedule.error.get_or_insert(Error::from(error));
                    None
                }
                None => None,
            };
            if let Some(error) = failed {
                return self.fail(at, error);
            }
        }
    }

    /// Waits for a schedule that is the only operation in progress, until it is done, or a function of the program must be called. Of several
    /// sends and receives, any may fail; so a wait for one operation alone is used only if the schedule has a single one.
    pub(crate) fn wait_for_steps(&mut self, at: u32) -> Result<Option<Call>> {
        let mut has_waited = None;
        let is_agreed = (self.schedules.get(at)).is_some_and(|schedule| schedule.agreed.is_some());
        let longest = if is_agreed {
            BEFORE_LOOKING_AGAIN
        } else {
            FOR_EVER
        };
        loop {
            if let Some(call) = self.take_call() {
                return Ok(Some(call));
            }
            let seen = self.endpoint.event_count();
            match self.schedules.pending(at) {
                [] => return Ok(None),
                [op] => match self.endpoint.test(*op, BEFORE_LOOKING)? {
                    Some(done) => self.step_done(done),
                    None => {
                        self.look_for_failure(at)?;
                        if !self.schedules.pending(at).is_empty() {
                            self.endpoint.wait_for_event(seen, longest);
                        }
                    }
                },
                [first, ..] => {
                    let first = *first;
                    self.advance_schedules();
                    if self.schedules.pending(at).first() != Some(&first) {
                        continue;
                    }
                    let mut idle = BEFORE_LOOKING;
                    if has_waited == Some(first) {
                        self.look_for_failure(at)?;
                        idle = longest;
                    }
                    has_waited = Some(first);
                    if self.schedules.pending(at).first() == Some(&first) {
                        self.endpoint.wait_for_event(seen, idle);
                    }
                }
            }
        }
    }

    /// The program's function that must be called, if there is one.
    #[inline]
    pub(crate) fn take_call(&mut self) -> Option<Call> {
        self.schedules.calls.pop()
    }

    /// Continues after a function of the program was called.
    pub fn called(&mut self, call: &Call) {
        if let Some((at, schedule)) = self.schedules.find(call.key) {
            schedule.is_calling = false;
            if let Err(error) = call.operation.finish() {
                schedule.error.get_or_insert(error);
            }
            self.advance(at);
        }
    }

    /// The status of a collective operation that is done, if it is.
    pub(crate) fn poll_schedule(&mut self, at: u32) -> Result<Option<Status>> {
        let gone = || Error::new(abi::ERR_REQUEST, "the operation is over");
        let is_going_on = |all: &Schedules| {
            let schedule = all.get(at);
            schedule.is_some_and(|schedule| !schedule.is_done)
        };
        if is_going_on(&self.schedules) {
            self.look_for_failure(at)?;
            if is_going_on(&self.schedules) {
                return Ok(None);
            }
        }
        let schedule = self.schedules.get_mut(at).ok_or_else(gone)?;
        let (error, communicator) = (schedule.error.take(), schedule.communicator);
        if !schedule.is_kept {
            self.schedules.remove(at);
        }
        match error {
            None => Ok(Some(Status::empty())),
            Some(error) => Err(error.on(communicator)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_earlier_formats_get_the_class_of_an_error_as_it_is() {
        assert_eq!(never_begun(abi::ERR_NO_MEM, false), abi::ERR_NO_MEM);
        assert_eq!(never_begun(abi::ERR_NO_MEM, true), -abi::ERR_NO_MEM);
    }
}
