//! Variables of the tool information interface (MPI 5.0 chapter 15), all of them numbers of 64 bits.

use std::time::Duration;

use causeway_engine::types::{Config, Info as Activity, InfoOption};

use crate::abi;
use crate::error::{Error, Result};
use crate::io::file::BUFFER;
use crate::process::Process;

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Bytes of the largest message that travels eagerly.
    EagerLimit,
    /// Longest spin before a wait sleeps, microseconds.
    Spin,
    /// Time after which a stall is reported, seconds.
    StallAfter,
    /// Bytes that a process collects at a time in collective access to files.
    FileBuffer,
}

/// A measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "their descriptions say it")]
pub enum Measure {
    MessagesSent,
    BytesSent,
    MessagesReceived,
    BytesReceived,
    UnexpectedMessages,
    UnexpectedBytes,
    Sleeps,
}

/// A variable as tools see it.
#[derive(Debug)]
pub struct Variable<T: 'static> {
    /// The setting or measure that it shows.
    pub what: T,
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// `MPI_T_PVAR_CLASS_*`, for measures.
    pub class: i32,
}

const fn setting(
    what: Setting,
    name: &'static str,
    description: &'static str,
) -> Variable<Setting> {
    Variable {
        what,
        name,
        description,
        class: 0,
    }
}

const fn measure(
    what: Measure,
    class: i32,
    name: &'static str,
    description: &'static str,
) -> Variable<Measure> {
    Variable {
        what,
        name,
        description,
        class,
    }
}

/// All settings. They can be changed at any time.
pub const SETTINGS: &[Variable<Setting>] = &[
    setting(
        Setting::EagerLimit,
        "causeway_eager_limit",
        "Bytes of the largest message that travels eagerly; the largest number leaves it to the method",
    ),
    setting(
        Setting::Spin,
        "causeway_spin_us",
        "Longest spin before a wait sleeps, microseconds",
    ),
    setting(
        Setting::StallAfter,
        "causeway_stall_after_s",
        "Time without progress after which an operation is reported in the log, seconds; 0 for never",
    ),
    setting(
        Setting::FileBuffer,
        "causeway_file_buffer",
        "Bytes that a process collects at a time in collective access to files that are opened from now on",
    ),
];

/// All measures, counted from `MPI_Init` on.
pub const MEASURES: &[Variable<Measure>] = &[
    measure(
        Measure::MessagesSent,
        abi::T_PVAR_CLASS_COUNTER,
        "causeway_messages_sent",
        "Messages that were sent",
    ),
    measure(
        Measure::BytesSent,
        abi::T_PVAR_CLASS_AGGREGATE,
        "causeway_bytes_sent",
        "Bytes of the messages that were sent",
    ),
    measure(
        Measure::MessagesReceived,
        abi::T_PVAR_CLASS_COUNTER,
        "causeway_messages_received",
        "Messages that were received",
    ),
    measure(
        Measure::BytesReceived,
        abi::T_PVAR_CLASS_AGGREGATE,
        "causeway_bytes_received",
        "Bytes of the messages that were received",
    ),
    measure(
        Measure::UnexpectedMessages,
        abi::T_PVAR_CLASS_LEVEL,
        "causeway_unexpected_messages",
        "Messages that wait for their receives",
    ),
    measure(
        Measure::UnexpectedBytes,
        abi::T_PVAR_CLASS_LEVEL,
        "causeway_unexpected_bytes",
        "Bytes that are held of messages that wait for their receives",
    ),
    measure(
        Measure::Sleeps,
        abi::T_PVAR_CLASS_COUNTER,
        "causeway_sleeps",
        "How often a wait has slept",
    ),
];

/// A category of variables.
#[derive(Debug)]
pub struct Category {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// Indices of its settings.
    pub settings: &'static [i32],
    /// Indices of its measures.
    pub measures: &'static [i32],
}

/// All categories.
pub const CATEGORIES: &[Category] = &[
    Category {
        name: "messages",
        description: "Messages between processes",
        settings: &[0, 1, 2],
        measures: &[0, 1, 2, 3, 4, 5, 6],
    },
    Category {
        name: "files",
        description: "Files",
        settings: &[3],
        measures: &[],
    },
];

/// The values of all settings.
#[derive(Debug, Clone, Copy)]
pub struct Settings([u64; SETTINGS.len()]);

impl Default for Settings {
    fn default() -> Self {
        let config = Config::default();
        Self([
            config.eager_limit as u64,
            config.spin.as_micros() as u64,
            config.stall_after.as_secs(),
            BUFFER,
        ])
    }
}

impl Settings {
    /// The value of a setting.
    pub fn get(&self, setting: Setting) -> u64 {
        self.0[setting as usize]
    }

    /// Sets it.
    pub fn set(&mut self, setting: Setting, value: u64) {
        self.0[setting as usize] = value;
    }
}

impl Process {
    /// Has a setting take effect.
    pub fn apply(&mut self, settings: &Settings, setting: Setting) -> Result<()> {
        let value = settings.get(setting);
        let option = match setting {
            Setting::EagerLimit => InfoOption::EagerLimit(value as usize),
            Setting::Spin => InfoOption::Spin(Duration::from_micros(value)),
            Setting::StallAfter => InfoOption::StallAfter(Duration::from_secs(value)),
            Setting::FileBuffer => {
                self.file_buffer = value;
                return Ok(());
            }
        };
        Ok(self.endpoint.set_info(None, option)?)
    }

    /// Measured values.
    pub fn measured(&self, measure: Measure) -> u64 {
        let Activity {
            unexpected_waiting,
            early_bytes,
            sleeps,
            sent,
            received,
            ..
        } = self.endpoint.get_info(None);
        match measure {
            Measure::MessagesSent => sent.number,
            Measure::BytesSent => sent.bytes,
            Measure::MessagesReceived => received.number,
            Measure::BytesReceived => received.bytes,
            Measure::UnexpectedMessages => unexpected_waiting as u64,
            Measure::UnexpectedBytes => early_bytes as u64,
            Measure::Sleeps => sleeps,
        }
    }
}

/// The entry of a list at an index that a tool gives.
pub fn at<T>(list: &'static [T], index: i32) -> Result<&'static T> {
    let found = usize::try_from(index)
        .ok()
        .and_then(|index| list.get(index));
    found.ok_or_else(|| {
        let text = format!("the index {index} of {}", list.len());
        Error::new(abi::T_ERR_INVALID_INDEX, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_the_order_of_their_numbers() {
        for (at, variable) in SETTINGS.iter().enumerate() {
            assert_eq!(variable.what as usize, at);
        }
        for (at, variable) in MEASURES.iter().enumerate() {
            assert_eq!(variable.what as usize, at);
        }
        let settings = CATEGORIES.iter().flat_map(|category| category.settings);
        assert_eq!(settings.count(), SETTINGS.len());
        assert!(at(SETTINGS, -1).is_err() && at(SETTINGS, 4).is_err());
    }
}
