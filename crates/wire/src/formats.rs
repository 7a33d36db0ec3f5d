//! Which formats of a protocol each side of a connection speaks.
//!
//! Each side states the lowest and the highest format that it speaks, and the highest common one is used. So processes of two
//! builds understand each other as long as their ranges meet, and the servers of a cluster can be upgraded one after the
//! other.
//!
//! The methods' handshakes have a field for the lowest format, and one for the number of formats
//! above it. A build that speaks one format sends zero in the second field.

use alloc::string::String;
use core::fmt;

use crate::codec::{Malformed, unknown};

/// What to do if two sides have no common format.
const REMEDY: &str = "run builds on both sides that share one";

/// All formats from the lowest to the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Formats {
    /// At least 1.
    pub lowest: u8,
    /// At least the lowest.
    pub highest: u8,
}

impl Formats {
    /// A single format.
    pub const fn only(format: u8) -> Self {
        Self {
            lowest: format,
            highest: format,
        }
    }

    /// How many formats there are above the lowest.
    pub const fn above(self) -> u8 {
        self.highest - self.lowest
    }

    /// The formats that a handshake states by its two fields.
    pub fn stated(lowest: u16, above: u8) -> Result<Self, Malformed> {
        let highest = lowest.saturating_add(above.into());
        match (u8::try_from(lowest), u8::try_from(highest)) {
            (Ok(lowest @ 1..), Ok(highest)) => Ok(Self { lowest, highest }),
            _ => unknown("format", highest),
        }
    }

    /// The lowest and the highest as text, for text formats: `1-3`.
    pub fn to_text(self) -> String {
        alloc::format!("{}-{}", self.lowest, self.highest)
    }

    /// Parses what [`Formats::to_text`] writes, and nothing else.
    pub fn of_text(text: &str) -> Option<Self> {
        let (lowest, highest) = text.split_once('-')?;
        let formats = Self {
            lowest: lowest.parse().ok()?,
            highest: highest.parse().ok()?,
        };
        let is_sound = (1..=formats.highest).contains(&formats.lowest);
        (is_sound && formats.to_text() == text).then_some(formats)
    }

    /// Whether these formats include this one.
    pub const fn has(self, format: u8) -> bool {
        self.lowest <= format && format <= self.highest
    }

    /// The highest format that both sides speak.
    pub fn common(self, other: Self) -> Option<u8> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }

    /// The error of a side that speaks these formats of `protocol`, and whose peer speaks `theirs`.
    pub fn mismatch(self, theirs: Self, protocol: &str) -> String {
        alloc::format!("it speaks {theirs} of {protocol}, this process {self}; {REMEDY}")
    }

    /// The same error in words for either side: what a called process that speaks `called` reports
    /// to its caller.
    pub fn refusal(caller: Self, called: Self, protocol: &str) -> String {
        alloc::format!(
            "the caller speaks {caller} of {protocol}, the called process {called}; {REMEDY}"
        )
    }
}

impl fmt::Display for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "format {}", self.lowest),
            false => write!(f, "formats {} to {}", self.lowest, self.highest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_format_is_found() {
        let of = |lowest, highest| Formats { lowest, highest };
        assert_eq!(of(1, 3).common(of(2, 9)), Some(3));
        assert_eq!(of(2, 9).common(of(1, 3)), Some(3));
        assert_eq!(of(4, 4).common(of(1, 3)), None);
        assert_eq!(of(1, 3).common(of(4, 4)), None);
    }

    #[test]
    fn texts_are_read_as_they_were_written_and_nothing_else_is() {
        for (lowest, highest, text) in [(1, 1, "1-1"), (4, 12, "4-12"), (255, 255, "255-255")] {
            let formats = Formats { lowest, highest };
            assert_eq!(formats.to_text(), text);
            assert_eq!(Formats::of_text(text), Some(formats));
        }
        for nonsense in [
            "", "1", "-", "1-", "-1", "0-1", "2-1", "1-256", "+1-2", "01-2", "1-2-3", "1-2 ",
        ] {
            assert_eq!(Formats::of_text(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn stated_formats_are_read_or_refused() {
        for formats in [
            Formats::only(1),
            Formats::stated(5, 2).unwrap(),
            Formats::only(255),
        ] {
            let read = Formats::stated(formats.lowest.into(), formats.above());
            assert_eq!(read, Ok(formats));
        }
        for (lowest, above) in [(0, 0), (0, 3), (256, 0), (255, 1), (u16::MAX, u8::MAX)] {
            assert!(Formats::stated(lowest, above).is_err(), "{lowest} {above}");
        }
    }
}
