//! What happens to the card, and what the program returns from a turn.

use crate::card::{Engine, Token};
use crate::setup::{BufferId, Processor, QueueId, Side, ViId};

/// Something that the hardware does: costs the card's processor nothing and only leaves traces for the
/// program to find in a later turn.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A process posted a descriptor and rang the doorbell.
    Doorbell {
        /// Of which virtual interface.
        vi: ViId,
        /// Of which work queue.
        side: Side,
        /// Virtual address of the descriptor, aligned to 64 bytes.
        address: u64,
        /// Handle of the registered memory in which it lies.
        handle: u32,
        /// With shadow queues: the descriptor's bytes as the process wrote them to the card (control
        /// segment, and segments or payload as far as they fit); empty otherwise.
        shadow: &'a [u8],
    },
    /// A process is about to sleep until a descriptor of this work queue completes.
    ArmWorkQueue(ViId, Side),
    /// A process is about to sleep until an entry is written to this completion queue.
    ArmCompletionQueue(QueueId),
    /// The header of a frame has come in, and the rest follows. For drivers of cards that can tell, with
    /// [`Settings::receive_cut_through`](crate::Settings::receive_cut_through); the same frame's
    /// [`FrameArrived`](Input::FrameArrived) or [`FrameBroken`](Input::FrameBroken) comes later.
    FrameBegun {
        /// The buffer that the program gave to the network receive engine.
        buffer: BufferId,
        /// The header as bytes.
        header: &'a [u8],
        /// Bytes behind it, which will lie at the front of the buffer.
        bytes: u32,
    },
    /// A frame that had begun did not come in completely, or its checksum is wrong.
    FrameBroken {
        /// The buffer that the program gave to the network receive engine.
        buffer: BufferId,
    },
    /// A frame has come in completely. If it was told when it had begun, header and length are the same.
    FrameArrived {
        /// The buffer that the program gave to the network receive engine.
        buffer: BufferId,
        /// The header as bytes.
        header: &'a [u8],
        /// Bytes behind it, which lie at the front of the buffer.
        bytes: u32,
    },
    /// A transfer of the host or network send engine is over.
    DmaFinished {
        /// Which engine.
        engine: Engine,
        /// Which transfer.
        token: Token,
        /// The descriptor that was read, if one was.
        bytes: &'a [u8],
    },
    /// While it had nothing else to do, this processor polled so many doorbells in vain: the next that it polls lies so
    /// many further on. Comes before the event that ends the polling: another input, or the turn that is due when the
    /// rung doorbell is reached (then as many as [`Turn::Polling`] said were ahead). With fewer polls the processor finds
    /// the doorbell later and is charged for the polls between; more lead it past the doorbell, once round all of
    /// them. Of no consequence where hardware queues doorbells.
    Polled(Processor, u32),
}

/// How a turn ended, and so when the driver calls the next.
///
/// - [`Worked`](Turn::Worked): as soon as the time charged is over.
/// - [`Waiting`](Turn::Waiting): after the next input from that engine. No other input wakes it.
/// - [`Polling`](Turn::Polling): doorbells are polled, and the rung one is `ahead` polls away: after the
///   time of so many polls, or at the next input of any kind if that comes first. Before that
///   turn or that input, tell with [`Input::Polled`] how many polls were made; they cost what the driver says.
/// - [`Idle`](Turn::Idle): after the next input. If doorbells are polled, the processor does so
///   meanwhile: [`Input::Polled`] first, as above.
///
/// Charges always count first: if charged time is left when the input comes, the turn is due when it
/// is over. Besides, every processor gets a turn when [`Firmware::deadline`](crate::Firmware::deadline)
/// has passed, unless it is waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// An event was handled; there may be more.
    Worked,
    /// The program spins until this engine has finished, and serves nothing else.
    Waiting(Engine),
    /// Doorbells are being polled.
    Polling {
        /// How many will be found silent before the one that was rung.
        ahead: u32,
    },
    /// Nothing is to be done.
    Idle,
}
