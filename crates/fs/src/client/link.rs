//! A server as a client reaches it.

use causeway_bmi::Addr;
use causeway_wire::fs::FORMATS;

use super::introduce::Known;
use crate::config::ServerEntry;

/// A server as this client reaches it.
pub(super) struct Link {
    pub(super) name: String,
    pub(super) addresses: String,
    pub(super) addr: Option<Addr>,
    pub(super) known: Option<Known>,
    /// The format of requests to it: the highest that both sides speak, as far as that is known.
    pub(super) format: u8,
}

impl Link {
    pub(super) fn new(entry: &ServerEntry, only_scheme: Option<&str>) -> Self {
        let usable = |address: &&String| {
            only_scheme.is_none_or(|s| address.split("://").next().is_some_and(|have| have == s))
        };
        let addresses: Vec<&str> = entry
            .addresses
            .iter()
            .filter(usable)
            .map(String::as_str)
            .collect();
        Self {
            name: entry.name.clone(),
            addresses: addresses.join(","),
            addr: None,
            known: None,
            format: FORMATS.highest,
        }
    }

    pub(super) fn describe(&self) -> String {
        format!("{}, {}", self.name, self.addresses)
    }
}
