//! Views of `pg_catalog` and of `information_schema`: as in PostgreSQL, SQL over the system tables.

/// A view of the system.
pub(super) struct SystemView {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    pub(super) query: &'static str,
}

/// The view of that name.
pub(super) fn find(schema: &str, name: &str) -> Option<&'static SystemView> {
    VIEWS.iter().find(|view| view.schema == schema && view.name == name)
}

const fn pg(name: &'static str, query: &'static str) -> SystemView {
    SystemView {
        schema: super::SCHEMA,
        name,
        query,
    }
}

const fn standard(name: &'static str, query: &'static str) -> SystemView {
    SystemView {
        schema: super::INFORMATION_SCHEMA,
        name,
        query,
    }
}

/// All of them.
pub(super) const VIEWS: &[SystemView] = &[
    pg(
        "pg_roles",
        "SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolconnlimit,
           '********' AS rolpassword, rolvaliduntil, rolbypassrls, NULL AS rolconfig, oid
         FROM pg_catalog.pg_authid",
    ),
    pg(
        "pg_user",
        "SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
           rolreplication AS userepl, rolbypassrls AS usebypassrls, '********' AS passwd, rolvaliduntil AS valuntil,
           NULL AS useconfig
         FROM pg_catalog.pg_authid",
    ),
    pg(
        "pg_tables",
        "SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS tableowner,
           NULL AS tablespace, c.relhasindex AS hasindexes, c.relhasrules AS hasrules,
           c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'r'",
    ),
    pg(
        "pg_views",
        "SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner,
           pg_get_viewdef(c.oid) AS definition
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'v'",
    ),
    pg(
        "pg_matviews",
        "SELECT n.nspname AS schemaname, c.relname AS matviewname, pg_get_userbyid(c.relowner) AS matviewowner,
           NULL AS tablespace, c.relhasindex AS hasindexes, c.relispopulated AS ispopulated,
           pg_get_viewdef(c.oid) AS definition
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'm'",
    ),
    pg(
        "pg_indexes",
        "SELECT n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname, NULL AS tablespace,
           pg_get_indexdef(i.oid) AS indexdef
         FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
           JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace",
    ),
    standard(
        "information_schema_catalog_name",
        "SELECT current_database() AS catalog_name",
    ),
    standard(
        "schemata",
        "SELECT current_database() AS catalog_name, nspname AS schema_name, pg_get_userbyid(nspowner) AS schema_owner,
           NULL AS default_character_set_catalog, NULL AS default_character_set_schema,
           NULL AS default_character_set_name, NULL AS sql_path
         FROM pg_catalog.pg_namespace",
    ),
    standard(
        "tables",
        "SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
           CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN'
             ELSE 'BASE TABLE' END AS table_type,
           NULL AS self_referencing_column_name, NULL AS reference_generation,
           NULL AS user_defined_type_catalog, NULL AS user_defined_type_schema, NULL AS user_defined_type_name,
           CASE c.relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_insertable_into, 'NO' AS is_typed,
           NULL AS commit_action
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'v', 'm', 'f')",
    ),
    standard(
        "views",
        "SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
           pg_get_viewdef(c.oid) AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable,
           'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,
           'NO' AS is_trigger_insertable_into
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('v', 'm')",
    ),
    standard(
        "columns",
        "SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
           a.attname AS column_name, CAST(a.attnum AS INT) AS ordinal_position, d.adbin AS column_default,
           CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
           CASE WHEN t.typcategory = 'A' OR a.atttypid = 2287 THEN 'ARRAY'
             WHEN a.atttypid = 2249 THEN format_type(a.atttypid, a.atttypmod)
             ELSE format_type(a.atttypid, -1) END AS data_type,
           CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod > 0 THEN a.atttypmod - 4 END
             AS character_maximum_length,
           CASE WHEN a.atttypid IN (25, 1042, 1043) THEN 1073741824 END AS character_octet_length,
           CASE WHEN a.atttypid = 21 THEN 16 WHEN a.atttypid = 23 THEN 32 WHEN a.atttypid = 20 THEN 64
             WHEN a.atttypid = 700 THEN 24 WHEN a.atttypid = 701 THEN 53
             WHEN a.atttypid = 1700 AND a.atttypmod > 0 THEN ((a.atttypmod - 4) >> 16) & 65535 END
             AS numeric_precision,
           CASE WHEN a.atttypid IN (20, 21, 23, 700, 701) THEN 2 WHEN a.atttypid = 1700 THEN 10 END
             AS numeric_precision_radix,
           CASE WHEN a.atttypid IN (20, 21, 23) THEN 0
             WHEN a.atttypid = 1700 AND a.atttypmod > 0 THEN (a.atttypmod - 4) & 2047 END AS numeric_scale,
           CASE WHEN a.atttypid = 1082 THEN 0 WHEN a.atttypid IN (1083, 1114, 1184, 1186) THEN 6 END
             AS datetime_precision,
           NULL AS interval_type, NULL AS interval_precision, NULL AS character_set_catalog,
           NULL AS character_set_schema, NULL AS character_set_name, NULL AS collation_catalog,
           NULL AS collation_schema, NULL AS collation_name, NULL AS domain_catalog, NULL AS domain_schema,
           NULL AS domain_name, current_database() AS udt_catalog, 'pg_catalog' AS udt_schema,
           t.typname AS udt_name, NULL AS scope_catalog, NULL AS scope_schema, NULL AS scope_name,
           NULL AS maximum_cardinality, CAST(a.attnum AS TEXT) AS dtd_identifier, 'NO' AS is_self_referencing,
           'NO' AS is_identity, NULL AS identity_generation, NULL AS identity_start, NULL AS identity_increment,
           NULL AS identity_maximum, NULL AS identity_minimum, 'NO' AS identity_cycle, 'NEVER' AS is_generated,
           NULL AS generation_expression, CASE c.relkind WHEN 'r' THEN 'YES' ELSE 'NO' END AS is_updatable
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
           JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
           LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE c.relkind IN ('r', 'v', 'm', 'f')",
    ),
    standard(
        "table_constraints",
        "SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, k.conname AS constraint_name,
           current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
           CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' ELSE 'CHECK' END AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced,
           NULL AS nulls_distinct
         FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace",
    ),
    standard(
        "key_column_usage",
        "SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema, i.relname AS constraint_name,
           current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
           a.attname AS column_name, CAST(a.attnum AS INT) AS ordinal_position,
           NULL AS position_in_unique_constraint
         FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
           JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
           JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indexrelid
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace",
    ),
    standard(
        "referential_constraints",
        "SELECT NULL AS constraint_catalog, NULL AS constraint_schema, NULL AS constraint_name,
           NULL AS unique_constraint_catalog, NULL AS unique_constraint_schema, NULL AS unique_constraint_name,
           NULL AS match_option, NULL AS update_rule, NULL AS delete_rule WHERE false",
    ),
    standard(
        "sequences",
        "SELECT NULL AS sequence_catalog, NULL AS sequence_schema, NULL AS sequence_name, NULL AS data_type
         WHERE false",
    ),
    standard(
        "routines",
        "SELECT NULL AS specific_catalog, NULL AS specific_schema, NULL AS specific_name, NULL AS routine_catalog,
           NULL AS routine_schema, NULL AS routine_name, NULL AS routine_type, NULL AS data_type WHERE false",
    ),
];
