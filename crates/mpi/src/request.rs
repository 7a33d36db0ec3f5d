//! Requests: operations that a program has a handle for (MPI 5.0 §3.7).

use crate::abi;
pub use crate::buffer::OwnedBuffer;
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
        from: OwnedBuffer,
        /// There.
        route: Route,
        /// So.
        mode: Mode,
    },
    /// Receives.
    Receive {
        /// Into this.
        into: OwnedBuffer,
        /// From there.
        route: Route,
    },
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

fn done(status: Status, error: Option<Error>) -> Outcome {
    Outcome::Done {
        status,
        error,
        is_over: false,
    }
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
    pub fn start_request(&mut self, handle: usize) -> Result<()> {
        let request = self.requests.get(handle)?;
        let plan = match (&request.plan, &request.active) {
            (Some(plan), None) => plan.clone(),
            (Some(_), Some(_)) => {
                return Err(Error::new(
                    abi::ERR_REQUEST,
                    "the request was started already",
                ));
            }
            (None, _) => {
                return Err(Error::new(
                    abi::ERR_REQUEST,
                    "the request is not persistent",
                ));
            }
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
        let mut outcome = self.peek(handle)?;
        if let Outcome::Done { is_over, .. } = &mut outcome
            && !peek
        {
            let request = self.requests.get_mut(handle)?;
            request.active = None;
            *is_over = request.plan.is_none();
            if *is_over {
                self.requests.remove(handle)?;
            }
        }
        Ok(outcome)
    }

    /// How a request is, which stays as it is, also if it has failed. Makes no progress.
    pub fn peek(&mut self, handle: usize) -> Result<Outcome> {
        if handle == abi::REQUEST_NULL {
            return Ok(Outcome::Inactive);
        }
        let request = self.requests.get_mut(handle)?;
        let Some(mut active) = request.active.take() else {
            return Ok(Outcome::Inactive);
        };
        let polled = self.poll(&mut active);
        let communicator = active.communicator;
        let (active, outcome) = match polled {
            Ok(None) => (active, Outcome::Pending),
            Ok(Some(status)) => (Active::done(status, communicator), done(status, None)),
            Err(error) => {
                let failed = Active::failed(error.clone(), communicator);
                (failed, done(Status::empty(), Some(error)))
            }
        };
        self.requests.get_mut(handle)?.active = Some(active);
        Ok(outcome)
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
