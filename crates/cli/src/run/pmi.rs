//! The launcher's side of PMI-1: values that processes publish, and barriers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_wire::pmi::{Command, Lines, MAX_KEY, MAX_VALUE};

use super::event::Event;
use super::job_rank::JobRank;
use super::programs::Request;

/// The name of the one key-value space.
const SPACE: &str = "causeway";
/// The version of the protocol.
const VERSION: i64 = 1;
/// Most keys that all processes publish together, for each process.
const KEYS_PER_PROCESS: usize = 64;

/// Starts further programs for processes.
pub(super) trait Starter: Send + Sync + 'static {
    /// Starts programs, or returns why not.
    fn start(&self, request: Request) -> Result<(), String>;
    /// Reports an event.
    fn report(&self, event: Event);
}

/// The state that all processes of a program share.
pub(super) struct Server {
    world: u32,
    size: u32,
    universe: u32,
    /// For each program that was started, the rank after its last process.
    programs: Vec<u32>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    published: BTreeMap<String, String>,
    /// The ranks of the processes that wait in the barrier, and their connections.
    waiting: Vec<(u32, UnixStream)>,
    /// A process that has ended and never began: no barrier can be complete any more.
    absent: Option<u32>,
    phases: BTreeMap<u32, Phase>,
    /// Not all processes could be started, so the ends of the others are not reported.
    is_given_up: bool,
}

/// The state of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Begun,
    Finished,
}

impl Server {
    /// The server of the programs that were started as `world`.
    pub(super) fn new(world: u32, request: &Request, universe: u32) -> Self {
        let mut size = 0;
        let programs = request.programs.iter().map(|program| {
            size += program.processes;
            size
        });
        let programs = programs.collect();
        let shared = Shared {
            published: request.published.clone(),
            ..Shared::default()
        };
        Self {
            world,
            size,
            universe,
            programs,
            shared: Mutex::new(shared),
        }
    }

    /// How many processes there are.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process has begun and not finished. In a program that others have started, and
    /// wait for, all processes have to begin.
    pub(super) fn has_left_early(&self, rank: u32) -> bool {
        match self.shared().phases.get(&rank) {
            Some(Phase::Begun) => true,
            Some(Phase::Finished) => false,
            None => self.world > 0,
        }
    }

    /// Notes that a process has ended. If it never began, and another one waits for it in the barrier, returns that one's rank: the
    /// wait has failed. Programs that do not use MPI never begin, and have no barrier.
    pub(super) fn ended(&self, rank: u32) -> Option<u32> {
        let mut shared = self.shared();
        if !shared.phases.contains_key(&rank) {
            shared.absent.get_or_insert(rank);
        }
        shared.fail_barrier().map(|(_, waiting)| waiting)
    }

    /// Notes that not all processes could be started.
    pub(super) fn give_up(&self) {
        self.shared().is_given_up = true;
    }

    /// Whether not all processes could be started.
    pub(super) fn is_given_up(&self) -> bool {
        self.shared().is_given_up
    }

    /// Handles one process's requests, in a thread of its own. When the process has closed the
    /// connection, `last` is called.
    pub(super) fn serve(
        self: &Arc<Self>,
        rank: u32,
        stream: UnixStream,
        starter: &Arc<impl Starter>,
        last: Option<Event>,
    ) -> io::Result<()> {
        let server = Arc::clone(self);
        let starter = Arc::clone(starter);
        let world = self.world;
        let serve = move || {
            if let Err(error) = server.serve_commands(rank, stream, &starter) {
                starter.report(Event::ProtocolViolation(
                    JobRank { world, rank },
                    error.to_string(),
                ));
            }
            if let Some(last) = last {
                starter.report(last);
            }
        };
        std::thread::Builder::new()
            .name(format!("PMI {rank}"))
            .spawn(serve)?;
        Ok(())
    }

    fn serve_commands(
        &self,
        rank: u32,
        mut stream: UnixStream,
        starter: &Arc<impl Starter>,
    ) -> io::Result<()> {
        let mut lines = Lines::default();
        let mut bytes = [0; 4096];
        let mut request = Request::default();
        loop {
            let next = lines.next_command();
            let next = next.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let Some(command) = next else {
                match stream.read(&mut bytes) {
                    // The process has closed the connection, for whatever reason.
                    Ok(0) => return Ok(()),
                    Ok(read) => lines.push(&bytes[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Ok(()),
                }
                continue;
            };
            let answer = match command.name() {
                "abort" => {
                    let code = command.number("exitcode").unwrap_or(1);
                    let world = self.world;
                    starter.report(Event::Aborted(JobRank { world, rank }, code as i32));
                    continue;
                }
                "barrier_in" => {
                    let world = self.world;
                    if let Some((absent, rank)) = self.enter_barrier(rank, stream.try_clone()?) {
                        let absent = JobRank {
                            world,
                            rank: absent,
                        };
                        starter.report(Event::Absent(absent, JobRank { world, rank }));
                    }
                    continue;
                }
                "spawn" => {
                    let started = match request.add(&command) {
                        Ok(false) => continue,
                        Ok(true) => starter.start(std::mem::take(&mut request)),
                        Err(why) => {
                            request = Request::default();
                            Err(why)
                        }
                    };
                    let answer = Command::new("spawn_result");
                    match started {
                        Ok(()) => answer.with("rc", 0),
                        // Values have no blanks.
                        Err(why) => answer
                            .with("rc", -1)
                            .with("msg", why.replace(char::is_whitespace, "_")),
                    }
                }
                _ => self.reply(rank, &command),
            };
            if stream.write_all(answer.encode().as_bytes()).is_err() {
                return Ok(());
            }
        }
    }

    /// A process waits in the barrier. Returns the rank that is absent, and one that waits for it, if the barrier has failed.
    fn enter_barrier(&self, rank: u32, stream: UnixStream) -> Option<(u32, u32)> {
        let mut shared = self.shared();
        shared.waiting.push((rank, stream));
        if shared.waiting.len() == self.size as usize {
            shared.leave_barrier(&Command::new("barrier_out").with("rc", 0));
        }
        shared.fail_barrier()
    }

    fn reply(&self, rank: u32, command: &Command) -> Command {
        let fine = |name: &str| Command::new(name).with("rc", 0).with("msg", "success");
        let refused = |name: &str, why: &str| Command::new(name).with("rc", -1).with("msg", why);
        match command.name() {
            "init" => {
                let response = Command::new("response_to_init")
                    .with("pmi_version", VERSION)
                    .with("pmi_subversion", 1);
                let is_ours = command.number("pmi_version") == Some(VERSION);
                if !is_ours && command.get("pmi_version").is_some() {
                    return response.with("rc", -1).with("msg", "only_PMI-1_is_spoken");
                }
                self.shared().phases.insert(rank, Phase::Begun);
                response.with("rc", 0)
            }
            "finalize" => {
                self.shared().phases.insert(rank, Phase::Finished);
                Command::new("finalize_ack").with("rc", 0)
            }
            "get_maxes" => Command::new("maxes")
                .with("rc", 0)
                .with("kvsname_max", MAX_KEY)
                .with("keylen_max", MAX_KEY)
                .with("vallen_max", MAX_VALUE),
            "get_appnum" => {
                let number = self.programs.iter().filter(|end| **end <= rank).count();
                Command::new("appnum").with("rc", 0).with("appnum", number)
            }
            "get_my_kvsname" => Command::new("my_kvsname")
                .with("rc", 0)
                .with("kvsname", SPACE),
            "get_universe_size" => Command::new("universe_size")
                .with("rc", 0)
                .with("size", self.universe),
            "put" => match (command.get("key"), command.get("value")) {
                (Some(key), Some(value)) if key.len() <= MAX_KEY && value.len() <= MAX_VALUE => {
                    let mut shared = self.shared();
                    if shared.published.len() >= KEYS_PER_PROCESS * self.size as usize {
                        return refused("put_result", "too_many_keys");
                    }
                    shared.published.insert(key.to_owned(), value.to_owned());
                    fine("put_result")
                }
                _ => refused("put_result", "no_key_or_value_or_too_long"),
            },
            "get" => {
                let shared = self.shared();
                let value = command.get("key").and_then(|key| shared.published.get(key));
                match value {
                    Some(value) => fine("get_result").with("value", value),
                    // MPICH requests how processes are spread over hosts; all are on this one.
                    None if command.get("key") == Some("PMI_process_mapping") => {
                        let value = format!("(vector,(0,1,{}))", self.size);
                        fine("get_result").with("value", value)
                    }
                    None => refused("get_result", "no_such_key"),
                }
            }
            other => refused(&format!("{other}_result"), "unknown_command"),
        }
    }
}

impl Shared {
    /// Sends all processes that wait in the barrier its end.
    fn leave_barrier(&mut self, out: &Command) {
        let out = out.encode();
        for (_, mut waiting) in self.waiting.drain(..) {
            // The end of a process is reported elsewhere.
            let _ = waiting.write_all(out.as_bytes());
        }
    }

    /// Has the barrier fail if a process is absent. Returns that one, and one that has waited for it.
    fn fail_barrier(&mut self) -> Option<(u32, u32)> {
        let absent = self.absent?;
        let (waiting, _) = *self.waiting.first()?;
        let why = format!("rank_{absent}_has_ended_without_MPI_Init");
        self.leave_barrier(&Command::new("barrier_out").with("rc", -1).with("msg", why));
        Some((absent, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(world: u32, processes: u32) -> Server {
        let mut request = Request::alone();
        request.programs[0].processes = processes;
        Server::new(world, &request, processes)
    }

    #[test]
    fn each_process_has_the_number_of_its_program() {
        let mut request = Request::alone();
        request.programs.push(request.programs[0].clone());
        request.programs[0].processes = 2;
        let server = Server::new(1, &request, 3);
        let numbers = [0, 1, 2].map(|rank| {
            let answer = server.reply(rank, &Command::new("get_appnum"));
            answer.number("appnum")
        });
        assert_eq!(numbers, [Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn a_process_of_another_version_is_told_ours_and_has_not_begun() {
        let server = server(1, 1);
        let init = |version: &str| {
            let init = Command::new("init").with("pmi_version", version);
            let answer = server.reply(0, &init.with("pmi_subversion", 1));
            assert_eq!(answer.name(), "response_to_init");
            assert_eq!(answer.number("pmi_version"), Some(1));
            answer.number("rc")
        };
        for other in ["0", "2", "3", "2.0", "two", "-1"] {
            assert_eq!(init(other), Some(-1), "version {other}");
            assert!(server.shared().phases.is_empty(), "version {other}");
        }
        assert_eq!(init("1"), Some(0));
        assert!(!server.shared().phases.is_empty());
    }

    #[test]
    fn a_started_process_has_to_begin() {
        assert!(server(1, 1).has_left_early(0));
    }

    #[test]
    fn a_barrier_fails_if_a_process_has_ended_and_never_began() {
        for ends_first in [false, true] {
            let server = server(0, 2);
            server.reply(0, &Command::new("init"));
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let failed = if ends_first {
                assert_eq!(server.ended(1), None, "nobody waits yet");
                server.enter_barrier(0, ours)
            } else {
                assert_eq!(server.enter_barrier(0, ours), None);
                server.ended(1).map(|waiting| (1, waiting))
            };
            assert_eq!(failed, Some((1, 0)));
            let mut lines = Lines::default();
            let mut bytes = [0; 4096];
            let read = theirs.read(&mut bytes).expect("the end of the barrier");
            lines.push(&bytes[..read]);
            let out = lines.next_command().expect("PMI").expect("a line");
            assert_eq!((out.name(), out.number("rc")), ("barrier_out", Some(-1)));
        }
    }

    #[test]
    fn published_values_are_found_and_others_refused() {
        let server = server(0, 2);
        let put = Command::new("put")
            .with("kvsname", SPACE)
            .with("key", "a")
            .with("value", "1");
        assert_eq!(server.reply(0, &put).number("rc"), Some(0));
        let get = |key: &str| server.reply(1, &Command::new("get").with("key", key));
        assert_eq!(get("a").get("value"), Some("1"));
        assert_eq!(get("b").number("rc"), Some(-1));
        let long = Command::new("put")
            .with("key", "x")
            .with("value", "x".repeat(MAX_VALUE + 1));
        assert_eq!(server.reply(0, &long).number("rc"), Some(-1));
        assert_eq!(
            server.reply(0, &Command::new("dance")).number("rc"),
            Some(-1)
        );
    }

    #[test]
    fn a_process_that_has_begun_has_to_finish() {
        let server = server(0, 1);
        assert!(!server.has_left_early(0));
        server.reply(0, &Command::new("init"));
        assert!(server.has_left_early(0));
        server.reply(0, &Command::new("finalize"));
        assert!(!server.has_left_early(0));
    }
}
