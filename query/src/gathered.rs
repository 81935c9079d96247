//! ARRAY_AGG, STRING_AGG and COUNT of different rows, with an order that is a function of the rows.
//!
//! PostgreSQL leaves the order of elements open where a call has no ORDER BY, and where elements tie in it. Here they
//! come by value then, NULLs last: a view's contents must not depend on the order of arrival (invariant 2), and the
//! view's query must give the same. [`of_call`] turns a call of DataFusion's function into one of [`Gathering`], whose
//! arguments are all columns that decide an element's place; so ORDER BY and DISTINCT are the function's own.
//!
//! # Not here
//! Bytes of elements and what results are made of ([`ElementOrder`]). Calls over windows are DataFusion's.

mod accumulator;

use accumulator::Gather;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use cenote_engine::elements::ElementOrder;
use cenote_engine::plan::{AggregateFunction, Delimiter};
use cenote_statestore::forms::list;
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{AggregateFunction as Call, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, ReversedUDAF, Signature, Volatility,
};
use std::sync::Arc;

/// Values in their own order: ascending, NULLs last.
const BY_VALUE: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

/// A function over elements; its arguments are the element's columns.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gathering {
    pub(crate) function: AggregateFunction,
    pub(crate) distinct: bool,
    /// The order of each argument.
    pub(crate) order: Vec<SortOptions>,
    /// Which argument is the value that is shown.
    pub(crate) value: usize,
    pub(crate) delimiter: Delimiter,
    /// Tells calls apart wherever DataFusion goes by names.
    name: String,
    signature: Signature,
}

/// The call with an order of its own; `None`: it is no such call.
///
/// # Errors
/// 0A000: elements of a type that arrays cannot have, IGNORE NULLS. 42P10: ORDER BY of something else than the
/// argument with DISTINCT. 42883: STRING_AGG of other types than TEXT.
pub(crate) fn of_call(call: &Call, schema: &DFSchema) -> Result<Option<Expr>> {
    let Call { func, params } = call;
    if func.inner().is::<Gathering>() {
        return Ok(None);
    }
    let function = match (func.name(), params.args.as_slice()) {
        ("array_agg", [_]) => AggregateFunction::ArrayAgg,
        ("string_agg", [_, _]) => AggregateFunction::StringAgg,
        ("count", [row]) if params.distinct && fields_of(row).is_some() => AggregateFunction::Count,
        _ => return Ok(None),
    };
    if params.null_treatment.is_some() {
        return Err(crate::provider::outside(crate::error::unsupported(format!(
            "IGNORE NULLS in {}()",
            func.name()
        ))));
    }
    let elements = Arguments::of(function, params, schema)?;
    elements.check(func.name(), schema)?;
    Ok(Some(elements.call(function, params)))
}

/// The fields of a row written `(a, b)` or `ROW(a, b)`.
fn fields_of(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == "struct" => Some(&call.args),
        _ => None,
    }
}

/// The columns of elements.
struct Arguments {
    exprs: Vec<Expr>,
    order: Vec<SortOptions>,
    value: usize,
    delimiter: Delimiter,
}

impl Arguments {
    fn of(function: AggregateFunction, params: &AggregateFunctionParams, schema: &DFSchema) -> Result<Arguments> {
        let mut made = Arguments {
            exprs: Vec::new(),
            order: Vec::new(),
            value: 0,
            delimiter: Delimiter::Text(String::new()),
        };
        if let (AggregateFunction::Count, [row]) = (function, params.args.as_slice()) {
            made.exprs = fields_of(row).unwrap_or_default().to_vec();
            made.order = vec![BY_VALUE; made.exprs.len()];
            return Ok(made);
        }
        crate::keys::check_order(&params.order_by, schema)?;
        for sort in &params.order_by {
            if params.distinct && !params.args.contains(&sort.expr) {
                return Err(not_in_arguments());
            }
            let options = SortOptions::new(!sort.asc, sort.nulls_first);
            // A constant orders nothing.
            if !matches!(sort.expr, Expr::Literal(_, _)) {
                made.exprs.push(crate::zeros::ordered(sort.expr.clone(), schema));
                made.order.push(options);
            }
        }
        made.value = made.place_of(&params.args[0], schema);
        if let Some(delimiter) = params.args.get(1) {
            made.delimiter = match constant_text(delimiter) {
                Some(text) => Delimiter::Text(text),
                None => Delimiter::Column(made.place_of(delimiter, schema)),
            };
        }
        Ok(made)
    }

    /// The place of a column that is shown, added by value if it is not there.
    fn place_of(&mut self, expr: &Expr, schema: &DFSchema) -> usize {
        // Zeros are one in a key and two where they are shown.
        let is_float = expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
        let known = self.exprs.iter().position(|known| known == expr && !is_float);
        known.unwrap_or_else(|| {
            self.exprs.push(expr.clone());
            self.order.push(BY_VALUE);
            self.exprs.len() - 1
        })
    }

    /// Refuses types that elements cannot have.
    fn check(&self, name: &str, schema: &DFSchema) -> Result<()> {
        for (place, expr) in self.exprs.iter().enumerate() {
            let data_type = expr.get_type(schema)?;
            let stored = crate::types::stored_type(&data_type);
            let has_array = stored.is_some_and(|stored| list::element_of(&list::array_type(stored)).is_some());
            if !has_array {
                return Err(crate::keys::refused(
                    &format!("{name}()"),
                    &crate::types::type_name(&data_type),
                ));
            }
            let is_text = matches!(
                data_type,
                DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null
            );
            let is_joined = place == self.value || self.delimiter == Delimiter::Column(place);
            if name == "string_agg" && is_joined && !is_text {
                return Err(no_function(&crate::types::type_name(&data_type)));
            }
        }
        Ok(())
    }

    fn call(self, function: AggregateFunction, params: &AggregateFunctionParams) -> Expr {
        let order = self
            .order
            .iter()
            .map(|options| match (options.descending, options.nulls_first) {
                (false, false) => "a",
                (false, true) => "an",
                (true, true) => "d",
                (true, false) => "dn",
            });
        let distinct = if params.distinct { "distinct " } else { "" };
        let name = format!(
            "{}[{distinct}{} {} {:?}]",
            function.name(),
            order.collect::<Vec<_>>().join(","),
            self.value,
            self.delimiter
        );
        let gathering = Gathering {
            function,
            distinct: params.distinct,
            signature: Signature::user_defined(Volatility::Immutable),
            order: self.order,
            value: self.value,
            delimiter: self.delimiter,
            name,
        };
        let function = Arc::new(AggregateUDF::from(gathering));
        let filter = params.filter.clone();
        Expr::AggregateFunction(Call::new_udf(function, self.exprs, false, filter, Vec::new(), None))
    }
}

/// A text that is the same for all rows; NULL stands for none.
fn constant_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _) => {
            Some(text.clone().unwrap_or_default())
        }
        Expr::Literal(value, _) if value.is_null() => Some(String::new()),
        _ => None,
    }
}

fn not_in_arguments() -> DataFusionError {
    let error = Error::new(
        ErrorKind::Invalid,
        "SQL-0316",
        "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
    );
    crate::provider::outside(error.sqlstate("42P10"))
}

fn no_function(argument: &str) -> DataFusionError {
    let error = Error::new(
        ErrorKind::Invalid,
        "SQL-0321",
        format!("function string_agg({argument}) does not exist: it joins texts"),
    );
    crate::provider::outside(error.sqlstate("42883").attempt("cast the argument to text"))
}

impl Gathering {
    fn elements(&self, args: &AccumulatorArgs) -> ElementOrder {
        let types = args.expr_fields.iter().map(|field| field.data_type().clone());
        ElementOrder::new(
            self.function,
            self.distinct,
            types.zip(self.order.iter().copied()).collect(),
            self.value,
            self.delimiter.clone(),
        )
    }
}

impl AggregateUDFImpl for Gathering {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let stored = |argument: &DataType| crate::types::stored_type(argument).unwrap_or_else(|| argument.clone());
        Ok(arguments.iter().map(stored).collect())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match self.function {
            AggregateFunction::ArrayAgg => {
                let element = &arguments[self.value];
                list::array_type(crate::types::stored_type(element).unwrap_or_else(|| element.clone()))
            }
            AggregateFunction::StringAgg => DataType::Utf8,
            _ => DataType::Int64,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let skips_null = (self.function == AggregateFunction::StringAgg).then_some(self.value);
        Ok(Box::new(Gather::new(self.elements(&args), skips_null)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = format!("{}[elements]", args.name);
        Ok(vec![Arc::new(Field::new(name, DataType::Binary, true))])
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        match self.function {
            AggregateFunction::Count => Ok(ScalarValue::Int64(Some(0))),
            _ => ScalarValue::try_from(data_type),
        }
    }

    fn is_nullable(&self) -> bool {
        self.function != AggregateFunction::Count
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}
