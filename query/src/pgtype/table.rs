//! The types of PostgreSQL's catalog that Cenote knows, as `pg_type` of PostgreSQL 16 lists them.

use super::PgType;

macro_rules! catalog {
    ($($oid:literal, $array:literal, $name:literal, $size:literal, $display:literal;)*) => {
        /// Every type that is not an array, ascending by OID.
        pub(super) static SCALARS: &[PgType] =
            &[$(PgType { oid: $oid, name: $name, size: $size, element: 0, array: $array, display: $display }),*];

        /// `typname` of the array type over the type with this OID.
        pub(super) fn array_name(element: u32) -> &'static str {
            match element {
                $($oid => concat!("_", $name),)*
                _ => "_text",
            }
        }
    };
}

// oid, array oid, typname, typlen, name as format_type prints it
catalog! {
    16, 1000, "bool", 1, "boolean";
    17, 1001, "bytea", -1, "bytea";
    18, 1002, "char", 1, "\"char\"";
    19, 1003, "name", 64, "name";
    20, 1016, "int8", 8, "bigint";
    21, 1005, "int2", 2, "smallint";
    22, 1006, "int2vector", -1, "int2vector";
    23, 1007, "int4", 4, "integer";
    24, 1008, "regproc", 4, "regproc";
    25, 1009, "text", -1, "text";
    26, 1028, "oid", 4, "oid";
    27, 1010, "tid", 6, "tid";
    28, 1011, "xid", 4, "xid";
    29, 1012, "cid", 4, "cid";
    30, 1013, "oidvector", -1, "oidvector";
    114, 199, "json", -1, "json";
    142, 143, "xml", -1, "xml";
    194, 0, "pg_node_tree", -1, "pg_node_tree";
    650, 651, "cidr", -1, "cidr";
    700, 1021, "float4", 4, "real";
    701, 1022, "float8", 8, "double precision";
    705, 0, "unknown", -2, "unknown";
    790, 791, "money", 8, "money";
    829, 1040, "macaddr", 6, "macaddr";
    869, 1041, "inet", -1, "inet";
    1033, 1034, "aclitem", 16, "aclitem";
    1042, 1014, "bpchar", -1, "character";
    1043, 1015, "varchar", -1, "character varying";
    1082, 1182, "date", 4, "date";
    1083, 1183, "time", 8, "time without time zone";
    1114, 1115, "timestamp", 8, "timestamp without time zone";
    1184, 1185, "timestamptz", 8, "timestamp with time zone";
    1186, 1187, "interval", 16, "interval";
    1266, 1270, "timetz", 12, "time with time zone";
    1560, 1561, "bit", -1, "bit";
    1562, 1563, "varbit", -1, "bit varying";
    1700, 1231, "numeric", -1, "numeric";
    1790, 2201, "refcursor", -1, "refcursor";
    2202, 2207, "regprocedure", 4, "regprocedure";
    2203, 2208, "regoper", 4, "regoper";
    2204, 2209, "regoperator", 4, "regoperator";
    2205, 2210, "regclass", 4, "regclass";
    2206, 2211, "regtype", 4, "regtype";
    2249, 2287, "record", -1, "record";
    2275, 1263, "cstring", -2, "cstring";
    2276, 0, "any", 4, "\"any\"";
    2277, 0, "anyarray", -1, "anyarray";
    2278, 0, "void", 4, "void";
    2279, 0, "trigger", 4, "trigger";
    2283, 0, "anyelement", 4, "anyelement";
    2950, 2951, "uuid", 16, "uuid";
    3220, 3221, "pg_lsn", 8, "pg_lsn";
    3734, 3735, "regconfig", 4, "regconfig";
    3769, 3770, "regdictionary", 4, "regdictionary";
    3802, 3807, "jsonb", -1, "jsonb";
    4089, 4090, "regnamespace", 4, "regnamespace";
    4096, 4097, "regrole", 4, "regrole";
    4191, 4192, "regcollation", 4, "regcollation";
    5069, 271, "xid8", 8, "xid8";
}

/// Further names that SQL accepts.
pub(super) static ALIASES: &[(&str, u32)] = &[
    ("int", 23),
    ("decimal", 1700),
    ("float", 701),
    ("string", 25),
    ("time", 1083),
    ("timestamp", 1114),
    ("char varying", 1043),
    ("nvarchar", 1043),
];

/// The type with this OID, which must be in the table.
pub(super) fn scalar(oid: u32) -> PgType {
    let index = SCALARS.binary_search_by_key(&oid, |pg| pg.oid);
    SCALARS[index.unwrap_or_else(|_| panic!("type {oid} is missing in the table of types"))]
}

/// Whether values are object identifiers: unsigned numbers of 4 bytes.
pub(super) fn is_oid_like(oid: u32) -> bool {
    matches!(oid, 24 | 26 | 28 | 29 | 2202..=2206 | 3734 | 3769 | 4089 | 4096 | 4191)
}
