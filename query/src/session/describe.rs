//! What a prepared statement takes and gives, found without running it.

use super::{Description, Session, shown_schema, text_column};
use crate::dml::Returning;
use crate::error::from_datafusion;
use crate::parse::{CursorStatement, Parsed, Statement};
use arrow::datatypes::{DataType, SchemaRef};
use cenote_statestore::forms::record;
use cenote_statestore::{Epoch, Error, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use std::collections::HashMap;

impl Session {
    /// Infers parameters and result columns without running anything.
    ///
    /// # Arguments
    /// - `hints`: parameter types given by the client; `None` where it leaves the choice to us.
    pub async fn describe(&mut self, statement: &Statement, hints: &[Option<DataType>]) -> Result<Description> {
        if let Parsed::Cursor(of) = &*statement.parsed {
            return self.describe_cursor(of, hints).await;
        }
        let Parsed::Sql { ast, as_of } = &*statement.parsed else {
            let columns = self.columns_of_own(&statement.parsed)?;
            return Ok(Description {
                parameters: Vec::new(),
                columns,
            });
        };
        match ast.as_ref() {
            Ast::Query(_) => self.describe_query(ast, *as_of, hints).await,
            Ast::Insert(insert) => {
                let view = self.read_view(*as_of).await?.with_named(ast).await?;
                let (inferred, returned) = crate::dml::parameters_of_insert(&view, insert).await?;
                let columns = returned.map(|plan| shown_schema(coerced(&view.state(), plan).schema().as_arrow()));
                let parameters = parameter_types(&inferred, hints);
                Ok(Description { parameters, columns })
            }
            Ast::Update(_) | Ast::Delete(_) => self.describe_change(statement, ast, hints).await,
            Ast::ShowVariable { .. } => Ok(Description {
                parameters: Vec::new(),
                columns: Some(text_column("setting")),
            }),
            Ast::Explain { .. } => Ok(Description {
                parameters: Vec::new(),
                columns: Some(text_column("QUERY PLAN")),
            }),
            _ => Ok(Description {
                parameters: Vec::new(),
                columns: None,
            }),
        }
    }

    async fn describe_query(
        &mut self,
        ast: &Ast,
        as_of: Option<Epoch>,
        hints: &[Option<DataType>],
    ) -> Result<Description> {
        let view = self.read_view(as_of).await?.with_named(ast).await?;
        let state = view.state();
        let plan = view.plan(&state, ast).await?;
        let inferred = plan.get_parameter_types().map_err(from_datafusion)?;
        let columns = Some(shown_schema(coerced(&state, plan).schema().as_arrow()));
        let parameters = parameter_types(&inferred, hints);
        Ok(Description { parameters, columns })
    }

    async fn describe_cursor(&mut self, of: &CursorStatement, hints: &[Option<DataType>]) -> Result<Description> {
        let (parameters, columns) = match of {
            CursorStatement::Declare(declaration) => match &*declaration.query {
                Parsed::Sql { ast, as_of } => (self.describe_query(ast, *as_of, hints).await?.parameters, None),
                _ => return Err(Error::bug("a cursor that is not for a query")),
            },
            CursorStatement::Fetch { name, moves: false, .. } => (Vec::new(), self.cursor_columns(name)),
            CursorStatement::Fetch { .. } | CursorStatement::Close(_) => (Vec::new(), None),
        };
        Ok(Description { parameters, columns })
    }

    async fn describe_change(
        &self,
        statement: &Statement,
        ast: &Ast,
        hints: &[Option<DataType>],
    ) -> Result<Description> {
        let returning = self.plan_of_returning(ast).await?;
        if statement.parameters_len() == 0 {
            return Ok(Description {
                parameters: parameter_types(&HashMap::new(), hints),
                columns: returning.map(|(columns, _)| columns),
            });
        }
        let view = self.read_view(None).await?.with_named(ast).await?;
        let mut inferred = crate::dml::parameters_of_change(&view, ast).await?;
        let mut columns = None;
        if let Some((returned, plan)) = returning {
            let of_returning = plan.get_parameter_types().map_err(from_datafusion)?;
            for (name, data_type) in of_returning {
                let known = inferred.entry(name).or_default();
                *known = known.take().or(data_type);
            }
            columns = Some(returned);
        }
        let parameters = parameter_types(&inferred, hints);
        Ok(Description { parameters, columns })
    }

    /// The RETURNING of an UPDATE or a DELETE, and its columns.
    async fn plan_of_returning(&self, ast: &Ast) -> Result<Option<(SchemaRef, LogicalPlan)>> {
        let (table, returning, has_others) = match ast {
            Ast::Update(update) => (&update.table, update.returning.as_ref(), update.from.is_some()),
            Ast::Delete(delete) => {
                let from = crate::dml::deleted_from(delete)?;
                (from, delete.returning.as_ref(), delete.using.is_some())
            }
            _ => return Ok(None),
        };
        if returning.is_none() {
            return Ok(None);
        }
        let view = self.read_view(None).await?;
        let (table, alias) = crate::dml::target(&view, table)?;
        let Some(returning) = Returning::of(returning, &alias, has_others)? else {
            return Ok(None);
        };
        let (_, plan) = returning.plan(&view, crate::dml::no_rows(&table)).await?;
        let columns = shown_schema(coerced(&view.state(), plan.clone()).schema().as_arrow());
        Ok(Some((columns, plan)))
    }

    fn columns_of_own(&self, parsed: &Parsed) -> Result<Option<SchemaRef>> {
        match parsed {
            Parsed::Inspect(inspection) => self.columns_of_inspection(inspection).map(Some),
            Parsed::Show(words) => Ok(Some(crate::show::columns(words)?)),
            Parsed::Subscribe { name, .. } => {
                let readable = self.database.readable(&crate::ddl::object_name(name)?)?;
                Ok(Some(crate::database::labelled_columns(&readable.columns)))
            }
            _ => Ok(None),
        }
    }
}

/// The plan with its types coerced; as it is where its parameters leave types open.
fn coerced(state: &SessionState, plan: LogicalPlan) -> LogicalPlan {
    let options = state.config_options();
    let analyzed = state.analyzer().execute_and_check(plan.clone(), options, |_, _| {});
    analyzed.unwrap_or(plan)
}

/// What a parameter of a type is sent as: drivers have no form of an anonymous STRUCT, so its literal is asked for.
fn sent_as(data_type: DataType) -> DataType {
    let element = match &data_type {
        DataType::List(item) => item.data_type(),
        other => other,
    };
    match record::fields_of(element) {
        Some(_) => DataType::Utf8,
        None => data_type,
    }
}

/// Types of `$1`, `$2` ...: the client's, then those inferred, else text.
fn parameter_types(inferred: &HashMap<String, Option<DataType>>, hints: &[Option<DataType>]) -> Vec<DataType> {
    let highest = inferred
        .keys()
        .filter_map(|name| name.trim_start_matches('$').parse::<usize>().ok())
        .max();
    (1..=highest.unwrap_or(0).max(hints.len()))
        .map(|number| {
            let hint = hints.get(number - 1).cloned().flatten();
            let inferred = inferred.get(&format!("${number}")).cloned().flatten();
            hint.or(inferred.map(sent_as)).unwrap_or(DataType::Utf8)
        })
        .collect()
}
