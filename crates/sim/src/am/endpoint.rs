//! The layer itself: fragments, handlers, and messages that wait for room.

use std::collections::VecDeque;

use super::handlers::{Arrival, Handlers};
use super::interface::{ActiveMessages, AmError};
use super::memory::{Memory, Place, Region, Span};
use super::port::{
    Arguments, Awaited, Fragment, Function, HandlerId, Kind, Message, Port, Rank, Step, Work,
};

/// A reply or bulk transfer for which there was no room.
///
/// Their number is bounded: one for each request that has arrived and has not been replied to,
/// which the port's room bounds, and one store of the program's own.
struct Outgoing {
    to: Rank,
    handler: HandlerId,
    arguments: Arguments,
    rest: Rest,
}

/// What is left to send.
enum Rest {
    /// A reply.
    Reply,
    /// Pieces of a bulk transfer.
    Bulk {
        /// Whether it is the reply to a get.
        answers_get: bool,
        source: Span,
        into: Place,
        sent: u64,
    },
}

/// The result of trying to send a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pushed {
    /// There was no room.
    Nothing,
    /// The piece was sent, and more follow.
    Piece,
    /// The last piece was sent.
    Last,
}

/// Active Messages over a port.
pub struct Endpoint<P, S: 'static> {
    port: P,
    state: S,
    handlers: &'static Handlers<S>,
    memory: Memory,
    outgoing: VecDeque<Outgoing>,
}

impl<P: Port, S> Endpoint<P, S> {
    /// An endpoint that sends and receives through `port`, with handlers that change `state`.
    pub fn new(port: P, state: S, handlers: &'static Handlers<S>) -> Self {
        Self {
            port,
            state,
            handlers,
            memory: Memory::default(),
            outgoing: VecDeque::new(),
        }
    }

    /// The port that carries the messages.
    pub fn port(&self) -> &P {
        &self.port
    }

    fn check_rank(&self, rank: Rank) -> Result<(), AmError> {
        let ranks = self.port.ranks();
        (rank < ranks)
            .then_some(())
            .ok_or(AmError::NoProcess(rank, ranks))
    }

    fn check_own(&self, named_by: Rank, span: Span) -> Result<(), AmError> {
        self.memory
            .bytes(span)
            .map(|_| ())
            .ok_or_else(|| self.no_memory(named_by, span))
    }

    fn no_memory(&self, named_by: Rank, span: Span) -> AmError {
        AmError::NoMemory {
            rank: named_by,
            owner: self.port.rank(),
            region: span.place.region.0,
            offset: span.place.offset,
            bytes: span.bytes,
        }
    }

    /// Runs `inside` with its time charged to `function`.
    fn within<T>(
        &mut self,
        function: Function,
        inside: impl FnOnce(&mut Self) -> Result<T, AmError>,
    ) -> Result<T, AmError> {
        let before = self.port.enter(function);
        let result = inside(self);
        self.port.enter(before);
        result
    }

    /// Sends a short message, polling while there is no room.
    fn send_short(&mut self, to: Rank, mut message: Message) -> Result<(), AmError> {
        self.port.step(Step::Compose, 1);
        loop {
            match self.port.send(to, message)? {
                None => return Ok(()),
                Some(back) => message = back,
            }
            self.poll_or_wait(Awaited::from(to, "room for a message"))?;
        }
    }

    fn poll_or_wait(&mut self, awaited: Awaited) -> Result<(), AmError> {
        if self.poll()? == 0 {
            self.within(Function::Poll, |this| Ok(this.port.wait(awaited)?))?;
        }
        Ok(())
    }

    /// Sends while there is room, a piece to one process after the other, so that all advance
    /// equally. Messages to one process stay in order; one without room does not hold up the
    /// others.
    fn flush(&mut self) -> Result<(), AmError> {
        let mut full: Vec<Rank> = Vec::new();
        let mut gets_on = !self.outgoing.is_empty();
        while gets_on {
            gets_on = false;
            let mut served = full.clone();
            let mut index = 0;
            while let Some(mut outgoing) = self.outgoing.remove(index) {
                let to = outgoing.to;
                let pushed = match served.contains(&to) {
                    true => Pushed::Nothing,
                    false => self.push(&mut outgoing)?,
                };
                if pushed == Pushed::Nothing && !served.contains(&to) {
                    full.push(to);
                }
                served.push(to);
                gets_on |= pushed != Pushed::Nothing;
                if pushed != Pushed::Last {
                    self.outgoing.insert(index, outgoing);
                    index += 1;
                }
            }
        }
        Ok(())
    }

    /// Sends the next piece of `outgoing` if there is room for it.
    fn push(&mut self, outgoing: &mut Outgoing) -> Result<Pushed, AmError> {
        let (to, function) = (outgoing.to, outgoing.function());
        self.within(function, |this| {
            let (message, bytes) = this.next_piece(outgoing)?;
            if this.port.send(to, message)?.is_some() {
                return Ok(Pushed::Nothing);
            }
            this.port.step(Step::Compose, 1);
            Ok(match outgoing.advance(bytes) {
                true => Pushed::Last,
                false => Pushed::Piece,
            })
        })
    }

    /// The next message of `outgoing`, and how much of its data that is.
    fn next_piece(&self, outgoing: &Outgoing) -> Result<(Message, u64), AmError> {
        let (kind, bytes) = match &outgoing.rest {
            Rest::Reply => (Kind::Reply, 0),
            Rest::Bulk {
                answers_get,
                source,
                into,
                sent,
            } => {
                let fragment = self.fragment(*source, *into, *sent)?;
                let bytes = fragment.bytes.len() as u64;
                let kind = match answers_get {
                    true => Kind::GetData(fragment),
                    false => Kind::Store(fragment),
                };
                (kind, bytes)
            }
        };
        let message = Message {
            kind,
            handler: outgoing.handler,
            arguments: outgoing.arguments,
        };
        Ok((message, bytes))
    }

    /// The piece of `source` after the first `sent` bytes: to the end of a page at most.
    fn fragment(&self, source: Span, into: Place, sent: u64) -> Result<Fragment, AmError> {
        let from = source.place.plus(sent);
        let left = source.bytes - sent;
        let page = self.port.page_bytes().max(1) as u64;
        let to_page_end = page - from.offset % page;
        let bytes = left
            .min(to_page_end)
            .min(self.port.fragment_bytes().max(1) as u64);
        let piece = from.span(bytes);
        Ok(Fragment {
            from,
            into: into.plus(sent),
            landed: (bytes == left).then(|| into.span(source.bytes)),
            bytes: self
                .memory
                .bytes(piece)
                .ok_or_else(|| self.no_memory(self.port.rank(), piece))?
                .to_vec(),
        })
    }

    /// Handles a message according to its kind.
    fn accept(&mut self, source: Rank, message: Message) -> Result<(), AmError> {
        let Message {
            kind,
            handler,
            arguments,
        } = message;
        match kind {
            Kind::Request => self.run(source, handler, arguments, None, true),
            Kind::Reply => self.run(source, handler, arguments, None, false),
            Kind::Store(fragment) => {
                self.store_fragment(source, handler, arguments, fragment, true)
            }
            Kind::GetData(fragment) => {
                self.store_fragment(source, handler, arguments, fragment, false)
            }
            Kind::Get { source: span, into } => {
                self.check_own(source, span)?;
                self.outgoing.push_back(Outgoing {
                    to: source,
                    handler,
                    arguments,
                    rest: Rest::Bulk {
                        answers_get: true,
                        source: span,
                        into,
                        sent: 0,
                    },
                });
                Ok(())
            }
        }
    }

    /// Copies a fragment into memory; the last one runs the handler.
    fn store_fragment(
        &mut self,
        source: Rank,
        handler: HandlerId,
        arguments: Arguments,
        fragment: Fragment,
        may_reply: bool,
    ) -> Result<(), AmError> {
        let bytes = fragment.bytes.len() as u64;
        let span = fragment.into.span(bytes);
        match self.memory.bytes_mut(span) {
            Some(room) => room.copy_from_slice(&fragment.bytes),
            None => return Err(self.no_memory(source, span)),
        }
        self.port.step(Step::LandWord, bytes.div_ceil(4));
        match fragment.landed {
            Some(landed) => self.run(source, handler, arguments, Some(landed), may_reply),
            None => Ok(()),
        }
    }

    /// Runs a handler and sends its reply.
    fn run(
        &mut self,
        source: Rank,
        handler: HandlerId,
        arguments: Arguments,
        landed: Option<Span>,
        may_reply: bool,
    ) -> Result<(), AmError> {
        self.port.step(Step::Dispatch, 1);
        let function = *self
            .handlers
            .get(usize::from(handler.0))
            .ok_or(AmError::NoHandler {
                source_rank: source,
                handler: handler.0,
                handlers: self.handlers.len(),
            })?;
        let mut arrival = Arrival {
            state: &mut self.state,
            memory: &mut self.memory,
            source,
            words: arguments.as_slice(),
            landed,
            handler,
            may_reply,
            reply: None,
            work: Work::default(),
        };
        function(&mut arrival)?;
        let (reply, work) = (arrival.reply, arrival.work);
        self.port.work(work);
        if let Some((handler, arguments)) = reply {
            self.outgoing.push_back(Outgoing {
                to: source,
                handler,
                arguments,
                rest: Rest::Reply,
            });
        }
        Ok(())
    }
}

impl Outgoing {
    /// The function that its sending is charged to.
    fn function(&self) -> Function {
        match self.rest {
            Rest::Reply => Function::Reply,
            // The reply to a get is sent from within a poll.
            Rest::Bulk {
                answers_get: true, ..
            } => Function::Poll,
            Rest::Bulk {
                answers_get: false, ..
            } => Function::Store,
        }
    }

    /// Counts `bytes` more as sent; returns whether that was all.
    fn advance(&mut self, bytes: u64) -> bool {
        match &mut self.rest {
            Rest::Reply => true,
            Rest::Bulk { source, sent, .. } => {
                *sent += bytes;
                *sent == source.bytes
            }
        }
    }
}

impl<P: Port, S> ActiveMessages for Endpoint<P, S> {
    type State = S;

    fn rank(&self) -> Rank {
        self.port.rank()
    }

    fn ranks(&self) -> u32 {
        self.port.ranks()
    }

    fn state(&mut self) -> &mut S {
        &mut self.state
    }

    fn make_region(&mut self, bytes: usize) -> Result<Region, AmError> {
        let region = self.memory.make(bytes);
        self.port.attach(region, bytes)?;
        Ok(region)
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn request(&mut self, to: Rank, handler: HandlerId, words: &[u64]) -> Result<(), AmError> {
        self.check_rank(to)?;
        let message = Message {
            kind: Kind::Request,
            handler,
            arguments: Arguments::new(words).ok_or(AmError::TooManyWords(words.len()))?,
        };
        self.within(Function::Request, |this| this.send_short(to, message))
    }

    fn store(
        &mut self,
        to: Rank,
        from: Span,
        into: Place,
        handler: HandlerId,
        word: u64,
    ) -> Result<(), AmError> {
        self.check_rank(to)?;
        self.check_own(self.port.rank(), from)?;
        let arguments = Arguments::new(&[word]).ok_or(AmError::TooManyWords(1))?;
        let mut outgoing = Outgoing {
            to,
            handler,
            arguments,
            rest: Rest::Bulk {
                answers_get: false,
                source: from,
                into,
                sent: 0,
            },
        };
        self.within(Function::Store, |this| {
            loop {
                match this.push(&mut outgoing)? {
                    Pushed::Last => return Ok(()),
                    Pushed::Piece => {}
                    Pushed::Nothing => {
                        this.poll_or_wait(Awaited::from(to, "room for a store"))?;
                    }
                }
            }
        })
    }

    fn get(
        &mut self,
        from: Rank,
        source: Span,
        into: Place,
        handler: HandlerId,
        word: u64,
    ) -> Result<(), AmError> {
        self.check_rank(from)?;
        self.check_own(self.port.rank(), into.span(source.bytes))?;
        let message = Message {
            kind: Kind::Get { source, into },
            handler,
            arguments: Arguments::new(&[word]).ok_or(AmError::TooManyWords(1))?,
        };
        self.within(Function::Get, |this| this.send_short(from, message))
    }

    fn poll(&mut self) -> Result<usize, AmError> {
        self.within(Function::Poll, |this| {
            this.port.step(Step::EnterPoll, 1);
            this.flush()?;
            let mut handled = 0;
            while let Some((source, message)) = this.port.receive()? {
                this.accept(source, message)?;
                handled += 1;
                // Messages that arrive continuously must not prevent those that wait from being
                // sent.
                this.flush()?;
            }
            Ok(handled)
        })
    }

    fn wait_until(
        &mut self,
        awaited: Awaited,
        mut done: impl FnMut(&mut S) -> bool,
    ) -> Result<(), AmError> {
        while !done(&mut self.state) {
            self.poll_or_wait(awaited)?;
        }
        Ok(())
    }

    fn work(&mut self, work: Work) {
        self.port.work(work);
    }
}
