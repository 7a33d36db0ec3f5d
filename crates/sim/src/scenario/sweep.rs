//! `[sweep]`: the same experiment with one value after the other of a key.
//!
//! The key is one that the file has, by its path (`workload.rounds`, `network.rate`, `workload.channel.0.rate`), or one of the
//! profile's (`profile.host_dma.rate`). Each value replaces the one in the file: the same values are allowed, and an
//! error is reported with the key's line.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
    ) -> Result<(String, Option<ProfileValue<'a>>), FileError> {
        if let Some(key) = self.key.strip_prefix(OF_PROFILE) {
            return Ok((source.text.to_owned(), Some(ProfileValue { key, value })));
        }
        let place = self.place(source)?;
        let mut text = source.text.to_owned();
        text.replace_range(place, &written(value));
        Ok((text, None))
    }

    /// The position of the key's value in the text.
    fn place(&self, source: Source<'_>) -> Result<Range<usize>, FileError> {
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
                "the file has no `{}`; a sweep changes a key that the file has, or one of the profile's: \
                 \"profile.host_dma.rate\"",
                self.key
            );
            source.error(&of_key(root.get_ref()), wrong)
        };
        let mut parts = self.key.split('.');
        let first = parts.next().unwrap_or_default();
        let mut found = root.get_ref().get(first).ok_or_else(missing)?;
        for part in parts {
            found = match found.get_ref() {
                DeValue::Table(table) => table.get(part),
                DeValue::Array(list) => {
                    part.parse::<usize>().ok().and_then(|place| list.get(place))
                }
                _ => None,
            }
            .ok_or_else(missing)?;
        }
        match found.get_ref() {
            DeValue::Table(_) => {
                let wrong = format!("`{}` is a table; a sweep changes one value", self.key);
                Err(source.error(&of_key(root.get_ref()), wrong))
            }
            _ => Ok(found.span()),
        }
    }
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
