//! `GET /api/v1/queryable_state/{name}/scan`: pages of rows, all at the epoch of the first.

use super::App;
use super::error::{Answer, ApiError};
use super::parameters::{Kind, NUMBERS, Parameter, Parameters};
use super::request::Name;
use super::respond;
use crate::encode::{RowObject, write_json_text};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cenote_query::{ScanCursor, ScanRequest};
use cenote_statestore::Epoch;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

const LIMIT_DEFAULT: usize = 1_000;
const LIMIT_MAX: usize = 10_000;

/// `columns=a,b`.
pub const COLUMNS: Parameter = Parameter {
    name: "columns",
    kind: Kind::Text,
    help: "Columns to read, separated by commas; default: all.",
};
/// `where=total > 60`.
pub const WHERE: Parameter = Parameter {
    name: "where",
    kind: Kind::Text,
    help: "A SQL predicate that rows must meet.",
};
/// `epoch=4210`.
pub const EPOCH: Parameter = Parameter {
    name: "epoch",
    kind: Kind::Integer,
    help: "Read as of this sealed epoch; default: the newest.",
};

/// What the route takes.
pub const PARAMETERS: &[Parameter] = &[
    COLUMNS,
    WHERE,
    Parameter {
        name: "limit",
        kind: Kind::Integer,
        help: "Rows at most, 1 to 10000; default 1000.",
    },
    Parameter {
        name: "cursor",
        kind: Kind::Text,
        help: "`next_cursor` of the page before; the rest of the query must be the same.",
    },
    EPOCH,
    NUMBERS,
];

/// Splits a list of names at its commas; a name in double quotes may hold commas.
pub fn split_names(list: &str) -> Vec<String> {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => name.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(std::mem::take(&mut name).trim().to_owned()),
            _ => name.push(letter),
        }
    }
    names.push(name.trim().to_owned());
    names
}

/// Reads `columns`, `where` and `epoch`.
///
/// # Errors
/// 400: `epoch` is not a number.
pub fn request(name: String, query: &Parameters<'_>) -> Result<ScanRequest, ApiError> {
    Ok(ScanRequest {
        name,
        columns: query.text("columns").map(split_names),
        filter: query.text("where").map(str::to_owned),
        epoch: query.integer("epoch")?.map(Epoch),
        cursor: None,
    })
}

fn limit(query: &Parameters<'_>) -> Result<usize, ApiError> {
    let limit = query.integer("limit")?.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(
        ApiError::invalid("HTTP-0004", "cannot read parameter `limit`: out of range")
            .fact("seen", limit)
            .fact("expected", format!("1 to {LIMIT_MAX}"))
            .attempt(
                "read on with `cursor`, or read everything from /scan.ndjson, /scan.csv, /scan.arrow or /scan.parquet",
            ),
    )
}

/// What a cursor is good for: the same collection, columns and predicate.
fn fingerprint(request: &ScanRequest) -> u32 {
    let mut hasher = DefaultHasher::new();
    (&request.name, &request.columns, &request.filter).hash(&mut hasher);
    hasher.finish() as u32
}

/// A cursor as clients see it.
fn write_cursor(cursor: ScanCursor, request: &ScanRequest) -> String {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&cursor.epoch.0.to_be_bytes());
    bytes[8..16].copy_from_slice(&cursor.position.to_be_bytes());
    bytes[16..].copy_from_slice(&fingerprint(request).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn read_cursor(text: &str, request: &ScanRequest) -> Result<ScanCursor, ApiError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| <[u8; 20]>::try_from(bytes).ok());
    let Some(bytes) = bytes else {
        return Err(ApiError::invalid(
            "HTTP-0010",
            "cannot read parameter `cursor`: not a cursor of this server",
        )
        .attempt("pass `next_cursor` of the page before as it is"));
    };
    let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if bytes[16..] != fingerprint(request).to_be_bytes() {
        return Err(
            ApiError::invalid("HTTP-0010", "cannot read on: the cursor belongs to another scan")
                .attempt("keep the name, `columns` and `where` of the first page"),
        );
    }
    Ok(ScanCursor {
        epoch: Epoch(word(0)),
        position: word(8),
    })
}

/// Answers with a page of rows: `{"epoch","rows":[...],"next_cursor"}`.
pub async fn page(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    let query = Parameters::parse(query.as_deref(), PARAMETERS)?;
    let (numbers, limit) = (query.numbers()?, limit(&query)?);
    let mut wanted = request(name, &query)?;
    wanted.cursor = query
        .text("cursor")
        .map(|text| read_cursor(text, &wanted))
        .transpose()?;
    let (rows, epoch, next) = app.database().scan_page(wanted.clone(), limit).await?;
    let object = RowObject::new(rows.schema_ref().fields(), numbers);
    let object = object.over(rows.columns())?;
    let mut body = Vec::with_capacity(64 + 64 * rows.num_rows());
    write!(body, "{{\"epoch\":{epoch},\"rows\":[").expect("a Vec takes every write");
    for row in 0..rows.num_rows() {
        if row > 0 {
            body.push(b',');
        }
        object.write(&mut body, row);
    }
    body.extend_from_slice(b"],\"next_cursor\":");
    match next {
        Some(cursor) => write_json_text(&mut body, &write_cursor(cursor, &wanted)),
        None => body.extend_from_slice(b"null"),
    }
    body.push(b'}');
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(name: &str, filter: Option<&str>) -> ScanRequest {
        ScanRequest {
            name: name.into(),
            filter: filter.map(str::to_owned),
            ..ScanRequest::default()
        }
    }

    #[test]
    fn cursor_comes_back_as_it_was_for_the_same_scan_only() {
        let wanted = scan("by_owner", Some("total > 60"));
        let cursor = ScanCursor {
            epoch: Epoch(4210),
            position: u64::MAX - 1,
        };
        let text = write_cursor(cursor, &wanted);
        assert_eq!(read_cursor(&text, &wanted).ok(), Some(cursor));
        assert!(read_cursor(&text, &scan("by_owner", None)).is_err());
        assert!(read_cursor(&text, &scan("rich", Some("total > 60"))).is_err());
        assert!(read_cursor("", &wanted).is_err());
        assert!(read_cursor("%%%", &wanted).is_err());
        assert!(read_cursor(&text[1..], &wanted).is_err());
    }

    #[test]
    fn names_are_split_at_commas_outside_quotes() {
        assert_eq!(split_names("owner, total"), ["owner", "total"]);
        assert_eq!(split_names(r#""a,b",c,"say ""x""""#), ["a,b", "c", r#"say "x""#]);
    }

    #[test]
    fn limit_out_of_range_is_refused() {
        let limit_of = |query| limit(&Parameters::parse(Some(query), PARAMETERS).ok().unwrap());
        assert_eq!(limit_of("").ok(), Some(LIMIT_DEFAULT));
        assert_eq!(limit_of("limit=7").ok(), Some(7));
        assert!(limit_of("limit=0").is_err());
        assert!(limit_of("limit=10001").is_err());
    }
}
