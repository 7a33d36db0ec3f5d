//! The methods of an instance, and which of them are worth polling.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_transport::{
    Access, Error, Method, Parking, Peer as Handle, Registration, SendError, Sharing, Transfer,
    WakeFlag,
};
use causeway_wire::region::RegionDescriptor;

use crate::clock::Clock;
use crate::conversation::LinkLimits;
use crate::registrations::Registrations;
use crate::waiting::QUIET_POLLS;

/// How often a method is polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polling {
    /// In every progress call.
    Always,
    /// In progress calls that read the clock: its polls have found nothing for some time, and those
    /// of another method have.
    Seldom,
    /// Not at all, and sleeps do not include it: nothing can arrive by it before it is called.
    Never,
}

/// The methods, cheapest first.
pub(crate) struct Methods {
    pub(crate) slots: Vec<Slot>,
    /// The only method that is always polled, if there is exactly one.
    pub(crate) only: Option<usize>,
    pub(crate) clock: Clock,
    /// The last reading of the clock.
    now: Instant,
}

/// One method.
pub(crate) struct Slot {
    pub(crate) method: Box<dyn Method>,
    /// Cached from [`Method::scheme`].
    pub(crate) scheme: &'static str,
    /// The limits that its conversations need, cached from [`Method::limits`].
    pub(crate) limits: LinkLimits,
    /// Cached from [`Method::capabilities`]: it needs a clock reading made for each call.
    exact_time: bool,
    /// Whether it has a quick way to sleep ([`Method::parker`]).
    pub(crate) parks: bool,
    /// The cache of registrations, if the method moves registered memory only.
    registrations: Option<Box<Registrations>>,
    /// It is armed for a sleep that was prepared.
    armed: bool,
    /// Polls that have found nothing since the last one that found something.
    pub(crate) quiet: u32,
    pub(crate) polling: Polling,
}

impl Methods {
    /// A table of these methods, cheapest first.
    pub(crate) fn new(methods: Vec<Box<dyn Method>>, clock: Clock) -> Self {
        let slots = methods.into_iter().map(|method| Slot {
            scheme: method.scheme(),
            limits: LinkLimits {
                max_packet: method.limits().max_packet,
                eager_bytes: method.limits().eager_bytes as u32,
                mapped_eager_bytes: method.limits().mapped_eager_bytes as u32,
                max_list: method.limits().max_list,
                shares_copies: method.shares_copies(),
                one_sided: method.capabilities().one_sided,
                holds_packets: method.capabilities().holds_packets,
            },
            exact_time: method.capabilities().exact_time,
            parks: method.parker().is_some(),
            registrations: (method.capabilities().needs_local_registration).then(Box::default),
            armed: false,
            method,
            quiet: 0,
            polling: Polling::Always,
        });
        Self {
            slots: slots.collect(),
            only: None,
            now: clock.read(),
            clock,
        }
    }

    /// Reads the clock. Polls use this reading until the next, see [`Methods::now`].
    pub(crate) fn read_clock(&mut self) -> Instant {
        self.now = self.clock.read();
        self.now
    }

    /// The last reading of the clock.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The method of this index, which is about to be used: it is polled from then on.
    #[inline]
    pub(crate) fn get(&mut self, index: usize) -> &mut dyn Method {
        self.slot(index).method.as_mut()
    }

    /// The same, with its cache of registrations.
    #[inline]
    pub(crate) fn slot(&mut self, index: usize) -> &mut Slot {
        let slot = &mut self.slots[index];
        slot.polled(true);
        if self.only != Some(index) {
            self.only = None;
        }
        if slot.exact_time {
            slot.method.set_time(self.clock.read());
        }
        slot
    }

    /// Drops cached registrations of memory that was freed.
    pub(crate) fn drop_freed(&mut self) {
        for slot in &mut self.slots {
            if let Some(registrations) = &mut slot.registrations {
                registrations.drop_freed(slot.method.as_mut());
            }
        }
    }

    /// See [`Method::holds_packets`].
    pub(crate) fn holds_packets(&self, (method, handle): (usize, Handle)) -> bool {
        self.slots[method].method.holds_packets(handle)
    }

    /// Sends the remaining parts of packets that the methods have accepted.
    pub(crate) fn flush(&mut self) {
        let slots = self.slots.iter_mut();
        for slot in slots.filter(|slot| slot.limits.holds_packets) {
            if slot.exact_time {
                slot.method.set_time(self.clock.read());
            }
            slot.method.flush();
        }
    }

    /// The schemes by index.
    pub(crate) fn schemes(&self) -> Vec<&'static str> {
        self.slots.iter().map(|slot| slot.scheme).collect()
    }

    /// Decides again how often each method is polled.
    pub(crate) fn choose(&mut self) {
        let mut some_busy = false;
        for slot in &mut self.slots {
            slot.polling = match slot.method.is_unused() {
                true => Polling::Never,
                false => Polling::Always,
            };
            some_busy |= slot.polling == Polling::Always && slot.quiet < QUIET_POLLS;
        }
        let outdone = |slot: &&mut Slot| slot.is_polled() && slot.quiet >= QUIET_POLLS;
        for slot in self.slots.iter_mut().filter(|_| some_busy).filter(outdone) {
            slot.polling = Polling::Seldom;
        }
        let always = |index: &usize| self.slots[*index].polling == Polling::Always;
        let mut busy = (0..self.slots.len()).filter(always);
        self.only = busy.next().filter(|_| busy.next().is_none());
    }

    /// Whether parking has to use the methods' descriptors: the only one in use cannot park itself,
    /// or several are in use.
    pub(crate) fn is_parking_costly(&self) -> bool {
        self.only_used()
            .is_none_or(|index| !self.slots[index].parks)
    }

    /// The only method that is in use, if there is exactly one.
    pub(crate) fn only_used(&self) -> Option<usize> {
        let mut used = (0..self.slots.len()).filter(|index| !self.slots[*index].method.is_unused());
        used.next().filter(|_| used.next().is_none())
    }

    /// Whether any of them has moved bytes of a transfer since the last call
    /// ([`Method::take_moved`]).
    pub(crate) fn take_moved(&mut self) -> bool {
        let ask = |any: bool, slot: &mut Slot| any | slot.method.take_moved();
        self.slots.iter_mut().fold(false, ask)
    }

    /// Arms all methods that are polled at all. `false` if one of them has something to poll for:
    /// then the next progress call polls it.
    pub(crate) fn arm(&mut self) -> bool {
        let now = self.read_clock();
        let mut polled = self.slots.iter_mut().filter(|slot| slot.is_polled());
        let Some(restless) = polled.find_map(|slot| (!slot.arm(now)).then_some(slot)) else {
            return true;
        };
        restless.polling = Polling::Always;
        self.only = None;
        false
    }

    /// Ends what [`Methods::arm`] began.
    pub(crate) fn disarm(&mut self) {
        for slot in &mut self.slots {
            slot.disarm();
        }
    }

    /// Whether a sleep on the armed methods is ended by everything that there is to poll for,
    /// whatever other threads have done since it was prepared.
    pub(crate) fn stay_armed(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.all(|slot| match slot.armed {
            true => slot.method.stays_armed(),
            false => slot.method.is_unused(),
        })
    }

    /// The earliest time at which a method needs a tick.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let slots = self.slots.iter();
        slots.filter_map(|slot| slot.method.deadline()).min()
    }

    /// The descriptors of the methods that [`Methods::arm`] arms.
    pub(crate) fn pollables(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let polled = self.slots.iter().filter(|slot| slot.is_polled());
        polled.map(|slot| slot.method.pollable())
    }

    /// Has the next progress call poll the methods whose descriptors were `readable`, in the order
    /// of [`Methods::pollables`]: one that is not polled would end every sleep at once.
    pub(crate) fn woken(&mut self, readable: impl Iterator<Item = bool>) {
        let polled = self.slots.iter_mut().filter(|slot| slot.is_polled());
        for (slot, _) in polled.zip(readable).filter(|(_, readable)| *readable) {
            slot.polling = Polling::Always;
            self.only = None;
        }
    }
}

impl Slot {
    /// See [`Method::arm`].
    fn arm(&mut self, now: Instant) -> bool {
        self.armed = self.method.arm(now);
        self.armed
    }

    /// See [`Method::prepare_park`].
    pub(crate) fn prepare_park(&mut self, now: Instant, flag: &WakeFlag) -> Parking {
        let parking = self.method.prepare_park(now, flag);
        self.armed = matches!(parking, Parking::Prepared(_));
        parking
    }

    /// Ends what [`Slot::arm`] and [`Slot::prepare_park`] begin.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
        self.method.disarm();
    }

    /// The time to pass to a poll; `now` is the last reading.
    #[inline]
    pub(crate) fn time(&self, clock: &Clock, now: Instant) -> Instant {
        match self.exact_time {
            true => clock.read(),
            false => now,
        }
    }

    /// Starts a transfer, with registered memory if the method requires that.
    #[inline]
    pub(crate) fn transfer(&mut self, peer: Handle, transfer: Transfer) -> Result<(), SendError> {
        let method = self.method.as_mut();
        match &mut self.registrations {
            None => method.transfer(peer, transfer),
            Some(registrations) => registrations.transfer(method, peer, transfer),
        }
    }

    /// Grants memory, registered if the method requires that.
    #[inline]
    pub(crate) fn grant(
        &mut self,
        peer: Handle,
        memory: &Memory,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        let method = self.method.as_mut();
        match &mut self.registrations {
            None => method.grant(peer, memory, Registration::NONE, access),
            Some(registrations) => registrations.grant(method, peer, memory, access),
        }
    }

    /// Changes [`Method::share_copies`].
    /// No side helps the other one. Which of them copies is decided as if it did: then it is the receiver, which needs no reply.
    pub(crate) fn copy_alone(&mut self) {
        self.method.share_copies(Sharing {
            offers: false,
            helps: false,
        });
    }

    pub(crate) fn share_copies(&mut self, sharing: Sharing) {
        self.method.share_copies(sharing);
        self.limits.shares_copies = self.method.shares_copies();
    }

    /// Whether it is polled, if only now and then, and included in sleeps.
    pub(crate) fn is_polled(&self) -> bool {
        self.polling != Polling::Never
    }

    /// Notes whether a poll found anything.
    #[inline]
    pub(crate) fn polled(&mut self, any: bool) {
        if any {
            self.quiet = 0;
            self.polling = Polling::Always;
        } else {
            self.quiet = self.quiet.saturating_add(1);
        }
    }
}
