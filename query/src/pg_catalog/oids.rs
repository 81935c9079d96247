//! Object identifiers: fixed ones for what every PostgreSQL has, computed ones for objects made here.
//!
//! An object's OID follows from the number of its collection, which is never used again, so that it stays the same
//! for as long as the object is there, over restarts too.

use cenote_engine::plan::CollectionId;

/// `pg_class.oid` and its kind.
pub(super) type Oid = i32;

/// The one role: whoever is connected.
pub(super) const ROLE: Oid = 10;

/// The one database.
pub(super) const DATABASE: Oid = 5;

/// Namespaces.
pub(super) const PG_CATALOG: Oid = 11;
pub(super) const PUBLIC: Oid = 2200;
pub(super) const INFORMATION_SCHEMA: Oid = 13_000;
pub(super) const CENOTE_CATALOG: Oid = 13_001;
pub(super) const CENOTE_STATE: Oid = 13_002;

/// First OID of the tables of `cenote_catalog`, in the order of their list.
pub(super) const SYSTEM_TABLES: Oid = 13_100;

/// First OID of the views of `pg_catalog` and `information_schema`.
pub(super) const SYSTEM_VIEWS: Oid = 13_300;

/// First OID of columns' defaults.
pub(super) const DEFAULTS: Oid = 0x6000_0000;

/// First OID of users' objects.
const FIRST: u64 = 65_536;

/// OIDs of one collection.
const PER_COLLECTION: u64 = 256;

/// Parts of tables from here on are their UNIQUE constraints, then their CHECKs; those of views are state tables.
const FIRST_UNIQUE: u64 = 16;
const UNIQUE_MAX: u64 = 60;
const FIRST_CHECK: u64 = FIRST_UNIQUE + 2 * UNIQUE_MAX;

/// Which object of a collection an OID means.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Relation,
    KeyIndex,
    KeyConstraint,
    /// The index and the constraint of a table's UNIQUE, by its position among them.
    UniqueIndex(usize),
    UniqueConstraint(usize),
    /// A table's CHECK, by its position among them.
    Check(usize),
    /// The errors of a view's rows.
    Errors,
    /// A state table of a view, by its position among them.
    State(usize),
}

/// The OID of an object; one that is out of an OID's range wraps, as PostgreSQL's do.
pub(super) fn of(collection: CollectionId, part: Part) -> Oid {
    let part = match part {
        Part::Relation => 0,
        Part::KeyIndex => 1,
        Part::KeyConstraint => 2,
        Part::Errors => 3,
        Part::UniqueIndex(position) => FIRST_UNIQUE + 2 * (position as u64 % UNIQUE_MAX),
        Part::UniqueConstraint(position) => FIRST_UNIQUE + 2 * (position as u64 % UNIQUE_MAX) + 1,
        Part::Check(position) => FIRST_CHECK + position as u64 % (PER_COLLECTION - FIRST_CHECK),
        Part::State(position) => 16 + position as u64 % (PER_COLLECTION - 16),
    };
    let oid = FIRST + collection.0 * PER_COLLECTION + part;
    (oid % DEFAULTS as u64) as Oid
}

/// OIDs that PostgreSQL gives its system tables.
pub(super) const WELL_KNOWN: [(&str, Oid); 58] = [
    ("pg_aggregate", 2600),
    ("pg_am", 2601),
    ("pg_amop", 2602),
    ("pg_amproc", 2603),
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_auth_members", 1261),
    ("pg_authid", 1260),
    ("pg_cast", 2605),
    ("pg_class", 1259),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_conversion", 2607),
    ("pg_database", 1262),
    ("pg_db_role_setting", 2964),
    ("pg_default_acl", 826),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_enum", 3501),
    ("pg_event_trigger", 3466),
    ("pg_extension", 3079),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_foreign_server", 1417),
    ("pg_foreign_table", 3118),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_init_privs", 3394),
    ("pg_language", 2612),
    ("pg_largeobject", 2613),
    ("pg_largeobject_metadata", 2995),
    ("pg_namespace", 2615),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_partitioned_table", 3350),
    ("pg_policy", 3256),
    ("pg_proc", 1255),
    ("pg_publication", 6104),
    ("pg_publication_namespace", 6237),
    ("pg_publication_rel", 6106),
    ("pg_range", 3541),
    ("pg_replication_origin", 6000),
    ("pg_rewrite", 2618),
    ("pg_seclabel", 3596),
    ("pg_sequence", 2224),
    ("pg_shdepend", 1214),
    ("pg_shdescription", 2396),
    ("pg_shseclabel", 3592),
    ("pg_statistic", 2619),
    ("pg_statistic_ext", 3381),
    ("pg_statistic_ext_data", 3429),
    ("pg_subscription", 6100),
    ("pg_subscription_rel", 6102),
    ("pg_tablespace", 1213),
    ("pg_trigger", 2620),
    ("pg_ts_config", 3602),
    ("pg_type", 1247),
    ("pg_user_mapping", 1418),
];
