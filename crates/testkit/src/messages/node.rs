//! An instance of the layer that records its operations.

use std::collections::HashMap;
use std::time::Duration;

use causeway_bmi::{
    Addr, Bmi, Completion, Context, Direction, Memory, OpError, OpId, Posted, RegionDescriptor,
    Tag, Unexpected,
};

use causeway_sys::waits;

use crate::patience::Patience;
use crate::random::Random;

/// The content of the message of this tag and size: both ends can make it.
pub(super) fn content(tag: Tag, size: usize) -> Vec<u8> {
    Random::new(tag.wrapping_mul(0x1_0001) ^ size as u64).bytes(size)
}

/// The user number of operations whose completions are ignored.
pub(super) const UNOBSERVED: u64 = 0;

/// The purpose of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Receive,
    Read,
    Write,
}

/// An operation, from its post to the end of the test.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) tag: Tag,
    pub(super) memory: Memory,
    id: Option<OpId>,
    pub(super) result: Option<Result<u64, OpError>>,
}

impl Operation {
    /// Whether it succeeded; contents of a receive or a read are then compared.
    pub(super) fn succeeded(&self) -> bool {
        let done = matches!(self.result, Some(Ok(_)));
        if done && matches!(self.kind, Kind::Receive | Kind::Read) {
            let whole = self.memory.to_vec() == content(self.tag, self.memory.len());
            assert!(
                whole,
                "the content of {:?} differs from the sent bytes",
                self.tag
            );
        }
        done
    }
}

/// An instance with the operations that were posted to it, by number.
pub(super) struct Node {
    pub(super) layer: Bmi,
    pub(super) context: Context,
    pub(super) operations: HashMap<u64, Operation>,
    pub(super) unexpected: Vec<Unexpected>,
    next: u64,
}

impl Node {
    pub(super) fn new(mut layer: Bmi) -> Self {
        let context = layer.open_context().expect("a first context");
        Self {
            layer,
            context,
            operations: HashMap::new(),
            unexpected: Vec::new(),
            next: UNOBSERVED + 1,
        }
    }

    /// Makes progress, and records completions and arrivals.
    pub(super) fn step(&mut self) {
        let mut done: Vec<Completion> = Vec::new();
        self.layer
            .testcontext(self.context, usize::MAX, Duration::ZERO, &mut done)
            .expect("its own context");
        for one in done.into_iter().filter(|one| one.user != UNOBSERVED) {
            self.complete(one.user, one.result);
        }
        self.layer
            .testunexpected(usize::MAX, Duration::ZERO, &mut self.unexpected)
            .expect("testing is always allowed");
    }

    /// Waits for a completion or an arrival, at most so long, and records it: only in the setting in which waits must end by
    /// events. Otherwise it makes progress once, which tests more situations in less time.
    pub(super) fn wait(&mut self, most: Duration) {
        if waits::by_events_only() {
            self.layer.wait(self.context, most);
        }
        self.step();
    }

    fn complete(&mut self, number: u64, result: Result<u64, OpError>) {
        let operation = self.operations.get_mut(&number).expect("it was posted");
        let before = operation.result.replace(result);
        assert_eq!(before, None, "{operation:?} completed twice");
    }

    fn note(
        &mut self,
        kind: Kind,
        tag: Tag,
        memory: Memory,
        post: impl FnOnce(&mut Bmi, Context, u64, &[Memory]) -> Result<Posted, causeway_bmi::Error>,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        let list = std::slice::from_ref(&memory);
        let posted = post(&mut self.layer, self.context, number, list).expect("it can be posted");
        let (id, result) = match posted {
            Posted::Pending(id) => (Some(id), None),
            Posted::Complete(completion) => (None, Some(completion.result)),
        };
        let operation = Operation {
            kind,
            tag,
            memory,
            id,
            result,
        };
        self.operations.insert(number, operation);
        number
    }

    pub(super) fn send(&mut self, to: Addr, tag: Tag, size: usize) -> u64 {
        let memory = Memory::from_vec(content(tag, size));
        self.note(Kind::Send, tag, memory, |layer, context, user, data| {
            layer.post_send(to, data, tag, context, user)
        })
    }

    pub(super) fn send_unexpected(&mut self, to: Addr, tag: Tag, bytes: Vec<u8>) -> u64 {
        let memory = Memory::from_vec(bytes);
        self.note(Kind::Send, tag, memory, |layer, context, user, data| {
            layer.post_sendunexpected(to, data, tag, context, user)
        })
    }

    pub(super) fn receive(&mut self, from: Addr, tag: Tag, size: usize) -> u64 {
        let memory = Memory::zeroed(size);
        self.note(Kind::Receive, tag, memory, |layer, context, user, into| {
            layer.post_recv(from, into, tag, context, user)
        })
    }

    /// Reads or writes all of `region`, which has the content of `tag`.
    pub(super) fn transfer(
        &mut self,
        peer: Addr,
        direction: Direction,
        tag: Tag,
        region: RegionDescriptor,
    ) -> u64 {
        let size = usize::try_from(region.len).expect("it fits in memory");
        let (kind, memory) = match direction {
            Direction::Get => (Kind::Read, Memory::zeroed(size)),
            Direction::Put => (Kind::Write, Memory::from_vec(content(tag, size))),
        };
        self.note(kind, tag, memory, |layer, context, user, local| {
            layer.post_transfer(peer, direction, local, &[region], context, user)
        })
    }

    /// The numbers of the operations that have not completed.
    pub(super) fn pending(&self) -> Vec<u64> {
        let pending = self.operations.iter();
        let pending = pending.filter(|(_, operation)| operation.result.is_none());
        pending.map(|(number, _)| *number).collect()
    }

    pub(super) fn cancel_all(&mut self) {
        for number in self.pending() {
            if let Some(id) = self.operations[&number].id {
                self.layer.cancel(id);
            }
        }
    }

    /// Waits until all posted operations have completed.
    pub(super) fn complete_all(&mut self, why: &str) {
        let mut patience = Patience::new(format!("all operations complete {why}"));
        loop {
            if self.pending().is_empty() {
                return;
            }
            self.wait(patience.left());
            patience.spend();
        }
    }

    /// Waits for the operation to succeed, and forgets it.
    #[track_caller]
    pub(super) fn succeed(&mut self, number: u64) -> Memory {
        let mut patience = Patience::new("an operation completes");
        while self.operations[&number].result.is_none() {
            self.wait(patience.left());
            patience.spend();
        }
        let operation = self.operations.remove(&number).expect("it was posted");
        assert!(matches!(operation.result, Some(Ok(_))), "{operation:?}");
        operation.memory
    }
}
