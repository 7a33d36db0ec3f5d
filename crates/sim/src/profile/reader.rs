//! Strict reading of parameter files: every error names its line, and states what is allowed.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::units::{self, Kind};

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct FileError {
    /// The file's name as it was passed in.
    pub file: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// A file's text and name, which errors need in addition to a position.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl<'a> Source<'a> {
    /// The line, from 1, on which something begins.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    pub(crate) fn error(&self, span: &Range<usize>, message: impl Into<String>) -> FileError {
        FileError {
            file: self.file.to_owned(),
            line: self.line(span),
            message: message.into(),
        }
    }

    /// Reads the text as TOML.
    pub(crate) fn document(self) -> Result<Section<'a>, FileError> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            self.error(&span, error.message().trim().to_owned())
        })?;
        let span = table.span();
        Ok(self.section(String::new(), span, table.into_inner()))
    }

    fn section(self, name: String, span: Range<usize>, table: DeTable<'a>) -> Section<'a> {
        Section {
            source: self,
            name,
            span,
            table,
            known: Vec::new(),
        }
    }
}

/// A table of the file, from which its reader takes the keys that it knows. Remaining keys are
/// errors.
pub(crate) struct Section<'a> {
    source: Source<'a>,
    name: String,
    span: Range<usize>,
    table: DeTable<'a>,
    known: Vec<String>,
}

/// A value that was read, and its position.
#[derive(Clone, Debug)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

impl<'a> Section<'a> {
    fn place(&self) -> String {
        match self.name.as_str() {
            "" => "the file".to_owned(),
            name => format!("[{name}]"),
        }
    }

    pub(crate) fn error(&self, span: &Range<usize>, message: impl Into<String>) -> FileError {
        self.source.error(span, message)
    }

    fn path(&self, key: &str) -> String {
        match self.name.as_str() {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    fn take(&mut self, key: &str) -> Option<Spanned<DeValue<'a>>> {
        self.has(key);
        self.table.remove(key)
    }

    fn need(&mut self, key: &str) -> Result<Spanned<DeValue<'a>>, FileError> {
        self.take(key).ok_or_else(|| {
            let message = format!("{} lacks `{key}`", self.place());
            self.error(&self.span, message)
        })
    }

    /// A table that may be missing.
    pub(crate) fn optional_section(&mut self, key: &str) -> Result<Option<Self>, FileError> {
        let name = self.path(key);
        let Some(found) = self.take(key) else {
            return Ok(None);
        };
        let span = found.span();
        match found.into_inner() {
            DeValue::Table(table) => Ok(Some(self.source.section(name, span, table))),
            other => Err(self.error(
                &span,
                format!(
                    "`{name}` must be a table, and is of type {}",
                    other.type_str()
                ),
            )),
        }
    }

    /// A table that must exist.
    pub(crate) fn section(&mut self, key: &str) -> Result<Self, FileError> {
        let missing = self.error(
            &self.span,
            format!("{} lacks `[{}]`", self.place(), self.path(key)),
        );
        self.optional_section(key)?.ok_or(missing)
    }

    /// The result of `read` for a table that must exist; keys that it does not take are errors.
    pub(crate) fn part<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Self) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let mut section = self.section(key)?;
        let found = read(&mut section)?;
        section.finish()?;
        Ok(found)
    }

    /// Reports the first of these keys as an error: files of earlier versions have them, and nothing depends on them.
    pub(crate) fn without_effect(&self, keys: &[&str]) -> Result<(), FileError> {
        let mut old = self.table.iter().map(|(key, _)| key);
        match old.find(|key| keys.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(key) => {
                let path = self.path(key.get_ref());
                let wrong = format!("`{path}` has no effect: remove it");
                Err(self.error(&key.span(), wrong))
            }
        }
    }

    /// Reports the first key that was not read as an error.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        match self.table.iter().next() {
            None => Ok(()),
            Some((key, _)) => Err(self.error(
                &key.span(),
                format!(
                    "{} knows no `{}`; it knows {}",
                    self.place(),
                    key.get_ref(),
                    self.known.join(", ")
                ),
            )),
        }
    }

    /// Reads `{ value = …, source = "…" }`; a value without a source is refused.
    fn sourced(&mut self, key: &str) -> Result<Spanned<DeValue<'a>>, FileError> {
        let found = self.need(key)?;
        let span = found.span();
        let path = self.path(key);
        let DeValue::Table(table) = found.into_inner() else {
            return Err(self.error(
                &span,
                format!("`{path}` must be written {{ value = …, source = \"where it is from\" }}"),
            ));
        };
        let mut parts = self.source.section(path.clone(), span, table);
        let source = parts.need("source")?;
        if source
            .get_ref()
            .as_str()
            .is_none_or(|text| text.trim().is_empty())
        {
            return Err(self.error(
                &source.span(),
                format!("the source of `{path}` must say in words where the value is from"),
            ));
        }
        let value = parts.need("value")?;
        parts.finish()?;
        Ok(value)
    }

    /// A quantity with its source.
    pub(crate) fn quantity(&mut self, key: &str, kind: Kind) -> Result<Sourced<u64>, FileError> {
        let value = self.sourced(key)?;
        let found = self.as_quantity(key, &value, kind)?;
        let (least, most, allowed) = kind.of_hardware();
        // The caller decides whether 0 is allowed.
        if found.value > 0 && !(least..=most).contains(&found.value) {
            let path = self.path(key);
            let wrong = format!("`{path}` is beyond what is simulated: it must be {allowed}");
            return Err(self.error(&found.span, wrong));
        }
        Ok(found)
    }

    /// A quantity with its source that must not be 0.
    pub(crate) fn positive(&mut self, key: &str, kind: Kind) -> Result<Sourced<u64>, FileError> {
        let found = self.quantity(key, kind)?;
        if found.value == 0 {
            let path = self.path(key);
            return Err(self.error(&found.span, format!("`{path}` must be more than 0")));
        }
        Ok(found)
    }

    /// A quantity with its source that must not be 0, or `None` for "unlimited".
    pub(crate) fn limit(&mut self, key: &str, kind: Kind) -> Result<Option<u64>, FileError> {
        let value = self.sourced(key)?;
        if value.get_ref().as_str() == Some("unlimited") {
            return Ok(None);
        }
        let found = self.as_quantity(key, &value, kind)?;
        let (_, most, allowed) = kind.of_hardware();
        if found.value == 0 || found.value > most {
            let path = self.path(key);
            let wrong = format!("`{path}` must be more than 0 and {allowed}, or \"unlimited\"");
            return Err(self.error(&found.span, wrong));
        }
        Ok(Some(found.value))
    }

    fn as_quantity(
        &self,
        key: &str,
        value: &Spanned<DeValue<'a>>,
        kind: Kind,
    ) -> Result<Sourced<u64>, FileError> {
        let span = value.span();
        let text = value.get_ref().as_str().ok_or_else(|| {
            let path = self.path(key);
            self.error(
                &span,
                format!("`{path}` must be text: a number and its unit"),
            )
        })?;
        match units::parse(text, kind) {
            Ok(value) => Ok(Sourced { value, span }),
            Err(message) => Err(self.error(&span, format!("`{}` = {message}", self.path(key)))),
        }
    }

    /// A count from `least` to `most`, with its source.
    pub(crate) fn count(
        &mut self,
        key: &str,
        least: u64,
        most: u64,
    ) -> Result<Sourced<u64>, FileError> {
        let value = self.sourced(key)?;
        self.as_count(key, &value, least, most)
    }

    fn as_count(
        &self,
        key: &str,
        value: &Spanned<DeValue<'a>>,
        least: u64,
        most: u64,
    ) -> Result<Sourced<u64>, FileError> {
        let span = value.span();
        let count = value.get_ref().as_integer().and_then(|integer| {
            u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
        });
        match count.filter(|count| (least..=most).contains(count)) {
            Some(value) => Ok(Sourced { value, span }),
            None => Err(self.error(
                &span,
                format!(
                    "`{}` must be a whole number from {least} to {most}",
                    self.path(key)
                ),
            )),
        }
    }

    /// One of several words, with its source.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Sourced<T>, FileError> {
        let value = self.sourced(key)?;
        self.as_word(key, &value, words)
    }

    fn as_word<T: Copy>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'a>>,
        words: &[(&str, T)],
    ) -> Result<Sourced<T>, FileError> {
        let span = value.span();
        let text = value.get_ref().as_str();
        match words.iter().find(|(word, _)| Some(*word) == text) {
            Some(&(_, value)) => Ok(Sourced { value, span }),
            None => {
                let allowed: Vec<String> = words
                    .iter()
                    .map(|(word, _)| format!("\"{word}\""))
                    .collect();
                Err(self.error(
                    &span,
                    format!("`{}` must be {}", self.path(key), allowed.join(" or ")),
                ))
            }
        }
    }

    /// Whether the key exists; it counts as known from now on.
    pub(crate) fn has(&mut self, key: &str) -> bool {
        if !self.known.iter().any(|known| known == key) {
            self.known.push(key.to_owned());
        }
        self.table.contains_key(key)
    }

    /// The result of `read` for a key that may be missing.
    pub(crate) fn optional<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Self, &str) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        match self.has(key) {
            true => read(self, key).map(Some),
            false => Ok(None),
        }
    }

    /// A word without a source, or `default` without the key.
    pub(crate) fn word_or<T: Copy>(
        &mut self,
        key: &str,
        words: &[(&str, T)],
        default: T,
    ) -> Result<T, FileError> {
        let found = self.optional(key, |section, key| section.own_word(key, words))?;
        Ok(found.map_or(default, |found| found.value))
    }

    /// A count without a source, or `default` without the key.
    pub(crate) fn count_or(
        &mut self,
        key: &str,
        least: u64,
        most: u64,
        default: u64,
    ) -> Result<u64, FileError> {
        let found = self.optional(key, |section, key| section.own_count(key, least, most))?;
        Ok(found.map_or(default, |found| found.value))
    }

    /// `true` or `false` without a source; `false` without the key.
    pub(crate) fn is_set(&mut self, key: &str) -> Result<bool, FileError> {
        let found = self.optional(key, Self::own_flag)?;
        Ok(found.is_some_and(|found| found.value))
    }

    /// The position of the section.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// A quantity without a source, as users write it.
    pub(crate) fn own_quantity(
        &mut self,
        key: &str,
        kind: Kind,
    ) -> Result<Sourced<u64>, FileError> {
        let value = self.need(key)?;
        self.as_quantity(key, &value, kind)
    }

    /// A count without a source.
    pub(crate) fn own_count(
        &mut self,
        key: &str,
        least: u64,
        most: u64,
    ) -> Result<Sourced<u64>, FileError> {
        let value = self.need(key)?;
        self.as_count(key, &value, least, most)
    }

    /// A word without a source.
    pub(crate) fn own_word<T: Copy>(
        &mut self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Sourced<T>, FileError> {
        let value = self.need(key)?;
        self.as_word(key, &value, words)
    }

    /// `true` or `false` without a source.
    pub(crate) fn own_flag(&mut self, key: &str) -> Result<Sourced<bool>, FileError> {
        let value = self.need(key)?;
        let span = value.span();
        match value.get_ref().as_bool() {
            Some(value) => Ok(Sourced { value, span }),
            None => Err(self.error(&span, format!("`{}` must be true or false", self.path(key)))),
        }
    }

    /// A number without a source that need not be whole.
    pub(crate) fn own_number(
        &mut self,
        key: &str,
        least: f64,
        most: f64,
    ) -> Result<Sourced<f64>, FileError> {
        let value = self.need(key)?;
        let span = value.span();
        let text = match value.get_ref() {
            DeValue::Float(number) => number.as_str().replace('_', ""),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().replace('_', ""),
            _ => String::new(),
        };
        let number = text.parse::<f64>().ok();
        match number.filter(|number| (least..=most).contains(number)) {
            Some(value) => Ok(Sourced { value, span }),
            None => Err(self.error(
                &span,
                format!(
                    "`{}` must be a number from {least} to {most}",
                    self.path(key)
                ),
            )),
        }
    }

    /// A list of quantities without sources, with at least one.
    pub(crate) fn own_quantities(
        &mut self,
        key: &str,
        kind: Kind,
    ) -> Result<Vec<Sourced<u64>>, FileError> {
        let value = self.need(key)?;
        let span = value.span();
        let found = match value.get_ref().as_array() {
            Some(list) => list
                .iter()
                .map(|value| self.as_quantity(key, value, kind))
                .collect::<Result<Vec<_>, _>>()?,
            None => Vec::new(),
        };
        match found.is_empty() {
            false => Ok(found),
            true => {
                let path = self.path(key);
                let message = format!("`{path}` must be a list with at least one entry");
                Err(self.error(&span, message))
            }
        }
    }

    /// A quantity without a source from a least to a most value; `allowed` describes the range.
    pub(crate) fn own_within(
        &mut self,
        key: &str,
        kind: Kind,
        (least, most, allowed): (u64, u64, &str),
    ) -> Result<u64, FileError> {
        let found = self.own_quantity(key, kind)?;
        match (least..=most).contains(&found.value) {
            true => Ok(found.value),
            false => {
                let wrong = format!("`{}` {allowed}", self.path(key));
                Err(self.error(&found.span, wrong))
            }
        }
    }

    /// A list of names without sources, with at least one. Whole numbers are names too.
    pub(crate) fn own_texts(&mut self, key: &str) -> Result<Vec<Sourced<String>>, FileError> {
        let value = self.need(key)?;
        let path = self.path(key);
        let wrong = format!("`{path}` must be a list of names or numbers with at least one entry");
        let list = value.get_ref().as_array().filter(|list| !list.is_empty());
        let Some(list) = list else {
            return Err(self.error(&value.span(), wrong));
        };
        list.iter()
            .map(|entry| {
                let text = match entry.get_ref() {
                    DeValue::String(text) => text.to_string(),
                    DeValue::Integer(number) => number.as_str().to_owned(),
                    _ => return Err(self.error(&entry.span(), wrong.clone())),
                };
                Ok(Sourced {
                    value: text,
                    span: entry.span(),
                })
            })
            .collect()
    }

    /// A list of single values without sources, as they are written, texts without their quotes; with at least one.
    pub(crate) fn own_values(&mut self, key: &str) -> Result<Vec<Sourced<String>>, FileError> {
        let value = self.need(key)?;
        let wrong = format!(
            "`{}` must be a list of values with at least one entry",
            self.path(key)
        );
        let list = value.get_ref().as_array().filter(|list| !list.is_empty());
        let Some(list) = list else {
            return Err(self.error(&value.span(), wrong));
        };
        list.iter()
            .map(|entry| {
                let value = match entry.get_ref() {
                    DeValue::String(text) => text.to_string(),
                    DeValue::Table(_) => return Err(self.error(&entry.span(), wrong.clone())),
                    _ => self
                        .source
                        .text
                        .get(entry.span())
                        .unwrap_or_default()
                        .to_owned(),
                };
                Ok(Sourced {
                    value,
                    span: entry.span(),
                })
            })
            .collect()
    }

    /// The line of a position.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.source.line(span)
    }

    /// A list of tables, `[[key]]`, with at least one.
    pub(crate) fn sections(&mut self, key: &str) -> Result<Vec<Self>, FileError> {
        let name = self.path(key);
        let value = self.need(key)?;
        let span = value.span();
        let wrong = format!("`{name}` must be written as tables, [[{name}]], at least one");
        let list = match value.into_inner() {
            DeValue::Array(list) if !list.is_empty() => list,
            _ => return Err(self.error(&span, wrong)),
        };
        list.into_iter()
            .map(|entry| {
                let span = entry.span();
                match entry.into_inner() {
                    DeValue::Table(table) => Ok(self.source.section(name.clone(), span, table)),
                    _ => Err(self.error(&span, wrong.clone())),
                }
            })
            .collect()
    }

    /// Text without a source.
    pub(crate) fn text(&mut self, key: &str) -> Result<Sourced<String>, FileError> {
        let value = self.need(key)?;
        let span = value.span();
        match value.get_ref().as_str() {
            Some(text) => Ok(Sourced {
                value: text.to_owned(),
                span,
            }),
            None => Err(self.error(&span, format!("`{}` must be text", self.path(key)))),
        }
    }
}
