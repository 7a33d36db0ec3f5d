//! Sizes, ages, times of day and other processes' text for people.

/// Whether a character can make a terminal show something other than the text: control characters,
/// and those that change the direction of the following text.
pub fn is_deceptive(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text from another process, made safe to show on a terminal.
pub fn plain(text: &str) -> String {
    text.replace(is_deceptive, "?")
}

/// Bytes with a binary unit: `4.0 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A length of time from nanoseconds: `850 ms`, `10.2 s`, `12 min 05 s`, `3 h 20 min`.
pub fn age(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{} ms", ns / 1_000_000),
        1..60 => format!("{:.1} s", ns as f64 / 1e9),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `2026-11-21T03:06:49.123Z` from nanoseconds since 1970.
pub fn time(ns: u64) -> String {
    let seconds = (ns / 1_000_000_000).cast_signed();
    let time = date_and_time(seconds).replace(' ', "T");
    format!("{time}.{:03}Z", ns / 1_000_000 % 1000)
}

/// `2026-11-21 08:15:04`, in UTC, from seconds since 1970.
pub fn date_and_time(seconds: i64) -> String {
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// The date this number of days after the first of January 1970. Years are counted from March on, so that a leap day is the
/// last of its year; 400 years have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_texts_are_replaced() {
        let text = "a\x1b[2J\u{202e}gpj.\u{2066}é\u{2069}\u{9b}\n\u{200d}";
        assert_eq!(plain(text), "a?[2J?gpj.?é???\u{200d}");
    }

    #[test]
    fn figures_read_well() {
        let sizes = [1023, 1024, 4 << 20, 1000 << 20, u64::MAX].map(bytes);
        assert_eq!(
            sizes,
            ["1023 B", "1.0 KiB", "4.0 MiB", "1.0 GiB", "16.0 EiB"]
        );
        let ages = [
            850_000_000,
            10_200_000_000,
            725_000_000_000,
            12_000_000_000_000,
        ]
        .map(age);
        assert_eq!(ages, ["850 ms", "10.2 s", "12 min 05 s", "3 h 20 min"]);
    }

    #[test]
    fn days_have_their_dates() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(951_782_400_000_000_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(time(1_763_694_409_123_999_999), "2025-11-21T03:06:49.123Z");
        assert_eq!(time(4_107_542_399_000_000_000), "2100-02-28T23:59:59.000Z");
        assert_eq!(time(4_107_542_400_000_000_000), "2100-03-01T00:00:00.000Z");
        assert_eq!(date_and_time(-1), "1969-12-31 23:59:59");
        assert_eq!(date_and_time(1_795_248_904), "2026-11-21 08:15:04");
        date_and_time(i64::MIN);
        date_and_time(i64::MAX);
    }
}
