//! Durations as Flink writes them: `10 s`, `500ms`, `1 min`, `2 h`, `PT1M30S`; a bare number is milliseconds.

const UNITS: [(&[&str], u64); 7] = [
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["m", "min", "minute", "minutes"], 60_000_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["", "ms", "milli", "millis", "millisecond", "milliseconds"], 1_000_000),
    (&["us", "\u{b5}s", "micro", "micros", "microsecond", "microseconds"], 1_000),
    (&["ns", "nano", "nanos", "nanosecond", "nanoseconds"], 1),
];

/// The duration in milliseconds (parts of one are cut off), or `None` when `text` is not a duration.
#[must_use]
pub fn parse_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) {
        return parse_iso(&text[1..]);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim().to_lowercase();
    let (_, nanos) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()))?;
    Some(u64::try_from(u128::from(number) * u128::from(*nanos) / 1_000_000).unwrap_or(u64::MAX))
}

/// ISO 8601 as `java.time.Duration` prints it, after the `P`: days, then `T`, then hours, minutes, seconds.
fn parse_iso(text: &str) -> Option<u64> {
    let text = text.to_uppercase();
    let (days, time) = match text.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days.to_owned(), time.to_owned()),
        Some(_) => return None,
        None => (text, String::new()),
    };
    let mut total_ms = 0_u64;
    let mut parts = 0;
    for (text, units) in
        [(days, &[('D', 86_400_000_u64)][..]), (time, &[('H', 3_600_000), ('M', 60_000), ('S', 1_000)])]
    {
        let mut rest = text.as_str();
        let mut units = units.iter();
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let letter = rest[end..].chars().next()?;
            let (_, unit_ms) = units.find(|(unit, _)| *unit == letter)?;
            total_ms = total_ms.saturating_add(decimal_ms(&rest[..end], *unit_ms)?);
            parts += 1;
            rest = &rest[end + 1..];
        }
    }
    (parts > 0).then_some(total_ms)
}

/// `text` times `unit_ms`; seconds may have decimals, of which three count.
fn decimal_ms(text: &str, unit_ms: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    if fraction.is_empty() {
        return Some(whole.saturating_mul(unit_ms));
    }
    if unit_ms != 1_000 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    Some(whole.saturating_mul(unit_ms).saturating_add(thousandths))
}

/// `ms` in Flink's syntax, in the largest unit that divides it.
#[must_use]
pub fn format_ms(ms: u64) -> String {
    for (divisor, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")] {
        if ms > 0 && ms.is_multiple_of(divisor) {
            return format!("{} {unit}", ms / divisor);
        }
    }
    format!("{ms} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_flink_reads() {
        for (text, ms) in [
            ("10 s", 10_000),
            ("500ms", 500),
            ("1 min", 60_000),
            ("1m", 60_000),
            ("2 hours", 7_200_000),
            ("3 d", 259_200_000),
            ("1500", 1_500),
            (" 7 SECONDS ", 7_000),
            ("1999 us", 1),
            ("2000000ns", 2),
            ("PT10S", 10_000),
            ("PT1M30S", 90_000),
            ("PT0.25S", 250),
            ("P1DT2H", 93_600_000),
            ("pt5m", 300_000),
            ("0", 0),
        ] {
            assert_eq!(parse_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "s", "-1 s", "1.5 s", "10 parsecs", "PT", "P", "PT1S1M", "PT1.5M", "1 s 2", "PTS"] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }

    #[test]
    fn prints_what_it_reads() {
        for ms in [0, 1, 1_000, 1_500, 60_000, 90_000, 3_600_000, 86_400_000] {
            assert_eq!(parse_ms(&format_ms(ms)), Some(ms));
        }
        assert_eq!(format_ms(300_000), "5 min");
    }
}
