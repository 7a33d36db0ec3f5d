//! The message layer as the processes of benchmarks use it: every wait ends, and every failure
//! states what was being done.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Bmi, Completion, Config, Context, Memory, OpId, Posted, Tag, Unexpected};
use causeway_command::failure::{Doing, Failure, Outcome};

/// How long the other end may be silent before an exchange fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An instance of the message layer with one context.
pub(crate) struct Layer {
    pub(crate) bmi: Bmi,
    pub(crate) context: Context,
}

impl Layer {
    /// Starts an instance, listening at `listen` unless that is empty.
    pub(crate) fn start(listen: &str) -> Outcome<Self> {
        Self::start_with(listen, Config::default())
    }

    /// The same with settings of its own.
    pub(crate) fn start_with(listen: &str, settings: Config) -> Outcome<Self> {
        let doing = || match listen {
            "" => "starting the message layer".to_owned(),
            listen => format!("listening at {listen}"),
        };
        let config = Config {
            listen: (!listen.is_empty())
                .then(|| listen.to_owned())
                .into_iter()
                .collect(),
            ..settings
        };
        let mut bmi = Bmi::new(config).doing(doing)?;
        let context = bmi.open_context().doing(doing)?;
        Ok(Self { bmi, context })
    }

    /// The address at which it listens.
    pub(crate) fn address(&self) -> String {
        self.bmi.listening().join(",")
    }

    /// Introduces this instance to the process at `address`, which awaits that by [`Layer::await_introductions`].
    pub(crate) fn introduce_to(&mut self, address: &str) -> Outcome<Addr> {
        let doing = || format!("reaching {address}");
        let peer = self.bmi.lookup(address).doing(doing)?;
        let hello = Memory::from_vec(b"hello".to_vec());
        let sent = self.send_unexpected(peer, &hello, 0);
        sent.and_then(|begun| self.complete(begun))
            .map_err(|failure| failure.about(doing()))?;
        Ok(peer)
    }

    /// Awaits the introductions of `count` others, each sent by [`Layer::introduce_to`].
    pub(crate) fn await_introductions(&mut self, count: usize) -> Outcome<Vec<Addr>> {
        let doing = || format!("awaiting {count} others");
        let mut hellos: Vec<Unexpected> = Vec::new();
        let mut silent_since = Instant::now();
        while hellos.len() < count {
            let came = self
                .bmi
                .testunexpected(
                    count - hellos.len(),
                    Duration::from_millis(100),
                    &mut hellos,
                )
                .doing(doing)?;
            if came > 0 {
                silent_since = Instant::now();
            } else if silent_since.elapsed() > PATIENCE {
                return Err(Failure::new(
                    doing(),
                    format!("only {} introduced themselves", hellos.len()),
                ));
            }
        }
        Ok(hellos.iter().map(|hello| hello.from).collect())
    }

    /// Memory of this process, or memory that `peer` may map.
    pub(crate) fn memory(&mut self, peer: Addr, size: usize, allocate: bool) -> Outcome<Memory> {
        match allocate {
            true => self
                .bmi
                .memalloc(peer, size)
                .doing(|| format!("allocating {size} bytes to share")),
            false => Ok(Memory::zeroed(size)),
        }
    }

    /// Waits for the posted operations. Returns the bytes moved.
    #[inline]
    pub(crate) fn complete(&mut self, begun: Begun) -> Outcome<u64> {
        match begun {
            Begun::Done(bytes) => Ok(bytes),
            Begun::Pending(op) => self.wait(op),
        }
    }

    #[inline]
    fn wait(&mut self, op: OpId) -> Outcome<u64> {
        match self.bmi.test(op, PATIENCE) {
            Ok(Some(Completion {
                result: Ok(bytes), ..
            })) => Ok(bytes),
            other => self.wait_on(op, other),
        }
    }

    #[cold]
    fn wait_on(
        &mut self,
        op: OpId,
        tested: Result<Option<Completion>, causeway_bmi::Error>,
    ) -> Outcome<u64> {
        let doing = || "exchanging messages".to_owned();
        if let Some(completion) = tested.doing(doing)? {
            return completion.result.doing(doing);
        }
        // A sleep may end early; only `PATIENCE` without a completion is a failure.
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let tested = self.bmi.test(op, Duration::from_millis(100));
            if let Some(completion) = tested.doing(doing)? {
                return completion.result.doing(doing);
            }
        }
        Err(Failure::new(doing(), "the other end is silent"))
    }

    /// Posts a send.
    #[inline]
    pub(crate) fn send(&mut self, peer: Addr, memory: &Memory, tag: Tag) -> Outcome<Begun> {
        let parts = std::slice::from_ref(memory);
        let posted = self.bmi.post_send(peer, parts, tag, self.context, 0);
        Begun::from(posted, "sending a message")
    }

    /// Posts an unexpected send.
    pub(crate) fn send_unexpected(
        &mut self,
        peer: Addr,
        memory: &Memory,
        tag: Tag,
    ) -> Outcome<Begun> {
        let parts = std::slice::from_ref(memory);
        let posted = self
            .bmi
            .post_sendunexpected(peer, parts, tag, self.context, 0);
        Begun::from(posted, "sending an unexpected message")
    }

    /// Posts a receive.
    #[inline]
    pub(crate) fn receive(&mut self, peer: Addr, memory: &Memory, tag: Tag) -> Outcome<Begun> {
        let parts = std::slice::from_ref(memory);
        let posted = self.bmi.post_recv(peer, parts, tag, self.context, 0);
        Begun::from(posted, "receiving a message")
    }
}

/// A posted operation that has not failed. It fits into two machine words: a value with room for
/// every error is slow to return, which would be measured, too.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Begun {
    /// In progress.
    Pending(OpId),
    /// It has completed, and moved this many bytes.
    Done(u64),
}

impl Begun {
    #[inline]
    fn from(posted: Result<Posted, causeway_bmi::Error>, what: &'static str) -> Outcome<Self> {
        match posted {
            Ok(Posted::Pending(op)) => Ok(Self::Pending(op)),
            Ok(Posted::Complete(Completion {
                result: Ok(bytes), ..
            })) => Ok(Self::Done(bytes)),
            other => Self::failed(other, what),
        }
    }

    #[cold]
    fn failed(posted: Result<Posted, causeway_bmi::Error>, what: &'static str) -> Outcome<Self> {
        let doing = || what.to_owned();
        match posted.doing(doing)? {
            Posted::Pending(op) => Ok(Self::Pending(op)),
            Posted::Complete(completion) => completion.result.doing(doing).map(Self::Done),
        }
    }
}

/// The content of a message of `size` bytes, when contents are compared.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8)
        .collect()
}
