//! The options of file sinks, checked and typed.

use super::open::Figures;
use crate::encode::Encoding;
use crate::options::{bad_value, check};
use crate::shape::MODE;
use cenote_engine::port::{OptionSpec, SinkRequest};
use cenote_statestore::Result;
use std::time::Duration;

const fn any(name: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec {
        name,
        help,
        required: false,
        values: &[],
    }
}

/// Every option of a file sink.
pub(in crate::file) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "path",
        help: "The folder that files are written to; made if it is not there. Staged files in it start with a dot.",
        required: true,
        values: &[],
    },
    OptionSpec {
        name: "format",
        help: "How files are written: `ndjson` is one object a line.",
        required: true,
        values: &["ndjson", "csv", "parquet"],
    },
    MODE,
    any(
        "roll_epochs",
        "Epochs with changes in a file at most; default 1, unless another roll option is given.",
    ),
    any(
        "roll_rows",
        "Rows after which a file is full, at the end of the epoch that reaches them.",
    ),
    any(
        "roll_bytes",
        "ndjson, csv: bytes after which a file is full, at the end of the epoch that reaches them.",
    ),
    any(
        "roll_interval_ms",
        "Milliseconds after which a file that has rows is full; by the clock, so where files end differs from run to run.",
    ),
];

/// The options, typed.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) path: String,
    pub(super) encoding: Encoding,
    roll_epochs: Option<u64>,
    roll_rows: Option<u64>,
    roll_bytes: Option<u64>,
    pub(super) roll_interval: Option<Duration>,
}

impl Settings {
    /// Checks the options of a request.
    ///
    /// # Errors
    /// `Invalid`: see [`check`]; also a combination that means nothing.
    pub(super) fn new(request: &SinkRequest) -> Result<Settings> {
        check(&request.name, OPTIONS, &request.options)?;
        let text = |name: &str| request.options.get(name).map(String::as_str);
        let encoding = match text("format") {
            Some("csv") => Encoding::Csv,
            Some("parquet") => Encoding::Parquet,
            _ => Encoding::Ndjson,
        };
        let mut settings = Settings {
            path: text("path").unwrap_or_default().to_string(),
            encoding,
            roll_epochs: number(request, "roll_epochs")?,
            roll_rows: number(request, "roll_rows")?,
            roll_bytes: number(request, "roll_bytes")?,
            roll_interval: number(request, "roll_interval_ms")?.map(Duration::from_millis),
        };
        if let (Some(bytes), false) = (text("roll_bytes"), encoding.is_text()) {
            let reason = "how long a Parquet file is shows when it is written; use roll_rows";
            return Err(bad_value(&request.name, "roll_bytes", bytes, reason));
        }
        let rolls = [settings.roll_epochs, settings.roll_rows, settings.roll_bytes];
        if rolls.iter().all(Option::is_none) && settings.roll_interval.is_none() {
            settings.roll_epochs = Some(1);
        }
        Ok(settings)
    }

    /// Whether a file takes no further epoch.
    pub(super) fn is_full(&self, file: &Figures) -> bool {
        let reached = |limit: Option<u64>, figure: u64| limit.is_some_and(|limit| figure >= limit);
        reached(self.roll_epochs, file.epochs)
            || reached(self.roll_rows, file.rows)
            || reached(self.roll_bytes, file.bytes)
    }
}

fn number(request: &SinkRequest, name: &str) -> Result<Option<u64>> {
    let Some(text) = request.options.get(name) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) if (1..=1 << 40).contains(&number) => Ok(Some(number)),
        _ => Err(bad_value(
            &request.name,
            name,
            text,
            "it takes a number from 1 to 1099511627776",
        )),
    }
}
