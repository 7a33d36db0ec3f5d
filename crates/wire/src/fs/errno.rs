//! Error numbers: Linux's own (`asm-generic/errno*.h`), and Causeway's above 1000.

/// A POSIX error number of Linux, or one of ours above 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub u16);

/// `EHWPOISON`.
const LAST_OF_LINUX: u16 = 133;

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "`: ", $text, ".")]
                $(#[$doc])*
                pub const $name: Errno = Errno($number);
            )*

            /// The symbol, such as `ENOENT`; `None` for a number that is not listed here.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// The meaning of the number, for people.
            pub fn text(self) -> &'static str {
                match self.0 {
                    $($number => $text,)*
                    _ => "unknown error",
                }
            }

            /// Whether it may be a server's: any of Linux, since servers pass on what their disks report, and any above 1000, since a later build
            /// may have more of them.
            pub fn is_possible(self) -> bool {
                matches!(self.0, 1..=LAST_OF_LINUX) || self.0 > 1000
            }

            /// Every number listed here.
            pub const ALL: &'static [Errno] = &[$(Errno($number)),*];
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error";
    ENXIO = 6, "nothing there";
    E2BIG = 7, "too large";
    EBADF = 9, "bad handle";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "busy";
    EEXIST = 17, "file exists";
    EXDEV = 18, "on another file system";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files of all programs";
    EMFILE = 24, "too many open files of one program";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    ERANGE = 34, "out of range";
    EDEADLK = 35, "deadlock";
    ENAMETOOLONG = 36, "name too long";
    ENOLCK = 37, "no locks available";
    ENOSYS = 38, "not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links";
    ENODATA = 61, "no such attribute";
    EPROTO = 71, "protocol error";
    EOVERFLOW = 75, "value too large";
    EMSGSIZE = 90, "message too long";
    EOPNOTSUPP = 95, "not supported";
    ECONNRESET = 104, "connection reset";
    ENOBUFS = 105, "no buffer space";
    ETIMEDOUT = 110, "timed out";
    ECONNREFUSED = 111, "connection refused";
    EHOSTUNREACH = 113, "host unreachable";
    ESTALE = 116, "stale handle: the object is gone";
    EDQUOT = 122, "quota exceeded";
    ECANCELED = 125, "cancelled";
    ENOKEY = 126, "this process holds no key, and nobody speaks for it";
    EKEYREJECTED = 129, "the other side refused the credentials";
    /// The client requests the node again and then uses its datafiles.
    NOT_STUFFED = 1001, "the file's content is not (or no longer) stored beside its metadata";
    /// The client goes on with [`super::Operation::BeginUnstuff`], then repeats the request.
    STUFFED = 1002, "the file's content is still stored beside its metadata";
    /// The content is frozen while it moves to its first server: the client completes the move, then repeats the request.
    MOVING = 1003, "the file's content is on its way to its first server";
    /// The server repeats a slot's reply to its latest sequence number only.
    STALE_SEQUENCE = 1004, "a later request of the client's slot was carried out already";
    /// Nothing is wrong; the same request may succeed in a moment.
    RETRY = 1005, "not now: try again";
    /// The request names a server that does not serve this kind of operation.
    WRONG_SERVER = 1006, "this server does not serve that operation";
    /// The truncation is older than the last one.
    STALE_VERSION = 1007, "a later truncation has overtaken this one";
    /// The stored bytes are not what was written.
    CORRUPT = 1008, "stored data is damaged";
    /// Not carried out. Another [`super::Operation::Hello`] returns the identity of the server that is there now.
    WRONG_TARGET = 1009, "the request is meant for another server or another file system";
    /// The client requests the node again: data is lost only if the file still exists and was not
    /// truncated.
    MISSING = 1010, "stored data is absent";
    /// Nothing was appended: the client begins again.
    OVERTAKEN = 1011, "this client has lost the append lock of the file, and others may have appended since";
    /// Another client may have held the lock since: what it protected has to be read again.
    LOCK_LOST = 1012, "a lock was lost, since the connection with the metadata server was";
    /// The client requests another one from the metadata server, then repeats the request, which
    /// was not carried out.
    CAPABILITY_ENDED = 1013, "the right to use the file has to be renewed";
    /// A write had begun when its capability ended, and a part of it may have been stored: the client requests another capability, and
    /// repeats the write as one that was sent before.
    REVOKED = 1014, "permissions have changed while the request was in progress";
    /// The metadata server was restarted, or has forgotten the pointer while none of its clients was connected: its position is lost.
    POINTER_LOST = 1015, "the shared file pointer is not known any more";
}

impl core::fmt::Display for Errno {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => write!(out, "{} ({name})", self.text()),
            None => write!(out, "error {}", self.0),
        }
    }
}
