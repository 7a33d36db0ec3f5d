//! Two nodes that send messages back and forth (tables 5.1 and 5.2).

use std::cell::RefCell;
use std::rc::Rc;

use causeway_firmware::{Settings, Side};

use super::{Keep, LONGEST, RunError, check};
use crate::engine::{MICROSECOND, MILLISECOND, Time};
use crate::node::{
    Action, Await, Completed, Mark, Plan, Process, Queues, Record, Stage, ViPlan, World,
};
use crate::profile::Profile;
use crate::statistics::Histogram;

/// The offset of a message's data in its page: after a header of the application, so that a message
/// of whole pages crosses one more boundary (as Table 5.1's steps with size show).
pub const DATA_OFFSET: u32 = 64;
/// Rounds before measuring.
const WARM_UP: u32 = 4;
/// When the first message is sent, in either pattern: both ends have posted their receives, and their cards have taken them up.
const PONG_START: Time = 200 * MICROSECOND;
const BULK_START: Time = 5 * MILLISECOND;

/// The data of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Their length.
    pub bytes: u32,
    /// Where they begin in a page.
    pub offset: u32,
}

/// Data of this length, which begin at [`DATA_OFFSET`].
impl From<u32> for Data {
    fn from(bytes: u32) -> Self {
        Self {
            bytes,
            offset: DATA_OFFSET,
        }
    }
}

fn plan(profile: &Profile, settings: Settings, data: Data, depth: u32) -> Result<Plan, RunError> {
    let topology = profile.topology(2)?;
    let mut plan = Plan::new(profile.clone(), settings, topology);
    plan.data_offset = data.offset;
    plan.longest_message = data.bytes;
    for node in 0..2 {
        plan.vi(ViPlan::new(node, 0, depth, Queues::None));
    }
    plan.connections.push((0, 1));
    Ok(plan)
}

/// Sends one message and waits for one, or the other way round.
struct PingPong {
    begins: bool,
    bytes: u32,
    rounds: u32,
    step: u32,
    round: u32,
    started: Time,
    round_trips: Rc<RefCell<Vec<Time>>>,
}

impl Process for PingPong {
    fn next(&mut self, now: Time, _: Option<Completed>) -> Action {
        let bytes = self.bytes;
        let post = |side| Action::Post { vi: 0, side, bytes };
        let step = self.step;
        self.step += 1;
        match (self.begins, step) {
            // A receive is always posted before its message can arrive.
            (_, 0) => post(Side::Receive),
            // The other end takes as long to do the same.
            (true, 1) => Action::SleepUntil(PONG_START),
            (true, 2) => {
                self.started = now;
                post(Side::Send)
            }
            (true, 3) | (false, 1) => Action::Await(Await::One(0, Side::Receive)),
            (true, 4) => {
                self.round_trips.borrow_mut().push(now - self.started);
                Action::Await(Await::One(0, Side::Send))
            }
            (false, 2) => post(Side::Receive),
            (false, 3) => post(Side::Send),
            (false, 4) => Action::Await(Await::One(0, Side::Send)),
            _ => {
                self.round += 1;
                if self.round == self.rounds {
                    return Action::End;
                }
                if self.begins {
                    self.step = 2;
                    return post(Side::Receive);
                }
                self.step = 2;
                Action::Await(Await::One(0, Side::Receive))
            }
        }
    }
}

/// A column of Table 5.1 for one program: when each stage was reached, and the latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// Since the program noticed the doorbell: descriptor programmed, down, data programmed, down, frame sent, status
    /// programmed, done.
    pub send: [Time; 7],
    /// Since the program noticed the frame: the same without the frame. 0 if the descriptor had arrived before.
    pub receive: [Time; 6],
    /// Half the round trip.
    pub one_way: Time,
}

/// Runs a ping-pong of messages of `bytes` and returns the time of each stage.
pub fn ping_pong(
    profile: &Profile,
    settings: Settings,
    bytes: u32,
    rounds: u32,
) -> Result<Breakdown, RunError> {
    ping_pong_recorded(profile, settings, bytes, rounds, Keep::Sums).map(|(found, _)| found)
}

/// The same, with the records of the run.
pub fn ping_pong_recorded(
    profile: &Profile,
    settings: Settings,
    data: impl Into<Data>,
    rounds: u32,
    keep: Keep,
) -> Result<(Breakdown, Record), RunError> {
    let rounds = rounds.max(1) + WARM_UP;
    let data = data.into();
    let bytes = data.bytes;
    let mut plan = plan(profile, settings, data, 4)?;
    let round_trips = Rc::new(RefCell::new(Vec::new()));
    for node in 0..2 {
        let process = PingPong {
            begins: node == 0,
            bytes,
            rounds,
            step: 0,
            round: 0,
            started: 0,
            round_trips: round_trips.clone(),
        };
        plan.process(node, process);
    }
    let mut world = World::new(plan)?;
    world.record.keep_marks();
    keep.begin(&mut world, PONG_START);
    let ended = world.run(LONGEST);
    check(ended, &world.record)?;
    let measured = round_trips.borrow()[WARM_UP as usize..].to_vec();
    if let Some(statistics) = &mut world.record.statistics {
        let mut one_ways = Histogram::default();
        measured
            .iter()
            .for_each(|there_and_back| one_ways.add(there_and_back / 2));
        statistics.flows.push(one_ways);
    }
    let one_way = measured.iter().sum::<Time>() / (2 * measured.len() as Time);
    let messages = messages(world.record.marks.clone().unwrap_or_default());
    let middle = messages.get(messages.len() / 2).map(Vec::as_slice);
    let (send, receive) = middle
        .and_then(take_apart)
        .ok_or(RunError::Empty("a message's stages are missing"))?;
    if let Some(statistics) = &mut world.record.statistics {
        let mut stages = vec![Histogram::default(); send.len() + receive.len()];
        for (send, receive) in messages
            .iter()
            .skip(WARM_UP as usize)
            .filter_map(|of| take_apart(of))
        {
            for (stage, time) in stages.iter_mut().zip(send.into_iter().chain(receive)) {
                stage.add(time);
            }
        }
        statistics.flows.extend(stages);
    }
    let found = Breakdown {
        send,
        receive,
        one_way,
    };
    Ok((found, world.record))
}

/// Whether node 0's program notices the doorbell of a message to node 1.
fn begins(mark: &Mark) -> bool {
    (mark.node, mark.side, mark.stage) == (0, Side::Send, Stage::Noticed)
}

/// The marks from the beginning of each message from node 0 to node 1 to that of the next one, in the order of time.
fn messages(mut marks: Vec<Mark>) -> Vec<Vec<Mark>> {
    marks.sort_by_key(|mark| (mark.at, !begins(mark)));
    let mut messages: Vec<Vec<Mark>> = Vec::new();
    for mark in marks {
        if begins(&mark) {
            messages.push(Vec::new());
        }
        if let Some(message) = messages.last_mut() {
            message.push(mark);
        }
    }
    messages
}

/// The stages of one message from node 0 to node 1, of which these are the marks.
fn take_apart(marks: &[Mark]) -> Option<([Time; 7], [Time; 6])> {
    let on = |node: u32, side: Side| {
        marks
            .iter()
            .filter(move |mark| mark.node == node && mark.side == side)
    };
    let begun = marks.first()?.at;
    // The last mark of a stage counts: a message of several pieces is complete when all of them are.
    let reached = |node, side, stage, from: Time| {
        on(node, side)
            .filter(|mark| mark.stage == stage && mark.at >= from)
            .map(|mark| mark.at - from)
            .max()
    };
    let send_stages = [
        Stage::DescriptorProgrammed,
        Stage::DescriptorDown,
        Stage::DataProgrammed,
        Stage::DataMoved,
        Stage::NetDone,
        Stage::StatusProgrammed,
        Stage::StatusDone,
    ];
    let mut send = [0; 7];
    for (time, stage) in send.iter_mut().zip(send_stages) {
        *time = reached(0, Side::Send, stage, begun)?;
    }
    let frame = on(1, Side::Receive)
        .filter(|mark| mark.stage == Stage::FrameNoticed)
        .map(|mark| mark.at)
        .min()?;
    let moved = on(1, Side::Receive)
        .filter(|mark| mark.stage == Stage::DataMoved && mark.at >= frame)
        .map(|mark| mark.at)
        .min()?;
    let mut receive = [0; 6];
    for (place, (time, stage)) in receive
        .iter_mut()
        .zip(
            send_stages
                .into_iter()
                .filter(|stage| *stage != Stage::NetDone),
        )
        .enumerate()
    {
        *time = match place {
            // A descriptor that is fetched after the data concerns the next message.
            0 | 1 => on(1, Side::Receive)
                .filter(|mark| mark.stage == stage && (frame..moved).contains(&mark.at))
                .map(|mark| mark.at - frame)
                .max()
                .unwrap_or(0),
            _ => reached(1, Side::Receive, stage, frame)?,
        };
    }
    Some((send, receive))
}

/// Sends a window of messages, then waits for a window of them, repeatedly.
struct PingBulk {
    bytes: u32,
    window: u32,
    rounds: u32,
    round: u32,
    phase: BulkPhase,
    ended: Rc<RefCell<Vec<Time>>>,
}

/// The step that it is at; numbers count up to the window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BulkPhase {
    Prepare(u32),
    Send(u32),
    Receive(u32),
    Repost(u32),
    Reap(u32),
}

impl Process for PingBulk {
    fn next(&mut self, now: Time, _: Option<Completed>) -> Action {
        let (bytes, window) = (self.bytes, self.window);
        let post = |side| Action::Post { vi: 0, side, bytes };
        let (phase, action) = match self.phase {
            // Two windows of receives, as the other end may be one ahead.
            BulkPhase::Prepare(i) if i < 2 * window => {
                (BulkPhase::Prepare(i + 1), post(Side::Receive))
            }
            BulkPhase::Prepare(_) => (BulkPhase::Send(0), Action::SleepUntil(BULK_START)),
            BulkPhase::Send(i) if i + 1 < window => (BulkPhase::Send(i + 1), post(Side::Send)),
            BulkPhase::Send(_) => (BulkPhase::Receive(0), post(Side::Send)),
            BulkPhase::Receive(i) => {
                let receive = Action::Await(Await::One(0, Side::Receive));
                (BulkPhase::Repost(i), receive)
            }
            BulkPhase::Repost(i) if i + 1 < window => {
                (BulkPhase::Receive(i + 1), post(Side::Receive))
            }
            BulkPhase::Repost(_) => (BulkPhase::Reap(0), post(Side::Receive)),
            BulkPhase::Reap(i) if i < window => {
                let reap = Action::Await(Await::One(0, Side::Send));
                (BulkPhase::Reap(i + 1), reap)
            }
            BulkPhase::Reap(_) => {
                self.ended.borrow_mut().push(now);
                self.round += 1;
                if self.round == self.rounds {
                    return Action::End;
                }
                (BulkPhase::Send(1), post(Side::Send))
            }
        };
        if window == 1 && phase == BulkPhase::Send(1) {
            self.phase = BulkPhase::Receive(0);
        } else {
            self.phase = phase;
        }
        action
    }
}

/// The average time per message and direction of a ping-bulk of messages of `bytes`: both ends send
/// `window` of them, then wait for as many.
///
/// The printed values show that both ends do so at the same time: 86 µs for 16 KiB is more than the
/// link carries in one direction.
pub fn ping_bulk(
    profile: &Profile,
    settings: Settings,
    bytes: u32,
    window: u32,
    rounds: u32,
) -> Result<Time, RunError> {
    ping_bulk_recorded(profile, settings, bytes, window, rounds, Keep::Sums).map(|(time, _)| time)
}

/// The same, with the records of the run.
pub fn ping_bulk_recorded(
    profile: &Profile,
    settings: Settings,
    data: impl Into<Data>,
    window: u32,
    rounds: u32,
    keep: Keep,
) -> Result<(Time, Record), RunError> {
    let window = window.max(1);
    let rounds = rounds.max(1) + WARM_UP;
    let data = data.into();
    let bytes = data.bytes;
    let mut plan = plan(profile, settings, data, 2 * window)?;
    let ended = [(); 2].map(|()| Rc::new(RefCell::new(Vec::new())));
    for (node, ended) in ended.iter().enumerate() {
        let process = PingBulk {
            bytes,
            window,
            rounds,
            round: 0,
            phase: BulkPhase::Prepare(0),
            ended: ended.clone(),
        };
        plan.process(node, process);
    }
    let mut world = World::new(plan)?;
    keep.begin(&mut world, BULK_START);
    let finished = world.run(LONGEST);
    check(finished, &world.record)?;
    let times = ended[0].borrow();
    match times.get(WARM_UP as usize - 1..) {
        Some([from, .., to]) => {
            let messages = 2 * window * (rounds - WARM_UP);
            if let Some(statistics) = &mut world.record.statistics {
                let mut each = Histogram::default();
                let ends = times.get(WARM_UP as usize - 1..).unwrap_or_default();
                for round in ends.windows(2) {
                    each.add((round[1] - round[0]) / Time::from(2 * window));
                }
                statistics.flows.push(each);
            }
            Ok(((to - from) / Time::from(messages), world.record))
        }
        _ => Err(RunError::Empty("too few rounds")),
    }
}
