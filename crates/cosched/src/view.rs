//! The state of the node's processes, as the parts see it.

/// A process of this node, by its index in the node's table. It has one endpoint, of the same
/// number.
pub type Process = u16;

/// The driver's view of a process when it decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Which job it belongs to; the same number on all nodes.
    pub job: u64,
    /// The process has ended, or has not begun.
    pub is_gone: bool,
    /// The process is the one that runs.
    pub is_running: bool,
    /// The process is blocked: on a message, or on anything else.
    pub is_asleep: bool,
    /// The process has blocked on a message, and has not received it yet: it is asleep, or has been
    /// woken.
    pub awaits_message: bool,
    /// The process's endpoint holds a message that its library has not taken.
    pub has_pending: bool,
    /// When the last message for it arrived, in nanoseconds.
    pub last_arrival_ns: Option<u64>,
    /// Processor time that the process has had since it began, in nanoseconds.
    pub cpu_ns: u64,
}
