//! A program as a coroutine in virtual time.
//!
//! Between two calls of its port a program runs natively; the time that it has charged meanwhile is
//! reconciled with virtual time at the next call, as in pSNOW (§2.1). The machine carries out the
//! call itself, and then resumes the coroutine with the result.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::am::port::{Awaited, Function, Message, Port, Rank, Step, Stop, Work};
use crate::am::{AmError, Region};

/// A program's call of the machine.
#[derive(Debug)]
pub(super) enum Call {
    /// Names the region that was made next.
    Attach { bytes: usize },
    /// Sends a message.
    Send { to: Rank, message: Message },
    /// Takes the next message that has arrived, if there is one.
    Receive,
    /// Waits for a change.
    Wait(Awaited),
    /// Lets time pass, because the program has computed for long.
    Pass,
}

/// The value with which the machine resumes a program: the result of its call.
#[derive(Debug)]
pub(super) enum CallResult {
    /// The call was carried out.
    Done,
    /// There is no room for this message.
    NoRoom(Message),
    /// The message that has arrived, if there is one.
    Received(Option<(Rank, Message)>),
    /// The simulation has ended.
    Stop,
}

/// Cycles of the host's processor, for each function.
pub(super) type Spent = [u64; Function::COUNT];

/// The time that a program has charged, and its next call.
pub(super) struct Yielded {
    pub(super) spent: Spent,
    pub(super) call: Call,
    /// The function that the call's time is charged to.
    pub(super) function: Function,
}

/// The effect of a call, after the cycles before it have been computed.
pub(super) enum CallEffect {
    /// The processor computes for this many cycles, then the call returns the result.
    Then(u64, CallResult),
    /// The program waits.
    Wait,
}

/// How native time becomes cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocking {
    /// The program counts its operations, and each kind has a price. Deterministic.
    Counted,
    /// The program's real time, multiplied by `cycles_per_microsecond`. **Not deterministic**: it depends on
    /// the machine that simulates, and differs between runs.
    Measured {
        /// Cycles of the simulated processor for each native microsecond.
        cycles_per_microsecond: u64,
    },
}

impl Clocking {
    /// Whether the same input gives the same times.
    pub fn is_deterministic(self) -> bool {
        self == Self::Counted
    }
}

/// Costs of a program's own work, in cycles of the host's processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortCosts {
    pub(super) clocking: Clocking,
    pub(super) floating: u64,
    pub(super) integer: u64,
    pub(super) cached: u64,
    pub(super) memory: u64,
    pub(super) compose: u64,
    pub(super) enter_poll: u64,
    pub(super) dispatch: u64,
    pub(super) land_word: u64,
    pub(super) fragment_bytes: usize,
    pub(super) page_bytes: usize,
    /// A program that computes longer than this without a call lets time pass.
    pub(super) longest_silence: u64,
}

/// The port of a simulated process.
pub struct SimPort<'y> {
    yielder: &'y Yielder<CallResult, Yielded>,
    rank: Rank,
    ranks: u32,
    costs: PortCosts,
    /// The time charged since the last call. The machine reads it, too, when the program has
    /// returned.
    spent: Rc<Cell<Spent>>,
    function: Function,
    /// When the program began to run natively.
    since: Option<Instant>,
}

impl SimPort<'_> {
    fn charge(&mut self, cycles: u64) {
        let mut spent = self.spent.get();
        let account = &mut spent[self.function as usize];
        *account = account.saturating_add(cycles);
        self.spent.set(spent);
    }

    /// Charges the native time since the last call to the present function.
    fn reconcile(&mut self) {
        if let (
            Some(since),
            Clocking::Measured {
                cycles_per_microsecond,
            },
        ) = (self.since, self.costs.clocking)
        {
            let native = since.elapsed().as_nanos();
            let cycles = native.saturating_mul(u128::from(cycles_per_microsecond)) / 1_000;
            self.charge(u64::try_from(cycles).unwrap_or(u64::MAX));
            self.since = Some(Instant::now());
        }
    }

    fn call(&mut self, call: Call) -> CallResult {
        self.reconcile();
        let result = self.yielder.suspend(Yielded {
            spent: self.spent.take(),
            call,
            function: self.function,
        });
        if self.since.is_some() {
            self.since = Some(Instant::now());
        }
        result
    }
}

impl Port for SimPort<'_> {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn fragment_bytes(&self) -> usize {
        self.costs.fragment_bytes
    }

    fn page_bytes(&self) -> usize {
        self.costs.page_bytes
    }

    fn attach(&mut self, _region: Region, bytes: usize) -> Result<(), Stop> {
        match self.call(Call::Attach { bytes }) {
            CallResult::Stop => Err(Stop),
            _ => Ok(()),
        }
    }

    fn send(&mut self, to: Rank, message: Message) -> Result<Option<Message>, Stop> {
        match self.call(Call::Send { to, message }) {
            CallResult::Stop => Err(Stop),
            CallResult::NoRoom(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }

    fn receive(&mut self) -> Result<Option<(Rank, Message)>, Stop> {
        match self.call(Call::Receive) {
            CallResult::Stop => Err(Stop),
            CallResult::Received(received) => Ok(received),
            _ => Ok(None),
        }
    }

    fn wait(&mut self, awaited: Awaited) -> Result<(), Stop> {
        match self.call(Call::Wait(awaited)) {
            CallResult::Stop => Err(Stop),
            _ => Ok(()),
        }
    }

    fn work(&mut self, work: Work) {
        if !self.costs.clocking.is_deterministic() {
            return;
        }
        let kinds = [
            (work.floating, self.costs.floating),
            (work.integer, self.costs.integer),
            (work.cached, self.costs.cached),
            (work.memory, self.costs.memory),
        ];
        for (times, cycles) in kinds {
            self.charge(times.saturating_mul(cycles));
        }
        // A program that computes for ever must not keep the others from ending. Its next call
        // returns that the simulation has ended.
        if self.spent.get().into_iter().fold(0, u64::saturating_add) > self.costs.longest_silence {
            self.call(Call::Pass);
        }
    }

    fn step(&mut self, step: Step, times: u64) {
        let cycles = match step {
            Step::Compose => self.costs.compose,
            Step::EnterPoll => self.costs.enter_poll,
            Step::Dispatch => self.costs.dispatch,
            Step::LandWord => self.costs.land_word,
        };
        self.charge(times.saturating_mul(cycles));
    }

    fn enter(&mut self, function: Function) -> Function {
        self.reconcile();
        std::mem::replace(&mut self.function, function)
    }
}

/// How a coroutine has returned to the machine.
pub(super) enum Turn<R> {
    /// It calls the machine.
    Calls(Yielded),
    /// The program has returned.
    Returned(Result<R, AmError>),
}

/// A program with its stack.
pub(super) struct Process<R> {
    coroutine: Coroutine<CallResult, Yielded, Result<R, AmError>, DefaultStack>,
}

impl<R: 'static> Process<R> {
    /// A program that has not begun.
    pub(super) fn new(
        rank: Rank,
        ranks: u32,
        costs: PortCosts,
        stack_bytes: usize,
        program: impl for<'y> FnOnce(SimPort<'y>) -> Result<R, AmError> + 'static,
    ) -> std::io::Result<Self> {
        let stack = DefaultStack::new(stack_bytes)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder, first: CallResult| {
            if matches!(first, CallResult::Stop) {
                return Err(AmError::Stopped);
            }
            let spent = Rc::new(Cell::new(Spent::default()));
            let since = (!costs.clocking.is_deterministic()).then(Instant::now);
            let result = program(SimPort {
                yielder,
                rank,
                ranks,
                costs,
                spent: Rc::clone(&spent),
                function: Function::Compute,
                since,
            });
            // Work charged since the last call takes its time, too.
            if result.is_ok() && spent.get() != Spent::default() {
                yielder.suspend(Yielded {
                    spent: spent.take(),
                    call: Call::Pass,
                    function: Function::Compute,
                });
            }
            result
        });
        Ok(Self { coroutine })
    }

    /// Whether the program has returned.
    pub(super) fn has_ended(&self) -> bool {
        self.coroutine.done()
    }

    /// Lets the program run to its next call, or to its end.
    pub(super) fn resume(&mut self, result: CallResult) -> Turn<R> {
        match self.coroutine.resume(result) {
            CoroutineResult::Yield(yielded) => Turn::Calls(yielded),
            CoroutineResult::Return(result) => Turn::Returned(result),
        }
    }
}
