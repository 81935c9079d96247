//! System tables whose contents never change here: PostgreSQL's own types, functions, operators ... as the library
//! `datafusion-pg-catalog` exported them, and the tables of what does not exist here, which are empty.

use crate::pgtype::TYPE_KEY;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::oid_field::OID_ALIAS_KEY;
use datafusion_pg_catalog::pg_catalog::{PgCatalogSchemaProvider, PgCatalogStaticTables, PgCatalogTable};
use std::sync::{Arc, LazyLock};

/// Columns of one letter, PostgreSQL's type "char".
const LETTERS: [&str; 21] = [
    "aggfinalmodify",
    "aggkind",
    "aggmfinalmodify",
    "amoppurpose",
    "amtype",
    "castcontext",
    "castmethod",
    "collprovider",
    "deptype",
    "ev_enabled",
    "ev_type",
    "oprkind",
    "polcmd",
    "prokind",
    "proparallel",
    "provolatile",
    "typalign",
    "typcategory",
    "typdelim",
    "typstorage",
    "typtype",
];

/// Tables that the library fills and Cenote does not: they tell of roles of the server that was exported.
const EMPTIED: [&str; 2] = ["pg_auth_members", "pg_shdescription"];

type Library = PgCatalogSchemaProvider<Arc<dyn CatalogProviderList>, EmptyContextProvider>;

/// Read at the first statement about the catalog.
static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let nothing: Arc<dyn CatalogProviderList> = Arc::new(MemoryCatalogProviderList::new());
    PgCatalogStaticTables::try_new()
        .and_then(|tables| PgCatalogSchemaProvider::try_new(nothing, Arc::new(tables), EmptyContextProvider))
        .expect("the tables that the library carries can be read")
});

/// Columns and rows of a table; `None`: the library has none of that name whose contents are fixed.
pub(super) fn table(name: &str) -> Option<(SchemaRef, Vec<RecordBatch>)> {
    match LIBRARY.build_table_by_name(name).ok().flatten()? {
        PgCatalogTable::Static(table) => {
            let rows = if EMPTIED.contains(&name) { &[] } else { table.data() };
            Some((typed(&table.schema()), rows.to_vec()))
        }
        PgCatalogTable::Empty(table) => Some((typed(&table.schema()), Vec::new())),
        PgCatalogTable::Dynamic(_) => None,
    }
}

/// Whether there is a table of that name without rows.
pub(super) fn is_empty(name: &str) -> bool {
    table(name).is_some_and(|(_, rows)| rows.iter().all(|rows| rows.num_rows() == 0))
}

/// The columns with PostgreSQL's types where Arrow's do not imply them.
fn typed(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let is_oid = field.metadata().contains_key(OID_ALIAS_KEY) && field.data_type() == &DataType::Int32;
        let named = if is_oid {
            Some("oid")
        } else {
            LETTERS.contains(&field.name().as_str()).then_some("char")
        };
        let metadata = named.map(|named| (TYPE_KEY.to_string(), named.to_string()));
        // The library is of a version after ours, which renamed it.
        let name = match field.name().as_str() {
            "colllocale" => "colliculocale",
            name => name,
        };
        Field::new(name, field.data_type().clone(), true).with_metadata(metadata.into_iter().collect())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
