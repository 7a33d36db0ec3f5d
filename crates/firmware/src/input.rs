//! Inputs of the card, and results of a turn.

use crate::card::{Engine, Token};
use crate::setup::{BufferId, Processor, QueueId, Side, ViId};

/// An event of the hardware. It costs the card's processor no time; the program handles it in a
/// later turn.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A process posted a descriptor and rang the doorbell.
    Doorbell {
        /// The virtual interface.
        vi: ViId,
        /// The work queue.
        side: Side,
        /// Virtual address of the descriptor, aligned to 64 bytes.
        address: u64,
        /// Handle of the registered memory that contains it.
        handle: u32,
        /// With shadow queues: the descriptor's bytes as the process wrote them to the card (control
        /// segment, and segments or payload as far as they fit); empty otherwise.
        shadow: &'a [u8],
    },
    /// A process is about to sleep until a descriptor of this work queue completes.
    ArmWorkQueue(ViId, Side),
    /// A process is about to sleep until an entry is written to this completion queue.
    ArmCompletionQueue(QueueId),
    /// The header of a frame has arrived, and the rest follows. For drivers of cards that can
    /// report this, with [`Settings::receive_cut_through`](crate::Settings::receive_cut_through);
    /// the same frame's [`FrameArrived`](Input::FrameArrived) or
    /// [`FrameBroken`](Input::FrameBroken) follows later.
    FrameBegun {
        /// The buffer that the program passed to the network receive engine.
        buffer: BufferId,
        /// The header as bytes.
        header: &'a [u8],
        /// Bytes after the header, which will be at the start of the buffer.
        bytes: u32,
    },
    /// A frame whose header was reported did not arrive completely, or its checksum is wrong.
    FrameBroken {
        /// The buffer that the program passed to the network receive engine.
        buffer: BufferId,
    },
    /// A frame has arrived completely. If its header was reported before, header and length are the
    /// same.
    FrameArrived {
        /// The buffer that the program passed to the network receive engine.
        buffer: BufferId,
        /// The header as bytes.
        header: &'a [u8],
        /// Bytes after the header, which are at the start of the buffer.
        bytes: u32,
    },
    /// A transfer of the host or network send engine has finished.
    DmaFinished {
        /// The engine.
        engine: Engine,
        /// The transfer.
        token: Token,
        /// The descriptor that the transfer read, if it read one.
        bytes: &'a [u8],
    },
    /// While it had nothing else to do, this processor polled this many silent doorbells: the
    /// position of the next poll advances by this many. Report it before the event that ends the
    /// polling: another input, or the turn that is due when the rung doorbell is reached (then as
    /// many as [`Turn::Polling`] reported ahead). With a smaller number the processor finds the
    /// doorbell later and is charged for the polls between; with a larger one it passes the
    /// doorbell, and polls all of them once more. Has no effect where hardware queues doorbells.
    Polled(Processor, u32),
}

/// The result of a turn, which determines when the driver calls the next.
///
/// - [`Worked`](Turn::Worked): as soon as the charged time has passed.
/// - [`Waiting`](Turn::Waiting): after the next input from that engine. No other input ends the wait.
/// - [`Polling`](Turn::Polling): doorbells are polled, and the rung one is `ahead` polls away: after the
///   time of that many polls, or at the next input of any kind if that comes first. Before that
///   turn or that input, report with [`Input::Polled`] how many polls were made; the driver decides what they cost.
/// - [`Idle`](Turn::Idle): after the next input. If doorbells are polled, the processor does so
///   meanwhile: [`Input::Polled`] first, as above.
///
/// Charged time always passes first: if some is left when the input comes, the turn is due when it has
/// passed. Besides, every processor gets a turn when [`Firmware::deadline`](crate::Firmware::deadline)
/// has passed, unless it is waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// An event was handled; there may be more.
    Worked,
    /// The program spins until this engine has finished, and handles nothing else.
    Waiting(Engine),
    /// Doorbells are being polled.
    Polling {
        /// How many silent doorbells will be polled before the rung one.
        ahead: u32,
    },
    /// There is nothing to do.
    Idle,
}
