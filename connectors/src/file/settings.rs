//! The options of the `file` connector, checked and typed.

use crate::csv::CsvStyle;
use crate::options::{bad_value, check};
use cenote_engine::port::{OptionSpec, SourceRequest};
use cenote_statestore::Result;
use std::path::Path;

const BOOLEANS: &[&str] = &["true", "false"];

const fn any(name: &'static str, required: bool, help: &'static str) -> OptionSpec {
    OptionSpec {
        name,
        help,
        required,
        values: &[],
    }
}

const fn one_of(name: &'static str, required: bool, values: &'static [&'static str], help: &'static str) -> OptionSpec {
    OptionSpec {
        name,
        help,
        required,
        values,
    }
}

/// Every option of the `file` connector.
pub const OPTIONS: &[OptionSpec] = &[
    any(
        "path",
        true,
        "A file, a glob such as `data/*.ndjson`, or a folder whose files are read; hidden files are not.",
    ),
    one_of(
        "format",
        true,
        &["json", "csv", "parquet"],
        "How the files are written: `json` is one object a line (NDJSON).",
    ),
    one_of(
        "compression",
        false,
        &["auto", "none", "gzip", "zstd"],
        "How text files are compressed; `auto` (default) goes by the ending .gz or .zst and by the first bytes.",
    ),
    one_of(
        "follow",
        false,
        BOOLEANS,
        "Whether to wait for more lines and new files after the end, by file notification; default false.",
    ),
    one_of(
        "on_error",
        false,
        &["skip", "fail"],
        "What to do with a row that cannot be read: `skip` (default) puts it in cenote_catalog.errors, `fail` stops the source.",
    ),
    one_of(
        "header",
        false,
        BOOLEANS,
        "csv: whether the first record names the fields; default true.",
    ),
    any(
        "delimiter",
        false,
        "csv: the character between fields, one byte, or `tab`; default a comma.",
    ),
    any("null", false, "csv: the unquoted text that means NULL; default empty."),
    any(
        "batch_rows",
        false,
        "Rows handed over at once at most, 1 to 65536; default 65536.",
    ),
    any(
        "line_bytes_max",
        false,
        "The longest line in bytes, 16 to 1073741824; a longer one is a bad row; default 67108864.",
    ),
];

/// How files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Csv,
    Parquet,
}

/// How files are compressed, as far as the options say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Auto,
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Whether it is one.
    pub(crate) fn is_packed(self) -> bool {
        matches!(self, Compression::Gzip | Compression::Zstd)
    }
}

/// Bytes of text read at once, and of the pieces of a large file: a block and its rows fit a core's cache together.
const BLOCK_BYTES: usize = 1 << 19;

/// The options, typed.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) path: String,
    pub(crate) format: Format,
    pub(crate) compression: Compression,
    pub(crate) follow: bool,
    /// Whether a row that cannot be read stops the source.
    pub(crate) fail: bool,
    pub(crate) csv: CsvStyle,
    pub(crate) batch_rows: usize,
    pub(crate) line_bytes_max: usize,
    /// No option: text is read so many bytes at a time.
    pub(crate) block_bytes: usize,
}

impl Settings {
    /// Checks the options of a request.
    ///
    /// # Errors
    /// `Invalid`: see [`check`]; also a combination that means nothing.
    pub(crate) fn new(request: &SourceRequest) -> Result<Settings> {
        let options = &request.options;
        check(&request.name, OPTIONS, options)?;
        let text = |name: &str| options.get(name).map(String::as_str);
        let format = match text("format") {
            Some("csv") => Format::Csv,
            Some("parquet") => Format::Parquet,
            _ => Format::Json,
        };
        let compression = match text("compression") {
            Some("none") => Compression::None,
            Some("gzip") => Compression::Gzip,
            Some("zstd") => Compression::Zstd,
            _ => Compression::Auto,
        };
        let settings = Settings {
            path: text("path").unwrap_or_default().to_string(),
            format,
            compression,
            follow: text("follow") == Some("true"),
            fail: text("on_error") == Some("fail"),
            csv: CsvStyle {
                header: text("header") != Some("false"),
                delimiter: delimiter(request)?,
                null: text("null").unwrap_or_default().to_string(),
            },
            batch_rows: number(request, "batch_rows", 1, 65_536, 65_536)?,
            line_bytes_max: number(request, "line_bytes_max", 16, 1 << 30, 64 << 20)?,
            block_bytes: BLOCK_BYTES,
        };
        settings.check_together(request)?;
        Ok(settings)
    }

    /// Refuses options that do not apply to each other.
    fn check_together(&self, request: &SourceRequest) -> Result<()> {
        let given = |name: &str| request.options.get(name);
        for name in ["header", "delimiter", "null"] {
            if let Some(value) = given(name)
                && self.format != Format::Csv
            {
                return Err(bad_value(
                    &request.name,
                    name,
                    value,
                    "it applies to format = 'csv' only",
                ));
            }
        }
        let packed = self.compression.is_packed();
        let value = given("compression").map_or("", String::as_str);
        if packed && self.format == Format::Parquet {
            return Err(bad_value(
                &request.name,
                "compression",
                value,
                "Parquet files are compressed inside",
            ));
        }
        if packed && self.follow {
            return Err(bad_value(
                &request.name,
                "compression",
                value,
                "a compressed file cannot be followed",
            ));
        }
        Ok(())
    }

    /// Whether a file's name says that it is compressed, and the options do not say otherwise.
    pub(crate) fn is_compressed_by_name(&self, path: &Path) -> bool {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        self.format != Format::Parquet
            && self.compression == Compression::Auto
            && (ending.eq_ignore_ascii_case("gz") || ending.eq_ignore_ascii_case("zst"))
    }
}

fn delimiter(request: &SourceRequest) -> Result<u8> {
    match request.options.get("delimiter").map(String::as_str) {
        None => Ok(b','),
        Some("tab" | "\\t") => Ok(b'\t'),
        Some(text) => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r' | 0) => Ok(*byte),
            _ => Err(bad_value(
                &request.name,
                "delimiter",
                text,
                "it takes one ASCII character other than a quote",
            )),
        },
    }
}

fn number(request: &SourceRequest, name: &str, least: usize, most: usize, default: usize) -> Result<usize> {
    let Some(text) = request.options.get(name) else {
        return Ok(default);
    };
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(bad_value(
            &request.name,
            name,
            text,
            &format!("it takes a number from {least} to {most}"),
        )),
    }
}
