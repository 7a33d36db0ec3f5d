//! Drawing on a terminal until the user ends it.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use causeway_command::failure::{Doing, Outcome};
use causeway_command::output::write_stdout;
use causeway_command::shutdown;
use causeway_report::style::{Style, paint};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::sample::{Sample, Watcher};
use super::table;

/// Switches to the alternate screen without a cursor; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
const CTRL_C: u8 = 3;
const ESCAPE: u8 = 27;

/// The terminal's settings before.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the terminal. Does nothing if nothing was changed.
fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let mut out = io::stdout().lock();
        // The terminal may be gone.
        let _ = out.write_all(LEAVE).and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

struct Screen;

impl Screen {
    fn enter() -> Outcome<Self> {
        let doing = || "preparing the terminal".to_owned();
        shutdown::on_signals()?;
        shutdown::before_exit(restore);
        let before = tcgetattr(io::stdin()).doing(doing)?;
        let mut raw = before.clone();
        raw.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let screen = Self;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).doing(doing)?;
        write_stdout(ENTER, b"");
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Draws until q, Escape or Ctrl-C.
pub(super) fn run(watcher: &mut Watcher, interval: Duration) -> Outcome {
    let _screen = Screen::enter()?;
    // The first table is drawn soon; the next ones at the requested interval.
    let mut next = Instant::now() + interval.min(Duration::from_millis(250));
    loop {
        if !wait_until(next)? {
            return Ok(());
        }
        let sample = watcher.sample()?;
        draw(&sample, interval);
        next = Instant::now() + interval;
    }
}

/// Waits; `false` if the user ends the command.
fn wait_until(next: Instant) -> Outcome<bool> {
    let doing = || "reading the keyboard".to_owned();
    let keyboard = io::stdin();
    loop {
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(true);
        }
        let mut ready = [PollFd::new(&keyboard, PollFlags::IN)];
        let timeout = Timespec::try_from(left).doing(doing)?;
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            // The window's size may have changed.
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(error) => return Err(error).doing(doing),
        }
        let mut keys = [0; 64];
        let count = rustix::io::read(&keyboard, &mut keys).doing(doing)?;
        let ends = |key: &u8| matches!(*key, b'q' | b'Q' | CTRL_C);
        // Arrow keys begin with an escape, too.
        if count == 0 || keys[..count].iter().any(ends) || keys[..count] == [ESCAPE] {
            return Ok(false);
        }
    }
}

fn draw(sample: &Sample, interval: Duration) {
    let (rows, columns) = match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        }
        _ => (24, 80),
    };
    let stalled: usize = sample
        .processes
        .iter()
        .map(|process| process.peers.iter().filter(|peer| peer.row.stalled).count())
        .sum();
    let peers: usize = sample
        .processes
        .iter()
        .map(|process| process.peers.len())
        .sum();
    let head = format!(
        "causeway top: {} processes, {peers} peers, {stalled} stalled; every {interval:?}; q quits",
        sample.processes.len()
    );
    let cut = |text: &str| text.chars().take(columns).collect::<String>();
    let mut lines = vec![paint(&cut(&head), Style::Bold), String::new()];
    if sample.processes.is_empty() {
        lines.push("no process that this user may observe uses the message layer".to_owned());
        if sample.not_allowed > 0 {
            lines.push(format!(
                "({} processes belong to other users)",
                sample.not_allowed
            ));
        }
    }
    for line in table::lines(sample) {
        let text = cut(&line.text);
        lines.push(line.style.map_or(text.clone(), |style| paint(&text, style)));
    }
    let left_out = lines.len().saturating_sub(rows);
    if left_out > 0 {
        lines.truncate(rows.saturating_sub(1));
        lines.push(format!("({} more lines)", left_out + 1));
    }
    let drawn = lines.join("\x1b[K\r\n");
    write_stdout(format!("\x1b[H{drawn}\x1b[K\x1b[J").as_bytes(), b"");
}
