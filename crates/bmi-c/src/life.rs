//! Starting and ending an instance.

use std::ffi::{c_char, c_int};

use causeway_bmi::Config;
use causeway_bmi::log::{self, StartError};
use causeway_transport::registry;
use causeway_transport::tcp::config::MAX_CONNECTIONS;

use crate::error::{BMI_ESYSTEM, BMI_EUNSUPPORTED, Failure};
use crate::handle::{self, Handle, guard};
use crate::instance::{Instance, duration_us};
use crate::text;

/// Connections need not be encrypted after both sides have proved that they hold the key; data is
/// still authenticated.
pub const BMI_CLEARTEXT: u32 = 1;

/// The header's `struct bmi_config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BmiConfig {
    /// `sizeof(struct bmi_config)` as compiled into the caller.
    pub size: usize,
    /// Addresses to listen at, joined with commas, or null.
    pub listen: *const c_char,
    /// 32 bytes, or null.
    pub key: *const u8,
    /// See [`Config::eager_limit`]. For this and the next four: 0 means the default.
    pub eager_limit: i64,
    /// See [`Config::unexpected_limit`].
    pub unexpected_limit: i64,
    /// See [`Config::early_memory`].
    pub early_memory: i64,
    /// See [`Config::connect_timeout`].
    pub connect_timeout_us: i64,
    /// See [`Config::spin`].
    pub spin_us: i64,
    /// Of [`BMI_CLEARTEXT`].
    pub flags: u32,
    /// See [`Config::tcp_connections`].
    pub tcp_connections: u32,
}

/// Starts the process's log with its first instance.
fn start_log() -> Result<(), Failure> {
    log::start_for_library().map_err(|error| match error {
        StartError::File { .. } => Failure::new(BMI_ESYSTEM, error.to_string()),
        error => Failure::invalid(error.to_string()),
    })
}

fn bytes(value: i64, what: &str) -> Result<usize, Failure> {
    usize::try_from(value).map_err(|_| Failure::invalid(format!("{what} is negative: {value}")))
}

/// The caller's configuration in this version's form. A caller that was compiled against an older
/// header passes a shorter one.
///
/// # Safety
/// `config` is null or points to as many bytes as its first member states.
unsafe fn known_part(config: *const BmiConfig) -> Result<BmiConfig, Failure> {
    const KNOWN: usize = size_of::<BmiConfig>();
    // SAFETY: the members allow null pointers and zeros.
    let mut ours: BmiConfig = unsafe { std::mem::zeroed() };
    if config.is_null() {
        return Ok(ours);
    }
    // SAFETY: the caller's promise.
    let size = unsafe { (&raw const (*config).size).read() };
    if !(size_of::<usize>()..=16 * KNOWN).contains(&size) {
        return Err(Failure::invalid(format!(
            "bmi_config.size is {size}: begin with BMI_CONFIG_INIT"
        )));
    }
    // SAFETY: the caller's promise, and `ours` has room for it.
    unsafe {
        let (from, into) = (config.cast::<u8>(), (&raw mut ours).cast::<u8>());
        std::ptr::copy_nonoverlapping(from, into, size.min(KNOWN));
        let newer = (KNOWN..size).any(|at| from.add(at).read() != 0);
        if newer {
            let text = "bmi_config sets members that this version of the library does not know";
            return Err(Failure::new(BMI_EUNSUPPORTED, text));
        }
    }
    Ok(ours)
}

/// # Safety
/// As [`known_part`]; and its members point to what the header requires.
unsafe fn configuration(config: *const BmiConfig) -> Result<Config, Failure> {
    // SAFETY: the caller's promise.
    let theirs = unsafe { known_part(config) }?;
    let mut config = Config::default();
    if theirs.flags & !BMI_CLEARTEXT != 0 {
        return Err(Failure::invalid("bmi_config has flags that do not exist"));
    }
    config.encrypt = theirs.flags & BMI_CLEARTEXT == 0;
    if !theirs.listen.is_null() {
        // SAFETY: not null, so a string.
        let list = unsafe { text::read(theirs.listen, "bmi_config.listen") }?;
        let addresses = registry::split(list)?;
        config.listen = addresses.iter().map(ToString::to_string).collect();
    }
    if !theirs.key.is_null() {
        // SAFETY: not null, so 32 bytes.
        config.key = Some(unsafe { theirs.key.cast::<[u8; 32]>().read() }.into());
    }
    match theirs.eager_limit {
        0 => {}
        limit => config.eager_limit = bytes(limit.max(0), "bmi_config.eager_limit")?,
    }
    if theirs.unexpected_limit != 0 {
        config.unexpected_limit = bytes(theirs.unexpected_limit, "bmi_config.unexpected_limit")?;
    }
    if theirs.early_memory != 0 {
        config.early_memory = bytes(theirs.early_memory, "bmi_config.early_memory")?;
    }
    if theirs.connect_timeout_us != 0 {
        let timeout = theirs.connect_timeout_us;
        config.connect_timeout = duration_us(timeout, "bmi_config.connect_timeout_us")?;
    }
    match theirs.spin_us {
        0 => {}
        spin => config.spin = duration_us(spin.max(0), "bmi_config.spin_us")?,
    }
    config.tcp_connections = u8::try_from(theirs.tcp_connections)
        .ok()
        .filter(|most| *most <= MAX_CONNECTIONS)
        .ok_or_else(|| {
            let asked = theirs.tcp_connections;
            Failure::invalid(format!(
                "bmi_config.tcp_connections is {asked}: at most {MAX_CONNECTIONS} are possible"
            ))
        })?;
    Ok(config)
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_initialize(bmi: *mut *mut Handle, config: *const BmiConfig) -> c_int {
    guard(|| {
        Failure::if_null(bmi, "the pointer for the handle")?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { bmi.write(std::ptr::null_mut()) };
        // SAFETY: the header requires a configuration or NULL.
        let config = unsafe { configuration(config) }?;
        start_log()?;
        let handle = handle::insert(Box::new(Instance::start(config)?))?;
        // SAFETY: as above.
        unsafe { bmi.write(handle) };
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_finalize(bmi: *mut Handle) -> c_int {
    guard(|| handle::remove(bmi).map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_wake(bmi: *mut Handle) -> c_int {
    handle::wake(bmi)
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_listening(bmi: *mut Handle, into: *mut c_char, room: usize) -> c_int {
    handle::call(bmi, |instance| {
        // SAFETY: the header requires a buffer of `room` bytes.
        unsafe { text::write(&instance.bmi.listening().join(","), into, room) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
