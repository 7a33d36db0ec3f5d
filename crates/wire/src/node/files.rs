//! The text files of nodes and of their authority. Each is lines of a name, a space and values; the first line is the file's kind and
//! format. A text is accepted only if it is exactly what would be written.
//!
//! | file | where | content |
//! |---|---|---|
//! | node | each node has its own, mode 600 | [`NodeFile`]: its certificate and its key |
//! | revoked | the same on every node | [`Revoked`]: certificates that are no longer accepted |
//! | authority | where nodes are added, mode 600 | [`AuthorityFile`]: the key that signs |
//! | nodes | beside the authority's | [`Register`]: the certificates that were signed |
//!
//! Private keys stay in the caller's buffer: nothing here copies one.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::{Certificate, MAX_CERTIFICATE_BYTES, is_name};
use crate::codec::Wire;

/// The format of all these files.
pub const FILES_FORMAT: u32 = 1;

/// Digits of a private key.
pub const KEY_DIGITS: usize = 64;

/// Longest node or authority file, in bytes.
pub const MAX_KEY_FILE_BYTES: usize = 256 + 2 * MAX_CERTIFICATE_BYTES + KEY_DIGITS;

/// Most lines of a list of revoked certificates, or of a register.
pub const MAX_LISTED: usize = 1 << 16;

/// Longest list of revoked certificates, in bytes.
pub const MAX_REVOKED_BYTES: usize = 32 + MAX_LISTED * 96;

/// Longest register, in bytes.
pub const MAX_REGISTER_BYTES: usize = 32 + MAX_LISTED * (2 * MAX_CERTIFICATE_BYTES + 16);

/// Why a file's text was refused: what is wrong, and in which line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is another file, or one of another format.
    #[error("its first line is not `{expected}`")]
    Kind {
        /// The line that this build writes.
        expected: String,
    },
    /// A line is missing, follows the end, or has a value that cannot be.
    #[error("line {line} is not {what}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What it should be.
        what: &'static str,
    },
    /// Every line can be parsed, but this build would write the file differently.
    #[error("it is not written as this build writes it")]
    Otherwise,
}

fn first_line(kind: &str) -> String {
    format!("causeway-{kind} {FILES_FORMAT}")
}

/// The lines after the first one.
fn lines<'a>(text: &'a str, kind: &str) -> Result<core::str::Lines<'a>, Unreadable> {
    let mut lines = text.lines();
    let expected = first_line(kind);
    match lines.next() == Some(expected.as_str()) {
        true => Ok(lines),
        false => Err(Unreadable::Kind { expected }),
    }
}

/// Lower-case hexadecimal digits, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of [`hex`]'s digits; `None` if these are others.
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    pairs.iter().map(byte).collect()
}

fn certificate(text: &str) -> Option<Certificate> {
    if text.len() > 2 * MAX_CERTIFICATE_BYTES {
        return None;
    }
    Certificate::from_bytes(&bytes_of_hex(text)?).ok()
}

fn are_key_digits(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == KEY_DIGITS && text.bytes().all(is_digit)
}

/// The proof that a process belongs to a node, and the node's key.
#[derive(PartialEq, Eq)]
pub struct NodeFile<'a> {
    /// The node's certificate.
    pub certificate: Certificate,
    /// The digits of the node's private key.
    pub key: &'a str,
}

impl<'a> NodeFile<'a> {
    /// The file's text up to the key's digits, behind which there is the end of the line.
    pub fn head(certificate: &Certificate) -> String {
        let certificate = hex(&certificate.to_bytes());
        format!("{}\ncertificate {certificate}\nkey ", first_line("node"))
    }

    /// Reads a file's text.
    pub fn parse(text: &'a str) -> Result<Self, Unreadable> {
        let mut lines = lines(text, "node")?;
        let shown = lines.next().and_then(|l| l.strip_prefix("certificate "));
        let certificate = shown.and_then(certificate).ok_or(Unreadable::Line {
            line: 2,
            what: "`certificate` and a certificate's digits",
        })?;
        let key = key_line(lines.next(), 3)?;
        ends(text, Self::head(&certificate).len() + KEY_DIGITS + 1)?;
        Ok(Self { certificate, key })
    }
}

/// The key that an authority signs with.
#[derive(PartialEq, Eq)]
pub struct AuthorityFile<'a> {
    /// The digits of its seed.
    pub key: &'a str,
}

impl<'a> AuthorityFile<'a> {
    /// The file's text up to the key's digits, behind which there is the end of the line.
    pub fn head() -> String {
        format!("{}\nkey ", first_line("authority"))
    }

    /// Reads a file's text.
    pub fn parse(text: &'a str) -> Result<Self, Unreadable> {
        let key = key_line(lines(text, "authority")?.next(), 2)?;
        ends(text, Self::head().len() + KEY_DIGITS + 1)?;
        Ok(Self { key })
    }
}

fn key_line(line: Option<&str>, number: usize) -> Result<&str, Unreadable> {
    line.and_then(|line| line.strip_prefix("key "))
        .filter(|key| are_key_digits(key))
        .ok_or(Unreadable::Line {
            line: number,
            what: "`key` and 64 hexadecimal digits",
        })
}

fn ends(text: &str, len: usize) -> Result<(), Unreadable> {
    match text.len() == len && text.ends_with('\n') && !text.contains('\r') {
        true => Ok(()),
        false => Err(Unreadable::Otherwise),
    }
}

/// Certificates that are no longer valid, by serial, each with the name of its node for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revoked {
    /// In the order in which they were revoked.
    pub entries: Vec<(u64, String)>,
}

impl Revoked {
    /// Whether it names this serial.
    pub fn has(&self, serial: u64) -> bool {
        self.entries.iter().any(|(revoked, _)| *revoked == serial)
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = first_line("revoked") + "\n";
        for (serial, name) in &self.entries {
            let _ = writeln!(text, "{serial:016x} {name}");
        }
        text
    }

    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut entries = Vec::new();
        for (at, line) in lines(text, "revoked")?.enumerate() {
            let entry = line.split_once(' ').and_then(|(serial, name)| {
                let serial = u64::from_str_radix(serial, 16).ok()?;
                is_name(name).then(|| (serial, name.to_string()))
            });
            let entry = entry.filter(|_| at < MAX_LISTED);
            entries.push(entry.ok_or(Unreadable::Line {
                line: at + 2,
                what: "the 16 digits of a serial and the name of a node",
            })?);
        }
        let revoked = Self { entries };
        match revoked.to_text() == text {
            true => Ok(revoked),
            false => Err(Unreadable::Otherwise),
        }
    }
}

/// The certificates that an authority has signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Register {
    /// In the order in which they were signed.
    pub certificates: Vec<Certificate>,
}

impl Register {
    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = first_line("nodes") + "\n";
        for certificate in &self.certificates {
            let _ = writeln!(text, "certificate {}", hex(&certificate.to_bytes()));
        }
        text
    }

    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut certificates = Vec::new();
        for (at, line) in lines(text, "nodes")?.enumerate() {
            let found = line.strip_prefix("certificate ").and_then(certificate);
            let found = found.filter(|_| at < MAX_LISTED);
            certificates.push(found.ok_or(Unreadable::Line {
                line: at + 2,
                what: "`certificate` and a certificate's digits",
            })?);
        }
        let register = Self { certificates };
        match register.to_text() == text {
            true => Ok(register),
            false => Err(Unreadable::Otherwise),
        }
    }
}
