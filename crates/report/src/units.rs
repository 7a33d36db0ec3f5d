//! Numbers with their units: as people read them, and as they type them.

use std::time::Duration;

/// `1.4 GiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 {
        format!("{value:.2} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// Bytes exactly: sizes that are no whole number of KiB in bytes, as `12,345 B`.
pub fn size_text(bytes: u64) -> String {
    match bytes.is_multiple_of(1024) {
        true => bytes_text(bytes),
        false => format!("{} B", count_text(bytes)),
    }
}

/// `52,073`.
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.25 GB/s` from bytes and a time.
pub fn rate_text(bytes: u64, time: Duration) -> String {
    let per_second = bytes as f64 / time.as_secs_f64().max(1e-9);
    if per_second >= 1e9 {
        format!("{:.2} GB/s", per_second / 1e9)
    } else if per_second >= 1e6 {
        format!("{:.1} MB/s", per_second / 1e6)
    } else {
        format!("{:.1} kB/s", per_second / 1e3)
    }
}

/// A number of microseconds with the unit that suits it: `850 ns`, `12.3 µs`, `4.1 ms`, `2.0 s`.
pub fn microseconds_text(microseconds: f64) -> String {
    let (value, unit) = if microseconds < 1.0 {
        (microseconds * 1e3, "ns")
    } else if microseconds < 1e3 {
        (microseconds, "µs")
    } else if microseconds < 1e6 {
        (microseconds / 1e3, "ms")
    } else {
        (microseconds / 1e6, "s")
    };
    if value >= 100.0 {
        format!("{value:.0} {unit}")
    } else if value >= 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.2} {unit}")
    }
}

/// A number without needless digits: `0.5`, `25 k`, `3 M`.
pub fn number_text(figure: f64) -> String {
    if figure == 0.0 {
        return "0".to_owned();
    }
    let magnitude = figure.abs();
    if magnitude >= 1e6 {
        return format!("{} M", number_text(figure / 1e6));
    }
    if magnitude >= 1e4 {
        return format!("{} k", number_text(figure / 1e3));
    }
    let text = format!("{figure:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `12.3 s` or `1 min 05 s`.
pub fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.1 {
        microseconds_text(seconds * 1e6)
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!(
            "{} min {:02} s",
            duration.as_secs() / 60,
            duration.as_secs() % 60
        )
    }
}

/// Reads `4096`, `64KiB`, `64K`, `1GiB`, `1.5GB`: `K`, `M`, `G`, `T` and `KiB` … are powers of 1024,
/// `kB`, `MB` … powers of 1000.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let unit = unit.trim().to_ascii_lowercase();
    let power = match unit.as_str() {
        "" | "b" => Some(1_u64),
        "k" | "kib" => Some(1 << 10),
        "m" | "mib" => Some(1 << 20),
        "g" | "gib" => Some(1 << 30),
        "t" | "tib" => Some(1 << 40),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        "tb" => Some(1_000_000_000_000),
        _ => None,
    };
    let wrong = || format!("`{text}` is not a size; write it like 4096, 64KiB, 1.5GiB or 2GB");
    let power = power.ok_or_else(wrong)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(power)
            .filter(|bytes| *bytes <= i64::MAX as u64)
            .ok_or_else(|| format!("`{text}` is larger than 2^63 - 1 bytes"));
    }
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = value * power as f64;
    if bytes.is_finite() && bytes < i64::MAX as f64 {
        Ok(bytes as u64)
    } else {
        Err(format!("`{text}` is larger than 2^63 - 1 bytes"))
    }
}

/// A figure with the unit of its metric.
pub fn figure_text(metric: &str, value: f64) -> String {
    match metric {
        "latency_us" => microseconds_text(value),
        "bandwidth_mb_s" if value >= 1000.0 => format!("{:.2} GB/s", value / 1000.0),
        "bandwidth_mb_s" if value < 1.0 => format!("{:.1} kB/s", value * 1000.0),
        "bandwidth_mb_s" => format!("{value:.1} MB/s"),
        "rate_per_s" if value >= 1e6 => format!("{:.2} M/s", value / 1e6),
        "rate_per_s" => format!("{} /s", count_text(value.max(0.0) as u64)),
        "ratio" => format!("{value:.2} ×"),
        "cpu_share" => format!("{:.1} %", value * 100.0),
        "memory_mib" => format!("{value:.1} MiB"),
        "seconds" => format!("{value:.2} s"),
        other => format!("{value:.3} {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes("64k"), Ok(65_536));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("2GB"), Ok(2_000_000_000));
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("4 apples").is_err());
        assert!(parse_bytes("-1").is_err());
        assert!(parse_bytes("99999999999GiB").is_err());
        assert_eq!(parse_bytes("9223372036854775807"), Ok(i64::MAX as u64));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count_text(0), "0");
        assert_eq!(count_text(999), "999");
        assert_eq!(count_text(52_073), "52,073");
        assert_eq!(count_text(1_000_000), "1,000,000");
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(1 << 20), "1.00 MiB");
        assert_eq!(bytes_text(1023 << 20), "1.00 GiB");
        assert_eq!(size_text(1 << 20), "1.00 MiB");
        assert_eq!(size_text(1_000_000), "1,000,000 B");
        assert_eq!(size_text(0), "0 B");
        assert_eq!(microseconds_text(0.25), "250 ns");
        assert_eq!(microseconds_text(12.34), "12.3 µs");
        assert_eq!(duration_text(Duration::from_secs(65)), "1 min 05 s");
    }

    #[test]
    fn numbers_have_no_needless_digits() {
        assert_eq!(number_text(0.5), "0.5");
        assert_eq!(number_text(20.0), "20");
        assert_eq!(number_text(25_000.0), "25 k");
        assert_eq!(number_text(3e6), "3 M");
    }
}
