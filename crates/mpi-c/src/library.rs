//! The one instance of the library in this process: what calls find when they enter, and what becomes of their errors.

use std::cell::{Cell, UnsafeCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use causeway_mpi::abi;
use causeway_mpi::buffer::Buffer;
use causeway_mpi::datatype::{Basic, Datatype};
use causeway_mpi::error::{Codes, Error, Result};
use causeway_mpi::group::Group;
use causeway_mpi::info::Info;
use causeway_mpi::operation::Operation;
use causeway_mpi::process::{Active, Process, Waited};
use causeway_mpi::schedule::Call;
use causeway_mpi::status::Status;
use causeway_mpi::table::{Kind, Table};
use causeway_sys::memory::{ForeignMemory, Memory};

use crate::keys::{FIRST_KEY, Key};
use crate::types::{Handle, count_of};

/// The handles of predefined datatypes lie from here on.
const FIRST_TYPE: usize = abi::DATATYPE_NULL;
const PREDEFINED_TYPES: usize = 0x100;

/// See the module's page.
pub(crate) struct Library {
    pub(crate) process: Option<Process>,
    /// `MPI_Init` was called, or `MPI_Finalize`.
    pub(crate) is_initialized: bool,
    pub(crate) is_finalized: bool,
    pub(crate) thread_level: c_int,
    pub(crate) infos: Table<Info>,
    pub(crate) groups: Table<Arc<Group>>,
    pub(crate) types: Table<Datatype>,
    pub(crate) operations: Table<Operation>,
    pub(crate) handlers: Table<Handler>,
    /// The error handler of `MPI_FILE_NULL`, which files get that are opened.
    pub(crate) file_handler: usize,
    /// Names of representations of data in files that the program has registered.
    pub(crate) representations: BTreeSet<Vec<u8>>,
    pub(crate) tools: crate::tools::Tools,
    pub(crate) codes: Codes,
    pub(crate) keys: BTreeMap<c_int, Key>,
    /// The key that was made last.
    pub(crate) next_key: c_int,
    /// The program's buffer for buffered sends: its address and its bytes. The library copies elsewhere, and keeps to its size.
    pub(crate) buffer: Option<(usize, i64)>,
    /// Values of predefined attributes, whose addresses the program gets.
    pub(crate) last_code: Box<c_int>,
    pub(crate) program_number: Box<c_int>,
    pub(crate) universe_size: Box<c_int>,
    predefined: Vec<Option<Datatype>>,
    foreign: ForeignMemory,
}

/// An error handler of the program's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) function: usize,
    /// How many hold it: its handle, and objects that it is set for.
    pub(crate) holders: u32,
    pub(crate) is_freed: bool,
}

/// The object whose error handler a call's errors go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object {
    /// None: those of `MPI_COMM_SELF` do (MPI 5.0 §9.3).
    None,
    Communicator(Handle),
    /// A file, or `MPI_FILE_NULL` for what concerns no open one.
    File(Handle),
    /// What tools call: errors are returned.
    Tool,
}

struct Instance {
    library: UnsafeCell<Option<Library>>,
    /// A call is in there.
    is_entered: Cell<bool>,
}

// SAFETY: the library says that it serves one thread at a time (`MPI_THREAD_SERIALIZED` at most), and MPI obliges programs to
// keep to that (MPI 5.0 §11.6), with whatever orders their threads.
unsafe impl Sync for Instance {}

static INSTANCE: Instance = Instance {
    library: UnsafeCell::new(None),
    is_entered: Cell::new(false),
};

/// Leaves when it is dropped.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSTANCE.is_entered.set(false);
    }
}

/// Enters the library for `body`, which calls no function of the program's.
#[inline]
pub(crate) fn enter<R>(body: impl FnOnce(&mut Library) -> Result<R>) -> Result<R> {
    if INSTANCE.is_entered.replace(true) {
        return Err(Error::new(
            abi::ERR_OTHER,
            "another thread is inside the library, which serves one at a time (MPI_THREAD_SERIALIZED)",
        ));
    }
    let _inside = Inside;
    // SAFETY: the flag says that no other call is here, and threads take turns.
    let library = unsafe { &mut *INSTANCE.library.get() };
    body(library.get_or_insert_with(Library::new))
}

/// Enters for what needs the program to have started.
#[inline]
pub(crate) fn with<R>(body: impl FnOnce(&mut Process, &mut Rest<'_>) -> Result<R>) -> Result<R> {
    enter(|library| {
        let Library {
            process: Some(process),
            types,
            predefined,
            foreign,
            operations,
            ..
        } = library
        else {
            return Err(not_started(library));
        };
        let rest = &mut Rest {
            types,
            predefined,
            foreign,
            operations,
        };
        body(process, rest)
    })
}

#[cold]
fn not_started(library: &Library) -> Error {
    let text = match library.is_finalized {
        true => "MPI_Finalize was called before",
        false => "MPI_Init was not called",
    };
    Error::new(abi::ERR_OTHER, text)
}

/// What calls need besides the process.
pub(crate) struct Rest<'a> {
    types: &'a Table<Datatype>,
    predefined: &'a [Option<Datatype>],
    foreign: &'a ForeignMemory,
    pub(crate) operations: &'a Table<Operation>,
}

impl Library {
    fn new() -> Self {
        let mut predefined = vec![None; PREDEFINED_TYPES];
        for basic in Basic::ALL {
            predefined[*basic as usize - FIRST_TYPE] = Some(Datatype::from(*basic));
        }
        Self {
            process: None,
            is_initialized: false,
            is_finalized: false,
            thread_level: abi::THREAD_SINGLE,
            infos: Table::new(Kind::Info, abi::ERR_INFO),
            groups: Table::new(Kind::Group, abi::ERR_GROUP),
            types: Table::new(Kind::Datatype, abi::ERR_TYPE),
            operations: Table::new(Kind::Operation, abi::ERR_OP),
            handlers: Table::new(Kind::ErrorHandler, abi::ERR_ERRHANDLER),
            file_handler: abi::ERRORS_RETURN,
            representations: BTreeSet::new(),
            tools: Default::default(),
            codes: Codes::default(),
            keys: BTreeMap::new(),
            next_key: FIRST_KEY,
            buffer: None,
            last_code: Box::default(),
            program_number: Box::default(),
            universe_size: Box::default(),
            predefined,
            foreign: ForeignMemory::default(),
        }
    }

    /// The datatype of a handle.
    pub(crate) fn datatype(&self, handle: Handle) -> Result<&Datatype> {
        datatype(&self.predefined, &self.types, handle)
    }

    /// The group of a handle.
    pub(crate) fn group(&self, handle: Handle) -> Result<Arc<Group>> {
        match handle {
            abi::GROUP_EMPTY => Ok(Arc::default()),
            other => self.groups.get(other).cloned(),
        }
    }
}

#[inline]
fn datatype<'a>(
    predefined: &'a [Option<Datatype>],
    types: &'a Table<Datatype>,
    handle: Handle,
) -> Result<&'a Datatype> {
    match predefined.get(handle.wrapping_sub(FIRST_TYPE)) {
        Some(Some(datatype)) => Ok(datatype),
        _ => types.get(handle),
    }
}

impl Rest<'_> {
    /// The datatype of a handle.
    #[inline]
    pub(crate) fn datatype(&self, handle: Handle) -> Result<&Datatype> {
        datatype(self.predefined, self.types, handle)
    }

    /// Describes `count` of a datatype at `base` for `body`.
    ///
    /// # Safety
    /// MPI's contract for the buffer of a communication: the elements' bytes are valid for reads, and if `writable` for
    /// writes, until the operation that `body` starts is complete.
    #[inline]
    pub(crate) unsafe fn buffer<R>(
        &self,
        base: *const c_void,
        count: i64,
        handle: Handle,
        writable: bool,
        body: impl FnOnce(Buffer<'_>) -> Result<R>,
    ) -> Result<R> {
        let datatype = self.datatype(handle)?;
        let count = count_of(count)?;
        if !datatype.is_committed() {
            return Err(Error::new(abi::ERR_TYPE, "the datatype is not committed"));
        }
        let (offset, len) = match datatype.is_contiguous() {
            true => (0, count.checked_mul(datatype.size())),
            false => {
                let hull = datatype.hull(count)?;
                (hull.start, u64::try_from(hull.end - hull.start).ok())
            }
        };
        let len = len.and_then(|len| usize::try_from(len).ok());
        let start = base.addr().wrapping_add_signed(offset as isize);
        let span = len.filter(|len| {
            let end = start.checked_add(*len);
            *len == 0 || end.is_some_and(|end| end <= isize::MAX as usize)
        });
        let Some(len) = span else {
            return Err(Error::new(
                abi::ERR_COUNT,
                format!("{count} elements are too many"),
            ));
        };
        let start = match NonNull::new(base.with_addr(start).cast_mut().cast::<u8>()) {
            Some(start) => start,
            None if len == 0 => NonNull::dangling(),
            None => return Err(at_null(len)),
        };
        if base.addr() == abi::IN_PLACE && len > 0 {
            return Err(Error::new(
                abi::ERR_BUFFER,
                "MPI_IN_PLACE is not allowed here",
            ));
        }
        // SAFETY: the caller's promise.
        let memory = unsafe { self.foreign.span(start, len, writable) };
        body(Buffer {
            memory: &memory,
            count,
            datatype,
        })
    }

    /// The same, kept for as long as the operation goes on.
    ///
    /// # Safety
    /// As [`Rest::buffer`].
    pub(crate) unsafe fn owned_buffer(
        &self,
        base: *const c_void,
        count: i64,
        handle: Handle,
        writable: bool,
    ) -> Result<causeway_mpi::request::OwnedBuffer> {
        let own = |buffer: Buffer<'_>| {
            Ok(causeway_mpi::request::OwnedBuffer {
                memory: buffer.memory.clone(),
                count: buffer.count,
                datatype: buffer.datatype.clone(),
            })
        };
        // SAFETY: the caller's promise.
        unsafe { self.buffer(base, count, handle, writable, own) }
    }
}

#[cold]
fn at_null(len: usize) -> Error {
    Error::new(
        abi::ERR_BUFFER,
        format!("a buffer of {len} bytes is at NULL"),
    )
}

/// Waits for what `wait` waits for, and calls what functions of the program there are to be called meanwhile.
pub(crate) fn wait_for<T>(mut wait: impl FnMut(&mut Process) -> Result<Waited<T>>) -> Result<T> {
    loop {
        match with(|process, _| wait(process))? {
            Waited::Done(done) => return Ok(done),
            Waited::Call(call) => run(&call)?,
        }
    }
}

/// Waits for an operation.
#[inline]
pub(crate) fn complete(mut active: Active) -> Result<Status> {
    wait_for(|process| process.wait(&mut active))
}

/// Calls a function of the program's.
pub(crate) fn run(call: &Call) -> Result<()> {
    type Small = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Handle);
    type Large = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Handle);
    let (from, into): (&Memory, &Memory) = (&call.from, &call.into);
    let (from, into) = (from.as_ptr().cast(), into.as_ptr().cast());
    let mut datatype = call.datatype;
    let function = std::ptr::with_exposed_provenance::<c_void>(call.function);
    // SAFETY: the program gave this function to `MPI_Op_create` or `MPI_Op_create_c`, with this type, for calls
    // with memory of so many elements.
    unsafe {
        if call.is_large {
            let function = (&raw const function).cast::<Large>().read();
            function(from, into, &mut (call.count as i64), &mut datatype);
        } else {
            let function = (&raw const function).cast::<Small>().read();
            function(from, into, &mut (call.count as c_int), &mut datatype);
        }
    }
    with(|process, _| {
        process.called(call);
        Ok(())
    })
}

/// Does what a call does; turns its error into a code, by the error handler of the object concerned.
#[inline]
pub(crate) fn call(name: &str, object: Object, body: impl FnOnce() -> Result<()>) -> c_int {
    match body() {
        Ok(()) => abi::SUCCESS,
        Err(error) => handle(name, object, &error),
    }
}

/// The error of functions that are not implemented.
#[cold]
pub(crate) fn unsupported() -> Error {
    Error::new(
        abi::ERR_UNSUPPORTED_OPERATION,
        "this function is not implemented in this version of Causeway",
    )
}

/// Has the error handler of the object concerned deal with an error.
#[cold]
#[inline(never)]
pub(crate) fn handle(name: &str, object: Object, error: &Error) -> c_int {
    let code = error.code();
    if let Object::Tool = object {
        return code;
    }
    let object = match (object, error.communicator()) {
        (Object::None, Some(communicator)) => Object::Communicator(communicator),
        (object, _) => object,
    };
    let found = enter(|library| {
        library.codes.note(name, error);
        Ok(library.handler_of(object))
    });
    match found.unwrap_or(FoundHandler::Predefined(abi::ERRORS_ARE_FATAL)) {
        FoundHandler::Predefined(abi::ERRORS_RETURN) => {}
        FoundHandler::Predefined(_) => die(name, error),
        FoundHandler::Program(function, mut handle) => call_handler(function, &mut handle, code),
    }
    code
}

/// The error handler that is set.
pub(crate) enum FoundHandler {
    Predefined(usize),
    /// A function, and the handle of the object.
    Program(usize, Handle),
}

impl Library {
    pub(crate) fn handler_of(&self, object: Object) -> FoundHandler {
        let process = self.process.as_ref();
        let handle = match object {
            Object::Communicator(handle) => handle,
            Object::File(file) => {
                let found = process.and_then(|process| process.file(file).ok());
                let set = found.map_or(self.file_handler, |found| found.error_handler());
                return self.found_handler(set, file);
            }
            Object::None | Object::Tool => abi::COMM_SELF,
        };
        let found = process.and_then(|process| {
            let communicator = process.communicator(handle);
            // One that is none: errors that belong to no object go to MPI_COMM_SELF (MPI 5.0 §9.3).
            communicator
                .or_else(|_| process.communicator(abi::COMM_SELF))
                .ok()
        });
        let set = found.map_or(abi::ERRORS_ARE_FATAL, |communicator| {
            communicator.error_handler()
        });
        self.found_handler(set, handle)
    }

    fn found_handler(&self, set: usize, object: Handle) -> FoundHandler {
        match self.handlers.get(set) {
            Ok(handler) => FoundHandler::Program(handler.function, object),
            Err(_) => FoundHandler::Predefined(set),
        }
    }
}

/// Calls an error handler of the program's.
pub(crate) fn call_handler(function: usize, handle: &mut Handle, code: c_int) {
    type Function = unsafe extern "C" fn(*mut Handle, *mut c_int, ...);
    let function = std::ptr::with_exposed_provenance::<c_void>(function);
    // SAFETY: the program gave this function to `MPI_Comm_create_errhandler` or its like, with this type.
    unsafe {
        let function = (&raw const function).cast::<Function>().read();
        function(handle, &mut { code });
    }
}

/// Ends the program because of an error.
#[cold]
fn die(name: &str, error: &Error) -> ! {
    let text = enter(|library| {
        let rank = library.process.as_ref().map(Process::rank);
        let class = library
            .codes
            .class_of(error.code())
            .unwrap_or(abi::ERR_UNKNOWN);
        let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}: "));
        Ok(format!(
            "causeway: {rank}{name}: {error} (error class {class})\n"
        ))
    });
    let text = text.unwrap_or_else(|_| format!("causeway: {name}: {error}\n"));
    // One write, so that lines of several processes do not mix; if it fails, there is nobody to tell.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    end(1)
}

/// Ends the program with this exit code.
pub(crate) fn end(code: c_int) -> ! {
    let _ = enter(|library| {
        if let Some(process) = &mut library.process {
            process.abort(code);
        }
        Ok(())
    });
    // SAFETY: it ends the process as a C program's `exit` does.
    unsafe { libc::exit(code) }
}
