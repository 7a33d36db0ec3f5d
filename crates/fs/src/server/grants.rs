//! Where the server's loop gives out capabilities, checks them, and ends them.

use causeway_bmi::{Addr, Identity, InfoOption};
use causeway_wire::fs::formats::CAPABILITIES;
use causeway_wire::fs::{
    Capability, Errno, Failure, ObjectId, Operation, Reply, ReplyBody, Request,
};

use super::access::{Holder, Shown, distribution_of, node_number};
use super::audit::{self, is_refusal};
use super::callers::{check_operator, check_spoken_for, squash};
use super::events::{EntryState, Loop};
use super::follow_up::FollowUpKind;
use super::identity;
use super::revocation::Revocation;
use super::staging::spoken_for;
use super::ticket::{MAX_REQUESTS, OfUser, ReplyTo, Share, Ticket, is_nearly_full, share};
use crate::error::failure;

impl Loop {
    /// Refuses a request whose caller claims another identity, whose target is another server, or whose operation its format does not have.
    pub(super) fn admit(&mut self, to: ReplyTo, request: &mut Request) -> Result<(), Failure> {
        let from = to.from;
        let needed = request.operation.lowest_format();
        if needed > to.format {
            let message = format!(
                "this needs format {needed} of the file system's protocol; upgrade the client"
            );
            return Err(failure(Errno::EOPNOTSUPP, message));
        }
        let identity = self.bmi.identity(from);
        let user = match identity {
            Some(Identity::OneUser { .. }) => self.bmi.user(from),
            _ => None,
        };
        self.check_share(from, &request.operation)?;
        self.callers
            .verify(from, identity, user.as_deref(), &request.caller)
            .and_then(|()| check_spoken_for(identity, &request.operation))
            .inspect_err(|failure| {
                // A client that sends such requests can send many.
                if self.lies_told.allows(self.loop_time) {
                    tracing::warn!(failure.message, "a caller's claimed identity is refused");
                }
            })?;
        let (mut root_is_named, mut is_ruled) = (false, false);
        let speaks_for_user = matches!(identity, Some(Identity::OneUser { .. }));
        if let Some(rules) = &self.node_rules {
            let node = self.bmi.node(from);
            rules
                .check(node.as_deref(), speaks_for_user, request)
                .inspect_err(|failure| {
                    if self.lies_told.allows(self.loop_time) {
                        tracing::warn!(failure.message, "a node's request is refused");
                    }
                })?;
            root_is_named = rules.name_root(node.as_deref());
            is_ruled = rules.is_ruled(node.as_deref(), speaks_for_user);
        }
        // This check comes before that of rights, which may be good at another server: a client that has called
        // the wrong one learns which server it has reached.
        identity::check(&self.identity, request).inspect_err(|failure| {
            tracing::debug!(failure.message, "a request for another server");
        })?;
        self.check_right(from, is_ruled || speaks_for_user, request)?;
        // A rule that names root does not name any other user of that node.
        let is_named = root_is_named && request.caller.uid == 0;
        if self.root_squash && !is_named {
            squash(identity, &mut request.caller);
        }
        match &self.node_rules {
            Some(rules) => {
                let node = self.bmi.node(from);
                rules.confine_groups(node.as_deref(), speaks_for_user, request)
            }
            None => Ok(()),
        }
    }

    /// Whether the server replies in the same way to all users for whom the peer at this address may act, except for the permissions of
    /// objects.
    pub(super) fn serves_all_users(&self, from: Addr) -> bool {
        match self.bmi.identity(from) {
            Some(Identity::Keyed) => {
                let rules = self.node_rules.as_ref();
                let is_ruled = rules
                    .is_some_and(|rules| rules.is_ruled(self.bmi.node(from).as_deref(), false));
                !self.root_squash && !is_ruled
            }
            // The kernel of this host vouches for its root.
            Some(Identity::Local { uid: 0, .. }) => self.node_rules.is_none(),
            _ => false,
        }
    }

    /// Publishes to observers how many requests were refused, if the number has grown.
    pub(super) fn show_refused(&mut self) {
        if self.access.shown_refused == self.access.refused {
            return;
        }
        self.access.shown_refused = self.access.refused;
        let refused = InfoOption::Refused(self.access.refused);
        if let Err(error) = self.bmi.set_info(None, refused) {
            tracing::debug!(%error, "how many requests were refused cannot be shown");
        }
    }

    /// Refuses a request about datafiles, or one that only a metadata server makes, if it does not prove its right.
    /// `is_held`: the connection may act for a fixed set of users only; then it has no right without a capability, whatever the configuration allows
    /// other connections.
    pub(super) fn check_right(
        &mut self,
        from: Addr,
        is_held: bool,
        request: &Request,
    ) -> Result<(), Failure> {
        let needed = match request.operation.needs().what() {
            Some(needed) if self.access.is_checking() => needed,
            Some(_) if is_held => {
                let message = "this server checks no capabilities (`capabilities = \"off\"` in its configuration), and without them it \
                     serves nobody who may act for some users alone";
                return Err(failure(Errno::EPERM, message.to_owned()));
            }
            _ => return Ok(()),
        };
        let shown = Shown {
            is_held,
            node: self.node_number(from),
            server: self.identity.index,
            at: self.loop_time,
        };
        self.access
            .check(request, needed, shown)
            .inspect_err(|failure| {
                tracing::debug!(failure.message, "a request without the right to it");
            })
    }

    /// Refuses a caller that is no operator. A caller that presents a capability for the operation, which [`Loop::check_right`] has verified, is one.
    pub(super) fn check_operator(&self, request: &Request, doing: &str) -> Result<(), Failure> {
        match request.capability {
            Some(_) if self.access.is_checking() => Ok(()),
            _ => check_operator(&request.caller, doing),
        }
    }

    /// The number of the node at the other end of a connection, as capabilities name it.
    pub(super) fn node_number(&self, from: Addr) -> u64 {
        match self.node_rules {
            Some(_) => node_number(self.bmi.node(from).as_deref()),
            None => 0,
        }
    }

    /// Gives an operator the right to check and remove datafiles.
    pub(super) fn authorize(
        &mut self,
        from: Addr,
        request: &Request,
    ) -> Result<ReplyBody, Failure> {
        self.check_metadata()?;
        check_operator(&request.caller, "check and remove datafiles")?;
        let holder = Holder {
            caller: &request.caller,
            client: request.client,
            node: self.node_number(from),
        };
        let granted = self.access.authorize(holder);
        self.access.granted = granted;
        Ok(ReplyBody::Done)
    }

    /// Ends the capabilities of objects that are removed, so that no client makes their datafiles again or goes on to access removed ones.
    pub(super) fn end_of_removed(&mut self, operation: &Operation) {
        if let Operation::Remove { objects } | Operation::RemoveOrphans { objects, .. } = operation
        {
            // Object 0 does not exist; in a request to end capabilities it would stand for all objects.
            let named = objects.iter().filter(|object| **object != ObjectId(0));
            let ended = named.map(|object| (*object, u64::MAX));
            self.access.end(ended);
            self.abandon_revoked();
        }
    }

    /// Ends capabilities at the request of the metadata server.
    pub(super) fn end_capabilities(&mut self, request: &Request) -> Result<ReplyBody, Failure> {
        self.store()?;
        self.check_operator(request, "end capabilities")?;
        match &request.operation {
            Operation::EndCapabilities { ended } => {
                self.access.end(ended.iter().copied());
                self.abandon_revoked();
            }
            _ => return Err(failure(Errno::EINVAL, "no end of capabilities")),
        }
        Ok(ReplyBody::Done)
    }

    /// Gives a client that reads a node a capability with the reply, for the state of the node that the reply contains.
    pub(super) fn grant_with(&mut self, request: &Request, to: ReplyTo, reply: &Reply) {
        if to.format < CAPABILITIES {
            return;
        }
        if let (Operation::Lookup { .. } | Operation::GetNode { .. }, Ok(ReplyBody::Node(node))) =
            (&request.operation, &reply.result)
        {
            let holder = Holder {
                caller: &request.caller,
                client: request.client,
                node: self.node_number(to.from),
            };
            let granted = self.access.grant(node, holder);
            self.access.granted = granted;
        }
    }

    /// Refuses one more read or write of a user whose connections are made by agents, if many requests are in progress and the user has a full share
    /// of them: the client repeats it after a pause. Other requests end soon, unless their replies are not read.
    fn check_share(&mut self, from: Addr, operation: &Operation) -> Result<(), Failure> {
        let busy = self.busy();
        if !is_nearly_full(busy) {
            return Ok(());
        }
        let Some(user) = spoken_for(&self.bmi, from) else {
            return Ok(());
        };
        let mut of_user = OfUser::default();
        for entry in self.entries.iter().flatten() {
            let is_own = spoken_for(&self.bmi, entry.to.from) == Some(user);
            of_user.requests += usize::from(is_own);
            let is_reply = matches!(entry.state, EntryState::Replying);
            of_user.unread += usize::from(is_reply && entry.to.from == from);
        }
        match share(busy, of_user) {
            Share::Within => return Ok(()),
            Share::Taken => {
                if !matches!(operation, Operation::Read { .. } | Operation::Write { .. }) {
                    return Ok(());
                }
            }
            Share::Unread => {
                if self.lies_told.allows(self.loop_time) {
                    tracing::warn!(user, "a client that reads no replies is disconnected");
                }
                self.bmi.disconnect(from);
            }
        }
        let own = of_user.requests;
        let message = format!(
            "user {user} has {own} of the {MAX_REQUESTS} requests in progress that this server carries out at a time, and others need some"
        );
        Err(failure(Errno::RETRY, message))
    }

    /// Begins the record of a request that has come, and returns the record's number; 0 if the audit is off.
    pub(super) fn begin_audit(&mut self, from: Addr, request: &Request) -> u64 {
        if !self.audit.is_on() {
            return 0;
        }
        let node = self.bmi.node(from);
        let origin = audit::origin(
            self.bmi.identity(from),
            || self.bmi.reverse_lookup(from),
            node.as_ref().map(|node| node.name.as_str()),
        );
        self.audit.begin(origin, request)
    }

    /// Counts a refusal, and ends the record of a request.
    pub(super) fn note_outcome(&mut self, to: ReplyTo, reply: &Reply) {
        // A missing name is no failure for a program that caches this fact.
        let is_none = matches!(reply.result, Ok(ReplyBody::NoEntry));
        let no_entry = is_none.then(|| failure(Errno::ENOENT, "there is no such name"));
        let failed = no_entry.as_ref().or(reply.result.as_ref().err());
        let is_refused = failed.is_some_and(|failure| is_refusal(failure.errno));
        self.access.refused += u64::from(is_refused);
        self.audit.end(to.record, failed, self.loop_time);
    }

    /// The capability that goes with the reply to a change. A repeated request gets the reply that was remembered, and its node may be older
    /// than the latest change of permissions; so the node is read again.
    pub(super) fn capability_of(&mut self, ticket: Ticket, reply: &Reply) -> Option<Capability> {
        let Ok(ReplyBody::Node(node)) = &reply.result else {
            return None;
        };
        distribution_of(node)?;
        let entry = self.entry(ticket)?;
        let EntryState::Changing(_) = &entry.state else {
            return None;
        };
        let EntryState::Changing(change) =
            std::mem::replace(&mut entry.state, EntryState::Elsewhere)
        else {
            return None;
        };
        if !matches!(change.kind, FollowUpKind::Grant) {
            return None;
        }
        let reads = Request {
            reply_tag: 0,
            target: Default::default(),
            client: change.client,
            slot: 0,
            sequence: 0,
            caller: change.caller,
            capability: None,
            opening: None,
            holder: None,
            operation: Operation::GetNode {
                object: node.object,
                content: false,
            },
        };
        match self.read_metadata(&reads)?.result {
            Ok(ReplyBody::Node(node)) => {
                let holder = Holder {
                    caller: &reads.caller,
                    client: change.client,
                    node: change.node,
                };
                self.access.grant(&node, holder)
            }
            _ => None,
        }
    }

    /// Whether the reply to a change has to wait until I/O servers have confirmed that the object's capabilities have ended.
    pub(super) fn ends_capabilities(&mut self, ticket: Ticket, reply: &Reply) -> bool {
        let Ok(ReplyBody::Node(node)) = &reply.result else {
            return false;
        };
        let Some(entry) = self.entry(ticket) else {
            return false;
        };
        match &entry.state {
            EntryState::Changing(change) if matches!(change.kind, FollowUpKind::End) => {}
            _ => return false,
        }
        entry.state = EntryState::Elsewhere;
        let Some(distribution) = distribution_of(node) else {
            return false;
        };
        let Some(version) = self.access.end_given(node) else {
            return false;
        };
        let revocation = Revocation {
            ticket,
            reply: reply.clone(),
            object: node.object,
            version,
            servers: distribution.servers.clone(),
        };
        match &self.metadata {
            Some(metadata) => metadata.revoke(revocation),
            None => return false,
        }
        true
    }
}
