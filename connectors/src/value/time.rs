//! ISO 8601 texts to days and microseconds since 1970-01-01.

use crate::fault::Refusal;

const DAY_MICROS: i64 = 86_400_000_000;

/// A place in a text.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Text<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// A number of `least..=most` digits.
    fn number(&mut self, least: usize, most: usize) -> Result<i64, Refusal> {
        let start = self.at;
        let mut value = 0;
        while let Some(byte @ b'0'..=b'9') = self.peek()
            && self.at - start < most
        {
            value = value * 10 + i64::from(byte - b'0');
            self.at += 1;
        }
        if self.at - start < least {
            Err(Refusal::Time)
        } else {
            Ok(value)
        }
    }

    fn blanks(&mut self) {
        while self.take(b' ') {}
    }

    fn end(&self) -> Result<(), Refusal> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(Refusal::Time)
        }
    }
}

/// A DATE: days since 1970-01-01. A time of day is taken only at midnight.
pub(crate) fn date(text: &[u8]) -> Result<i32, Refusal> {
    let mut text = Text {
        bytes: text.trim_ascii(),
        at: 0,
    };
    let days = calendar_day(&mut text)?;
    if text.at < text.bytes.len() {
        let micros = clock_and_zone(&mut text)?.0;
        if micros != 0 {
            return Err(Refusal::TimeOfDay);
        }
    }
    i32::try_from(days).map_err(|_| Refusal::Range)
}

/// A TIME: microseconds since midnight; a zone behind it is ignored.
pub(crate) fn time_of_day(text: &[u8]) -> Result<i64, Refusal> {
    let mut text = Text {
        bytes: text.trim_ascii(),
        at: 0,
    };
    let micros = clock(&mut text)?;
    text.blanks();
    zone(&mut text)?;
    text.end()?;
    if micros > DAY_MICROS {
        Err(Refusal::Moment)
    } else {
        Ok(micros)
    }
}

/// A TIMESTAMP: microseconds since 1970-01-01 as the clock shows it; a zone in the text is ignored.
pub(crate) fn timestamp(text: &[u8]) -> Result<i64, Refusal> {
    moment(text).map(|(micros, _)| micros)
}

/// A TIMESTAMPTZ: microseconds since 1970-01-01 UTC; a text without a zone is UTC.
pub(crate) fn timestamp_utc(text: &[u8]) -> Result<i64, Refusal> {
    let (micros, offset) = moment(text)?;
    micros.checked_sub(offset).ok_or(Refusal::Range)
}

/// A number of milliseconds since 1970-01-01, with decimals to the microsecond.
pub(crate) fn epoch_millis(number: &[u8]) -> Result<i64, Refusal> {
    i64::try_from(super::number::decimal(number, 38, 3)?).map_err(|_| Refusal::Range)
}

/// Clock microseconds and the offset of the zone in microseconds.
fn moment(text: &[u8]) -> Result<(i64, i64), Refusal> {
    let mut text = Text {
        bytes: text.trim_ascii(),
        at: 0,
    };
    let days = calendar_day(&mut text)?;
    let (micros, offset) = if text.at < text.bytes.len() {
        clock_and_zone(&mut text)?
    } else {
        (0, 0)
    };
    let start = days.checked_mul(DAY_MICROS).ok_or(Refusal::Range)?;
    Ok((start.checked_add(micros).ok_or(Refusal::Range)?, offset))
}

/// `YYYY-MM-DD`, the year of four to six digits.
fn calendar_day(text: &mut Text<'_>) -> Result<i64, Refusal> {
    let year = text.number(4, 6)?;
    if !text.take(b'-') {
        return Err(Refusal::Time);
    }
    let month = text.number(1, 2)?;
    if !text.take(b'-') {
        return Err(Refusal::Time);
    }
    let day = text.number(1, 2)?;
    if year == 0 || !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
        return Err(Refusal::Time);
    }
    Ok(days_from_civil(year, month, day))
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
///
/// # Source
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// `[T ]HH:MM[:SS[.fraction]]` and a zone, to the end: microseconds of the day and the zone's offset.
fn clock_and_zone(text: &mut Text<'_>) -> Result<(i64, i64), Refusal> {
    if !(text.take(b'T') || text.take(b't') || text.take(b' ')) {
        return Err(Refusal::Time);
    }
    text.blanks();
    let micros = clock(text)?;
    text.blanks();
    let offset = zone(text)?;
    text.end()?;
    Ok((micros, offset))
}

fn clock(text: &mut Text<'_>) -> Result<i64, Refusal> {
    let hour = text.number(2, 2)?;
    if !text.take(b':') {
        return Err(Refusal::Time);
    }
    let minute = text.number(2, 2)?;
    let (second, fraction) = match text.take(b':') {
        true => (text.number(2, 2)?, fraction(text)?),
        false => (0, 0),
    };
    let micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction;
    let late = hour == 24 && micros > DAY_MICROS;
    if hour > 24 || late || minute > 59 || second > 60 {
        Err(Refusal::Time)
    } else {
        Ok(micros)
    }
}

/// `.digits` in microseconds, rounded at the seventh digit.
fn fraction(text: &mut Text<'_>) -> Result<i64, Refusal> {
    if !(text.take(b'.') || text.take(b',')) {
        return Ok(0);
    }
    let start = text.at;
    let mut micros = text.number(1, 6)?;
    for _ in text.at - start..6 {
        micros *= 10;
    }
    micros += i64::from(matches!(text.peek(), Some(b'5'..=b'9')));
    while let Some(b'0'..=b'9') = text.peek() {
        text.at += 1;
    }
    Ok(micros)
}

/// `Z`, `UTC`, `±HH`, `±HHMM`, `±HH:MM[:SS]` or nothing: the offset in microseconds.
fn zone(text: &mut Text<'_>) -> Result<i64, Refusal> {
    let rest = &text.bytes[text.at..];
    if [b"Z".as_slice(), b"UTC", b"GMT"]
        .iter()
        .any(|name| rest.eq_ignore_ascii_case(name))
    {
        text.at = text.bytes.len();
        return Ok(0);
    }
    let sign = match text.peek() {
        None => return Ok(0),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return Err(Refusal::Time),
    };
    text.at += 1;
    let hours = text.number(2, 2)?;
    let minutes = if text.take(b':') || text.peek().is_some() {
        text.number(2, 2)?
    } else {
        0
    };
    let seconds = if text.take(b':') { text.number(2, 2)? } else { 0 };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Refusal::Time);
    }
    Ok(sign * ((hours * 60 + minutes) * 60 + seconds) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_count_microseconds_from_midnight() {
        assert_eq!(time_of_day(b"00:00"), Ok(0));
        assert_eq!(time_of_day(b" 12:34:56.789 "), Ok(45_296_789_000));
        assert_eq!(time_of_day(b"23:59:59.9999999+02"), Ok(DAY_MICROS));
        assert_eq!(time_of_day(b"24:00:00"), Ok(DAY_MICROS));
        for text in ["", "noon", "1:00", "25:00", "12:60", "12:00:00 later"] {
            assert_eq!(time_of_day(text.as_bytes()), Err(Refusal::Time), "{text}");
        }
    }

    #[test]
    fn dates_count_days_from_1970() {
        assert_eq!(date(b"1970-01-01"), Ok(0));
        assert_eq!(date(b"1969-12-31"), Ok(-1));
        assert_eq!(date(b"2000-02-29"), Ok(11_016));
        assert_eq!(date(b"0001-01-01"), Ok(-719_162));
        assert_eq!(date(b"2024-1-5"), date(b"2024-01-05"));
        assert_eq!(date(b"2024-01-05T00:00:00Z"), date(b"2024-01-05"));
        assert_eq!(date(b"2024-01-05 10:00"), Err(Refusal::TimeOfDay));
        for text in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-04-31",
            "0000-01-01",
            "24-01-01",
            "x",
            "",
        ] {
            assert_eq!(date(text.as_bytes()), Err(Refusal::Time), "{text}");
        }
    }

    #[test]
    fn timestamps_keep_microseconds() {
        assert_eq!(timestamp(b"1970-01-01 00:00:00.000001"), Ok(1));
        assert_eq!(timestamp(b"1970-01-01T00:00:01.5"), Ok(1_500_000));
        assert_eq!(timestamp(b"2001-09-09 01:46:40.123456"), Ok(1_000_000_000_123_456));
        assert_eq!(timestamp(b"1970-01-01 00:00:00.0000005"), Ok(1));
        assert_eq!(timestamp(b"1970-01-01 00:00:00.9999999999"), Ok(1_000_000));
        assert_eq!(timestamp(b"1970-01-01 24:00:00"), Ok(DAY_MICROS));
        assert_eq!(timestamp(b"1970-01-02"), Ok(DAY_MICROS));
        assert_eq!(timestamp(b"1970-01-01 00:01"), Ok(60_000_000));
        assert_eq!(timestamp(b"999999-01-01 00:00:00"), Err(Refusal::Range));
        for text in [
            "1970-01-01 25:00:00",
            "1970-01-01 24:00:01",
            "1970-01-01 00:60:00",
            "1970-01-01 1",
            "1970-01-01 00:00:00.",
            "1970-01-01x",
            "1752588000573",
        ] {
            assert_eq!(timestamp(text.as_bytes()), Err(Refusal::Time), "{text}");
        }
    }

    #[test]
    fn zones_move_timestamptz_and_are_ignored_by_timestamp() {
        assert_eq!(timestamp_utc(b"1970-01-01T02:00:00+02:00"), Ok(0));
        assert_eq!(timestamp_utc(b"1970-01-01 00:00:00-0130"), Ok(5_400_000_000));
        assert_eq!(timestamp_utc(b"1970-01-01 00:00:00 +01"), Ok(-3_600_000_000));
        assert_eq!(timestamp_utc(b"1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(timestamp_utc(b"1970-01-01T00:00:00 utc"), Ok(0));
        assert_eq!(timestamp_utc(b"1970-01-01T00:00:00"), Ok(0));
        assert_eq!(timestamp(b"1970-01-01T02:00:00+02:00"), Ok(7_200_000_000));
        assert_eq!(timestamp_utc(b"1970-01-01T00:00:00 Europe/Berlin"), Err(Refusal::Time));
        assert_eq!(timestamp_utc(b"1970-01-01T00:00:00+16"), Err(Refusal::Time));
    }

    #[test]
    fn numbers_are_milliseconds_since_1970() {
        assert_eq!(epoch_millis(b"1752588000573"), Ok(1_752_588_000_573_000));
        assert_eq!(epoch_millis(b"-1.5"), Ok(-1_500));
        assert_eq!(epoch_millis(b"1e30"), Err(Refusal::Range));
    }
}
