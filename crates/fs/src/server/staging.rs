//! Buffers between the network and the files, a bounded number of them.
//!
//! A buffer that goes from one client to another is cleared first: where a client's transfer leaves bytes out (a
//! process that helps with copying within a host counts its parts itself), it must not find another client's data.

use causeway_bmi::{Addr, Bmi, Identity, Memory};

/// Bytes of a buffer: large enough to pay for a transfer, small enough to stay in the cache between
/// the transfer and the file.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// Most buffers in use at once.
const MAX_BUFFERS: usize = 64;
/// From so many buffers in use on, one user for whom agents speak gets no more than [`SHARE_OF_USER`]: such a user may hold buffers as long as they
/// like, by requests whose data they do not send.
const NEARLY_FULL: usize = MAX_BUFFERS / 2;
const SHARE_OF_USER: usize = MAX_BUFFERS / 8;
/// Most idle buffers that are kept.
const KEEP: usize = 16;

/// The server's buffers.
#[derive(Debug, Default)]
pub(super) struct Staging {
    /// Idle buffers, each with the client whose data it may contain.
    idle: Vec<(Addr, Memory)>,
    /// Buffers in use, by the address of their first byte.
    used: Vec<Used>,
}

#[derive(Debug)]
struct Used {
    at: usize,
    client: Addr,
    /// The user for whom an agent speaks on the client's connection, if one does.
    user: Option<u32>,
}

/// Whether a user who has `own` of the buffers in use may have another one.
fn has_share(used: usize, own: usize) -> bool {
    used < NEARLY_FULL || own < SHARE_OF_USER
}

/// The user for whom an agent speaks on this connection, if one does.
pub(super) fn spoken_for(bmi: &Bmi, client: Addr) -> Option<u32> {
    match bmi.identity(client) {
        Some(Identity::OneUser { uid, .. }) => Some(uid),
        _ => None,
    }
}

impl Staging {
    /// Whether a buffer can be taken now.
    pub(super) fn may_take(&self) -> bool {
        self.used.len() < MAX_BUFFERS
    }

    /// Whether this client's user may have another buffer.
    pub(super) fn may_take_for(&self, bmi: &Bmi, client: Addr) -> bool {
        let Some(user) = spoken_for(bmi, client) else {
            return true;
        };
        let own = self.used.iter().filter(|used| used.user == Some(user));
        has_share(self.used.len(), own.count())
    }

    /// Returns a buffer, if one can be taken now. The error is the reason why none can be allocated.
    pub(super) fn take(&mut self, bmi: &mut Bmi, addr: Addr) -> Result<Option<Memory>, String> {
        if !self.may_take() {
            return Ok(None);
        }
        let own = self.idle.iter().rposition(|(client, _)| *client == addr);
        let at = own.or(self.idle.len().checked_sub(1));
        let buffer = match at.map(|at| self.idle.swap_remove(at)) {
            Some((client, buffer)) => {
                if client != addr {
                    buffer.clear();
                }
                buffer
            }
            None => bmi
                .memalloc(addr, BUFFER_BYTES)
                .map_err(|error| error.to_string())?,
        };
        self.used.push(Used {
            at: buffer.as_ptr().addr(),
            client: addr,
            user: spoken_for(bmi, addr),
        });
        Ok(Some(buffer))
    }

    /// Puts a buffer back among the idle ones.
    pub(super) fn give(&mut self, buffer: Memory) {
        let at = buffer.as_ptr().addr();
        let Some(place) = self.used.iter().position(|used| used.at == at) else {
            return;
        };
        let used = self.used.swap_remove(place);
        if self.idle.len() < KEEP {
            self.idle.push((used.client, buffer));
        }
    }

    /// Whether there is something that [`Staging::shrink`] would free.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Frees idle buffers.
    pub(super) fn shrink(&mut self) {
        self.idle.clear();
    }
}

#[cfg(test)]
mod tests {
    use causeway_bmi::Config;

    use super::*;

    #[test]
    fn no_client_finds_in_a_buffer_what_another_has_left_there() {
        let mut bmi = Bmi::new(Config::default()).unwrap();
        let mut lookup = |text: &str| bmi.lookup(text).unwrap();
        let (one, other) = (lookup("tcp://127.0.0.1:1"), lookup("tcp://127.0.0.1:2"));
        let mut staging = Staging::default();
        let secret = |buffer: &Memory| buffer.to_vec().contains(&0xee);
        let buffer = staging.take(&mut bmi, one).unwrap().unwrap();
        buffer.write_at(BUFFER_BYTES - 9, &[0xee; 9]);
        staging.give(buffer);
        let buffer = staging.take(&mut bmi, one).unwrap().unwrap();
        assert!(secret(&buffer), "its own is not cleared for nothing");
        staging.give(buffer);
        for client in [other, one] {
            let buffer = staging.take(&mut bmi, client).unwrap().unwrap();
            assert!(!secret(&buffer));
            staging.give(buffer);
        }
    }

    #[test]
    fn users_get_half_of_the_buffers_together_and_then_each_a_share() {
        let most = |mut used: usize| {
            let before = used;
            while has_share(used, used - before) {
                used += 1;
            }
            used - before
        };
        assert_eq!(most(0), NEARLY_FULL);
        // After one who has taken all that one may have, four others get a share.
        for user in 0..4 {
            assert_eq!(most(NEARLY_FULL + user * SHARE_OF_USER), SHARE_OF_USER);
        }
        assert_eq!(NEARLY_FULL + 4 * SHARE_OF_USER, MAX_BUFFERS);
    }

    #[test]
    fn buffers_are_bounded_and_come_back() {
        let mut bmi = Bmi::new(Config::default()).unwrap();
        let client = bmi.lookup("tcp://127.0.0.1:1").unwrap();
        let mut staging = Staging::default();
        for _ in 0..3 {
            let mut taken = Vec::new();
            while let Some(buffer) = staging.take(&mut bmi, client).unwrap() {
                taken.push(buffer);
            }
            assert_eq!(taken.len(), MAX_BUFFERS);
            assert!(!staging.may_take());
            taken.drain(..).for_each(|buffer| staging.give(buffer));
            assert!(staging.may_take() && staging.idle.len() == KEEP);
        }
        staging.shrink();
        assert!(!staging.has_idle());
    }
}
