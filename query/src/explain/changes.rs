//! EXPLAIN (CHANGES): what a CREATE OR REPLACE MATERIALIZED VIEW would keep, make again and drop.

use crate::catalog::{Catalog, Object};
use crate::database::Database;
use crate::ddl::{Replacement, dependents};
use crate::error::unsupported;
use cenote_engine::Kept;
use cenote_engine::plan::{Node, NodeId, ViewPlan};
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::{CreateView, Statement as Ast};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows and bytes of state tables, by node and table.
type Sizes = BTreeMap<(NodeId, usize), (u64, u64)>;

impl Database {
    /// Lines of the explanation. Nothing is changed.
    ///
    /// # Errors
    /// As of the statement itself; `Unsupported`: it is not about a materialized view.
    pub(crate) async fn explain_changes(self: &Arc<Self>, statement: &Ast) -> Result<Vec<String>> {
        let create = match statement {
            Ast::CreateView(create) if create.materialized => create,
            _ => {
                let what = "EXPLAIN (CHANGES) of a statement that makes no materialized view";
                return Err(unsupported(what).attempt("EXPLAIN (CHANGES) CREATE OR REPLACE MATERIALIZED VIEW v AS ..."));
            }
        };
        let (catalog, definition) = self.definition_of(create)?;
        let plan = self.view_plan(&definition).await?;
        let old = match catalog.get(&definition.name) {
            Some(Object::MaterializedView(old)) if create.or_replace => old.clone(),
            _ => {
                catalog.check_free(&definition.name)?;
                let title = format!("create materialized view {}", definition.name);
                let all = Kept::nothing(&plan);
                return Ok([vec![title], made(&catalog, &plan, &all, &Sizes::new())].concat());
            }
        };
        let replacement = Replacement::new(old, plan);
        replacement.check(&catalog, &definition)?;
        let sizes = self.engine().state_sizes(replacement.old.definition.id).await?;
        let sizes = sizes
            .into_iter()
            .map(|(node, table, rows, bytes)| ((node, table), (rows, bytes)));
        Ok(lines(&catalog, &replacement, &sizes.collect()))
    }

    fn definition_of(&self, create: &CreateView) -> Result<(Catalog, crate::catalog::ViewDefinition)> {
        let mut catalog = (*self.catalog()).clone();
        let definition = crate::ddl::view_definition(create, &create.to_string(), &mut catalog)?;
        Ok((catalog, definition))
    }
}

fn lines(catalog: &Catalog, replacement: &Replacement, sizes: &Sizes) -> Vec<String> {
    let Replacement { old, plan, kept, .. } = replacement;
    let name = &old.definition.name;
    let mut lines = vec![match &replacement.table_differs {
        None => format!("replace materialized view {name}: its columns and key stay, its rows change in one epoch"),
        Some(why) => {
            format!("replace materialized view {name}: {why}; subscriptions and past epochs end with the old one")
        }
    }];
    lines.extend(made(catalog, plan, kept, sizes));
    let still: BTreeSet<NodeId> = kept.standing.values().chain(kept.below.values()).copied().collect();
    for (id, node) in old.plan.nodes.iter().enumerate().filter(|(id, _)| !still.contains(id)) {
        for (number, table) in node.state_tables().iter().enumerate() {
            lines.push(format!(
                "drop cenote_state.{}: {}",
                table.name,
                size(sizes, (id, number))
            ));
        }
    }
    let dependents = dependents(catalog, old);
    if !dependents.is_empty() {
        lines.push(format!("go on: {}", dependents.join(", ")));
    }
    lines
}

/// What becomes of each operator of a plan that keeps state, and of the view's rows.
fn made(catalog: &Catalog, plan: &ViewPlan, kept: &Kept, sizes: &Sizes) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, node) in plan.nodes.iter().enumerate() {
        for (number, table) in node.state_tables().iter().enumerate() {
            let name = &table.name;
            let of = kept.standing.get(&id).or(kept.below.get(&id));
            lines.push(match of {
                Some(old) => format!("keep cenote_state.{name}: {}", size(sizes, (*old, number))),
                None => format!("rebuild cenote_state.{name} from {}", from(catalog, plan, kept, node)),
            });
        }
    }
    let rows = match kept.standing.contains_key(&plan.root) {
        true => named_state(&plan.nodes[plan.root]),
        false => origins(catalog, plan, kept, plan.root),
    };
    lines.push(format!("rebuild {} from {rows}", plan.table.name));
    lines
}

fn from(catalog: &Catalog, plan: &ViewPlan, kept: &Kept, node: &Node) -> String {
    let inputs = node.inputs().into_iter();
    joined(inputs.map(|input| origins(catalog, plan, kept, input)))
}

/// What the rows of a node are made of: the nearest state that is there, else what is read.
fn origins(catalog: &Catalog, plan: &ViewPlan, kept: &Kept, id: NodeId) -> String {
    let node = &plan.nodes[id];
    match node {
        _ if kept.standing.contains_key(&id) => named_state(node),
        Node::Input { collection, .. } => catalog.by_id(*collection).map_or(collection.to_string(), |object| {
            let again = match object {
                Object::Table(table) if table.versioned.is_none() => ", read again",
                _ => "",
            };
            format!("{} {}{again}", object.kind(), object.name())
        }),
        Node::Constant { .. } => "constants".to_string(),
        _ if !node.state_tables().is_empty() => named_state(node),
        _ => from(catalog, plan, kept, node),
    }
}

fn named_state(node: &Node) -> String {
    joined(
        node.state_tables()
            .into_iter()
            .map(|table| format!("cenote_state.{}", table.name)),
    )
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let mut known = BTreeSet::new();
    let parts: Vec<String> = parts.filter(|part| known.insert(part.clone())).collect();
    parts.join(" and ")
}

fn size(sizes: &Sizes, table: (NodeId, usize)) -> String {
    let (rows, bytes) = sizes.get(&table).copied().unwrap_or_default();
    format!("{rows} rows, {bytes} bytes")
}
