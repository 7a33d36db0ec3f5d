//! Which process is at the other end of a connection, and for which user it acts.

/// The identity of a peer, as far as the method can tell for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A process on this host, vouched for by the kernel: it made the connection.
    Local {
        /// Its process id.
        pid: i32,
        /// Its user id.
        uid: u32,
        /// Its group id.
        gid: u32,
    },
    /// A process on this host that holds the other end of a network connection. The kernel vouches for the user that made
    /// that socket. The socket may have been passed to a process of another user; whatever process uses it, the connection
    /// cannot speak for other users.
    SocketOf {
        /// The number of a process that holds it; 0 if it is not known.
        pid: i32,
        /// The user that made it.
        uid: u32,
        /// That process's group.
        gid: u32,
    },
    /// A holder of the cluster's key.
    Keyed,
    /// A process for which the agent of its node, which holds the cluster's key, has made the handshake: it speaks for one user
    /// alone, whose groups [`Method::user`](crate::Method::user) returns.
    OneUser {
        /// The user's number.
        uid: u32,
        /// The user's group.
        gid: u32,
    },
}

impl Identity {
    /// The identity of the calling process.
    pub fn this_process() -> Self {
        Self::Local {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        }
    }
}
