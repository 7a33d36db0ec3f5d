//! All processes of a run: those that the command starts, and those that they have it start.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_command::failure::{Doing, Outcome};
use causeway_wire::run;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use super::child::Signals;
use super::event::{Event, Running};
use super::events;
use super::job_rank::JobRank;
use super::labels::Labelled;
use super::pmi::{Server, Starter};
use super::programs::{MOST, Program, Request};

/// The information that processes are requested to publish.
pub(super) struct Shown {
    /// The memory file for the calls that they are in.
    pub(super) calls: String,
    /// Whether they write files of events.
    pub(super) has_events: bool,
}

/// See the module's page.
pub(super) struct Job {
    /// Whether lines of output get labels.
    pub(super) labels: bool,
    /// The universe size that is reported to programs.
    pub(super) universe: u32,
    /// The directory for sockets.
    pub(super) directory: PathBuf,
    shown: Shown,
    pub(super) events: Sender<Event>,
    /// The programs that were started, and the numbers of their processes. Locked while processes start, so that only the child being
    /// started inherits its socket.
    worlds: Mutex<Worlds>,
}

#[derive(Default)]
struct Worlds {
    servers: Vec<Arc<Server>>,
    processes: u32,
    /// Pages for hang reports that are in use.
    pages: u32,
}

impl Job {
    /// Nothing has been started yet.
    pub(super) fn new(
        (labels, universe): (bool, u32),
        directory: PathBuf,
        shown: Shown,
        events: Sender<Event>,
    ) -> Self {
        Self {
            labels,
            universe,
            directory,
            shown,
            events,
            worlds: Mutex::default(),
        }
    }

    fn worlds(&self) -> MutexGuard<'_, Worlds> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The PMI server of a process's program.
    pub(super) fn server(&self, job_rank: JobRank) -> Option<Arc<Server>> {
        self.worlds().servers.get(job_rank.world as usize).cloned()
    }

    fn add(&self, worlds: &mut Worlds, request: &Request) -> (u32, Arc<Server>) {
        let world = worlds.servers.len() as u32;
        let server = Arc::new(Server::new(world, request, self.universe));
        worlds.servers.push(Arc::clone(&server));
        (world, server)
    }

    /// Starts the programs of a request, which run no longer than the calling thread. If one of them cannot be started, those that run
    /// already are killed.
    pub(super) fn begin(self: &Arc<Self>, request: &Request) -> Outcome {
        let mut worlds = self.worlds();
        let (world, server) = self.add(&mut worlds, request);
        let directory = self.directory.join(world.to_string());
        let making = || format!("making {}", directory.display());
        std::fs::create_dir(&directory).doing(making)?;
        let each = request.programs.iter();
        let each = each.flat_map(|program| (0..program.processes).map(move |_| program));
        let mut started = Vec::new();
        for (rank, program) in (0..).zip(each) {
            let job_rank = JobRank { world, rank };
            let page = worlds.pages;
            worlds.pages += 1;
            match self.start_process((job_rank, page), program, (&server, &directory)) {
                Ok(process) => started.push(process),
                Err(failure) => {
                    server.give_up();
                    started
                        .iter()
                        .for_each(|process: &Signals| process.send(Signal::KILL));
                    return Err(failure);
                }
            }
        }
        worlds.processes += request.processes();
        Ok(())
    }

    /// Handles the requests of the process that has started this command in order to start others.
    pub(super) fn attach(self: &Arc<Self>, stream: UnixStream) -> Outcome {
        let request = Request::alone();
        let (world, server) = self.add(&mut self.worlds(), &request);
        let job_rank = JobRank { world, rank: 0 };
        server
            .serve(job_rank.rank, stream, self, Some(Event::Detached(job_rank)))
            .doing(|| "serving the process that has started this one".to_owned())
    }

    /// The command of a process, except for the connection to its server.
    fn command(
        &self,
        job_rank: JobRank,
        page: u32,
        program: &Program,
        directory: &Path,
    ) -> Command {
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .env("PMI_RANK", job_rank.rank.to_string())
            .env(causeway_mpi::process_table::DIRECTORY, directory)
            .env(run::CALLS, &self.shown.calls)
            .env(run::LAUNCHER_FORMATS, run::FORMATS.to_text())
            .env(run::PAGE, page.to_string());
        match self.shown.has_events {
            true => command.env(run::EVENTS, events::file_of(&self.directory, page)),
            // The variable is that of a launcher that runs this one.
            false => command.env_remove(run::EVENTS),
        };
        match job_rank.world {
            0 => command.env_remove("PMI_SPAWNED"),
            _ => command.env("PMI_SPAWNED", "1"),
        };
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        if let Some(path) = library_path() {
            command.env("LD_LIBRARY_PATH", path);
        }
        if job_rank != (JobRank { world: 0, rank: 0 }) {
            command.stdin(Stdio::null());
        }
        if self.labels {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        // A terminal sends SIGQUIT to this command, which reports, and to the processes, which ignore it.
        causeway_sys::process::ignore_quit(&mut command);
        // The thread that watches over the job starts all processes, so that they end with the command.
        causeway_sys::process::end_with_this_thread(&mut command);
        command
    }

    fn start_process(
        self: &Arc<Self>,
        (job_rank, page): (JobRank, u32),
        program: &Program,
        (server, directory): (&Arc<Server>, &Path),
    ) -> Outcome<Signals> {
        let doing = || format!("starting {job_rank} of {}", program.path.display());
        let (ours, theirs) = UnixStream::pair().doing(doing)?;
        // Only this child inherits the socket: it is closed here before the next child is started.
        fcntl_setfd(&theirs, FdFlags::empty()).doing(doing)?;
        let mut command = self.command(job_rank, page, program, directory);
        command
            .env("PMI_FD", theirs.as_raw_fd().to_string())
            .env("PMI_SIZE", server.size().to_string());
        let mut child = command.spawn().doing(doing)?;
        drop(theirs);
        let signals = Signals::of(&child);
        // The receiver is gone if the command is ending.
        let _ = self.events.send(Event::Started(Running {
            job_rank,
            page,
            signals: signals.clone(),
        }));
        let labelled = match self.labels {
            true => Some(Labelled::start(job_rank, &mut child, &self.events).doing(doing)?),
            false => None,
        };
        server.serve(job_rank.rank, ours, self, None).doing(doing)?;
        let (events, waited) = (self.events.clone(), signals.clone());
        std::thread::Builder::new()
            .name(format!("{job_rank}"))
            .spawn(move || {
                let status = waited.wait(&mut child);
                // The process's output is printed before its end is reported.
                labelled.into_iter().for_each(Labelled::finish);
                if let Ok(status) = status {
                    // The receiver is gone if the command is ending.
                    let _ = events.send(Event::Ended(job_rank, status));
                }
            })
            .doing(doing)?;
        Ok(signals)
    }
}

impl Starter for Job {
    fn start(&self, request: Request) -> Result<(), String> {
        let sum = self.worlds().processes.saturating_add(request.processes());
        if sum > MOST {
            return Err(format!(
                "there would be {sum} processes; there may be {MOST}"
            ));
        }
        request.check(std::env::var_os("PATH"))?;
        let (reply, started) = channel();
        // The receiver is gone if the command is ending, and drops the request if it is about to.
        let _ = self.events.send(Event::Start(request, reply));
        let is_ending = |_| "the launcher is ending".to_owned();
        started.recv().map_err(is_ending)?
    }

    fn report(&self, event: Event) {
        // The receiver is gone if the command is ending.
        let _ = self.events.send(event);
    }
}

/// The directory of our library, if it is where an installed one is.
fn library_path() -> Option<std::ffi::OsString> {
    let own = std::env::current_exe().ok()?;
    let here = own.parent()?;
    let places = ["", "../lib", "../lib/causeway-mpi"].map(|place| here.join(place));
    let place = places
        .into_iter()
        .find(|place| place.join("libmpi_abi.so.1").exists())?;
    let inherited = std::env::var_os("LD_LIBRARY_PATH");
    // Directories that the user has set come first.
    let paths = inherited
        .iter()
        .flat_map(std::env::split_paths)
        .collect::<Vec<_>>();
    std::env::join_paths(paths.into_iter().chain([place])).ok()
}
