//! Connecting and disconnecting.

use std::ffi::{OsStr, c_char, c_int};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_fs::config::Configuration;
use causeway_watch::log;

use crate::error::Failure;
use crate::handle::{self, Handle, guard};
use crate::instance::Instance;
use crate::text;

/// The number of clients unless the options say otherwise.
const USUAL_CLIENTS: u32 = 4;
/// Most clients of an instance.
const MOST_CLIENTS: u32 = 256;

/// The header's `struct cwfs_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CwfsOptions {
    /// `sizeof(struct cwfs_options)` in the caller's header.
    pub size: usize,
    /// Most calls that are carried out concurrently; 0 means the usual number.
    pub clients: u32,
    /// Reserved; zero.
    pub reserved: u32,
    /// How long a call may take, in microseconds; 0 means the configuration's time-out.
    pub timeout_us: i64,
}

/// The caller's options in this version's form. A caller that was compiled against an older header has shorter ones.
///
/// # Safety
/// `options` is null or points to as many bytes as its first member says.
unsafe fn known_part(options: *const CwfsOptions) -> Result<CwfsOptions, Failure> {
    const KNOWN: usize = size_of::<CwfsOptions>();
    let mut ours = CwfsOptions::default();
    if options.is_null() {
        return Ok(ours);
    }
    if !options.is_aligned() {
        return Err(Failure::invalid("cwfs_options is not aligned"));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { (&raw const (*options).size).read() };
    if !(size_of::<usize>()..=16 * KNOWN).contains(&size) {
        return Err(Failure::invalid(format!(
            "cwfs_options.size is {size}: begin with CWFS_OPTIONS_INIT"
        )));
    }
    // SAFETY: the caller's promise, and `ours` has room for it; any bytes make numbers.
    unsafe {
        let (from, into) = (options.cast::<u8>(), (&raw mut ours).cast::<u8>());
        std::ptr::copy_nonoverlapping(from, into, size.min(KNOWN));
        if (KNOWN..size).any(|at| from.add(at).read() != 0) {
            let text = "cwfs_options sets members that this version of the library does not know";
            return Err(Failure::new(libc::EOPNOTSUPP, text));
        }
    }
    Ok(ours)
}

fn start(configuration: Configuration, options: &CwfsOptions) -> Result<Instance, Failure> {
    let mut configuration = configuration;
    if options.reserved != 0 {
        return Err(Failure::invalid("cwfs_options.reserved is not 0"));
    }
    let clients = match options.clients {
        0 => USUAL_CLIENTS,
        1..=MOST_CLIENTS => options.clients,
        asked => {
            return Err(Failure::invalid(format!(
                "cwfs_options.clients is {asked}: at most {MOST_CLIENTS} are possible"
            )));
        }
    };
    match u64::try_from(options.timeout_us) {
        Ok(0) => {}
        Ok(us) => configuration.timeout = Duration::from_micros(us).min(DAY),
        Err(_) => return Err(Failure::invalid("cwfs_options.timeout_us is negative")),
    }
    Instance::start(&configuration, clients as usize)
}

const DAY: Duration = Duration::from_secs(86_400);

/// A time to wait, in microseconds; `None` for no limit.
pub(crate) fn wait_us(us: i64) -> Option<Duration> {
    let time = Duration::from_micros(u64::try_from(us).ok()?);
    (time < DAY).then_some(time)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_connect(
    fs: *mut *mut Handle,
    config: *const c_char,
    options: *const CwfsOptions,
) -> c_int {
    guard(|| {
        Failure::if_null(fs, "the pointer for the handle")?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { fs.write(std::ptr::null_mut()) };
        // SAFETY: the header requires options or NULL.
        let options = unsafe { known_part(options) }?;
        let configuration = match config.is_null() {
            true => Configuration::load_usual(),
            false => {
                // SAFETY: not null, so a string.
                let file = unsafe { text::path(config, "the configuration file's name") }?;
                Configuration::load(Path::new(OsStr::from_bytes(file)))
            }
        };
        let configuration = configuration.map_err(|error| Failure::invalid(error.to_string()))?;
        log::start_for_library().map_err(|error| Failure::invalid(error.to_string()))?;
        let handle = handle::insert(Arc::new(start(configuration, &options)?))?;
        // SAFETY: as above.
        unsafe { fs.write(handle) };
        Ok(0)
    }) as c_int
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_disconnect(fs: *mut Handle) -> c_int {
    guard(|| {
        let instance = handle::remove(fs)?;
        instance.posted.end();
        Ok(0)
    }) as c_int
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
