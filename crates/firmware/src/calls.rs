//! Calls of the kernel's driver to set objects up and to take them down. Memory is allocated here, as
//! much as the objects will ever need.

use causeway_wire::vi::COMPLETION_BYTES;

use crate::clock::Clock;
use crate::engines::Source;
use crate::memory::Right;
use crate::settings::Discipline;
use crate::setup::{
    CompletionQueue, Connection, Direction, QueueId, Region, SetUpError, Side, Traffic,
    ViAttributes, ViId,
};
use crate::state::{Completions, Destination, Firmware};
use crate::vi::{State, Vi};

const VI: &str = "virtual interface";
const QUEUE: &str = "completion queue";

impl Firmware {
    /// Registers memory and returns its handle, which descriptors name. The pages must stay where they are until
    /// [`Firmware::deregister`] has succeeded.
    pub fn register(&mut self, region: Region<'_>) -> Result<u32, SetUpError> {
        self.memory.register(region)
    }

    /// Ends a registration; refused while something in progress uses it.
    pub fn deregister(&mut self, handle: u32) -> Result<(), SetUpError> {
        if self.is_in_use(handle) {
            return Err(SetUpError::Busy { what: "region" });
        }
        self.memory.deregister(handle)
    }

    fn is_in_use(&self, handle: u32) -> bool {
        let by_queue = self.queues.iter().flatten();
        let mut by_queue = by_queue.filter(|queue| queue.handle == handle);
        let mut by_op = self
            .ops
            .numbered()
            .filter(|(number, op)| op.is_taken() && self.slots.names(op, *number, handle));
        let mut by_frame = self.frames.numbered().filter(|(_, frame)| {
            let of_it = matches!(frame.source, Source::Region { handle: of, .. } if of == handle);
            of_it && frame.reading
        });
        let mut by_arrival = self.arrivals.0.iter().filter(|arrival| {
            matches!(arrival.destination, Destination::Region { handle: to, .. } if to == handle)
        });
        by_queue.next().is_some()
            || by_op.next().is_some()
            || by_frame.next().is_some()
            || by_arrival.next().is_some()
    }

    /// Makes a completion queue.
    pub fn create_queue(&mut self, queue: CompletionQueue) -> Result<QueueId, SetUpError> {
        let invalid = |what| Err(SetUpError::Invalid { what });
        if queue.entries == 0 || !queue.address.is_multiple_of(COMPLETION_BYTES as u64) {
            return invalid(
                "a completion queue needs at least one entry, and an address that is a multiple of 16",
            );
        }
        let CompletionQueue {
            address,
            handle,
            tag,
            entries,
        } = queue;
        let inside = entries
            .checked_mul(COMPLETION_BYTES as u32)
            .is_some_and(|bytes| {
                self.memory
                    .allows(handle, address, bytes, tag, Right::Local)
            });
        if !inside {
            return invalid(
                "a completion queue must lie in registered memory with its owner's tag",
            );
        }
        let made = Completions {
            address,
            handle,
            tag,
            entries,
            next: 0,
            round: true,
            users: 0,
            armed: false,
        };
        let place = match self.queues.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.queues.len() < self.settings.limits.completion_queues as usize => {
                self.queues.push(None);
                self.queues.len() - 1
            }
            None => return Err(SetUpError::Full { what: QUEUE }),
        };
        self.queues[place] = Some(made);
        Ok(QueueId(place as u32))
    }

    /// Ends a completion queue that no virtual interface uses.
    pub fn destroy_queue(&mut self, queue: QueueId) -> Result<(), SetUpError> {
        match self.queues.get_mut(queue.0 as usize) {
            Some(place @ Some(_)) => {
                if place.as_ref().is_some_and(|queue| queue.users > 0) {
                    return Err(SetUpError::Busy { what: QUEUE });
                }
                *place = None;
                Ok(())
            }
            _ => Err(SetUpError::Unknown { what: QUEUE }),
        }
    }

    /// Makes a virtual interface. Receives may be posted from now on, sends when it is connected.
    pub fn create_vi(&mut self, attributes: ViAttributes) -> Result<ViId, SetUpError> {
        for queue in [attributes.send_queue, attributes.receive_queue]
            .into_iter()
            .flatten()
        {
            match self.queues.get(queue.0 as usize) {
                Some(Some(queue)) if queue.tag == attributes.tag => {}
                Some(Some(_)) => {
                    return Err(SetUpError::Invalid {
                        what: "a virtual interface and its completion queues must have the same tag",
                    });
                }
                _ => return Err(SetUpError::Unknown { what: QUEUE }),
            }
        }
        let Some(place) = self.vis.iter().position(|vi| vi.state == State::Absent) else {
            return Err(SetUpError::Full { what: VI });
        };
        let shadow_bytes = match self.settings.shadow_queues {
            true => self.slots.slot_bytes(),
            false => 0,
        };
        self.vis[place] = Vi::new(attributes, &self.settings.limits, shadow_bytes);
        self.count_users(&attributes, 1);
        let vi = place as u32;
        self.bells[0].declare(vi, Side::Send);
        if self.rings_for_receives() {
            self.bells[self.processor_of(Side::Receive)].declare(vi, Side::Receive);
        }
        Ok(ViId(vi))
    }

    fn count_users(&mut self, attributes: &ViAttributes, by: i32) {
        for queue in [attributes.send_queue, attributes.receive_queue]
            .into_iter()
            .flatten()
        {
            if let Some(Some(queue)) = self.queues.get_mut(queue.0 as usize) {
                queue.users = queue.users.saturating_add_signed(by);
            }
        }
    }

    fn find(&mut self, vi: ViId) -> Result<&mut Vi, SetUpError> {
        self.vis
            .get_mut(vi.0 as usize)
            .filter(|vi| vi.state != State::Absent)
            .ok_or(SetUpError::Unknown { what: VI })
    }

    /// Destroys a virtual interface; refused before [`Firmware::disconnect`], and until everything posted
    /// has been completed. Releases its reservations.
    pub fn destroy_vi(&mut self, vi: ViId) -> Result<(), SetUpError> {
        let owner = self.find(vi)?;
        if owner.state != State::Idle || !owner.is_quiet() {
            return Err(SetUpError::Busy { what: VI });
        }
        let attributes = owner.attributes;
        *owner = Vi::default();
        self.count_users(&attributes, -1);
        self.timers.set(vi.0, None);
        self.admission.forget(vi.0);
        self.bells[0].withdraw(vi.0, Side::Send);
        if self.rings_for_receives() {
            self.bells[self.processor_of(Side::Receive)].withdraw(vi.0, Side::Receive);
        }
        Ok(())
    }

    /// Connects a virtual interface as both ends' drivers have agreed, levels of reliability included. Best called at both ends
    /// before the processes may send: a frame that arrives at an end that is not connected is dropped.
    pub fn connect(&mut self, vi: ViId, connection: Connection) -> Result<(), SetUpError> {
        let owner = self.find(vi)?;
        let unsettled = owner.control.queued || owner.tx.frames > 0 || owner.rx.writes_open > 0;
        if owner.state != State::Idle || unsettled {
            return Err(SetUpError::Busy { what: VI });
        }
        owner.begin_connection(connection);
        self.request_service(vi.0);
        Ok(())
    }

    /// Ends a connection, broken or not: posted descriptors are completed as flushed in the next turns.
    /// The virtual interface can be connected anew when that is done.
    pub fn disconnect(&mut self, vi: ViId) -> Result<(), SetUpError> {
        let owner = self.find(vi)?;
        match owner.state {
            State::Connected => owner.parting = true,
            State::Broken | State::Idle => {}
            State::Closing | State::Absent => return Ok(()),
        }
        owner.state = State::Closing;
        self.request_service(vi.0);
        Ok(())
    }

    /// Admission control at this end of a channel: reserves what `traffic` needs of this card, or
    /// returns the traffic that would fit. Both ends have to agree: if the other refuses, call
    /// [`Firmware::release`] here and offer the smaller of the two. A channel without reservation
    /// is best effort.
    pub fn reserve(
        &mut self,
        vi: ViId,
        direction: Direction,
        traffic: Traffic,
    ) -> Result<(), SetUpError> {
        self.find(vi)?;
        let rate = self
            .admission
            .reserve(&self.settings, vi.0, direction, traffic)?;
        let stamped = self.settings.discipline == Discipline::QosAware;
        if stamped {
            *self.clock_of(vi.0, direction) = Clock::reserved(rate, traffic.message_bytes());
        }
        Ok(())
    }

    /// Releases a reservation; the channel is best effort again in this direction.
    pub fn release(&mut self, vi: ViId, direction: Direction) -> Result<(), SetUpError> {
        self.find(vi)?;
        if !self.admission.release(vi.0, direction) {
            return Err(SetUpError::Unknown {
                what: "reservation",
            });
        }
        *self.clock_of(vi.0, direction) = Clock::default();
        Ok(())
    }

    fn clock_of(&mut self, vi: u32, direction: Direction) -> &mut Clock {
        let owner = self.vi_mut(vi);
        match direction {
            Direction::Outgoing => &mut owner.outgoing,
            Direction::Incoming => &mut owner.incoming,
        }
    }
}
