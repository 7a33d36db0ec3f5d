//! Quantities as people write them: a number and its unit.

use crate::engine::{SECOND, Time};

/// The kind of quantity that a key needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A span of time, read as picoseconds.
    Time,
    /// An amount of memory, read as bytes.
    Size,
    /// A speed of moving bytes, read as bytes per second.
    Rate,
    /// A clock, read as cycles per second.
    Frequency,
    /// Cycles of the clock that the key's section names.
    Cycles,
}

type Units = &'static [(&'static str, u128, u128)];

/// Each unit with the factor and the divisor that convert it.
const TIMES: Units = &[
    ("ps", 1, 1),
    ("ns", 1_000, 1),
    ("us", 1_000_000, 1),
    ("ms", 1_000_000_000, 1),
    ("s", 1_000_000_000_000, 1),
];
const SIZES: Units = &[
    ("B", 1, 1),
    ("bit", 1, 8),
    ("KiB", 1 << 10, 1),
    ("MiB", 1 << 20, 1),
    ("GiB", 1 << 30, 1),
];
const RATES: Units = &[
    ("B/s", 1, 1),
    ("kB/s", 1_000, 1),
    ("MB/s", 1_000_000, 1),
    ("GB/s", 1_000_000_000, 1),
    ("Mbit/s", 1_000_000, 8),
    ("Gbit/s", 1_000_000_000, 8),
];
const FREQUENCIES: Units = &[
    ("Hz", 1, 1),
    ("kHz", 1_000, 1),
    ("MHz", 1_000_000, 1),
    ("GHz", 1_000_000_000, 1),
];
const CYCLES: Units = &[("cycles", 1, 1)];

impl Kind {
    fn units(self) -> Units {
        match self {
            Self::Time => TIMES,
            Self::Size => SIZES,
            Self::Rate => RATES,
            Self::Frequency => FREQUENCIES,
            Self::Cycles => CYCLES,
        }
    }

    /// The least (other than none) and the most of a kind that hardware may have here, and the text
    /// for errors. With more, times would overflow.
    pub fn of_hardware(self) -> (u64, u64, &'static str) {
        match self {
            Self::Time => (0, SECOND, "at most 1 s"),
            Self::Size => (0, 1 << 40, "at most 1024 GiB"),
            Self::Rate => (
                100_000,
                1_000_000_000_000_000,
                "from 100 kB/s to 1000000 GB/s",
            ),
            Self::Frequency => (1_000_000, 1_000_000_000_000, "from 1 MHz to 1000 GHz"),
            Self::Cycles => (0, 1_000_000, "at most 1000000 cycles"),
        }
    }

    /// The allowed values, for errors.
    fn allowed(self) -> String {
        let (what, example) = match self {
            Self::Time => ("a time", "30 ns"),
            Self::Size => ("a size", "4 KiB"),
            Self::Rate => ("a rate", "132 MB/s"),
            Self::Frequency => ("a frequency", "33 MHz"),
            Self::Cycles => ("a number of cycles", "12 cycles"),
        };
        let units: Vec<&str> = self.units().iter().map(|&(unit, ..)| unit).collect();
        format!(
            "{what} such as \"{example}\" is wanted; units are {}",
            units.join(", ")
        )
    }
}

/// Parses `text` as a quantity of `kind`; the error states what is allowed.
pub fn parse(text: &str, kind: Kind) -> Result<u64, String> {
    let wrong = || format!("`{text}`: {}", kind.allowed());
    let (number, unit) = text.split_once(' ').ok_or_else(wrong)?;
    let &(_, factor, divisor) = kind
        .units()
        .iter()
        .find(|(name, ..)| *name == unit.trim())
        .ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || number.ends_with('.') {
        return Err(wrong());
    }
    let places = u32::try_from(fraction.len()).map_err(|_| wrong())?;
    let scale = 10_u128.checked_pow(places).ok_or_else(wrong)?;
    let value = format!("{whole}{fraction}")
        .parse::<u128>()
        .ok()
        .and_then(|value| value.checked_mul(factor))
        .ok_or_else(wrong)?;
    let divisor = divisor.checked_mul(scale).ok_or_else(wrong)?;
    if !value.is_multiple_of(divisor) {
        return Err(format!("`{text}`: is finer than can be represented here"));
    }
    u64::try_from(value / divisor).map_err(|_| wrong())
}

/// Writes a span of time with the unit that suits it.
pub fn show_time(time: Time) -> String {
    let (unit, size) = match time {
        0..1_000_000 => ("ns", 1_000),
        1_000_000..1_000_000_000 => ("us", 1_000_000),
        1_000_000_000..1_000_000_000_000 => ("ms", 1_000_000_000),
        _ => ("s", 1_000_000_000_000),
    };
    let thousandths = time % size * 1_000 / size;
    format!("{}.{thousandths:03} {unit}", time / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        assert_eq!(parse("30 ns", Kind::Time), Ok(30_000));
        assert_eq!(parse("1.25 us", Kind::Time), Ok(1_250_000));
        assert_eq!(parse("64 bit", Kind::Size), Ok(8));
        assert_eq!(parse("1.28 Gbit/s", Kind::Rate), Ok(160_000_000));
        assert_eq!(parse("132 MB/s", Kind::Rate), Ok(132_000_000));
        assert_eq!(parse("37.5 MHz", Kind::Frequency), Ok(37_500_000));
        assert_eq!(parse("12 cycles", Kind::Cycles), Ok(12));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_is_allowed() {
        for text in [
            "30", "30ns", "-1 ns", "1e3 ns", "x ns", "1. ns", ".5 ns", "", " ns", "5 MHz",
        ] {
            let error = parse(text, Kind::Time).expect_err(text);
            assert!(error.contains("ps, ns, us, ms, s"), "{error}");
        }
        assert!(parse("0.5 ps", Kind::Time).is_err());
        assert!(parse("99999999999 s", Kind::Time).is_err());
        assert!(parse("3 bit", Kind::Size).is_err());
        let long = format!("1.{} ns", "0".repeat(60));
        assert!(parse(&long, Kind::Time).is_err());
    }

    #[test]
    fn times_are_shown_in_a_fitting_unit() {
        assert_eq!(show_time(1_500), "1.500 ns");
        assert_eq!(show_time(30_250_000), "30.250 us");
        assert_eq!(show_time(2_000_000_000_000), "2.000 s");
    }
}
