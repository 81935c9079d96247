//! UUIDs: 16 bytes, compared as bytes from the first on.

use super::Malformed;
use arrow::datatypes::DataType;

/// Bytes of a UUID.
pub const UUID_BYTES: usize = 16;

/// The Arrow type of UUID. No other column has it: BYTEA is `Binary`.
pub const UUID: DataType = DataType::FixedSizeBinary(UUID_BYTES as i32);

/// Reads 32 hexadecimal digits of any case, with an optional hyphen after each four of them, and optional braces
/// around all.
///
/// # Errors
/// [`Malformed::Syntax`]: anything else, blanks included.
///
/// # Source
/// `string_to_uuid` of PostgreSQL.
pub fn read(text: &[u8]) -> Result<[u8; UUID_BYTES], Malformed> {
    let bare = match text.strip_prefix(b"{") {
        Some(rest) => rest.strip_suffix(b"}").ok_or(Malformed::Syntax)?,
        None => text,
    };
    let mut bytes = [0; UUID_BYTES];
    let mut rest = bare;
    for (index, byte) in bytes.iter_mut().enumerate() {
        let (high, low, tail) = match rest {
            [high, low, tail @ ..] => (digit(*high)?, digit(*low)?, tail),
            _ => return Err(Malformed::Syntax),
        };
        *byte = high << 4 | low;
        let is_group_end = index % 2 == 1 && index < UUID_BYTES - 1;
        rest = tail.strip_prefix(b"-").filter(|_| is_group_end).unwrap_or(tail);
    }
    if rest.is_empty() {
        Ok(bytes)
    } else {
        Err(Malformed::Syntax)
    }
}

fn digit(byte: u8) -> Result<u8, Malformed> {
    let value = (byte as char).to_digit(16).ok_or(Malformed::Syntax)?;
    Ok(value as u8)
}

/// Appends the canonical form: lower case, in groups of 8, 4, 4, 4 and 12 digits.
pub fn write(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend([DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANONICAL: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

    #[test]
    fn the_forms_of_postgresqls_manual_are_one_value() {
        let forms = [
            CANONICAL,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ];
        for form in forms {
            let mut written = Vec::new();
            write(&mut written, &read(form.as_bytes()).unwrap());
            assert_eq!(written, CANONICAL.as_bytes(), "{form}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let wrong = [
            "",
            "{}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0-eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        ];
        for text in wrong {
            assert_eq!(read(text.as_bytes()), Err(Malformed::Syntax), "{text:?}");
        }
    }
}
