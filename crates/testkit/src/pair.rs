//! Two instances of the message layer in one thread, which are connected.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Bmi, Completion, Context, Error, Memory, Posted, Unexpected};

use crate::patience::GENEROUS;

/// An instance whose operations all succeed.
pub struct Side {
    /// The instance.
    pub bmi: Bmi,
    /// Its context.
    pub context: Context,
    done: Vec<Completion>,
    unexpected: Vec<Unexpected>,
    completed: u64,
}

impl Side {
    /// An instance without operations.
    ///
    /// # Panics
    /// If there is no room for a context.
    pub fn new(mut bmi: Bmi) -> Self {
        let context = bmi.open_context().expect("a context");
        Self {
            bmi,
            context,
            done: Vec::with_capacity(64),
            unexpected: Vec::with_capacity(64),
            completed: 0,
        }
    }

    /// Counts an operation that was just posted, if it is complete.
    ///
    /// # Panics
    /// If it failed.
    pub fn posted(&mut self, posted: Result<Posted, Error>) {
        if let Posted::Complete(done) = posted.expect("it can be posted") {
            done.result.expect("it succeeds");
            self.completed += 1;
        }
    }

    /// Makes progress, and counts what completes.
    ///
    /// # Panics
    /// If an operation fails.
    pub fn step(&mut self) {
        let (bmi, done) = (&mut self.bmi, &mut self.done);
        bmi.testcontext(self.context, 64, Duration::ZERO, done)
            .expect("a context of its own");
        for done in self.done.drain(..) {
            done.result.expect("it succeeds");
            self.completed += 1;
        }
    }
}

/// Two sides that have met.
pub struct Pair {
    /// The side that called.
    pub client: Side,
    /// The side that listens.
    pub server: Side,
    /// The server, for the client.
    pub to: Addr,
    /// The client, for the server.
    pub from: Addr,
}

impl Pair {
    /// Has `client` call `server`, which listens.
    pub fn new(client: Bmi, server: Bmi) -> Self {
        let (mut client, server) = (Side::new(client), Side::new(server));
        let listening = server.bmi.listening();
        let to = client.bmi.lookup(&listening[0]).expect("an address");
        let mut pair = Self {
            client,
            server,
            to,
            from: to,
        };
        pair.send_unexpected(&[Memory::from_vec(vec![1])], 0);
        pair.from = pair.unexpected();
        pair.run(1, 0);
        pair
    }

    /// The client posts an unexpected message.
    pub fn send_unexpected(&mut self, data: &[Memory], tag: u64) {
        let (bmi, context) = (&mut self.client.bmi, self.client.context);
        let posted = bmi.post_sendunexpected(self.to, data, tag, context, 0);
        self.client.posted(posted);
    }

    /// The client posts a message.
    pub fn send(&mut self, data: &[Memory], tag: u64) {
        let (bmi, context) = (&mut self.client.bmi, self.client.context);
        let posted = bmi.post_send(self.to, data, tag, context, 0);
        self.client.posted(posted);
    }

    /// The server posts a receive for it.
    pub fn receive(&mut self, into: &[Memory], tag: u64) {
        let (bmi, context) = (&mut self.server.bmi, self.server.context);
        let posted = bmi.post_recv(self.from, into, tag, context, 0);
        self.server.posted(posted);
    }

    /// Makes progress on both sides until each has completed this number of operations since the
    /// last call.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn run(&mut self, client: u64, server: u64) {
        let until = Instant::now() + GENEROUS;
        while self.client.completed < client || self.server.completed < server {
            self.client.step();
            self.server.step();
            assert!(Instant::now() < until, "no progress");
        }
        (self.client.completed, self.server.completed) = (0, 0);
    }

    /// The sender of the next unexpected message of the server's.
    ///
    /// # Panics
    /// If there is none for too long.
    pub fn unexpected(&mut self) -> Addr {
        let until = Instant::now() + GENEROUS;
        let Side {
            bmi, unexpected, ..
        } = &mut self.server;
        while unexpected.is_empty() {
            self.client.step();
            bmi.testunexpected(1, Duration::ZERO, unexpected)
                .expect("testing is always allowed");
            assert!(Instant::now() < until, "no message");
        }
        unexpected.pop().expect("it is not empty").from
    }
}
