//! PMIx, as launchers speak it: its client library `libpmix.so.2`, loaded when a process was started by one of them.
//!
//! Types and values are those of the PMIx standard 4 and 5, whose binary interface is the same as far as it is used here.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::{Path, PathBuf};

/// Names the library, if it is in none of the directories in which the system searches.
pub const LIBRARY: &str = "CAUSEWAY_PMIX_LIBRARY";

const SUCCESS: c_int = 0;
const STRING: u16 = 3;
const UINT32: u16 = 14;
/// All processes of the own job.
const EVERYBODY: u32 = u32::MAX - 1;
/// Values that all processes may have.
const GLOBAL: u8 = 3;

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    job: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`. The largest of the standard's kinds of values has three words.
#[repr(C)]
struct Value {
    kind: u16,
    data: [u64; 3],
}

/// `pmix_app_t`
#[repr(C)]
struct App {
    command: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    directory: *const c_char,
    processes: c_int,
    hints: *const c_void,
    hint_count: usize,
}

const _: () = {
    assert!(size_of::<Process>() == 260);
    assert!(size_of::<Value>() == 32);
    assert!(size_of::<App>() == 56);
};

/// A program to be started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The command.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// `NAME=VALUE`
    pub environment: Vec<String>,
    /// Where it runs.
    pub directory: Option<PathBuf>,
    /// How many processes.
    pub processes: u32,
}

type Init = unsafe extern "C" fn(*mut Process, *const c_void, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const c_void, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *const Process, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Process, usize, *const c_void, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Process,
    *const c_char,
    *const c_void,
    usize,
    *mut *mut Value,
) -> c_int;
type Spawn =
    unsafe extern "C" fn(*const c_void, usize, *const App, usize, *mut [c_char; 256]) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// A client of a launcher. Its library stays loaded.
pub struct Client {
    own: Process,
    finalize: Finalize,
    abort: Abort,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    spawn: Spawn,
    error_string: ErrorString,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("rank", &self.own.rank)
            .finish_non_exhaustive()
    }
}

/// The dynamic linker's latest error.
fn linker_error() -> io::Error {
    // SAFETY: it returns null or a string that lives until the thread's next call of the linker.
    let text = unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => String::new(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    };
    io::Error::other(text)
}

/// An open library.
struct Library(std::ptr::NonNull<c_void>);

impl Library {
    fn open(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: the path is a string. The library's initialisers are those of a client library that was installed to be
        // loaded by programs such as this one.
        let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        std::ptr::NonNull::new(opened)
            .map(Self)
            .ok_or_else(linker_error)
    }

    /// A function.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of that name.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> io::Result<F> {
        // SAFETY: the library is open, and the name is a string.
        let found = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if found.is_null() {
            return Err(linker_error());
        }
        // SAFETY: the caller's promise; pointers to functions have the size of others.
        Ok(unsafe { std::ptr::from_ref(&found).cast::<F>().read() })
    }
}

impl Client {
    /// Loads the library, and greets the launcher.
    pub fn new() -> io::Result<Self> {
        let path = std::env::var_os(LIBRARY);
        let path = path.map_or_else(|| PathBuf::from("libpmix.so.2"), PathBuf::from);
        let library = Library::open(&path)?;
        // SAFETY: the functions have these types by the standard.
        let (mut client, init) = unsafe {
            let client = Self {
                own: Process {
                    job: [0; 256],
                    rank: 0,
                },
                finalize: library.function(c"PMIx_Finalize")?,
                abort: library.function(c"PMIx_Abort")?,
                put: library.function(c"PMIx_Put")?,
                commit: library.function(c"PMIx_Commit")?,
                fence: library.function(c"PMIx_Fence")?,
                get: library.function(c"PMIx_Get")?,
                spawn: library.function(c"PMIx_Spawn")?,
                error_string: library.function(c"PMIx_Error_string")?,
            };
            (client, library.function::<Init>(c"PMIx_Init")?)
        };
        // SAFETY: the process is valid for writes; there are no hints.
        let code = unsafe { init(&mut client.own, std::ptr::null(), 0) };
        client.check("PMIx_Init", code)?;
        Ok(client)
    }

    fn check(&self, what: &str, code: c_int) -> io::Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: it returns a string that stays.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        let text = text.to_string_lossy();
        Err(io::Error::other(format!("{what}: {text} ({code})")))
    }

    /// This process's number.
    pub fn rank(&self) -> u32 {
        self.own.rank
    }

    /// A value of a process's, or of the job if `rank` is `None`.
    fn value(&self, rank: Option<u32>, key: &str) -> io::Result<Value> {
        let of = Process {
            rank: rank.unwrap_or(EVERYBODY),
            ..self.own
        };
        let name = CString::new(key)?;
        let mut found = std::ptr::null_mut();
        // SAFETY: the process, the name and the pointer are valid; there are no hints.
        let code = unsafe { (self.get)(&of, name.as_ptr(), std::ptr::null(), 0, &mut found) };
        self.check(key, code)?;
        let found = std::ptr::NonNull::new(found);
        let found = found.ok_or_else(|| io::Error::other(format!("{key}: no value")))?;
        // SAFETY: the value is the caller's from now on. It is never freed, as there are few.
        Ok(unsafe { found.as_ptr().read() })
    }

    /// A number that the launcher knows of the job.
    pub fn number(&self, key: &str) -> io::Result<u32> {
        self.number_of(None, key)
    }

    /// A number that the launcher knows of this process.
    pub fn own_number(&self, key: &str) -> io::Result<u32> {
        self.number_of(Some(self.own.rank), key)
    }

    fn number_of(&self, rank: Option<u32>, key: &str) -> io::Result<u32> {
        let value = self.value(rank, key)?;
        match value.kind {
            // The value lies at the beginning, in the machine's order of bytes.
            UINT32 => {
                let [a, b, c, d, ..] = value.data[0].to_ne_bytes();
                Ok(u32::from_ne_bytes([a, b, c, d]))
            }
            other => Err(io::Error::other(format!(
                "{key}: a value of the kind {other}"
            ))),
        }
    }

    /// Whether another job's processes have started this one.
    pub fn has_parent(&self) -> bool {
        self.value(Some(self.own.rank), "pmix.parent").is_ok()
    }

    /// Publishes a text. Others get it behind the next [`Client::barrier`].
    pub fn put(&self, key: &str, text: &str) -> io::Result<()> {
        let (key, text) = (CString::new(key)?, CString::new(text)?);
        let mut value = Value {
            kind: STRING,
            data: [text.as_ptr().expose_provenance() as u64, 0, 0],
        };
        // SAFETY: key and value are valid; the library copies both.
        let code = unsafe { (self.put)(GLOBAL, key.as_ptr(), &mut value) };
        self.check("PMIx_Put", code)?;
        // SAFETY: it has no conditions once the client has been greeted.
        self.check("PMIx_Commit", unsafe { (self.commit)() })
    }

    /// The text that a process has published.
    pub fn get(&self, rank: u32, key: &str) -> io::Result<String> {
        let value = self.value(Some(rank), key)?;
        let text = std::ptr::with_exposed_provenance::<c_char>(value.data[0] as usize);
        if value.kind != STRING || text.is_null() {
            return Err(io::Error::other(format!("{key}: no text")));
        }
        // SAFETY: a value of this kind has a string, which stays as the value is not freed.
        Ok(unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned())
    }

    /// Waits until all processes of the job have called this function.
    pub fn barrier(&self) -> io::Result<()> {
        // SAFETY: null stands for the own job; there are no hints.
        let code = unsafe { (self.fence)(std::ptr::null(), 0, std::ptr::null(), 0) };
        self.check("PMIx_Fence", code)
    }

    /// Starts programs as one job.
    pub fn spawn(&self, programs: &[Program]) -> io::Result<()> {
        let texts = programs.iter().map(Texts::new);
        let texts = texts.collect::<io::Result<Vec<_>>>()?;
        let apps = programs.iter().zip(&texts).map(|(program, texts)| App {
            command: texts.command.as_ptr(),
            arguments: texts.argument_pointers.as_ptr(),
            environment: texts.environment_pointers.as_ptr(),
            directory: texts
                .directory
                .as_ref()
                .map_or(std::ptr::null(), |text| text.as_ptr()),
            processes: c_int::try_from(program.processes).unwrap_or(c_int::MAX),
            hints: std::ptr::null(),
            hint_count: 0,
        });
        let apps = Vec::from_iter(apps);
        let mut job = [0; 256];
        // SAFETY: the programs and all that they point to live until the call returns; the name has its room.
        let code =
            unsafe { (self.spawn)(std::ptr::null(), 0, apps.as_ptr(), apps.len(), &mut job) };
        self.check("PMIx_Spawn", code)
    }

    /// Has the launcher end all processes of the job.
    pub fn abort(&self, code: i32) {
        // SAFETY: null stands for no message and for the whole job. An error means that the launcher is gone.
        unsafe { (self.abort)(code, std::ptr::null(), std::ptr::null(), 0) };
    }

    /// Disconnects from the launcher.
    pub fn finish(&self) -> io::Result<()> {
        // SAFETY: there are no hints.
        let code = unsafe { (self.finalize)(std::ptr::null(), 0) };
        self.check("PMIx_Finalize", code)
    }
}

/// A program as C has it.
struct Texts {
    command: CString,
    directory: Option<CString>,
    argument_pointers: Vec<*const c_char>,
    environment_pointers: Vec<*const c_char>,
    _arguments: Vec<CString>,
    _environment: Vec<CString>,
}

impl Texts {
    fn new(program: &Program) -> io::Result<Self> {
        let strings = |texts: &[String]| {
            let texts = texts.iter().map(|text| CString::new(text.as_str()));
            texts.collect::<Result<Vec<_>, _>>()
        };
        let mut arguments = vec![CString::new(program.command.as_str())?];
        arguments.extend(strings(&program.arguments)?);
        let environment = strings(&program.environment)?;
        let pointers = |texts: &[CString]| {
            let texts = texts.iter().map(|text| text.as_ptr());
            Vec::from_iter(texts.chain([std::ptr::null()]))
        };
        let directory = program.directory.as_ref();
        let directory =
            directory.map(|directory| CString::new(directory.as_os_str().as_encoded_bytes()));
        Ok(Self {
            command: CString::new(program.command.as_str())?,
            directory: directory.transpose()?,
            argument_pointers: pointers(&arguments),
            environment_pointers: pointers(&environment),
            _arguments: arguments,
            _environment: environment,
        })
    }
}
