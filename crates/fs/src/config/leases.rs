//! The section `[leases]`: how long clients may cache names and attributes.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::source::Source;
use super::types::{ConfigError, DEFAULT_LEASE_TIME};
use super::unit_text::{UnitText, duration_within};
use super::units::duration;

/// With shorter leases, the part of the time that clients leave unused would be no longer than a thread may wait for a processor; with longer
/// ones, others would wait too long for a client that is gone.
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeasesText {
    time: Option<Spanned<UnitText>>,
}

/// The time of leases with this time-out, if `asked` is configured: at most half of the time-out. Zero, for no leases, if that is too short.
pub(super) fn good_for(asked: Duration, timeout: Duration) -> Duration {
    let time = asked.min(timeout / 2);
    match TIMES.contains(&time) {
        true => time,
        false => Duration::ZERO,
    }
}

/// Reads the section.
pub(super) fn time(source: &Source<'_>, text: Option<LeasesText>) -> Result<Duration, ConfigError> {
    let given = text.and_then(|text| text.time);
    let what = "the time of a lease";
    duration_within(source, given.as_ref(), DEFAULT_LEASE_TIME, &TIMES, what)
}

/// The section's text. Builds that do not know the section refuse it: if it only contains the default, it is left
/// out.
pub(super) fn print(time: Duration) -> String {
    match time == DEFAULT_LEASE_TIME {
        true => String::new(),
        false => format!(
            "
# Leases by which clients cache names and attributes (docs/coherence.md).
[leases]
# How long others wait at most for a client that does not reply; half of `timeout` if that is less, and none if that is below 1 s.
time = \"{}\"
",
            duration(time)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_good_for_half_of_the_time_out_at_most_and_for_a_second_at_least() {
        for (asked, timeout, expected) in [
            (5000, 10_000, 5000),
            (5000, 30_000, 5000),
            (5000, 4000, 2000),
            (60_000, 2000, 1000),
            (1000, 1999, 0),
            (5000, 200, 0),
        ] {
            let [asked, timeout, expected] = [asked, timeout, expected].map(Duration::from_millis);
            assert_eq!(good_for(asked, timeout), expected, "{asked:?} {timeout:?}");
        }
    }
}
