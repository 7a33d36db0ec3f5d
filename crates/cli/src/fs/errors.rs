//! What a user can do about an error of the file system.

use causeway_fs::Error;
use causeway_wire::fs::Errno;

/// What an error number means.
pub(crate) fn describe(errno: Errno) -> String {
    errno.to_string()
}

/// Whether other operations would fail the same way: a server is out of reach, or full.
pub(crate) fn is_fatal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ECONNREFUSED
            | Errno::EHOSTUNREACH
            | Errno::ETIMEDOUT
            | Errno::ECONNRESET
            | Errno::EKEYREJECTED
            | Errno::WRONG_TARGET
            | Errno::ENOSPC
            | Errno::EROFS
    )
}

/// What to do, where there is a next step that we know.
pub(crate) fn hint(error: &Error) -> Option<String> {
    let text = match error.errno {
        Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ETIMEDOUT | Errno::ECONNRESET => {
            "see which servers answer with `causeway fs ping`, start a missing one with \
             `causeway fs serve`"
        }
        Errno::EACCES | Errno::EPERM => {
            "look at the permissions along the path with `causeway fs stat`"
        }
        Errno::ENOSPC => "see how full each server is with `causeway fs df`",
        Errno::ENOTEMPTY => "remove a directory and what is in it with `causeway fs rm -r`",
        Errno::WRONG_TARGET => {
            "see which server is where with `causeway fs ping`, and which belong to the file system with \
             `causeway fs servers list`"
        }
        Errno::EKEYREJECTED => {
            "use the cluster's key (`key_file`), or for a shared-memory address the user that the servers run as"
        }
        Errno::CORRUPT => "look for the damage with `causeway fs fsck`",
        _ => return None,
    };
    Some(text.to_owned())
}
