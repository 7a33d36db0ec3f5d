//! The files that identify a server's directory: small texts (`docs/formats/home.md`).
//!
//! | file | content |
//! |---|---|
//! | `identity` | [`DirectoryIdentity`]: the server that the directory belongs to, since which formatting |
//! | `metadata/owner`, `data/owner` | [`PartIdentity`]: of which directory this is a part |
//! | `enrolled` | [`Enrollment`]: which metadata have given it which number |
//! | `metadata/failed-syncs`, `data/failed-syncs` | [`FailedSyncs`]: how often the disk failed to sync |
//! | `metadata/turns` | [`AppendLocksSetAside`]: which numbers append locks may have had |
//! | `metadata/leases` | [`LeasesGiven`]: that clients may hold leases |
//! | `capability-versions` | [`VersionsSetAside`]: which versions capabilities may have had |
//!
//! Each is lines of a name, a space and a value; the first line is the file's kind and format. A text is
//! accepted only if it is exactly what would be written.

use alloc::format;
use alloc::string::{String, ToString};

use crate::fs::{Generation, Incarnation, MAX_SERVER_NAME_BYTES};

/// Format of all these files, which rises with the layout of anything in a server's directory.
pub const DIRECTORY_FORMAT: u32 = 2;
/// Longest of these files, in bytes.
pub const MAX_HOME_FILE_BYTES: usize = 1024;

/// Why a file's text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The first line is that of another format or of no file of ours.
    #[error("the first line is `{found}` instead of `{expected}`")]
    Format {
        /// The line that was found, printable and cut.
        found: String,
        /// The line that this build writes.
        expected: String,
    },
    /// A line is missing, follows the end, or has a value that cannot be.
    #[error("line {line} (`{field}`) is missing or damaged")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The field that the line should have.
        field: &'static str,
    },
}

/// The file system and server that a directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryIdentity {
    /// The file system's identity.
    pub file_system: u128,
    /// The server's name.
    pub server: String,
    /// This formatting of the directory.
    pub generation: Generation,
    /// Whether it holds `metadata/`.
    pub metadata: bool,
    /// Whether it holds `data/`.
    pub io: bool,
}

/// A directory below a server's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The metadata store.
    Metadata,
    /// The datafiles.
    Data,
}

impl Part {
    /// The directory's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Data => "data",
        }
    }
}

/// Of which directory this is a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartIdentity {
    /// Which part.
    pub part: Part,
    /// The file system's identity.
    pub file_system: u128,
    /// The server's name.
    pub server: String,
    /// The formatting of the directory.
    pub generation: Generation,
}

/// The metadata that an I/O server belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enrollment {
    /// The server's number in the layout.
    pub index: u16,
    /// The incarnation of the metadata.
    pub incarnation: Incarnation,
}

/// Reads a text line by line.
struct Lines<'a> {
    lines: core::str::Lines<'a>,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str, kind: &str) -> Result<Self, Unreadable> {
        let mut lines = text.lines();
        let (found, expected) = (lines.next().unwrap_or_default(), first_line(kind));
        if found != expected {
            return Err(Unreadable::Format {
                found: found
                    .chars()
                    .take(64)
                    .flat_map(char::escape_debug)
                    .collect(),
                expected,
            });
        }
        Ok(Self { lines, line: 1 })
    }

    fn value<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<T, Unreadable> {
        self.line += 1;
        let line = self.line;
        self.lines
            .next()
            .and_then(|text| text.strip_prefix(field)?.strip_prefix(' '))
            .and_then(parse)
            .ok_or(Unreadable::Line { line, field })
    }

    /// Fails unless all lines were read, and `written`, the only encoding of the decoded value, is
    /// the text.
    fn finish<T>(mut self, value: T, text: &str, written: &str) -> Result<T, Unreadable> {
        let (line, field) = (self.line + 1, "end");
        match self.lines.next() {
            None if text == written => Ok(value),
            _ => Err(Unreadable::Line { line, field }),
        }
    }
}

fn first_line(kind: &str) -> String {
    format!("causeway-{kind} {DIRECTORY_FORMAT}")
}

fn name(text: &str) -> Option<String> {
    let fits = (1..=MAX_SERVER_NAME_BYTES).contains(&text.len());
    (fits && !text.contains(char::is_whitespace)).then(|| text.to_string())
}

fn file_system(text: &str) -> Option<u128> {
    u128::from_str_radix(text, 16).ok()
}

/// A random number, which is never 0.
fn random(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16)
        .ok()
        .filter(|number| *number != 0)
}

impl DirectoryIdentity {
    /// The file's text.
    pub fn to_text(&self) -> String {
        let roles = match (self.metadata, self.io) {
            (true, true) => "metadata io",
            (true, false) => "metadata",
            (false, _) => "io",
        };
        format!(
            "{}\nfile_system {:032x}\nserver {}\ngeneration {}\nroles {roles}\n",
            first_line("server"),
            self.file_system,
            self.server,
            self.generation
        )
    }

    /// Reads what [`DirectoryIdentity::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut lines = Lines::new(text, "server")?;
        let file_system = lines.value("file_system", file_system)?;
        let server = lines.value("server", name)?;
        let generation = lines.value("generation", random).map(Generation)?;
        let (metadata, io) = lines.value("roles", |text| match text {
            "metadata io" => Some((true, true)),
            "metadata" => Some((true, false)),
            "io" => Some((false, true)),
            _ => None,
        })?;
        let identity = Self {
            file_system,
            server,
            generation,
            metadata,
            io,
        };
        let written = identity.to_text();
        lines.finish(identity, text, &written)
    }

    /// The content of a part's file in the directory.
    pub fn part(&self, part: Part) -> PartIdentity {
        PartIdentity {
            part,
            file_system: self.file_system,
            server: self.server.clone(),
            generation: self.generation,
        }
    }
}

impl PartIdentity {
    /// The file's text.
    pub fn to_text(&self) -> String {
        format!(
            "{}\npart {}\nfile_system {:032x}\nserver {}\ngeneration {}\n",
            first_line("part"),
            self.part.name(),
            self.file_system,
            self.server,
            self.generation
        )
    }

    /// Reads what [`PartIdentity::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut lines = Lines::new(text, "part")?;
        let part = lines.value("part", |text| match text {
            "metadata" => Some(Part::Metadata),
            "data" => Some(Part::Data),
            _ => None,
        })?;
        let identity = Self {
            part,
            file_system: lines.value("file_system", file_system)?,
            server: lines.value("server", name)?,
            generation: lines.value("generation", random).map(Generation)?,
        };
        let written = identity.to_text();
        lines.finish(identity, text, &written)
    }
}

impl Enrollment {
    /// The file's text.
    pub fn to_text(&self) -> String {
        format!(
            "{}\nindex {}\nincarnation {}\n",
            first_line("enrollment"),
            self.index,
            self.incarnation
        )
    }

    /// Reads what [`Enrollment::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut lines = Lines::new(text, "enrollment")?;
        let enrollment = Self {
            index: lines.value("index", |text| text.parse().ok())?,
            incarnation: lines.value("incarnation", random).map(Incarnation)?,
        };
        let written = enrollment.to_text();
        lines.finish(enrollment, text, &written)
    }
}

/// How often syncs have failed. All texts have the same length, so that one is overwritten in place
/// by the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedSyncs {
    /// How many have failed since the directory was formatted.
    pub count: u64,
    /// The host's boot when the last one failed; 0 if none has, or the boot is unknown.
    pub boot: u128,
}

impl FailedSyncs {
    /// The file's text.
    pub fn to_text(&self) -> String {
        format!(
            "{}\ncount {:016x}\nboot {:032x}\n",
            first_line("failed-syncs"),
            self.count,
            self.boot
        )
    }

    /// Reads what [`FailedSyncs::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut lines = Lines::new(text, "failed-syncs")?;
        let failed = Self {
            count: lines.value("count", |text| u64::from_str_radix(text, 16).ok())?,
            boot: lines.value("boot", |text| u128::from_str_radix(text, 16).ok())?,
        };
        let written = failed.to_text();
        lines.finish(failed, text, &written)
    }
}

/// An upper bound of the numbers of append locks that were assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendLocksSetAside {
    /// No append lock has had a larger number; at most [`AppendLocksSetAside::HIGHEST`].
    pub below: u64,
}

impl AppendLocksSetAside {
    /// The largest value that is accepted; counting does not reach it.
    pub const HIGHEST: u64 = 1 << 63;

    /// The file's text.
    pub fn to_text(&self) -> String {
        below_text("turns", self.below)
    }

    /// Reads what [`AppendLocksSetAside::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        parse_below("turns", text, Self::HIGHEST).map(|below| Self { below })
    }
}

/// An upper bound of the versions that capabilities were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionsSetAside {
    /// No capability has had a higher version; at most [`VersionsSetAside::HIGHEST`]. In microseconds since 1970.
    pub below: u64,
}

impl VersionsSetAside {
    /// The largest value that is accepted, which is reached in 290,000 years.
    pub const HIGHEST: u64 = 1 << 63;

    /// The file's text.
    pub fn to_text(&self) -> String {
        below_text("capability-versions", self.below)
    }

    /// Reads what [`VersionsSetAside::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        parse_below("capability-versions", text, Self::HIGHEST).map(|below| Self { below })
    }
}

/// States that leases on names and attributes may be valid that a metadata server has given, even one that no
/// longer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasesGiven {
    /// None of them is valid for longer, in milliseconds; at most [`LeasesGiven::HIGHEST`].
    pub below_ms: u64,
}

impl LeasesGiven {
    /// The largest value that is accepted.
    pub const HIGHEST: u64 = 3_600_000;

    /// The file's text.
    pub fn to_text(&self) -> String {
        below_text("leases", self.below_ms)
    }

    /// Reads what [`LeasesGiven::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        parse_below("leases", text, Self::HIGHEST).map(|below_ms| Self { below_ms })
    }
}

/// The text of a file of this kind, which contains one number.
fn below_text(kind: &'static str, below: u64) -> String {
    format!("{}\nbelow {below:016x}\n", first_line(kind))
}

/// Reads what [`below_text`] wrote.
fn parse_below(kind: &'static str, text: &str, highest: u64) -> Result<u64, Unreadable> {
    let mut lines = Lines::new(text, kind)?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let below = lines.value("below", |text| {
        number(text).filter(|below| *below <= highest)
    })?;
    let written = below_text(kind, below);
    lines.finish(below, text, &written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAILED_SYNCS: &str = "causeway-failed-syncs 2\n\
        count 000000000000000a\n\
        boot 0000000000000000000000000000000b\n";
    const IDENTITY: &str = "causeway-server 2\n\
         file_system 00000000000000000000000000000007\n\
         server io0\n\
         generation 0000000000000009\n\
         roles metadata io\n";
    const PART: &str = "causeway-part 2\n\
         part data\n\
         file_system 00000000000000000000000000000007\n\
         server io0\n\
         generation 0000000000000009\n";
    const ENROLLMENT: &str = "causeway-enrollment 2\nindex 3\nincarnation 0000000000000008\n";

    const VERSIONS: &str = "causeway-capability-versions 2\nbelow 000000000000000d\n";
    const LEASES: &str = "causeway-leases 2\nbelow 0000000000001388\n";
    const APPEND_LOCKS: &str = "causeway-turns 2\nbelow 000000000000000c\n";

    fn identity() -> DirectoryIdentity {
        DirectoryIdentity {
            file_system: 7,
            server: "io0".into(),
            generation: Generation(9),
            metadata: true,
            io: true,
        }
    }

    #[test]
    fn golden_texts() {
        assert_eq!(identity().to_text(), IDENTITY);
        assert_eq!(DirectoryIdentity::parse(IDENTITY), Ok(identity()));
        let part = identity().part(Part::Data);
        assert_eq!(part.to_text(), PART);
        assert_eq!(PartIdentity::parse(PART), Ok(part));
        let enrollment = Enrollment {
            index: 3,
            incarnation: Incarnation(8),
        };
        assert_eq!(enrollment.to_text(), ENROLLMENT);
        let failed = FailedSyncs {
            count: 10,
            boot: 11,
        };
        assert_eq!(failed.to_text(), FAILED_SYNCS);
        assert_eq!(FailedSyncs::parse(FAILED_SYNCS), Ok(failed));
        assert!(FailedSyncs::parse(&FAILED_SYNCS[1..]).is_err());
        assert!(FailedSyncs::parse(&FAILED_SYNCS.replace("0a", "0A")).is_err());
        assert_eq!(Enrollment::parse(ENROLLMENT), Ok(enrollment));
        let locks = AppendLocksSetAside { below: 12 };
        assert_eq!(locks.to_text(), APPEND_LOCKS);
        assert_eq!(AppendLocksSetAside::parse(APPEND_LOCKS), Ok(locks));
        assert!(AppendLocksSetAside::parse(&APPEND_LOCKS.replace("below 0", "below 9")).is_err());
        let versions = VersionsSetAside { below: 13 };
        assert_eq!(versions.to_text(), VERSIONS);
        assert_eq!(VersionsSetAside::parse(VERSIONS), Ok(versions));
        assert!(VersionsSetAside::parse(APPEND_LOCKS).is_err());
        let leases = LeasesGiven { below_ms: 5000 };
        assert_eq!(leases.to_text(), LEASES);
        assert_eq!(LeasesGiven::parse(LEASES), Ok(leases));
        assert!(LeasesGiven::parse(&LEASES.replace("00001388", "10001388")).is_err());
    }

    #[test]
    fn another_format_is_named() {
        let old = "causeway-server 1\nfile_system 7\nserver io0\n";
        let error = DirectoryIdentity::parse(old).unwrap_err().to_string();
        assert!(error.contains("causeway-server 1"), "{error}");
        assert!(error.contains("causeway-server 2"), "{error}");
        assert!(DirectoryIdentity::parse("").is_err());
        assert!(PartIdentity::parse(IDENTITY).is_err());
    }

    #[test]
    fn a_missing_or_altered_line_is_named() {
        for (text, line) in [
            (IDENTITY.replace("generation 0000000000000009\n", ""), 4),
            (IDENTITY.replace("0009", "0000"), 4),
            (IDENTITY.replace("server io0", "server "), 3),
            (IDENTITY.replace("metadata io", "everything"), 5),
            (format!("{IDENTITY}more\n"), 6),
            (IDENTITY.replace("0007", "07"), 6),
            (IDENTITY.trim_end().to_string(), 6),
        ] {
            match DirectoryIdentity::parse(&text) {
                Err(Unreadable::Line { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(Enrollment::parse(&ENROLLMENT.replace('3', "03")).is_err());
        assert!(Enrollment::parse(&ENROLLMENT.replace('3', "70000")).is_err());
    }

    proptest! {
        #[test]
        fn altered_texts_are_refused_or_have_one_way_to_be_written(
            which in 0..3usize,
            at: prop::sample::Index,
            byte in 0..128u8,
        ) {
            let mut bytes = [IDENTITY, PART, ENROLLMENT][which].as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let text = String::from_utf8(bytes).expect("ASCII");
            if let Ok(value) = DirectoryIdentity::parse(&text) {
                prop_assert_eq!(value.to_text(), text.clone());
            }
            if let Ok(value) = PartIdentity::parse(&text) {
                prop_assert_eq!(value.to_text(), text.clone());
            }
            if let Ok(value) = Enrollment::parse(&text) {
                prop_assert_eq!(value.to_text(), text.clone());
            }
        }
    }
}
