//! COALESCE of structs of different types, which DataFusion does not bring together; else it is DataFusion's.

use super::common_type;
use arrow::datatypes::{DataType, FieldRef};
use cenote_statestore::forms::record::fields_of;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// `coalesce`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Coalesce {
    inner: Arc<ScalarUDF>,
}

impl Coalesce {
    /// The function in the place of DataFusion's.
    pub(crate) fn function(inner: Arc<ScalarUDF>) -> ScalarUDF {
        ScalarUDF::from(Coalesce { inner })
    }
}

/// The type of structs beside one another and beside texts; `None`: no struct is among them.
fn struct_type(types: &[DataType]) -> Result<Option<DataType>> {
    let mut structs = types.iter().filter(|found| fields_of(found).is_some());
    let Some(first) = structs.next() else {
        return Ok(None);
    };
    let common = structs.try_fold(first.clone(), |common, other| common_type(&common, other));
    common.map(Some)
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match struct_type(arguments)? {
            Some(common) => Ok(vec![common; arguments.len()]),
            None => self.inner.inner().coerce_types(arguments),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
