//! Events on nodes, and their queue.

use causeway_firmware::{Engine as DmaEngine, Side, Token};

use crate::engine::{Engine, Time};

/// A field of a packed event.
trait Word {
    fn pack(self) -> u32;
    fn unpack(word: u32) -> Self;
}

impl Word for u32 {
    fn pack(self) -> u32 {
        self
    }

    fn unpack(word: u32) -> Self {
        word
    }
}

impl Word for Token {
    fn pack(self) -> u32 {
        self.0
    }

    fn unpack(word: u32) -> Self {
        Self(word)
    }
}

impl Word for Side {
    fn pack(self) -> u32 {
        side_index(self) as u32
    }

    fn unpack(word: u32) -> Self {
        match word {
            0 => Self::Send,
            _ => Self::Receive,
        }
    }
}

/// An event as the queue stores it: two words that are packed and unpacked in registers. (An
/// `Event` is written field by field and copied as a whole, for which a processor has to wait until
/// all fields are in its cache: that cost more than the queue itself.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed(u64, u64);

impl Packed {
    fn node(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// Positions of fields in [`Packed`]: the first has 24 bits, the others 32.
const SMALL: usize = 0;
const A: usize = 1;
const B: usize = 2;

/// Declares the events of nodes, each with its number and the positions of its fields in [`Packed`].
macro_rules! events {
    ($($(#[$doc:meta])* $code:literal $name:ident { $($place:ident $field:ident: $type:ty),* })*) => {
        /// An event.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Event {
            $($(#[$doc])* $name { node: u32, $($field: $type),* },)*
        }

        impl From<Event> for Packed {
            #[inline]
            fn from(event: Event) -> Self {
                let mut places = [0; 3];
                let (code, node) = match event {
                    $(Event::$name { node, $($field),* } => {
                        $(places[$place] = Word::pack($field);)*
                        ($code, node)
                    })*
                };
                let [small, a, b] = places.map(u64::from);
                Self(u64::from(node) << 32 | small << 8 | code, b << 32 | a)
            }
        }

        impl From<Packed> for Event {
            #[inline]
            fn from(Packed(first, second): Packed) -> Self {
                let node = (first >> 32) as u32;
                let small = (first >> 8) as u32 & 0xff_ffff;
                let places = [small, second as u32, (second >> 32) as u32];
                match first as u8 {
                    $($code => Self::$name { node, $($field: Word::unpack(places[$place])),* },)*
                    other => unreachable!("no event has the number {other}"),
                }
            }
        }
    };
}

events! {
    /// A processor's turn is due, unless its generation is void.
    0 Turn { SMALL processor: u32, A generation: u32 }
    /// A doorbell reaches the card.
    1 Doorbell { A vi: u32, SMALL side: Side, B slot: u32 }
    /// A piece of a transfer reaches the host DMA engine.
    2 HostDmaPiece { A transfer: u32, B bytes: u32 }
    /// A channel of the host DMA engine continues.
    3 HostDma { A channel: u32 }
    /// A frame is passed to the network send engine.
    4 NetSend { A frame: u32 }
    /// The network send engine has sent a frame.
    5 NetSent { A token: Token }
    /// A buffer is passed to the network receive engine.
    6 NetReceive { A buffer: u32 }
    /// A frame is at its node's receive engine.
    7 Arrived { A frame: u32 }
    /// The receive engine has stored a frame in a buffer.
    8 Received { A frame: u32, B buffer: u32 }
    /// A process continues.
    9 Process { A process: u32 }
    /// The program's deadline is reached.
    10 Deadline { }
    /// A process's wait has reached its limit, if it is the wait of this number.
    11 Timeout { A process: u32, B wait: u32 }
    /// The card raises an interrupt for a sleeping process: its completion queue, or one of its work queues.
    12 Interrupt { A process: u32 }
    /// The header of a frame has arrived, and the rest follows.
    13 Begun { A frame: u32 }
    /// The rest of the frame that a host transfer followed has gone to the host.
    14 Followed { A transfer: u32 }
}

/// The queue of a world's events; or one for each node, of which one is the present node's.
#[derive(Default)]
pub(crate) struct Events {
    queue: Engine<Packed>,
    /// Until when events may be handled without coming from the queue.
    until: Time,
    /// The queues of nodes, if each has its own, but for the present one, whose place is taken by an empty one.
    others: Vec<Engine<Packed>>,
    present: usize,
    /// When each node's next event is, if that is not being handled.
    heads: Vec<Time>,
}

impl Events {
    #[inline]
    pub(crate) fn at(&mut self, at: Time, event: Event) {
        self.queue.at(at, event.into());
    }

    #[inline]
    pub(crate) fn after(&mut self, after: Time, event: Event) {
        self.queue.after(after, event.into());
    }

    /// Advances to the next event, if it happens by `end`. It is not unpacked before it is handled, so that it stays in registers.
    #[inline(always)]
    pub(crate) fn next_by(&mut self, end: Time) -> Option<Packed> {
        self.until = end;
        self.queue.next_by(end)
    }

    /// Advances to `at`, as though to an event that was scheduled for then, if that would be the next: its handler continues
    /// without the queue. Returns whether it does.
    #[inline]
    pub(crate) fn goes_on(&mut self, at: Time) -> bool {
        at <= self.until && self.queue.step_to(at)
    }

    /// Has an event at `at` or later come from the queue, until the next one has.
    pub(crate) fn stop_before(&mut self, at: Time) {
        self.until = self.until.min(at.saturating_sub(1));
    }

    /// The present, which is the present node's.
    pub(crate) fn now(&self) -> Time {
        self.queue.now()
    }

    /// The time of the last event that was handled, of all nodes.
    pub(crate) fn latest(&self) -> Time {
        let others = self.others.iter().map(Engine::now);
        others.fold(self.queue.now(), Time::max)
    }

    pub(crate) fn handled(&self) -> u64 {
        let others = self.others.iter().map(Engine::handled);
        self.queue.handled() + others.sum::<u64>()
    }

    pub(crate) fn pending(&self) -> usize {
        let others = self.others.iter().map(Engine::pending);
        self.queue.pending() + others.sum::<usize>()
    }

    /// Divides the queue into one for each of so many nodes.
    pub(crate) fn divide(&mut self, nodes: usize) {
        let mut whole = std::mem::take(&mut self.queue);
        self.others.resize_with(nodes, Engine::default);
        self.heads = vec![Time::MAX; nodes];
        while let Some((at, event)) = whole.peek() {
            whole.next();
            self.any_at(at, event.into());
        }
        self.heads[0] = self.queue.peek().map_or(Time::MAX, |(at, _)| at);
    }

    /// Makes `node` the present one.
    #[inline]
    pub(crate) fn visit(&mut self, node: usize) {
        if node != self.present {
            std::mem::swap(&mut self.queue, &mut self.others[self.present]);
            std::mem::swap(&mut self.queue, &mut self.others[node]);
            self.present = node;
        }
    }

    /// Notes that the present node has no event to handle before `at`.
    #[inline]
    pub(crate) fn rest_until(&mut self, at: Time) {
        self.heads[self.present] = at;
    }

    /// When each node's next event is.
    pub(crate) fn heads(&self) -> &[Time] {
        &self.heads
    }

    /// The next event, and when it is.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<(Time, Event)> {
        self.queue.peek().map(|(at, event)| (at, event.into()))
    }

    /// Schedules an event, which may be another node's than the present one's.
    pub(crate) fn any_at(&mut self, at: Time, event: Event) {
        let event = Packed::from(event);
        let node = event.node();
        match self.others.get_mut(node) {
            Some(queue) if node != self.present => {
                queue.at(at, event);
                self.heads[node] = self.heads[node].min(at);
            }
            _ => self.queue.at(at, event),
        }
    }
}

/// An index of two for the two work queues.
pub(crate) fn side_index(side: Side) -> usize {
    match side {
        Side::Send => 0,
        Side::Receive => 1,
    }
}

/// The program's name of an engine, as a word.
pub(crate) fn engine_name(engine: DmaEngine) -> &'static str {
    match engine {
        DmaEngine::Host => "host DMA",
        DmaEngine::NetSend => "net send",
        DmaEngine::NetReceive => "net receive",
    }
}
