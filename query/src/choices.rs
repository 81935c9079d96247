//! COALESCE, GREATEST, LEAST and NULLIF where DataFusion does not bring their arguments together: structs of different
//! types, and quoted texts beside values of other types.
//!
//! A quoted text has no type of its own; which of the texts are quoted is not seen here, where there are types alone. So
//! the arguments beside texts decide, and [`crate::postgres`] refuses the texts that have a type.

use crate::casts::text::reads_text;
use crate::structs::common_type;
use arrow::datatypes::{DataType, Field, FieldRef};
use cenote_statestore::forms::record::fields_of;
use cenote_statestore::forms::uuid::UUID;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The functions.
pub(crate) const NAMES: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Choice {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Choice {
    /// The function in the place of DataFusion's.
    pub(crate) fn function(inner: Arc<ScalarUDF>) -> ScalarUDF {
        ScalarUDF::from(Choice {
            inner,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }

    fn coerced(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let fields = arguments
            .iter()
            .map(|found| Arc::new(Field::new("", found.clone(), true)));
        let coerced = fields_with_udf(&fields.collect::<Vec<FieldRef>>(), self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
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

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

impl ScalarUDFImpl for Choice {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<&DataType> = args.arg_fields.iter().map(|field| field.data_type()).collect();
        if !types.contains(&&UUID) || !types.iter().any(|found| is_text(found)) {
            return self.inner.return_field_from_args(args);
        }
        let pairs = args
            .arg_fields
            .iter()
            .cloned()
            .zip(args.scalar_arguments.iter().copied());
        let (arg_fields, scalar_arguments): (Vec<_>, Vec<_>) = pairs
            .map(|(field, constant)| match is_text(field.data_type()) {
                true => (Arc::new(field.as_ref().clone().with_data_type(UUID)), None),
                false => (field, constant),
            })
            .unzip();
        self.inner.return_field_from_args(ReturnFieldArgs {
            arg_fields: &arg_fields,
            scalar_arguments: &scalar_arguments,
        })
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if self.name() == "coalesce"
            && let Some(common) = struct_type(arguments)?
        {
            return Ok(vec![common; arguments.len()]);
        }
        let others = arguments
            .iter()
            .filter(|found| !is_text(found) && **found != DataType::Null);
        let others: Vec<DataType> = others.cloned().collect();
        if !arguments.iter().any(is_text) || !others.iter().all(reads_text) || others.is_empty() {
            return self.coerced(arguments);
        }
        let decided = match others.as_slice() {
            [one] => one.clone(),
            others => self.coerced(others)?[0].clone(),
        };
        if decided == UUID {
            // DataFusion coerces no text to it: only quoted ones are left, which become UUIDs before they are computed.
            return Ok(arguments.to_vec());
        }
        Ok(vec![decided; arguments.len()])
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
