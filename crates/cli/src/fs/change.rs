//! Verbs that change attributes: `chmod`, `touch`, `truncate`.

pub(crate) mod chmod;
pub(crate) mod touch;
pub(crate) mod truncate;

/// Reads permission bits written in octal.
pub(crate) fn parse_octal(text: &str) -> Result<u16, String> {
    u16::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| format!("`{text}` is not a mode; write octal digits up to 7777, like 755"))
}
