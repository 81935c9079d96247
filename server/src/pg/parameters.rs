//! Values of parameters: from the bytes of a Bind message to what a session takes.

use super::frontend::{Bind, not_utf8, violation};
use super::rows::ColumnFormat;
use cenote_query::pgtext::{TextStyle, parse_binary, parse_numeric, parse_scalar};
use cenote_query::pgtype::{ColumnType, PgType, oid};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;

/// The types that a client declares for `$1`, `$2` ...; `None` where it leaves the choice to us.
///
/// # Errors
/// `Invalid`, SQLSTATE 42704: there is no type with such an OID here.
pub(super) fn declared(oids: &[u32]) -> Result<Vec<Option<PgType>>> {
    let known = |oid: &u32| match *oid {
        0 | oid::UNKNOWN => Ok(None),
        oid => match PgType::from_oid(oid) {
            Some(pg) => Ok(Some(pg)),
            None => {
                let message = format!("type with OID {oid} does not exist");
                Err(Error::new(ErrorKind::Invalid, "PG-0016", message).sqlstate("42704"))
            }
        },
    };
    oids.iter().map(known).collect()
}

/// The types of all parameters: as declared, else as the statement needs them.
pub(super) fn settled(declared: &[Option<PgType>], inferred: &[DataType]) -> Vec<PgType> {
    let text = ColumnType::of_data_type(&DataType::Utf8).pg;
    let count = declared.len().max(inferred.len());
    let settle = |index: usize| {
        let needed = inferred
            .get(index)
            .map(|data_type| ColumnType::of_data_type(data_type).pg);
        declared.get(index).copied().flatten().or(needed).unwrap_or(text)
    };
    (0..count).map(settle).collect()
}

/// Reads the values of a Bind message.
///
/// # Errors
/// - 08P01: another number of values or formats than parameters.
/// - Those of the types' input forms.
pub(super) fn values(bind: &Bind, types: &[PgType], style: &TextStyle) -> Result<Vec<ScalarValue>> {
    let (formats, given) = (bind.parameter_formats.len(), bind.parameters.len());
    if formats > 1 && formats != given {
        return Err(violation(format!(
            "bind message has {formats} parameter formats but {given} parameters"
        )));
    }
    if given != types.len() {
        let needed = types.len();
        let statement = &bind.statement;
        let message = format!(
            "bind message supplies {given} parameters, but prepared statement \"{statement}\" requires {needed}"
        );
        return Err(violation(message));
    }
    let formats: Vec<ColumnFormat> = bind
        .parameter_formats
        .iter()
        .map(|code| ColumnFormat::of(*code))
        .collect::<Result<_>>()?;
    let read = |(index, (value, pg)): (usize, (&Option<bytes::Bytes>, &PgType))| {
        value_of(value.as_deref(), pg, ColumnFormat::at(&formats, index), style)
    };
    bind.parameters.iter().zip(types).enumerate().map(read).collect()
}

fn value_of(value: Option<&[u8]>, pg: &PgType, format: ColumnFormat, style: &TextStyle) -> Result<ScalarValue> {
    let data_type = pg.data_type();
    let Some(bytes) = value else {
        let null = data_type.map_or(Ok(ScalarValue::Null), |data_type| ScalarValue::try_from(&data_type));
        return null.map_err(|error| Error::bug(format!("a NULL parameter has no type: {error}")));
    };
    if format == ColumnFormat::Binary {
        return parse_binary(bytes, pg);
    }
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .ok_or_else(not_utf8)?;
    match data_type {
        Some(data_type) => parse_scalar(Some(text), &data_type, style),
        None if pg.oid == oid::NUMERIC => parse_numeric(text),
        None => Ok(ScalarValue::Utf8(Some(text.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn pg(name: &str) -> PgType {
        PgType::from_name(name).unwrap()
    }

    fn bind(parameter_formats: &[i16], parameters: &[Option<&'static [u8]>]) -> Bind {
        Bind {
            portal: String::new(),
            statement: String::new(),
            parameter_formats: parameter_formats.to_vec(),
            parameters: parameters.iter().map(|value| value.map(Bytes::from_static)).collect(),
            result_formats: Vec::new(),
        }
    }

    #[test]
    fn declared_types_win_over_inferred_ones() {
        let declared = declared(&[23, 0]).unwrap();
        assert_eq!(
            settled(&declared, &[DataType::Int64, DataType::Date32, DataType::Null]),
            [pg("int4"), pg("date"), pg("text")]
        );
        assert_eq!(super::declared(&[4_000_000_000]).unwrap_err().state(), "42704");
    }

    #[test]
    fn text_and_binary_values_read_alike() {
        let types = [pg("int4"), pg("numeric"), pg("text"), pg("bool")];
        let text = bind(&[], &[Some(b"7"), Some(b"1.50"), Some(b"x"), None]);
        let binary = bind(
            &[1, 1, 0, 1],
            &[
                Some(&[0, 0, 0, 7]),
                Some(&[0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88]),
                Some(b"x"),
                None,
            ],
        );
        let expected = [
            ScalarValue::Int32(Some(7)),
            ScalarValue::Decimal128(Some(150), 38, 2),
            ScalarValue::Utf8(Some("x".into())),
            ScalarValue::Boolean(None),
        ];
        assert_eq!(values(&text, &types, &TextStyle::default()).unwrap(), expected);
        assert_eq!(values(&binary, &types, &TextStyle::default()).unwrap(), expected);
    }

    #[test]
    fn counts_that_do_not_agree_are_a_breach_of_the_protocol() {
        let style = TextStyle::default();
        for (message, types) in [(bind(&[], &[None]), vec![]), (bind(&[0, 0], &[None]), vec![pg("int4")])] {
            assert_eq!(values(&message, &types, &style).unwrap_err().state(), "08P01");
        }
        let zero = bind(&[], &[Some(b"a\0b")]);
        assert_eq!(values(&zero, &[pg("text")], &style).unwrap_err().state(), "22021");
        let format = bind(&[7], &[Some(b"1")]);
        assert_eq!(values(&format, &[pg("text")], &style).unwrap_err().state(), "22023");
    }
}
