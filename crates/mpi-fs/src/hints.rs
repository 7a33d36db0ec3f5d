//! Hints of the program: where the configuration is, and how a new file is striped. Invalid values are ignored (MPI 5.0
//! §14.2.8).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use causeway_mpi::info::Info;
use causeway_wire::datafile::BLOCK_BYTES;
use causeway_wire::fs::{Distribution, DistributionHint, MAX_STUFFED_BYTES};

/// The file system's configuration file.
const CONFIGURATION: &str = "causeway_config";
/// On how many servers a new file lies.
const SERVERS: &str = "striping_factor";
/// Bytes of a strip of a new file.
const STRIP: &str = "striping_unit";
/// The first server of a new file, counted from 0.
const FIRST: &str = "start_iodevice";

fn number<T: TryFrom<u64>>(info: &Info, key: &str) -> Option<T> {
    let value = info.get(key.as_bytes()).ok().flatten()?;
    let value: u64 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    T::try_from(value).ok()
}

/// The configuration file that the program names.
pub(crate) fn configuration(info: &Info) -> Option<&Path> {
    let value = info.get(CONFIGURATION.as_bytes()).ok().flatten()?;
    (!value.is_empty()).then(|| Path::new(OsStr::from_bytes(value)))
}

/// How a new file is to be striped in a file system with this number of I/O servers: it is striped over no more
/// than these.
pub(crate) fn distribution(info: &Info, servers: usize) -> Option<DistributionHint> {
    let most = u16::try_from(servers).unwrap_or(u16::MAX);
    let among = |number: u64| u16::try_from(number).unwrap_or(u16::MAX).min(most);
    let is_strip = |strip: &u32| {
        (*strip as usize).is_multiple_of(BLOCK_BYTES as usize)
            && *strip as usize >= MAX_STUFFED_BYTES
    };
    let hint = DistributionHint {
        strip_size: number(info, STRIP).filter(is_strip).unwrap_or(0),
        servers: number(info, SERVERS).map_or(0, among),
        start: number(info, FIRST).map_or(0, |first: u64| among(first.saturating_add(1))),
    };
    (hint != DistributionHint::default()).then_some(hint)
}

/// The hints that say how a file is striped.
pub(crate) fn of(distribution: &Distribution) -> Vec<(&'static str, String)> {
    vec![
        (SERVERS, distribution.servers.len().to_string()),
        (STRIP, distribution.strip_size.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(hints: &[(&str, &str)]) -> Info {
        let mut info = Info::default();
        for (key, value) in hints {
            info.set(key.as_bytes(), value.as_bytes()).expect("a hint");
        }
        info
    }

    #[test]
    fn invalid_values_are_ignored() {
        let of = |hints: &[(&str, &str)]| distribution(&info(hints), 4);
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[(STRIP, "1000"), (SERVERS, "many"), (FIRST, "-1")]),
            None
        );
        assert_eq!(of(&[(STRIP, "4096"), (SERVERS, "0")]), None);
        let wanted = DistributionHint {
            strip_size: 65_536,
            servers: 2,
            start: 1,
        };
        let given = [(STRIP, "65536"), (SERVERS, " 2"), (FIRST, "0")];
        assert_eq!(of(&given), Some(wanted));
        let all = DistributionHint {
            strip_size: 0,
            servers: 4,
            start: 4,
        };
        for beyond in ["5", "70000", "18446744073709551615"] {
            let given = [(SERVERS, beyond), (FIRST, beyond)];
            assert_eq!(of(&given), Some(all), "{beyond}");
        }
    }

    #[test]
    fn the_configuration_is_the_one_that_is_named() {
        assert_eq!(configuration(&info(&[])), None);
        let named = info(&[(CONFIGURATION, "/a/b.toml")]);
        assert_eq!(configuration(&named), Some(Path::new("/a/b.toml")));
    }
}
