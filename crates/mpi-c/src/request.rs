//! Requests and statuses (MPI 5.0 §3.2.5, §3.7).

use std::ffi::c_int;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::request::{Glance, Outcome, Tested};
use causeway_mpi::status::Status as Known;
use smallvec::SmallVec;

use crate::general;
use crate::library::{Inside, enter, wait_for, with};
use crate::point::{at_once, look_first};
use crate::types::{Handle, NumbersOut, Status, array, write_empty_status, write_status};

/// The outcome of a request: its status, if there is one, and its error. Calls the functions of a generalized one.
///
/// # Safety
/// The pointer is valid for writes.
unsafe fn conclude(outcome: Outcome, request: *mut Handle) -> (Option<Status>, Option<Error>) {
    let (known, error, is_over, general) = match outcome {
        Outcome::Pending => return (None, None),
        Outcome::Inactive => return (Some(Status::new(Known::empty())), None),
        Outcome::Done {
            status,
            error,
            is_over,
            general,
        } => (status, error, is_over, general),
    };
    let mut status = Status::new(known);
    // SAFETY: the caller's promise; the functions are the program's.
    let error = unsafe {
        if is_over {
            request.write(abi::REQUEST_NULL);
        }
        let of_functions = general.and_then(|general| {
            let queried = general::query(*general, &mut status);
            let freed = match is_over {
                true => general::free(*general),
                false => Ok(()),
            };
            queried.and(freed).err()
        });
        error.or(of_functions)
    };
    (Some(status), error)
}

/// Writes the outcome of a request into the program's status. Returns its error.
///
/// # Safety
/// The pointers are valid for writes, or the status is null.
unsafe fn settle(outcome: Outcome, request: *mut Handle, status: *mut Status) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        if let Outcome::Inactive = outcome {
            write_empty_status(status);
            return Ok(());
        }
        let (known, error) = conclude(outcome, request);
        if let Some(known) = known {
            known.write_to(status);
        }
        error.map_or(Ok(()), Err)
    }
}

pub(crate) unsafe fn wait(request: *mut Handle, status: *mut Status) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let handle = request.read();
        let outcome = wait_for(|process| process.wait_for_request(handle, !status.is_null()))?;
        settle(outcome, request, status)
    }
}

pub(crate) unsafe fn test(
    request: *mut Handle,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let handle = request.read();
        // What is found is mostly nothing: to return outcomes through each function takes longer than all else.
        let tested = {
            let mut inside = Inside::enter()?;
            let (process, _) = inside.parts()?;
            process.test_one_request(handle, !status.is_null())
        };
        match tested {
            Tested::Done(known) => {
                request.write(abi::REQUEST_NULL);
                flag.write(1);
                write_status(status, known);
            }
            Tested::Pending => flag.write(0),
            Tested::Unknown => return test_any_kind(request, flag, status),
        }
    }
    Ok(())
}

/// The same for any request.
///
/// # Safety
/// The pointers are valid for writes, or the status is null.
#[inline(never)]
unsafe fn test_any_kind(request: *mut Handle, flag: *mut c_int, status: *mut Status) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let handle = request.read();
        let outcome = match handle {
            // No progress is made: programs test requests that are over in passing.
            abi::REQUEST_NULL => Some(Outcome::Inactive),
            _ => at_once(|process| process.test(handle, false).map(Some))?,
        };
        let outcome = outcome.unwrap_or(Outcome::Pending);
        flag.write((!matches!(outcome, Outcome::Pending)).into());
        settle(outcome, request, status)
    }
}

pub(crate) unsafe fn request_get_status(
    request: Handle,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let outcome = look_first(|process| match process.glance(request)? {
        Glance::Pending => Ok(None),
        Glance::Null | Glance::Unknown => match process.test(request, true)? {
            Outcome::Pending => Ok(None),
            outcome => Ok(Some(outcome)),
        },
    })?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        flag.write(outcome.is_some().into());
        settle(
            outcome.unwrap_or(Outcome::Pending),
            &mut { request },
            status,
        )
    }
}

/// A copy of the program's handles, which its functions may change while the library looks at them.
type Handles = SmallVec<[Handle; 8]>;

/// Requests of the program's, and where their statuses go.
struct Array {
    requests: *mut Handle,
    statuses: *mut Status,
    many: usize,
}

impl Array {
    fn new(requests: *mut Handle, statuses: *mut Status, many: c_int) -> Result<Self> {
        let count = usize::try_from(many);
        let many = count
            .map_err(|_| Error::new(abi::ERR_COUNT, format!("the count {many} is negative")))?;
        if many > 0 && requests.is_null() {
            return Err(Error::new(
                abi::ERR_REQUEST,
                "the array of requests is NULL",
            ));
        }
        Ok(Self {
            requests,
            statuses,
            many,
        })
    }

    fn request(&self, at: usize) -> *mut Handle {
        self.requests.wrapping_add(at)
    }

    fn status(&self, at: usize) -> *mut Status {
        match self.statuses.is_null() {
            true => self.statuses,
            false => self.statuses.wrapping_add(at),
        }
    }

    /// # Safety
    /// The array has the stated number of entries.
    unsafe fn handles(&self) -> Result<Handles> {
        // SAFETY: the caller's promise.
        let handles = unsafe { array(self.requests, self.many, "the array of requests") }?;
        Ok(Handles::from_slice(handles))
    }

    /// Settles a request whose message was sent or received.
    ///
    /// # Safety
    /// As [`Array::handles`], for both arrays.
    #[inline]
    unsafe fn settle_message(&self, at: usize, status: Known) {
        // SAFETY: the caller's promise.
        unsafe {
            self.request(at).write(abi::REQUEST_NULL);
            if !self.statuses.is_null() {
                self.status(at).write(Status::new(status));
            }
        }
    }

    /// Settles one that is done. Returns whether that was an error.
    ///
    /// # Safety
    /// As [`Array::handles`], for both arrays.
    unsafe fn settle_one(&self, at: usize, to: usize, outcome: Outcome) -> Option<Error> {
        // SAFETY: the caller's promise.
        unsafe {
            let (known, error) = conclude(outcome, self.request(at));
            let code = error.as_ref().map_or(abi::SUCCESS, Error::code);
            let mut known = known.unwrap_or(Status::new(Known::empty()));
            *known.error_mut() = code;
            let status = self.status(to);
            if !status.is_null() {
                status.write(known);
            }
            error
        }
    }
}

impl Array {
    /// Writes the statuses of requests that stay as they are: where to, and how each is.
    ///
    /// # Safety
    /// As [`Array::handles`], for the statuses.
    unsafe fn show(&self, all: impl Iterator<Item = (usize, Outcome)>) -> Result<()> {
        let mut first = None;
        for (to, outcome) in all {
            let mut request = abi::REQUEST_NULL;
            let one = Self {
                requests: &mut request,
                statuses: self.status(to),
                many: 1,
            };
            // SAFETY: the caller's promise.
            let error = unsafe { one.settle_one(0, 0, outcome) };
            first = first.or(error);
        }
        first.map_or(Ok(()), |error| Err(in_status(&error)))
    }
}

fn in_status(first: &Error) -> Error {
    let error = Error::new(abi::ERR_IN_STATUS, first.text());
    match first.communicator() {
        Some(communicator) => error.on(communicator),
        None => error,
    }
}

pub(crate) unsafe fn waitall(
    count: c_int,
    requests: *mut Handle,
    statuses: *mut Status,
) -> Result<()> {
    let array = Array::new(requests, statuses, count)?;
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        let (mut first, mut next) = (None, 0);
        // The program's functions are called outside of the library.
        let mut general = Vec::new();
        let wanted = !statuses.is_null();
        let waited = wait_for(|process| {
            let next = (&mut next, array.many, wanted);
            let handle = |at| array.request(at).read();
            let message = |at, status: &Known| array.settle_message(at, *status);
            process.wait_for_requests(next, handle, message, |at, outcome| {
                if let Outcome::Done {
                    general: Some(_), ..
                } = outcome
                {
                    return general.push((at, outcome));
                }
                if let Some(error) = array.settle_one(at, at, outcome) {
                    first.get_or_insert(error);
                }
            })
        });
        for (at, outcome) in general {
            let error = array.settle_one(at, at, outcome);
            first = first.or(error);
        }
        // If a handle is invalid, the requests before it are over, and those behind it stay as they are.
        waited?;
        first.map_or(Ok(()), |error| Err(in_status(&error)))
    }
}

pub(crate) unsafe fn testall(
    count: c_int,
    requests: *mut Handle,
    flag: *mut c_int,
    statuses: *mut Status,
) -> Result<()> {
    let array = Array::new(requests, statuses, count)?;
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        let handles = array.handles()?;
        let all = look_first(|process| {
            let mut is_in_progress = false;
            for handle in &handles {
                is_in_progress |= process.glance(*handle)? == Glance::Pending;
            }
            if is_in_progress {
                return Ok(None);
            }
            for handle in &handles {
                if let Outcome::Pending = process.peek(*handle)? {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })?;
        flag.write(all.is_some().into());
        if all.is_none() {
            return Ok(());
        }
        let mut first = None;
        for (at, handle) in handles.into_iter().enumerate() {
            let outcome = with(|process, _| process.test(handle, false))?;
            let error = array.settle_one(at, at, outcome);
            first = first.or(error);
        }
        first.map_or(Ok(()), |error| Err(in_status(&error)))
    }
}

/// The first request that has to be tested, and whether any is in progress. Fails if any handle is none of a request, before one is tested.
fn to_test(
    process: &causeway_mpi::Process,
    many: usize,
    handle: &impl Fn(usize) -> Handle,
) -> Result<(Option<usize>, bool)> {
    let (mut first, mut is_any_active) = (None, false);
    for at in 0..many {
        match process.glance(handle(at))? {
            Glance::Null => {}
            Glance::Pending => is_any_active = true,
            Glance::Unknown => first = first.or(Some(at)),
        }
    }
    Ok((first, is_any_active))
}

/// The first request that is done; `None` if all are inactive.
fn any_done(
    process: &mut causeway_mpi::Process,
    many: usize,
    handle: &impl Fn(usize) -> Handle,
) -> Result<Option<Option<(usize, Outcome)>>> {
    let (first, mut is_any_active) = to_test(process, many, handle)?;
    for at in first.unwrap_or(many)..many {
        if process.glance(handle(at))? != Glance::Unknown {
            continue;
        }
        match process.test(handle(at), false)? {
            Outcome::Inactive => {}
            Outcome::Pending => is_any_active = true,
            done => return Ok(Some(Some((at, done)))),
        }
    }
    Ok((!is_any_active).then_some(None))
}

/// # Safety
/// The pointers are valid for writes, and the array has the stated length.
unsafe fn settle_any(
    array: &Array,
    found: Option<(usize, Outcome)>,
    index: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        match found {
            Some((at, outcome)) => {
                index.write(at as c_int);
                settle(outcome, array.request(at), status)
            }
            None => {
                index.write(abi::UNDEFINED);
                write_empty_status(status);
                Ok(())
            }
        }
    }
}

pub(crate) unsafe fn waitany(
    count: c_int,
    requests: *mut Handle,
    index: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let array = Array::new(requests, std::ptr::null_mut(), count)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let handle = |at| array.request(at).read();
        let found = wait_for(|process| {
            process.wait_until_ready(|process| any_done(process, array.many, &handle))
        })?;
        settle_any(&array, found, index, status)
    }
}

pub(crate) unsafe fn testany(
    count: c_int,
    requests: *mut Handle,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let array = Array::new(requests, std::ptr::null_mut(), count)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let handle = |at| array.request(at).read();
        let found = look_first(|process| any_done(process, array.many, &handle))?;
        flag.write(found.is_some().into());
        match found {
            Some(found) => settle_any(&array, found, index, status),
            None => {
                index.write(abi::UNDEFINED);
                Ok(())
            }
        }
    }
}

/// All requests that are done; `None` if all are inactive.
type CompletedRequests = Option<Vec<(usize, Outcome)>>;

/// The requests that are done, if there are any, or all are inactive.
fn some_done(
    process: &mut causeway_mpi::Process,
    many: usize,
    handle: &impl Fn(usize) -> Handle,
) -> Result<Option<CompletedRequests>> {
    let (first, mut is_any_active) = to_test(process, many, handle)?;
    let mut done = Vec::new();
    for at in first.unwrap_or(many)..many {
        if process.glance(handle(at))? != Glance::Unknown {
            continue;
        }
        match process.test(handle(at), false)? {
            Outcome::Inactive => {}
            Outcome::Pending => is_any_active = true,
            outcome => done.push((at, outcome)),
        }
    }
    Ok(match (done.is_empty(), is_any_active) {
        (false, _) => Some(Some(done)),
        (true, true) => None,
        (true, false) => Some(None),
    })
}

/// # Safety
/// The arrays are as long as they have to be, and the pointers valid for writes.
unsafe fn settle_some(
    array: &Array,
    found: CompletedRequests,
    outcount: *mut c_int,
    indices: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(found) = found else {
            outcount.write(abi::UNDEFINED);
            return Ok(());
        };
        outcount.write(found.len() as c_int);
        let mut first = None;
        for (to, (at, outcome)) in found.into_iter().enumerate() {
            indices.add(to).write(at as c_int);
            let error = array.settle_one(at, to, outcome);
            first = first.or(error);
        }
        first.map_or(Ok(()), |error| Err(in_status(&error)))
    }
}

pub(crate) unsafe fn waitsome(
    incount: c_int,
    requests: *mut Handle,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> Result<()> {
    let array = Array::new(requests, statuses, incount)?;
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        let handle = |at| array.request(at).read();
        let found = wait_for(|process| {
            process.wait_until_ready(|process| some_done(process, array.many, &handle))
        })?;
        settle_some(&array, found, outcount, indices)
    }
}

pub(crate) unsafe fn testsome(
    incount: c_int,
    requests: *mut Handle,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> Result<()> {
    let array = Array::new(requests, statuses, incount)?;
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        let handle = |at| array.request(at).read();
        let found = look_first(|process| some_done(process, array.many, &handle))?;
        settle_some(&array, found.unwrap_or(Some(Vec::new())), outcount, indices)
    }
}

pub(crate) unsafe fn request_get_status_all(
    count: c_int,
    requests: *const Handle,
    flag: *mut c_int,
    statuses: *mut Status,
) -> Result<()> {
    let array = Array::new(requests.cast_mut(), statuses, count)?;
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        let found = look(&array.handles()?)?;
        let is_pending = |outcome: &Outcome| matches!(outcome, Outcome::Pending);
        let all = !found.iter().any(is_pending);
        flag.write(all.into());
        if !all {
            return Ok(());
        }
        array.show(found.into_iter().enumerate())
    }
}

pub(crate) unsafe fn request_get_status_any(
    count: c_int,
    requests: *const Handle,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let array = Array::new(requests.cast_mut(), std::ptr::null_mut(), count)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let found = look(&array.handles()?)?;
        let is_any_active = !found.iter().all(is_inactive);
        let mut all = found.into_iter().enumerate();
        let done = all.find(|(_, outcome)| matches!(outcome, Outcome::Done { .. }));
        let (at, outcome) = match done {
            Some((at, outcome)) => (at as c_int, outcome),
            None => (abi::UNDEFINED, Outcome::Inactive),
        };
        let is_done = at != abi::UNDEFINED || !is_any_active;
        flag.write(is_done.into());
        index.write(at);
        match is_done {
            true => settle(outcome, &mut { abi::REQUEST_NULL }, status),
            false => Ok(()),
        }
    }
}

pub(crate) unsafe fn request_get_status_some(
    incount: c_int,
    requests: *const Handle,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> Result<()> {
    let array = Array::new(requests.cast_mut(), statuses, incount)?;
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        let found = look(&array.handles()?)?;
        if found.iter().all(is_inactive) {
            outcount.write(abi::UNDEFINED);
            return Ok(());
        }
        let done = found.into_iter().enumerate();
        let done = done.filter(|(_, outcome)| matches!(outcome, Outcome::Done { .. }));
        let done = Vec::from_iter(done);
        outcount.write(done.len() as c_int);
        for (to, (at, _)) in done.iter().enumerate() {
            indices.add(to).write(*at as c_int);
        }
        let outcomes = done.into_iter().map(|(_, outcome)| outcome);
        array.show(outcomes.enumerate())
    }
}

fn is_inactive(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Inactive)
}

/// Returns the states of requests after some progress; the requests stay valid.
fn look(handles: &[Handle]) -> Result<Vec<Outcome>> {
    let peek = |process: &mut causeway_mpi::Process| {
        let each = handles.iter().map(|handle| process.peek(*handle));
        each.collect::<Result<Vec<_>>>().map(Some)
    };
    Ok(at_once(peek)?.unwrap_or_default())
}

pub(crate) unsafe fn start(request: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    let handle = unsafe { request.read() };
    with(|process, _| process.start_request(handle))
}

pub(crate) unsafe fn startall(count: c_int, requests: *mut Handle) -> Result<()> {
    let array = Array::new(requests, std::ptr::null_mut(), count)?;
    // SAFETY: the caller's array, as MPI has it.
    for handle in unsafe { array.handles() }? {
        with(|process, _| process.start_request(handle))?;
    }
    Ok(())
}

pub(crate) unsafe fn cancel(request: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    let handle = unsafe { request.read() };
    match with(|process, _| process.general(handle))? {
        // SAFETY: the function is the program's.
        Some((general, is_complete)) => unsafe { general::cancel(general, is_complete) },
        None => with(|process, _| process.cancel_request(handle)),
    }
}

pub(crate) unsafe fn request_free(request: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = request.read();
        let general = with(|process, _| process.general(handle))?;
        with(|process, _| process.free_request(handle))?;
        request.write(abi::REQUEST_NULL);
        if let Some((general, true)) = general {
            return general::free(general);
        }
    }
    Ok(())
}

pub(crate) unsafe fn test_cancelled(status: *const Status, flag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { flag.write((*status).is_cancelled().into()) };
    Ok(())
}

pub(crate) unsafe fn get_count(
    status: *const Status,
    datatype: Handle,
    count: NumbersOut,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let bytes = (*status).bytes();
        let many = enter(|library| Ok(library.datatype(datatype)?.count_in(bytes)))?;
        count.write(many.map_or(abi::UNDEFINED.into(), |many| many as i64));
    }
    Ok(())
}

pub(crate) unsafe fn get_elements(
    status: *const Status,
    datatype: Handle,
    count: NumbersOut,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let bytes = (*status).bytes();
        let many = enter(|library| Ok(library.datatype(datatype)?.elements_in(bytes)))?;
        count.write(many.map_or(abi::UNDEFINED.into(), |many| many as i64));
    }
    Ok(())
}

pub(crate) unsafe fn get_elements_x(
    status: *const Status,
    datatype: Handle,
    count: *mut i64,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { get_elements(status, datatype, NumbersOut::Large(count)) }
}

pub(crate) unsafe fn status_set_elements(
    status: *mut Status,
    datatype: Handle,
    count: i64,
) -> Result<()> {
    let elements = crate::types::count_of(count)?;
    let bytes = enter(|library| Ok(library.datatype(datatype)?.bytes_of_elements(elements)))?;
    let bytes = bytes.ok_or_else(|| {
        Error::new(
            abi::ERR_COUNT,
            format!("{count} elements are no number of this datatype"),
        )
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { (*status).set_bytes(bytes) };
    Ok(())
}

pub(crate) unsafe fn status_set_elements_x(
    status: *mut Status,
    datatype: Handle,
    count: i64,
) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { status_set_elements(status, datatype, count) }
}

pub(crate) unsafe fn status_set_cancelled(status: *mut Status, flag: c_int) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { (*status).set_cancelled(flag != 0) };
    Ok(())
}

macro_rules! status_fields {
    ($($set:ident, $get:ident, $field:ident;)*) => {$(
        pub(crate) unsafe fn $set(status: *mut Status, value: c_int) -> Result<()> {
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { *(*status).$field() = value };
            Ok(())
        }

        pub(crate) unsafe fn $get(status: *const Status, value: *mut c_int) -> Result<()> {
            // SAFETY: the caller's pointers, as MPI has it.
            unsafe { value.write(*status.read().$field()) };
            Ok(())
        }
    )*};
}

status_fields! {
    status_set_source, status_get_source, source_mut;
    status_set_tag, status_get_tag, tag_mut;
    status_set_error, status_get_error, error_mut;
}
