//! Changing single values of a profile's text: for sweeps, calibration, and "what if".

/// A value of a profile with its key and source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Section and key: `card.steps.look_round`.
    pub key: String,
    /// The value as written, without quotes: `15 cycles`.
    pub value: String,
    /// The value's source.
    pub source: String,
}

/// All values of a profile, in their order.
pub fn entries(text: &str) -> Vec<Entry> {
    let mut section = "";
    let mut entries = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end().trim_end_matches(']');
        } else if let Some((key, rest)) = line.split_once(" = { value = ") {
            let Some((value, source)) = rest.split_once(", source = \"") else {
                continue;
            };
            entries.push(Entry {
                key: format!("{section}.{key}"),
                value: value.trim_matches('"').to_owned(),
                source: source.trim_end().trim_end_matches("\" }").to_owned(),
            });
        }
    }
    entries
}

/// The text with another value of a key; `None` if it has no such key. The value is written as in the file, without quotes.
pub fn with_value(text: &str, key: &str, value: &str) -> Option<String> {
    let (wanted, key) = key.rsplit_once('.')?;
    let written = match value.parse::<i64>() {
        Ok(_) => value.to_owned(),
        Err(_) => format!("{value:?}"),
    };
    let (mut section, mut is_found) = ("", false);
    let mut changed = String::with_capacity(text.len());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end().trim_end_matches(']');
        }
        let is_wanted = section == wanted
            && line
                .split_once(" = { value = ")
                .is_some_and(|(found, _)| found == key);
        if is_wanted {
            is_found = true;
            changed.push_str(&format!(
                "{key} = {{ value = {written}, source = \"set for this run\" }}"
            ));
        } else {
            changed.push_str(line);
        }
        changed.push('\n');
    }
    is_found.then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, SHIPPED};

    #[test]
    fn every_value_of_a_shipped_profile_is_found_and_can_be_set() {
        for (name, text) in SHIPPED {
            let found = entries(text);
            assert_eq!(found.len(), text.matches("source = \"").count(), "{name}");
            for entry in found {
                let same = with_value(text, &entry.key, &entry.value).expect("it is there");
                let read = Profile::parse(&same, name).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(Ok(read), Profile::parse(text, name));
            }
        }
    }

    #[test]
    fn other_values_are_read_and_other_keys_are_not_there() {
        let text = SHIPPED[3].1;
        let other = with_value(text, "host_dma.rate", "100 MB/s").expect("it is there");
        let read = Profile::parse(&other, "other").expect("it is right");
        assert_eq!(read.host_dma.bytes_per_second, 100_000_000);
        assert_eq!(with_value(text, "host_dma.colour", "blue"), None);
        assert_eq!(with_value(text, "rate", "blue"), None);
    }
}
