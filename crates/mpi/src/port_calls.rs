//! How processes of separately started programs connect, and their messages before they have a communicator.

use causeway_engine::Memory;
use causeway_engine::types::{Addr, Completion, OpError, Posted};
use causeway_sys::attach;
use causeway_wire::codec::Wire;
use causeway_wire::contact::{Contact, LeaderMessage};

use crate::abi;
use crate::buffer::temporary;
use crate::buffering::NO_OWNER;
use crate::error::{Error, Result};
use crate::matching::MpiPattern;
use crate::names::Names;
use crate::ports::{CALLS, Call, MOST_BYTES, Port, PortMessage, PortWait, REPLIES};
use crate::process::{Active, POSTS, Process, State};
use crate::process_table;
use crate::start;
use crate::status::Status;

fn pattern(context: u32, source: Option<u32>, tag: Option<u32>) -> MpiPattern {
    MpiPattern {
        context,
        source,
        tag,
    }
}

impl Process {
    /// Lets processes of other programs connect to this one. `draws_key` if they will be given this program's key.
    pub(crate) fn allow_connections(&mut self, draws_key: bool) -> Result<()> {
        if self.process_table.key.is_none() && self.process_table.methods.tcp {
            let key = match process_table::given_key()? {
                Some(key) => Some(key),
                None if self.launcher.size() > 1 || self.launcher.is_spawned() => {
                    Some(start::common_key(&mut self.launcher)?)
                }
                None if draws_key => Some(process_table::draw_key()?),
                None => None,
            };
            if let Some(key) = key {
                self.process_table.key = Some(key.clone());
                self.endpoint.set_key(key)?;
            }
        }
        if self.process_table.is_open {
            return Ok(());
        }
        let methods = self.process_table.methods;
        if methods.shm && self.process_table.own.near.is_empty() {
            attach::allow_processes_of_this_user();
            let near = format!("shm://{}", process_table::socket(self.rank)?.display());
            self.endpoint.listen(&near)?;
            self.process_table.own.near = near;
        }
        // If one of two processes is reached at this machine's own address only, and the other at those of a network, they could not identify each
        // other by the address of a connection.
        let is_here_only = self.process_table.own.far.starts_with("tcp://127.");
        if methods.tcp && (self.process_table.own.far.is_empty() || is_here_only) {
            let (endpoint, key) = (&mut self.endpoint, self.process_table.key.clone());
            let far = start::listen_by_tcp(endpoint, key.clone(), false)
                // A host without a network listens at its own address.
                .or_else(|_| start::listen_by_tcp(endpoint, key, true));
            match far {
                Ok(far) => self.process_table.own.far = far,
                // Processes of this host can reach it by shared memory.
                Err(_) if methods.shm => {}
                Err(error) => return Err(error),
            }
        }
        self.process_table.is_open = true;
        Ok(())
    }

    /// This process's number of a process, which gets one if it has none.
    pub(crate) fn add_process(&mut self, contact: &Contact) -> Result<u32> {
        let identity = (contact.world, contact.rank);
        if let Some(known) = self.process_table.find(identity) {
            return Ok(known);
        }
        let whose = format!("rank {} of another program", contact.rank);
        process_table::check_formats(&whose, self.process_table.own.formats, contact.formats)?;
        let is_near = contact.host == self.process_table.own.host;
        let addresses = match is_near && !contact.near.is_empty() {
            true => contact.near.clone(),
            false => {
                let own = &self.process_table.own;
                process_table::addresses_elsewhere(own, &contact.host, &contact.far)
            }
        };
        if addresses.is_empty() {
            let text = format!("{whose} has no address for processes of this host");
            return Err(Error::new(abi::ERR_PORT, text));
        }
        let peer = start::look_up(&mut self.endpoint, &whose, &addresses)?;
        let host = self
            .process_table
            .add(identity, contact.formats, &contact.host);
        let process = self.peers.len() as u32;
        self.peers.push(peer);
        self.hosts.push(host);
        let number = peer.number as usize;
        if self.by_number.len() <= number {
            self.by_number.resize(number + 1, u32::MAX);
        }
        self.by_number[number] = process;
        Ok(process)
    }

    /// Opens a port; returns its name.
    pub fn open_port(&mut self) -> Result<String> {
        self.allow_connections(false)?;
        let port = Port {
            tag: self.ports.open(),
            contact: self.process_table.own.clone(),
        };
        self.ports.keep_polling();
        port.name()
    }

    /// The port of this process that has this name.
    pub(crate) fn own_port(&self, name: &[u8]) -> Result<u32> {
        let Port { tag, contact } = Port::read(name)?;
        let own = &self.process_table.own;
        let is_own = (contact.world, contact.rank) == (own.world, own.rank);
        match is_own && self.ports.open.contains(&tag) {
            true => Ok(tag),
            false => {
                let text = "this process has not opened the port, or has closed it";
                Err(Error::new(abi::ERR_PORT, text))
            }
        }
    }

    /// Closes a port. Callers that wait there are refused.
    pub fn close_port(&mut self, name: &[u8]) -> Result<()> {
        let tag = self.own_port(name)?;
        self.close_port_with_tag(tag);
        Ok(())
    }

    /// Closes a port. Callers that wait there are refused.
    pub(crate) fn close_port_with_tag(&mut self, tag: u32) {
        self.ports.open.remove(&tag);
        for call in self.ports.calls.remove(&tag).unwrap_or_default() {
            self.refuse(call);
        }
    }

    /// Publishes a port under a name.
    pub fn publish(&self, service: &[u8], name: &[u8]) -> Result<()> {
        Port::read(name)?;
        let host = &self.process_table.own.host;
        let is_gone = |old: &[u8]| Port::read(old).is_ok_and(|port| port.is_gone(host));
        Names::of_user()?.publish(service, name, is_gone)
    }

    /// Accepts calls that have arrived. Calls at ports that are not open are refused.
    pub(crate) fn take_calls(&mut self) {
        while let Some((message, envelope)) = self.endpoint.take_message(pattern(CALLS, None, None))
        {
            let call = Call {
                message,
                from: envelope.peer,
                bytes: envelope.size,
            };
            let tag = envelope.tag as u32;
            match self.ports.open.contains(&tag) {
                true => self.ports.calls.entry(tag).or_default().push_back(call),
                false => self.refuse(call),
            }
        }
        let refused = self.ports.waits.iter();
        let refused = refused.filter(|(_, wait)| matches!(wait.what, PortMessage::Refused));
        for at in Vec::from_iter(refused.map(|(at, _)| *at)) {
            // An error means that the caller has ended.
            if let Ok(None) = self.poll_port_wait(at) {
                continue;
            }
            if let Some(Ok((LeaderMessage::Call { reply, .. }, from))) = self.take_port_message(at)
            {
                let why = "no process has this port open".to_owned();
                let message = [Memory::from_vec(LeaderMessage::Refused(why).to_bytes())];
                let word = MpiPattern::word(REPLIES, reply);
                if let Ok(to) = self.addr_of_other(from) {
                    let _ = self.post_unattended(to, &message, word, NO_OWNER);
                }
            }
        }
    }

    fn refuse(&mut self, call: Call) {
        let at = self.ports.draw();
        let mut wait = PortWait {
            what: PortMessage::Refused,
            group: abi::COMM_SELF,
            incoming: None,
            received: None,
        };
        // A message that cannot be received cannot be replied to.
        if self.receive_call(&mut wait, call, CALLS).is_ok() {
            self.ports.waits.insert(at, wait);
        }
    }

    /// Starts to receive a call or a reply.
    fn receive_call(&mut self, wait: &mut PortWait, call: Call, context: u32) -> Result<()> {
        let too_large = call.bytes > MOST_BYTES;
        let room = if too_large { 0 } else { call.bytes as usize };
        let memory = temporary(room)?;
        let pattern = pattern(context, Some(call.from), None);
        let into = [memory.clone()];
        let posted = self
            .endpoint
            .receive_taken(call.message, pattern, &into, POSTS, 0)?;
        match posted {
            Posted::Pending(op) => wait.incoming = Some((op, memory, call.from)),
            Posted::Complete(done) => return record_message(wait, done, &memory, call.from),
        }
        Ok(())
    }

    /// Starts to wait for a call at a port, or for a reply, on behalf of all processes of a
    /// communicator.
    pub(crate) fn await_port_message(&mut self, what: PortMessage, group: usize) -> (Active, u32) {
        let at = self.ports.draw();
        let wait = PortWait {
            what,
            group,
            incoming: None,
            received: None,
        };
        self.ports.waits.insert(at, wait);
        let mut active = Active::done(Status::empty(), abi::COMM_SELF);
        active.state = State::PortWait(at);
        (active, at)
    }

    /// Whether a message has arrived, which [`Process::take_port_message`] then returns.
    pub(crate) fn poll_port_wait(&mut self, at: u32) -> Result<Option<Status>> {
        let Some(mut wait) = self.ports.waits.remove(&at) else {
            return Err(Error::new(
                abi::ERR_INTERN,
                "no call to this port is expected any more",
            ));
        };
        let polled = self.advance_port_wait(&mut wait);
        let is_received = wait.received.is_some();
        if polled.is_ok() {
            self.ports.waits.insert(at, wait);
        }
        polled.map(|()| is_received.then(Status::empty))
    }

    fn advance_port_wait(&mut self, wait: &mut PortWait) -> Result<()> {
        if wait.received.is_some() {
            return Ok(());
        }
        if let Some((op, memory, from)) = &wait.incoming {
            let Some(done) = self.endpoint.take(*op)? else {
                return Ok(());
            };
            let (memory, from) = (memory.clone(), *from);
            wait.incoming = None;
            return match (record_message(wait, done, &memory, from), wait.what) {
                // A caller that ends meanwhile is ignored: the wait for a call goes on.
                (Err(_), PortMessage::Call(_)) => Ok(()),
                (went, _) => went,
            };
        }
        match wait.what {
            PortMessage::Call(tag) => {
                self.take_calls();
                let call = self
                    .ports
                    .calls
                    .get_mut(&tag)
                    .and_then(|calls| calls.pop_front());
                match (call, self.lost_of(wait.group)) {
                    (Some(call), _) => self.receive_call(wait, call, CALLS),
                    // The accepting group has lost a process: no call can be accepted.
                    (None, Some(lost)) => Err(lost),
                    (None, None) if self.ports.open.contains(&tag) => Ok(()),
                    (None, None) => {
                        let text = "the port was closed meanwhile";
                        Err(Error::new(abi::ERR_PORT, text))
                    }
                }
            }
            PortMessage::Reply(tag, peer) => {
                let pattern = pattern(REPLIES, Some(peer.number), Some(tag));
                if let Some((message, envelope)) = self.endpoint.take_message(pattern) {
                    let call = Call {
                        message,
                        from: envelope.peer,
                        bytes: envelope.size,
                    };
                    return self.receive_call(wait, call, REPLIES);
                }
                match self.endpoint.loss(peer.addr) {
                    None => Ok(()),
                    Some(cause) => {
                        let text = format!("the process that has opened the port: {cause}");
                        Err(Error::new(abi::ERR_PORT, text))
                    }
                }
            }
            PortMessage::Refused => Ok(()),
        }
    }

    /// A received message, and the engine's number of its sender.
    pub(crate) fn take_port_message(&mut self, at: u32) -> Option<Result<(LeaderMessage, u32)>> {
        let (bytes, from) = self.ports.waits.remove(&at)?.received?;
        let message = LeaderMessage::from_bytes(&bytes).map_err(|error| {
            let text = format!("the message of another program's process: {error}");
            Error::new(abi::ERR_PORT, text)
        });
        Some(message.map(|message| (message, from)))
    }

    /// Starts to send a process, by its number in the engine, a message before there is a communicator.
    pub(crate) fn send_port_message(
        &mut self,
        to: u32,
        (context, tag): (u32, u32),
        what: &LeaderMessage,
    ) -> Result<Active> {
        let to = self.addr_of_other(to)?;
        let memory = [Memory::from_vec(what.to_bytes())];
        let word = MpiPattern::word(context, tag);
        let posted = (self.endpoint).post_send(to, &memory, word, POSTS, 0);
        self.sent(posted, to, abi::COMM_SELF)
    }

    /// The address of another program's process, by its number in the engine.
    fn addr_of_other(&self, number: u32) -> Result<Addr> {
        let gone = || Error::new(abi::ERR_PORT, "the other program's process is gone");
        self.endpoint.addr(number).ok_or_else(gone)
    }
}

/// A message that was received.
fn record_message(wait: &mut PortWait, done: Completion, memory: &Memory, from: u32) -> Result<()> {
    match done.result {
        Ok(_) => {
            wait.received = Some((memory.to_vec(), from));
            Ok(())
        }
        Err(OpError::Peer { cause, .. }) => {
            let text = format!("a process of another program: {cause}");
            Err(Error::new(abi::ERR_PORT, text))
        }
        Err(other) => Err(Error::from(other)),
    }
}
