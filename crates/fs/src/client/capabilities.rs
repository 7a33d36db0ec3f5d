//! The capabilities that a client has, and the requests by which it gets them.
//!
//! The metadata server sends a capability with each node of a file that has datafiles, so opening a file needs no further request. If a call
//! to an I/O server has no capability, or only one that has used up most of its lifetime, the client requests the node once more before it sends
//! the call: that is one request for each file and lifetime. A capability that the I/O server refuses as ended is requested anew, and the call
//! repeated.

use std::collections::HashMap;
use std::time::Instant;

use causeway_wire::fs::formats::{CAPABILITIES, FORMATS};
use causeway_wire::fs::{
    Body as NodeBody, Capability, Errno, ObjectId, Operation, ReplyBody, Rights, Target,
};

use super::call::{Body, Call};
use super::call_error::CallError;
use super::pending::{LONGEST_PAUSE, PendingCall, State};
use super::rpc::Rpc;
use super::transfer::IoKind;
use crate::capability_key::Signer;

/// The part of a call's time that may be spent on renewing a capability that is still good for a while.
const EARLY_PART: u32 = 8;

/// The object and the rights that a request needs.
fn needs(call: &Call) -> Option<(ObjectId, Rights)> {
    match &call.body {
        Body::Plain(operation) => operation.needs().what(),
        Body::Data(IoKind::Read, piece) => Some((piece.object, Rights::READ)),
        Body::Data(IoKind::Write, piece) => Some((piece.object, Rights::WRITE)),
    }
}

/// Whether a metadata server that gives out capabilities sends one with this reply.
fn comes_with_one(reply: &ReplyBody) -> bool {
    match reply {
        ReplyBody::Node(node) => matches!(node.body, NodeBody::Striped { .. }),
        reply => *reply == ReplyBody::Done,
    }
}

impl Rpc {
    /// Makes the capabilities that it needs itself from now on, as a metadata server's own client. The server reads files about nodes again when
    /// it is asked to, and checks first that it may still be that server.
    pub(super) fn act_as_server(&mut self, signer: Signer) {
        self.capabilities.signer = Some(signer);
        self.node_files = None;
    }

    /// The capability to send with a call's operation, if the operation needs one and the client has it.
    pub(super) fn capability_for(
        &self,
        pending: &PendingCall,
        operation: &Operation,
    ) -> Option<Capability> {
        let (object, _) = operation.needs().what()?;
        match &self.capabilities.signer {
            Some(signer) => Some(signer.own(object, self.caller().uid, self.client)),
            None => pending.capability.clone(),
        }
    }

    /// Gives the calls the capabilities that they need, and requests those that are missing. A call for which none is given ends with the
    /// metadata server's reason.
    pub(super) fn authorize_all(
        &mut self,
        pending_calls: &mut [PendingCall],
        now: Instant,
        deadline: Instant,
    ) {
        if !self.hand_out(pending_calls, now) || !self.capabilities.are_asked_for(now) {
            return;
        }
        let wanted = self.wanted(pending_calls, now);
        if !wanted.is_empty() {
            self.ask_for_capabilities(pending_calls, &wanted, now, deadline);
            self.hand_out(pending_calls, now);
        }
    }

    /// Gives the calls the capabilities that the client has. Returns whether one of the calls lacks a capability that is good for a while longer.
    fn hand_out(&self, pending_calls: &mut [PendingCall], now: Instant) -> bool {
        let uid = self.caller().uid;
        let mut lacks_some = false;
        for pending in pending_calls.iter_mut().filter(|pending| pending.is_open()) {
            let Some((object, rights)) = needs(&pending.call) else {
                continue;
            };
            match self.capabilities.find((object, uid)) {
                Some(held) => {
                    lacks_some |= !held.gives(rights) || held.is_to_renew(now);
                    pending.capability = Some(held.capability.clone());
                }
                None => lacks_some = true,
            }
        }
        lacks_some
    }

    /// The objects whose capabilities must be requested; each with whether the client has none that is good for it.
    fn wanted(&self, pending_calls: &[PendingCall], now: Instant) -> Vec<(ObjectId, bool)> {
        let uid = self.caller().uid;
        // A capability that is good for a while longer is not worth waiting for a metadata server that is down.
        let metadata = self.links.get(self.metadata).and_then(|link| link.addr);
        let is_connected = metadata.is_some_and(|addr| self.bmi.connection(addr).is_some());
        let mut wanted: HashMap<ObjectId, bool> = HashMap::new();
        let open = pending_calls.iter().filter(|pending| pending.is_open());
        for (object, rights) in open.filter_map(|pending| needs(&pending.call)) {
            let (lacks, is_void) = self.capabilities.lacks((object, uid), rights, now);
            if lacks && (is_void || is_connected) {
                *wanted.entry(object).or_default() |= is_void;
            }
        }
        wanted.into_iter().collect()
    }

    fn ask_for_capabilities(
        &mut self,
        pending_calls: &mut [PendingCall],
        wanted: &[(ObjectId, bool)],
        now: Instant,
        deadline: Instant,
    ) {
        let uid = self.caller().uid;
        let were_not_given = self.capabilities.were_not_given();
        // A metadata server that does not reply must not use up the time of calls that could be made without it.
        let is_early = were_not_given || wanted.iter().all(|(_, is_void)| !is_void);
        let deadline = match is_early {
            true => deadline.min(now + self.timeout / EARLY_PART),
            false => deadline,
        };
        let target = match self.metadata_target(deadline) {
            Ok(target) => target,
            Err(_) if were_not_given => return self.capabilities.go_on_without(now),
            Err(error) => return self.fail_unauthorized(pending_calls, wanted, &error),
        };
        // A metadata server of a build without capabilities gives none; I/O servers decide how to treat that.
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
        // The capabilities in the replies are kept, as those of all replies are.
        let calls = wanted.iter().map(ask).collect();
        let replies = self.call_directly(calls, target, deadline);
        for (wanted, reply) in wanted.iter().zip(replies) {
            match reply {
                Err(_) if were_not_given => self.capabilities.go_on_without(now),
                Err(error) => {
                    self.fail_unauthorized(pending_calls, std::slice::from_ref(wanted), &error);
                }
                Ok(reply) => {
                    let (_, is_void) =
                        (self.capabilities).lacks((wanted.0, uid), Rights::NONE, now);
                    if is_void && comes_with_one(&reply) {
                        self.capabilities.go_on_without(now);
                    } else if !is_void {
                        self.capabilities.none_until = None;
                    }
                }
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

    /// Ends the calls that have no good capability with this error.
    fn fail_unauthorized(
        &self,
        pending_calls: &mut [PendingCall],
        wanted: &[(ObjectId, bool)],
        error: &CallError,
    ) {
        if error.errno == Errno::EOPNOTSUPP {
            // The metadata server gives out no capabilities.
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

    /// Whether a refused call was sent without a capability that one of the servers may by now require or give: it may run another build
    /// than when this client last talked to it.
    fn may_have_been_upgraded(&self, pending: &PendingCall) -> bool {
        let Some((object, _)) = needs(&pending.call).filter(|_| !pending.was_renewed) else {
            return false;
        };
        let has_none = self
            .capabilities
            .find((object, self.caller().uid))
            .is_none();
        let is_before = self.formats(pending.call.server).highest < CAPABILITIES;
        self.capabilities.signer.is_none() && (has_none || is_before)
    }

    /// Prepares another round for calls whose capabilities have ended. Returns whether there are any.
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
            if error.errno == Errno::EACCES && self.may_have_been_upgraded(pending) {
                pending.was_renewed = true;
                pending.state = State::Waiting {
                    until: Instant::now(),
                };
                let servers = [pending.call.server, self.metadata];
                for server in servers {
                    self.set_format(server, FORMATS.highest);
                }
                self.capabilities.none_until = None;
                again = true;
                continue;
            }
            if !matches!(error.errno, Errno::CAPABILITY_ENDED | Errno::REVOKED) {
                continue;
            }
            self.capabilities.none_until = None;
            let error = error.clone();
            if let Some((object, _)) = needs(&pending.call) {
                self.capabilities.forget((object, uid));
                pending.capability = None;
            }
            // An I/O server whose clock is ahead accepts no capability until the metadata server's clock has come as far.
            let ends = self.attendance.extended(deadline);
            if pending.was_renewed && Instant::now() + LONGEST_PAUSE >= ends {
                let errno = Errno::EACCES;
                pending.state = State::Done(Err(CallError { errno, ..error }));
                continue;
            }
            match std::mem::replace(&mut pending.was_renewed, true) {
                false => {
                    pending.state = State::Waiting {
                        until: Instant::now(),
                    }
                }
                true => pending.wait(error),
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

#[cfg(test)]
mod tests;
