//! Requests: operations that a program has a handle for (MPI 5.0 §3.7).

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::Buffer;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::point::{Mode, Route};
use crate::process::{Active, Process};
use crate::status::Status;

/// A request.
#[derive(Debug)]
pub struct Request {
    /// What is going on; nothing in a persistent request that was not started.
    active: Option<Active>,
    /// What a persistent request does each time that it is started.
    plan: Option<Box<Plan>>,
}

/// What a persistent request does.
#[derive(Debug, Clone)]
pub enum Plan {
    /// Sends.
    Send {
        /// This.
        from: Elements,
        /// There.
        route: Route,
        /// So.
        mode: Mode,
    },
    /// Receives.
    Receive {
        /// Into this.
        into: Elements,
        /// From there.
        route: Route,
    },
}

/// A [`Buffer`] that is kept.
#[derive(Debug, Clone)]
pub struct Elements {
    /// The hull.
    pub memory: Memory,
    /// How many.
    pub count: u64,
    /// Of what.
    pub datatype: Datatype,
}

impl Elements {
    /// The same, borrowed.
    pub fn as_buffer(&self) -> Buffer<'_> {
        Buffer {
            memory: &self.memory,
            count: self.count,
            datatype: &self.datatype,
        }
    }
}

/// How a request is.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It is going on.
    Pending,
    /// It is `MPI_REQUEST_NULL`, or persistent and was not started.
    Inactive,
    /// It is done. `is_over` unless it is persistent: then the handle is none any more.
    Done {
        /// Its status.
        status: Status,
        /// Why it has failed.
        error: Option<Error>,
        /// Whether the handle is none any more.
        is_over: bool,
    },
}

impl Process {
    /// Gives an operation that is going on a handle.
    pub fn keep(&mut self, active: Active) -> Result<usize> {
        self.requests.insert(Request {
            active: Some(active),
            plan: None,
        })
    }

    /// Makes a persistent request.
    pub fn plan(&mut self, plan: Plan) -> Result<usize> {
        self.requests.insert(Request {
            active: None,
            plan: Some(Box::new(plan)),
        })
    }

    /// Starts a persistent request.
    pub fn start(&mut self, handle: usize) -> Result<()> {
        let request = self.requests.get(handle)?;
        let plan = match (&request.plan, &request.active) {
            (Some(plan), None) => plan.clone(),
            (Some(_), Some(_)) => {
                return Err(Error::new(abi::ERR_REQUEST, "the request was started already"));
            }
            (None, _) => return Err(Error::new(abi::ERR_REQUEST, "the request is not persistent")),
        };
        let active = match &*plan {
            Plan::Send { from, route, mode } => self.send(from.as_buffer(), *route, *mode)?,
            Plan::Receive { into, route } => self.receive(into.as_buffer(), *route)?,
        };
        self.requests.get_mut(handle)?.active = Some(active);
        Ok(())
    }

    /// How a request is. It is done with, if it is done; `peek` leaves it as it is. Makes no progress.
    pub fn test(&mut self, handle: usize, peek: bool) -> Result<Outcome> {
        if handle == abi::REQUEST_NULL {
            return Ok(Outcome::Inactive);
        }
        let Some(mut active) = self.requests.get_mut(handle)?.active.take() else {
            return Ok(Outcome::Inactive);
        };
        let (status, error) = match self.poll(&mut active) {
            Ok(None) => {
                self.requests.get_mut(handle)?.active = Some(active);
                return Ok(Outcome::Pending);
            }
            Ok(Some(status)) => (status, None),
            Err(error) => (Status::empty(), Some(error)),
        };
        let is_over = self.requests.get(handle)?.plan.is_none();
        if peek && error.is_none() {
            let done = Active::done(status, active.communicator);
            self.requests.get_mut(handle)?.active = Some(done);
        } else if is_over {
            self.requests.remove(handle)?;
        }
        Ok(Outcome::Done {
            status,
            error,
            is_over,
        })
    }

    /// Waits for one request.
    pub fn wait_for_request(&mut self, handle: usize) -> Result<crate::process::Waited<Outcome>> {
        self.wait_for_news(|process| match process.test(handle, false)? {
            Outcome::Pending => Ok(None),
            other => Ok(Some(other)),
        })
    }

    /// Asks for a request to be cancelled. It has to be waited for all the same.
    pub fn cancel_request(&mut self, handle: usize) -> Result<()> {
        let request = self.requests.get_mut(handle)?;
        let Some(active) = request.active.take() else {
            return Err(Error::new(abi::ERR_REQUEST, "the request was not started"));
        };
        self.cancel(&active);
        self.requests.get_mut(handle)?.active = Some(active);
        Ok(())
    }

    /// Lets go of a request: what is going on is completed in the background.
    pub fn free_request(&mut self, handle: usize) -> Result<()> {
        let request = self.requests.remove(handle)?;
        if let Some(active) = request.active {
            self.schedules.orphans.push(active);
        }
        Ok(())
    }

    /// The requests that there are.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }
}
