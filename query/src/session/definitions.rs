//! Changes of the catalog: each is one commit of its own, done whole whatever becomes of who asked for it.

use super::{Session, created, first_words};
use crate::catalog::Object;
use crate::error::unsupported;
use crate::outcome::Outcome;
use crate::parse::{SinkStatement, Statement};
use crate::transaction::Transaction;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{CreateTable, CreateView, ObjectName, ObjectType, Statement as Ast};
use std::future::Future;

impl Session {
    pub(super) async fn definition(&mut self, statement: &Statement, ast: &Ast) -> Result<Outcome> {
        self.refuse_definition("a change of the catalog")?;
        let outcome = self.define(statement, ast).await?;
        self.renew_snapshot().await?;
        Ok(outcome)
    }

    /// What the statements of one message read after a change of the catalog has what it made.
    async fn renew_snapshot(&mut self) -> Result<()> {
        if let Some(only_reads) = self.transaction.as_ref().map(|transaction| transaction.only_reads) {
            let mut renewed = Transaction::new(self.newest_pin().await?, true);
            renewed.only_reads = only_reads;
            self.transaction = Some(renewed);
        }
        Ok(())
    }

    async fn define(&mut self, statement: &Statement, ast: &Ast) -> Result<Outcome> {
        match ast {
            Ast::Drop { purge: true, .. } => Err(unsupported("PURGE")),
            Ast::Drop { temporary: true, .. } => Err(unsupported("DROP TEMPORARY")),
            Ast::CreateTable(create) => self.create_table("CREATE TABLE", create, &statement.text, false).await,
            Ast::CreateView(create) => {
                let made = self.create_view(create, &statement.text).await?;
                let tag = if create.materialized {
                    "CREATE MATERIALIZED VIEW"
                } else {
                    "CREATE VIEW"
                };
                let mut outcome = created(tag, made, &create.name.to_string());
                if let Outcome::Command { notices, .. } = &mut outcome {
                    notices.extend(self.rows_left_out(&create.name).filter(|_| made));
                }
                Ok(outcome)
            }
            Ast::AlterTable(alter) => {
                let (database, alter, text) = (self.database.clone(), alter.clone(), statement.text.to_string());
                let altered = async move { database.alter_table(&alter, &text).await };
                Ok(Outcome::Command {
                    tag: "ALTER TABLE".into(),
                    notices: self.whole(altered).await?,
                })
            }
            Ast::CreateIndex(create) => {
                let (database, create) = (self.database.clone(), create.clone());
                let (name, made) = self.whole(async move { database.create_index(&create).await }).await?;
                Ok(created("CREATE INDEX", made, &name))
            }
            Ast::Drop {
                object_type: ObjectType::Index,
                names,
                if_exists,
                ..
            } => {
                let (database, names, if_exists) = (self.database.clone(), names.clone(), *if_exists);
                let dropped = async move { database.drop_indexes(&names, if_exists).await };
                Ok(Outcome::Command {
                    tag: "DROP INDEX".into(),
                    notices: self.whole(dropped).await?,
                })
            }
            Ast::Drop {
                object_type,
                names,
                if_exists,
                cascade,
                ..
            } => {
                let kind = crate::ddl::dropped_kind(object_type)?;
                self.drop_objects(names, kind, *if_exists, *cascade).await
            }
            other => Err(unsupported(first_words(&other.to_string()))),
        }
    }

    pub(super) async fn create_table(
        &self,
        tag: &str,
        create: &CreateTable,
        text: &str,
        is_source: bool,
    ) -> Result<Outcome> {
        let (database, name) = (self.database.clone(), create.name.to_string());
        let (create, text) = (create.clone(), text.to_string());
        let made = self
            .whole(async move { database.create_table(&create, &text, is_source).await })
            .await?;
        Ok(created(tag, made, &name))
    }

    /// Unlike other changes of the catalog, one that can take long is undone when it is broken off.
    async fn create_view(&self, create: &CreateView, text: &str) -> Result<bool> {
        let (database, create, text) = (self.database.clone(), create.clone(), text.to_string());
        let commitment = self.commitment.clone();
        let (_asked, abandoned) = tokio::sync::oneshot::channel();
        let guard = database.lock_catalog().await;
        let task = tokio::spawn(async move {
            let _guard = guard;
            database.create_view(&create, &text, &commitment, abandoned).await
        });
        task.await
            .map_err(|error| Error::bug(format!("the creation of a view broke off: {error}")))?
    }

    /// What to tell whoever has made a view that its expressions fail on rows of.
    fn rows_left_out(&self, name: &ObjectName) -> Option<String> {
        let (catalog, name) = (self.database.catalog(), crate::ddl::object_name(name).ok()?);
        let Object::MaterializedView(view) = catalog.get(&name)? else {
            return None;
        };
        let rows = view.errors.as_ref()?.statistics().rows;
        let left_out = format!(
            "{rows} rows that expressions fail on are left out of \"{name}\"; SHOW ERRORS FOR {name} lists them"
        );
        (rows > 0).then_some(left_out)
    }

    pub(super) async fn sink(&mut self, statement: &SinkStatement, text: &str) -> Result<Outcome> {
        let (database, text) = (self.database.clone(), text.to_string());
        match statement {
            SinkStatement::Create(create) => {
                self.refuse_definition("CREATE SINK")?;
                database.before_sink(create, &text).await?;
                let (create, name) = (create.clone(), create.name.to_string());
                let made = async move { database.create_sink(&create, &text).await };
                Ok(created("CREATE SINK", self.whole(made).await?, &name))
            }
            SinkStatement::Drop { names, if_exists } => {
                self.refuse_definition("DROP")?;
                let (names, if_exists) = (names.clone(), *if_exists);
                let dropped = async move { database.drop_sinks(&names, if_exists).await };
                Ok(Outcome::Command {
                    tag: "DROP SINK".into(),
                    notices: self.whole(dropped).await?,
                })
            }
        }
    }

    pub(super) async fn drop_objects(
        &self,
        names: &[ObjectName],
        kind: &'static str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<Outcome> {
        let (database, names) = (self.database.clone(), names.to_vec());
        let dropped = async move { database.drop_objects(&names, kind, if_exists, cascade).await };
        Ok(Outcome::Command {
            tag: format!("DROP {}", kind.to_uppercase()),
            notices: self.whole(dropped).await?,
        })
    }

    /// Runs a change of the catalog to its end, whatever becomes of who asked for it: half of one must not stay. While it
    /// waits for its turn, it can be broken off.
    async fn whole<T: Send + 'static>(&self, change: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let guard = self.database.lock_catalog().await;
        self.commitment.make()?;
        let done = tokio::spawn(async move {
            let _guard = guard;
            change.await
        });
        done.await
            .map_err(|error| Error::bug(format!("a change of the catalog broke off: {error}")))?
    }

    /// DDL is one commit of its own; inside a block it would take effect before the block does.
    pub(super) fn refuse_definition(&self, what: &str) -> Result<()> {
        self.refuse_if_only_reads()?;
        match &self.transaction {
            Some(transaction) if !(transaction.implicit && transaction.is_read_only()) => Err(Error::new(
                ErrorKind::Unsupported,
                "SQL-0402",
                format!("cannot run {what} inside a transaction block: not supported yet"),
            )
            .sqlstate("25001")
            .attempt("COMMIT first")),
            _ => Ok(()),
        }
    }
}
