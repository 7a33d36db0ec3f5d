//! How often this method checks for events that do not arrive through a ring, and how long it waits inside a call.
//!
//! How a thread waits for messages (when it polls, yields and parks) is decided by the waiting
//! policy of the caller, such as that of the engine, and not here. Here are the checks of one poll,
//! when a sleeping caller has to poll again because nothing will wake it, and the one wait that
//! cannot be left to the caller. Times were measured on an EPYC of the fifth generation: a poll of
//! one ring takes 8 ns, a poll of the sockets that finds nothing 166 ns (`epoll_wait`), a spin 25
//! ns, a reading of the clock 23 ns.

use std::time::Duration;

// The checks of a poll. The policy of the caller decides when it polls; a check that one poll leaves out is made by a later
// one, or before the caller sleeps.

/// Polls between two polls of the sockets, which report new connections and deaths: 166 ns in 8 µs
/// of polls, 2 %. With 64 it would be 32 %; with 16,384 a death would be noticed 130 µs late.
pub(super) const SOCKET_POLLS: u64 = 1024;

/// The same while a connection is being made, whose messages arrive through sockets: each is found
/// at most 0.4 µs late, for 65 % more in each of these polls.
pub(super) const HANDSHAKE_POLLS: u64 = 32;

/// A ring is no longer polled after this many looks at rings, its own and others', without a packet of it, if more than
/// [`ALWAYS_POLLED`] are polled: after 160 µs. Looks are counted and not polls, as a poll takes the longer the more rings it looks at:
/// counted in polls, 64 rings that had a packet each millisecond were polled for ever, and an 8-byte message of another took 0.46 µs
/// one way instead of 0.12. Its sender rings from then on, and the receiver passes a fence in every process (`membarrier`). After the
/// next packet the ring is polled again.
pub(super) const QUIET_LOOKS: u64 = 20_480;

/// The same for rings whose senders still ring, to which nothing has to be announced: after 30 µs.
pub(super) const QUIET_LOOKS_NOTIFIED: u64 = 4096;

/// Polls between two searches for quiet rings, each of which takes as long as a poll.
pub(super) const QUIET_CHECK_POLLS: u64 = 16;

/// This many rings cost next to nothing to poll, 32 ns, so polling them ends only when the caller
/// sleeps.
pub(super) const ALWAYS_POLLED: usize = 4;

/// A process that slept within this many polls, 1 µs, is likely to sleep again soon: its peers go
/// on ringing, which costs them less than changing the setting and back costs this process (a fence
/// in every process).
pub(super) const AWAKE_POLLS: u64 = 128;

/// Spins between two readings of the clock during a wait for a helper: 23 ns in 400, 6 %.
pub(super) const CLOCKED_SPINS: u32 = 16;

// When a sleeping caller has to poll again, as no event reports these changes. These are rates of
// attempts. No message waits for any of them.

/// How often a sleeping process checks whether quarantined memory is free: the peer that uses it is stopped, and
/// reports nothing. A check reads a word for each piece of memory, of which there are at most 4,096: 0.1 ms at 25 ns each, 0.5 % of the interval.
pub(super) const QUARANTINE_INTERVAL: Duration = Duration::from_millis(20);

/// How often a process tries again to connect to a listener whose queue is full: no event reports
/// when it has room. An attempt is one system call on the caller's side, and none on the
/// listener's.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// How long the listener pauses when there is no descriptor left even to refuse a caller: no event
/// reports when there is one. Without a pause the listener would be ready in each poll, and keep
/// the process awake.
pub(super) const LISTENER_INTERVAL: Duration = Duration::from_millis(50);

// The wait inside a call: revoking memory returns when the peer no longer writes to it. This cannot
// be left to the policy: the method may neither deliver packets nor return in the middle of it. It
// waits for the rest of one step of a copy, which the peer has begun.

/// Checks before the processor is yielded: 25 µs, in which one processor copies a quarter of a
/// megabyte.
pub(super) const COPY_SPINS: u64 = 1000;

/// Yields between two checks whether the peer is alive, stopped or overdue. These checks are system
/// calls and a file of `/proc`; a yield takes 0.3 µs where no other thread wants the processor, and
/// long enough to make the checks rare where one does.
pub(super) const YIELDS_PER_LOOK: u64 = 64;

/// How long to wait for a running peer: far longer than its step takes on a loaded machine. Memory
/// that it still accesses then is quarantined.
pub(super) const COPY_PATIENCE: Duration = Duration::from_secs(2);
