//! How a connection opens.
//!
//! ```text
//! caller                                   callee
//!   Open ─────────────────────────────────────►          keeps nothing
//!   ◄─────────────────────────────────── Cookie
//!   Open: cookie, psk, e ─────────────────────►          opens the message; no key: asks the kernel
//!   ◄────────────────────────────── Accept: e, ee        a place among the half-open
//!   first segment ────────────────────────────►          up
//! ```
//!
//! The caller repeats an opening without a reply, and with a key also a refused one: every host can
//! forge a refusal, which therefore counts only when the time is up. Without a key, the same
//! applies to an acceptance from an address where the kernel shows no permitted process. The cookie
//! proves that the caller receives datagrams at its address; the first segment proves that the
//! ephemeral key in the opening is the caller's. The Noise message is bound to its cookie: a
//! recorded opening takes at most one slot for half-open connections, while its cookie is valid,
//! and only until another caller needs the slot.
//!
//! Without a cluster's key the handshake is the same, under a key that is public. It proves nothing
//! about which process the other side is; the kernel shows that, at the moment of opening. From
//! then on only the process that the kernel was asked about has the connection's keys, whichever
//! processes may use its port later.

use std::time::Duration;

use causeway_sys::secret::Secret;
use causeway_wire::datagram::{FORMATS, Greeting, Kind, Prefix};
use causeway_wire::formats::Formats;
use causeway_wire::tcp::{Auth, Holder, Refusal};

use super::core::{Core, Environment};
use super::link::{Link, Opening, Phase};
use super::noise::{self, Call, EPHEMERAL_BYTES};
use super::table::{Origin, PeerState, describe};
use super::{Remote, Time};
use crate::error::PeerError;
use crate::half_open::{Entry, Source};
use crate::method::{Identity, Peer, Silence, Sink};
use crate::trust::refused;

const PROTOCOL: &str = "the UDP method";

/// Handshakes of one opening that are kept: the callee may have replied to an earlier one than the
/// last.
const MAX_BEGUN: usize = 8;

/// A half-open connection keeps its slot for this long even if its own source needs it for another
/// one. Sources with fewer of them need not wait: see [`crate::half_open`].
const HALF_OPEN_GRACE: Duration = Duration::from_secs(1);

/// The calling side.
impl Core {
    /// The key of handshakes, unless segments are sent in the clear.
    fn secret(&self, environment: &dyn Environment) -> Option<Secret> {
        match &self.config.key {
            Some(key) => Some(key.clone()),
            None if environment.is_in_the_clear() => None,
            None => Some(self.public_key.clone()),
        }
    }

    /// Begins to connect to the present target. The next poll reports a failure.
    pub(super) fn begin_to_connect(
        &mut self,
        now: Time,
        peer: Peer,
        environment: &mut dyn Environment,
    ) {
        let number = self.fresh_number(environment);
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let Origin::Connected { targets, at } = &mut state.origin else {
            return;
        };
        let Some(&target) = targets.get(*at) else {
            *at = 0;
            state.failed = Some(PeerError::Refused("it has no address".to_owned()));
            return self.make_due(peer);
        };
        let greeting = greet(&self.config.key, target, environment);
        let link = Link::new(
            target,
            number,
            Phase::Opening(Opening::new(greeting, now)),
            environment.datagram_bytes(target),
            now + self.config.connect_timeout,
            now,
            &self.config,
        );
        state.link = Some(link);
        self.by_number.insert(number, peer);
        self.touch(now, peer);
    }

    /// A number for a connection: not 0, and not in use.
    fn fresh_number(&self, environment: &mut dyn Environment) -> u64 {
        loop {
            let mut bytes = [0; 8];
            environment.random(&mut bytes);
            let number = u64::from_le_bytes(bytes);
            if number != 0 && !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    /// Handles a greeting, from a peer or from an address that has no connection.
    pub(super) fn greeting(
        &mut self,
        now: Time,
        from: Remote,
        prefix: Prefix,
        greeting: Greeting,
        environment: &mut dyn Environment,
        sink: &mut dyn Sink,
    ) {
        if prefix.kind == Kind::Open {
            return self.opened(now, from, prefix, greeting, environment);
        }
        let Some(peer) = self.opening_to(from, prefix) else {
            return;
        };
        match prefix.kind {
            Kind::Cookie => self.cookie_came(now, peer, greeting, environment),
            Kind::Accept => self.accepted(now, peer, prefix.from, greeting, environment, sink),
            Kind::Refuse => {
                self.handle_doubtful_refusal(now, peer, refused(greeting.refusal, PROTOCOL), sink)
            }
            _ => {}
        }
    }

    /// The peer whose opening a greeting from `from` replies to.
    pub(super) fn opening_to(&self, from: Remote, prefix: Prefix) -> Option<Peer> {
        let peer = *self.by_number.get(&prefix.to)?;
        let link = self.peers.get(peer)?.link.as_ref()?;
        let fits = link.remote == from && matches!(link.phase, Phase::Opening(_));
        fits.then_some(peer)
    }

    fn cookie_came(
        &mut self,
        now: Time,
        peer: Peer,
        theirs: Greeting,
        environment: &mut dyn Environment,
    ) {
        let secret = self.secret(environment);
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let Some(link) = &mut state.link else { return };
        let number = link.ours;
        let Phase::Opening(opening) = &mut link.phase else {
            return;
        };
        if !opening.wants(&theirs.cookie) {
            return;
        }
        if let Some(secret) = &secret {
            let call = Call {
                caller: number,
                cookie: &theirs.cookie,
                formats: [FORMATS, theirs.formats],
            };
            let mut random = [0; EPHEMERAL_BYTES];
            environment.random(&mut random);
            match noise::call(secret.expose(), call, random) {
                Ok((begun, message)) => {
                    if opening.noise.len() >= MAX_BEGUN {
                        opening.noise.pop_front();
                    }
                    opening.noise.push_back(begun);
                    opening.greeting.noise = message;
                }
                Err(error) => {
                    let why = format!("the Noise handshake cannot go on: {error}");
                    state.failed = Some(PeerError::Broken(why));
                    return self.make_due(peer);
                }
            }
        }
        opening.take_cookie(theirs.cookie, now);
        self.touch(now, peer);
    }

    fn accepted(
        &mut self,
        now: Time,
        peer: Peer,
        theirs: u64,
        greeting: Greeting,
        environment: &mut dyn Environment,
        sink: &mut dyn Sink,
    ) {
        let keyed = self.config.key.is_some();
        let sealed = self.secret(environment).is_some();
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let Some(link) = &mut state.link else { return };
        let Phase::Opening(opening) = &mut link.phase else {
            return;
        };
        // Verified before the handshake goes on: a reply that is not believed leaves it as it was.
        let identity = match keyed {
            true => Identity::Keyed,
            false => match environment.verify(link.remote, greeting.holder) {
                Ok(identity) => identity,
                Err(reason) => return opening.note_invalid_acceptance(reason),
            },
        };
        let mut seal = None;
        if sealed {
            let answered = opening
                .noise
                .iter_mut()
                .position(|begun| noise::accepts_reply(begun, &greeting.noise));
            // A forged acceptance must not end the connection.
            let Some(begun) = answered.and_then(|at| opening.noise.remove(at)) else {
                return;
            };
            match noise::finish(begun) {
                Ok(sealed) => seal = Some(sealed),
                Err(error) => {
                    let why = format!("the Noise handshake cannot go on: {error}");
                    return self.end(now, peer, PeerError::Broken(why), sink);
                }
            }
        }
        state.identity = Some(identity);
        link.come_up(theirs, seal, now);
        self.touch(now, peer);
    }

    /// Handles a datagram that refuses our connection, where nothing proves that the peer has sent
    /// it. With a key, it may come from anyone, and the link goes on trying.
    pub(super) fn handle_doubtful_refusal(
        &mut self,
        now: Time,
        peer: Peer,
        cause: PeerError,
        sink: &mut dyn Sink,
    ) {
        if self.config.key.is_none() {
            return self.next_target(now, peer, cause, sink);
        }
        let link = self.peers.get_mut(peer).and_then(|s| s.link.as_mut());
        if let Some(Phase::Opening(opening)) = link.map(|link| &mut link.phase) {
            opening.refused = Some(cause);
        }
    }

    /// Handles a datagram in formats that this process does not speak.
    pub(super) fn foreign(
        &mut self,
        now: Time,
        from: Remote,
        prefix: Prefix,
        theirs: Formats,
        whole: bool,
        sink: &mut dyn Sink,
    ) {
        match prefix.kind {
            Kind::Open if whole => {
                if self.refusal_log.allows(now) {
                    let reason = FORMATS.mismatch(theirs, PROTOCOL);
                    tracing::warn!(%reason, "UDP peers are turned away");
                }
                self.refuse(from, prefix.from, Refusal::Version);
            }
            Kind::Refuse => {
                if let Some(peer) = self.opening_to(from, prefix) {
                    let cause = PeerError::Protocol(FORMATS.mismatch(theirs, PROTOCOL));
                    self.handle_doubtful_refusal(now, peer, cause, sink);
                }
            }
            _ => {}
        }
    }
}

/// The callee's side.
impl Core {
    /// Handles a caller's opening.
    fn opened(
        &mut self,
        now: Time,
        from: Remote,
        prefix: Prefix,
        theirs: Greeting,
        environment: &mut dyn Environment,
    ) {
        let caller = prefix.from;
        if caller == 0 {
            return;
        }
        if !self.listening.contains(&from.socket) {
            // This socket is only for connecting to others.
            return self.report_unknown(from, caller, 0);
        }
        if let Some(&peer) = self.by_caller.get(&(from, caller)) {
            return self.accept_again(from, peer, environment);
        }
        match (self.config.key.is_some(), theirs.auth) {
            (true, Auth::SameUser) => return self.refuse(from, caller, Refusal::KeyNeeded),
            (false, Auth::ClusterKey) => return self.refuse(from, caller, Refusal::NoKey),
            _ => {}
        }
        if !self
            .cookies
            .accepts(&theirs.cookie, from.address, caller, now)
        {
            let greeting = Greeting {
                auth: theirs.auth,
                cookie: self.cookies.make(from.address, caller, now),
                ..Greeting::default()
            };
            return self.greet_address(Kind::Cookie, from, caller, 0, &greeting);
        }
        if self.peers.len() - self.half_open.len() >= self.config.max_peers {
            if self.limit_log.allows(now) {
                let limit = self.config.max_peers;
                tracing::warn!(address = %from.address, limit, "UDP peers are turned away: there are too many");
            }
            return self.refuse(from, caller, Refusal::Full);
        }
        self.add_caller(now, from, caller, theirs, environment);
    }

    fn add_caller(
        &mut self,
        now: Time,
        from: Remote,
        caller: u64,
        theirs: Greeting,
        environment: &mut dyn Environment,
    ) {
        // The cheapest checks come first, and no state is kept before all of them have passed.
        let (identity, source) = match &self.config.key {
            Some(_) => (Identity::Keyed, Source::host(from.address.ip())),
            None => match environment.verify(from, theirs.holder) {
                Ok(identity @ Identity::SocketOf { uid, .. }) => (identity, Source::User(uid)),
                Ok(identity) => (identity, Source::host(from.address.ip())),
                Err(reason) => {
                    if self.refusal_log.allows(now) {
                        tracing::warn!(%reason, "UDP peers are turned away");
                    }
                    return self.refuse(from, caller, Refusal::OtherUser);
                }
            },
        };
        let in_its_way = self.half_open.to_evict(source);
        let has_to_wait = |&(oldest, _): &(Entry<Time>, Peer)| {
            oldest.source == source && now < oldest.since + HALF_OPEN_GRACE
        };
        if in_its_way.as_ref().is_some_and(has_to_wait) {
            return; // it will repeat it, and by then some have come up or run out of time
        }
        let mut answer = greet(&self.config.key, from, environment);
        let mut seal = None;
        if let Some(secret) = self.secret(environment) {
            let call = Call {
                caller,
                cookie: &theirs.cookie,
                formats: [theirs.formats, FORMATS],
            };
            let mut random = [0; EPHEMERAL_BYTES];
            environment.random(&mut random);
            match noise::reply(secret.expose(), call, random, &theirs.noise) {
                Ok((sealed, message)) => {
                    seal = Some(sealed);
                    answer.noise = message;
                }
                Err(_) if self.config.key.is_none() => return, // not even a valid opening
                Err(_) => return self.refuse(from, caller, Refusal::WrongKey),
            }
        }
        let Some(address) = describe(from.address) else {
            return;
        };
        if let Some((oldest, peer)) = in_its_way {
            let waited_ms = now.saturating_sub(oldest.since).as_millis() as u64;
            self.end(now, peer, PeerError::TimedOut(waited_ms), &mut Silence);
        }
        let number = self.fresh_number(environment);
        let mut link = Link::new(
            from,
            number,
            Phase::Accepting(answer),
            environment.datagram_bytes(from),
            now + self.config.connect_timeout,
            now,
            &self.config,
        );
        link.theirs = caller;
        link.seal = seal;
        let session = self.session();
        let half_open = &mut self.half_open;
        let peer = self.peers.insert(|handle| {
            let origin = Origin::HalfOpen(half_open.add(source, handle, now));
            let mut state = PeerState::new(handle, origin, address, session);
            state.identity = Some(identity);
            state.link = Some(link);
            Box::new(state)
        });
        self.by_number.insert(number, peer);
        self.by_caller.insert((from, caller), peer);
        self.greet_address(Kind::Accept, from, caller, number, &answer);
        self.touch(now, peer);
    }

    /// Replies again to a caller that repeats its opening: the acceptance was lost, or is on its
    /// way.
    fn accept_again(&mut self, from: Remote, peer: Peer, environment: &mut dyn Environment) {
        let Some(link) = self.peers.get(peer).and_then(|state| state.link.as_ref()) else {
            return;
        };
        if let Phase::Accepting(answer) = link.phase {
            // Without a key, the reply is only for the process that the kernel shows, also the
            // second time.
            let holder = Holder::default();
            if self.config.key.is_none() && environment.verify(from, holder).is_err() {
                return;
            }
            let (caller, number) = (link.theirs, link.ours);
            self.greet_address(Kind::Accept, from, caller, number, &answer);
        }
    }

    fn refuse(&mut self, to: Remote, caller: u64, refusal: Refusal) {
        let greeting = Greeting {
            refusal,
            ..Greeting::default()
        };
        self.greet_address(Kind::Refuse, to, caller, 0, &greeting);
    }

    fn greet_address(
        &mut self,
        kind: Kind,
        to: Remote,
        caller: u64,
        number: u64,
        greeting: &Greeting,
    ) {
        let prefix = Prefix {
            kind,
            to: caller,
            from: number,
        };
        let mut datagram = Vec::new();
        greeting.encode(prefix, &mut datagram);
        self.reply(to, datagram);
    }
}

/// The greeting of either side.
fn greet(key: &Option<Secret>, to: Remote, environment: &dyn Environment) -> Greeting {
    match key {
        Some(_) => Greeting {
            auth: Auth::ClusterKey,
            ..Greeting::default()
        },
        None => Greeting {
            auth: Auth::SameUser,
            holder: environment.holder(to.socket),
            ..Greeting::default()
        },
    }
}
