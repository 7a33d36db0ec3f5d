//! Reads values with units, and says what is allowed in the place of others.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::source::Source;
use super::types::ConfigError;
use super::units::{duration, parse_duration, parse_size};

/// A value with a unit: a text, or a number of bytes. Anything else is kept for the error, which says what is allowed.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum UnitText {
    Bytes(u64),
    Text(String),
    Other(toml::Value),
}

impl UnitText {
    /// The value as it is in the file, without quotes.
    fn shown(&self) -> String {
        match self {
            Self::Bytes(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::Other(value) => value.to_string(),
        }
    }

    /// The number of bytes, if it is one.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(*bytes),
            Self::Text(text) => parse_size(text),
            Self::Other(_) => None,
        }
    }

    fn duration(&self) -> Option<Duration> {
        match self {
            Self::Text(text) => parse_duration(text),
            Self::Bytes(_) | Self::Other(_) => None,
        }
    }

    /// The error that this is not `what`, which is to be `allowed`.
    pub(super) fn refused(
        given: &Spanned<Self>,
        source: &Source<'_>,
        what: &str,
        allowed: &str,
    ) -> ConfigError {
        let message = format!("`{}` is not {what}: {allowed}", given.get_ref().shown());
        source.error(&given.span(), message)
    }
}

/// Reads a duration in this range, which errors call `what`; `usual` if none is given.
pub(super) fn duration_within(
    source: &Source<'_>,
    given: Option<&Spanned<UnitText>>,
    usual: Duration,
    range: &RangeInclusive<Duration>,
    what: &str,
) -> Result<Duration, ConfigError> {
    let Some(given) = given else {
        return Ok(usual);
    };
    let parsed = given.get_ref().duration();
    parsed.filter(|time| range.contains(time)).ok_or_else(|| {
        let allowed = format!(
            "a whole number and `ms`, `s` or `min` in quotes, from \"{}\" to \"{}\", such as \"{}\"",
            duration(*range.start()),
            duration(*range.end()),
            duration(usual)
        );
        UnitText::refused(given, source, what, &allowed)
    })
}
