//! Copying a part of a file to another file, or to another part of the same one.
//!
//! Where both files are distributed in the same way, and both parts begin at the same place in a row of strips, each I/O server has the bytes and
//! their place: the servers copy, and nothing passes through the client, which requests pieces of bounded length and then tells the metadata
//! server how far the file reaches, as after a write. Everything else is read and written, in the same call.

use causeway_bmi::Memory;
use causeway_wire::fs::{
    Body, DataSource, Distribution, DistributionHint, Errno, MAX_STUFFED_BYTES, NOT_KNOWN, Node,
    Operation, Reach, Region, ReplyBody,
};

use super::allocation::reaches;
use super::call::Call;
use super::call_error::{CallError, object_name, take_reply};
use super::connection::Client;
use super::file::{File, version};
use super::io::{FORM_CHANGES, Form, check_end, keeps_changing, striping};
use super::nodes::node;
use super::transfer::{IoKind, IoList};
use crate::Error;
use crate::distribution::{MAX_FILE_BYTES, Striping};

/// Bytes of a datafile that one request copies at most.
const PIECE_BYTES: u64 = 4 << 20;
/// Requests to one server that are in progress at once: two of its threads copy, and two requests wait.
const PIECES_AT_ONCE: u64 = 4;
/// Bytes that are read, and then written, where servers do not copy themselves.
const BUFFER_BYTES: u64 = 4 << 20;
/// Shorter holes are copied as zeros where servers do not copy themselves.
const HOLE_BYTES: u64 = 64 << 10;

/// A part of a file, and where it is copied to.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: u64,
    to: u64,
    len: u64,
}

impl Span {
    fn behind(self, done: u64) -> Self {
        Self {
            from: self.from + done,
            to: self.to + done,
            len: self.len - done,
        }
    }

    fn first(self, len: u64) -> Self {
        Self {
            len: self.len.min(len),
            ..self
        }
    }

    fn target(self) -> Region {
        Region {
            offset: self.to,
            len: self.len,
        }
    }
}

/// A part of a datafile that a server is to copy.
#[derive(Debug, Clone, Copy)]
struct Piece {
    position: usize,
    span: Span,
}

/// What servers have copied.
#[derive(Debug, Default)]
struct AtServers {
    has_holes: bool,
    reached: Vec<Reach>,
}

/// Why a round of copying was not done.
enum Undone {
    /// A server cannot copy.
    Unable,
    /// A file was truncated, or took another form, meanwhile, which it then shows.
    Changed,
}

/// A distribution that a new file gets if it is to lie where this one does.
fn hint_of(distribution: &Distribution) -> Option<DistributionHint> {
    Some(DistributionHint {
        strip_size: distribution.strip_size,
        servers: u16::try_from(distribution.servers.len()).ok()?,
        start: distribution.servers.first()?.checked_add(1)?,
    })
}

fn distribution_of(node: &Node) -> Option<&Distribution> {
    match &node.body {
        Body::Striped { distribution, .. } | Body::Stuffed { distribution, .. } => {
            Some(distribution)
        }
        _ => None,
    }
}

/// Whether a byte at `from` of one file lies on the same server as one at `to` of another, and so on behind them.
fn is_congruent(striping: &Striping, distribution: &Distribution, from: u64, to: u64) -> bool {
    let row = u64::from(distribution.strip_size).saturating_mul(striping.servers() as u64);
    striping.servers() == 1 || from % row == to % row
}

impl Client {
    /// The distribution by which a new file in this directory lies on the same servers in the same way as this one, so that servers copy between
    /// them; `None` for a file whose content is beside its metadata, and if the directory says how files in it are to lie.
    pub fn distribution_for_copy(&self, file: &File, directory: &Node) -> Option<DistributionHint> {
        match (&file.node.body, &directory.body) {
            (Body::Striped { distribution, .. }, Body::Directory(default))
                if *default == DistributionHint::default() =>
            {
                hint_of(distribution)
            }
            _ => None,
        }
    }

    /// Whether two files have the same distribution, so that I/O servers copy between them, and the one that is read has datafiles.
    pub fn lie_alike(&self, source: &File, target: &File) -> bool {
        let is_striped = matches!(source.node.body, Body::Striped { .. });
        is_striped && distribution_of(&source.node) == distribution_of(&target.node)
    }

    /// Copies `len` bytes of a file to another one, which gets as large as they reach. Returns how many were copied: fewer at the end of the
    /// file that is read, or if it was truncated meanwhile, or if a later part failed, of which the next call has the error. I/O servers copy by
    /// themselves if both files have the same distribution, and both offsets are the same modulo a row of strips (one on each server).
    /// Holes become holes, or zeros. Two parts of one file (`source` and `target` being two values for it) must not overlap: `EINVAL`.
    pub fn copy_range(
        &mut self,
        source: &mut File,
        source_offset: u64,
        target: &mut File,
        target_offset: u64,
        len: u64,
    ) -> Result<u64, Error> {
        let span = Span {
            from: source_offset,
            to: target_offset,
            len,
        };
        self.try_copy(source, target, span)
            .map_err(|error| error.during("copy", &object_name(target.node.object)))
    }

    fn try_copy(
        &mut self,
        source: &mut File,
        target: &mut File,
        span: Span,
    ) -> Result<u64, CallError> {
        self.check_access(source, IoKind::Read)?;
        self.check_access(target, IoKind::Write)?;
        self.refresh_node(source)?;
        self.form(source)?;
        let wanted = span.len.min(bytes_from(source, span.from));
        if wanted == 0 {
            return Ok(0);
        }
        check_end(span.to.saturating_add(1))?;
        let wanted = wanted.min(MAX_FILE_BYTES - span.to);
        let distance = span.from.abs_diff(span.to);
        if source.node.object == target.node.object && distance < wanted {
            let message = "the parts overlap";
            return Err(CallError::local(Errno::EINVAL, message));
        }
        let (mut done, mut may_be_able) = (0, true);
        while done < wanted {
            let left = wanted
                .min(bytes_from(source, span.from))
                .saturating_sub(done);
            if left == 0 {
                break;
            }
            let rest = Span {
                len: left + done,
                ..span
            }
            .behind(done);
            match self.copy_some(source, target, rest, &mut may_be_able) {
                Ok(0) => break,
                Ok(copied) => done += copied,
                // The caller learns how much is done; what comes next fails again.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Copies the front of a part. Returns how much of it, which is nothing only if the file that is read ends there.
    fn copy_some(
        &mut self,
        source: &mut File,
        target: &mut File,
        span: Span,
        may_be_able: &mut bool,
    ) -> Result<u64, CallError> {
        for _ in 0..FORM_CHANGES {
            let span = span.first(bytes_from(source, span.from));
            if span.len == 0 {
                return Ok(0);
            }
            let common = match *may_be_able {
                true => self.common_distribution(source, target, span)?,
                false => None,
            };
            let Some(distribution) = common else {
                return self.copy_through(source, target, span);
            };
            match self.copy_round(source, target, &distribution, span)? {
                Ok(copied) => return Ok(copied),
                Err(Undone::Unable) => *may_be_able = false,
                Err(Undone::Changed) => {}
            }
        }
        Err(keeps_changing())
    }

    /// The distribution of both files, if servers can copy from the one to the other. The content of the file that is written is moved to datafiles
    /// for that if it is to become too large for its place.
    fn common_distribution(
        &mut self,
        source: &mut File,
        target: &mut File,
        span: Span,
    ) -> Result<Option<Distribution>, CallError> {
        let Body::Striped {
            distribution,
            truncating: None,
            ..
        } = &source.node.body
        else {
            return Ok(None);
        };
        let distribution = distribution.clone();
        let striping = striping(&distribution)?;
        if !is_congruent(&striping, &distribution, span.from, span.to) {
            return Ok(None);
        }
        self.have_lie_alike(source, target, &distribution, span)?;
        if distribution_of(&target.node) != Some(&distribution) {
            return Ok(None);
        }
        match self.form(target)? {
            Form::Stuffed { .. } if span.to + span.len <= MAX_STUFFED_BYTES as u64 => Ok(None),
            Form::Stuffed { .. } => {
                self.unstuff(target)?;
                self.form(target)?;
                Ok(Some(distribution))
            }
            Form::Striped(_) => Ok(Some(distribution)),
        }
    }

    /// Has an empty file without datafiles get them where the other one has its own, if enough is copied to it.
    fn have_lie_alike(
        &mut self,
        source: &File,
        target: &mut File,
        wanted: &Distribution,
        span: Span,
    ) -> Result<(), CallError> {
        let Body::Stuffed {
            distribution,
            moving: false,
            ..
        } = &target.node.body
        else {
            return Ok(());
        };
        let is_small = span.to + span.len <= MAX_STUFFED_BYTES as u64;
        // What differs otherwise is what the directory, or who has made the file, wants.
        let is_shaped_alike = distribution.strip_size == wanted.strip_size
            && distribution.servers.len() == wanted.servers.len();
        if is_small || !is_shaped_alike || distribution == wanted || target.node.attributes.size > 0
        {
            return Ok(());
        }
        let lie_like = Operation::LieLike {
            object: target.node.object,
            other: source.node.object,
        };
        match self.mutate(lie_like).and_then(node) {
            Ok(node) => target.update_node(node),
            // A metadata server of an earlier build.
            Err(error) if error.errno == Errno::EOPNOTSUPP => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Has servers copy the front of a part.
    fn copy_round(
        &mut self,
        source: &mut File,
        target: &mut File,
        distribution: &Distribution,
        span: Span,
    ) -> Result<Result<u64, Undone>, CallError> {
        let striping = striping(distribution)?;
        let round = PIECE_BYTES * PIECES_AT_ONCE * striping.servers() as u64;
        let span = span.first(round);
        let servers = self.io_servers(distribution)?;
        self.will_change(target, &servers)?;
        target.forget_content();
        let mut left = pieces(&striping, span);
        let mut copied = AtServers::default();
        while !left.is_empty() {
            let calls = self.copy_calls(source, target, distribution, &left)?;
            let results = self.rpc.call_all(calls);
            let is_unable = |error: &CallError| error.errno == Errno::EOPNOTSUPP;
            if results
                .iter()
                .any(|result| result.as_ref().is_err_and(is_unable))
            {
                return Ok(Err(Undone::Unable));
            }
            let is_missing = |error: &CallError| error.errno == Errno::MISSING;
            if results
                .iter()
                .any(|result| result.as_ref().is_err_and(is_missing))
            {
                let known = version(&source.node);
                self.refresh_node(source)?;
                if version(&source.node) != known {
                    return Ok(Err(Undone::Changed));
                }
            }
            let Some(replies) = self.unless_missing(target, results)? else {
                return Ok(Err(Undone::Changed));
            };
            let mut rest = Vec::new();
            for (piece, reply) in left.into_iter().zip(replies) {
                rest.extend(copied.take(piece, reply)?);
            }
            left = rest;
        }
        let mut done = span.len;
        if copied.has_holes {
            // What was a hole may have been the end of a file that was truncated meanwhile.
            self.refresh_node(source)?;
            done = done.min(bytes_from(source, span.from));
        }
        let known = version(&target.node);
        let from = match copied.has_holes {
            true => NOT_KNOWN,
            false => span.to,
        };
        let tell = Operation::Extend {
            object: target.node.object,
            end: span.to + done,
            modified: crate::clock::now(),
            version: known.map_or(0, |(version, _)| version),
            reached: copied.reached.clone(),
            from,
        };
        target.update_node(self.mutate(tell).and_then(node)?)?;
        target.note_written((from, span.to + done), &copied.reached);
        if version(&target.node) != known {
            return Ok(Err(Undone::Changed));
        }
        if done < span.len {
            self.make_zeros(target, span.behind(done).target())?;
        }
        Ok(Ok(done))
    }

    fn copy_calls(
        &mut self,
        source: &File,
        target: &File,
        distribution: &Distribution,
        pieces: &[Piece],
    ) -> Result<Vec<Call>, CallError> {
        let calls = pieces.iter().map(|&Piece { position, span }| {
            let server = self.io_server(distribution, position)?;
            let operation = Operation::CopyData {
                object: target.node.object,
                number: 0,
                repeated: None,
                at_least: target.least_length(position),
                region: span.target(),
                source: Box::new(DataSource {
                    object: source.node.object,
                    offset: span.from,
                    at_least: source.least_length(position),
                    capability: None,
                }),
            };
            Ok(Call::query(server, operation))
        });
        calls.collect()
    }

    /// Copies the front of a part by reading and writing it.
    fn copy_through(
        &mut self,
        source: &mut File,
        target: &mut File,
        span: Span,
    ) -> Result<u64, CallError> {
        let mut span = span;
        if let Body::Striped { sparse: true, .. } = source.node.body {
            let data = self.try_next_data(source, span.from)?;
            let hole = data.map_or(span.len, |data| data.offset.saturating_sub(span.from));
            match hole.min(span.len) {
                0 => span = span.first(data.map_or(span.len, |data| data.len)),
                hole if hole < HOLE_BYTES => span = span.first(hole),
                hole => {
                    self.copy_hole(target, span.first(hole).target())?;
                    return Ok(hole);
                }
            }
        }
        let span = span.first(BUFFER_BYTES);
        let buffer = self.copy_buffer(span.len)?;
        let regions = [Region {
            offset: span.from,
            len: span.len,
        }];
        let list = IoList {
            regions: &regions,
            memory: std::slice::from_ref(&buffer),
        };
        let count = self.read_checked(source, list)?;
        if count > 0 {
            let regions = [span.first(count).target()];
            let list = IoList {
                regions: &regions,
                memory: &[buffer.slice(0..count as usize)],
            };
            self.write_round(target, list)?;
        }
        Ok(count)
    }

    /// Has a part of a file read as zeros, and the file reach its end.
    fn copy_hole(&mut self, target: &mut File, part: Region) -> Result<(), CallError> {
        self.refresh_node(target)?;
        if target.node.attributes.size > part.offset {
            self.make_zeros(target, part)?;
        }
        let end = part.offset + part.len;
        let grow = reaches(target, end, end);
        self.resize(target, &grow)
    }

    fn copy_buffer(&mut self, len: u64) -> Result<Memory, CallError> {
        self.allocate(len as usize)
            .map_err(|error| CallError::local(error.errno, error.message))
    }
}

/// How many bytes a file has from an offset on.
fn bytes_from(file: &File, offset: u64) -> u64 {
    file.node.attributes.size.saturating_sub(offset)
}

/// The parts of the datafiles that belong to a part of a file, which lies alike in the other one.
fn pieces(striping: &Striping, span: Span) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for position in 0..striping.servers() {
        let datafile_byte = |offset| striping.datafile_size(position, offset);
        let mut left = Span {
            from: datafile_byte(span.from),
            to: datafile_byte(span.to),
            len: datafile_byte(span.from + span.len) - datafile_byte(span.from),
        };
        while left.len > 0 {
            // The next piece begins with a block.
            let len = PIECE_BYTES - left.to % PIECE_BYTES;
            let span = left.first(len);
            pieces.push(Piece { position, span });
            left = left.behind(span.len);
        }
    }
    pieces
}

impl AtServers {
    /// Takes a server's reply. Returns what is left of the piece.
    fn take(&mut self, piece: Piece, reply: ReplyBody) -> Result<Option<Piece>, CallError> {
        let Piece { position, span } = piece;
        let (bytes, stored, reached) = take_reply!(
            reply,
            ReplyBody::Copied { bytes, stored, reached } => (bytes, stored, reached)
        )?;
        let is_possible = match (stored, reached.checked_sub(span.to)) {
            (0, _) => reached == 0,
            (stored, Some(reached)) => stored <= reached && reached <= bytes,
            (_, None) => false,
        };
        if bytes == 0 || bytes > span.len || stored > bytes || !is_possible {
            let text = format!(
                "the server says that it has copied {bytes} bytes of {}, {stored} of them data, up to byte {reached} from byte {} on",
                span.len, span.to
            );
            return Err(CallError::local(Errno::EPROTO, text));
        }
        self.has_holes |= stored < bytes;
        if stored > 0 {
            let position = position as u16;
            let mut known = self.reached.iter_mut();
            match known.find(|known| known.position == position) {
                Some(known) => known.end = known.end.max(reached),
                None => self.reached.push(Reach {
                    position,
                    end: reached,
                }),
            }
        }
        let span = span.behind(bytes);
        Ok((span.len > 0).then_some(Piece { position, span }))
    }
}
