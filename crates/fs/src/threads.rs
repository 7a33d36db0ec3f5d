//! Threads of a server: they are joined, and their panics end the process.

use std::io;
use std::thread::JoinHandle;

/// Ends the process if the thread that holds it panics.
///
/// A server that has lost one of its threads would still reply to a ping, while requests that need the thread wait
/// for ever. A server that ends is restarted and loses nothing that it has acknowledged.
pub(crate) struct AbortOnPanic(
    /// The thread's task, for the message.
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

/// A thread that is joined when this is dropped. The owner must have asked it to end before.
pub(crate) struct JoinOnDrop(Option<JoinHandle<()>>);

impl JoinOnDrop {
    /// Starts a thread of this name.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let builder = std::thread::Builder::new().name(name.to_owned());
        Ok(Self(Some(builder.spawn(work)?)))
    }
}

impl Drop for JoinOnDrop {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // What the thread itself was the last to hold is dropped by it.
            if thread.thread().id() == std::thread::current().id() {
                return;
            }
            // Joining only fails by a panic, which was reported when it happened.
            let _ = thread.join();
        }
    }
}
