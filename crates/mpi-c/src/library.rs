//! The one instance of the library in this process: its state, how threads enter it, and how errors of calls are
//! reported.

mod leaving;

use std::cell::UnsafeCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

use causeway_mpi::abi;
use causeway_mpi::attributes::Attributes;
use causeway_mpi::buffer::Buffer;
use causeway_mpi::buffering::Owner;
use causeway_mpi::datatype::{Basic, Datatype};
use causeway_mpi::error::{Codes, Error, Result};
use causeway_mpi::group::Group;
use causeway_mpi::info::Info;
use causeway_mpi::operation::Operation;
use causeway_mpi::process::{Active, OpId, Parked, Process, Waited, Waker};
use causeway_mpi::schedule::Call;
use causeway_mpi::status::Status;
use causeway_mpi::table::{Kind, Table};
use causeway_sys::critical_section::{self, CriticalSection, Next, PARENTS, Wait};
use causeway_sys::memory::{BorrowedSpan, ForeignMemory, Memory};

use crate::functions::{call_handler, call_operation};
use crate::keys::{Keys, Values};
use crate::objects::{Handler, Stage};
use crate::progress_state::{self, Waits};
use crate::types::{Handle, count_of};

/// The handles of predefined datatypes lie from here on.
const FIRST_TYPE: usize = abi::DATATYPE_NULL;
const PREDEFINED_TYPES: usize = 0x100;

/// See the module's page.
pub(crate) struct Library {
    pub(crate) process: Option<Process>,
    /// Its rank, for texts of errors, also during and after the disconnection from the others.
    pub(crate) rank: Option<u32>,
    /// The process after `MPI_Finalize`, for sessions that are made later.
    pub(crate) finished: Option<Process>,
    pub(crate) infos: Table<Info>,
    pub(crate) groups: Table<Arc<Group>>,
    pub(crate) types: Table<Datatype>,
    /// Names that the program has given to datatypes.
    pub(crate) type_names: BTreeMap<Handle, Vec<u8>>,
    /// What the program has attached to datatypes.
    pub(crate) type_attributes: BTreeMap<Handle, Attributes>,
    /// Datatypes of Fortran's kinds that the program has asked for.
    pub(crate) kinds: Vec<(Handle, Datatype)>,
    /// The program's settings for Fortran.
    pub(crate) fortran: crate::objects::Fortran,
    pub(crate) sessions: Table<crate::objects::Session>,
    pub(crate) operations: Table<Operation>,
    pub(crate) handlers: Table<Handler>,
    /// The error handler of `MPI_FILE_NULL`, which files get that are opened.
    pub(crate) file_handler: usize,
    /// Names of representations of data in files that the program has registered.
    pub(crate) representations: BTreeSet<Vec<u8>>,
    pub(crate) tools: crate::tools::Tools,
    pub(crate) codes: Codes,
    pub(crate) keys: Keys,
    /// The program's buffers for buffered sends: their addresses and their bytes.
    pub(crate) buffers: BTreeMap<Owner, (usize, i64)>,
    /// Values of predefined attributes, whose addresses the program gets.
    pub(crate) last_code: Box<c_int>,
    pub(crate) program_number: Box<c_int>,
    pub(crate) universe_size: Box<c_int>,
    pub(crate) window_values: BTreeMap<Handle, Box<Values>>,
    predefined: Vec<Option<Datatype>>,
    foreign: ForeignMemory,
}

/// The object whose error handler a call's errors go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object {
    /// None: those of `MPI_COMM_SELF` do (MPI 5.0 §9.3).
    None,
    Communicator(Handle),
    /// The communicator or the window of a request.
    Owner(Handle),
    Session(Handle),
    Window(Handle),
    /// A file, or `MPI_FILE_NULL` for what concerns no open one.
    File(Handle),
    /// None yet, but an error handler of its own.
    Handler(Handle),
    /// None, for functions of the tool interface: their errors are returned.
    Tool,
}

pub(crate) static STAGE: Stage = Stage {
    is_initialized: AtomicBool::new(false),
    is_finalized: AtomicBool::new(false),
    thread_level: AtomicI32::new(abi::THREAD_SINGLE),
    main_thread: AtomicI32::new(0),
};

struct Instance {
    library: UnsafeCell<Option<Library>>,
    /// Lets in one thread at a time, unless the program serializes its calls.
    entry: CriticalSection,
    /// The program serializes its calls: it runs at a lower level than `MPI_THREAD_MULTIPLE`.
    is_serial: AtomicBool,
    /// Whether a call of such a program is inside.
    is_entered: AtomicBool,
    /// Ends the sleep of the thread that waits for all.
    waker: OnceLock<Waker>,
}

// SAFETY: `library` belongs to the thread that is inside, of which `entry` lets in one at a time. Below
// `MPI_THREAD_MULTIPLE`, MPI obliges programs to order their threads' calls themselves (MPI 5.0 §11.6).
unsafe impl Sync for Instance {}

static INSTANCE: Instance = Instance {
    library: UnsafeCell::new(None),
    entry: CriticalSection::new(),
    is_serial: AtomicBool::new(false),
    is_entered: AtomicBool::new(false),
    waker: OnceLock::new(),
};

/// This thread is inside the library, and calls no function of the program's as long as this exists.
pub(crate) struct Inside {
    is_serial: bool,
}

impl Inside {
    /// Enters: at once, if the program serializes its calls.
    #[inline(always)]
    pub(crate) fn enter() -> Result<Self> {
        let is_serial = INSTANCE.is_serial.load(Relaxed);
        match is_serial {
            // Not one atomic step, which would cost as much as the rest of a call: most erroneous calls are noticed.
            true if INSTANCE.is_entered.load(Relaxed) => Err(is_entered()),
            true => {
                INSTANCE.is_entered.store(true, Relaxed);
                Ok(Self { is_serial })
            }
            false => enter_exclusively().map(|()| Self { is_serial }),
        }
    }

    #[inline(always)]
    fn library(&mut self) -> &mut Library {
        // SAFETY: no other thread uses the library until this is dropped: either `entry` lets in one thread at a time, or the flag shows that no
        // other call is here, and the program serializes its calls (below `MPI_THREAD_MULTIPLE`).
        let library = unsafe { &mut *INSTANCE.library.get() };
        match library {
            Some(library) => library,
            None => begin(library),
        }
    }

    /// The process, and what calls need besides; an error unless the program has started.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Result<(&mut Process, Handles<'_>)> {
        let Library {
            process: Some(process),
            types,
            predefined,
            foreign,
            operations,
            ..
        } = self.library()
        else {
            return Err(not_started());
        };
        let handles = Handles {
            types,
            predefined,
            foreign,
            operations,
        };
        Ok((process, handles))
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        match self.is_serial {
            true => INSTANCE.is_entered.store(false, Relaxed),
            false => self.leave_and_wake(),
        }
    }
}

/// Enters as soon as no other thread is inside.
#[inline(never)]
fn enter_exclusively() -> Result<()> {
    let entry = &INSTANCE.entry;
    if entry.try_enter() {
        return Ok(());
    }
    // The closure always returns `true`: no thread is refused here.
    let entered = entry.enter_contended(|| true, interrupt);
    entered.map_err(|state| match state {
        PARENTS => Error::new(abi::ERR_OTHER, IN_A_CHILD),
        _ => {
            let text = format!("the library's lock is in the state {state}");
            Error::new(abi::ERR_INTERN, text)
        }
    })
}

#[cold]
#[inline(never)]
fn is_entered() -> Error {
    let text = "another thread is inside the library, which this program uses with MPI_THREAD_SERIALIZED at most";
    Error::new(abi::ERR_OTHER, text)
}

/// How threads share the library from now on, in which this thread is. The process has just started. A thread of the library's own may be one of
/// them.
pub(crate) fn set_level(level: c_int, has_own_thread: bool, process: &mut Process) {
    STAGE.thread_level.store(level, Relaxed);
    match level == abi::THREAD_MULTIPLE || has_own_thread {
        true => share(process),
        false => INSTANCE.is_serial.store(true, Release),
    }
}

/// From now on the library's lock serializes calls.
pub(crate) fn share(process: &mut Process) {
    critical_section::prepare();
    // The library starts once.
    let _ = INSTANCE.waker.set(process.share());
    INSTANCE.is_serial.store(false, Release);
}

/// Whether threads may call at the same time.
pub(crate) fn takes_threads() -> bool {
    !INSTANCE.is_serial.load(Relaxed)
}

/// The error of calls in a forked child.
const IN_A_CHILD: &str = "this process was forked from one that uses MPI, and cannot use it: only the parent belongs to MPI_COMM_WORLD";

/// Keeps a child out of the library, which is its parent's: its calls find [`IN_A_CHILD`] at the lock, whose state costs the
/// parent's calls nothing. Called in the child, whose only thread this is.
pub(crate) fn disown() {
    progress_state::IS_ON.store(false, Relaxed);
    INSTANCE.entry.reset();
    INSTANCE.entry.disown();
    INSTANCE.is_serial.store(false, Relaxed);
}

/// Enters the library for `body`, which calls no function of the program's.
#[inline]
pub(crate) fn enter<R>(body: impl FnOnce(&mut Library) -> Result<R>) -> Result<R> {
    body(Inside::enter()?.library())
}

#[cold]
#[inline(never)]
fn begin(library: &mut Option<Library>) -> &mut Library {
    library.insert(Library::new())
}

/// Prepares a sleep until messages arrive, for the library's own thread, which sleeps outside. `None` if there is something to
/// do first.
pub(crate) fn prepare_sleep(process: &mut Process) -> Option<Parked> {
    let entry = &INSTANCE.entry;
    let mut parked = None;
    if entry.begin_wait() {
        entry.share();
        parked = process.prepare_sleep();
    }
    entry.end_wait();
    parked
}

/// Ends the sleep, or the polling, of the thread that waits for all.
pub(crate) fn interrupt() {
    if let Some(waker) = INSTANCE.waker.get() {
        waker.wake();
    }
}

/// Wakes all threads that wait, since what they wait for may have happened by other means than a
/// message.
pub(crate) fn wake_all() {
    if INSTANCE.entry.is_shared() {
        INSTANCE.entry.call_all();
        interrupt();
    }
}

/// Enters for a body that needs the process to have started.
#[inline]
pub(crate) fn with<R>(body: impl FnOnce(&mut Process, &mut Handles<'_>) -> Result<R>) -> Result<R> {
    let mut inside = Inside::enter()?;
    let (process, mut handles) = inside.parts()?;
    body(process, &mut handles)
}

#[cold]
#[inline(never)]
pub(crate) fn not_started() -> Error {
    let text = match STAGE.is_finalized.load(Relaxed) {
        true => "MPI_Finalize was called before",
        false => "MPI_Init was not called",
    };
    Error::new(abi::ERR_OTHER, text)
}

/// What the handles of a call refer to, and the memory that it names: what calls need besides the process.
pub(crate) struct Handles<'a> {
    types: &'a Table<Datatype>,
    predefined: &'a [Option<Datatype>],
    foreign: &'a ForeignMemory,
    pub(crate) operations: &'a Table<Operation>,
}

/// Elements at an address of the program's.
pub(crate) struct ProgramBuffer<'a> {
    memory: BorrowedSpan<'a>,
    count: u64,
    datatype: &'a Datatype,
}

impl ProgramBuffer<'_> {
    /// As a buffer.
    #[inline(always)]
    pub(crate) fn buffer(&self) -> Buffer<'_> {
        Buffer {
            memory: &self.memory,
            count: self.count,
            datatype: self.datatype,
        }
    }
}

impl Library {
    fn new() -> Self {
        let mut predefined = vec![None; PREDEFINED_TYPES];
        for basic in Basic::ALL {
            predefined[*basic as usize - FIRST_TYPE] = Some(Datatype::from(*basic));
        }
        Self {
            process: None,
            rank: None,
            finished: None,
            infos: Table::new(Kind::Info, abi::ERR_INFO),
            groups: Table::new(Kind::Group, abi::ERR_GROUP),
            types: Table::new(Kind::Datatype, abi::ERR_TYPE),
            type_names: BTreeMap::new(),
            type_attributes: BTreeMap::new(),
            kinds: Vec::new(),
            fortran: Default::default(),
            sessions: Table::new(Kind::Session, abi::ERR_SESSION),
            operations: Table::new(Kind::Operation, abi::ERR_OP),
            handlers: Table::new(Kind::ErrorHandler, abi::ERR_ERRHANDLER),
            file_handler: abi::ERRORS_RETURN,
            representations: BTreeSet::new(),
            tools: Default::default(),
            codes: Codes::default(),
            keys: Keys::default(),
            buffers: BTreeMap::new(),
            last_code: Box::default(),
            program_number: Box::default(),
            universe_size: Box::default(),
            window_values: BTreeMap::new(),
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

impl Handles<'_> {
    /// The datatype of a handle.
    #[inline]
    pub(crate) fn datatype(&self, handle: Handle) -> Result<&Datatype> {
        datatype(self.predefined, self.types, handle)
    }

    /// The [unit](Datatype::unit) of the datatype of a handle; 0 if it is none.
    #[inline(always)]
    pub(crate) fn unit(&self, handle: Handle) -> u64 {
        let datatype = match self.predefined.get(handle.wrapping_sub(FIRST_TYPE)) {
            Some(found) => found.as_ref(),
            None => self.types.find(handle),
        };
        datatype.map_or(0, Datatype::unit)
    }

    /// Describes `count` of a datatype at `base`, for communication. `None` if the type has gaps or is not committed, the count is 0 or negative, or `base` is null or
    /// `MPI_IN_PLACE`, and for what the general path reports as an error.
    ///
    /// # Safety
    /// As [`Handles::buffer`], until what the description is used for is complete.
    #[inline(always)]
    pub(crate) unsafe fn contiguous_buffer(
        &self,
        base: *const c_void,
        count: i64,
        handle: Handle,
        writable: bool,
    ) -> Option<BorrowedSpan<'_>> {
        let len = u64::try_from(count).ok()?.checked_mul(self.unit(handle))?;
        let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
        let end = base.addr().checked_add(len)?;
        if end > isize::MAX as usize || base.addr() == abi::IN_PLACE {
            return None;
        }
        let start = NonNull::new(base.cast_mut().cast::<u8>())?;
        // SAFETY: the caller's promise.
        Some(unsafe { self.foreign.span(start, len, writable) })
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
        // SAFETY: the caller's promise.
        let placed = unsafe { self.buffer_of(base, count, handle, writable) }?;
        body(placed.buffer())
    }

    /// The same, for the caller to use.
    ///
    /// # Safety
    /// As [`Handles::buffer`], until what the description is used for is complete.
    #[inline(always)]
    pub(crate) unsafe fn buffer_of(
        &self,
        base: *const c_void,
        count: i64,
        handle: Handle,
        writable: bool,
    ) -> Result<ProgramBuffer<'_>> {
        // Where there are no elements, programs also pass no datatype.
        let datatype = match (count, handle) {
            (0, abi::DATATYPE_NULL) => self.datatype(Basic::Byte.handle())?,
            _ => self.datatype(handle)?,
        };
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
        Ok(ProgramBuffer {
            memory,
            count,
            datatype,
        })
    }

    /// The same, kept for as long as the operation goes on.
    ///
    /// # Safety
    /// As [`Handles::buffer`].
    pub(crate) unsafe fn owned_buffer(
        &self,
        base: *const c_void,
        count: i64,
        handle: Handle,
        writable: bool,
    ) -> Result<causeway_mpi::buffer::OwnedBuffer> {
        let own = |buffer: Buffer<'_>| {
            Ok(causeway_mpi::buffer::OwnedBuffer {
                memory: buffer.memory.clone(),
                count: buffer.count,
                datatype: buffer.datatype.clone(),
            })
        };
        // SAFETY: the caller's promise.
        unsafe { self.buffer(base, count, handle, writable, own) }
    }

    /// `len` bytes at `base`.
    ///
    /// # Safety
    /// They are valid for reads and writes for as long as the memory is used.
    pub(crate) unsafe fn memory(&self, base: *mut c_void, len: usize) -> Result<Memory> {
        let fits = base.addr().checked_add(len);
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if fits.is_some_and(|end| end <= isize::MAX as usize) => {
                // SAFETY: the caller's promise.
                Ok(unsafe { self.foreign.span(base, len, true) }.clone())
            }
            None if len == 0 => {
                // SAFETY: there are no bytes.
                Ok(unsafe { self.foreign.span(NonNull::dangling(), 0, true) }.clone())
            }
            None => Err(at_null(len)),
            Some(_) => {
                let text = format!("{len} bytes at {base:p} are no memory");
                Err(Error::new(abi::ERR_SIZE, text))
            }
        }
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
#[inline]
pub(crate) fn wait_for<T>(mut wait: impl FnMut(&mut Process) -> Result<Waited<T>>) -> Result<T> {
    loop {
        match with(|process, _| wait(process))? {
            Waited::Done(done) => return Ok(done),
            Waited::Call(call) => run(&call)?,
            Waited::NotYet(_) => return wait_among_threads(&mut wait),
        }
    }
}

/// The same where several threads call: one of those that wait sleeps for all, outside of the library ([`critical_section`]).
#[cold]
fn wait_among_threads<T>(wait: &mut impl FnMut(&mut Process) -> Result<Waited<T>>) -> Result<T> {
    let waits = Waits::new();
    let result = wait_and_release(wait);
    drop(waits);
    if progress_state::is_on() {
        // Other operations may be able to continue.
        let _ = with(|_, _| Ok(()));
    }
    result
}

fn wait_and_release<T>(wait: &mut impl FnMut(&mut Process) -> Result<Waited<T>>) -> Result<T> {
    let entry = &INSTANCE.entry;
    let mut turn = Wait::default();
    let mut parked: Option<Parked> = None;
    loop {
        let (found, (next, called), awake) = with(|process, _| {
            if let Some(parked) = parked.take() {
                process.finish_wait(parked);
            }
            let found = wait(process);
            let awaited = match &found {
                Ok(Waited::NotYet(op)) => Some(op.map(OpId::to_raw)),
                _ => None,
            };
            if awaited.is_none() && turn.is_for_all() {
                process.end_wait();
            }
            let next = entry.next(&mut turn, awaited, |watched| process.prepare_wait(watched));
            Ok((found, next, process.awake_limit_of_followers()))
        })?;
        called.wake();
        match next {
            Next::Return => match found? {
                Waited::Done(done) => return Ok(done),
                Waited::Call(call) => run(&call)?,
                Waited::NotYet(_) => {}
            },
            Next::Again => {}
            Next::Park(mut idle) => {
                idle.wait();
                parked = Some(idle);
            }
            Next::Follow => entry.follow(&turn, awake, None),
        }
    }
}

/// Waits for an operation.
#[inline]
pub(crate) fn complete(mut active: Active) -> Result<Status> {
    if let Some(status) = active.status() {
        return Ok(status);
    }
    wait_for(|process| process.wait(&mut active))
}

/// Calls an operation of the program's.
pub(crate) fn run(call: &Call) -> Result<()> {
    let what = &call.operation;
    // The program may have freed its handle of the datatype since it started the operation: then the function gets another one.
    let other = enter(|library| match library.datatype(what.handle) {
        Ok(datatype) if datatype.is_same(&what.datatype) => Ok(None),
        _ => library.types.insert(what.datatype.clone()).map(Some),
    })?;
    call_operation(what, other.unwrap_or(what.handle));
    if let Some(handle) = other {
        // The function may have freed it, wrongly.
        let _ = enter(|library| library.types.remove(handle));
    }
    with(|process, _| {
        process.called(call);
        Ok(())
    })?;
    // The operation for which it was called may be one that another thread waits for.
    wake_all();
    Ok(())
}

/// Runs the body of a call; turns its error into a code, as the error handler of the object
/// concerned decides.
#[inline]
pub(crate) fn call(name: &'static str, object: Object, body: impl FnOnce() -> Result<()>) -> c_int {
    match body() {
        Ok(()) => abi::SUCCESS,
        Err(error) => handle(name, object, &error),
    }
}

/// Has the error handler of the object concerned deal with an error. Returns the code that the call returns: a program's
/// handler gets it by a pointer, and may change it (MPI 5.0 §9.3).
#[cold]
#[inline(never)]
pub(crate) fn handle(name: &'static str, object: Object, error: &Error) -> c_int {
    let code = error.code();
    if let Object::Tool = object {
        return code;
    }
    let object = match (object, error.communicator()) {
        (Object::None, Some(owner)) => Object::Owner(owner),
        (object, _) => object,
    };
    let found = enter(|library| {
        library.codes.note(name, error);
        if let (Object::Communicator(comm), Some(process)) = (object, &mut library.process) {
            process.note_failed(comm, name, error);
        }
        Ok(library.handler_of(object))
    });
    match found.unwrap_or(FoundHandler::Predefined(abi::ERRORS_ARE_FATAL)) {
        FoundHandler::Predefined(abi::ERRORS_RETURN) => code,
        FoundHandler::Predefined(_) => abort_program(name, error),
        FoundHandler::Program(function, mut handle) => call_handler(function, &mut handle, code),
    }
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
        let of_communicator =
            |handle| Some((process?.communicator(handle).ok()?.error_handler(), handle));
        let of_window = |handle| Some((process?.window(handle).ok()?.error_handler(), handle));
        let of = |object| match object {
            Object::Communicator(handle) => of_communicator(handle),
            Object::Window(handle) => of_window(handle),
            Object::Owner(handle) => of_communicator(handle).or_else(|| of_window(handle)),
            Object::Session(handle) => {
                Some((self.sessions.get(handle).ok()?.error_handler, handle))
            }
            Object::File(handle) => {
                let file = process.and_then(|process| process.file(handle).ok());
                // Errors that concern no open file have a handler, too (MPI 5.0 §14.7).
                Some((
                    file.map_or(self.file_handler, |file| file.error_handler()),
                    handle,
                ))
            }
            Object::Handler(handler) => {
                let is_known = self.check_handler(handler).is_ok();
                // The function gets the null handle of the first kind of object.
                is_known.then_some((handler, abi::COMM_NULL))
            }
            Object::Tool | Object::None => None,
        };
        // Errors that belong to no object go to MPI_COMM_SELF (MPI 5.0 §9.3).
        let found = of(object).or_else(|| of(Object::Communicator(abi::COMM_SELF)));
        let (set, handle) = found.unwrap_or((abi::ERRORS_ARE_FATAL, abi::COMM_SELF));
        match self.handlers.get(set) {
            Ok(handler) => FoundHandler::Program(handler.function, handle),
            Err(_) => FoundHandler::Predefined(set),
        }
    }
}

/// Ends the program because of an error.
#[cold]
fn abort_program(name: &str, error: &Error) -> ! {
    let text = enter(|library| {
        let class = library
            .codes
            .class_of(error.code())
            .unwrap_or(abi::ERR_UNKNOWN);
        let rank = library.rank;
        let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}: "));
        Ok(format!(
            "causeway: {rank}{name}: {error} (error class {class})\n"
        ))
    });
    let text = text.unwrap_or_else(|_| format!("causeway: {name}: {error}\n"));
    // One write, so that lines of several processes do not mix; if it fails, the error cannot be reported.
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
    // The kernel keeps the lowest eight bits: an error must not become a success.
    let shown = match code & 0xff {
        0 if code != 0 => 1,
        shown => shown,
    };
    // SAFETY: it ends the process as a C program's `exit` does.
    unsafe { libc::exit(shown) }
}
