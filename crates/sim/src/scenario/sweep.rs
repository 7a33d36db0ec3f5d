//! `[sweep]`: the same experiment with one value after the other of a key.
//!
//! The key is one that the file has or may have, by its path (`workload.rounds`, `network.rate`, `workload.channel.0.rate`), or one of the
//! profile's (`profile.host_dma.rate`). Each value replaces the one in the file, or is added, with its table if the file has none: the
//! same values are allowed, and an error is reported with the key's line, or that of the sweep.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{is_list, keys};
use crate::profile::{FileError, Section, Source};

/// Most values.
const MOST_VALUES: usize = 256;
/// The beginning of the keys of profiles.
const OF_PROFILE: &str = "profile.";

/// The swept key and its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    pub(super) key: String,
    /// Values as they are written, without quotes.
    pub(super) values: Vec<String>,
}

/// The scenario with one of the values.
pub(super) struct Variation<'a> {
    /// The file's text with it.
    pub(super) text: String,
    /// The change of the profile.
    pub(super) profile: Option<ProfileValue<'a>>,
    /// The lines of `text` that the file does not have.
    added: Option<Added>,
}

/// Lines that are added to the file's: the first one's number, how many there are, and the line of the sweep's key in the file.
#[derive(Clone, Copy)]
struct Added {
    first: usize,
    count: usize,
    key: usize,
}

impl Variation<'_> {
    /// The line of the file that corresponds to a line of the text.
    pub(super) fn line_of_file(&self, line: usize) -> usize {
        match self.added {
            Some(added) if line >= added.first + added.count => line - added.count,
            Some(added) if line >= added.first => added.key,
            _ => line,
        }
    }
}

/// The position of a key in a file.
enum Place {
    /// Of its value.
    Value(Range<usize>),
    /// The beginning of the line before which the key may be added.
    Before(usize),
    /// The end of the file, where the key may be added with its table.
    End,
}

/// A value of a key of the profile, instead of a key of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileValue<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

/// Reads `[sweep]`, if it is present.
pub(super) fn read(root: &mut Section<'_>) -> Result<Option<Sweep>, FileError> {
    let Some(mut section) = root.optional_section("sweep")? else {
        return Ok(None);
    };
    let key = section.text("key")?;
    if key.value.starts_with("sweep") {
        return Err(section.error(&key.span, "a sweep cannot change itself"));
    }
    let found = section.own_values("values")?;
    if found.len() > MOST_VALUES {
        let wrong = format!("`sweep.values` may have {MOST_VALUES} entries");
        return Err(section.error(&found[MOST_VALUES].span, wrong));
    }
    section.finish()?;
    Ok(Some(Sweep {
        key: key.value,
        values: found.into_iter().map(|found| found.value).collect(),
    }))
}

impl Sweep {
    /// The scenario's text with `value` in the key's place, or the change of the profile.
    pub(super) fn apply<'a>(
        &'a self,
        source: Source<'_>,
        value: &'a str,
    ) -> Result<Variation<'a>, FileError> {
        let mut variation = Variation {
            text: source.text.to_owned(),
            profile: None,
            added: None,
        };
        if let Some(key) = self.key.strip_prefix(OF_PROFILE) {
            variation.profile = Some(ProfileValue { key, value });
            return Ok(variation);
        }
        let (place, line) = self.place(source)?;
        let (path, key) = self.parts();
        let key = format!("{key} = {}\n", written(value));
        let (at, added) = match place {
            Place::Value(place) => {
                variation.text.replace_range(place, &written(value));
                return Ok(variation);
            }
            Place::Before(place) => (place, key),
            Place::End => {
                let gap = match source.text.ends_with('\n') {
                    true => "",
                    false => "\n",
                };
                (source.text.len(), format!("{gap}[{path}]\n{key}"))
            }
        };
        variation.text.insert_str(at, &added);
        let before = source.text.get(..at).unwrap_or_default();
        variation.added = Some(Added {
            first: 1 + before.lines().count(),
            count: added.trim_start().lines().count(),
            key: line,
        });
        Ok(variation)
    }

    /// The path of the key's table, empty for the file itself, and the key's name.
    fn parts(&self) -> (&str, &str) {
        self.key.rsplit_once('.').unwrap_or(("", &self.key))
    }

    /// Whether a scenario may have the key.
    fn is_known(&self) -> bool {
        let (path, name) = self.parts();
        let of_list = |part: &&str| part.parse::<usize>().is_err();
        let table: Vec<&str> = path.split('.').filter(of_list).collect();
        let table = table.join(".");
        keys().any(|key| (key.table, key.name) == (table.as_str(), name))
    }

    /// Whether a scenario may have the key in a table of which there is at most one.
    fn may_add_table(&self) -> bool {
        let (path, name) = self.parts();
        let is_single = keys().any(|key| (key.table, key.name) == (path, name));
        is_single && !is_list(path)
    }

    /// The position of the key in the text, and the line of the sweep's key.
    fn place(&self, source: Source<'_>) -> Result<(Place, usize), FileError> {
        let root = DeTable::parse(source.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            source.error(&span, error.message().trim().to_owned())
        })?;
        let of_key = |table: &DeTable<'_>| {
            let sweep = table
                .get("sweep")
                .and_then(|found| found.get_ref().get("key"));
            sweep.map(Spanned::span).unwrap_or_default()
        };
        let missing = || {
            let wrong = format!(
                "the file has no `{}`; a sweep changes a key that the file has or may have, in a table that is written `[table]`, or \
                 one of the profile's: \"profile.host_dma.rate\"",
                self.key
            );
            source.error(&of_key(root.get_ref()), wrong)
        };
        let line = source.line(&of_key(root.get_ref()));
        let (path, name) = self.parts();
        // The table that is written `[table]` or `[[table]]`, unless it is the file itself.
        let (mut table, mut header) = (root.get_ref(), None);
        let mut rest = path.split('.').filter(|part| !part.is_empty());
        while let Some(part) = rest.next() {
            let Some(mut found) = table.get(part) else {
                return match self.may_add_table() {
                    true => Ok((Place::End, line)),
                    false => Err(missing()),
                };
            };
            if let DeValue::Array(list) = found.get_ref() {
                let place = rest.next().and_then(|place| place.parse::<usize>().ok());
                found = place
                    .and_then(|place| list.get(place))
                    .ok_or_else(missing)?;
            }
            let DeValue::Table(inner) = found.get_ref() else {
                return Err(missing());
            };
            (table, header) = (inner, Some(found.span()));
        }
        if let Some(found) = table.get(name) {
            return match found.get_ref() {
                DeValue::Table(_) => {
                    let wrong = format!("`{}` is a table; a sweep changes one value", self.key);
                    Err(source.error(&of_key(root.get_ref()), wrong))
                }
                _ => Ok((Place::Value(found.span()), line)),
            };
        }
        let before = match header {
            None => Some(0),
            Some(header) => after_header(source.text, header.start),
        };
        match before.filter(|_| self.is_known()) {
            Some(before) => Ok((Place::Before(before), line)),
            None => Err(missing()),
        }
    }
}

/// The beginning of the line after a table's header; `None` if the table is written in another way.
fn after_header(text: &str, start: usize) -> Option<usize> {
    let rest = text.get(start..).filter(|rest| rest.starts_with('['))?;
    Some(start + rest.find('\n')? + 1)
}

/// A value as TOML: lists, numbers and truth values as they are, everything else as text.
fn written(value: &str) -> String {
    let is_bare = value.starts_with('[')
        || value == "true"
        || value == "false"
        || value.replace('_', "").parse::<f64>().is_ok();
    match is_bare {
        true => value.to_owned(),
        false => format!("{value:?}"),
    }
}
