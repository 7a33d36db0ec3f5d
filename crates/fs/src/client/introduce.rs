//! Checks of servers' identities before any other request is sent to them.
//!
//! The metadata server comes first: its layout lists the I/O servers, their numbers, and the directories that are
//! theirs. Each I/O server's greeting is compared once with that entry. Every request names the server that
//! it is meant for, so a server that is replaced later refuses it, and the introduction begins again.

use std::time::{Duration, Instant};

use causeway_wire::fs::{
    Errno, Greeting, LayoutServer, MAX_LAYOUT_PART, Operation, ReplyBody, Target,
};

use super::call::Call;
use super::call_error::{CallError, take_reply};
use super::identity::{Expected, Layout};
use super::link::Known;
use super::pending::{PendingCall, State};
use super::rpc::Rpc;
use crate::backoff::Backoff;

/// Pauses before the client asks the metadata server again whether it has registered a server.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl Rpc {
    /// Requests the unknown identities of all calls' servers; calls to servers that are not the expected ones end with an error. Returns whether
    /// there were any to request.
    pub(super) fn introduce_all(
        &mut self,
        pending_calls: &mut [PendingCall],
        deadline: Instant,
    ) -> bool {
        let mut unknown: Vec<usize> = Vec::new();
        for pending in pending_calls.iter().filter(|pending| pending.is_open()) {
            let server = pending.call.server;
            if self.known(server).is_none() && !unknown.contains(&server) {
                unknown.push(server);
            }
        }
        if unknown.is_empty() {
            return false;
        }
        let failed = self.introduce(&unknown, deadline);
        // A server that cannot be reached may have used up the others' time: then their errors name that server.
        let late = self.is_over(deadline);
        for pending in pending_calls.iter_mut().filter(|pending| pending.is_open()) {
            let own = failed
                .iter()
                .find(|(server, _)| *server == pending.call.server);
            let other = failed.first().filter(|_| late);
            if let Some((_, error)) = own.or(other) {
                pending.state = State::Done(Err(error.clone()));
            }
        }
        true
    }

    /// Requests the identities of servers that are unknown; returns the first error.
    pub(crate) fn introduce_to(&mut self, servers: &[usize]) -> Result<(), CallError> {
        if servers.iter().all(|&server| self.known(server).is_some()) {
            return Ok(());
        }
        let deadline = self.begin_call(self.timeout);
        let failed = self.introduce(servers, deadline);
        failed
            .into_iter()
            .next()
            .map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Records the present greeting of a known server: its host may have been rebooted, or
    /// another server may be at its address.
    pub(crate) fn update_known(&mut self, server: usize, greeting: &Greeting) {
        let now = Known::of(greeting);
        let same = self
            .known(server)
            .is_some_and(|known| known.target == now.target);
        self.set_known(server, same.then_some(now));
    }

    /// Requests the identities of servers; returns those that could not be reached, or are other servers.
    fn introduce(&mut self, servers: &[usize], deadline: Instant) -> Vec<(usize, CallError)> {
        if (self.layout.is_none() || self.known(self.metadata).is_none())
            && let Err(error) = self.introduce_metadata(deadline)
        {
            let all = servers.iter();
            return all.map(|&server| (server, error.clone())).collect();
        }
        let mut failed = Vec::new();
        let mut left: Vec<usize> = servers
            .iter()
            .copied()
            .filter(|&server| self.known(server).is_none())
            .collect();
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        while !left.is_empty() {
            let greetings = self.greet_until(&left, deadline);
            let mut unregistered = Vec::new();
            for (server, greeting) in left.into_iter().zip(greetings) {
                match greeting.and_then(|greeting| self.check_greeting(server, &greeting)) {
                    Ok(true) => {}
                    Ok(false) => unregistered.push(server),
                    Err(error) => failed.push((server, error)),
                }
            }
            left = unregistered;
            if left.is_empty() {
                break;
            }
            // The metadata server is about to register these servers, and no event shows when it has.
            let is_over = self.is_over(deadline);
            let ends = self.attendance.extended(deadline);
            let rest = ends.saturating_duration_since(Instant::now());
            std::thread::sleep(pauses.next().min(rest));
            let renewed = match is_over {
                true => Err(self.not_registered()),
                false => self.introduce_metadata(deadline),
            };
            if let Err(error) = renewed {
                let left = left.into_iter();
                failed.extend(left.map(|server| (server, self.at(server, error.clone()))));
                break;
            }
        }
        failed
    }

    fn not_registered(&self) -> CallError {
        CallError::local(
            Errno::ETIMEDOUT,
            format!(
                "the metadata server has not registered it within {} s: see what its log says of it",
                self.timeout.as_secs_f64()
            ),
        )
    }

    /// Compares an I/O server's greeting with the layout. Returns `false` if the metadata server has not registered it.
    fn check_greeting(&mut self, server: usize, greeting: &Greeting) -> Result<bool, CallError> {
        let Some(layout) = &self.layout else {
            return Ok(false);
        };
        let expected = Expected {
            file_system: self.file_system,
            name: self.link_name(server),
        };
        let registered = expected
            .check_io(&greeting.identity, layout)
            .map_err(|error| self.at(server, error))?;
        if registered {
            self.set_known(server, Some(Known::of(greeting)));
        }
        Ok(registered)
    }

    /// Requests the metadata server's identity and layout.
    pub(super) fn introduce_metadata(&mut self, deadline: Instant) -> Result<(), CallError> {
        let server = self.metadata;
        loop {
            let greeting = self.greet_once(server, 0, deadline)?;
            let expected = Expected {
                file_system: self.file_system,
                name: self.link_name(server),
            };
            expected
                .check_metadata(&greeting)
                .map_err(|error| self.at(server, error))?;
            let known = Known::of(&greeting);
            if let Some(layout) = self.whole_layout(greeting, deadline)? {
                self.set_layout(layout);
                self.set_known(server, Some(known));
                return Ok(());
            }
        }
    }

    /// All parts of the layout; `None` if it has changed in between.
    fn whole_layout(
        &mut self,
        first: Greeting,
        deadline: Instant,
    ) -> Result<Option<Layout>, CallError> {
        let server = self.metadata;
        let missing = |rpc: &Self| {
            let message = "it keeps the metadata, but has no layout";
            rpc.at(server, CallError::local(Errno::EPROTO, message))
        };
        let part = first.layout.ok_or_else(|| missing(self))?;
        let (epoch, count) = (part.epoch, part.count as usize);
        let mut servers = part.servers;
        let is_in_order =
            |servers: &[LayoutServer]| servers.is_sorted_by(|one, next| one.index < next.index);
        while servers.len() < count && is_in_order(&servers) {
            let from = u16::try_from(servers.len()).unwrap_or(u16::MAX);
            let next = self.greet_once(server, from, deadline)?;
            let part = next.layout.ok_or_else(|| missing(self))?;
            let same = part.epoch == epoch
                && next.identity.target() == first.identity.target()
                && (1..=MAX_LAYOUT_PART).contains(&part.servers.len());
            if !same {
                return Ok(None);
            }
            servers.extend(part.servers);
        }
        if !is_in_order(&servers) {
            let message = "its list of I/O servers is not in the order of their numbers";
            return Err(self.at(server, CallError::local(Errno::EPROTO, message)));
        }
        Ok(Some(Layout {
            file_system: first.identity.file_system,
            incarnation: first.identity.incarnation,
            epoch,
            servers,
        }))
    }

    /// The greetings of servers, in order, unchecked.
    pub(crate) fn greet(&mut self, servers: &[usize]) -> Vec<Result<Greeting, CallError>> {
        let deadline = self.begin_call(self.timeout);
        self.greet_until(servers, deadline)
    }

    /// For how long a request may be repeated, in seconds.
    fn timeout_s(&self) -> u32 {
        let whole = self.longest_timeout.as_secs().saturating_add(1);
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    fn hello(&self, server: usize, layout_from: u16) -> Call {
        let operation = Operation::Hello {
            layout_from,
            timeout_s: self.timeout_s(),
        };
        Call::query(server, operation)
    }

    fn greet_until(
        &mut self,
        servers: &[usize],
        deadline: Instant,
    ) -> Vec<Result<Greeting, CallError>> {
        let calls = servers
            .iter()
            .map(|&server| self.hello(server, 0))
            .collect();
        let replies = self.call_directly(calls, Target::default(), deadline);
        replies.into_iter().map(greeting).collect()
    }

    fn greet_once(
        &mut self,
        server: usize,
        layout_from: u16,
        deadline: Instant,
    ) -> Result<Greeting, CallError> {
        let call = self.hello(server, layout_from);
        self.call_directly(vec![call], Target::default(), deadline)
            .pop()
            .map_or_else(|| Err(self.not_registered()), greeting)
    }

    /// The layout as last received; requests it if none was.
    pub(crate) fn layout(&mut self) -> Result<&Layout, CallError> {
        if self.layout.is_none() {
            let deadline = self.begin_call(self.timeout);
            self.introduce_metadata(deadline)?;
        }
        let none = || CallError::local(Errno::EIO, "the file system's layout is not known");
        self.layout.as_ref().ok_or_else(none)
    }

    /// Requests the layout again.
    pub(crate) fn renew_layout(&mut self) -> Result<&Layout, CallError> {
        self.layout = None;
        self.layout()
    }

    /// Sets the layout of a metadata server that need not be asked for it.
    pub(crate) fn trust_layout(&mut self, metadata: Target, layout: Layout) {
        let known = Known {
            target: metadata,
            boot: 0,
            failed_syncs: 0,
        };
        self.set_known(self.metadata, Some(known));
        self.set_layout(layout);
    }

    fn set_layout(&mut self, layout: Layout) {
        let servers = layout.servers.iter();
        self.routes = servers
            .map(|server| self.link_named(&server.name))
            .collect();
        self.layout = Some(layout);
    }

    /// The configuration's index of the server that has this number in the layout.
    pub(crate) fn server_of(&mut self, number: u16) -> Result<usize, CallError> {
        if let Some(Some(server)) = self.routes.get(usize::from(number)) {
            return Ok(*server);
        }
        // Servers are added to layouts; none is ever taken away.
        let known = self.layout()?.server(number).is_some();
        if !known {
            self.renew_layout()?;
        }
        let layout = self.layout()?;
        let Some(server) = layout.server(number) else {
            return Err(CallError::local(
                Errno::EIO,
                format!(
                    "the file lies on I/O server number {number}, and the file system has only {}",
                    layout.servers.len()
                ),
            ));
        };
        let name = server.name.clone();
        self.link_named(&name).ok_or_else(|| {
            CallError::local(
                Errno::EINVAL,
                format!(
                    "I/O server {name} (number {number}) is needed, and the configuration has no entry for \
                     it: add the one that the metadata server's configuration has"
                ),
            )
        })
    }

    /// Forgets a server's identity after it has refused a request as meant for another server.
    pub(super) fn forget(&mut self, server: usize, refused: Target) {
        if self
            .known(server)
            .is_some_and(|known| known.target == refused)
        {
            self.set_known(server, None);
        }
        self.set_known(self.metadata, None);
    }
}

fn greeting(reply: Result<ReplyBody, CallError>) -> Result<Greeting, CallError> {
    take_reply!(reply?, ReplyBody::Hello(greeting) => *greeting)
}
