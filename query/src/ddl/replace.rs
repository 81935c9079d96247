//! CREATE OR REPLACE MATERIALIZED VIEW: the new view is made beside the old one, and then takes its place in one epoch.
//!
//! # Rules kept here
//! 1. State of operators that are the same in both queries is kept ([`Kept`]); the rest is made of what is there: rows of tables and
//!    views, and what sources can read again.
//! 2. Where the columns and the key stay as they are, the new view gets the old one's number and table. What reads it, subscriptions
//!    and past epochs go on; they see the difference as the changes of one epoch.
//! 3. Otherwise the new view has a table of its own, and nothing may read the old one: it ends as if it were dropped.
//! 4. Until then the old view goes on as if nothing was asked for; if the new one cannot be made, it stays.
//!
//! # Not here
//! How one view takes the other's place in the dataflow (`cenote_engine`).

use super::views::Origin;
use super::{check_column_name, encode};
use crate::catalog::{Catalog, DdlRecord, MaterializedView, Object, ViewDefinition};
use crate::database::Database;
use crate::session::{Commitment, canceled};
use cenote_engine::plan::{CollectionId, ViewPlan};
use cenote_engine::{Commit, Kept, Replaces, Switch};
use cenote_statestore::{Error, ErrorKind, Result, TableSchema};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A view that is to take the place of another.
pub(crate) struct Replacement {
    pub(crate) old: Arc<MaterializedView>,
    pub(crate) plan: ViewPlan,
    /// What it keeps of the old one's state.
    pub(crate) kept: Kept,
    /// Why it cannot have the old one's table; `None`: it can.
    pub(crate) table_differs: Option<String>,
}

impl Replacement {
    pub(crate) fn new(old: Arc<MaterializedView>, plan: ViewPlan) -> Replacement {
        let kept = match old.status.failure() {
            None => Kept::of(&plan, &old.plan),
            Some(_) => Kept::nothing(&plan),
        };
        Replacement {
            table_differs: difference(&old.plan.table, &plan.table),
            kept,
            plan,
            old,
        }
    }

    /// Whether it gets the old one's number and table.
    pub(crate) fn takes_table(&self) -> bool {
        self.table_differs.is_none()
    }

    /// The number of the view that replaces, once it has its place.
    fn id(&self, definition: &ViewDefinition) -> CollectionId {
        match self.takes_table() {
            true => self.old.definition.id,
            false => definition.id,
        }
    }

    fn origin(&self) -> Origin {
        Origin::View(Replaces {
            view: self.old.definition.id,
            kept: self.kept.clone(),
            errors: self.old.errors.clone(),
        })
    }

    /// The view in its place.
    pub(crate) fn placed(&self, beside: &MaterializedView, definition: ViewDefinition) -> MaterializedView {
        let takes = self.takes_table();
        MaterializedView {
            columns: if takes { &self.old.columns } else { &beside.columns }.clone(),
            versioned: if takes { &self.old.versioned } else { &beside.versioned }.clone(),
            created: if takes { self.old.created } else { beside.created },
            definition,
            plan: beside.plan.clone(),
            errors: beside.errors.clone(),
            status: beside.status.clone(),
            meters: beside.meters.clone(),
            reads: beside.reads.clone(),
            started_as: beside.started_as,
            points: Default::default(),
        }
    }

    /// What the engine is told: the view takes the other's place, or the other one goes.
    pub(crate) fn switch(&self, beside: &MaterializedView) -> (Option<Switch>, Vec<CollectionId>) {
        let old = self.old.definition.id;
        let switch = Switch {
            old,
            new: beside.started_as,
            plan: beside.plan.clone(),
            meters: beside.meters.clone(),
        };
        match self.takes_table() {
            true => (Some(switch), Vec::new()),
            false => (None, vec![old]),
        }
    }

    /// Refuses what would change the meaning of something else.
    ///
    /// # Errors
    /// `Invalid`: the view would read itself, or what was made after it; or something depends on columns or a key that go.
    pub(crate) fn check(&self, catalog: &Catalog, definition: &ViewDefinition) -> Result<()> {
        let name = &definition.name;
        let object = Object::MaterializedView(self.old.clone());
        if catalog.names(&object, definition) || self.plan.reads().any(|read| read == object.id()) {
            let message = format!("cannot replace view \"{name}\": its new query reads the view itself");
            return Err(Error::new(ErrorKind::Invalid, "SQL-0218", message).sqlstate("42P17"));
        }
        for column in self.plan.table.columns.fields() {
            check_column_name(column.name())?;
        }
        match &self.table_differs {
            None => self.check_order(catalog, name),
            Some(why) => {
                let dependents = dependents(catalog, &self.old);
                if dependents.is_empty() {
                    return Ok(());
                }
                let message = format!("cannot replace view \"{name}\": other objects depend on it, and {why}");
                let error = Error::new(ErrorKind::Invalid, "SQL-0217", message).sqlstate("2BP01");
                Err(error
                    .fact("dependents", dependents.join(", "))
                    .attempt("DROP them first"))
            }
        }
    }

    /// A view comes after what it reads, at every start too.
    fn check_order(&self, catalog: &Catalog, name: &str) -> Result<()> {
        let later = self.plan.reads().filter(|read| *read > self.old.definition.id);
        let later = later.filter_map(|read| catalog.by_id(read)).next();
        let Some(later) = later else {
            return Ok(());
        };
        let (kind, read) = (later.kind(), later.name());
        let message =
            format!("cannot replace view \"{name}\": its new query reads {kind} \"{read}\", which was made after it");
        let error = Error::new(ErrorKind::Invalid, "SQL-0223", message).sqlstate("42P17");
        Err(error.attempt(format!("DROP MATERIALIZED VIEW {name}, and create it again")))
    }
}

/// What reads a view: names with kinds.
pub(crate) fn dependents(catalog: &Catalog, view: &MaterializedView) -> Vec<String> {
    let id = view.definition.id;
    let readers = catalog.readers(id).into_iter();
    let readers = readers.map(|reader| format!("{} {}", reader.kind(), reader.name()));
    let sinks = catalog.sinks().filter(|sink| sink.definition.from == id);
    let sinks = sinks.map(|sink| format!("sink {}", sink.definition.name));
    let indexes = catalog
        .indexes_of(id)
        .map(|index| format!("index {}", index.definition.name));
    readers.chain(sinks).chain(indexes).collect()
}

/// Why one table's rows are none of another's; `None`: they are.
fn difference(old: &TableSchema, new: &TableSchema) -> Option<String> {
    let (before, after) = (old.columns.fields(), new.columns.fields());
    for column in before {
        match after.iter().find(|field| field.name() == column.name()) {
            None => return Some(format!("column \"{}\" is gone", column.name())),
            Some(field) if field.data_type() != column.data_type() => {
                return Some(format!("the type of column \"{}\" changes", column.name()));
            }
            Some(field) if field.is_nullable() && !column.is_nullable() => {
                return Some(format!("column \"{}\" can be NULL now", column.name()));
            }
            Some(_) => {}
        }
    }
    if let Some(added) = after
        .iter()
        .find(|field| old.columns.field_with_name(field.name()).is_err())
    {
        return Some(format!("column \"{}\" is new", added.name()));
    }
    let moved = before.iter().zip(after).find(|(old, new)| old.name() != new.name());
    if let Some((_, moved)) = moved {
        return Some(format!("column \"{}\" is in another place", moved.name()));
    }
    (old.key != new.key || old.unique != new.unique).then(|| "its key changes".to_string())
}

impl Database {
    /// CREATE OR REPLACE MATERIALIZED VIEW of one that is there. The caller holds the catalog's lock.
    ///
    /// # Arguments
    /// - `definition`: with a number that nothing else has.
    ///
    /// # Returns
    /// `true`: it was replaced.
    pub(super) async fn replace_view(
        self: &Arc<Self>,
        mut catalog: Catalog,
        old: Arc<MaterializedView>,
        definition: ViewDefinition,
        commitment: &Commitment,
        abandoned: oneshot::Receiver<()>,
    ) -> Result<bool> {
        let replacement = Replacement::new(old, self.view_plan(&definition).await?);
        replacement.check(&catalog, &definition)?;
        let beside = self.start_beside(&replacement, definition.clone()).await?;
        let live = tokio::select! {
            biased;
            _ = abandoned => Err(canceled()),
            live = beside.status.wait_live() => live,
        };
        self.replays().end(beside.started_as);
        if let Err(error) = live.and_then(|()| commitment.make()) {
            let drops = vec![beside.started_as];
            self.engine()
                .commit(Commit {
                    drops,
                    ..Commit::default()
                })
                .await?;
            return Err(error);
        }
        let new = ViewDefinition {
            id: replacement.id(&definition),
            sees: Some(definition.sees()),
            ..definition
        };
        let record = DdlRecord::ReplaceMaterializedView {
            old: replacement.old.definition.id,
            new: new.clone(),
        };
        let (switch, drops) = replacement.switch(&beside);
        let commit = Commit {
            ddl: Some(encode(&record)?),
            switch,
            drops,
            ..Commit::default()
        };
        let epoch = self.engine().commit(commit).await?;
        let id = new.id;
        // At once: a view that ended is not current any more.
        catalog.insert(Object::MaterializedView(Arc::new(replacement.placed(&beside, new))));
        self.set_catalog(catalog);
        self.engine().wait_visible(epoch).await?;
        self.start_sources_read(id)?;
        Ok(true)
    }

    /// Starts the view that is to take another's place; nobody can read it yet.
    pub(crate) async fn start_beside(
        self: &Arc<Self>,
        replacement: &Replacement,
        definition: ViewDefinition,
    ) -> Result<Arc<MaterializedView>> {
        let (plan, settings) = (replacement.plan.clone(), self.view_settings());
        let (new, prepared) = self.prepare_view(definition, plan, replacement.origin(), settings)?;
        let epoch = self.engine().attach(new).await?;
        Ok(self.started_view(prepared, epoch, epoch))
    }
}
