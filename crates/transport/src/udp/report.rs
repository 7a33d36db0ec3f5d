//! Information about peers, for callers and for people.

use causeway_wire::tcp::MAX_PIECE;

use super::core::Core;
use super::link::{Link, Phase};
use crate::address::Address;
use crate::method::{Identity, Peer};

impl Core {
    /// See [`crate::Method::address`].
    pub fn address(&self, peer: Peer) -> Option<Address> {
        Some(self.peers.shown(peer)?.address.clone())
    }

    /// See [`crate::Method::identity`].
    pub fn identity(&self, peer: Peer) -> Option<Identity> {
        self.peers.shown(peer)?.identity
    }

    /// Memory that is allocated for peers now, apart from the buffers of callers.
    pub fn owned_bytes(&self) -> usize {
        let replies: usize = self.replies.iter().map(|(_, bytes)| bytes.len()).sum();
        let peers = self.peers.iter().map(|state| {
            state.session.owned_bytes() + state.link.as_ref().map_or(0, Link::owned_bytes)
        });
        replies + peers.sum::<usize>()
    }

    /// See [`crate::Method::report`].
    pub fn facts(&self, peer: Peer) -> Option<Vec<(&'static str, String)>> {
        let state = self.peers.shown(peer)?;
        let connection = match (&state.link, &state.gone) {
            (_, Some(cause)) => format!("down: {cause}"),
            (None, None) => "none now: it is made by the next send".to_owned(),
            (Some(link), None) => match &link.phase {
                Phase::Opening(opening) if opening.disbelieved > 0 => {
                    let count = opening.disbelieved;
                    format!("being made; {count} replies were not the peer's and are ignored")
                }
                Phase::Opening(_) => "being made".to_owned(),
                Phase::Accepting(_) => "authenticating the peer".to_owned(),
                Phase::Up => "up".to_owned(),
            },
        };
        let trust = match state.identity {
            Some(Identity::Keyed | Identity::OneUser { .. }) => {
                "holds the cluster's key".to_owned()
            }
            Some(Identity::Local { uid, .. } | Identity::SocketOf { uid, .. }) => {
                format!("user {uid} on this host, as the kernel reports")
            }
            None => "not known yet".to_owned(),
        };
        let mut facts = vec![
            ("method", super::SCHEME.to_owned()),
            ("connection", connection),
            ("peer", trust),
        ];
        if let Some(link) = state.link.as_ref().filter(|link| link.is_up()) {
            let encryption = match link.seal {
                Some(_) => "on",
                None => "off: loopback, same user",
            };
            facts.push(("encryption", encryption.to_owned()));
            let bytes = link.datagram_bytes();
            facts.push(("datagrams", format!("of at most {bytes} bytes")));
            if let Some(trip) = link.round_trip() {
                facts.push(("round trip", format!("about {} us", trip.as_micros())));
            }
        }
        facts.push((
            "large transfers",
            format!("frames of {} KiB in datagrams", MAX_PIECE / 1024),
        ));
        facts.push((
            "mapping",
            "none: memory cannot be shared over UDP".to_owned(),
        ));
        Some(facts)
    }
}
