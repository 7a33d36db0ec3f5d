//! How much may be in flight at one time: NewReno (RFC 9002, 7, without pacing).

/// The window begins with this many datagrams.
const FIRST_DATAGRAMS: usize = 10;

/// The window never falls below this many datagrams.
const LEAST_DATAGRAMS: usize = 2;

/// The congestion window of one connection, in bytes of datagrams.
#[derive(Debug, Clone)]
pub(super) struct Window {
    bytes: usize,
    /// Where slow start ends.
    threshold: usize,
    /// The window never grows above this.
    most: usize,
    datagram_bytes: usize,
    /// A loss of a number below this belongs to a reduction of the window that was already made.
    recovered_from: u64,
    /// Bytes acknowledged since the window last grew, in congestion avoidance.
    credit: usize,
}

impl Window {
    pub(super) fn new(datagram_bytes: usize, most: usize) -> Self {
        let most = most.max(LEAST_DATAGRAMS * datagram_bytes);
        Self {
            bytes: (FIRST_DATAGRAMS * datagram_bytes).min(most),
            threshold: usize::MAX,
            most,
            datagram_bytes,
            recovered_from: 0,
            credit: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Datagrams have another size from now on.
    pub(super) fn resize(&mut self, datagram_bytes: usize) {
        self.datagram_bytes = datagram_bytes;
    }

    /// Notes that `bytes` were acknowledged, up to `number`. `limited`: the window was what held
    /// the sender back; if not, there is no reason to let it grow.
    pub(super) fn acknowledged(&mut self, bytes: usize, number: u64, limited: bool) {
        if number < self.recovered_from || !limited {
            return;
        }
        if self.bytes < self.threshold {
            self.bytes = self.bytes.saturating_add(bytes).min(self.most);
            return;
        }
        self.credit += bytes;
        if self.credit >= self.bytes {
            self.credit -= self.bytes;
            self.bytes = (self.bytes + self.datagram_bytes).min(self.most);
        }
    }

    /// Notes that `number` was lost, when `next` is the next number to be used.
    pub(super) fn lost(&mut self, number: u64, next: u64) {
        if number < self.recovered_from {
            return;
        }
        self.recovered_from = next;
        self.bytes = (self.bytes / 2).max(self.least());
        self.threshold = self.bytes;
        self.credit = 0;
    }

    /// Notes that nothing was acknowledged for several timeouts.
    pub(super) fn collapse(&mut self) {
        self.bytes = self.least();
        self.credit = 0;
    }

    fn least(&self) -> usize {
        LEAST_DATAGRAMS * self.datagram_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_fast_then_slowly_and_halves_once_per_loss() {
        let mut window = Window::new(1000, 1 << 20);
        assert_eq!(window.bytes(), 10_000);
        window.acknowledged(10_000, 9, true);
        assert_eq!(window.bytes(), 20_000);
        window.lost(12, 20);
        assert_eq!(window.bytes(), 10_000);
        window.lost(13, 21);
        window.lost(19, 25);
        assert_eq!(window.bytes(), 10_000, "one event");
        window.acknowledged(5000, 19, true);
        assert_eq!(window.bytes(), 10_000, "sent before the drop");
        window.acknowledged(5000, 20, true);
        window.acknowledged(5000, 22, true);
        assert_eq!(window.bytes(), 11_000);
        window.lost(22, 30);
        assert_eq!(window.bytes(), 5500);
    }

    #[test]
    fn it_is_bounded_and_grows_only_if_it_is_what_holds_back() {
        let mut window = Window::new(1000, 15_000);
        window.acknowledged(10_000, 1, false);
        assert_eq!(window.bytes(), 10_000);
        window.acknowledged(100_000, 1, true);
        assert_eq!(window.bytes(), 15_000);
        for number in 0..100 {
            window.lost(number, number + 1);
        }
        assert_eq!(window.bytes(), 2000);
        window.acknowledged(2000, 100, true);
        assert_eq!(window.bytes(), 3000);
        window.collapse();
        assert_eq!(window.bytes(), 2000);
    }
}
