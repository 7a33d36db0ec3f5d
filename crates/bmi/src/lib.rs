//! The message transfer layer (Carns): post, then test.
//!
//! Everything is nonblocking: a `post_*` call starts an operation, a `test*` call makes progress and
//! tells what has completed, sleeping at most as long as it is told. Addresses are connectionless
//! text; tags name messages; messages that nobody asked for arrive through
//! [`Bmi::testunexpected`]. The methods underneath (`shm`, `tcp`, …) are chosen by address.
//!
//! Read [`types`] first, then [`Bmi`]. A [`Bmi`] belongs to one thread at a time; a process may have
//! several.
#![forbid(unsafe_code)]

pub mod types;

use std::time::Duration;

pub use causeway_sys::memory::Memory;
pub use causeway_transport::{Access, Direction, Identity, PeerError, PeerReport};
pub use causeway_wire::region::RegionDescriptor;
pub use types::*;

/// One instance of the message layer, with its methods, addresses, contexts and operations.
pub struct Bmi {}

impl Bmi {
    /// Starts the layer: registers methods and listens where the configuration says.
    pub fn new(config: Config) -> Result<Self, Error> {
        todo!()
    }

    /// The addresses that others can reach this process at, as text, best first.
    pub fn listening(&self) -> Vec<String> {
        todo!()
    }

    /// A handle for the process at `address`. Several addresses of one process may be given, joined
    /// with commas: the cheapest that can be reached is taken. Equal addresses give equal handles;
    /// each look-up adds a reference. No connection is made yet.
    pub fn lookup(&mut self, address: &str) -> Result<Addr, Error> {
        todo!()
    }

    /// The text of an address.
    pub fn reverse_lookup(&self, addr: Addr) -> Option<String> {
        todo!()
    }

    /// Adds a reference to an address (for one that came with an unexpected message).
    pub fn retain(&mut self, addr: Addr) {
        todo!()
    }

    /// Takes a reference away; the last one drops the connection once nothing is in flight.
    pub fn release(&mut self, addr: Addr) {
        todo!()
    }

    /// Who is at the other end, as far as is known for certain; `None` while not connected.
    pub fn identity(&self, addr: Addr) -> Option<Identity> {
        todo!()
    }

    /// What was chosen for this address, and why.
    pub fn report(&self, addr: Addr) -> Option<PeerReport> {
        todo!()
    }

    /// Opens a completion context. Operations posted to it are tested apart from others.
    pub fn open_context(&mut self) -> Result<Context, Error> {
        todo!()
    }

    /// Closes a context, cancelling what is still posted to it.
    pub fn close_context(&mut self, context: Context) {
        todo!()
    }

    /// Sends `data`, gathered from fragments, to be received under `tag`.
    pub fn post_send(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        todo!()
    }

    /// Receives the next message of (`from`, `tag`) into `into`, scattered over fragments. A message
    /// larger than the fragments completes with [`OpError::TooLarge`].
    pub fn post_recv(
        &mut self,
        from: Addr,
        into: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        todo!()
    }

    /// Sends `data` to be found by the peer's [`Bmi::testunexpected`]. At most
    /// [`Config::unexpected_limit`] bytes.
    pub fn post_sendunexpected(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        todo!()
    }

    /// Cancels an operation. It still completes, with [`OpError::Cancelled`] or, if that came first,
    /// as it would have; its memory is free only then.
    pub fn cancel(&mut self, op: OpId) {
        todo!()
    }

    /// Tests one operation, making progress and sleeping at most `idle`.
    pub fn test(&mut self, op: OpId, idle: Duration) -> Result<Option<Completion>, Error> {
        todo!()
    }

    /// Tests some operations; appends those that completed to `out` and answers how many.
    pub fn testsome(
        &mut self,
        ops: &[OpId],
        idle: Duration,
        out: &mut Vec<Completion>,
    ) -> Result<usize, Error> {
        todo!()
    }

    /// Tests everything posted to `context` (the thesis's testglobal); appends at most `most`.
    pub fn testcontext(
        &mut self,
        context: Context,
        most: usize,
        idle: Duration,
        out: &mut Vec<Completion>,
    ) -> Result<usize, Error> {
        todo!()
    }

    /// Takes at most `most` unexpected messages. Each carries a reference to its address, which the
    /// caller releases.
    pub fn testunexpected(
        &mut self,
        most: usize,
        idle: Duration,
        out: &mut Vec<Unexpected>,
    ) -> Result<usize, Error> {
        todo!()
    }

    /// Makes progress until something completes in `context`, an unexpected message arrives, or `idle`
    /// has passed: what a server's loop sleeps in. Answers whether there is something to test for.
    pub fn wait(&mut self, context: Context, idle: Duration) -> bool {
        todo!()
    }

    /// A descriptor that ends a sleep in this instance when another thread calls
    /// [`Waker::wake`].
    pub fn waker(&self) -> Waker {
        todo!()
    }

    /// A buffer laid out for the method that serves `addr`: peers may map it. Freed when its last
    /// clone is dropped.
    pub fn memalloc(&mut self, addr: Addr, len: usize) -> Result<Memory, Error> {
        todo!()
    }

    /// Lets the process at `addr` read or write `memory` until [`Bmi::unexport`].
    pub fn export(
        &mut self,
        addr: Addr,
        memory: &Memory,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        todo!()
    }

    /// Ends an export; the peer cannot touch the memory once this returns.
    pub fn unexport(&mut self, addr: Addr, region: &RegionDescriptor) {
        todo!()
    }

    /// Moves bytes between local memory and memory that the process at `addr` exports to us: one
    /// completion for the whole list.
    pub fn post_transfer(
        &mut self,
        addr: Addr,
        direction: Direction,
        local: &[Memory],
        remote: &[RegionDescriptor],
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        todo!()
    }

    /// Maps memory that the process at `addr` exports to us, if the method can.
    pub fn map(&mut self, addr: Addr, region: &RegionDescriptor) -> Option<Memory> {
        todo!()
    }

    /// Changes an option, of one address or of the layer.
    pub fn set_info(&mut self, addr: Option<Addr>, option: InfoOption) -> Result<(), Error> {
        todo!()
    }

    /// What the layer is doing: load, queue depths, memory held for unexpected messages.
    pub fn get_info(&self, addr: Option<Addr>) -> Info {
        todo!()
    }
}
