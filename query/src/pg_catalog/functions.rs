//! Functions of `pg_catalog` about the catalog and the session.

use super::oids::Oid;
use super::relations::{Key, Relation, SystemCatalog};
use crate::pgtype::{self, PgType};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, StringArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// `pg_database.encoding` of UTF-8.
pub(super) const UTF8: i32 = 6;

/// What a function computes: arguments of one length, and that length.
type Evaluate = fn(&SystemCatalog, &[ArrayRef], usize) -> Result<ArrayRef>;

/// A function over the relations that a statement sees. Arguments of any type are taken, and read as what is needed.
#[derive(Debug)]
struct Function {
    name: &'static str,
    returns: DataType,
    signature: Signature,
    relations: Arc<SystemCatalog>,
    evaluate: Evaluate,
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.relations, &other.relations)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays: Vec<ArrayRef> = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<_>>()?;
        let values = (self.evaluate)(&self.relations, &arrays, rows)?;
        match constant {
            true => Ok(ColumnarValue::Scalar(datafusion::scalar::ScalarValue::try_from_array(
                &values, 0,
            )?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

/// Name, numbers of arguments, result, what it computes.
type Entry = (&'static str, &'static [usize], DataType, Evaluate);

fn entries() -> Vec<Entry> {
    use DataType::{Boolean, Int32, Int64, Utf8};
    let names = DataType::List(Arc::new(Field::new("item", Utf8, true)));
    vec![
        ("col_description", &[2], Utf8, null_text),
        ("current_catalog", &[0], Utf8, database),
        ("current_database", &[0], Utf8, database),
        ("current_role", &[0], Utf8, user),
        ("current_schema", &[0], Utf8, current_schema),
        ("current_schemas", &[1], names, current_schemas),
        ("current_setting", &[1, 2], Utf8, current_setting),
        ("current_user", &[0], Utf8, user),
        ("format_type", &[2], Utf8, format_type),
        ("has_any_column_privilege", &[2, 3], Boolean, yes),
        ("has_column_privilege", &[3, 4], Boolean, yes),
        ("has_database_privilege", &[2, 3], Boolean, yes),
        ("has_function_privilege", &[2, 3], Boolean, yes),
        ("has_schema_privilege", &[2, 3], Boolean, yes),
        ("has_sequence_privilege", &[2, 3], Boolean, yes),
        ("has_table_privilege", &[2, 3], Boolean, yes),
        ("has_type_privilege", &[2, 3], Boolean, yes),
        ("getdatabaseencoding", &[0], Utf8, database_encoding),
        ("obj_description", &[1, 2], Utf8, null_text),
        ("pg_advisory_unlock_all", &[0], Utf8, null_text),
        ("pg_backend_pid", &[0], Int32, backend_pid),
        ("pg_char_to_encoding", &[1], Int32, encoding_number),
        ("pg_collation_is_visible", &[1], Boolean, yes),
        ("pg_conversion_is_visible", &[1], Boolean, yes),
        ("pg_database_size", &[1], Int64, unknown_size),
        ("pg_encoding_to_char", &[1], Utf8, encoding_name),
        ("pg_function_is_visible", &[1], Boolean, yes),
        ("pg_get_constraintdef", &[1, 2], Utf8, constraint_definition),
        ("pg_get_expr", &[2, 3], Utf8, first_text),
        ("pg_get_function_arguments", &[1], Utf8, null_text),
        ("pg_get_function_identity_arguments", &[1], Utf8, null_text),
        ("pg_get_function_result", &[1], Utf8, null_text),
        ("pg_get_indexdef", &[1, 3], Utf8, index_definition),
        ("pg_get_partkeydef", &[1], Utf8, null_text),
        ("pg_get_statisticsobjdef_columns", &[1], Utf8, null_text),
        ("pg_get_userbyid", &[1], Utf8, user_by_id),
        ("pg_get_viewdef", &[1, 2], Utf8, view_definition),
        ("pg_is_in_recovery", &[0], Boolean, no),
        ("pg_is_other_temp_schema", &[1], Boolean, no),
        ("pg_my_temp_schema", &[0], Int32, zero),
        ("pg_opclass_is_visible", &[1], Boolean, yes),
        ("pg_operator_is_visible", &[1], Boolean, yes),
        ("pg_opfamily_is_visible", &[1], Boolean, yes),
        ("pg_relation_is_publishable", &[1], Boolean, no),
        ("pg_relation_size", &[1, 2], Int64, relation_size),
        ("pg_size_pretty", &[1], Utf8, pretty_size),
        ("pg_statistics_obj_is_visible", &[1], Boolean, yes),
        ("pg_table_is_visible", &[1], Boolean, table_is_visible),
        ("pg_table_size", &[1], Int64, relation_size),
        ("pg_tablespace_location", &[1], Utf8, null_text),
        ("pg_total_relation_size", &[1], Int64, relation_size),
        ("pg_ts_config_is_visible", &[1], Boolean, yes),
        ("pg_ts_dict_is_visible", &[1], Boolean, yes),
        ("pg_ts_parser_is_visible", &[1], Boolean, yes),
        ("pg_ts_template_is_visible", &[1], Boolean, yes),
        ("pg_type_is_visible", &[1], Boolean, yes),
        ("session_user", &[0], Utf8, user),
        ("shobj_description", &[2], Utf8, null_text),
        ("to_regclass", &[1], Int32, |relations, arguments, _| {
            found(relations, arguments, super::names::class_oids)
        }),
        ("to_regnamespace", &[1], Int32, |relations, arguments, _| {
            found(relations, arguments, super::names::namespace_oids)
        }),
        ("to_regproc", &[1], Int32, |relations, arguments, _| {
            found(relations, arguments, super::names::function_oids)
        }),
        ("to_regrole", &[1], Int32, |relations, arguments, _| {
            found(relations, arguments, super::names::role_oids)
        }),
        ("to_regtype", &[1], Int32, |relations, arguments, _| {
            found(relations, arguments, super::names::type_oids)
        }),
        ("user", &[0], Utf8, user),
        ("version", &[0], Utf8, version),
        ("cenote_regclass_out", &[1], Utf8, super::names::class_names),
        ("cenote_regclass_in", &[1], Int32, super::names::class_oids),
        ("cenote_regtype_out", &[1], Utf8, super::names::type_names),
        ("cenote_regtype_in", &[1], Int32, super::names::type_oids),
        ("cenote_regnamespace_out", &[1], Utf8, super::names::namespace_names),
        ("cenote_regnamespace_in", &[1], Int32, super::names::namespace_oids),
        ("cenote_regproc_out", &[1], Utf8, super::names::function_names),
        ("cenote_regproc_in", &[1], Int32, super::names::function_oids),
        ("cenote_regrole_out", &[1], Utf8, user_by_id),
        ("cenote_regrole_in", &[1], Int32, super::names::role_oids),
    ]
}

/// All functions, over the relations that a statement sees.
pub(super) fn all(relations: &Arc<SystemCatalog>) -> Vec<Arc<ScalarUDF>> {
    let function = |(name, arguments, returns, evaluate): Entry| {
        let takes = arguments.iter().map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(*count),
        });
        Arc::new(ScalarUDF::new_from_impl(Function {
            name,
            returns,
            signature: Signature::one_of(takes.collect(), Volatility::Stable),
            relations: relations.clone(),
            evaluate,
        }))
    };
    let mut functions: Vec<_> = entries().into_iter().map(function).collect();
    functions.extend(from_library().map(Arc::new));
    functions
}

/// Functions that are right as the library has them.
fn from_library() -> impl Iterator<Item = ScalarUDF> {
    use datafusion_pg_catalog::pg_catalog::{array_bounds_udf, quote_ident_udf};
    [
        array_bounds_udf::create_array_lower_udf(),
        array_bounds_udf::create_array_upper_udf(),
        quote_ident_udf::create_parse_ident_udf(),
    ]
    .into_iter()
}

/// Whether a function is one of these, by its name in lower case.
pub(super) fn is_own(name: &str) -> bool {
    use std::sync::LazyLock;
    static NAMES: LazyLock<std::collections::HashSet<String>> = LazyLock::new(|| {
        all(&Arc::new(SystemCatalog::none()))
            .iter()
            .map(|function| function.name().to_string())
            .chain(["set_config".to_string()])
            .collect()
    });
    NAMES.contains(name)
}

/// An argument as object identifiers.
pub(super) fn numbers(argument: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(argument, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// An argument as texts.
pub(super) fn texts(argument: &ArrayRef) -> Result<StringArray> {
    Ok(cast(argument, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn by_relation(
    relations: &SystemCatalog,
    argument: &ArrayRef,
    text: impl Fn(&Relation) -> Option<String>,
) -> Result<ArrayRef> {
    let oids = numbers(argument)?;
    let found = oids.iter().map(|oid| {
        let relation = relations.get(Oid::try_from(oid?).ok()?)?;
        text(relation)
    });
    Ok(Arc::new(found.collect::<StringArray>()))
}

fn repeated(value: &str, rows: usize) -> Result<ArrayRef> {
    Ok(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
        value, rows,
    ))))
}

fn null_text(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    Ok(new_null_array(&DataType::Utf8, rows))
}

/// Sizes that nobody adds up: NULL, as PostgreSQL tells of what it cannot measure.
fn unknown_size(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    Ok(new_null_array(&DataType::Int64, rows))
}

fn database_encoding(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    Ok(Arc::new(StringArray::from(vec!["UTF8"; rows])))
}

fn first_text(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    Ok(cast(&arguments[0], &DataType::Utf8)?)
}

fn yes(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    Ok(Arc::new(BooleanArray::from(vec![true; rows])))
}

fn no(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    Ok(Arc::new(BooleanArray::from(vec![false; rows])))
}

fn zero(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    Ok(Arc::new(arrow::array::Int32Array::from(vec![0; rows])))
}

fn database(relations: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    repeated(relations.database(), rows)
}

fn user(relations: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    repeated(relations.user(), rows)
}

fn user_by_id(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let name = |oid: i64| match oid {
        oid if oid == super::oids::ROLE as i64 => relations.user().to_string(),
        other => format!("unknown (OID={other})"),
    };
    let oids = numbers(&arguments[0])?;
    Ok(Arc::new(oids.iter().map(|oid| oid.map(name)).collect::<StringArray>()))
}

fn current_schema(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    repeated(crate::catalog::PUBLIC, rows)
}

fn current_schemas(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let with_implicit = cast(&arguments[0], &DataType::Boolean)?;
    let mut lists = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    for with_implicit in with_implicit.as_boolean().iter() {
        if with_implicit == Some(true) {
            lists.values().append_value(super::SCHEMA);
        }
        lists.values().append_value(crate::catalog::PUBLIC);
        lists.append(true);
    }
    let lists: ListArray = lists.finish();
    Ok(Arc::new(lists))
}

fn current_setting(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let missing_ok = match arguments.get(1) {
        Some(flag) => cast(flag, &DataType::Boolean)?.as_boolean().clone(),
        None => BooleanArray::from(vec![false; arguments[0].len()]),
    };
    let names = texts(&arguments[0])?;
    let value = |(row, name): (usize, Option<&str>)| {
        let Some(name) = name else { return Ok(None) };
        match crate::settings::show(&relations.settings, &name.to_lowercase()) {
            Ok((_, value)) => Ok(Some(value)),
            Err(_) if missing_ok.value(row) => Ok(None),
            Err(error) => Err(crate::provider::outside(error)),
        }
    };
    let values = names.iter().enumerate().map(value);
    Ok(Arc::new(values.collect::<Result<StringArray>>()?))
}

fn format_type(catalog: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let (oids, modifiers) = (numbers(&arguments[0])?, numbers(&arguments[1])?);
    let name = |(oid, modifier): (Option<i64>, Option<i64>)| {
        let oid = u32::try_from(oid?).ok()?;
        let modifier = modifier.and_then(|modifier| i32::try_from(modifier).ok()).unwrap_or(-1);
        match PgType::from_oid(oid) {
            Some(pg) if matches!(pg.oid, pgtype::oid::RECORD | pgtype::oid::RECORD_ARRAY) => {
                let known = usize::try_from(modifier).ok().and_then(|at| catalog.structs.get(at));
                Some(known.cloned().unwrap_or_else(|| pg.display(-1)))
            }
            Some(pg) => Some(pg.display(modifier)),
            None => Some(super::names::type_name(oid as Oid).unwrap_or("???").to_string()),
        }
    };
    let names = oids.iter().zip(modifiers.iter()).map(name);
    Ok(Arc::new(names.collect::<StringArray>()))
}

fn encoding_name(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let name = |encoding: i64| if encoding == UTF8 as i64 { "UTF8" } else { "" };
    let encodings = numbers(&arguments[0])?;
    Ok(Arc::new(
        encodings
            .iter()
            .map(|encoding| encoding.map(name))
            .collect::<StringArray>(),
    ))
}

fn encoding_number(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let number = |name: &str| match name.to_lowercase().replace('-', "").as_str() {
        "utf8" | "unicode" => UTF8,
        _ => -1,
    };
    let names = texts(&arguments[0])?;
    let numbers = names.iter().map(|name| name.map(number));
    Ok(Arc::new(numbers.collect::<arrow::array::Int32Array>()))
}

/// The process is the server's: its connections have no process of their own.
fn backend_pid(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let process = std::process::id() as i32;
    Ok(Arc::new(arrow::array::Int32Array::from(vec![process; rows])))
}

/// Bytes in the largest unit that leaves less than 10,240, rounded, as PostgreSQL prints them.
fn pretty_size(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let pretty = |bytes: i64| {
        let (mut size, mut unit) = (bytes as f64, 0);
        while size.abs() >= 10_240.0 && unit + 1 < UNITS.len() {
            (size, unit) = (size / 1024.0, unit + 1);
        }
        format!("{} {}", size.round(), UNITS[unit])
    };
    let sizes = numbers(&arguments[0])?;
    Ok(Arc::new(
        sizes.iter().map(|bytes| bytes.map(pretty)).collect::<StringArray>(),
    ))
}

fn table_is_visible(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let is_visible = |oid: Option<i64>| {
        let oid = Oid::try_from(oid?).ok()?;
        let is_key = |relations: &SystemCatalog| relations.keys().any(|(_, key)| key.index == oid);
        match relations.get(oid) {
            Some(relation) => Some(relation.is_visible()),
            None => is_key(relations).then_some(true),
        }
    };
    let oids = numbers(&arguments[0])?;
    Ok(Arc::new(oids.iter().map(is_visible).collect::<BooleanArray>()))
}

fn relation_size(relations: &SystemCatalog, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let relation = match arguments[0].data_type() {
        DataType::Utf8 | DataType::Utf8View => &super::names::class_oids(relations, arguments, rows)?,
        _ => &arguments[0],
    };
    let bytes = |oid: Option<i64>| {
        let relation = relations.get(Oid::try_from(oid?).ok()?)?;
        Some(relation.size.map_or(0, |(_, bytes)| bytes as i64))
    };
    let oids = numbers(relation)?;
    Ok(Arc::new(oids.iter().map(bytes).collect::<Int64Array>()))
}

fn view_definition(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    by_relation(relations, &arguments[0], |relation| {
        relation.query.as_ref().map(|query| format!("{query};"))
    })
}

/// The key with that index or constraint.
fn key_of(relations: &SystemCatalog, oid: Option<i64>) -> Option<(&Relation, &Key)> {
    let oid = Oid::try_from(oid?).ok()?;
    relations
        .keys()
        .find(|(_, key)| key.index == oid || key.constraint == Some(oid))
}

/// The columns of a key as SQL text.
fn key_columns(relation: &Relation, key: &Key) -> String {
    let columns = key
        .columns
        .iter()
        .map(|position| super::names::quoted(&relation.columns[*position].name));
    columns.collect::<Vec<_>>().join(", ")
}

fn constraint_definition(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let definition = |oid: Option<i64>| {
        if let Some((relation, key)) = key_of(relations, oid) {
            let kind = if key.is_primary { "PRIMARY KEY" } else { "UNIQUE" };
            return Some(format!("{kind} ({})", key_columns(relation, key)));
        }
        let oid = Oid::try_from(oid?).ok()?;
        let (_, check) = relations.checks().find(|(_, check)| check.constraint == oid)?;
        Some(format!("CHECK (({}))", check.sql))
    };
    let oids = numbers(&arguments[0])?;
    Ok(Arc::new(oids.iter().map(definition).collect::<StringArray>()))
}

fn index_definition(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let definition = |oid| {
        let (relation, key) = key_of(relations, oid)?;
        let (unique, method) = match key.constraint {
            Some(_) => ("UNIQUE ", "btree"),
            None => ("", "hash"),
        };
        Some(format!(
            "CREATE {unique}INDEX {} ON {} USING {method} ({})",
            super::names::quoted(&key.name),
            super::names::qualified(relation, true),
            key_columns(relation, key)
        ))
    };
    let oids = numbers(&arguments[0])?;
    Ok(Arc::new(oids.iter().map(definition).collect::<StringArray>()))
}

fn version(_: &SystemCatalog, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let version = format!(
        "PostgreSQL {} (Cenote {})",
        crate::settings::SERVER_VERSION,
        env!("CARGO_PKG_VERSION")
    );
    repeated(&version, rows)
}

/// OIDs of names; NULL for those that mean nothing.
fn found(relations: &SystemCatalog, arguments: &[ArrayRef], oids: Evaluate) -> Result<ArrayRef> {
    let each = (0..arguments[0].len()).map(|row| {
        let oid = oids(relations, &[arguments[0].slice(row, 1)], 1).ok()?;
        let oid = oid.as_primitive::<arrow::datatypes::Int32Type>();
        oid.is_valid(0).then(|| oid.value(0))
    });
    Ok(Arc::new(each.collect::<arrow::array::Int32Array>()))
}

/// The error for a name that means nothing.
pub(super) fn undefined(what: &str, name: &str, state: &'static str) -> DataFusionError {
    let error = cenote_statestore::Error::new(
        cenote_statestore::ErrorKind::Invalid,
        "SQL-0202",
        format!("{what} \"{name}\" does not exist"),
    );
    crate::provider::outside(error.sqlstate(state))
}
