//! Schedules: [`Steps`] that were started, driven by progress. Blocking, nonblocking and persistent forms of an operation
//! are one schedule; a persistent one is started again and again.
//!
//! Steps start in their order. Sends and receives proceed concurrently until a `Step::Fence`, which waits for all before
//! it. Messages of one operation carry the operation's number on its communicator as their tag, in a context apart from
//! that of the program's messages.

mod failing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_engine::Memory;
use causeway_engine::types::{Completion, OpError, OpId, Posted, Queue};
use causeway_sys::waits;
use causeway_transport::slab::Slab;
use causeway_wire::contact::CALLS_IN_AREAS;
use smallvec::SmallVec;

use crate::abi;
use crate::communicator::{Channel, Communicator, Peer};
use crate::ending::statement::{FIRST_KEPT, KEPT_TAGS};
use crate::error::{Error, Result};
use crate::matching::MpiPattern;
use crate::node::operation::Agreed;
use crate::operation;
use crate::process::{Active, FOR_EVER, Process, State};
use crate::status::Status;
use crate::steps::{Step, Steps};

/// A call of one of the program's functions. The caller makes it, then calls [`Process::called`].
#[derive(Debug)]
pub struct Call {
    key: u64,
    /// The function and its arguments.
    pub operation: operation::Call,
}

/// How long a process waits for a message of an operation before it looks whether another one has given the operation up, and asks those that it waits for whether they take part.
pub(crate) const BEFORE_LOOKING: Duration = Duration::from_millis(20);

/// After how long it looks again if calls are compared in shared memory: another rank's call may turn out to be another one when it is made.
pub(crate) const BEFORE_LOOKING_AGAIN: Duration = Duration::from_millis(100);

/// The limit of a wait behind which a process looks why nothing comes: none in the setting of tests where a wake-up that is lost must show as a hang ([`waits`]).
pub(crate) fn until_look(limit: Duration) -> Duration {
    waits::tidy_after(limit).unwrap_or(FOR_EVER)
}

/// After so many polls without any event, the clock is read.
const POLLS_OF_CLOCK: u32 = 256;

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

/// Sends and receives in progress of an operation for which no memory is allocated.
const AT_ONCE: usize = 4;

/// A send or a receive in progress.
#[derive(Debug)]
struct Message {
    /// The place of the other process among the schedule's peers.
    peer: u32,
    /// The bytes that it has to have, if its length has to be right.
    expected: Option<u64>,
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
    /// Sends and receives in progress, and the message of each.
    pending: SmallVec<[OpId; AT_ONCE]>,
    messages: SmallVec<[Message; AT_ONCE]>,
    /// Messages have to be as long as the memory for them.
    is_exact: bool,
    /// The name of the program's call.
    name: &'static str,
    /// Where in the communicator's shared memory the call was published, to be compared with the others'.
    agreed: Option<Agreed>,
    /// It is a barrier of `MPI_Finalize`.
    is_last: bool,
    /// Another process has withdrawn a message: it has given the operation up, and says why in a message that comes next.
    is_given_up: bool,
    /// The notification that says so.
    notice: Option<Notice>,
    looks: Looks,
    /// The error of each start, as another process never starts its part: it could not be made there.
    never: Option<Error>,
    /// A function of the program's is being called.
    is_calling: bool,
    error: Option<Error>,
    is_done: bool,
    /// It is kept when it is done, to be started again.
    is_kept: bool,
}

/// When this process has looked whether another one has given an operation up.
#[derive(Debug, Default)]
struct Looks {
    /// The engine's count of events at that time.
    events: Option<u64>,
    /// When it did for the second time, and how often it has polled.
    first: Option<Instant>,
    polls: u32,
}

/// Why a process looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Something has come.
    News,
    /// It has waited for [`BEFORE_LOOKING`].
    Late,
}

impl Looks {
    /// Whether a process that polls an operation, and has seen so many events, is to look. `is_idle`: it has waited, and nothing has come.
    fn due(&mut self, events: u64, is_idle: bool) -> Option<Due> {
        self.polls = self.polls.wrapping_add(1);
        let has_news = self.events != Some(events);
        if !has_news && !is_idle && !self.polls.is_multiple_of(POLLS_OF_CLOCK) {
            return None;
        }
        let is_first = self.events.replace(events).is_none();
        let since = self.first.map(|first| first.elapsed());
        // Most operations are done at the next look, and need no clock.
        if since.is_none() && !is_first {
            self.first = Some(Instant::now());
        }
        match is_idle || since.is_some_and(|since| since >= BEFORE_LOOKING) {
            true => Some(Due::Late),
            false => has_news.then_some(Due::News),
        }
    }

    /// Whether nothing has come since the last look, if there were so many events, and this poll need not read the clock. If not, the caller asks what is [`Looks::due`].
    fn has_no_news(&mut self, events: u64) -> bool {
        let polls = self.polls.wrapping_add(1);
        let has_no_news = self.events == Some(events) && !polls.is_multiple_of(POLLS_OF_CLOCK);
        if has_no_news {
            self.polls = polls;
        }
        has_no_news
    }
}

/// Schedules that are over, and lists of steps, of which a process keeps so many, for later operations: short operations would spend a quarter of their time in the allocator.
const MOST_KEPT: usize = 16;
/// The longest such list.
const LONGEST_KEPT: usize = 64;

/// All schedules of a process.
#[derive(Debug)]
pub(crate) struct Schedules {
    /// The queue in which their sends and receives complete.
    queue: Queue,
    places: Slab<Option<Box<Schedule>>>,
    /// Memory of schedules that are over.
    #[expect(clippy::vec_box, reason = "each goes back to a place as it is")]
    spare: Vec<Box<Schedule>>,
    /// Lists of their steps, empty.
    lists: Vec<Vec<Step>>,
    /// What messages without data consist of.
    no_bytes: Memory,
    calls: Vec<Call>,
    /// Operations whose requests were freed.
    pub(crate) orphans: Vec<Active>,
}

impl Schedule {
    fn new(steps: Steps, among: Among, is_kept: bool) -> Self {
        let Among {
            channel,
            context,
            tag,
            peers,
        } = among;
        Self {
            communicator: steps.communicator,
            is_exact: steps.is_exact,
            is_last: steps.is_last,
            name: steps.described.name,
            steps: steps.finished(),
            at: 0,
            channel,
            context,
            tag,
            peers,
            pending: SmallVec::new(),
            messages: SmallVec::new(),
            agreed: None,
            is_given_up: false,
            notice: None,
            looks: Looks::default(),
            never: None,
            is_calling: false,
            error: None,
            is_done: false,
            is_kept,
        }
    }
}

impl Schedules {
    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            queue,
            places: Slab::default(),
            spare: Vec::new(),
            lists: Vec::new(),
            no_bytes: Memory::zeroed(0),
            calls: Vec::new(),
            orphans: Vec::new(),
        }
    }

    /// Whether nothing is in progress.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.orphans.is_empty()
    }

    /// Whether nothing has come since this process has last looked at a schedule in progress, if there were so many events, and nothing else is to be done for schedules.
    pub(crate) fn has_no_news(&mut self, at: u32, events: u64) -> bool {
        let nothing_else = self.calls.is_empty() && self.orphans.is_empty();
        let schedule = self.get_mut(at);
        nothing_else && schedule.is_some_and(|it| !it.is_done && it.looks.has_no_news(events))
    }

    /// Whether a schedule is the only operation in progress.
    #[inline]
    pub(crate) fn is_only(&self, at: u32) -> bool {
        self.places.get(at).is_some() && self.places.len() == 1 && self.orphans.is_empty()
    }

    /// Whether the calls of any operation are compared with those that others have yet to publish.
    pub(crate) fn compare_calls(&self) -> bool {
        let mut all = self.places.iter().flatten();
        all.any(|schedule| schedule.agreed.is_some() && !schedule.is_done)
    }

    /// The sends and receives of a schedule in progress.
    fn pending(&self, at: u32) -> &[OpId] {
        let schedule = self.get(at);
        schedule.map_or(&[], |schedule| &schedule.pending)
    }

    fn add(&mut self, steps: Steps, among: Among, is_kept: bool) -> u32 {
        let schedule = match self.spare.pop() {
            Some(mut spare) => {
                *spare = Schedule::new(steps, among, is_kept);
                spare
            }
            None => Box::new(Schedule::new(steps, among, is_kept)),
        };
        self.places.insert(Some(schedule))
    }

    fn remove(&mut self, at: u32) {
        let Some(Some(mut schedule)) = self.places.remove(at) else {
            return;
        };
        let mut list = std::mem::take(&mut schedule.steps);
        // The program's memory is released.
        list.clear();
        if self.lists.len() < MOST_KEPT && list.capacity() <= LONGEST_KEPT {
            self.lists.push(list);
        }
        if self.spare.len() < MOST_KEPT && schedule.agreed.is_none() && schedule.notice.is_none() {
            self.spare.push(schedule);
        }
    }

    /// An empty list for steps, if one is kept.
    pub(crate) fn take_list(&mut self) -> Option<Vec<Step>> {
        self.lists.pop()
    }

    /// Memory for messages without data.
    pub(crate) fn no_bytes(&self) -> Memory {
        self.no_bytes.clone()
    }

    /// Whether a schedule is done, without an error.
    fn has_succeeded(&self, at: u32) -> bool {
        let schedule = self.get(at);
        schedule.is_some_and(|schedule| schedule.is_done && schedule.error.is_none())
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

pub(crate) fn among(communicator: &Communicator, tag: u32) -> Among {
    Among {
        channel: Channel::Collectives,
        context: communicator.context(Channel::Collectives),
        tag,
        peers: Arc::clone(&communicator.everyone),
    }
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

/// The tag of the messages of the operation of this number.
pub(crate) fn tag_of(number: u64) -> u32 {
    (number % u64::from(FIRST_KEPT)) as u32
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
        tag_of(self.take_number())
    }

    /// Takes the tag of the next persistent operation.
    fn take_kept_tag(&mut self) -> u32 {
        let tag = self.kept_collectives;
        self.kept_collectives = (tag + 1) % KEPT_TAGS;
        FIRST_KEPT | tag
    }

    /// The tags of the next operation's messages, and of the next persistent one's.
    pub(crate) fn next_tags(&self) -> (u32, u32) {
        (tag_of(self.collectives), FIRST_KEPT | self.kept_collectives)
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

    /// The same for a call of the program's. An operation without an error that is done at once keeps nothing.
    pub fn begin_call(&mut self, steps: Steps) -> Result<Active> {
        let active = self.begin(steps)?;
        match active.state {
            State::Schedule(at) if self.schedules.has_succeeded(at) => {
                let status = self.poll_schedule(at)?;
                Ok(Active::done(
                    status.unwrap_or(Status::empty()),
                    active.communicator,
                ))
            }
            _ => Ok(active),
        }
    }

    /// Starts a part of the program's call of this name. In the checking mode, all parts of a call are described alike, but processes of builds that describe them as the
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
        Ok(self.schedules.add(steps, among, is_kept))
    }

    /// Starts steps among processes that have no communicator. Errors are those of the communicator of the steps.
    pub(crate) fn begin_among(&mut self, steps: Steps, among: Among) -> Active {
        let communicator = steps.communicator;
        let at = self.schedules.add(steps, among, false);
        self.advance(at);
        Active::of_schedule(at, communicator)
    }

    /// Starts kept steps again; their last start must be done.
    pub(crate) fn start_again(&mut self, at: u32) -> Result<Active> {
        let gone = || Error::new(abi::ERR_REQUEST, "the operation is over");
        let schedule = self.schedules.get_mut(at).ok_or_else(gone)?;
        (schedule.at, schedule.is_done) = (0, false);
        (schedule.error, schedule.notice, schedule.is_given_up) = (None, None, false);
        schedule.looks = Looks::default();
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
        // The queue exists as long as the process.
        let found = self.endpoint.take_all(self.schedules.queue, &mut taken);
        if found.is_ok_and(|found| found > 0) {
            for done in taken.drain(..) {
                self.step_done(done);
            }
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
        let Message { expected, .. } = schedule.messages.swap_remove(place);
        let is_last = schedule.pending.is_empty();
        match check_length(result, expected) {
            Err(error) => self.fail(at, error),
            Ok(()) if is_last => self.advance(at),
            Ok(()) => {}
        }
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
            let mut message = Message {
                peer: 0,
                expected: None,
            };
            let posted = match step {
                Step::Fence if schedule.pending.is_empty() => None,
                Step::Fence => return,
                Step::Send { to, from } => {
                    message.peer = *to;
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
                    message.peer = *from;
                    message.expected = schedule.is_exact.then_some(into.len() as u64);
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
                    schedule.messages.push(message);
                    None
                }
                Some(Ok(Posted::Complete(done))) => {
                    // Once the schedule is done, the process may compute without progress.
                    self.endpoint.flush();
                    check_length(done.result, message.expected).err()
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
    pub(crate) fn wait_for_steps(&mut self, at: u32) -> Result<Option<Box<Call>>> {
        let (mut has_waited, mut is_late) = (None, false);
        let is_agreed = (self.schedules.get(at)).is_some_and(|schedule| schedule.agreed.is_some());
        let longest = if is_agreed {
            until_look(BEFORE_LOOKING_AGAIN)
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
                        self.look_late(at)?;
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
                    if is_late {
                        self.look_late(at)?;
                    } else if has_waited == Some(first) {
                        self.look_for_failure(at)?;
                    }
                    has_waited = Some(first);
                    if self.schedules.pending(at).first() == Some(&first) {
                        let idle = if is_late {
                            longest
                        } else {
                            until_look(BEFORE_LOOKING)
                        };
                        is_late |= !self.endpoint.wait_for_event(seen, idle);
                    }
                }
            }
        }
    }

    /// The program's function that must be called, if there is one.
    #[inline]
    pub(crate) fn take_call(&mut self) -> Option<Box<Call>> {
        self.schedules.calls.pop().map(Box::new)
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
            let events = self.endpoint.event_count();
            let looks = (self.schedules.get_mut(at)).map(|schedule| &mut schedule.looks);
            match looks.and_then(|looks| looks.due(events, self.is_idle)) {
                None => {}
                Some(Due::News) => self.look_for_failure(at)?,
                Some(Due::Late) => self.look_late(at)?,
            }
            if is_going_on(&self.schedules) {
                return Ok(None);
            }
        }
        let schedule = self.schedules.get_mut(at).ok_or_else(gone)?;
        let (error, communicator) = (schedule.error.take(), schedule.communicator);
        let done = (schedule.tag, schedule.name);
        if !schedule.is_kept {
            self.schedules.remove(at);
        }
        match error {
            None => {
                self.forget_refused(communicator, done);
                Ok(Some(Status::empty()))
            }
            Some(error) => Err(error.on(communicator)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_look_when_something_has_come_or_nothing_for_long() {
        let mut looks = Looks::default();
        // What has come before the first poll is not known.
        assert_eq!(looks.due(7, false), Some(Due::News));
        assert!((0..100).all(|_| looks.due(7, false).is_none()));
        assert_eq!(looks.due(8, false), Some(Due::News));
        assert!(looks.has_no_news(8) && !looks.has_no_news(9));
        assert_eq!(looks.due(8, true), Some(Due::Late));
        assert_eq!(looks.due(8, false), None);
        // A program that polls without waiting.
        looks.first = Instant::now().checked_sub(BEFORE_LOOKING);
        let polls = (0..2 * POLLS_OF_CLOCK).filter_map(|_| looks.due(8, false));
        assert_eq!(Vec::from_iter(polls), [Due::Late; 2]);
    }
}
