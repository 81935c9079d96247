//! Extended queries: prepared statements, and the messages that bind, describe and run them.
//!
//! All messages up to a Sync are one transaction unless the client began its own. Whether a statement is alone before
//! its Sync is seen from the next message, which is waited for: no client may expect an answer before it sent one.

use super::connection::Connection;
use super::frontend::{Bind, violation};
use super::parameters::{declared, settled, values};
use super::portal::{Portal, PortalState, check_columns};
use super::rows::{self, ColumnFormat, RowSource};
use super::session::Statement;
use super::signals::Failure;
use cenote_query::pgtype::PgType;
use cenote_query::{Description, Outcome, TransactionStatus};
use cenote_statestore::{Error, ErrorKind};
use datafusion::arrow::datatypes::SchemaRef;

/// A prepared statement.
pub(super) struct Prepared {
    /// `None`: an empty query.
    statement: Option<Statement>,
    parameters: Vec<PgType>,
    /// Columns of the result; `None`: it has none.
    columns: Option<SchemaRef>,
}

fn invalid(state: &'static str, code: &'static str, message: impl Into<String>) -> Failure {
    Failure::Statement(Error::new(ErrorKind::Invalid, code, message).sqlstate(state))
}

fn no_portal(name: &str) -> Failure {
    invalid("34000", "PG-0017", format!("portal \"{name}\" does not exist"))
}

/// The error of a name that a portal or a cursor has already: they share theirs.
pub(super) fn portal_exists(name: &str) -> Failure {
    invalid("42P03", "PG-0022", format!("portal \"{name}\" already exists"))
}

fn no_statement(name: &str) -> Failure {
    let message = match name {
        "" => "unnamed prepared statement does not exist".to_string(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    invalid("26000", "PG-0018", message)
}

impl Connection {
    fn check_room(&self, taken: usize, what: &str) -> Result<(), Failure> {
        if taken < self.limits.prepared_max {
            return Ok(());
        }
        let message = format!("cannot keep another {what}: the connection has {taken}");
        let error = Error::new(ErrorKind::Invalid, "PG-0019", message).sqlstate("53400");
        Err(Failure::Statement(error.attempt("close those that are no longer used")))
    }

    /// Prepares a statement.
    pub(super) async fn parse(&mut self, name: String, sql: &str, types: &[u32]) -> Result<(), Failure> {
        if name.is_empty() {
            self.prepared.remove("");
        } else if self.prepared.contains_key(&name) {
            return Err(invalid(
                "42P05",
                "PG-0020",
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        self.check_room(self.prepared.len(), "prepared statement")?;
        let mut statements = self.session.parse(sql)?;
        if statements.len() > 1 {
            return Err(invalid(
                "42601",
                "PG-0021",
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let statement = statements.pop();
        let declared = declared(types)?;
        let description = match &statement {
            Some(statement) => self.describe(statement, &declared).await?,
            None => Description {
                parameters: Vec::new(),
                columns: None,
            },
        };
        let parameters = settled(&declared, &description.parameters);
        self.prepared.insert(
            name,
            Prepared {
                statement,
                parameters,
                columns: description.columns,
            },
        );
        self.wire.output.parse_complete();
        Ok(())
    }

    async fn describe(&mut self, statement: &Statement, declared: &[Option<PgType>]) -> Result<Description, Failure> {
        if Deallocate::of(statement.text()).is_some() {
            return Ok(Description {
                parameters: Vec::new(),
                columns: None,
            });
        }
        let hints: Vec<_> = declared.iter().map(|pg| pg.and_then(|pg| pg.data_type())).collect();
        tokio::select! {
            biased;
            description = self.session.describe(statement, &hints) => Ok(description?),
            failure = self.signals.raised() => Err(failure),
        }
    }

    /// Makes a portal of a prepared statement and values.
    pub(super) fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let prepared = self
            .prepared
            .get(&bind.statement)
            .ok_or_else(|| no_statement(&bind.statement))?;
        let parameters = values(&bind, &prepared.parameters, &self.style)?;
        let formats: Vec<ColumnFormat> = bind
            .result_formats
            .iter()
            .map(|code| ColumnFormat::of(*code))
            .collect::<Result<_, Error>>()?;
        // A cursor of that name may be another one than when the FETCH was prepared.
        let fetched = prepared.statement.as_ref();
        let fetched = fetched.and_then(|statement| self.session.fetched_columns(statement));
        let columns = fetched.or_else(|| prepared.columns.clone());
        let width = columns.as_ref().map_or(0, |columns| columns.fields().len());
        if formats.len() > 1 && formats.len() != width {
            let count = formats.len();
            return Err(violation(format!(
                "bind message has {count} result formats but query has {width} columns"
            ))
            .into());
        }
        let is_cursor = self.session.cursor_columns(&bind.portal).is_some();
        if !bind.portal.is_empty() && (is_cursor || self.portals.contains_key(&bind.portal)) {
            return Err(portal_exists(&bind.portal));
        }
        let portal = Portal {
            statement: prepared.statement.clone(),
            parameters,
            formats,
            columns,
            state: PortalState::Ready,
        };
        self.check_room(self.portals.len(), "portal")?;
        self.portals.insert(bind.portal, portal);
        self.wire.output.bind_complete();
        Ok(())
    }

    /// Describes a prepared statement: its parameters and its columns, in text format as far as is known.
    pub(super) fn describe_statement(&mut self, name: &str) -> Result<(), Failure> {
        let prepared = self.prepared.get(name).ok_or_else(|| no_statement(name))?;
        self.wire
            .output
            .parameter_description(prepared.parameters.iter().map(|pg| pg.oid));
        match &prepared.columns {
            Some(columns) => rows::describe(&mut self.wire, columns, &[]),
            None => self.wire.output.no_data(),
        }
        Ok(())
    }

    /// Describes a portal: its columns in the formats that were bound.
    pub(super) fn describe_portal(&mut self, name: &str) -> Result<(), Failure> {
        match (self.portals.get(name), self.session.cursor_columns(name)) {
            (Some(portal), _) => match &portal.columns {
                Some(columns) => rows::describe(&mut self.wire, columns, &portal.formats),
                None => self.wire.output.no_data(),
            },
            (None, Some(columns)) => rows::describe(&mut self.wire, &columns, &[]),
            (None, None) => return Err(no_portal(name)),
        }
        Ok(())
    }

    /// Runs a portal up to `rows_max` rows; 0: to its end.
    pub(super) async fn execute(&mut self, name: &str, rows_max: i32) -> Result<(), Failure> {
        // Taken out while it runs: a portal that failed does not come back.
        let Some(mut portal) = self.portals.remove(name) else {
            return self.execute_cursor(name, rows_max).await;
        };
        self.run_portal(name, &mut portal, rows_max).await?;
        self.portals.insert(name.to_string(), portal);
        Ok(())
    }

    /// Runs the portal that a cursor is: fetches from it, in text format.
    async fn execute_cursor(&mut self, name: &str, rows_max: i32) -> Result<(), Failure> {
        let columns = self.session.cursor_columns(name).ok_or_else(|| no_portal(name))?;
        let count = if rows_max > 0 {
            rows_max.to_string()
        } else {
            "ALL".into()
        };
        let fetch = format!("FETCH FORWARD {count} FROM \"{}\"", name.replace('"', "\"\""));
        let mut portal = Portal {
            statement: self.session.parse(&fetch)?.pop(),
            parameters: Vec::new(),
            formats: Vec::new(),
            columns: Some(columns),
            state: PortalState::Ready,
        };
        self.run_portal(name, &mut portal, rows_max).await
    }

    async fn run_portal(&mut self, name: &str, portal: &mut Portal, rows_max: i32) -> Result<(), Failure> {
        if matches!(portal.state, PortalState::Done) {
            return Err(invalid("55000", "PG-0023", format!("portal \"{name}\" cannot be run")));
        }
        if matches!(portal.state, PortalState::Ready) {
            let Some(statement) = &portal.statement else {
                self.wire.output.empty_query();
                return Ok(());
            };
            self.settle_transaction().await?;
            match self.start(statement, &portal.parameters).await? {
                Outcome::Rows(rows) => {
                    check_columns(portal.columns.as_ref(), &rows.schema)?;
                    portal.state = PortalState::Rows(RowSource::new(rows));
                }
                other => {
                    portal.state = PortalState::Done;
                    let completion = self.finish(other).await?;
                    self.complete(completion);
                }
            }
        }
        let PortalState::Rows(source) = &mut portal.state else {
            return Ok(());
        };
        let rows_max = u64::try_from(rows_max)
            .ok()
            .filter(|rows_max| *rows_max > 0)
            .unwrap_or(u64::MAX);
        let sent = source
            .send(
                &mut self.wire,
                &mut self.signals,
                &portal.formats,
                &self.style,
                rows_max,
            )
            .await?;
        match sent.is_done {
            true => self.wire.output.command_complete(&source.tag(sent.rows)),
            false => self.wire.output.portal_suspended(),
        }
        Ok(())
    }

    /// Begins the implicit transaction of a pipeline, unless this statement is all there is before its Sync.
    async fn settle_transaction(&mut self) -> Result<(), Failure> {
        if self.is_implicit || self.session.transaction_status() != TransactionStatus::Idle {
            return Ok(());
        }
        let next = tokio::select! {
            biased;
            kind = self.wire.next_kind() => kind?,
            failure = self.signals.raised() => return Err(failure),
        };
        if next != b'S' {
            self.begin_implicit();
        }
        Ok(())
    }

    /// Drops prepared statements of the protocol that SQL names.
    ///
    /// # Returns
    /// The command tag; `None`: the session is to do it, or the rest of it.
    pub(super) fn deallocate(&mut self, deallocate: Deallocate) -> Option<String> {
        if self.session.transaction_status() == TransactionStatus::Failed {
            return None;
        }
        match deallocate {
            Deallocate::One(name) => self.prepared.remove(&name).map(|_| "DEALLOCATE".to_string()),
            Deallocate::All => {
                self.prepared.clear();
                None
            }
        }
    }
}

/// A statement that drops prepared statements. Those of the protocol and those of SQL share their names, and only the
/// former are known here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deallocate {
    One(String),
    All,
}

impl Deallocate {
    /// Reads `DEALLOCATE [PREPARE] name | ALL`.
    pub(super) fn of(sql: &str) -> Option<Deallocate> {
        let (first, rest) = word(sql.trim_end_matches(|end: char| end == ';' || end.is_whitespace()))?;
        if !first.eq_ignore_ascii_case("deallocate") {
            return None;
        }
        let (mut name, mut rest) = word(rest)?;
        if name.eq_ignore_ascii_case("prepare") && !rest.is_empty() {
            (name, rest) = word(rest)?;
        }
        if !rest.is_empty() {
            return None;
        }
        if name.eq_ignore_ascii_case("all") {
            return Some(Deallocate::All);
        }
        let quoted = name.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
        Some(Deallocate::One(
            quoted.map_or(name.to_lowercase(), |inner| inner.replace("\"\"", "\"")),
        ))
    }
}

/// The first word, quoted or not, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let mut is_quoted = false;
    let end = text.find(|character: char| {
        is_quoted ^= character == '"';
        !is_quoted && character.is_whitespace()
    });
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    (!word.is_empty()).then(|| (word, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deallocate_is_told_from_other_statements() {
        for (sql, expected) in [
            ("DEALLOCATE p", Some(Deallocate::One("p".into()))),
            (
                "deallocate prepare \"My \"\"p\" ;",
                Some(Deallocate::One("My \"p".into())),
            ),
            ("deallocate Prepare", Some(Deallocate::One("prepare".into()))),
            (" DEALLOCATE\nALL;", Some(Deallocate::All)),
            ("deallocate a b", None),
            ("deallocate", None),
            ("select 1", None),
            ("", None),
        ] {
            assert_eq!(Deallocate::of(sql), expected, "{sql}");
        }
    }
}
