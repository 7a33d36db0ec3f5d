//! Where errors in a configuration's text are.

use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;

use super::types::ConfigError;

/// The text that an error's line refers to.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a str,
}

impl Source<'_> {
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    pub(super) fn error(&self, span: &Range<usize>, message: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.file.to_owned(),
            line: self.line(span),
            message: message.into(),
            errno: None,
        }
    }
}

/// Refuses the path of a key file that is not the same wherever a program runs.
pub(super) fn check_key_file(
    source: &Source<'_>,
    key_file: &Spanned<PathBuf>,
) -> Result<(), ConfigError> {
    match key_file.get_ref().is_absolute() {
        true => Ok(()),
        false => Err(source.error(
            &key_file.span(),
            "the key file's path is relative; it must be absolute, as every node uses it",
        )),
    }
}
