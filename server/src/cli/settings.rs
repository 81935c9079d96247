//! Settings of `cenote serve`: flags, environment, TOML file and defaults, in this order of precedence.
//!
//! [`ServeOptions`] is the one table of options: clap reads flags and environment variables into it, serde
//! the file, and both know an option by the same name.

use super::place::blobs_at;
use super::units::{ByteSize, Span};
use crate::http::Limits;
use cenote_engine::port::PathPolicy;
use cenote_query::{Answers, DatabaseConfig, StateBackend};
use cenote_statestore::checkpoint::Blobs;
use cenote_statestore::{Error, ErrorKind, Result};
use clap::{Args, Command};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Start the server: SQL over pgwire, HTTP with JSON and Arrow
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[command(
    after_help = "Every option can stand in the file given with --config, under its name with `_` for `-`:
  data_dir = \"/var/lib/cenote\"
  http = \"0.0.0.0:8080\"
  allow_path = [\"/srv/data\"]
Flags win over environment variables, these over the file.

Examples:
  cenote serve --data-dir ./cenote-data
  cenote serve --http 127.0.0.1:0 --pg off --workers 4
  cenote serve --config cenote.toml"
)]
pub struct ServeOptions {
    /// Folder of tables and catalog [default: ./cenote-data]
    #[arg(long, value_name = "DIR", env = "CENOTE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where checkpoints go: a path, or a URL such as file:///srv/checkpoints, or s3://bucket/prefix in builds with buckets [default: `checkpoints` in the data folder]
    #[arg(long, value_name = "URL", env = "CENOTE_CHECKPOINT_URL")]
    pub checkpoint_url: Option<String>,
    /// Newest checkpoints that are kept; savepoints are kept besides [default: 3]
    #[arg(long, value_name = "N", env = "CENOTE_CHECKPOINT_RETAIN", value_parser = clap::value_parser!(u32).range(1..))]
    pub checkpoint_retain: Option<u32>,
    /// How often a checkpoint is taken, where anything has changed; 0s: never by itself [default: 60s]
    #[arg(long, value_name = "SPAN", env = "CENOTE_CHECKPOINT_INTERVAL")]
    pub checkpoint_interval: Option<Span>,
    /// How long a checkpoint may take before it is given up [default: 10m]
    #[arg(long, value_name = "SPAN", env = "CENOTE_CHECKPOINT_TIMEOUT")]
    pub checkpoint_timeout: Option<Span>,
    /// Where the data folder has no log yet: go on from the checkpoints at --checkpoint-url, whose server is gone for good with its data folder
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", env = "CENOTE_TAKE_OVER")]
    pub take_over: Option<bool>,
    /// Start from an older checkpoint and the log where the newest checkpoint is damaged
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL", env = "CENOTE_ALLOW_OLDER_CHECKPOINT")]
    pub allow_older_checkpoint: Option<bool>,
    /// Address of the HTTP door; port 0 picks a free one, `off` closes it [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", env = "CENOTE_HTTP")]
    pub http: Option<String>,
    /// Address of the PostgreSQL door [default: 127.0.0.1:5433]
    #[arg(long, value_name = "ADDR", env = "CENOTE_PG")]
    pub pg: Option<String>,
    /// Address of the Flight SQL door (not supported yet: accepted, not bound) [default: 127.0.0.1:32010]
    #[arg(long, value_name = "ADDR", env = "CENOTE_FLIGHT")]
    pub flight: Option<String>,
    /// Worker threads of the dataflow engine [default: one per core]
    #[arg(long, value_name = "N", env = "CENOTE_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// TOML file with settings
    #[arg(long, value_name = "FILE", env = "CENOTE_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Folder that file sources may read; may be repeated [default: the working directory]
    #[arg(long, value_name = "DIR", env = "CENOTE_ALLOW_PATH", value_delimiter = ':')]
    pub allow_path: Option<Vec<PathBuf>>,
    /// Sealed epochs kept readable behind the newest [default: 16]
    #[arg(long, value_name = "N", env = "CENOTE_RETAIN_EPOCHS")]
    pub retain_epochs: Option<u64>,
    /// How long sealed epochs stay readable; the longer of the two holds [default: 10s]
    #[arg(long, value_name = "SPAN", env = "CENOTE_RETAIN_TIME")]
    pub retain_time: Option<Span>,
    /// Connections that each door takes at once [default: 1000]
    #[arg(long, value_name = "N", env = "CENOTE_MAX_CONNECTIONS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: Option<u32>,
    /// Largest body of an HTTP request [default: 64MiB]
    #[arg(long, value_name = "SIZE", env = "CENOTE_MAX_BODY")]
    pub max_body: Option<ByteSize>,
    /// Longest SQL text [default: 16MiB]
    #[arg(long, value_name = "SIZE", env = "CENOTE_MAX_STATEMENT")]
    pub max_statement: Option<ByteSize>,
    /// Largest result that POST /api/v1/sql answers as JSON; Arrow results stream [default: 64MiB]
    #[arg(long, value_name = "SIZE", env = "CENOTE_MAX_RESULT")]
    pub max_result: Option<ByteSize>,
    /// Memory that one query may use [default: 1GiB, and a fifth of the memory limit at most]
    #[arg(long, value_name = "SIZE", env = "CENOTE_QUERY_MEMORY")]
    pub query_memory: Option<ByteSize>,
    /// Where state is kept: `memory`; or for what memory does not hold `rocksdb`, or `object`: the object store of --checkpoint-url [default: memory]
    #[arg(long, value_name = "BACKEND", env = "CENOTE_STATE_BACKEND", value_parser = clap::value_parser!(StateBackend))]
    pub state_backend: Option<StateBackend>,
    /// Memory for the process: state of the backends `rocksdb` and `object` leaves memory in time, and writes are refused beyond it [default: no limit]
    #[arg(long, value_name = "SIZE", env = "CENOTE_MEMORY_LIMIT")]
    pub memory_limit: Option<ByteSize>,
    /// Memory for state of the backends `rocksdb` and `object`; what is more leaves it [default: a quarter of the memory limit, else half of the machine's]
    #[arg(long, value_name = "SIZE", env = "CENOTE_STATE_MEMORY")]
    pub state_memory: Option<ByteSize>,
    /// Local disk for the cache of the backend `object` [default: 10GiB]
    #[arg(long, value_name = "SIZE", env = "CENOTE_STATE_CACHE")]
    pub state_cache: Option<ByteSize>,
    /// How long a client may take to send a request head or its startup message, and the next bytes of a request's body [default: 30s]
    #[arg(long, value_name = "SPAN", env = "CENOTE_READ_TIMEOUT")]
    pub read_timeout: Option<Span>,
    /// How long a client may leave a streamed answer untouched before it is cut [default: 60s]
    #[arg(long, value_name = "SPAN", env = "CENOTE_WRITE_TIMEOUT")]
    pub write_timeout: Option<Span>,
    /// How long a shutdown waits for requests that are under way and for clients to leave [default: 5s]
    #[arg(long, value_name = "SPAN", env = "CENOTE_DRAIN_TIME")]
    pub drain_time: Option<Span>,
    /// What to log on stderr, e.g. `warn` or `cenote_query=debug,info` [default: info]
    #[arg(long, value_name = "FILTER", env = "CENOTE_LOG")]
    pub log: Option<String>,
}

/// Takes each field from the first, else from the second.
macro_rules! or_fields {
    ($first:expr, $second:expr, $($field:ident),+ $(,)?) => {
        ServeOptions { $($field: $first.$field.or($second.$field)),+ }
    };
}

impl ServeOptions {
    fn or(self, other: ServeOptions) -> ServeOptions {
        or_fields!(
            self,
            other,
            data_dir,
            checkpoint_url,
            checkpoint_retain,
            checkpoint_interval,
            checkpoint_timeout,
            take_over,
            allow_older_checkpoint,
            http,
            pg,
            flight,
            workers,
            config,
            allow_path,
            retain_epochs,
            retain_time,
            max_connections,
            max_body,
            max_statement,
            max_result,
            query_memory,
            state_backend,
            memory_limit,
            state_memory,
            state_cache,
            read_timeout,
            write_timeout,
            drain_time,
            log,
        )
    }
}

/// Where a door listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// Nowhere.
    Closed,
    /// At `host:port`.
    At(String),
}

impl Door {
    fn new(address: Option<String>, default: &str) -> Door {
        match address {
            Some(address) if address.eq_ignore_ascii_case("off") => Door::Closed,
            Some(address) => Door::At(address),
            None => Door::At(default.to_owned()),
        }
    }
}

/// All settings with their defaults filled in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The HTTP door.
    pub http: Door,
    /// The PostgreSQL door.
    pub pg: Door,
    /// The Flight SQL door.
    pub flight: Door,
    /// Log filter.
    pub log: String,
    /// Limits of HTTP.
    pub limits: Limits,
    /// Connections of the PostgreSQL door.
    pub pg_connections: usize,
    /// How often a checkpoint is taken; `None`: never by itself.
    pub checkpoint_interval: Option<Duration>,
    /// What keeps checkpoints, if it is not the folder of the data.
    pub checkpoints: Option<Arc<dyn Blobs>>,
    options: ServeOptions,
}

/// Bytes that queries may take together, and the part of the memory limit that is the most.
const QUERY_MEMORY_BYTES: usize = 1 << 30;
const QUERY_PART: usize = 5;

/// Threads that can run at once on this machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn bytes(size: Option<ByteSize>, default: usize) -> usize {
    size.map_or(default, |size| usize::try_from(size.0).unwrap_or(usize::MAX))
}

fn span(span: Option<Span>, default: u64) -> Duration {
    span.map_or(Duration::from_secs(default), |span| span.0)
}

impl Settings {
    /// Merges flags and environment with the file they name and fills in the defaults.
    ///
    /// # Errors
    /// `Invalid`: the file cannot be read, has an unknown key (the nearest is suggested) or a bad value.
    pub fn resolve(options: ServeOptions) -> Result<Settings> {
        let file = match &options.config {
            Some(path) => read_file(path)?,
            None => ServeOptions::default(),
        };
        let options = options.or(file);
        let connections = options.max_connections.unwrap_or(1000) as usize;
        let limits = Limits {
            connections_max: connections,
            body_bytes_max: bytes(options.max_body, 64 << 20),
            statement_bytes_max: bytes(options.max_statement, 16 << 20),
            result_bytes_max: bytes(options.max_result, 64 << 20),
            read_timeout: span(options.read_timeout, 30),
            write_timeout: span(options.write_timeout, 60),
            drain_time: span(options.drain_time, 5),
        };
        Ok(Settings {
            http: Door::new(options.http.clone(), "127.0.0.1:8080"),
            pg: Door::new(options.pg.clone(), "127.0.0.1:5433"),
            flight: Door::new(options.flight.clone(), "127.0.0.1:32010"),
            log: options.log.clone().unwrap_or_else(|| "info".into()),
            limits,
            pg_connections: connections,
            checkpoint_interval: Some(span(options.checkpoint_interval, 60)).filter(|interval| !interval.is_zero()),
            checkpoints: options.checkpoint_url.as_deref().map(blobs_at).transpose()?,
            options,
        })
    }

    /// Whether memory of the process has a limit.
    pub fn has_memory_limit(&self) -> bool {
        self.options.memory_limit.is_some()
    }

    /// How to open the database.
    pub fn database(&self) -> DatabaseConfig {
        let options = &self.options;
        let limit = options.memory_limit.map(|limit| bytes(Some(limit), usize::MAX));
        let query_memory = limit.map_or(QUERY_MEMORY_BYTES, |limit| QUERY_MEMORY_BYTES.min(limit / QUERY_PART));
        let allowed = options.allow_path.clone().unwrap_or_else(|| vec![PathBuf::from(".")]);
        DatabaseConfig {
            data_dir: Some(
                options
                    .data_dir
                    .clone()
                    .unwrap_or_else(|| PathBuf::from("./cenote-data")),
            ),
            checkpoints: self.checkpoints.clone(),
            checkpoint_retain: options.checkpoint_retain.unwrap_or(3) as usize,
            allow_older_checkpoint: options.allow_older_checkpoint.unwrap_or(false),
            checkpoint_timeout: span(options.checkpoint_timeout, 600),
            workers: options.workers.map_or_else(cores, usize::from),
            retain_epochs: options.retain_epochs.unwrap_or(16),
            retain_time: span(options.retain_time, 10),
            connectors: crate::encode::connectors(),
            paths: PathPolicy::Below(allowed),
            transient_tables: false,
            answers: Answers::Current,
            query_memory_bytes: bytes(options.query_memory, query_memory),
            state_backend: options.state_backend.unwrap_or_default(),
            memory_limit: limit,
            state_memory: options.state_memory.map(|limit| bytes(Some(limit), usize::MAX)),
            state_cache: options.state_cache.map(|limit| bytes(Some(limit), usize::MAX)),
            take_over: options.take_over.unwrap_or(false),
        }
    }
}

fn bad_file(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "CLI-0003",
        format!("cannot read settings from {}: {reason}", path.display()),
    )
}

fn read_file(path: &Path) -> Result<ServeOptions> {
    let text = std::fs::read_to_string(path).map_err(|error| bad_file(path, &error).source(error))?;
    parse_file(path, &text)
}

fn parse_file(path: &Path, text: &str) -> Result<ServeOptions> {
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| bad_file(path, error.to_string().trim_end()))?;
    let known = keys();
    for key in table.keys() {
        if !known.iter().any(|name| name == key) {
            let error = bad_file(path, format_args!("unknown key `{key}`"));
            return Err(match crate::http::nearest(key, known.iter().map(String::as_str)) {
                Some(near) => error.attempt(format!("did you mean `{near}`?")),
                None => error.fact("keys", known.join(", ")),
            });
        }
    }
    let options: ServeOptions = toml::from_str(text).map_err(|error| bad_file(path, error.to_string().trim_end()))?;
    if options.workers == Some(0) || options.max_connections == Some(0) {
        return Err(bad_file(path, "`workers` and `max_connections` must be at least 1"));
    }
    Ok(options)
}

/// Every key that the file may hold.
fn keys() -> Vec<String> {
    let command = ServeOptions::augment_args(Command::new("serve"));
    command
        .get_arguments()
        .map(|argument| argument.get_id().to_string())
        .filter(|id| id != "config")
        .collect()
}

#[cfg(test)]
mod tests;
