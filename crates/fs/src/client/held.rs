//! Files that a program has open, which the metadata server therefore keeps, also without a name.
//!
//! The request that finds or makes a file also opens it, under a handle that the program has chosen, and carries the handles that were closed
//! since the last request. A close waits for no reply. A thread, which starts with the first file, has its own connection: it closes handles that no
//! request has carried, and when the server was restarted it reports which files the program has open ([`super::held_thread`]).

use std::sync::{Arc, Mutex};

use causeway_wire::fs::{Errno, ObjectId};

use super::call_error::CallError;
use super::held_state::{BegunOpening, Held, Shared};
use super::held_thread;
use super::options::ClientOptions;
use super::rpc::Interrupter;
use crate::config::Configuration;
use crate::locks::lock;
use crate::threads::JoinOnDrop;

/// All files that a program has open.
pub(crate) struct HeldFiles {
    configuration: Configuration,
    options: ClientOptions,
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    interrupter: Interrupter,
    _thread: JoinOnDrop,
}

impl HeldFiles {
    pub(crate) fn new(
        configuration: &Configuration,
        options: &ClientOptions,
    ) -> Result<Self, CallError> {
        Ok(Self {
            configuration: configuration.clone(),
            options: options.clone(),
            shared: Arc::new(Shared::new(super::numbers::random_number()?)),
            thread: Mutex::default(),
        })
    }

    /// Begins to open a file.
    pub(super) fn begin(&self) -> BegunOpening {
        self.shared.begin()
    }

    /// Notes that the server has opened the file.
    pub(super) fn opened(&self, begun: BegunOpening, object: ObjectId) -> Result<Held, CallError> {
        let held = Shared::opened(&self.shared, begun, object);
        self.start_thread()?;
        Ok(held)
    }

    /// Notes that the server has not opened the file, or may not have. If the request was repeated, only the outcome of the last attempt is known.
    pub(super) fn not_opened(&self, begun: BegunOpening, errno: Errno, is_repeated: bool) {
        self.shared.not_opened(begun, errno, is_repeated);
    }

    fn start_thread(&self) -> Result<(), CallError> {
        let mut thread = lock(&self.thread);
        if thread.is_some() {
            return Ok(());
        }
        let rpc = held_thread::connect(&self.configuration, &self.options)?;
        let interrupter = rpc.interrupter();
        self.shared.set_waker(rpc.waker());
        let shared = Arc::clone(&self.shared);
        let started = JoinOnDrop::spawn("open files", move || held_thread::run(rpc, &shared));
        let started = started.map_err(held_thread::not_started)?;
        *thread = Some(Thread {
            interrupter,
            _thread: started,
        });
        Ok(())
    }
}

impl Drop for HeldFiles {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = &*lock(&self.thread) {
            thread.interrupter.interrupt();
        }
    }
}
