//! Panics of server threads, which must end the process.

/// Ends the process if the thread that holds it panics.
///
/// A server that has lost one of its threads would still reply to a ping, while requests that need the thread wait
/// for ever. A server that ends is restarted and loses nothing that it has acknowledged.
pub(crate) struct AbortOnPanic(
    /// What the thread does, for the message.
    pub(crate) &'static str,
);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "causeway: the {} thread has a defect; the server ends",
                self.0
            );
            std::process::abort();
        }
    }
}
