//! CREATE SINK and DROP SINK: from a parsed statement to a logged definition and a running sink.

use super::runner::Begin;
use super::start::Followed;
use crate::catalog::{Catalog, DdlRecord, SinkDefinition, SinkObject, progress_schema};
use crate::database::{Database, HISTORY_BYTES};
use crate::ddl::{encode, object_name, options_given};
use crate::error::near;
use crate::parse::CreateSink;
use cenote_engine::Commit;
use cenote_engine::plan::CollectionId;
use cenote_engine::port::{Connector, Sink, SinkRequest};
use cenote_statestore::{Error, ErrorKind, Result, Retention, VersionedTable};
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;

/// A sink that is not in the catalog yet.
struct Planned {
    definition: SinkDefinition,
    from: Followed,
    sink: Box<dyn Sink>,
}

impl Database {
    /// What CREATE SINK does before it holds the catalog: a checkpoint, so that after a restart there is something to go on
    /// from, if the statement can be done at all.
    pub(crate) async fn before_sink(self: &Arc<Self>, create: &CreateSink, text: &str) -> Result<()> {
        let mut catalog = (*self.catalog()).clone();
        let is_there = catalog.sink(&object_name(&create.name)?).is_some();
        if create.if_not_exists && is_there {
            return Ok(());
        }
        self.plan_sink(create, text, &mut catalog)?;
        if self.config().data_dir.is_some() {
            self.checkpoint(None).await?;
        }
        Ok(())
    }

    /// CREATE SINK. The caller holds the catalog's lock.
    ///
    /// # Returns
    /// Whether it was created; `false` if it is there already and IF NOT EXISTS was said.
    pub(crate) async fn create_sink(self: &Arc<Self>, create: &CreateSink, text: &str) -> Result<bool> {
        let mut catalog = (*self.catalog()).clone();
        if create.if_not_exists && catalog.sink(&object_name(&create.name)?).is_some() {
            return Ok(false);
        }
        let Planned {
            definition,
            from,
            mut sink,
        } = self.plan_sink(create, text, &mut catalog)?;
        // What stands in its way is told to who asked for it.
        let sink = crate::checkpoints::blocking(move || sink.recover(None).map(|()| sink)).await?;
        let object = Arc::new(new_sink(definition, self.engine().retention()));
        let commit = Commit {
            ddl: Some(encode(&DdlRecord::CreateSink(object.definition.clone()))?),
            create_tables: vec![(object.definition.progress, object.progress.clone())],
            ..Commit::default()
        };
        let epoch = self.engine().commit(commit).await?;
        self.engine().wait_visible(epoch).await?;
        catalog.insert_sink(object.clone());
        self.set_catalog(catalog);
        self.run_sink(&object, from, sink, Begin::New)?;
        Ok(true)
    }

    fn plan_sink(self: &Arc<Self>, create: &CreateSink, text: &str, catalog: &mut Catalog) -> Result<Planned> {
        let name = object_name(&create.name)?;
        catalog.check_free(&name)?;
        let options = options_given(&create.options)?;
        if !options.contains_key("connector") {
            let message = format!("cannot create \"{name}\": WITH has no connector");
            let error = Error::new(ErrorKind::Invalid, "CONN-0002", message).sqlstate("22023");
            return Err(error.attempt("add connector = 'file'"));
        }
        let from = self.followed(catalog, &name, &object_name(&create.from)?)?;
        let definition = SinkDefinition {
            id: catalog.allocate(),
            name,
            sql: text.to_string(),
            from: from.id,
            options,
            progress: catalog.allocate(),
        };
        let sink = self.sink_of(&definition, &from)?;
        Ok(Planned { definition, from, sink })
    }

    /// Makes a connector's sink of a definition.
    ///
    /// # Errors
    /// `Invalid`: the options or the columns are wrong.
    pub(super) fn sink_of(&self, definition: &SinkDefinition, from: &Followed) -> Result<Box<dyn Sink>> {
        let name = definition.options.get("connector").map_or("", String::as_str);
        self.connector(&definition.name, name)?.sink(SinkRequest {
            name: definition.name.clone(),
            schema: from.columns.clone(),
            key: from.key.clone(),
            options: definition.options.clone(),
            paths: self.config().paths.clone(),
        })
    }

    /// The connector of that name, for an object.
    ///
    /// # Errors
    /// `Invalid` CONN-0016, with those there are.
    pub(crate) fn connector(&self, object: &str, name: &str) -> Result<&Arc<dyn Connector>> {
        let connectors = &self.config().connectors;
        connectors.get(name).ok_or_else(|| {
            let known: Vec<&str> = connectors.iter().map(|connector| connector.name()).collect();
            let message = format!("cannot create \"{object}\": there is no connector '{name}'");
            let error = Error::new(ErrorKind::Invalid, "CONN-0016", message).sqlstate("22023");
            near(error.fact("connectors", known.join(", ")), name, known)
        })
    }

    /// DROP SINK: all that are named, or none. The caller holds the catalog's lock.
    ///
    /// # Returns
    /// Notices for sinks that are not there, with IF EXISTS.
    pub(crate) async fn drop_sinks(self: &Arc<Self>, names: &[ObjectName], if_exists: bool) -> Result<Vec<String>> {
        let mut catalog = (*self.catalog()).clone();
        let (mut notices, mut doomed) = (Vec::new(), Vec::new());
        for name in names {
            let name = object_name(name)?;
            match (catalog.sink(&name), catalog.get(&name)) {
                (Some(sink), _) => doomed.push(sink.clone()),
                (None, Some(object)) => return Err(crate::ddl::other_kind(object, "sink")),
                (None, None) if if_exists => notices.push(format!("sink \"{name}\" does not exist, skipping")),
                (None, None) => return Err(missing(&name, &catalog)),
            }
        }
        let mut dropped = Vec::new();
        for sink in &doomed {
            self.end_sink(sink).await?;
            dropped.extend([sink.definition.id, sink.definition.progress]);
        }
        if !dropped.is_empty() {
            let commit = Commit {
                ddl: Some(encode(&DdlRecord::Drop(dropped.clone()))?),
                drops: dropped.clone(),
                ..Commit::default()
            };
            let epoch = self.engine().commit(commit).await?;
            self.engine().wait_visible(epoch).await?;
            catalog.remove(&dropped);
            self.set_catalog(catalog);
        }
        Ok(notices)
    }

    /// Ends a sink that is about to be dropped, behind what was acknowledged before.
    pub(crate) async fn end_sink(self: &Arc<Self>, sink: &SinkObject) -> Result<()> {
        self.wait_for_newest().await?;
        let through = self.durable_epoch_for(sink.definition.from);
        let (database, id): (_, CollectionId) = (self.clone(), sink.definition.id);
        crate::checkpoints::blocking(move || {
            database.running_sinks().drop_sink(id, through);
            Ok(())
        })
        .await
    }
}

/// A sink with an empty table of its progress.
pub(crate) fn new_sink(definition: SinkDefinition, retention: &Arc<Retention>) -> SinkObject {
    let schema = progress_schema(&definition.name);
    SinkObject {
        progress: Arc::new(VersionedTable::new(schema, 1, true, retention.clone(), HISTORY_BYTES)),
        definition,
    }
}

fn missing(name: &str, catalog: &Catalog) -> Error {
    let message = format!("sink \"{name}\" does not exist");
    let error = Error::new(ErrorKind::Invalid, "SINK-0101", message).sqlstate("42704");
    near(error, name, catalog.sinks().map(|sink| sink.definition.name.as_str()))
}
