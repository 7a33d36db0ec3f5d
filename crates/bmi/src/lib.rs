//! The message transfer layer (Carns): post, then test.
//!
//! Everything is nonblocking: a `post_*` call starts an operation, a `test*` call makes progress and
//! returns what has completed, sleeping at most for the time passed in. Addresses are connectionless
//! text; tags name messages; messages that need no posted receive arrive through
//! [`testunexpected`](causeway_engine::Endpoint::testunexpected). The methods underneath (`shm`, `tcp`, …) are chosen by address.
//!
//! Read [`types`] first, then [`Bmi`]. The calls of a [`Bmi`] take `&mut self`, so one thread at a time uses it, and others may only end
//! its waits ([`Waker`]); a process may have several. The C interface (`causeway-bmi-c`) lets several threads share one instance, by
//! letting them in one after the other.
//!
//! The [engine](causeway_engine) does all of this. This crate is BMI's interface to it: BMI's names, and its rule that a
//! receive gets the messages of one peer with one tag ([`ByTag`]).
//!
//! What this crate does not do: order messages of different tags, interpret their contents, or
//! retry what failed.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use causeway_engine::Endpoint;
use causeway_engine::matcher::{ByTag, FromTag};
use causeway_transport::registry::Registry;

pub use causeway_transport::agent;
pub use causeway_transport::nodes;

pub use causeway_engine::types::{self, *};
pub use causeway_engine::{
    Access, Cursor, Direction, Identity, Memory, Parked, PeerError, PeerReport, RegionDescriptor,
    Waker, log,
};

/// A completion context: operations posted to it are tested separately from others.
pub use causeway_engine::types::Queue as Context;

/// One instance of the message layer, with its methods, addresses, contexts and operations.
pub struct Bmi {
    endpoint: Endpoint<ByTag>,
}

impl Bmi {
    /// Starts the layer: registers methods and listens at the configured addresses.
    pub fn new(config: Config) -> Result<Self, Error> {
        let endpoint = Endpoint::new(config)?;
        Ok(Self { endpoint })
    }

    /// Starts the layer over the caller's own methods.
    pub fn with_methods(config: Config, registry: Registry) -> Result<Self, Error> {
        let endpoint = Endpoint::with_methods(config, registry)?;
        Ok(Self { endpoint })
    }

    /// Opens a completion context. Operations posted to it are tested separately from others.
    pub fn open_context(&mut self) -> Result<Context, Error> {
        self.endpoint.open_queue()
    }

    /// Closes a context, cancelling what is still posted to it.
    pub fn close_context(&mut self, context: Context) {
        self.endpoint.close_queue(context);
    }

    /// Receives the next message of (`from`, `tag`) into `into`, scattered over fragments. A message
    /// larger than the fragments completes with [`OpError::TooLarge`].
    #[inline]
    pub fn post_recv(
        &mut self,
        from: Addr,
        into: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        let peer = self.endpoint.number(from).ok_or(Error::Stale("address"))?;
        let pattern = FromTag { peer, tag };
        self.endpoint.post_receive(pattern, into, context, user)
    }

    /// Tests everything posted to `context` (the thesis's testglobal); appends at most `most`.
    pub fn testcontext(
        &mut self,
        context: Context,
        most: usize,
        idle: Duration,
        out: &mut Vec<Completion>,
    ) -> Result<usize, Error> {
        self.endpoint.test_queue(context, most, idle, out)
    }
}

/// What is the same for every messenger: addresses, sends, transfers, testing, waiting.
impl Deref for Bmi {
    type Target = Endpoint<ByTag>;

    #[inline(always)]
    fn deref(&self) -> &Endpoint<ByTag> {
        &self.endpoint
    }
}

impl DerefMut for Bmi {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Endpoint<ByTag> {
        &mut self.endpoint
    }
}
