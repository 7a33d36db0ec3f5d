//! Processes that work for a command: this program again, with a task.
//!
//! A worker is `causeway worker ROLE`, hidden from the help. It exchanges lines of JSON: its task
//! on standard input first, then messages both ways, as the task defines. It ends when its standard
//! input closes, so nothing outlives the command. [`Pool`] is the command's side, [`Channel`] the
//! worker's.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use causeway_watch::process::monotonic_ns;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::{Doing, Failure, Outcome};
use crate::shutdown;

/// The hidden subcommand.
pub const SUBCOMMAND: &str = "worker";

/// A worker's task, the first line on its standard input.
pub trait Task: Serialize + DeserializeOwned {
    /// The argument after [`SUBCOMMAND`], by which the program finds the code for such tasks.
    const ROLE: &'static str;
}

/// The command line of a worker for such tasks, with a pipe to and from it.
pub fn command<T: Task>() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([SUBCOMMAND, T::ROLE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok(command)
}

/// Runs a worker: reads its task and carries it out. Reports a failure to the command.
pub fn serve<T: Task>(run: impl FnOnce(T, &mut Channel) -> Outcome) -> Outcome {
    let mut channel = Channel::default();
    let result = match channel.receive::<T>()? {
        Some(task) => run(task, &mut channel),
        None => Ok(()),
    };
    result.map_err(|failure| {
        Channel::fail(&failure);
        Failure {
            silent: true,
            ..failure
        }
    })
}

/// The longest line that either side accepts.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// A worker's message to its command.
#[derive(Debug)]
pub enum Event<M> {
    /// A message.
    Message(M),
    /// The worker has ended; with the reason if that was no success.
    Ended(Option<String>),
}

/// Workers of one command.
pub struct Pool<M> {
    workers: Vec<Worker>,
    events: Receiver<(usize, Event<M>)>,
    sender: Sender<(usize, Event<M>)>,
}

struct Worker {
    child: Child,
    input: Option<ChildStdin>,
}

impl<M> Default for Pool<M> {
    fn default() -> Self {
        let (sender, events) = channel();
        Self {
            workers: Vec::new(),
            events,
            sender,
        }
    }
}

impl<M: DeserializeOwned + Send + 'static> Pool<M> {
    /// Starts a worker with a task; returns its number.
    pub fn start<T: Task>(&mut self, task: &T) -> Outcome<usize> {
        let doing = || "starting a worker process".to_owned();
        let mut command = command::<T>().doing(doing)?;
        shutdown::expect_children();
        let mut child = command.spawn().doing(doing)?;
        let number = self.workers.len();
        let output = child.stdout.take();
        let input = child.stdin.take();
        self.workers.push(Worker { child, input });
        let sender = self.sender.clone();
        let output = output
            .ok_or("the worker's standard output could not be opened")
            .doing(doing)?;
        std::thread::Builder::new()
            .name(format!("worker {number}"))
            .spawn(move || listen(number, BufReader::new(output), &sender))
            .doing(doing)?;
        self.send(number, task)?;
        Ok(number)
    }

    /// The number of workers that were started.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Sends a message to a worker.
    pub fn send(&mut self, number: usize, message: &impl Serialize) -> Outcome {
        let doing = || format!("sending a message to worker {number}");
        let worker = self.workers.get_mut(number);
        let input = worker.and_then(|worker| worker.input.as_mut());
        write_line(
            input.ok_or("the worker's input is closed").doing(doing)?,
            message,
        )
        .doing(doing)
    }

    /// Closes a worker's input: the worker gets no more messages.
    pub fn close(&mut self, number: usize) {
        if let Some(worker) = self.workers.get_mut(number) {
            worker.input = None;
        }
    }

    /// The next event, waiting at most this long; `None` if there was none.
    pub fn event(&self, wait: Duration) -> Option<(usize, Event<M>)> {
        self.events.recv_timeout(wait).ok()
    }

    /// The next message of every worker, in the order of workers.
    pub fn gather(&mut self, within: Duration, what: &str) -> Outcome<Vec<M>> {
        let deadline = Instant::now() + within;
        let mut replies: Vec<Option<M>> = self.workers.iter().map(|_| None).collect();
        let mut missing = replies.len();
        while missing > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some((number, event)) = self.event(left) else {
                return Err(Failure::new(
                    what,
                    format!(
                        "{missing} of {} workers did not reply within {within:?}",
                        self.count()
                    ),
                ));
            };
            match event {
                Event::Message(message) => {
                    if let Some(slot) = replies.get_mut(number)
                        && slot.is_none()
                    {
                        *slot = Some(message);
                        missing -= 1;
                    }
                }
                // A worker that has sent its message may end.
                Event::Ended(None) if replies.get(number).is_some_and(Option::is_some) => {}
                Event::Ended(reason) => {
                    let reason = reason.unwrap_or_else(|| "it ended early".to_owned());
                    return Err(Failure::new(what, format!("worker {number}: {reason}")));
                }
            }
        }
        Ok(replies.into_iter().flatten().collect())
    }

    /// Waits until every worker is ready, starts them at once, and returns the time of the start.
    pub fn start_together(&mut self, within: Duration) -> Outcome<(u64, Vec<M>)> {
        let ready = self.gather(within, "waiting for workers to be ready")?;
        let started = monotonic_ns();
        for number in 0..self.count() {
            self.send(number, &Start)?;
        }
        Ok((started, ready))
    }
}

impl<M> Drop for Pool<M> {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.input = None;
        }
        for worker in &mut self.workers {
            if !ends_within(&mut worker.child, Duration::from_secs(2)) {
                // The worker does not react; the result of its work is no longer needed.
                let _ = worker.child.kill();
            }
            let _ = worker.child.wait();
        }
    }
}

fn ends_within(child: &mut Child, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    loop {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        // The standard library waits for a child either without a limit or not at all.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The content of a worker's line.
#[derive(Debug, Serialize, Deserialize)]
enum Line<M> {
    Message(M),
    Failed(String),
}

fn listen<M: DeserializeOwned>(
    number: usize,
    mut output: impl BufRead,
    sender: &Sender<(usize, Event<M>)>,
) {
    let mut reason = None;
    let mut line = Vec::new();
    while let Ok(Some(line)) = read_line(&mut output, &mut line) {
        match serde_json::from_slice::<Line<M>>(line) {
            Ok(Line::Message(message)) => {
                if sender.send((number, Event::Message(message))).is_err() {
                    return;
                }
            }
            Ok(Line::Failed(why)) => reason = Some(why),
            Err(error) => {
                reason = Some(format!(
                    "the worker printed a line that is no message: {error}"
                ));
                break;
            }
        }
    }
    // The command may no longer need this worker.
    let _ = sender.send((number, Event::Ended(reason)));
}

/// A worker's channel to its command, on standard input and output.
pub struct Channel {
    input: BufReader<std::io::Stdin>,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            input: BufReader::new(std::io::stdin()),
        }
    }
}

impl Channel {
    /// The next message; `None` when there are no more.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Outcome<Option<T>> {
        let doing = || "reading the command's message".to_owned();
        let mut line = Vec::new();
        let line = read_line(&mut self.input, &mut line).doing(doing)?;
        line.map(serde_json::from_slice).transpose().doing(doing)
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize) -> Outcome {
        write_line(&mut std::io::stdout().lock(), &Line::Message(message))
            .doing(|| "telling the command".to_owned())
    }

    /// Reports that this worker is ready, waits until all are, and returns the time at which all
    /// were.
    pub fn barrier(&mut self, ready: &impl Serialize) -> Outcome<u64> {
        self.send(ready)?;
        match self.receive::<Start>()? {
            Some(Start) => Ok(monotonic_ns()),
            None => Err(Failure::new(
                "waiting for the start",
                "the command has ended",
            )),
        }
    }

    /// Reports to the command why this worker ends.
    pub fn fail(failure: &Failure) {
        // The command may be gone too.
        let failed = Line::<()>::Failed(failure.to_string());
        let _ = write_line(&mut std::io::stdout().lock(), &failed);
    }
}

fn write_line(out: &mut impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Reads the next line into `line`, replacing its content; `None` at the end of the input.
fn read_line<'a>(
    input: &mut impl BufRead,
    line: &'a mut Vec<u8>,
) -> std::io::Result<Option<&'a [u8]>> {
    line.clear();
    let count = input.take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    Ok((count > 0).then_some(line))
}

/// The message to every worker when all are ready.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Start;
