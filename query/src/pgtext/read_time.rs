//! Text to dates, times and timestamps: ISO 8601 and the forms that PostgreSQL takes under `DateStyle = ISO, MDY`.
//!
//! A text is cut into tokens ([`tokens`]), each of which fills in a part of [`Parts`]; what is left open or filled
//! twice is a syntax error, a part beyond its range a range error.

use super::calendar::{DAY_MICROS, days_of, month_days};
use super::read::{is_space, quoted};
use super::zone::Zone;
use cenote_statestore::{Error, ErrorKind, Result};

/// Why a text is no date or time.
pub(crate) enum Fault {
    /// Not of the form.
    Syntax,
    /// A field beyond its range.
    Field,
    /// An offset from UTC beyond its range.
    Displacement,
    /// A value that PostgreSQL takes and Cenote does not.
    Unsupported(&'static str),
    /// An unknown time zone.
    Other(Error),
}

impl Fault {
    fn error(self, type_name: &str, text: &str) -> Error {
        let field = |state, message: String| Error::new(ErrorKind::Invalid, "VALUE-0003", message).sqlstate(state);
        match self {
            Fault::Syntax => syntax(type_name, text),
            Fault::Field => field("22008", format!("date/time field value out of range: {}", quoted(text))),
            Fault::Displacement => field(
                "22009",
                format!("time zone displacement out of range: {}", quoted(text)),
            ),
            Fault::Unsupported(reason) => {
                let message = format!("cannot read {} as {type_name}: {reason}", quoted(text));
                Error::new(ErrorKind::Unsupported, "VALUE-0005", message)
            }
            Fault::Other(error) => error,
        }
    }
}

/// PostgreSQL's `invalid input syntax` of dates and times, SQLSTATE 22007.
pub(crate) fn syntax(type_name: &str, text: &str) -> Error {
    let message = format!("invalid input syntax for type {type_name}: {}", quoted(text));
    Error::new(ErrorKind::Invalid, "VALUE-0004", message).sqlstate("22007")
}

fn out_of_range(type_name: &str, text: &str) -> Error {
    let name = if type_name == "date" { "date" } else { "timestamp" };
    Error::new(
        ErrorKind::Invalid,
        "VALUE-0003",
        format!("{name} out of range: {}", quoted(text)),
    )
    .sqlstate("22008")
}

/// First day of PostgreSQL's calendar, 4714-11-24 BC, and the days that end its dates and its timestamps.
const FIRST_DAY: i64 = -2_440_588;
const DATE_END: i64 = 2_145_042_906;

/// Reads a `date` as days since 1970.
pub(crate) fn read_date(text: &str) -> Result<i32> {
    let parts = Parts::parse(text).map_err(|fault| fault.error("date", text))?;
    let days = parts.days().map_err(|fault| fault.error("date", text))?;
    let held = i32::try_from(days)
        .ok()
        .filter(|_| (FIRST_DAY..DATE_END).contains(&days));
    held.ok_or_else(|| out_of_range("date", text))
}

/// Reads a `time` as microseconds since midnight; a date before it or a zone after it says nothing.
pub(crate) fn read_time(text: &str) -> Result<i64> {
    let parts = Parts::parse_time(text).map_err(|fault| fault.error("time", text))?;
    parts.time.ok_or_else(|| syntax("time", text))
}

/// Reads a timestamp as microseconds since 1970.
///
/// # Arguments
/// - `zone`: the zone of a text that names none; `None` for `timestamp without time zone`, where a zone says nothing.
pub(crate) fn read_timestamp(text: &str, zone: Option<&Zone>, type_name: &str) -> Result<i64> {
    let parts = Parts::parse(text).map_err(|fault| fault.error(type_name, text))?;
    let days = parts.days().map_err(|fault| fault.error(type_name, text))?;
    let local = days
        .checked_mul(DAY_MICROS)
        .and_then(|micros| micros.checked_add(parts.time.unwrap_or(0)));
    let instant = local.and_then(|local| match (zone, parts.zone) {
        (None, _) => Some(local),
        (Some(_), Some(Zone::Fixed(offset))) => local.checked_sub(offset as i64 * 1_000_000),
        (Some(session), named) => {
            let offset = named
                .as_ref()
                .unwrap_or(session)
                .offset_at_local(local.div_euclid(1_000_000));
            local.checked_sub(offset as i64 * 1_000_000)
        }
    });
    let held = instant.filter(|micros| micros.div_euclid(DAY_MICROS) >= FIRST_DAY);
    held.ok_or_else(|| out_of_range(type_name, text))
}

/// What a text says.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    month: Option<u32>,
    day: Option<u32>,
    is_year_short: bool,
    is_bc: bool,
    /// Microseconds since midnight, up to and including 24:00:00.
    time: Option<i64>,
    zone: Option<Zone>,
    half: Option<Half>,
    is_time_due: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Morning,
    Afternoon,
}

impl Parts {
    fn parse(text: &str) -> Result<Parts, Fault> {
        Parts::of(text, false)
    }

    /// As for a `time`: plain digits are hours, minutes, seconds.
    fn parse_time(text: &str) -> Result<Parts, Fault> {
        Parts::of(text, true)
    }

    fn of(text: &str, is_time: bool) -> Result<Parts, Fault> {
        let mut parts = Parts {
            is_time_due: is_time,
            ..Parts::default()
        };
        let mut is_empty = true;
        for token in tokens(text) {
            is_empty = false;
            match token? {
                Token::Date(date) => parts.take_date(date)?,
                Token::Time(time) => parts.take_time(time)?,
                Token::Number(digits) => parts.take_number(digits)?,
                Token::Offset(offset) => parts.set_zone(Zone::Fixed(read_offset(offset)?))?,
                Token::Word(word) => parts.take_word(word)?,
            }
        }
        if is_empty {
            return Err(Fault::Syntax);
        }
        parts.settle_half()?;
        Ok(parts)
    }

    fn set_zone(&mut self, zone: Zone) -> Result<(), Fault> {
        // A zone stands after the time of day.
        if self.zone.is_some() || self.time.is_none() {
            return Err(Fault::Syntax);
        }
        self.zone = Some(zone);
        Ok(())
    }

    fn take_date(&mut self, text: &str) -> Result<(), Fault> {
        if self.year.is_some() || self.month.is_some() || self.day.is_some() {
            return Err(Fault::Syntax);
        }
        let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
        let [first, second, third] = parts[..] else {
            return Err(Fault::Syntax);
        };
        if let Some(month) = month_of(second) {
            let (day, year) = if first.len() >= 3 {
                (third, first)
            } else {
                (first, third)
            };
            return self.set_date(year, month, number(day)?);
        }
        if let Some(month) = month_of(first) {
            return self.set_date(third, month, number(second)?);
        }
        let (year, month, day) = if first.len() >= 3 {
            (first, second, third)
        } else {
            (third, first, second)
        };
        self.set_date(year, number(month)?, number(day)?)
    }

    fn set_date(&mut self, year: &str, month: u32, day: u32) -> Result<(), Fault> {
        self.set_year(year)?;
        self.month = Some(month);
        self.day = Some(day);
        Ok(())
    }

    fn set_year(&mut self, text: &str) -> Result<(), Fault> {
        self.is_year_short = text.len() <= 2;
        self.year = Some(number::<i64>(text)?);
        Ok(())
    }

    fn take_time(&mut self, text: &str) -> Result<(), Fault> {
        if self.time.is_some() {
            return Err(Fault::Syntax);
        }
        let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fields: Vec<&str> = clock.split(':').collect();
        let (hour, minute, second) = match fields[..] {
            [hour, minute] => (hour, minute, "0"),
            [hour, minute, second] => (hour, minute, second),
            _ => return Err(Fault::Syntax),
        };
        self.set_time(number(hour)?, number(minute)?, number(second)?, fraction)
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64, fraction: &str) -> Result<(), Fault> {
        let micros = fraction_micros(fraction)?;
        if hour > 24 || minute > 59 || second > 60 {
            return Err(Fault::Field);
        }
        let total = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
        if total > DAY_MICROS {
            return Err(Fault::Field);
        }
        self.time = Some(total);
        self.is_time_due = false;
        Ok(())
    }

    /// Digits without separators: a date, a time, or a day or year beside a month's name.
    fn take_number(&mut self, digits: &str) -> Result<(), Fault> {
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let has_date = self.day.is_some() && self.year.is_some();
        let expects_time = self.time.is_none() && (has_date || self.is_time_due);
        match whole.len() {
            6 if expects_time => self.set_time(
                number(&whole[..2])?,
                number(&whole[2..4])?,
                number(&whole[4..])?,
                fraction,
            ),
            4 if expects_time && fraction.is_empty() => {
                self.set_time(number(&whole[..2])?, number(&whole[2..])?, 0, "")
            }
            8.. if self.year.is_none() && self.month.is_none() && fraction.is_empty() => {
                let (head, day) = whole.split_at(whole.len() - 2);
                let (year, month) = head.split_at(head.len() - 2);
                self.set_date(year, number(month)?, number(day)?)
            }
            _ if self.month.is_none() || !fraction.is_empty() => Err(Fault::Syntax),
            3.. if self.year.is_none() => self.set_year(whole),
            _ if self.day.is_none() => {
                self.day = Some(number(whole)?);
                Ok(())
            }
            _ if self.year.is_none() => self.set_year(whole),
            _ => Err(Fault::Syntax),
        }
    }

    fn take_word(&mut self, word: &str) -> Result<(), Fault> {
        let lower = word.to_ascii_lowercase();
        if let Some(month) = month_of(&lower).filter(|_| self.month.is_none()) {
            self.month = Some(month);
            return Ok(());
        }
        match lower.as_str() {
            "t" => self.is_time_due = true,
            "bc" | "b.c." => self.is_bc = true,
            "ad" | "a.d." => {}
            "am" | "a.m." if self.half.is_none() => self.half = Some(Half::Morning),
            "pm" | "p.m." if self.half.is_none() => self.half = Some(Half::Afternoon),
            "epoch" if self.year.is_none() => self.set_date("1970", 1, 1)?,
            "infinity" | "+infinity" | "-infinity" => return Err(Fault::Unsupported("infinity is not held here")),
            "now" | "today" | "tomorrow" | "yesterday" | "allballs" => {
                return Err(Fault::Unsupported(
                    "words for the current time are not read; use now() or current_date",
                ));
            }
            _ if is_weekday(&lower) => {}
            _ => self.take_zone_name(word)?,
        }
        Ok(())
    }

    fn take_zone_name(&mut self, word: &str) -> Result<(), Fault> {
        if let Some(zone) = Zone::of_abbreviation(word) {
            return self.set_zone(zone);
        }
        if word.contains('/') {
            return self.set_zone(Zone::parse(word).map_err(Fault::Other)?);
        }
        Err(Fault::Syntax)
    }

    fn settle_half(&mut self) -> Result<(), Fault> {
        const HOUR: i64 = 3_600_000_000;
        let Some(half) = self.half else {
            return Ok(());
        };
        let time = self.time.ok_or(Fault::Syntax)?;
        if time >= 13 * HOUR {
            return Err(Fault::Field);
        }
        self.time = Some(match half {
            Half::Morning if time >= 12 * HOUR => time - 12 * HOUR,
            Half::Afternoon if time < 12 * HOUR => time + 12 * HOUR,
            _ => time,
        });
        Ok(())
    }

    /// Days since 1970.
    fn days(&self) -> Result<i64, Fault> {
        let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            return Err(Fault::Syntax);
        };
        let year = match year {
            0 => return Err(Fault::Field),
            year if self.is_bc => 1 - year,
            year if self.is_year_short => year + if year < 70 { 2000 } else { 1900 },
            year => year,
        };
        // Beyond all ranges, and small enough to compute with.
        if !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) || year.abs() > 10_000_000 {
            return Err(Fault::Field);
        }
        Ok(days_of(year, month, day))
    }
}

fn number<T: std::str::FromStr>(digits: &str) -> Result<T, Fault> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    digits.parse().map_err(|_| Fault::Field)
}

/// Microseconds of the digits after a decimal point, rounded as PostgreSQL's floating-point arithmetic does.
pub(crate) fn fraction_micros(digits: &str) -> Result<i64, Fault> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    if digits.len() <= 6 {
        return Ok(format!("{digits:0<6}").parse().unwrap_or(0));
    }
    let fraction: f64 = format!("0.{digits}").parse().map_err(|_| Fault::Syntax)?;
    Ok((fraction * 1e6).round_ties_even() as i64)
}

/// Seconds east of UTC of `+02`, `+0230`, `+02:30`, `-02:30:15`.
fn read_offset(text: &str) -> Result<i32, Fault> {
    let (sign, rest) = text.split_at(1);
    let fields: Vec<&str> = rest.split(':').collect();
    let (hours, minutes, seconds) = match fields[..] {
        [digits] if digits.len() > 2 => (&digits[..digits.len() - 2], &digits[digits.len() - 2..], "0"),
        [hours] => (hours, "0", "0"),
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Fault::Syntax),
    };
    let (hours, minutes, seconds): (i32, i32, i32) = (number(hours)?, number(minutes)?, number(seconds)?);
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Fault::Displacement);
    }
    let offset = hours * 3600 + minutes * 60 + seconds;
    Ok(if sign == "-" { -offset } else { offset })
}

fn month_of(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let lower = word.to_ascii_lowercase();
    let index = MONTHS.iter().position(|month| *month == lower || month[..3] == lower);
    index
        .or_else(|| (lower == "sept").then_some(8))
        .map(|index| index as u32 + 1)
}

fn is_weekday(word: &str) -> bool {
    const DAYS: [&str; 7] = [
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ];
    DAYS.iter().any(|day| *day == word || day[..3] == *word) || ["tues", "wednes", "thur", "thurs"].contains(&word)
}

enum Token<'a> {
    Date(&'a str),
    Time(&'a str),
    Number(&'a str),
    Offset(&'a str),
    Word(&'a str),
}

/// Cuts a text into tokens. A day that stands before its month's name comes after it.
fn tokens(text: &str) -> Vec<Result<Token<'_>, Fault>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|character| is_space(character) || character == ',');
        if rest.is_empty() {
            break;
        }
        let Some((token, tail)) = token(rest) else {
            found.push(Err(Fault::Syntax));
            break;
        };
        let is_month = matches!(token, Token::Word(word) if month_of(word).is_some());
        found.push(Ok(token));
        if let [.., Ok(Token::Number(_)), Ok(Token::Word(_))] = found[..]
            && is_month
        {
            let last = found.len() - 1;
            found.swap(last - 1, last);
        }
        rest = tail;
    }
    found
}

fn token(text: &str) -> Option<(Token<'_>, &str)> {
    let first = text.chars().next()?;
    if first.is_ascii_digit() {
        return Some(digits_token(text));
    }
    if matches!(first, '+' | '-') {
        let digits = text[1..].trim_start_matches(is_space);
        if digits.starts_with(|next: char| next.is_ascii_digit()) {
            let end = 1 + span(&text[1..], |character| character.is_ascii_digit() || character == ':');
            return (end > 1).then(|| (Token::Offset(&text[..end]), &text[end..]));
        }
        let end = 1 + span(&text[1..], |character| character.is_ascii_alphabetic());
        return (end > 1).then(|| (Token::Word(&text[..end]), &text[end..]));
    }
    if !first.is_ascii_alphabetic() {
        return None;
    }
    let letters = span(text, |character| character.is_ascii_alphabetic());
    let end = match text[letters..].chars().next() {
        // A zone's name, such as America/New_York or Etc/GMT+5.
        Some('/' | '_') => span(text, |character| {
            character.is_ascii_alphanumeric() || "/_-+".contains(character)
        }),
        Some('-') if month_of(&text[..letters]).is_some() => {
            let end = span(text, |character| character.is_ascii_alphanumeric() || character == '-');
            return Some((Token::Date(&text[..end]), &text[end..]));
        }
        Some('.') => span(text, |character| character.is_ascii_alphabetic() || character == '.'),
        _ => letters,
    };
    Some((Token::Word(&text[..end]), &text[end..]))
}

fn digits_token(text: &str) -> (Token<'_>, &str) {
    let digits = span(text, |character| character.is_ascii_digit());
    let after: Vec<char> = text[digits..].chars().take(2).collect();
    match after[..] {
        [':', ..] => {
            let end = span(text, |character| {
                character.is_ascii_digit() || matches!(character, ':' | '.')
            });
            (Token::Time(&text[..end]), &text[end..])
        }
        [delimiter @ ('-' | '/' | '.'), next]
            if next.is_ascii_digit() || (next.is_ascii_alphabetic() && delimiter != '.') =>
        {
            let is_part = |character: char| {
                character == delimiter
                    || if next.is_ascii_digit() {
                        character.is_ascii_digit()
                    } else {
                        character.is_ascii_alphanumeric()
                    }
            };
            let end = span(text, is_part);
            let token = &text[..end];
            let is_fraction = delimiter == '.' && token.matches('.').count() == 1;
            (
                if is_fraction {
                    Token::Number(token)
                } else {
                    Token::Date(token)
                },
                &text[end..],
            )
        }
        _ => (Token::Number(&text[..digits]), &text[digits..]),
    }
}

/// Bytes of the longest beginning whose characters are all `taken`.
fn span(text: &str, taken: impl Fn(char) -> bool) -> usize {
    text.find(|character| !taken(character)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_ends_where_that_of_postgresql_does() {
        assert_eq!(FIRST_DAY, days_of(-4713, 11, 24));
        assert_eq!(DATE_END, days_of(5_874_898, 1, 1));
    }
}
