//! The agent of a node: a process of root's that holds the keys, and makes handshakes with servers for users who hold no keys.
//!
//! The page of [`causeway_bmi::agent`] describes the protocol, and which claims servers accept. This module is the process: it listens
//! at a Unix socket, asks the kernel which user has made each call, and lets [`AgentHandshake`]s reply. Callers may be hostile: each call is about
//! one handshake and has a deadline, requests are decoded in one place, a user has a bounded number of calls, and users are served in turn,
//! so that no user waits longer because another one calls often.

use std::collections::{HashMap, HashSet};
use std::fs::Permissions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bmi::agent::{AgentHandshake, Credentials};
use causeway_sys::limits;
use causeway_sys::process::{is_overflow_group, is_overflow_user};
use causeway_sys::socket::{Accepted, Received, RecordListener, RecordSocket};
use causeway_wire::agent::{MAX_MESSAGE_BYTES, Reply, Request};
use causeway_wire::codec::Wire as _;
use causeway_wire::user::{MAX_GROUPS, User};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use crate::config::{ConfigError, Configuration};
use crate::server::audit::LineLimit;

/// Most calls at one time, of all users; fewer if the process may have fewer files open.
const MAX_CALLS: usize = 1024;
/// Most calls of one user at one time.
const MAX_CALLS_OF_USER: usize = 256;
/// How long a call may take: its caller gives up a server that does not reply long before that.
const LONGEST_CALL: Duration = Duration::from_secs(60);
/// How long a call may last before its first request: a process has its request ready when it
/// connects.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);
/// The mode of the socket's directory: users can reach the socket, and cannot list the directory.
const DIRECTORY_MODE: u32 = 0o711;
/// Most calls accepted in one round, before those that wait are served again.
const ACCEPTS_PER_ROUND: usize = 64;
/// How long the agent pauses when it cannot accept calls: no event shows when it can.
const PAUSE: Duration = Duration::from_millis(50);

/// An error that ends the agent, or keeps it from starting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AgentError(String);

impl From<ConfigError> for AgentError {
    fn from(error: ConfigError) -> Self {
        Self(error.to_string())
    }
}

/// An agent that listens.
#[derive(Debug)]
pub struct Agent {
    listener: RecordListener,
    credentials: Credentials,
    configuration: Configuration,
    calls: Vec<Call>,
    max_calls: usize,
    stopped: UnixStream,
    stop: UnixStream,
    refusals: LineLimit,
    /// Refusals that were not logged since the last log line.
    left_out: u64,
}

/// A call in progress.
struct Call {
    socket: RecordSocket,
    handshake: AgentHandshake,
    deadline: Instant,
    /// No request has come yet.
    is_silent: bool,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("uid", &self.handshake.user().uid)
            .finish_non_exhaustive()
    }
}

/// Controls a running agent.
#[derive(Debug)]
pub struct AgentHandle {
    stop: UnixStream,
    configuration: Configuration,
    file: PathBuf,
}

impl AgentHandle {
    /// Ends the agent.
    pub fn stop(&mut self) {
        // It fails if the agent has ended already.
        let _ = self.stop.write_all(&[1]);
    }

    /// Has the agent read its node's certificate and key, the authorities and the list of revoked certificates again; the new ones
    /// apply to all later calls. If anything is wrong with them, the agent keeps the former ones.
    pub fn reload(&self) -> Result<(), ConfigError> {
        self.configuration.reload_nodes(&self.file, |_| Ok(()))
    }
}

impl Agent {
    /// Reads the keys and starts to listen, as a process of root's. The directory of the socket is made if it is missing.
    pub fn start(configuration: &Configuration) -> Result<Self, AgentError> {
        let Some(path) = &configuration.agent_socket else {
            return Err(AgentError(
                "the configuration names no socket for it: add `socket = \"/run/causeway/agent.sock\"` in a section `[agent]`, the same on every node"
                    .to_owned(),
            ));
        };
        if !rustix::process::geteuid().is_root() {
            return Err(AgentError(
                "it speaks for all users of this node, and only root may run it".to_owned(),
            ));
        }
        let key = configuration.key()?.ok_or_else(|| {
            AgentError(
                "the configuration names no key (`key_file`): there is nothing to vouch with"
                    .to_owned(),
            )
        })?;
        let credentials = Credentials {
            key,
            nodes: configuration.nodes()?,
        };
        let listener = listen(path)
            .map_err(|error| AgentError(format!("listening at {}: {error}", path.display())))?;
        let (stopped, stop) =
            UnixStream::pair().map_err(|error| AgentError(format!("making a socket: {error}")))?;
        let open_files = limits::open_files().unwrap_or(u64::MAX) / 2;
        Ok(Self {
            listener,
            credentials,
            configuration: configuration.clone(),
            calls: Vec::new(),
            max_calls: MAX_CALLS.min(usize::try_from(open_files).unwrap_or(MAX_CALLS)),
            stopped,
            stop,
            refusals: LineLimit::default(),
            left_out: 0,
        })
    }

    /// The path of its socket.
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// The name of its node, if nodes prove their identity.
    pub fn node(&self) -> Option<String> {
        let nodes = self.credentials.nodes.as_ref()?;
        Some(nodes.current().member().certificate().name.clone())
    }

    /// The handle that controls the agent; `file` is the path of its configuration.
    pub fn handle(&self, file: &Path) -> io::Result<AgentHandle> {
        Ok(AgentHandle {
            stop: self.stop.try_clone()?,
            configuration: self.configuration.clone(),
            file: file.to_owned(),
        })
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> Result<(), AgentError> {
        let mut paused_until: Option<Instant> = None;
        loop {
            let now = Instant::now();
            self.calls.retain(|call| call.deadline > now);
            let is_paused = paused_until.is_some_and(|until| until > now);
            let wake_at = self.calls.iter().map(|call| call.deadline);
            let wake_at = wake_at.chain(paused_until.filter(|_| is_paused)).min();
            let ready = self
                .wait(!is_paused, wake_at.map(|at| at - now))
                .map_err(|error| AgentError(format!("waiting for calls: {error}")))?;
            if ready.stops {
                let _ = self.stopped.read(&mut [0]);
                return Ok(());
            }
            self.serve(&ready.calls);
            if ready.calls_in {
                paused_until = self.accept().then(|| Instant::now() + PAUSE);
            }
        }
    }

    /// Sleeps until an event comes, or for `at_most`.
    fn wait(&self, accepts: bool, at_most: Option<Duration>) -> io::Result<Ready> {
        let listens = match accepts {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        let mut polled = vec![
            PollFd::new(&self.stopped, PollFlags::IN),
            PollFd::new(&self.listener, listens),
        ];
        let calls = self.calls.iter();
        polled.extend(calls.map(|call| PollFd::new(&call.socket, PollFlags::IN)));
        let at_most = at_most.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        match poll(&mut polled, at_most.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has = |at: usize| {
            polled
                .get(at)
                .is_some_and(|polled| !polled.revents().is_empty())
        };
        Ok(Ready {
            stops: has(0),
            calls_in: has(1),
            calls: (0..self.calls.len()).map(|at| has(at + 2)).collect(),
        })
    }

    /// Serves one request of each user who has requests waiting: a user who calls often waits for
    /// all others.
    fn serve(&mut self, ready: &[bool]) {
        let mut served = HashSet::new();
        let mut ended = Vec::new();
        for at in 0..self.calls.len() {
            let Some(call) = self.calls.get_mut(at) else {
                break;
            };
            let uid = call.handshake.user().uid;
            if !ready.get(at).is_some_and(|ready| *ready) || !served.insert(uid) {
                continue;
            }
            match call.take(&self.credentials) {
                Progress::Continues => {}
                Progress::Ended => ended.push(at),
                Progress::Refused(why) => {
                    ended.push(at);
                    self.report(uid, &why);
                }
            }
        }
        // From the back, so that the indices of the other calls stay right. The order of calls is kept: of a user's calls,
        // the oldest is served first.
        for at in ended.into_iter().rev() {
            self.calls.remove(at);
        }
    }

    /// Accepts calls. Returns whether the agent has to pause because it cannot accept any.
    fn accept(&mut self) -> bool {
        let farewell = Reply::Busy("it has no file descriptors left".to_owned()).to_bytes();
        for _ in 0..ACCEPTS_PER_ROUND {
            match self.listener.accept(&farewell) {
                Ok(Accepted::Connection(socket)) => self.admit(socket),
                Ok(Accepted::TurnedAway(error)) => {
                    self.report(0, &format!("a call is turned away: {error}"))
                }
                Ok(Accepted::Nothing) => return false,
                Err(error) => {
                    self.report(0, &format!("calls cannot be accepted: {error}"));
                    return true;
                }
            }
        }
        false
    }

    /// Admits a call, or replies why it is refused.
    fn admit(&mut self, socket: RecordSocket) {
        let reply = match user_of(&socket) {
            Ok(user) => match self.make_room(user.uid) {
                Ok(()) => {
                    let handshake = AgentHandshake::new(user);
                    let deadline = Instant::now() + LONGEST_SILENCE;
                    self.calls.push(Call {
                        socket,
                        handshake,
                        deadline,
                        is_silent: true,
                    });
                    return;
                }
                Err(busy) => Reply::Busy(busy),
            },
            Err(why) => {
                self.report(0, &why);
                Reply::Refused(why)
            }
        };
        // A new socket's buffer has room for these few bytes; a caller that has closed its socket
        // needs no reply.
        let _ = socket.send(&reply.to_bytes(), &[]);
    }

    /// Makes room for one more call of this user, if necessary by ending another call.
    fn make_room(&mut self, uid: u32) -> Result<(), String> {
        let calls = self.calls.iter();
        let calls = calls.map(|call| (call.handshake.user().uid, call.is_silent));
        let gives_way = call_to_end_for(uid, calls, self.max_calls)?;
        if let Some(at) = gives_way {
            let call = self.calls.remove(at);
            let why = format!(
                "{} calls wait, and others want to call",
                self.calls.len() + 1
            );
            // As above.
            let _ = call.socket.send(&Reply::Busy(why).to_bytes(), &[]);
        }
        Ok(())
    }

    /// Logs that a call is refused, unless such a line was logged a moment ago.
    fn report(&mut self, uid: u32, why: &str) {
        if !self.refusals.allows(Instant::now()) {
            self.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut self.left_out);
        tracing::warn!(uid, left_out, "a call is refused: {}", in_one_line(why));
    }
}

/// The events that have come.
struct Ready {
    stops: bool,
    calls_in: bool,
    calls: Vec<bool>,
}

/// The result of a request.
enum Progress {
    Continues,
    Ended,
    Refused(String),
}

impl Call {
    /// Receives the next request, and replies.
    fn take(&mut self, credentials: &Credentials) -> Progress {
        let mut room = [0; MAX_MESSAGE_BYTES];
        let request = match self.socket.receive(&mut room) {
            Ok(Received::Record(len, descriptors)) if descriptors.is_empty() => {
                Request::from_bytes(room.get(..len).unwrap_or_default())
                    .map_err(|error| error.to_string())
            }
            Ok(Received::Nothing) => return Progress::Continues,
            Ok(Received::Closed) => return Progress::Ended,
            Ok(_) => Err("it is too long, or has descriptors with it".to_owned()),
            Err(error) => return Progress::Refused(format!("it cannot be read: {error}")),
        };
        if std::mem::take(&mut self.is_silent) {
            self.deadline = Instant::now() + LONGEST_CALL;
        }
        let reply = match request {
            Ok(request) => self.handshake.on_request(credentials, &request),
            Err(why) => Reply::Refused(format!("this is no request: {why}")),
        };
        // A caller gets two replies at most, for which its socket has room; a caller that does not read them loses its reply.
        let bytes = Zeroizing::new(reply.to_bytes());
        let sent = self.socket.send(&bytes, &[]);
        match (reply, sent) {
            (Reply::SendStep(_), Ok(())) => Progress::Continues,
            (Reply::Done(done), Ok(())) => {
                let node = done.node.as_ref().map(|node| node.name.as_str());
                let User { uid, gid, .. } = self.handshake.user();
                tracing::debug!(uid, gid, node, "a connection speaks for a user");
                Progress::Ended
            }
            (Reply::Refused(why) | Reply::Busy(why), _) => Progress::Refused(why),
            (_, Err(_)) => Progress::Ended, // it is gone
        }
    }
}

/// A reason as text for the log. It may contain text that a caller has sent: characters are escaped that would begin a new
/// line, control a terminal, or change the direction of text.
fn in_one_line(why: &str) -> String {
    let escaped = |c: char| match c {
        '\'' | '"' | '\\' => String::from(c),
        c => c.escape_debug().collect(),
    };
    why.chars().map(escaped).collect()
}

/// The user who has made a call, as the kernel reports it.
fn user_of(socket: &RecordSocket) -> Result<User, String> {
    let unknown = |error: io::Error| {
        format!("the kernel does not report the credentials of the caller: {error}")
    };
    let peer = socket.peer().map_err(unknown)?;
    let user = User {
        uid: peer.uid,
        gid: peer.gid,
        groups: socket.peer_groups(MAX_GROUPS).map_err(unknown)?,
    };
    without_unknown(user, is_overflow_user, is_overflow_group)
}

/// The user without groups that have no number in the agent's user namespace: the number that the kernel puts in their place may be any group's.
/// An error if the user, or their own group, has none.
fn without_unknown(
    mut user: User,
    is_unknown_user: impl Fn(u32) -> bool,
    is_unknown_group: impl Fn(u32) -> bool,
) -> Result<User, String> {
    let unknown = |what: &str, number| {
        Err(format!(
            "{what} {number} has no number in the agent's user namespace, and may be any: run the agent outside of it"
        ))
    };
    if is_unknown_user(user.uid) {
        return unknown("user", user.uid);
    }
    if is_unknown_group(user.gid) {
        return unknown("group", user.gid);
    }
    user.groups.retain(|group| !is_unknown_group(*group));
    Ok(user)
}

/// The index of the call that has to end so that this user gets one more; `None` if there is room. `calls` are the users, and whether they have sent
/// no request yet, the oldest first. The chosen call is one of the user with most calls, if that user has more than this one. A process in a user
/// namespace may call under many user numbers: so a new caller is admitted even if no user has more calls, and calls without a request end first.
fn call_to_end_for(
    uid: u32,
    calls: impl Iterator<Item = (u32, bool)> + Clone,
    most: usize,
) -> Result<Option<usize>, String> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    let mut all = 0;
    for (of, _) in calls.clone() {
        *counts.entry(of).or_default() += 1;
        all += 1;
    }
    let own = counts.get(&uid).copied().unwrap_or(0);
    if own >= MAX_CALLS_OF_USER.min(most / 2) {
        return Err(format!("user {uid} has {own} calls that wait already"));
    }
    if all < most {
        return Ok(None);
    }
    let busiest = counts.into_iter().max_by_key(|(_, count)| *count);
    let busiest = busiest.filter(|(_, count)| *count > own + 1);
    let gives = |of: u32| busiest.is_none_or(|(busiest, _)| busiest == of);
    let oldest = |silent_alone: bool| {
        calls
            .clone()
            .position(|(of, is_silent)| gives(of) && (is_silent || !silent_alone))
    };
    Ok(oldest(true).or_else(|| oldest(false)))
}

/// Listens at this path, for all users of the node.
fn listen(path: &Path) -> io::Result<RecordListener> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    if !directory.exists() {
        std::fs::create_dir_all(directory)?;
        std::fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE))?;
    }
    check_directory(directory)?;
    let listener = RecordListener::bind(path)?;
    // Only root can have put anything else there.
    std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Checks that the socket's directory is closed to users: one who may write to it could put another agent in its place, and one who may read it
/// could hold the lock that the agent takes on it.
fn check_directory(directory: &Path) -> io::Result<()> {
    let found = std::fs::metadata(directory)?;
    let mode = found.mode() & 0o7777;
    if found.uid() == 0 && mode & 0o066 == 0 {
        return Ok(());
    }
    let directory = directory.display();
    Err(io::Error::other(format!(
        "the directory {directory} is user {}'s and has mode {mode:o}: it must be root's, and others may neither read nor write it: give the socket \
         a directory of its own, `chown root {directory} && chmod {DIRECTORY_MODE:o} {directory}`",
        found.uid()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_know_is_not_vouched_for() {
        let user = User {
            uid: 5,
            gid: 6,
            groups: vec![7, 65_534, 8, 65_534],
        };
        let overflow = |number| number == 65_534;
        let of = |user: &User| without_unknown(user.clone(), overflow, overflow);
        assert_eq!(of(&user).unwrap().groups, [7, 8]);
        let why = of(&User {
            uid: 65_534,
            ..user.clone()
        })
        .unwrap_err();
        assert!(why.contains("user 65534"), "{why}");
        let why = of(&User {
            gid: 65_534,
            ..user.clone()
        })
        .unwrap_err();
        assert!(why.contains("group 65534"), "{why}");
        // Outside of such a namespace, the number is nobody's own.
        let known = |_| false;
        assert_eq!(without_unknown(user.clone(), known, known), Ok(user));
    }

    #[test]
    fn a_new_caller_is_admitted_whatever_user_numbers_others_call_under() {
        let place =
            |uid, calls: &[(u32, bool)], most| call_to_end_for(uid, calls.iter().copied(), most);
        assert_eq!(place(1, &[(2, true)], 4), Ok(None));
        // Each call has another user number.
        let silent = [(2, false), (3, true), (4, true), (5, false)];
        assert_eq!(place(1, &silent, 4), Ok(Some(1)));
        let busy = silent.map(|(uid, _)| (uid, false));
        assert_eq!(place(1, &busy, 4), Ok(Some(0)));
        // User 2 has more calls: one of these ends, although a call of another user is silent.
        let busiest = [(3, true), (2, false), (2, true), (2, false)];
        assert_eq!(place(1, &busiest, 4), Ok(Some(2)));
        assert_eq!(
            place(1, &busiest.map(|(uid, _)| (uid, false)), 4),
            Ok(Some(1))
        );
        assert!(place(2, &busiest, 4).unwrap_err().contains("user 2 has 3"));
    }

    #[test]
    fn what_a_caller_sends_begins_no_line_of_the_log() {
        let address = "tcp://a:1\n2026-01-01 WARN all is well \u{1b}[2J\u{2028}\u{202e}";
        let shown = in_one_line(&format!("user 'é' asks for {address}"));
        assert!(!shown.contains(char::is_control), "{shown}");
        assert_eq!(
            shown,
            "user 'é' asks for tcp://a:1\\n2026-01-01 WARN all is well \\u{1b}[2J\\u{2028}\\u{202e}"
        );
    }

    #[test]
    fn the_sockets_directory_is_roots_and_shut() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: only root has directories of root's");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let mode = |mode| {
            let mode = Permissions::from_mode(mode);
            std::fs::set_permissions(directory.path(), mode).unwrap();
            check_directory(directory.path())
        };
        assert!(mode(0o711).is_ok() && mode(0o700).is_ok());
        for open in [0o755, 0o731, 0o713, 0o1777] {
            let why = mode(open).unwrap_err().to_string();
            assert!(why.contains("chmod 711"), "{why}");
        }
        assert!(mode(0o711).is_ok());
        std::os::unix::fs::chown(directory.path(), Some(61_234), None).unwrap();
        assert!(check_directory(directory.path()).is_err());
        let made = directory.path().join("made");
        let listener = listen(&made.join("socket")).unwrap();
        assert_eq!(std::fs::metadata(&made).unwrap().mode() & 0o777, 0o711);
        drop(listener);
    }
}
