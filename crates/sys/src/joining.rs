//! An exchange between two processes that have a connected socket: each sends the other a text, which decides
//! which of them comes first.
//!
//! The socket belongs to the program: the exchange leaves nothing in it, and changes none of its
//! settings.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::inherited;

/// Most bytes of a text.
const MOST: usize = 4096;

/// Whether this process comes first or second.
#[derive(Debug, PartialEq, Eq)]
pub enum Joined {
    /// This process comes first; the other one waits for it.
    First,
    /// The other process comes first, and this is its text.
    Second(Vec<u8>),
}

/// Exchanges a text with the process at the other end of the connected socket with this number. Of the two processes the one with the larger text comes first; equal
/// texts mean that both ends are the same process. Afterwards nothing is left in the socket, and it is blocking or nonblocking as before. Waits as long as the other
/// process takes.
pub fn exchange(number: RawFd, text: &[u8]) -> io::Result<Joined> {
    if text.len() > MOST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let socket = inherited::descriptor(number)?;
    let mut message = Vec::from((text.len() as u32).to_le_bytes());
    message.extend_from_slice(text);
    write_all(&socket, &message)?;
    let mut length = [0; 4];
    read_all(&socket, &mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut theirs = vec![0; length];
    read_all(&socket, &mut theirs)?;
    match text.cmp(&theirs) {
        std::cmp::Ordering::Greater => Ok(Joined::First),
        std::cmp::Ordering::Less => Ok(Joined::Second(theirs)),
        std::cmp::Ordering::Equal => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn wait(socket: &OwnedFd, for_what: PollFlags) -> io::Result<()> {
    let mut polled = [PollFd::new(socket, for_what)];
    loop {
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

fn write_all(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(socket, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read_all(socket: &OwnedFd, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match rustix::io::read(socket, &mut *into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => into = &mut into[read..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(socket, PollFlags::IN)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn two_processes_exchange_texts_and_leave_the_socket_empty() {
        let (mut a, mut b) = UnixStream::pair().expect("a pair");
        b.set_nonblocking(true).expect("it can be set");
        let there = b.as_raw_fd();
        let other = std::thread::spawn(move || exchange(there, b"b").expect("it is a socket"));
        assert_eq!(
            exchange(a.as_raw_fd(), b"a").expect("it is a socket"),
            Joined::Second(b"b".to_vec())
        );
        assert_eq!(other.join().expect("it ends"), Joined::First);
        a.write_all(b"x").expect("there is room");
        let mut byte = [0];
        b.read_exact(&mut byte).expect("the byte is in the socket");
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn an_empty_or_too_long_text_is_an_error() {
        let (a, b) = UnixStream::pair().expect("a pair");
        drop(b);
        assert!(exchange(a.as_raw_fd(), b"a").is_err());
        let (a, mut b) = UnixStream::pair().expect("a pair");
        b.write_all(&u32::MAX.to_le_bytes()).expect("there is room");
        assert!(exchange(a.as_raw_fd(), b"a").is_err());
        assert!(exchange(-1, b"a").is_err());
    }
}
