//! The capabilities that a client has, and how it comes to them.
//!
//! The metadata server sends one with each node of a file that has datafiles, so opening a file needs no further request. A call
//! to an I/O server for which none is there, or only one that has used up most of its lifetime, asks for the node once more before
//! it is sent: that is one request for each file and lifetime. One that the I/O server says has ended is asked for anew, and the call
//! repeated.

use std::time::Instant;

use causeway_wire::fs::formats::CAPABILITIES;
use causeway_wire::fs::{Capability, Errno, Needs, ObjectId, Operation, Rights, Target};

use super::call::{Body, Call};
use super::call_error::CallError;
use super::held_capabilities::own;
use super::pending::{PendingCall, State};
use super::rpc::Rpc;
use super::transfer::IoKind;
use crate::capability_key::CapabilityKey;

/// How often a call is repeated with another capability. Pauses grow from call to call, up to a second in all, so that servers whose
/// clocks differ by a little can be started again in the middle.
const MOST_RENEWALS: u32 = 12;
/// The object and the rights that a request needs.
fn needed(needs: Needs) -> Option<(ObjectId, Rights)> {
    match needs {
        Needs::Nothing => None,
        Needs::Object(object, rights) => Some((object, rights)),
        Needs::Any(rights) => Some((ObjectId(0), rights)),
    }
}

fn needs(call: &Call) -> Option<(ObjectId, Rights)> {
    match &call.body {
        Body::Plain(operation) => needed(operation.needs()),
        Body::Data(IoKind::Read, piece) => Some((piece.object, Rights::READ)),
        Body::Data(IoKind::Write, piece) => Some((piece.object, Rights::WRITE)),
    }
}

impl Rpc {
    /// Makes the capabilities that it needs from now on, as a metadata server's own client.
    pub(super) fn act_as_server(&mut self, key: CapabilityKey) {
        self.capabilities.key = Some(key);
    }

    /// The capability to send with an operation, if it needs one and one is there.
    pub(super) fn capability_for(&mut self, operation: &Operation) -> Option<Capability> {
        let (object, _) = needed(operation.needs())?;
        if let Some(key) = &self.capabilities.key {
            return Some(own(key, object, self.caller().uid, self.client));
        }
        let held = self.capabilities.find((object, self.caller().uid))?;
        Some(held.capability.clone())
    }

    /// Asks for the capabilities that these calls lack. A call for which none is given ends with the metadata server's
    /// reason.
    pub(super) fn authorize_all(&mut self, pending_calls: &mut [PendingCall], deadline: Instant) {
        if self.capabilities.key.is_some() {
            return;
        }
        let (uid, now) = (self.caller().uid, Instant::now());
        // What is good for a while longer is not worth waiting for a metadata server that is down.
        let metadata = self.links.get(self.metadata).and_then(|link| link.addr);
        let is_connected = metadata.is_some_and(|addr| self.bmi.connection(addr).is_some());
        let mut wanted: Vec<(ObjectId, bool)> = Vec::new();
        for pending in pending_calls.iter().filter(|pending| pending.is_open()) {
            let Some((object, rights)) = needs(&pending.call) else {
                continue;
            };
            let (lacks, is_void) = self.capabilities.lacks((object, uid), rights, now);
            let is_asked = lacks && (is_void || is_connected);
            if is_asked && !wanted.iter().any(|(other, _)| *other == object) {
                wanted.push((object, is_void));
            }
        }
        if wanted.is_empty() {
            return;
        }
        let target = match self.metadata_target(deadline) {
            Ok(target) => target,
            Err(error) => return self.fail_unauthorized(pending_calls, &wanted, &error),
        };
        // One of a build without capabilities gives none, and I/O servers decide what that means.
        if self.formats(self.metadata).highest < CAPABILITIES {
            return;
        }
        let ask = |(object, _): &(ObjectId, bool)| {
            let operation = match object {
                ObjectId(0) => Operation::Authorize,
                object => Operation::GetNode {
                    object: *object,
                    content: false,
                },
            };
            Call::query(self.metadata, operation)
        };
        // The replies' capabilities are kept as those of all replies are.
        let calls = wanted.iter().map(ask).collect();
        let replies = self.call_directly(calls, target, deadline);
        for (wanted, reply) in wanted.iter().zip(replies) {
            if let Err(error) = reply {
                self.fail_unauthorized(pending_calls, std::slice::from_ref(wanted), &error);
            }
        }
    }

    fn metadata_target(&mut self, deadline: Instant) -> Result<Target, CallError> {
        if self.known(self.metadata).is_none() {
            self.introduce_metadata(deadline)?;
        }
        let known = self.known(self.metadata);
        known.map(|known| known.target).ok_or_else(|| {
            let message = "the metadata server is not known";
            self.error_at(self.metadata, Errno::EHOSTUNREACH, message)
        })
    }

    /// Ends the calls that have no capability worth anything with this error.
    fn fail_unauthorized(
        &self,
        pending_calls: &mut [PendingCall],
        wanted: &[(ObjectId, bool)],
        error: &CallError,
    ) {
        if error.errno == Errno::EOPNOTSUPP {
            // A metadata server without capabilities.
            return;
        }
        for pending in pending_calls.iter_mut().filter(|pending| pending.is_open()) {
            let of = needs(&pending.call).map(|(object, _)| object);
            if wanted
                .iter()
                .any(|(object, is_void)| *is_void && Some(*object) == of)
            {
                pending.state = State::Done(Err(error.clone()));
            }
        }
    }

    /// Prepares calls for another round whose capabilities have ended. Returns whether there are any.
    pub(super) fn renew_ended(
        &mut self,
        pending_calls: &mut [PendingCall],
        deadline: Instant,
    ) -> bool {
        let uid = self.caller().uid;
        let mut again = false;
        for pending in pending_calls.iter_mut() {
            let State::Done(Err(error)) = &pending.state else {
                continue;
            };
            if error.errno != Errno::CAPABILITY_ENDED {
                continue;
            }
            let error = error.clone();
            if let Some((object, _)) = needs(&pending.call) {
                self.capabilities.forget((object, uid));
            }
            if pending.renewals >= MOST_RENEWALS || Instant::now() >= deadline {
                let errno = Errno::EACCES;
                pending.state = State::Done(Err(CallError { errno, ..error }));
                continue;
            }
            pending.renewals += 1;
            match pending.renewals {
                1 => {
                    pending.state = State::Waiting {
                        until: Instant::now(),
                    }
                }
                _ => pending.wait(error),
            }
            again = true;
        }
        again
    }

    /// Keeps the capability that came with a reply.
    pub(super) fn keep_capability(&mut self, capability: Option<Capability>, sent: Instant) {
        if let Some(capability) = capability {
            let uid = self.caller().uid;
            self.capabilities.keep(uid, capability, sent);
        }
    }
}
