//! Text to intervals: PostgreSQL's verbose form, `hh:mm:ss`, SQL's `years-months`, and ISO 8601.

use super::Malformed;
use arrow::datatypes::IntervalMonthDayNano;

const DAY_MICROS: f64 = 86_400_000_000.0;

/// Reads an `interval`: months, days and microseconds, the last kept as nanoseconds.
///
/// # Errors
/// [`Malformed::Range`]: a field is beyond 32 bits, or the time beyond 64 bits of nanoseconds (292 years).
pub fn read(text: &str) -> Result<IntervalMonthDayNano, Malformed> {
    let trimmed = text.trim_matches(is_space);
    let parsed = match trimmed.strip_prefix('P') {
        Some(designators) => iso(designators),
        None => verbose(trimmed),
    };
    parsed.and_then(|sum| sum.interval())
}

/// Whether C's `isspace` says so.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Microseconds of the digits behind a second's point.
fn fraction_micros(digits: &str) -> Result<i64, Malformed> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Malformed::Syntax);
    }
    if digits.len() <= 6 {
        return Ok(format!("{digits:0<6}").parse().unwrap_or(0));
    }
    let fraction: f64 = format!("0.{digits}").parse().map_err(|_| Malformed::Syntax)?;
    Ok((fraction * 1e6).round_ties_even() as i64)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    fn of(word: &str) -> Option<Unit> {
        Some(match word.to_ascii_lowercase().as_str() {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennium" | "millennia" => Unit::Millennium,
            _ => return None,
        })
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }

    /// The units that a time of day sets.
    const CLOCK: u16 = 1 << Unit::Second as u16 | 1 << Unit::Minute as u16 | 1 << Unit::Hour as u16;
}

/// A number as written: sign, digits before the point, fraction.
#[derive(Clone, Copy)]
struct Amount {
    whole: i64,
    fraction: f64,
}

impl Amount {
    fn parse(text: &str) -> Result<Amount, Malformed> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !are_digits(whole) || !are_digits(fraction) {
            return Err(Malformed::Syntax);
        }
        let magnitude: i64 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| Malformed::Range)?
        };
        let part: f64 = format!("0.{fraction}0").parse().map_err(|_| Malformed::Syntax)?;
        let sign = if negative { -1 } else { 1 };
        Ok(Amount {
            whole: magnitude * sign,
            fraction: part * sign as f64,
        })
    }
}

/// The sum of what was read so far.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    micros: i64,
    seen: u16,
}

impl Sum {
    /// Adds an amount; each unit may come once.
    fn add(&mut self, amount: Amount, unit: Unit) -> Result<(), Malformed> {
        self.mark(unit.bit())?;
        match unit {
            Unit::Microsecond => self.add_micros(amount, 1.0),
            Unit::Millisecond => self.add_micros(amount, 1e3),
            Unit::Second => self.add_micros(amount, 1e6),
            Unit::Minute => self.add_micros(amount, 60e6),
            Unit::Hour => self.add_micros(amount, 3600e6),
            Unit::Day => self.add_days(amount, 1),
            Unit::Week => self.add_days(amount, 7),
            Unit::Month => {
                self.add_months(amount.whole, 1)?;
                self.add_fraction_of_days(amount.fraction * 30.0)
            }
            Unit::Year => self.add_years(amount, 1),
            Unit::Decade => self.add_years(amount, 10),
            Unit::Century => self.add_years(amount, 100),
            Unit::Millennium => self.add_years(amount, 1000),
        }
    }

    fn mark(&mut self, bits: u16) -> Result<(), Malformed> {
        if self.seen & bits != 0 {
            return Err(Malformed::Syntax);
        }
        self.seen |= bits;
        Ok(())
    }

    fn add_micros(&mut self, amount: Amount, scale: f64) -> Result<(), Malformed> {
        let whole = amount.whole.checked_mul(scale as i64).ok_or(Malformed::Range)?;
        self.micros = self.micros.checked_add(whole).ok_or(Malformed::Range)?;
        self.add_fraction_of_micros(amount.fraction * scale)
    }

    /// A half is rounded towards zero, as PostgreSQL does.
    fn add_fraction_of_micros(&mut self, micros: f64) -> Result<(), Malformed> {
        let rest = micros.fract();
        let rounding = if rest > 0.5 { 1 } else { -((rest < -0.5) as i64) };
        self.micros = self
            .micros
            .checked_add(micros.trunc() as i64 + rounding)
            .ok_or(Malformed::Range)?;
        Ok(())
    }

    fn add_days(&mut self, amount: Amount, scale: i64) -> Result<(), Malformed> {
        let whole = amount.whole.checked_mul(scale).ok_or(Malformed::Range)?;
        self.days = self.days.checked_add(whole).ok_or(Malformed::Range)?;
        self.add_fraction_of_days(amount.fraction * scale as f64)
    }

    fn add_fraction_of_days(&mut self, days: f64) -> Result<(), Malformed> {
        self.days = self.days.checked_add(days.trunc() as i64).ok_or(Malformed::Range)?;
        self.add_fraction_of_micros(days.fract() * DAY_MICROS)
    }

    fn add_months(&mut self, whole: i64, scale: i64) -> Result<(), Malformed> {
        let months = whole
            .checked_mul(scale)
            .and_then(|months| self.months.checked_add(months));
        self.months = months.ok_or(Malformed::Range)?;
        Ok(())
    }

    fn add_years(&mut self, amount: Amount, scale: i64) -> Result<(), Malformed> {
        self.add_months(amount.whole, scale * 12)?;
        self.add_months((amount.fraction * (scale * 12) as f64).round_ties_even() as i64, 1)
    }

    /// Adds `hh:mm[:ss[.fraction]]` with a sign before it, or `mm:ss.fraction`.
    fn add_clock(&mut self, text: &str) -> Result<(), Malformed> {
        self.mark(Unit::CLOCK)?;
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (clock, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let fields: Vec<i64> = clock.split(':').map(field).collect::<Result<_, _>>()?;
        let (hours, minutes, seconds) = match fields[..] {
            [minutes, seconds] if !fraction.is_empty() => (0, minutes, seconds),
            [hours, minutes] => (hours, minutes, 0),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return Err(Malformed::Syntax),
        };
        if minutes > 59 || seconds > 60 {
            return Err(Malformed::Range);
        }
        let small = (minutes * 60 + seconds) * 1_000_000 + fraction_micros(fraction).map_err(|_| Malformed::Syntax)?;
        let micros = hours
            .checked_mul(3_600_000_000)
            .and_then(|hours| hours.checked_add(small))
            .ok_or(Malformed::Range)?;
        self.micros = self
            .micros
            .checked_add(if negative { -micros } else { micros })
            .ok_or(Malformed::Range)?;
        Ok(())
    }

    /// Adds `years-months` with a sign before it.
    fn add_year_month(&mut self, text: &str) -> Result<(), Malformed> {
        self.mark(Unit::Year.bit() | Unit::Month.bit())?;
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (years, months) = unsigned.split_once('-').ok_or(Malformed::Syntax)?;
        let (years, months) = (field(years)?, field(months)?);
        if months > 11 {
            return Err(Malformed::Range);
        }
        let sign = if negative { -1 } else { 1 };
        self.add_months(years, 12 * sign)?;
        self.add_months(months, sign)
    }

    fn interval(self) -> Result<IntervalMonthDayNano, Malformed> {
        let months = i32::try_from(self.months).map_err(|_| Malformed::Range)?;
        let days = i32::try_from(self.days).map_err(|_| Malformed::Range)?;
        let nanos = self.micros.checked_mul(1_000).ok_or(Malformed::Range)?;
        Ok(IntervalMonthDayNano::new(months, days, nanos))
    }

    fn negated(self) -> Sum {
        Sum {
            months: -self.months,
            days: -self.days,
            micros: -self.micros,
            seen: self.seen,
        }
    }
}

fn field(digits: &str) -> Result<i64, Malformed> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Malformed::Syntax);
    }
    digits.parse().map_err(|_| Malformed::Range)
}

/// Splits off the longest beginning whose characters are all `taken`.
fn split_while(text: &str, taken: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|character| !taken(character)).unwrap_or(text.len()))
}

/// `1 year 2 mons -3 days 04:05:06.7`, `@ 1 day ago`, `1-2 3 04:05:06`, `90`.
fn verbose(text: &str) -> Result<Sum, Malformed> {
    let mut sum = Sum::default();
    let (mut is_ago, mut is_empty) = (false, true);
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('@') {
            rest = tail.trim_start_matches(is_space);
            continue;
        }
        if rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let (word, tail) = split_while(rest, |character| character.is_ascii_alphabetic());
            if !word.eq_ignore_ascii_case("ago") || is_empty {
                return Err(Malformed::Syntax);
            }
            is_ago = true;
            rest = tail.trim_start_matches(is_space);
            continue;
        }
        rest = quantity(&mut sum, rest)?;
        is_empty = false;
    }
    match is_empty {
        true => Err(Malformed::Syntax),
        false => Ok(if is_ago { sum.negated() } else { sum }),
    }
}

/// Adds the quantity that `text` begins with.
///
/// # Returns
/// What follows it.
fn quantity<'a>(sum: &mut Sum, text: &'a str) -> Result<&'a str, Malformed> {
    let sign_end = text
        .find(|character: char| !matches!(character, '-' | '+'))
        .unwrap_or(text.len());
    let (number, tail) = split_while(&text[sign_end..], |c| {
        c.is_ascii_digit() || matches!(c, ':' | '.' | '-')
    });
    if sign_end > 1 || number.is_empty() {
        return Err(Malformed::Syntax);
    }
    let signed = &text[..sign_end + number.len()];
    let rest = tail.trim_start_matches(is_space);
    if number.contains(':') {
        sum.add_clock(signed)?;
        return Ok(rest);
    }
    if number.contains('-') {
        sum.add_year_month(signed)?;
        return Ok(rest);
    }
    let (word, after) = split_while(rest, |character| character.is_ascii_alphabetic());
    let amount = Amount::parse(signed)?;
    if word.is_empty() || word.eq_ignore_ascii_case("ago") {
        // Without a unit: days before a time of day, else seconds.
        let next = rest.split(is_space).next().unwrap_or_default();
        sum.add(amount, if next.contains(':') { Unit::Day } else { Unit::Second })?;
        return Ok(rest);
    }
    if after.starts_with(|next: char| next.is_ascii_digit()) {
        return Err(Malformed::Syntax);
    }
    sum.add(amount, Unit::of(word).ok_or(Malformed::Syntax)?)?;
    Ok(after.trim_start_matches(is_space))
}

/// ISO 8601 behind the `P`: `1Y2M3DT4H5M6S`, `1W`, `0001-02-03T04:05:06`.
fn iso(text: &str) -> Result<Sum, Malformed> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut sum = Sum::default();
    let is_alternative = |part: &str| part.contains(':') || part.trim_start_matches('-').contains('-');
    if is_alternative(date) && !date.contains(|character: char| character.is_ascii_alphabetic()) {
        let fields: Vec<i64> = date.split('-').map(field).collect::<Result<_, _>>()?;
        let [years, months, days] = fields[..] else {
            return Err(Malformed::Syntax);
        };
        (sum.months, sum.days) = (years.checked_mul(12).ok_or(Malformed::Range)? + months, days);
    } else {
        designated(&mut sum, date, false)?;
    }
    match time {
        Some(clock) if clock.contains(':') => sum.add_clock(clock)?,
        Some(time) => designated(&mut sum, time, true)?,
        None => {}
    }
    match date.is_empty() && time.is_none_or(str::is_empty) {
        true => Err(Malformed::Syntax),
        false => Ok(sum),
    }
}

fn designated(sum: &mut Sum, text: &str, is_time: bool) -> Result<(), Malformed> {
    let mut rest = text;
    while !rest.is_empty() {
        let (number, tail) = split_while(rest, |c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
        let mut characters = tail.chars();
        let unit = match (characters.next().ok_or(Malformed::Syntax)?, is_time) {
            ('Y', false) => Unit::Year,
            ('M', false) => Unit::Month,
            ('W', false) => Unit::Week,
            ('D', false) => Unit::Day,
            ('H', true) => Unit::Hour,
            ('M', true) => Unit::Minute,
            ('S', true) => Unit::Second,
            _ => return Err(Malformed::Syntax),
        };
        sum.add(Amount::parse(number)?, unit)?;
        rest = characters.as_str();
    }
    Ok(())
}
