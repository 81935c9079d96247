//! One client's connection: the loop over its messages, and what all of them share.

use super::PgLimits;
use super::cancel::CancelKey;
use super::extended::Prepared;
use super::frontend::{self, Message, Target, violation};
use super::portal::Portal;
use super::session::Session;
use super::signals::{Failure, Signals};
use super::startup::Startup;
use super::wire::Wire;
use cenote_query::TransactionStatus;
use cenote_query::pgtext::{TextStyle, Zone};
use cenote_statestore::{Error, ErrorKind};
use std::collections::HashMap;

/// What clients are told at the start where the session does not say otherwise.
const PARAMETER_DEFAULTS: &[(&str, &str)] = &[
    (
        "server_version",
        concat!("16.6 (Cenote ", env!("CARGO_PKG_VERSION"), ")"),
    ),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("application_name", ""),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("is_superuser", "on"),
    ("session_authorization", "cenote"),
];

/// A client's connection after its startup message.
pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) session: Session,
    pub(super) signals: Signals,
    pub(super) limits: PgLimits,
    /// Prepared statements by name; the unnamed one is `""`.
    pub(super) prepared: HashMap<String, Prepared>,
    /// Portals by name; the unnamed one is `""`.
    pub(super) portals: HashMap<String, Portal>,
    /// How values look to this client.
    pub(super) style: TextStyle,
    /// Parameters as the client was told.
    reported: Vec<(String, String)>,
    /// An extended-query message failed: all further ones up to Sync are ignored.
    is_skipping: bool,
    /// The messages since the last Sync run in an implicit transaction.
    pub(super) is_implicit: bool,
}

impl Connection {
    pub(super) fn new(wire: Wire, session: Session, signals: Signals, limits: PgLimits) -> Connection {
        Connection {
            wire,
            session,
            signals,
            limits,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            style: TextStyle::default(),
            reported: Vec::new(),
            is_skipping: false,
            is_implicit: false,
        }
    }

    /// Serves the client until it leaves. `key` is valid as long.
    pub(super) async fn run(mut self, startup: Startup, key: CancelKey) {
        let ended = match self.begin(startup, &key).await {
            Ok(()) => self.serve().await,
            Err(failure) => failure,
        };
        match ended {
            Failure::Fatal(error) | Failure::Statement(error) => {
                // The transaction is rolled back before the client hears the last word.
                self.portals.clear();
                drop(self.session);
                self.wire.farewell(&error).await;
            }
            Failure::Gone => {}
        }
    }

    async fn begin(&mut self, startup: Startup, key: &CancelKey) -> Result<(), Failure> {
        if startup
            .parameter("replication")
            .is_some_and(|value| !matches!(value, "" | "false" | "off" | "no" | "0"))
        {
            let message = "cannot start replication: not supported";
            return Err(Failure::Fatal(Error::new(ErrorKind::Unsupported, "PG-0011", message)));
        }
        for (name, value) in startup.parameters.iter().filter(|(name, _)| name != "replication") {
            self.session.set_startup_parameter(name, value)?;
        }
        if startup.minor > 0 || !startup.unknown_options.is_empty() {
            self.wire.output.negotiate_version(&startup.unknown_options);
        }
        self.wire.output.authentication_ok();
        self.reported = PARAMETER_DEFAULTS
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        if let Some(user) = startup.parameter("user") {
            self.reported
                .iter_mut()
                .filter(|(name, _)| name == "session_authorization")
                .for_each(|(_, told)| *told = user.into());
        }
        for (name, value) in self.session.parameter_status() {
            self.remember(name, value);
        }
        for (name, value) in &self.reported {
            self.wire.output.parameter_status(name, value);
        }
        self.wire.output.backend_key(key.process, key.secret);
        self.ready().await
    }

    /// Notes a parameter's value.
    ///
    /// # Returns
    /// Whether the client was told another value, or none.
    fn remember(&mut self, name: String, value: String) -> bool {
        if name == "TimeZone" {
            self.style.zone = Zone::parse(&value).unwrap_or_default();
        }
        match self.reported.iter_mut().find(|(told, _)| *told == name) {
            Some((_, told)) if *told == value => return false,
            Some((_, told)) => *told = value,
            None => self.reported.push((name, value)),
        }
        true
    }

    /// Tells the client which parameters a statement changed.
    pub(super) fn report_parameters(&mut self) {
        for (name, value) in self.session.parameter_status() {
            if self.remember(name.clone(), value.clone()) {
                self.wire.output.parameter_status(&name, &value);
            }
        }
    }

    /// Tells the client that it may send the next query.
    pub(super) async fn ready(&mut self) -> Result<(), Failure> {
        let status = self.session.transaction_status();
        if status != TransactionStatus::Open {
            // Portals end with their transaction.
            self.portals.clear();
        }
        self.wire.output.ready(status);
        self.flush().await
    }

    /// Sends all output; only the server's end stops it.
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        tokio::select! {
            biased;
            sent = self.wire.flush() => sent,
            failure = self.signals.stopped() => Err(failure),
        }
    }

    /// The next message; while it is waited for, only the server's end is heard.
    pub(super) async fn message(&mut self) -> Result<(u8, Result<Message, Error>), Failure> {
        tokio::select! {
            biased;
            message = self.wire.message() => message,
            failure = self.signals.stopped() => Err(failure),
        }
    }

    async fn serve(&mut self) -> Failure {
        loop {
            if let Err(failure) = self.step().await {
                return failure;
            }
        }
    }

    /// Takes one message and does what it asks.
    ///
    /// # Errors
    /// What ends the connection.
    async fn step(&mut self) -> Result<(), Failure> {
        let (kind, message) = self.message().await?;
        if self.is_skipping && !matches!(kind, b'S' | b'X') {
            return Ok(());
        }
        self.signals.begin_statement();
        let done = match message {
            Ok(message) => self.dispatch(message).await,
            Err(error) => Err(Failure::Statement(error)),
        };
        match done {
            Err(Failure::Statement(error)) => self.fail(kind, error).await,
            other => other,
        }
    }

    /// Tells the client of an error that left the connection usable.
    async fn fail(&mut self, kind: u8, error: Error) -> Result<(), Failure> {
        self.wire.output.error("ERROR", &error, 0);
        self.session.fail();
        if frontend::is_extended(kind) {
            self.is_skipping = true;
            // At once: a client may wait for its answer and send Sync, which ends the skipping, only after it.
            return self.flush().await;
        }
        self.ready().await
    }

    async fn dispatch(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Query(sql) => self.query(&sql).await,
            Message::Parse { name, sql, types } => self.parse(name, &sql, &types).await,
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(Target::Statement, name) => self.describe_statement(&name),
            Message::Describe(Target::Portal, name) => self.describe_portal(&name),
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::Close(Target::Statement, name) => {
                self.prepared.remove(&name);
                self.wire.output.close_complete();
                Ok(())
            }
            Message::Close(Target::Portal, name) => {
                if self.portals.remove(&name).is_none() {
                    self.session.close_cursor(&name);
                }
                self.wire.output.close_complete();
                Ok(())
            }
            Message::Flush => self.flush().await,
            Message::Sync => self.sync().await,
            Message::Terminate => Err(Failure::Gone),
            // What is left of a COPY that failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::FunctionCall => {
                let message = "cannot call a function by message: not supported";
                let error = Error::new(ErrorKind::Unsupported, "PG-0012", message);
                Err(Failure::Statement(error.attempt("call it in a SELECT")))
            }
            Message::Password => Err(Failure::Fatal(violation("a password was not asked for"))),
        }
    }

    async fn sync(&mut self) -> Result<(), Failure> {
        let failed = std::mem::take(&mut self.is_skipping);
        self.end_implicit(failed).await?;
        self.ready().await
    }

    /// Ends the implicit transaction, if one is open.
    ///
    /// # Errors
    /// [`Failure::Statement`]: it could not be committed.
    pub(super) async fn end_implicit(&mut self, failed: bool) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_implicit) {
            return Ok(());
        }
        // A commit is not broken off: the client would not know whether it happened.
        Ok(self.session.end_implicit(failed).await?)
    }

    /// Begins an implicit transaction unless the client's own is open.
    pub(super) fn begin_implicit(&mut self) {
        if !self.is_implicit && self.session.transaction_status() == TransactionStatus::Idle {
            self.session.begin_implicit();
            self.is_implicit = true;
        }
    }
}
