//! Requests: operations that a program has a handle for (MPI 5.0 §3.7).

use crate::abi;
use crate::error::{Error, Result};
use crate::point::{Mode, Route};
use crate::process::{Active, Going, Process};
use crate::status::Status;

pub use crate::buffer::OwnedBuffer;

/// A request.
#[derive(Debug)]
pub struct Request {
    /// What is going on; nothing in a persistent request that was not started.
    active: Option<Active>,
    /// What a persistent request does each time that it is started.
    plan: Option<Box<Plan>>,
    /// What the program does itself, if it is a generalized request.
    general: Option<Box<General>>,
}

/// The program's functions for a generalized request, by their addresses, and what they get (MPI 5.0 §13.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct General {
    /// Tells the status.
    pub query: usize,
    /// Called when the request is let go of.
    pub free: usize,
    /// Called when it is to be cancelled.
    pub cancel: usize,
    /// What they get.
    pub extra: usize,
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
    /// Does steps that are kept at this place.
    Steps(u32),
    /// Sends or receives the partitioned message of this place.
    Partitioned(u32),
}

impl Request {
    /// What it does when it is started, if it is persistent.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.plan.as_deref()
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
        /// Of a generalized request, functions that tell the status and, if it is over, let go of it.
        general: Option<General>,
    },
}

fn done(status: Status, error: Option<Error>, general: Option<General>) -> Outcome {
    Outcome::Done {
        status,
        error,
        is_over: false,
        general,
    }
}

impl Process {
    /// Gives an operation that is going on a handle.
    pub fn keep(&mut self, active: Active) -> Result<usize> {
        self.requests.insert(Request {
            active: Some(active),
            plan: None,
            general: None,
        })
    }

    /// Makes a persistent request.
    pub fn plan(&mut self, plan: Plan) -> Result<usize> {
        self.requests.insert(Request {
            active: None,
            plan: Some(Box::new(plan)),
            general: None,
        })
    }

    /// Makes a persistent request of a collective operation.
    pub fn plan_steps(&mut self, steps: crate::steps::Steps) -> Result<usize> {
        let at = self.keep_steps(steps)?;
        self.plan(Plan::Steps(at))
    }

    /// Gives a receive and a send one handle; the status is the receive's.
    pub fn keep_both(&mut self, receive: Active, send: Active) -> Result<usize> {
        let mut both = Active::done(Status::empty(), receive.communicator);
        both.state = Going::Both(Box::new((receive, send)));
        self.keep(both)
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
            Plan::Steps(at) => self.start_again(*at)?,
            Plan::Partitioned(at) => self.start_partitioned(*at)?,
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
        let general = request.general.as_deref().copied();
        let polled = self.poll(&mut active);
        let communicator = active.communicator;
        let (active, outcome) = match polled {
            Ok(None) => (active, Outcome::Pending),
            Ok(Some(status)) => (
                Active::done(status, communicator),
                done(status, None, general),
            ),
            Err(error) => {
                let failed = Active::failed(error.clone(), communicator);
                (failed, done(Status::empty(), Some(error), general))
            }
        };
        self.requests.get_mut(handle)?.active = Some(active);
        Ok(outcome)
    }

    /// Makes a generalized request.
    pub fn start_general(&mut self, general: General) -> Result<usize> {
        let mut active = Active::done(Status::empty(), abi::COMM_SELF);
        active.state = Going::General;
        self.requests.insert(Request {
            active: Some(active),
            plan: None,
            general: Some(Box::new(general)),
        })
    }

    /// The functions of a generalized request, and whether it is complete.
    pub fn general(&self, handle: usize) -> Result<Option<(General, bool)>> {
        let request = self.requests.get(handle)?;
        let general = request.general.as_deref().copied();
        let is_going =
            matches!(&request.active, Some(active) if matches!(active.state, Going::General));
        Ok(general.map(|general| (general, !is_going)))
    }

    /// A generalized request is complete. Returns its functions if it was freed before: then it is over.
    pub fn complete_general(&mut self, handle: usize) -> Result<Option<General>> {
        let request = self.requests.get_mut(handle)?;
        let Some(general) = request.general.as_deref().copied() else {
            let text = "the request is no generalized request";
            return Err(Error::new(abi::ERR_REQUEST, text));
        };
        match &mut request.active {
            Some(active) => {
                active.state = Going::Done(Status::empty());
                Ok(None)
            }
            None => self.requests.remove(handle).map(|_| Some(general)),
        }
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
        if let Some((_, false)) = self.general(handle)? {
            // The program has the handle still, to complete it by.
            self.requests.get_mut(handle)?.active = None;
            return Ok(());
        }
        let request = self.requests.remove(handle)?;
        match request.plan.as_deref() {
            Some(Plan::Steps(at)) => self.drop_kept(*at, request.active.is_some()),
            Some(Plan::Partitioned(at)) => self.drop_partitioned(*at, request.active.is_some()),
            _ => {}
        }
        if let Some(active) = request.active {
            self.schedules.orphans.push(active);
        }
        Ok(())
    }

    /// The handles of the requests that there are.
    pub fn open_requests(&self) -> Vec<usize> {
        self.requests.handles().collect()
    }
}
