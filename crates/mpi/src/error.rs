//! Errors as MPI has them: a code, its class, and here also a text that says what is wrong.

use std::collections::BTreeMap;
use std::fmt;

use causeway_engine::types::{Error as EngineError, OpError};

use crate::abi;
use crate::status::Status;

/// Why a call failed. Small, as every call returns one.
#[derive(Debug, Clone)]
pub struct Error(Box<Body>);

#[derive(Debug, Clone)]
struct Body {
    code: i32,
    text: String,
    communicator: Option<usize>,
    status: Option<Status>,
}

/// A call's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of a class, such as [`abi::ERR_RANK`], or of a code that the program has added.
    #[cold]
    pub fn new(code: i32, text: impl Into<String>) -> Self {
        Self(Box::new(Body {
            code,
            text: text.into(),
            communicator: None,
            status: None,
        }))
    }

    /// The same error, as one of an operation on this communicator, or window.
    #[must_use]
    pub fn on(mut self, communicator: usize) -> Self {
        self.0.communicator = Some(communicator);
        self
    }

    /// The same error, of a receive whose message had this status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.0.status = Some(status);
        self
    }

    /// The status of the message that was received all the same, or did not fit.
    pub fn status(&self) -> Option<Status> {
        self.0.status
    }

    /// The communicator, or window, whose error handler is to be called, if the call itself names none.
    pub fn communicator(&self) -> Option<usize> {
        self.0.communicator
    }

    /// The code.
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// Whether the arguments of a call are wrong, and not the state of this process or of another one.
    pub(crate) fn is_of_arguments(&self) -> bool {
        let others = [
            abi::ERR_NO_MEM,
            abi::ERR_OTHER,
            abi::ERR_INTERN,
            abi::ERR_PROC_ABORTED,
        ];
        !others.contains(&self.code())
    }

    /// What is wrong.
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for Error {}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let class = match error {
            EngineError::Limit { .. } => abi::ERR_NO_MEM,
            _ => abi::ERR_OTHER,
        };
        Self::new(class, error.to_string())
    }
}

impl From<OpError> for Error {
    fn from(error: OpError) -> Self {
        let class = match error {
            OpError::TooLarge { .. } => abi::ERR_TRUNCATE,
            OpError::Peer { .. } | OpError::Withdrawn => abi::ERR_PROC_ABORTED,
            _ => abi::ERR_OTHER,
        };
        Self::new(class, error.to_string())
    }
}

impl From<causeway_transport::Error> for Error {
    fn from(error: causeway_transport::Error) -> Self {
        Self::new(abi::ERR_OTHER, error.to_string())
    }
}

/// The classes with their texts, in the order of their values.
const CLASSES: &[(i32, &str)] = &[
    (abi::SUCCESS, "no error"),
    (abi::ERR_BUFFER, "invalid buffer pointer"),
    (abi::ERR_COUNT, "invalid count"),
    (abi::ERR_TYPE, "invalid datatype"),
    (abi::ERR_TAG, "invalid tag"),
    (abi::ERR_COMM, "invalid communicator"),
    (abi::ERR_RANK, "invalid rank"),
    (abi::ERR_REQUEST, "invalid request"),
    (abi::ERR_ROOT, "invalid root"),
    (abi::ERR_GROUP, "invalid group"),
    (abi::ERR_OP, "invalid reduction operation"),
    (abi::ERR_TOPOLOGY, "invalid topology"),
    (abi::ERR_DIMS, "invalid dimensions"),
    (abi::ERR_ARG, "invalid argument"),
    (abi::ERR_UNKNOWN, "unknown error"),
    (abi::ERR_TRUNCATE, "message truncated on receive"),
    (abi::ERR_OTHER, "other error"),
    (abi::ERR_INTERN, "internal error"),
    (abi::ERR_PENDING, "pending request"),
    (abi::ERR_IN_STATUS, "the error code is in the status"),
    (abi::ERR_ACCESS, "permission denied"),
    (abi::ERR_AMODE, "invalid access mode"),
    (abi::ERR_ASSERT, "invalid assertion"),
    (abi::ERR_BAD_FILE, "invalid file name"),
    (abi::ERR_BASE, "invalid base address"),
    (abi::ERR_CONVERSION, "data conversion failed"),
    (abi::ERR_DISP, "invalid displacement"),
    (
        abi::ERR_DUP_DATAREP,
        "the data representation is defined already",
    ),
    (abi::ERR_FILE_EXISTS, "the file exists"),
    (abi::ERR_FILE_IN_USE, "the file is in use"),
    (abi::ERR_FILE, "invalid file handle"),
    (abi::ERR_INFO_KEY, "invalid info key"),
    (abi::ERR_INFO_NOKEY, "no such info key"),
    (abi::ERR_INFO_VALUE, "invalid info value"),
    (abi::ERR_INFO, "invalid info object"),
    (abi::ERR_IO, "input or output failed"),
    (abi::ERR_KEYVAL, "invalid attribute key"),
    (abi::ERR_LOCKTYPE, "invalid lock type"),
    (abi::ERR_NAME, "invalid service name"),
    (abi::ERR_NO_MEM, "out of memory"),
    (
        abi::ERR_NOT_SAME,
        "collective arguments differ between processes",
    ),
    (abi::ERR_NO_SPACE, "no space left"),
    (abi::ERR_NO_SUCH_FILE, "no such file"),
    (abi::ERR_PORT, "invalid port name"),
    (abi::ERR_QUOTA, "quota exceeded"),
    (abi::ERR_READ_ONLY, "read-only file or file system"),
    (abi::ERR_RMA_ATTACH, "memory cannot be attached"),
    (abi::ERR_RMA_CONFLICT, "conflicting accesses to a window"),
    (
        abi::ERR_RMA_RANGE,
        "target memory is not part of the window",
    ),
    (abi::ERR_RMA_SHARED, "memory cannot be shared"),
    (
        abi::ERR_RMA_SYNC,
        "wrong synchronization of accesses to a window",
    ),
    (abi::ERR_SERVICE, "no such service name"),
    (abi::ERR_SIZE, "invalid size"),
    (abi::ERR_SPAWN, "processes could not be started"),
    (
        abi::ERR_UNSUPPORTED_DATAREP,
        "unsupported data representation",
    ),
    (abi::ERR_UNSUPPORTED_OPERATION, "unsupported operation"),
    (abi::ERR_WIN, "invalid window"),
    (abi::ERR_RMA_FLAVOR, "wrong kind of window"),
    (
        abi::ERR_PROC_ABORTED,
        "a process has ended or cannot be reached",
    ),
    (abi::ERR_VALUE_TOO_LARGE, "value too large to be stored"),
    (abi::ERR_SESSION, "invalid session"),
    (abi::ERR_ERRHANDLER, "invalid error handler"),
    (abi::ERR_ABI, "unsupported ABI"),
];

/// All codes: those of the standard, and those that the program has added (MPI 5.0 §9.5).
#[derive(Debug, Default)]
pub struct Codes {
    /// By code: its class, and its text.
    added: BTreeMap<i32, (i32, String)>,
    /// The text of the latest error of each code, for `MPI_Error_string`.
    latest: BTreeMap<i32, String>,
}

impl Codes {
    /// The largest code that is used.
    pub fn last_used(&self) -> i32 {
        self.added
            .keys()
            .next_back()
            .map_or(abi::ERR_LASTCODE, |last| *last)
    }

    /// Adds a class.
    pub fn add_class(&mut self) -> i32 {
        let class = self.last_used() + 1;
        self.added.insert(class, (class, String::new()));
        class
    }

    /// Adds a code to a class.
    pub fn add_code(&mut self, class: i32) -> Result<i32> {
        self.class_of(class)?;
        let code = self.last_used() + 1;
        self.added.insert(code, (class, String::new()));
        Ok(code)
    }

    /// Gives an added code its text.
    pub fn set_text(&mut self, code: i32, text: String) -> Result<()> {
        let added = self.added.get_mut(&code);
        let (_, old) = added.ok_or_else(|| not_added(code))?;
        *old = text;
        Ok(())
    }

    /// Removes an added class or code, which must have no text any more, and a class no codes.
    pub fn remove(&mut self, code: i32, is_class: bool) -> Result<()> {
        let (class, text) = self.added.get(&code).ok_or_else(|| not_added(code))?;
        let mut others = self.added.iter().filter(|(other, _)| **other != code);
        let why = if (*class == code) != is_class {
            "it is a class if its code is to be removed, or a code if its class is"
        } else if !text.is_empty() {
            "it has a text"
        } else if is_class && others.any(|(_, (class, _))| *class == code) {
            "it has codes"
        } else {
            self.added.remove(&code);
            return Ok(());
        };
        let text = format!("{code} cannot be removed: {why}");
        Err(Error::new(abi::ERR_ARG, text))
    }

    /// The class of a code.
    pub fn class_of(&self, code: i32) -> Result<i32> {
        match self.added.get(&code) {
            Some((class, _)) => Ok(*class),
            None if standard_text(code).is_some() => Ok(code),
            None => Err(Error::new(abi::ERR_ARG, format!("{code} is no error code"))),
        }
    }

    /// The text of a code: the one that the program has given it, or the class's with that of its latest error.
    pub fn text_of(&self, code: i32) -> Result<String> {
        self.class_of(code)?;
        let mut text = match self.added.get(&code) {
            Some((_, text)) if !text.is_empty() => return Ok(text.clone()),
            Some(_) => String::new(),
            None => standard_text(code).unwrap_or_default().to_owned(),
        };
        if let Some(latest) = self.latest.get(&code) {
            text.push_str("; latest: ");
            text.push_str(latest);
        }
        Ok(text)
    }

    /// Notes an error that a call returns.
    pub fn note(&mut self, call: &str, error: &Error) {
        let text = format!("{call}: {error}");
        self.latest.insert(error.code(), text);
    }
}

fn not_added(code: i32) -> Error {
    Error::new(abi::ERR_ARG, format!("the error code {code} was not added"))
}

fn standard_text(code: i32) -> Option<&'static str> {
    let found = CLASSES.iter().find(|(class, _)| *class == code);
    found.map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_text() {
        for class in 0..=abi::ERR_ABI {
            assert!(standard_text(class).is_some(), "{class}");
        }
    }

    #[test]
    fn codes_can_be_added() {
        let mut codes = Codes::default();
        let class = codes.add_class();
        assert!(class > abi::ERR_LASTCODE);
        let code = codes.add_code(class).expect("the class is known");
        codes
            .set_text(code, "too hot".into())
            .expect("it was added");
        assert_eq!(codes.class_of(code).expect("known"), class);
        codes.note("MPI_Comm_dup", &Error::new(code, "of a copy function"));
        assert_eq!(codes.text_of(code).expect("known"), "too hot");
        assert!(codes.set_text(abi::ERR_RANK, String::new()).is_err());
        assert!(codes.class_of(code + 1).is_err());
        assert!(codes.remove(class, true).is_err(), "it has a code");
        assert!(codes.remove(code, false).is_err(), "it has a text");
        codes.set_text(code, String::new()).expect("it was added");
        assert!(codes.remove(code, true).is_err(), "it is no class");
        codes.remove(code, false).expect("it has no text");
        codes.remove(class, true).expect("it has no codes");
        assert_eq!(codes.last_used(), abi::ERR_LASTCODE);
        codes.note("MPI_Send", &Error::new(abi::ERR_RANK, "rank 9 of 4"));
        let text = codes.text_of(abi::ERR_RANK).expect("known");
        assert_eq!(text, "invalid rank; latest: MPI_Send: rank 9 of 4");
    }
}
