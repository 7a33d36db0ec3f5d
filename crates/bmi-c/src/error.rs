//! Error codes, their names, and the text of the last error.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use causeway_bmi::{Error, OpError, PeerError};
use causeway_transport::{Error as TransportError, TransferError};

macro_rules! errors {
    ($($name:ident = $code:literal $text:literal)*) => {
        $(#[doc = $text] pub const $name: c_int = $code;)*

        /// Every code: its name in the header, its number, and its meaning.
        pub const ERRORS: &[(&str, c_int, &str)] = &[$((stringify!($name), $code, concat!($text, "\0"))),*];
    };
}

errors! {
    BMI_EINVAL = -1 "an argument is not allowed"
    BMI_EHANDLE = -2 "a handle is stale, or never was one"
    BMI_EADDRESS = -4 "an address cannot be used"
    BMI_ENOMETHOD = -5 "no method serves this kind of address"
    BMI_ESYSTEM = -6 "the operating system refused"
    BMI_ELIMIT = -7 "a limit is reached"
    BMI_EUNSUPPORTED = -8 "not supported here"
    BMI_ETOOLARGE = -9 "the message is too large"
    BMI_ECANCELLED = -10 "the operation was cancelled"
    BMI_EWITHDRAWN = -11 "the receiver cancelled its receive"
    BMI_EREFUSED = -12 "nothing listens at the address"
    BMI_ETIMEDOUT = -13 "the peer did not reply in time"
    BMI_ECLOSED = -14 "the peer closed the connection"
    BMI_EBROKEN = -15 "the connection broke: the peer died or the network lost it"
    BMI_EPROTOCOL = -16 "the peer broke the protocol"
    BMI_EAUTH = -17 "not authorised"
    BMI_EDISCONNECTED = -18 "this process disconnected"
    BMI_EPROTECTION = -19 "the peer does not export that memory (any more)"
    BMI_ECOPY = -20 "copying failed"
    BMI_ELENGTH = -21 "local and remote memory differ in length"
    BMI_EREADONLY = -22 "the memory is for reading only"
    BMI_EINTERNAL = -23 "a bug in the library; finalize the instance"
    BMI_EFULL = -24 "the peer takes no more connections now"
}

/// Why a call fails.
pub(crate) struct Failure {
    code: c_int,
    text: String,
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: c_int, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// An argument that is not allowed.
    #[cold]
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(BMI_EINVAL, text)
    }

    /// Refuses a pointer that is NULL where the header requires another; `what` names it.
    pub(crate) fn if_null<T>(pointer: *const T, what: &str) -> Result<(), Self> {
        match pointer.is_null() {
            true => Err(Self::invalid(format!("{what} is NULL"))),
            false => Ok(()),
        }
    }

    /// Stores the text for [`BMI_last_error`] and returns the code.
    #[cold]
    pub(crate) fn report(self) -> c_int {
        // The library's own texts contain no NUL, but an address in one could.
        let text = CString::new(self.text.replace('\0', "?")).unwrap_or_default();
        // A thread that is ending cannot call [`BMI_last_error`] any more.
        let _ = LAST.try_with(|last| *last.borrow_mut() = text);
        self.code
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Transport(error) => transport(error),
            Error::Stale(_) | Error::Forked => BMI_EHANDLE,
            Error::UnexpectedTooLarge { .. } => BMI_ETOOLARGE,
            Error::ReadOnly => BMI_EREADONLY,
            Error::Limit { .. } => BMI_ELIMIT,
            Error::OptionOfInstance => BMI_EINVAL,
            _ => BMI_EUNSUPPORTED,
        };
        Self::new(code, error.to_string())
    }
}

impl From<TransportError> for Failure {
    #[cold]
    fn from(error: TransportError) -> Self {
        Self::new(transport(&error), error.to_string())
    }
}

impl From<OpError> for Failure {
    #[cold]
    fn from(error: OpError) -> Self {
        let code = match &error {
            OpError::Peer { cause, .. } => peer(cause),
            OpError::TooLarge { .. } => BMI_ETOOLARGE,
            OpError::Cancelled => BMI_ECANCELLED,
            OpError::Transfer(error) => transfer(error),
            OpError::Withdrawn => BMI_EWITHDRAWN,
            _ => BMI_EUNSUPPORTED,
        };
        Self::new(code, error.to_string())
    }
}

fn transport(error: &TransportError) -> c_int {
    match error {
        TransportError::BadAddress { .. } => BMI_EADDRESS,
        TransportError::NoMethod { .. } => BMI_ENOMETHOD,
        TransportError::System { .. } => BMI_ESYSTEM,
        TransportError::Limit { .. } => BMI_ELIMIT,
        TransportError::NoPeer => BMI_EDISCONNECTED,
        _ => BMI_EUNSUPPORTED,
    }
}

fn peer(cause: &PeerError) -> c_int {
    match cause {
        PeerError::Refused(_) => BMI_EREFUSED,
        PeerError::TimedOut(_) => BMI_ETIMEDOUT,
        PeerError::Closed => BMI_ECLOSED,
        PeerError::Protocol(_) => BMI_EPROTOCOL,
        PeerError::Unauthorised(_) => BMI_EAUTH,
        PeerError::Disconnected => BMI_EDISCONNECTED,
        PeerError::Full(_) => BMI_EFULL,
        PeerError::Exhausted(_) => BMI_ESYSTEM,
        // Every other failure of a peer breaks the connection.
        _ => BMI_EBROKEN,
    }
}

fn transfer(error: &TransferError) -> c_int {
    match error {
        TransferError::Protection => BMI_EPROTECTION,
        TransferError::Peer(cause) => peer(cause),
        TransferError::Length { .. } => BMI_ELENGTH,
        _ => BMI_ECOPY,
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_strerror(code: c_int) -> *const c_char {
    let known = ERRORS.iter().find(|(_, known, _)| *known == code);
    let text = match known {
        Some((_, _, text)) => CStr::from_bytes_until_nul(text.as_bytes()).unwrap_or_default(),
        None if code >= 0 => c"no error",
        None => c"an error of a later version",
    };
    text.as_ptr()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}
