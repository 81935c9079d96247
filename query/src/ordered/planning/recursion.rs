//! Recursive queries whose columns have PostgreSQL types of their own (`oid`, in field metadata).
//!
//! The operator refuses terms whose fields' metadata differs, and DataFusion's expressions keep it in plans but not in
//! operators. Nothing above looks at it there: the types of a result are those of its logical plan.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A recursive query whose terms have no metadata.
pub(super) fn plain(query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let fields = query.schema.fields();
    if fields.iter().all(|field| field.metadata().is_empty()) {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    let bare = query.schema.iter().map(|(qualifier, field)| {
        let bare = field.as_ref().clone().with_metadata(HashMap::new());
        (qualifier.cloned(), Arc::new(bare))
    });
    let schema = DFSchema::new_with_metadata(bare.collect(), query.schema.metadata().clone())?;
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(RecursiveQuery {
        static_term: Arc::new(without_metadata(&query.static_term)?),
        recursive_term: Arc::new(without_metadata(&query.recursive_term)?),
        schema: Arc::new(schema),
        ..query
    })))
}

fn without_metadata(term: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let function = Arc::new(ScalarUDF::from(Plain {
        signature: Signature::any(1, Volatility::Immutable),
    }));
    let columns = term.schema().iter().map(|(qualifier, field)| {
        let column = Expr::from((qualifier, field));
        function
            .call(vec![column])
            .alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(term.as_ref().clone())
        .project(columns)?
        .build()
}

/// Its argument, without its field's metadata.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Plain {
    signature: Signature,
}

impl ScalarUDFImpl for Plain {
    fn name(&self) -> &str {
        "without_metadata"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = &args.arg_fields[0];
        Ok(Arc::new(Field::new(
            self.name(),
            field.data_type().clone(),
            field.is_nullable(),
        )))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
