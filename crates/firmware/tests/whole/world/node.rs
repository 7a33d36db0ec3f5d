//! One node: the card's engines and buffers around the program, and the host's memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use causeway_firmware::{
    Body, BufferId, Card, DmaRequest, Engine, Firmware, Input, Piece, Processor, Report, Settings,
    Side, Step, Time, Token, Transfer, Turn, ViAttributes, ViId,
};

use super::host::BYTES;
use super::{Host, WireFrame};

/// A transfer that an engine has, with everything that it needs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) token: Token,
    pub(crate) stamp: Time,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Read {
        pieces: Vec<Piece>,
    },
    Data {
        pieces: Vec<Piece>,
        into: BufferId,
        tail: Vec<Piece>,
    },
    Write {
        pieces: Vec<Piece>,
        from: BufferId,
        /// The frame was still coming into the buffer.
        follows: bool,
    },
    Bytes {
        pieces: Vec<Piece>,
        bytes: Vec<u8>,
    },
    Transmit {
        to: u32,
        header: Vec<u8>,
        body: Sent,
        /// The transfer that fills the body's buffer, while that goes on.
        follows: Option<Token>,
    },
}

#[derive(Debug)]
enum Sent {
    Inline(Vec<u8>),
    Buffer(BufferId, u32),
}

/// Recorded actions, for tests that check their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    Charged(Step, u32),
    Started(&'static str),
    Finished(Engine),
}

/// The card's side that the program sees.
pub(crate) struct Engines {
    pub(crate) running: [VecDeque<Running>; 2],
    pub(crate) posted: VecDeque<BufferId>,
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) log: Vec<Done>,
    pub(crate) logs: bool,
    pub(crate) reports: Vec<Report>,
    /// Statuses whose writing has begun: virtual interface, side and bus address.
    pub(crate) statuses: Vec<(ViId, Side, u64)>,
    entries: [usize; 2],
    receives: usize,
    stamped: bool,
    cuts_through: bool,
    /// The program has been notified of the frame that comes into the first buffer.
    has_begun: bool,
}

/// A node.
pub(crate) struct Node {
    pub(crate) firmware: Firmware,
    pub(crate) host: Host,
    pub(crate) card: Engines,
    pub(crate) inbox: VecDeque<WireFrame>,
    pub(crate) due: [bool; 2],
    pub(crate) waits_for: [Option<Engine>; 2],
    /// Whether the host DMA engine has channels that finish transfers in any order.
    pub(crate) concurrent: bool,
}

impl std::ops::Deref for Node {
    type Target = Engines;

    fn deref(&self) -> &Engines {
        &self.card
    }
}

impl std::ops::DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Engines {
        &mut self.card
    }
}

fn index(engine: Engine) -> usize {
    match engine {
        Engine::Host => 0,
        Engine::NetSend => 1,
        Engine::NetReceive => panic!("frames arrive instead"),
    }
}

impl Card for Engines {
    fn charge(&mut self, step: Step, times: u32) {
        assert!(times > 0, "{step:?} is charged for nothing");
        if self.logs {
            self.log.push(Done::Charged(step, times));
        }
    }

    fn start_dma(&mut self, engine: Engine, request: DmaRequest<'_>) {
        assert_eq!(engine, request.transfer.engine());
        assert!(self.stamped || request.stamp == 0, "a stamp without reason");
        if self.logs {
            self.log.push(Done::Started(name(&request.transfer)));
        }
        let work = match request.transfer {
            Transfer::Receive { into } => {
                assert!(!self.posted.contains(&into), "a buffer is given twice");
                self.posted.push_back(into);
                assert!(self.posted.len() <= self.receives, "too many receives");
                return;
            }
            Transfer::ReadDescriptor { pieces, .. } => Work::Read {
                pieces: pieces.into(),
            },
            Transfer::ReadData { pieces, into, tail } => Work::Data {
                pieces: pieces.into(),
                into,
                tail: tail.into(),
            },
            Transfer::WriteData {
                pieces,
                from,
                follows,
            } => {
                assert_eq!(
                    follows,
                    self.coming() == Some(from),
                    "the transfer that it follows"
                );
                Work::Write {
                    pieces: pieces.into(),
                    from,
                    follows,
                }
            }
            Transfer::WriteStatus {
                side,
                pieces,
                status,
                payload,
            } => {
                self.statuses.push((request.vi, side, pieces[0].bus));
                let mut bytes = status.to_vec();
                if let Some((buffer, count)) = payload {
                    bytes.extend(&self.buffers[buffer.0 as usize][..count as usize]);
                }
                Work::Bytes {
                    pieces: pieces.into(),
                    bytes,
                }
            }
            Transfer::WriteCompletion { pieces, entry, .. } => Work::Bytes {
                pieces: pieces.into(),
                bytes: entry.into(),
            },
            Transfer::Transmit {
                to,
                header,
                body,
                follows,
            } => {
                self.check_fill(follows, body);
                Work::Transmit {
                    to: to.0,
                    header: header.into(),
                    body: match body {
                        Body::Inline(bytes) => Sent::Inline(bytes.into()),
                        Body::Buffer(buffer, bytes) => Sent::Buffer(buffer, bytes),
                    },
                    follows,
                }
            }
        };
        let running = &mut self.running[index(engine)];
        let same = running.iter().any(|other| other.token == request.token);
        assert!(!same, "a token is used twice");
        // Behind every transfer with the same or a smaller stamp, but never before the one in service.
        let behind = running
            .iter()
            .enumerate()
            .filter(|(at, other)| *at == 0 || other.stamp <= request.stamp);
        let place = behind.map(|(at, _)| at + 1).max().unwrap_or(0);
        running.insert(
            place,
            Running {
                token: request.token,
                stamp: request.stamp,
                work,
            },
        );
        assert!(
            self.running[index(engine)].len() <= self.entries[index(engine)],
            "{engine:?} gets more than it holds"
        );
        self.check_buffers();
    }

    fn report(&mut self, report: Report) {
        self.reports.push(report);
    }
}

impl Engines {
    /// The transfer that a frame follows goes on, and fills the frame's buffer.
    fn check_fill(&self, follows: Option<Token>, body: Body<'_>) {
        let Some(token) = follows else { return };
        assert!(self.cuts_through, "a frame follows without reason");
        let followed = self.running[0].iter().find(|of| of.token == token);
        let fills = match followed.map(|of| &of.work) {
            Some(Work::Data { into, .. }) => *into,
            other => panic!("a frame follows {other:?}"),
        };
        assert!(matches!(body, Body::Buffer(buffer, _) if buffer == fills));
    }

    /// The buffer into which a frame comes that the program knows of.
    pub(crate) fn coming(&self) -> Option<BufferId> {
        self.posted.front().copied().filter(|_| self.has_begun)
    }

    /// Whether a transfer of the host DMA engine waits for a frame to come in.
    pub(crate) fn waits_for_frame(&self) -> bool {
        self.running[0]
            .iter()
            .any(|running| self.is_short_of_data(running))
    }

    fn is_short_of_data(&self, running: &Running) -> bool {
        let coming = self.coming();
        matches!(running.work, Work::Write { from, .. } if Some(from) == coming)
    }

    /// Which of its transfers an engine finishes next: the first, or with concurrent channels any. None has to wait for a frame.
    pub(crate) fn next_to_finish(&self, engine: Engine, any: Option<usize>) -> Option<usize> {
        let mut ready = self.running[index(engine)].iter().enumerate();
        let Some(any) = any else {
            let (at, first) = ready.next()?;
            return (!self.is_short_of_data(first)).then_some(at);
        };
        let ready: Vec<usize> = ready
            .filter(|(_, running)| !self.is_short_of_data(running))
            .map(|(at, _)| at)
            .collect();
        ready.get(any % ready.len().max(1)).copied()
    }

    /// The transfer that the frame in service of the network send engine waits for.
    pub(crate) fn followed(&self) -> Option<Token> {
        match self.running[1].front()?.work {
            Work::Transmit { follows, .. } => follows,
            _ => None,
        }
    }

    /// Whether it waits for one.
    pub(crate) fn send_waits(&self) -> bool {
        self.followed().is_some()
    }

    /// A transfer is over: no frame follows it any more.
    fn filled(&mut self, token: Token) {
        for running in &mut self.running[1] {
            if let Work::Transmit { follows, .. } = &mut running.work {
                follows.take_if(|followed| *followed == token);
            }
        }
    }

    /// No buffer is with two engines for different frames.
    fn check_buffers(&self) {
        let mut filling = BTreeSet::new();
        let mut filled_by = BTreeMap::new();
        for running in &self.running[0] {
            if let Work::Data { into, .. } = &running.work {
                assert!(filling.insert(into.0), "a buffer is filled twice");
                filled_by.insert(into.0, running.token);
            }
        }
        for buffer in &self.posted {
            assert!(filling.insert(buffer.0), "a buffer is filled twice");
        }
        for running in self.running.iter().flatten() {
            let read = match &running.work {
                Work::Write { from, follows, .. } => {
                    let follows = *follows && self.coming() == Some(*from);
                    (!follows).then_some(from)
                }
                Work::Transmit {
                    body: Sent::Buffer(buffer, _),
                    ..
                } => Some(buffer),
                _ => None,
            };
            if let Some(buffer) = read {
                let by = match running.work {
                    Work::Transmit { follows, .. } => follows,
                    _ => None,
                };
                let followed = by.is_some() && filled_by.get(&buffer.0).copied() == by;
                assert!(
                    followed || !filling.contains(&buffer.0),
                    "a buffer is filled while it is read"
                );
            }
        }
    }
}

fn name(transfer: &Transfer<'_>) -> &'static str {
    match transfer {
        Transfer::ReadDescriptor {
            side: Side::Send, ..
        } => "read send descriptor",
        Transfer::ReadDescriptor { .. } => "read receive descriptor",
        Transfer::ReadData { tail: [], .. } => "read data",
        Transfer::ReadData { .. } => "read data and descriptor",
        Transfer::WriteData { .. } => "write data",
        Transfer::WriteStatus {
            side: Side::Send, ..
        } => "write send status",
        Transfer::WriteStatus { .. } => "write receive status",
        Transfer::WriteCompletion { .. } => "write completion",
        Transfer::Transmit { .. } => "transmit",
        Transfer::Receive { .. } => "receive",
    }
}

impl Node {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::with_memory(settings, BYTES)
    }

    /// A node whose process has this number of bytes.
    pub(crate) fn with_memory(settings: Settings, bytes: usize) -> Self {
        let length = |queue| match queue {
            causeway_firmware::DmaQueue::Software => 1,
            causeway_firmware::DmaQueue::Hardware(entries) => entries as usize,
        };
        let card = Engines {
            running: [VecDeque::new(), VecDeque::new()],
            posted: VecDeque::new(),
            buffers: vec![vec![0; settings.frame_bytes as usize]; settings.limits.buffers as usize],
            log: Vec::new(),
            logs: false,
            reports: Vec::new(),
            statuses: Vec::new(),
            entries: [length(settings.host_dma), length(settings.net_send)],
            receives: settings.net_receive as usize,
            stamped: settings.discipline == causeway_firmware::Discipline::QosAware,
            cuts_through: settings.cut_through,
            has_begun: false,
        };
        let two = settings.two_processors;
        let mut firmware = Firmware::new(settings).expect("settings that make sense");
        Self {
            host: Host::new(&mut firmware, bytes),
            firmware,
            card,
            inbox: VecDeque::new(),
            due: [true, two],
            waits_for: [None; 2],
            concurrent: false,
        }
    }

    pub(crate) fn create_vi(&mut self, attributes: ViAttributes) -> ViId {
        self.firmware.create_vi(attributes).expect("there is room")
    }

    /// Processors that wait for no particular event do a step.
    pub(crate) fn wake(&mut self) {
        for processor in 0..2 {
            let exists = processor == 0 || self.firmware.settings().two_processors;
            self.due[processor] |= exists && self.waits_for[processor].is_none();
        }
    }

    pub(crate) fn input(&mut self, now: Time, input: Input<'_>) {
        self.firmware.input(now, input);
        if let Input::DmaFinished { engine, .. } = input {
            for waits in &mut self.waits_for {
                if *waits == Some(engine) {
                    *waits = None;
                }
            }
        }
        self.wake();
    }

    pub(crate) fn turn(&mut self, now: Time, processor: Processor) -> Turn {
        self.firmware.turn(now, processor, &mut self.card)
    }

    pub(crate) fn polled(&mut self, now: Time, processor: Processor, polls: u32) {
        self.firmware.input(now, Input::Polled(processor, polls));
    }

    /// Which of its transfers an engine finishes next.
    pub(crate) fn next(&self, now: Time, engine: Engine) -> Option<usize> {
        let any = (self.concurrent && engine == Engine::Host).then_some((now / 1000) as usize);
        self.card.next_to_finish(engine, any)
    }

    /// An engine finishes a transfer: the first, or with concurrent channels any.
    pub(crate) fn finish(&mut self, now: Time, engine: Engine) -> Option<WireFrame> {
        let at = self.next(now, engine)?;
        let done = self.card.running[index(engine)].remove(at)?;
        if engine == Engine::Host {
            self.card.filled(done.token);
        }
        let mut bytes = Vec::new();
        let mut sent = None;
        match done.work {
            Work::Read { pieces } => self.host.gather(&pieces, &mut bytes),
            Work::Data { pieces, into, tail } => {
                let mut data = Vec::new();
                self.host.gather(&pieces, &mut data);
                self.card.buffers[into.0 as usize][..data.len()].copy_from_slice(&data);
                self.host.gather(&tail, &mut bytes);
            }
            Work::Write { pieces, from, .. } => {
                let count = pieces.iter().map(|piece| piece.bytes as usize).sum();
                let data = self.card.buffers[from.0 as usize][..count].to_vec();
                self.host.scatter(&pieces, &data);
            }
            Work::Bytes { pieces, bytes } => self.host.scatter(&pieces, &bytes),
            Work::Transmit {
                to, header, body, ..
            } => {
                let body = match body {
                    Sent::Inline(bytes) => bytes,
                    Sent::Buffer(buffer, count) => {
                        self.card.buffers[buffer.0 as usize][..count as usize].to_vec()
                    }
                };
                sent = Some(WireFrame { to, header, body });
            }
        }
        if self.card.logs {
            self.card.log.push(Done::Finished(engine));
        }
        let input = Input::DmaFinished {
            engine,
            token: done.token,
            bytes: &bytes,
        };
        self.input(now, input);
        sent
    }

    /// Whether the next frame may begin to come in.
    pub(crate) fn may_begin_frame(&self) -> bool {
        let waits = !self.inbox.is_empty() && !self.card.posted.is_empty();
        self.firmware.settings().receive_cut_through && waits && !self.card.has_begun
    }

    /// The header of the next frame comes in.
    pub(crate) fn begin_frame(&mut self, now: Time) {
        let (Some(frame), Some(&buffer)) = (self.inbox.front().cloned(), self.card.posted.front())
        else {
            return;
        };
        self.card.has_begun = true;
        let input = Input::FrameBegun {
            buffer,
            header: &frame.header,
            bytes: frame.body.len() as u32,
        };
        self.input(now, input);
    }

    /// The rest of a frame that has begun does not come.
    pub(crate) fn break_frame(&mut self, now: Time) {
        if let (Some(buffer), Some(_)) = (self.card.coming(), self.inbox.pop_front()) {
            self.card.posted.pop_front();
            self.card.has_begun = false;
            self.input(now, Input::FrameBroken { buffer });
        }
    }

    /// The network receive engine takes the next frame in.
    pub(crate) fn take_frame(&mut self, now: Time) {
        let (Some(frame), Some(&buffer)) = (self.inbox.pop_front(), self.card.posted.front())
        else {
            return;
        };
        self.card.posted.pop_front();
        self.card.has_begun = false;
        self.card.buffers[buffer.0 as usize][..frame.body.len()].copy_from_slice(&frame.body);
        let input = Input::FrameArrived {
            buffer,
            header: &frame.header,
            bytes: frame.body.len() as u32,
        };
        self.input(now, input);
    }

    /// Names of the transfers since the last call.
    pub(crate) fn started(&mut self) -> Vec<&'static str> {
        let log = std::mem::take(&mut self.card.log);
        let starts = log.into_iter().filter_map(|done| match done {
            Done::Started("receive") => None,
            Done::Started(name) => Some(name),
            _ => None,
        });
        starts.collect()
    }
}
