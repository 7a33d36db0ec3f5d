//! Masks: which events of which part of the program.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;

/// Most entries of a mask.
const MOST_ENTRIES: usize = 24;
/// Longest name of a part of the program.
const LONGEST_NAME: usize = 48;

/// Why a text cannot be read as a mask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MaskError {
    /// There is no such level.
    #[error("`{0}` is no level; the levels are off, error, warn, info, debug and trace")]
    Level(String),
    /// A name that no part of a program can have.
    #[error(
        "`{0}` cannot be the name of a part of the program; names are like engine, shm or fs.server"
    )]
    Name(String),
    /// The mask has too many entries.
    #[error("more than {MOST_ENTRIES} entries")]
    Entries,
}

/// Which events are admitted: a level for everything, and others for parts of the program. Written
/// `warn,engine=debug,fs.server=info`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    usual: LevelFilter,
    entries: Vec<(String, LevelFilter)>,
}

impl Mask {
    /// The same level everywhere.
    pub fn all(level: LevelFilter) -> Self {
        Self {
            usual: level,
            entries: Vec::new(),
        }
    }

    /// The level for a part of the program, by the entry that names it most exactly.
    pub fn level(&self, subsystem: &str) -> LevelFilter {
        let matching = self.entries.iter().filter_map(|(name, level)| {
            let end = position(subsystem, name)? + name.len();
            Some(((end, name.len()), *level))
        });
        let best = matching.max_by_key(|(exactness, _)| *exactness);
        best.map_or(self.usual, |(_, level)| level)
    }

    /// The most verbose level of all.
    pub fn most(&self) -> LevelFilter {
        let levels = self.entries.iter().map(|(_, level)| *level);
        levels.chain([self.usual]).max().unwrap_or(self.usual)
    }

    /// The names that have a level of their own.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// Changes the levels that `text` names and leaves the others unchanged; `off` for everything removes
    /// all entries that `text` does not name.
    pub fn change(&mut self, text: &str) -> Result<(), MaskError> {
        let mut changed = self.clone();
        let parts = || text.split(',').map(str::trim);
        if parts().any(|part| part.eq_ignore_ascii_case("off")) {
            changed.entries.clear();
        }
        for part in parts() {
            match part.split_once('=') {
                _ if part.is_empty() => {}
                Some((name, level)) => {
                    let (name, level) = (checked_name(name.trim())?, parse_level(level.trim())?);
                    changed.entries.retain(|(other, _)| *other != name);
                    changed.entries.push((name, level));
                }
                None => changed.usual = parse_level(part)?,
            }
        }
        if changed.entries.len() > MOST_ENTRIES {
            return Err(MaskError::Entries);
        }
        *self = changed;
        Ok(())
    }
}

impl FromStr for Mask {
    type Err = MaskError;

    fn from_str(text: &str) -> Result<Self, MaskError> {
        let mut mask = Self::all(LevelFilter::OFF);
        mask.change(text)?;
        Ok(mask)
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.usual)?;
        self.entries
            .iter()
            .try_for_each(|(name, level)| write!(f, ",{name}={level}"))
    }
}

/// Masks of printed and of recorded events. Written with a slash between: `warn,engine=debug/debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masks {
    /// Events that are printed.
    pub printed: Mask,
    /// Events that are recorded in the ring.
    pub recorded: Mask,
}

impl Masks {
    /// Changes the levels that `text` names and leaves the others unchanged.
    pub fn change(&mut self, text: &str) -> Result<(), MaskError> {
        let (printed, recorded) = text.split_once('/').unwrap_or((text, ""));
        let mut changed = self.clone();
        changed.printed.change(printed)?;
        changed.recorded.change(recorded)?;
        *self = changed;
        Ok(())
    }

    /// The level up to which events of a part of the program are printed or recorded.
    pub(crate) fn level(&self, subsystem: &str) -> LevelFilter {
        self.printed
            .level(subsystem)
            .max(self.recorded.level(subsystem))
    }

    /// The most verbose level of all.
    pub(crate) fn most(&self) -> LevelFilter {
        self.printed.most().max(self.recorded.most())
    }
}

impl FromStr for Masks {
    type Err = MaskError;

    fn from_str(text: &str) -> Result<Self, MaskError> {
        let (printed, recorded) = text.split_once('/').unwrap_or((text, "off"));
        Ok(Self {
            printed: printed.parse()?,
            recorded: recorded.parse()?,
        })
    }
}

impl fmt::Display for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.printed, self.recorded)
    }
}

/// The part of the program that an event's target names: `transport.shm.ring` for
/// `causeway_transport::shm::ring`.
pub fn subsystem(target: &str) -> String {
    let target = target.strip_prefix("causeway_").unwrap_or(target);
    target.replace("::", ".")
}

/// The position of the words of `name` among those of `subsystem`.
fn position(subsystem: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = subsystem.get(from..)?.find(name) {
        let (start, end) = (from + found, from + found + name.len());
        let begins = start == 0 || subsystem.as_bytes()[start - 1] == b'.';
        let ends = end == subsystem.len() || subsystem.as_bytes()[end] == b'.';
        if begins && ends {
            return Some(start);
        }
        from = end;
    }
    None
}

fn checked_name(name: &str) -> Result<String, MaskError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) {
        return Err(MaskError::Name(name.chars().take(LONGEST_NAME).collect()));
    }
    Ok(subsystem(name))
}

fn parse_level(text: &str) -> Result<LevelFilter, MaskError> {
    match text.to_ascii_lowercase().as_str() {
        "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => Err(MaskError::Level(text.chars().take(LONGEST_NAME).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_entry_decides() {
        let mask: Mask = "warn,transport=info,shm=trace,shm.ring=error,fs.server=debug"
            .parse()
            .unwrap();
        for (target, level) in [
            ("causeway_engine::connect", LevelFilter::WARN),
            ("causeway_transport::tcp", LevelFilter::INFO),
            ("causeway_transport::shm::handshake", LevelFilter::TRACE),
            ("causeway_transport::shm::ring", LevelFilter::ERROR),
            ("causeway_fs::server::io", LevelFilter::DEBUG),
            ("causeway_fs::serverless", LevelFilter::WARN),
            ("other::shmem", LevelFilter::WARN),
        ] {
            assert_eq!(mask.level(&subsystem(target)), level, "{target}");
        }
        assert_eq!(mask.most(), LevelFilter::TRACE);
        assert_eq!(mask.to_string().parse(), Ok(mask));
    }

    #[test]
    fn changes_leave_the_rest() {
        let mut masks: Masks = "warn,engine=debug/debug".parse().unwrap();
        masks.change("engine=info,shm=trace").unwrap();
        assert_eq!(masks.to_string(), "warn,engine=info,shm=trace/debug");
        masks.change("error/trace").unwrap();
        assert_eq!(masks.to_string(), "error,engine=info,shm=trace/trace");
        masks.change("causeway_fs::server=debug").unwrap();
        assert_eq!(masks.printed.level("fs.server.io"), LevelFilter::DEBUG);
        masks.change("shm=info,Off").unwrap();
        assert_eq!(masks.to_string(), "off,shm=info/trace");
        masks.change("off/off").unwrap();
        assert_eq!(masks.to_string(), "off/off");
        let before = masks.clone();
        assert_eq!(
            masks.change("tcp=info,x=loud"),
            Err(MaskError::Level("loud".into()))
        );
        assert!(matches!(masks.change("a b=info"), Err(MaskError::Name(_))));
        let many: Vec<_> = (0..30).map(|n| format!("a{n}=info")).collect();
        assert_eq!(masks.change(&many.join(",")), Err(MaskError::Entries));
        assert_eq!(masks, before);
    }
}
