//! Two nodes that send messages back and forth (tables 5.1 and 5.2).

use std::cell::RefCell;
use std::rc::Rc;

use causeway_firmware::{Settings, Side};

use super::{RunError, check};
use crate::engine::Time;
use crate::hardware::Topology;
use crate::node::{Await, Completed, Do, Mark, Plan, Process, Queues, Stage, ViPlan, World};
use crate::profile::Profile;

/// Where a message's data begins in its page: behind a header of the application's, so that a message of
/// whole pages crosses one boundary more (as Table 5.1's steps with size show).
pub const DATA_OFFSET: u32 = 64;
/// Rounds before measuring.
const WARM_UP: u32 = 4;

fn plan(profile: &Profile, settings: Settings, bytes: u32, depth: u32) -> Result<Plan, RunError> {
    let topology = Topology::star(2).map_err(|_| RunError::Empty("two nodes"))?;
    let mut plan = Plan::new(profile.clone(), settings, topology);
    plan.data_offset = DATA_OFFSET;
    plan.longest_message = bytes;
    for node in 0..2 {
        plan.vi(ViPlan {
            node,
            process: 0,
            depth,
            queues: Queues::None,
            sends_counted: false,
            reserved: None,
        });
    }
    plan.connections.push((0, 1));
    Ok(plan)
}

/// Sends one and waits for one, or waits for one and sends one.
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
    fn next(&mut self, now: Time, _: Option<Completed>) -> Do {
        let bytes = self.bytes;
        let post = |side| Do::Post { vi: 0, side, bytes };
        let step = self.step;
        self.step += 1;
        match (self.begins, step) {
            // A receive is always posted before the message for it can come.
            (_, 0) => post(Side::Receive),
            // Time for the other end to do the same.
            (true, 1) => Do::SleepUntil(200 * crate::engine::MICROSECOND),
            (true, 2) => {
                self.started = now;
                post(Side::Send)
            }
            (true, 3) | (false, 1) => Do::Await(Await::One(0, Side::Receive)),
            (true, 4) => {
                self.round_trips.borrow_mut().push(now - self.started);
                Do::Await(Await::One(0, Side::Send))
            }
            (false, 2) => post(Side::Receive),
            (false, 3) => post(Side::Send),
            (false, 4) => Do::Await(Await::One(0, Side::Send)),
            _ => {
                self.round += 1;
                if self.round == self.rounds {
                    return Do::End;
                }
                if self.begins {
                    self.step = 2;
                    return post(Side::Receive);
                }
                self.step = 2;
                Do::Await(Await::One(0, Side::Receive))
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
    /// Since the program noticed the frame: the same without the frame. 0 where the descriptor was there already.
    pub receive: [Time; 6],
    /// Half the round trip.
    pub one_way: Time,
}

/// Runs a ping-pong of messages of `bytes` and takes it apart.
pub fn ping_pong(
    profile: &Profile,
    settings: Settings,
    bytes: u32,
    rounds: u32,
) -> Result<Breakdown, RunError> {
    let rounds = rounds.max(1) + WARM_UP;
    let mut plan = plan(profile, settings, bytes, 4)?;
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
    let ended = world.run(Time::MAX);
    check(ended, &world.record)?;
    let measured = round_trips.borrow()[WARM_UP as usize..].to_vec();
    let one_way = measured.iter().sum::<Time>() / (2 * measured.len() as Time);
    let marks = world.record.marks.take().unwrap_or_default();
    let (send, receive) =
        take_apart(&marks).ok_or(RunError::Empty("a message's stages are missing"))?;
    Ok(Breakdown {
        send,
        receive,
        one_way,
    })
}

/// The stages of one message in the middle of the run, from node 0 to node 1.
fn take_apart(marks: &[Mark]) -> Option<([Time; 7], [Time; 6])> {
    let on = |node: u32, side: Side| {
        marks
            .iter()
            .filter(move |mark| mark.node == node && mark.side == side)
    };
    let mut noticed: Vec<&Mark> = on(0, Side::Send)
        .filter(|mark| mark.stage == Stage::Noticed)
        .collect();
    noticed.sort_by_key(|mark| mark.at);
    let middle = noticed.get(noticed.len() / 2)?;
    let next = noticed.get(noticed.len() / 2 + 1)?.at;
    // The last of a stage counts: a message of several pieces is down when all of them are.
    let reached = |node, side, stage, from: Time| {
        on(node, side)
            .filter(|mark| mark.stage == stage && (from..next).contains(&mark.at))
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
        *time = reached(0, Side::Send, stage, middle.at)?;
    }
    let frame = on(1, Side::Receive)
        .filter(|mark| mark.stage == Stage::FrameNoticed && mark.at >= middle.at)
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

/// Keeps `window` messages under way in each direction: every message that comes lets the next one go.
struct PingBulk {
    bytes: u32,
    window: u32,
    /// Messages to be sent, and to be received.
    messages: u32,
    sent: u32,
    received: u32,
    reaped: u32,
    posted: u32,
    step: BulkStep,
    finished: Rc<RefCell<Vec<Time>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BulkStep {
    Prepare,
    Send,
    Receive,
    Reap,
}

impl Process for PingBulk {
    fn next(&mut self, now: Time, completed: Option<Completed>) -> Do {
        let bytes = self.bytes;
        match completed.map(|completed| completed.side) {
            Some(Side::Receive) => {
                self.received += 1;
                self.finished.borrow_mut().push(now);
            }
            Some(Side::Send) => self.reaped += 1,
            None => {}
        }
        let post = |side| Do::Post { vi: 0, side, bytes };
        loop {
            match self.step {
                BulkStep::Prepare if self.posted < 2 * self.window => {
                    self.posted += 1;
                    return post(Side::Receive);
                }
                BulkStep::Prepare => {
                    self.step = BulkStep::Send;
                    return Do::SleepUntil(5 * crate::engine::MILLISECOND);
                }
                BulkStep::Send => {
                    let may = self.received + self.window;
                    if self.sent < self.messages.min(may) && self.sent - self.reaped < self.window {
                        self.sent += 1;
                        return post(Side::Send);
                    }
                    self.step = BulkStep::Receive;
                    if self.received < self.messages {
                        return Do::Await(Await::One(0, Side::Receive));
                    }
                }
                BulkStep::Receive => {
                    self.step = BulkStep::Reap;
                    if self.posted < self.messages + self.window {
                        self.posted += 1;
                        return post(Side::Receive);
                    }
                }
                BulkStep::Reap => {
                    self.step = BulkStep::Send;
                    if self.reaped < self.sent && self.reaped < self.received {
                        return Do::Await(Await::One(0, Side::Send));
                    }
                    if self.received == self.messages && self.reaped == self.messages {
                        return Do::End;
                    }
                }
            }
        }
    }
}

/// The average time per message and direction of a ping-bulk of messages of `bytes` with `window` of them under way
/// each way.
pub fn ping_bulk(
    profile: &Profile,
    settings: Settings,
    bytes: u32,
    window: u32,
    messages: u32,
) -> Result<Time, RunError> {
    let mut plan = plan(profile, settings, bytes, 2 * window.max(1))?;
    let finished = [(); 2].map(|()| Rc::new(RefCell::new(Vec::new())));
    for (node, finished) in finished.iter().enumerate() {
        let process = PingBulk {
            bytes,
            window: window.max(1),
            messages,
            sent: 0,
            received: 0,
            reaped: 0,
            posted: 0,
            step: BulkStep::Prepare,
            finished: finished.clone(),
        };
        plan.process(node, process);
    }
    let mut world = World::new(plan)?;
    let ended = world.run(Time::MAX);
    check(ended, &world.record)?;
    // From a quarter to three quarters of the messages, so that neither beginning nor end counts.
    let times = finished[0].borrow();
    let (first, last) = (times.len() / 4, times.len() * 3 / 4);
    match times.get(first..=last) {
        Some([from, .., to]) => Ok((to - from) / (2 * (last - first) as Time)),
        _ => Err(RunError::Empty("too few messages")),
    }
}
