//! Error codes and the text of the last error.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::OnceLock;

use causeway_fs::Error;
use causeway_wire::fs::Errno;

/// A bug in the library stopped a call: `-ENOTRECOVERABLE`.
pub(crate) const BROKEN: i64 = -(libc::ENOTRECOVERABLE as i64);

/// Why a call failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// A positive number of `errno.h`.
    errno: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self {
            errno,
            text: text.into(),
        }
    }

    /// An argument that is not allowed.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, text)
    }

    /// The failure of an invalid handle.
    pub(crate) fn handle(text: impl Into<String>) -> Self {
        Self::new(libc::EBADF, text)
    }

    /// The failure of an instance whose invariants may not hold any more.
    pub(crate) fn broken() -> Self {
        let text =
            "a bug in the library stopped an earlier call or this one; disconnect the instance";
        Self::new(libc::ENOTRECOVERABLE, text)
    }

    /// Refuses a pointer that is NULL where the header forbids it; `what` names the pointer.
    pub(crate) fn if_null<T>(pointer: *const T, what: &str) -> Result<(), Self> {
        match pointer.is_null() {
            true => Err(Self::invalid(format!("{what} is NULL"))),
            false => Ok(()),
        }
    }

    /// Keeps the text for [`cwfs_last_error`] and returns the code.
    pub(crate) fn report(self) -> i64 {
        let text = CString::new(self.text.replace('\0', "?")).unwrap_or_default();
        // A thread that is ending cannot call [`cwfs_last_error`] any more.
        let _ = LAST.try_with(|last| *last.borrow_mut() = text);
        -i64::from(self.errno)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.system_number().into(), error.text())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Error numbers that this library returns besides those of the file system.
const OWN: &[(c_int, &str)] = &[
    (libc::EMFILE, "too many open files"),
    (libc::ENOTRECOVERABLE, "a bug in the library"),
];

/// Every number with its text.
fn texts() -> &'static [(c_int, CString)] {
    static TEXTS: OnceLock<Vec<(c_int, CString)>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let shared = Errno::ALL
            .iter()
            .map(|errno| (c_int::from(errno.0), errno.text()));
        let all = shared.chain(OWN.iter().copied());
        all.map(|(number, text)| (number, CString::new(text).unwrap_or_default()))
            .collect()
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_strerror(code: c_int) -> *const c_char {
    if code >= 0 {
        return c"no error".as_ptr();
    }
    let known = texts().iter().find(|(number, _)| code == -*number);
    let unknown: &CStr = c"an unknown error number, perhaps of a later version";
    known.map_or(unknown, |(_, text)| text).as_ptr()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}
