//! A card: its processors' turns, and its DMA engines.
//!
//! A turn is computed at its beginning. Its requests take effect later, at the beginning plus the time charged before them: each
//! transfer becomes an event of its own. A host transfer of several pieces reaches a queued engine piece by piece, as the program
//! describes them; an engine without a queue gets all at once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use causeway_firmware::{
    Ahead, BufferId, Card, Discipline, DmaQueue, DmaRequest, Doorbells, Engine as DmaEngine,
    Firmware, Input, NodeId, Processor, ReceiveDescriptors, Report, Settings, Side, Step, Token,
    Transfer,
};
use causeway_wire::vi::FRAME_HEADER_BYTES;

use super::events::{Event, Events, engine_name};
use super::host::Armed;
use super::record::{Mark, Record, Slice, Stage, Track, Unnoticed};
use super::transfer::{HostTransfer, Purpose, transfer};
use crate::engine::{Time, duration_at};
use crate::hardware::{Direction, HostDma, IoBus, Job, Memory, Wake};
use crate::profile::Profile;
use crate::slab::Slab;

/// Most messages whose numbers are remembered at a time.
const MOST_REMEMBERED: usize = 1 << 14;

/// A frame in flight, in as few cache lines as it fits in.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Frame {
    pub(crate) header: [u8; FRAME_HEADER_BYTES],
    /// Bytes after the header.
    pub(crate) bytes: u32,
    pub(crate) from: u32,
    pub(crate) to: NodeId,
    /// It is lost, and never arrives.
    pub(crate) lost: bool,
    /// The host transfer that is still reading its data.
    pub(crate) fill: Option<u32>,
    /// Its sending began before that transfer had finished.
    pub(crate) begun: Option<Begun>,
    /// It has arrived completely.
    pub(crate) has_come: bool,
    /// The buffer that it began to arrive in before that.
    pub(crate) into: Option<BufferId>,
    pub(crate) token: Token,
    pub(crate) stamp: Time,
    pub(crate) vi: u32,
    pub(crate) message: u64,
}

/// The times of a frame if its data comes in time: when it began, when it will have left, and when it will have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) start: Time,
    pub(crate) left: Time,
    pub(crate) arrives: Option<Time>,
}

/// A frame that was reported to the program and whose rest is still arriving: a host transfer that follows it needs these times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub(crate) buffer: BufferId,
    /// Bytes after the header: when the first of them arrive, and when the last has arrived if nothing delays it.
    pub(crate) bytes: u64,
    pub(crate) begins: Time,
    pub(crate) ends: Time,
}

/// The activity of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// A turn is due.
    Due,
    /// It spins until this engine has finished.
    Spinning(DmaEngine),
    /// It has been polling since then.
    Polling(Time),
    /// It has had nothing to do since then.
    Idle(Time),
}

/// One of the card's processors.
#[derive(Clone, Copy, Debug)]
struct ProcessorState {
    doing: Activity,
    /// When the charged time ends.
    busy_until: Time,
    /// Turns of earlier generations are void.
    generation: u32,
    /// How long it has worked.
    worked: Time,
}

/// How long each step takes. All cards of a world have the same, which the caches hold once.
pub(crate) type Costs = [Time; Step::ALL.len()];

/// How long each step takes on a card of this profile.
pub(crate) fn costs(profile: &Profile) -> Costs {
    Step::ALL.map(|step| profile.card.cycles(profile.card.steps.cycles(step)))
}

/// The driver's side of a card.
pub(crate) struct CardState {
    pub(crate) node: u32,
    pub(crate) host_dma: HostDma,
    pub(crate) bus: IoBus,
    pub(crate) memory: Memory,
    pub(crate) transfers: Slab<HostTransfer>,
    /// Frames for the net send engine, in the order of sending; the first is on the wire if `sending`.
    pub(crate) net_queue: VecDeque<u32>,
    pub(crate) sending: bool,
    /// Buffers that the net receive engine holds.
    pub(crate) armed: VecDeque<BufferId>,
    /// Frames that wait for a buffer.
    pub(crate) arrived: VecDeque<u32>,
    /// Frames that are arriving, with [`Settings::receive_cut_through`]; else none.
    pub(crate) coming: Vec<Coming>,
    /// Host transfers that have moved all data of their frame that has arrived so far.
    pub(crate) short: Vec<u32>,
    pub(crate) unnoticed: Unnoticed,
    /// When doorbells were rung of sends whose transfers have not begun, by interface.
    rung: Vec<VecDeque<Time>>,
    costs: Rc<Costs>,
    /// Here, not on the heap: each turn uses them.
    processors: [ProcessorState; 2],
    /// How many of them there are.
    processor_count: usize,
    polled: bool,
    /// Whether doorbells of receives are noticed without a step of the program.
    silent_receives: bool,
    host_queued: bool,
    most_in: [usize; 2],
    given: [usize; 2],
    idle_loop: Time,
    /// By a message's number modulo the most that can be on the card: when its doorbell was
    /// noticed, and the latest message under that number whose first transfer was seen.
    remembered: Vec<(Time, u64)>,
    noticed: u64,
    /// For timelines: messages that have arrived on each interface, and which receive each fills.
    pub(crate) incoming: BTreeMap<u32, VecDeque<(u32, u64)>>,
    filled_by: BTreeMap<u64, (u32, u64)>,
    /// The results that the program reported for sleeping processes in its last turn.
    pub(crate) ready: Vec<Armed>,
}

impl CardState {
    pub(crate) fn new(
        node: u32,
        profile: &Profile,
        costs: &Rc<Costs>,
        settings: &Settings,
        vis: usize,
    ) -> Self {
        let length = |queue: DmaQueue| match queue {
            DmaQueue::Software => 1,
            DmaQueue::Hardware(entries) => entries as usize,
        };
        let processor = ProcessorState {
            doing: Activity::Idle(0),
            busy_until: 0,
            generation: 0,
            worked: 0,
        };
        Self {
            node,
            // Pieces of one transfer follow each other in any engine; how many transfers it holds is counted in `given`.
            host_dma: HostDma::new(profile.host_dma.clone()),
            bus: IoBus::new(profile.io_bus.clone()),
            memory: Memory::new(profile.memory.clone()),
            transfers: Slab::default(),
            net_queue: VecDeque::new(),
            sending: false,
            armed: VecDeque::new(),
            arrived: VecDeque::new(),
            coming: Vec::new(),
            short: Vec::new(),
            unnoticed: Unnoticed::default(),
            rung: vec![VecDeque::new(); vis],
            costs: costs.clone(),
            processors: [processor; 2],
            processor_count: 1 + usize::from(settings.two_processors),
            polled: settings.doorbells == Doorbells::Polled,
            silent_receives: settings.doorbells == Doorbells::Polled
                && settings.receive_descriptors == ReceiveDescriptors::OnArrival,
            host_queued: matches!(settings.host_dma, DmaQueue::Hardware(_)),
            most_in: [length(settings.host_dma), length(settings.net_send)],
            given: [0; 2],
            idle_loop: profile.card.cycles(match settings.discipline {
                Discipline::Sequential => profile.card.sequential_idle_loop_cycles,
                Discipline::EventDriven | Discipline::QosAware => profile.card.idle_loop_cycles,
            }),
            remembered: vec![(0, 0); remembered(settings, vis)],
            noticed: 0,
            incoming: BTreeMap::new(),
            filled_by: BTreeMap::new(),
            ready: Vec::new(),
        }
    }

    /// How long each of its processors has worked.
    pub(crate) fn processors_busy(&self) -> impl Iterator<Item = Time> + '_ {
        self.processors().iter().map(|processor| processor.worked)
    }

    fn processors(&self) -> &[ProcessorState] {
        self.processors
            .get(..self.processor_count)
            .unwrap_or_default()
    }

    /// How long one poll of a doorbell takes.
    fn poll_time(&self) -> Time {
        self.costs[Step::PollDoorbell as usize].max(1)
    }

    /// Whether a processor has nothing to do, or spins.
    pub(crate) fn waits(&self) -> bool {
        let mut processors = self.processors().iter();
        processors.any(|processor| processor.doing != Activity::Due)
    }

    /// Whether this turn is still valid.
    pub(crate) fn wants_turn(&self, processor: u32, generation: u32) -> bool {
        self.processors()
            .get(processor as usize)
            .is_some_and(|state| state.generation == generation)
    }

    /// Schedules a turn at `at`.
    fn schedule(&mut self, events: &mut Events, processor: usize, at: Time, doing: Activity) {
        let generation = self.settle(processor, doing);
        let turn = Event::Turn {
            node: self.node,
            processor: processor as u32,
            generation,
        };
        events.at(at, turn);
    }

    /// Wakes the processors that are concerned by an input of an engine, or of another source. Returns how
    /// many doorbells each processor has polled while it had nothing else to do.
    pub(crate) fn wake(&mut self, events: &mut Events, from: Option<DmaEngine>) -> [u32; 2] {
        let now = events.now();
        let poll = self.poll_time();
        let mut polls = [0; 2];
        for (processor, polls) in polls.iter_mut().enumerate() {
            let Some(&state) = self.processors().get(processor) else {
                break;
            };
            let since = match state.doing {
                Activity::Due => continue,
                Activity::Spinning(engine) => {
                    if from == Some(engine) {
                        let at = now.max(state.busy_until);
                        self.schedule(events, processor, at, Activity::Due);
                    }
                    continue;
                }
                Activity::Polling(since) | Activity::Idle(since) => since,
            };
            let mut at = now.max(state.busy_until);
            if self.polled {
                let made = now.saturating_sub(since) / poll;
                *polls = u32::try_from(made).unwrap_or(u32::MAX);
            }
            if matches!(state.doing, Activity::Idle(_)) {
                at = at.max(now + self.idle_loop / 2);
            }
            self.schedule(events, processor, at, Activity::Due);
        }
        polls
    }

    /// Carries out a turn of `processor`. Returns when its next turn is due, and of which generation that is, if it has anything
    /// to do until then.
    pub(crate) fn turn(
        &mut self,
        firmware: &mut Firmware,
        events: &mut Events,
        frames: &mut Slab<Frame>,
        record: &mut Record,
        processor: u32,
    ) -> Option<(Time, u32)> {
        use causeway_firmware::Turn as Outcome;
        let now = events.now();
        let polling = self.processors[processor as usize].doing;
        let poll_time = self.poll_time();
        let mut taken = TurnCard {
            card: self,
            events,
            frames,
            record,
            now,
            charged: 0,
            per_piece: 0,
        };
        let which = match processor {
            0 => Processor::First,
            _ => Processor::Second,
        };
        if let Activity::Polling(since) = polling {
            let polls = (now.saturating_sub(since) / poll_time) as u32;
            firmware.input(now, Input::Polled(which, polls));
        }
        let outcome = firmware.turn(now, which, &mut taken);
        let charged = taken.charged;
        record.sums.turns += 1;
        record.sums.processor_busy = record.sums.processor_busy.saturating_add(charged);
        let end = now + charged;
        record.slice(Slice {
            node: self.node,
            track: Track::Processor(processor as u8),
            name: match outcome {
                Outcome::Waiting(engine) => engine_name(engine),
                _ => "turn",
            },
            start: now,
            end,
            message: None,
        });
        let index = processor as usize;
        self.processors[index].busy_until = end;
        self.processors[index].worked += charged;
        match outcome {
            // A turn without cost must still let time advance.
            Outcome::Worked => Some((end.max(now + 1), self.settle(index, Activity::Due))),
            Outcome::Waiting(engine) => {
                self.settle(index, Activity::Spinning(engine));
                None
            }
            Outcome::Idle => {
                self.settle(index, Activity::Idle(end));
                None
            }
            Outcome::Polling { ahead } => {
                let at = end + Time::from(ahead) * poll_time;
                record.sums.idle_polls += u64::from(ahead);
                Some((at.max(now + 1), self.settle(index, Activity::Polling(end))))
            }
        }
    }

    /// Makes the turns of a processor that are scheduled void; returns the generation of the next.
    fn settle(&mut self, processor: usize, doing: Activity) -> u32 {
        let state = &mut self.processors[processor];
        state.generation = state.generation.wrapping_add(1);
        state.doing = doing;
        state.generation
    }

    /// The message that a transfer of this node belongs to, if there is one.
    pub(crate) fn message_of(&mut self, transfer: &HostTransfer) -> Option<(u32, u64)> {
        if transfer.message == 0 {
            return None;
        }
        if transfer.side == Side::Send {
            return Some((self.node, transfer.message));
        }
        if !matches!(transfer.purpose, Purpose::WriteData | Purpose::WriteStatus) {
            return self.filled_by.get(&transfer.message).copied();
        }
        match self.filled_by.entry(transfer.message) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(place) => {
                let message = self.incoming.get_mut(&transfer.vi)?.pop_front()?;
                Some(*place.insert(message))
            }
        }
    }

    /// Notes a doorbell, before it is passed to the firmware as an input.
    pub(crate) fn ring(&mut self, now: Time, vi: u32, side: Side) {
        if let (Some(rung), Side::Send) = (self.rung.get_mut(vi as usize), side) {
            rung.push_back(now);
        }
        if self.silent_receives && side == Side::Receive {
            self.notice(now);
        }
    }

    /// Names where the doorbells of an interface are noted.
    pub(crate) fn rung_ahead(&self, vi: u32, ahead: &impl Ahead) {
        if let Some(rung) = self.rung.get(vi as usize) {
            ahead.read(rung);
        }
    }

    /// Names where a message's first transfer is noted.
    pub(crate) fn message_ahead(&self, message: u64, ahead: &impl Ahead) {
        let place = message as usize % self.remembered.len();
        if let Some(remembered) = self.remembered.get(place) {
            ahead.read(remembered);
        }
    }

    /// Names where the next doorbell of an interface, named before, will be noted.
    pub(crate) fn ring_ahead(&self, vi: u32, ahead: &impl Ahead) {
        if let Some(rung) = self.rung.get(vi as usize) {
            ahead.read(rung.as_slices().0);
        }
    }

    /// Notes that the doorbell of the interface's next send was noticed at `at`.
    fn detected(&mut self, vi: u32, at: Time, record: &mut Record) {
        let rung = self.rung.get_mut(vi as usize).and_then(VecDeque::pop_front);
        if let Some(rung) = rung {
            let waited = at.saturating_sub(rung);
            record.sums.send_wait = record.sums.send_wait.saturating_add(waited);
            record.sums.sends_noticed += 1;
            if let Some(statistics) = &mut record.statistics {
                statistics.wait(at, waited);
            }
        }
    }

    /// Assigns the next number to a doorbell, as the firmware does.
    fn notice(&mut self, now: Time) {
        self.noticed += 1;
        let place = self.noticed as usize % self.remembered.len();
        self.remembered[place].0 = now;
    }

    /// Schedules a turn of every processor that does not spin, because a deadline has passed.
    pub(crate) fn deadline(&mut self, events: &mut Events) {
        let now = events.now();
        for processor in 0..self.processor_count {
            let state = self.processors[processor];
            if matches!(state.doing, Activity::Polling(_) | Activity::Idle(_)) {
                self.schedule(events, processor, now.max(state.busy_until), Activity::Due);
            }
        }
    }

    /// Notes that an engine has finished a transfer.
    pub(crate) fn transfer_finished(&mut self, engine: DmaEngine) {
        if let Some(given) = self.given.get_mut(engine as usize) {
            *given = given.saturating_sub(1);
        }
    }

    /// Has a frame follow the transfer that reads its data, unless all of that has arrived.
    fn follow(&mut self, frames: &mut Slab<Frame>, number: u32, token: Token) {
        let of_it = |transfer: &HostTransfer| transfer.token == token && transfer.data_pieces > 0;
        if let Some(fill) = self.transfers.position(of_it)
            && let Some(transfer) = self.transfers.get_mut(fill)
            && let Some(frame) = frames.get_mut(number)
        {
            transfer.follower = Some(number);
            frame.fill = Some(fill);
        }
    }

    /// When the host DMA engine can start on the data of a frame that is still arriving in a buffer, so that it will not run
    /// dry if nothing delays the frame. `None` if no frame is arriving in it.
    fn follow_coming(&self, buffer: BufferId) -> Option<Time> {
        let coming = self.coming.iter().find(|coming| coming.buffer == buffer)?;
        let spec = self.host_dma.spec();
        let burst = self.bus.spec().burst_bytes.min(coming.bytes);
        let comes = u128::from(coming.ends - coming.begins) * u128::from(burst);
        let first = coming.begins + comes.div_ceil(u128::from(coming.bytes.max(1))) as Time;
        let rest = spec.startup + duration_at(coming.bytes - burst, spec.bytes_per_second);
        Some(first.max(coming.ends.saturating_sub(rest)))
    }

    /// Notes that a piece of a transfer has arrived; returns the frame that followed it if that was the last of its data.
    pub(crate) fn piece_done(&mut self, number: u32, bytes: u64) -> Option<u32> {
        let transfer = self.transfers.get_mut(number)?;
        transfer.pieces_left = transfer.pieces_left.saturating_sub(1);
        transfer.data_pieces = transfer.data_pieces.saturating_sub(1);
        transfer.data_bytes = transfer.data_bytes.saturating_sub(bytes);
        match transfer.data_pieces {
            0 => transfer.follower.take(),
            _ => None,
        }
    }

    /// When all data of a transfer will have arrived, as far as its engine can predict; `None` if it has not begun.
    pub(crate) fn filled_at(&self, now: Time, number: u32) -> Option<Time> {
        let transfer = self.transfers.get(number)?;
        let (moving, left) = self.host_dma.left(u64::from(number))?;
        let spec = self.host_dma.spec();
        let bytes = transfer.data_bytes.saturating_sub(moving) + left;
        let between = spec.startup * Time::from(transfer.data_pieces);
        Some(now + between + duration_at(bytes, spec.bytes_per_second))
    }

    /// Whether frames wait although the net send engine is idle.
    pub(crate) fn holds_frames(&self) -> bool {
        !self.sending && !self.net_queue.is_empty()
    }

    /// Puts a frame into the net send engine's queue, by its stamp.
    pub(crate) fn queue_frame(&mut self, frames: &Slab<Frame>, frame: u32) {
        let stamp = |number: u32| frames.get(number).map_or(0, |frame| frame.stamp);
        let own = stamp(frame);
        let first = usize::from(self.sending);
        let place = self
            .net_queue
            .iter()
            .skip(first)
            .position(|&waiting| stamp(waiting) > own)
            .map_or(self.net_queue.len(), |place| place + first);
        self.net_queue.insert(place, frame);
    }

    /// Passes a piece to the host DMA engine; returns when that continues, if it starts the piece at once.
    pub(crate) fn start_piece(&mut self, now: Time, number: u32, bytes: u32) -> Option<Wake> {
        let transfer = self.transfers.get_mut(number)?;
        transfer.started = transfer.started.min(now);
        let direction = match transfer.purpose {
            Purpose::ReadDescriptor | Purpose::ReadData => Direction::FromHost,
            _ => Direction::ToHost,
        };
        let job = Job {
            token: u64::from(number),
            direction,
            bytes: u64::from(bytes),
            stamp: transfer.stamp,
        };
        self.host_dma.start(now, job)
    }
}

/// How many messages' numbers a card has to remember: of those that can be posted, and those in progress.
fn remembered(settings: &Settings, vis: usize) -> usize {
    let limits = &settings.limits;
    let queue = limits.posted_per_queue as usize + limits.descriptors_per_queue as usize;
    (2 * vis * queue)
        .next_power_of_two()
        .clamp(1, MOST_REMEMBERED)
}

/// The [`Card`] of one turn.
struct TurnCard<'a> {
    card: &'a mut CardState,
    events: &'a mut Events,
    frames: &'a mut Slab<Frame>,
    record: &'a mut Record,
    now: Time,
    charged: Time,
    /// Charged since the last transfer for steps that the program repeats for each piece.
    per_piece: Time,
}

impl TurnCard<'_> {
    fn at(&self) -> Time {
        self.now + self.charged
    }

    fn mark(&mut self, vi: u32, side: Side, message: u64, stage: Stage) {
        let mark = Mark {
            at: self.at(),
            node: self.card.node,
            vi,
            side,
            message,
            stage,
        };
        self.record.mark(mark);
    }

    /// Notes with the first transfer for a message which interface's doorbell was noticed.
    fn first_of(&mut self, vi: u32, side: Side, message: u64) {
        let place = message as usize % self.card.remembered.len();
        let (noticed, seen) = &mut self.card.remembered[place];
        if message == 0 || *seen == message {
            return;
        }
        *seen = message;
        let noticed = *noticed;
        if side == Side::Send {
            self.card.detected(vi, noticed, self.record);
        }
        let node = self.card.node;
        self.record.mark(Mark {
            at: noticed,
            node,
            vi,
            side,
            message,
            stage: Stage::Noticed,
        });
    }

    fn host(&mut self, request: &DmaRequest<'_>) {
        let (mut transfer, pieces, tail) = transfer(request);
        let mut not_before = 0;
        if let Transfer::WriteData { from, .. } = request.transfer
            && let Some(at) = self.card.follow_coming(from)
        {
            transfer.follows = Some(from);
            not_before = at;
        }
        let stage = match transfer.purpose {
            Purpose::ReadDescriptor => Stage::DescriptorProgrammed,
            Purpose::ReadData | Purpose::WriteData => Stage::DataProgrammed,
            Purpose::WriteStatus => Stage::StatusProgrammed,
            Purpose::WriteCompletion => Stage::EntryProgrammed,
        };
        self.first_of(transfer.vi, transfer.side, request.message);
        self.mark(transfer.vi, transfer.side, request.message, stage);
        let count = (pieces.len() + tail.len()).max(1);
        transfer.pieces_left = count as u32;
        let number = self.card.transfers.insert(transfer);
        // The last piece is described now; each of those before it was described earlier, by the time that one takes.
        let apart = match self.card.host_queued {
            true => self.per_piece / count as Time,
            false => 0,
        };
        let (at, node) = (self.at(), self.card.node);
        let lengths = pieces.iter().chain(tail).map(|piece| piece.bytes);
        let none = (pieces.is_empty() && tail.is_empty()).then_some(0);
        for (place, bytes) in lengths.chain(none).enumerate() {
            let earlier = apart * (count - 1 - place) as Time;
            let piece = Event::HostDmaPiece {
                node,
                transfer: number,
                bytes,
            };
            let described = at.saturating_sub(earlier);
            self.events.at(described.max(not_before), piece);
        }
        self.per_piece = 0;
    }

    fn given(&mut self, engine: DmaEngine) {
        let place = engine as usize;
        self.card.given[place] += 1;
        if self.card.given[place] > self.card.most_in[place] {
            self.record.sums.overcommitted += 1;
        }
    }
}

impl Card for TurnCard<'_> {
    fn charge(&mut self, step: Step, times: u32) {
        let cost = self.card.costs[step as usize] * Time::from(times);
        self.charged += cost;
        match step {
            Step::TranslatePage
            | Step::ProgramPiece
            | Step::EnqueueHostHardware
            | Step::InsertByStamp => self.per_piece += cost,
            Step::DequeueDoorbell => {
                for _ in 0..times {
                    self.card.notice(self.now);
                }
            }
            Step::CheckHostDma => {
                if let Some(mark) = self.card.unnoticed.host.pop_front() {
                    let at = self.at();
                    self.record.mark(Mark { at, ..mark });
                }
            }
            Step::CheckNetReceive => {
                if let Some(mark) = self.card.unnoticed.net_receive.pop_front() {
                    let at = self.now;
                    self.record.mark(Mark { at, ..mark });
                }
            }
            Step::CheckNetSend => {
                if let Some(mark) = self.card.unnoticed.net_send.pop_front() {
                    let at = self.at();
                    self.record.mark(Mark { at, ..mark });
                }
            }
            _ => {}
        }
    }

    fn start_dma(&mut self, engine: DmaEngine, request: DmaRequest<'_>) {
        let (at, node) = (self.at(), self.card.node);
        match request.transfer {
            Transfer::Transmit {
                to,
                header,
                body,
                follows,
            } => {
                self.given(engine);
                self.first_of(request.vi.0, Side::Send, request.message);
                self.mark(
                    request.vi.0,
                    Side::Send,
                    request.message,
                    Stage::NetProgrammed,
                );
                let mut frame = Frame {
                    header: [0; FRAME_HEADER_BYTES],
                    bytes: body.bytes(),
                    from: node,
                    to,
                    lost: false,
                    fill: None,
                    begun: None,
                    has_come: false,
                    into: None,
                    token: request.token,
                    stamp: request.stamp,
                    vi: request.vi.0,
                    message: request.message,
                };
                let bytes = header.len().min(FRAME_HEADER_BYTES);
                frame.header[..bytes].copy_from_slice(&header[..bytes]);
                let frame = self.frames.insert(frame);
                if let Some(token) = follows {
                    self.card.follow(self.frames, frame, token);
                }
                self.events.at(at, Event::NetSend { node, frame });
            }
            Transfer::Receive { into } => {
                let buffer = into.0;
                self.events.at(at, Event::NetReceive { node, buffer });
            }
            _ => {
                self.given(engine);
                self.host(&request);
            }
        }
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::WorkQueueReady(vi, side) => {
                self.card.ready.push(Armed::WorkQueue(vi.0, side));
            }
            Report::CompletionQueueReady(queue) => self.card.ready.push(Armed::Queue(queue)),
            _ => {}
        }
        if matches!(report, Report::Broken(..) | Report::Unreachable { .. }) {
            self.record.sums.errors += 1;
        }
    }
}
