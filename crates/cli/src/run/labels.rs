//! The output of processes with labels: each line with the rank of the process that has written it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};

use super::event::Event;
use super::job_rank::JobRank;

/// Most bytes that are kept of a line: a longer one is printed in pieces.
const MOST_OF_LINE: usize = 1 << 20;
/// Bytes that are read at a time.
const PIECE: usize = 1 << 16;

/// The output of a process, which threads print.
pub(super) struct Labelled {
    /// Closed when the process has ended.
    running: UnixStream,
    /// Has no senders any more when all has been printed.
    printed: Receiver<()>,
}

impl Labelled {
    /// Prints what a process writes into its pipes.
    pub(super) fn start(
        job_rank: JobRank,
        child: &mut Child,
        events: &Sender<Event>,
    ) -> io::Result<Self> {
        let (running, ended) = UnixStream::pair()?;
        let (printing, printed) = channel();
        if let Some(out) = child.stdout.take() {
            let ended = ended.try_clone()?;
            let lines = Lines::new(job_rank, io::stdout());
            print(lines, out, ended, (printing.clone(), events.clone()))?;
        }
        if let Some(error) = child.stderr.take() {
            let lines = Lines::new(job_rank, io::stderr());
            print(lines, error, ended, (printing, events.clone()))?;
        }
        Ok(Self { running, printed })
    }

    /// Waits until all is printed that the process has written, which has ended. Processes that it has started may have the
    /// pipes open, and go on writing, as long as they like.
    pub(super) fn finish(self) {
        drop(self.running);
        let _ = self.printed.recv();
    }
}

/// Prints what comes from a pipe, in a thread of its own.
fn print(
    mut lines: Lines<impl Write + Send + 'static>,
    from: impl Read + AsFd + Send + 'static,
    ended: UnixStream,
    (printing, events): (Sender<()>, Sender<Event>),
) -> io::Result<()> {
    let job_rank = lines.job_rank;
    let body = move || match copy(&mut lines, from, ended, printing) {
        // Nobody reads the output any more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        // The receiver is gone if the command is ending.
        Err(error) => drop(events.send(Event::Unprinted(job_rank, error))),
        Ok(()) => {}
    };
    thread::Builder::new().spawn(body)?;
    Ok(())
}

/// Prints what comes from a pipe until its end. `printing` is dropped when all is printed that was in it when the process had ended.
fn copy(
    lines: &mut Lines<impl Write>,
    mut from: impl Read + AsFd,
    ended: UnixStream,
    printing: Sender<()>,
) -> io::Result<()> {
    let mut bytes = vec![0; PIECE];
    while !has_ended(&from, &ended)? {
        match from.read(&mut bytes)? {
            0 => return lines.end(),
            read => lines.add(&bytes[..read])?,
        }
    }
    let mut left = ioctl_fionread(&from)? as usize;
    while left > 0 {
        let read = from.read(&mut bytes[..left.min(PIECE)])?;
        lines.add(&bytes[..read])?;
        left -= read;
    }
    lines.end()?;
    drop(printing);
    loop {
        match from.read(&mut bytes)? {
            0 => return lines.end(),
            read => lines.add(&bytes[..read])?,
        }
    }
}

/// Waits until there is something to read or the process has ended, and returns whether it has.
fn has_ended(from: &impl AsFd, ended: &UnixStream) -> io::Result<bool> {
    let mut both = [
        PollFd::new(from, PollFlags::IN),
        PollFd::new(ended, PollFlags::IN),
    ];
    loop {
        match poll(&mut both, None) {
            Ok(_) => return Ok(!both[1].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Lines of a process.
struct Lines<T> {
    job_rank: JobRank,
    label: Vec<u8>,
    /// The label, and the part of a line that has come so far; empty if nothing has.
    line: Vec<u8>,
    to: T,
}

impl<T: Write> Lines<T> {
    fn new(job_rank: JobRank, to: T) -> Self {
        Self {
            job_rank,
            label: job_rank.label().into_bytes(),
            line: Vec::new(),
            to,
        }
    }

    /// Prints these bytes as far as they end lines.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.is_empty() {
                self.line.extend_from_slice(&self.label);
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() >= MOST_OF_LINE {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Prints what has come of a line, as a line.
    fn end(&mut self) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        if !self.line.ends_with(b"\n") {
            self.line.push(b'\n');
        }
        // In one call, so that lines of several processes do not mix.
        self.to.write_all(&self.line)?;
        self.line.clear();
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_with_labels_and_very_long_ones_in_pieces() {
        let rank = JobRank { world: 0, rank: 3 };
        let mut printed = Vec::new();
        let mut lines = Lines::new(rank, &mut printed);
        for part in [&b"a\nb"[..], b"c", b"\n\n", b"rest"] {
            lines.add(part).expect("memory");
        }
        lines.end().expect("memory");
        lines.end().expect("memory");
        assert_eq!(printed, b"[3] a\n[3] bc\n[3] \n[3] rest\n");
        let mut printed = Vec::new();
        let mut lines = Lines::new(rank, &mut printed);
        for _ in 0..40 {
            lines.add(&[b'x'; PIECE]).expect("memory");
        }
        assert!(lines.line.len() < MOST_OF_LINE);
        lines.end().expect("memory");
        let printed = printed.split(|byte| *byte == b'\n');
        let pieces: Vec<_> = printed.filter(|line| !line.is_empty()).collect();
        assert_eq!(pieces.len(), 3);
        assert!(pieces.iter().all(|piece| piece.starts_with(b"[3] x")));
        let all: usize = pieces.iter().map(|piece| piece.len() - 4).sum();
        assert_eq!(all, 40 * PIECE);
    }

    #[test]
    fn what_a_process_has_written_is_printed_at_its_end_though_others_have_its_pipe() {
        let (from, mut theirs) = UnixStream::pair().expect("a pair");
        let (running, ended) = UnixStream::pair().expect("a pair");
        let (printing, printed) = channel();
        let (out, mut said) = UnixStream::pair().expect("a pair");
        let mut lines = Lines::new(JobRank { world: 0, rank: 0 }, out);
        let copying = thread::spawn(move || copy(&mut lines, from, ended, printing));
        theirs.write_all(b"line\nrest").expect("room");
        drop(running);
        assert!(printed.recv().is_err(), "all is printed");
        let mut bytes = [0; b"[0] line\n[0] rest\n".len()];
        said.read_exact(&mut bytes).expect("it is printed");
        assert_eq!(&bytes, b"[0] line\n[0] rest\n");
        theirs.write_all(b"later").expect("room");
        drop(theirs);
        let mut later = String::new();
        said.read_to_string(&mut later).expect("it is printed");
        assert_eq!(later, "[0] later\n");
        assert!(copying.join().expect("no panic").is_ok());
    }
}
