//! The addresses of a peer, and in which order they are tried.
//!
//! A host has several networks as a rule, and others reach it by some of them only: a bridge of containers
//! exists on every host, and a firewall drops what comes to the network of administrators. An address that
//! nothing replies from must not delay the others, so each is tried for a short time, and then again for a
//! longer one (compare RFC 8305, "Happy Eyeballs", which has several attempts at a time).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::error::PeerError;

/// How long an address is tried in the first round: many round trips of a cluster's network. It is twice as long in each
/// further round, so that also an address behind a slow or lossy network is reached.
const FIRST_LIMIT: Duration = Duration::from_millis(250);

/// In the last round the kernel's limit applies.
const ROUNDS: u32 = 8;

/// The networks that are remembered as silent.
const MAX_SILENT: usize = 64;

/// The addresses of one peer, of which one is tried, or was reached.
#[derive(Debug)]
pub(super) struct Targets {
    /// Those at which a handshake has failed in this attempt come last.
    all: Vec<SocketAddr>,
    /// How many are left to be tried.
    left: usize,
    at: usize,
    round: u32,
    /// One has not replied in this round.
    any_silent: bool,
    /// Why a handshake has failed.
    refusal: Option<PeerError>,
}

impl Targets {
    pub(super) fn new(all: Vec<SocketAddr>) -> Self {
        Self {
            left: all.len(),
            all,
            at: 0,
            round: 0,
            any_silent: false,
            refusal: None,
        }
    }

    /// Adds addresses, which come after the others.
    pub(super) fn add(&mut self, more: Vec<SocketAddr>) {
        for target in more {
            if !self.all.contains(&target) {
                self.all.insert(self.left, target);
                self.left += 1;
            }
        }
    }

    /// The address that is tried, or was reached.
    pub(super) fn current(&self) -> Option<SocketAddr> {
        self.all[..self.left].get(self.at).copied()
    }

    /// How long to try it.
    pub(super) fn limit(&self) -> Option<Duration> {
        let has_others = self.left > 1 && self.round + 1 < ROUNDS;
        has_others.then(|| FIRST_LIMIT * (1 << self.round))
    }

    /// The present address was not reached: it is `silent`, or has refused. Returns whether there is another one to try.
    pub(super) fn next(&mut self, silent: bool) -> bool {
        self.any_silent |= silent;
        self.at += 1;
        self.goes_on()
    }

    /// The handshake at the present address has failed: at this one there may be another process. It would fail again, so the address is not tried any
    /// more in this attempt. Returns whether there is another one to try.
    pub(super) fn refused(&mut self, cause: &PeerError) -> bool {
        // What a process of ours says tells more than how another program breaks the handshake.
        let is_reason =
            |it: &PeerError| matches!(it, PeerError::Unauthorised(_) | PeerError::Full(_));
        if !self.refusal.as_ref().is_some_and(is_reason) {
            self.refusal = Some(cause.clone());
        }
        if let Some(rest) = self.all[..self.left].get_mut(self.at..)
            && !rest.is_empty()
        {
            rest.rotate_left(1);
            self.left -= 1;
        }
        self.goes_on()
    }

    /// Why a handshake of this attempt has failed: that tells more than that other addresses were not reached.
    pub(super) fn take_refusal(&mut self) -> Option<PeerError> {
        self.refusal.take()
    }

    /// Begins with the next round, if this one is over. Returns whether there is an address to try.
    fn goes_on(&mut self) -> bool {
        if self.at < self.left {
            return true;
        }
        let is_over = self.left == 0 || !self.any_silent || self.round + 1 >= ROUNDS;
        if !is_over {
            (self.at, self.any_silent) = (0, false);
            self.round += 1;
        }
        !is_over
    }

    /// A new attempt begins, with the addresses in silent networks last.
    pub(super) fn restart(&mut self, silent: &SilentNetworks) {
        (self.at, self.round, self.any_silent) = (0, 0, false);
        (self.left, self.refusal) = (self.all.len(), None);
        self.all
            .sort_by_key(|target| silent.0.contains(&network(target.ip())));
    }
}

/// Networks in which addresses did not reply, and none has replied since: other peers are there, too, and are
/// sooner reached by their other addresses.
#[derive(Debug, Default)]
pub(super) struct SilentNetworks(Vec<IpAddr>);

impl SilentNetworks {
    pub(super) fn add(&mut self, target: SocketAddr) {
        let network = network(target.ip());
        if !self.0.contains(&network) {
            self.0.truncate(MAX_SILENT - 1);
            self.0.insert(0, network);
        }
    }

    pub(super) fn remove(&mut self, target: SocketAddr) {
        let network = network(target.ip());
        self.0.retain(|silent| *silent != network);
    }
}

/// The network of an address, as far as the address tells: networks of hosts mostly have 256 addresses or more.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & !0xff).into()),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(all: &[&str]) -> Targets {
        Targets::new(all.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn port(targets: &Targets) -> u16 {
        targets.current().map_or(0, |target| target.port())
    }

    #[test]
    fn those_that_refuse_are_tried_once() {
        let mut all = targets(&["10.0.0.1:1", "10.0.1.1:2"]);
        assert_eq!((port(&all), all.limit()), (1, Some(FIRST_LIMIT)));
        assert!(all.next(false));
        assert_eq!(port(&all), 2);
        assert!(!all.next(false));
    }

    #[test]
    fn those_at_which_the_handshake_fails_are_not_tried_again() {
        let mut all = targets(&["10.0.0.1:1", "10.0.1.1:2", "10.0.2.1:3"]);
        let unauthorised = PeerError::Unauthorised(String::new());
        assert!(all.next(true));
        assert!(all.refused(&unauthorised));
        assert_eq!(port(&all), 3);
        assert!(all.next(false));
        assert_eq!((port(&all), all.limit()), (1, Some(2 * FIRST_LIMIT)));
        all.add(vec!["10.0.3.1:4".parse().unwrap()]);
        assert!(all.refused(&PeerError::Disconnected));
        assert!(all.next(false));
        assert_eq!(port(&all), 4);
        assert!(!all.refused(&PeerError::Disconnected));
        assert_eq!(all.take_refusal(), Some(unauthorised));
        all.restart(&SilentNetworks::default());
        assert_eq!((all.left, all.take_refusal()), (4, None));
    }

    #[test]
    fn silent_ones_are_tried_again_and_longer_each_time() {
        let mut all = targets(&["10.0.0.1:1", "10.0.1.1:2"]);
        let mut limits = Vec::new();
        loop {
            limits.push((port(&all), all.limit()));
            if !all.next(port(&all) == 1) {
                break;
            }
        }
        assert_eq!(limits.len(), 2 * ROUNDS as usize);
        let twice = Some(2 * FIRST_LIMIT);
        assert_eq!(
            limits[..3],
            [(1, Some(FIRST_LIMIT)), (2, Some(FIRST_LIMIT)), (1, twice)]
        );
        assert_eq!(limits.last(), Some(&(2, None)));
    }

    #[test]
    fn a_single_one_has_the_kernels_time() {
        let mut all = targets(&["10.0.0.1:1"]);
        assert_eq!(all.limit(), None);
        assert!(!all.next(false));
    }

    #[test]
    fn addresses_in_silent_networks_come_last_until_one_replies() {
        let mut silent = SilentNetworks::default();
        silent.add("172.17.0.1:1".parse().unwrap());
        let mut all = targets(&["172.17.0.2:1", "10.0.0.2:2"]);
        all.restart(&silent);
        assert_eq!(port(&all), 2);
        silent.remove("172.17.0.7:1".parse().unwrap());
        let mut all = targets(&["172.17.0.2:1", "10.0.0.2:2"]);
        all.restart(&silent);
        assert_eq!(port(&all), 1);
        for host in 0..1000_u32 {
            silent.add((std::net::Ipv4Addr::from(host << 8), 1).into());
        }
        assert_eq!(silent.0.len(), MAX_SILENT);
    }
}
