//! The table of routes: the router and `/openapi.json` are made of it.

use super::App;
use super::parameters::Parameter;
use super::{
    append, changes, checkpoints, export, health, inventory, lookup, lookup_many, metrics, openapi, request, scan,
    sinks, snapshot, sql,
};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, delete, get, on, post};

/// How a route is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteMethod {
    /// GET (and HEAD).
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
    /// Any; routes that are not built yet.
    Any,
}

impl RouteMethod {
    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            RouteMethod::Get => "GET",
            RouteMethod::Post => "POST",
            RouteMethod::Delete => "DELETE",
            RouteMethod::Any => "ANY",
        }
    }
}

/// One route.
pub struct Route {
    /// How it is asked.
    pub method: RouteMethod,
    /// Where; `{name}` stands for a segment.
    pub path: &'static str,
    /// What it does, one sentence.
    pub summary: &'static str,
    /// Query parameters.
    pub parameters: &'static [Parameter],
    /// Whether it takes `column=value` parameters besides.
    pub column_parameters: bool,
    /// Media types of the body and the schema of each; empty: no body.
    pub bodies: &'static [(&'static str, &'static str)],
    /// Media types of the answer and the schema of each.
    pub answers: &'static [(&'static str, &'static str)],
    /// What answers.
    pub handler: fn() -> MethodRouter<App>,
}

/// Methods of a route that is not built: `any` would register none of its own, and a route layer needs one.
const METHODS: MethodFilter = MethodFilter::GET
    .or(MethodFilter::POST)
    .or(MethodFilter::PUT)
    .or(MethodFilter::PATCH)
    .or(MethodFilter::DELETE);

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";
const CSV: &str = "text/csv";
const ARROW: &str = "application/vnd.apache.arrow.stream";
const PARQUET: &str = "application/vnd.apache.parquet";

const fn get_route(
    path: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
    answers: &'static [(&'static str, &'static str)],
    handler: fn() -> MethodRouter<App>,
) -> Route {
    Route {
        method: RouteMethod::Get,
        path,
        summary,
        parameters,
        column_parameters: false,
        bodies: &[],
        answers,
        handler,
    }
}

const fn not_built(path: &'static str, summary: &'static str) -> Route {
    Route {
        method: RouteMethod::Any,
        path,
        summary,
        parameters: &[],
        column_parameters: false,
        bodies: &[],
        answers: &[],
        handler: || on(METHODS, health::not_built),
    }
}

/// Where one key is looked up.
pub const LOOKUP: &str = "/api/v1/queryable_state/{name}";

/// Every route.
pub static ROUTES: &[Route] = &[
    get_route(
        "/healthz",
        "Tells that the process lives.",
        &[],
        &[(JSON, "Any")],
        || get(health::live),
    ),
    get_route(
        "/readyz",
        "Tells whether the server is ready: recovered, and no view, source or sink failed; 503 with reasons otherwise.",
        &[],
        &[(JSON, "Readiness")],
        || get(health::ready),
    ),
    get_route(
        "/metrics",
        "Figures in Prometheus' text format.",
        &[],
        &[("text/plain", "Text")],
        || get(metrics::metrics),
    ),
    get_route("/openapi.json", "This description.", &[], &[(JSON, "Any")], || {
        get(openapi::openapi)
    }),
    Route {
        method: RouteMethod::Post,
        path: "/api/v1/sql",
        summary: "Runs SQL. One statement answers one result, several answer an array and are one transaction.",
        parameters: sql::PARAMETERS,
        column_parameters: false,
        bodies: &[(JSON, "SqlRequest")],
        answers: &[(JSON, "SqlResult"), (ARROW, "Binary")],
        handler: || post(sql::sql),
    },
    get_route(
        "/api/v1/queryable_state",
        "Lists all tables, views and state tables that can be read.",
        &[],
        &[(JSON, "Inventory")],
        || get(inventory::list),
    ),
    Route {
        column_parameters: true,
        ..get_route(
            LOOKUP,
            "Looks up one key.",
            lookup::PARAMETERS,
            &[(JSON, "Lookup")],
            || get(lookup::look_up),
        )
    },
    Route {
        method: RouteMethod::Post,
        path: "/api/v1/queryable_state/{name}/lookup",
        summary: "Looks up many keys at one epoch; results come in the order of the keys.",
        parameters: lookup_many::PARAMETERS,
        column_parameters: false,
        bodies: &[(JSON, "LookupRequest")],
        answers: &[(JSON, "LookupResults")],
        handler: || post(lookup_many::look_up_many),
    },
    get_route(
        "/api/v1/queryable_state/{name}/scan",
        "Reads a page of rows; the cursor stays at the epoch of the first page.",
        scan::PARAMETERS,
        &[(JSON, "Page")],
        || get(scan::page),
    ),
    get_route(
        "/api/v1/queryable_state/{name}/scan.ndjson",
        "Streams all rows at one epoch as NDJSON.",
        export::PARAMETERS_NDJSON,
        &[(NDJSON, "Text")],
        || get(export::ndjson),
    ),
    get_route(
        "/api/v1/queryable_state/{name}/scan.csv",
        "Streams all rows at one epoch as CSV.",
        export::PARAMETERS,
        &[(CSV, "Text")],
        || get(export::csv),
    ),
    get_route(
        "/api/v1/queryable_state/{name}/scan.arrow",
        "Streams all rows at one epoch as an Arrow IPC stream.",
        export::PARAMETERS,
        &[(ARROW, "Binary")],
        || get(export::arrow),
    ),
    get_route(
        "/api/v1/queryable_state/{name}/scan.parquet",
        "Streams all rows at one epoch as a Parquet file.",
        export::PARAMETERS,
        &[(PARQUET, "Binary")],
        || get(export::parquet),
    ),
    get_route(
        "/api/v1/queryable_state/{name}/changes",
        "Streams changes as server-sent events; resumable by epoch.",
        changes::PARAMETERS,
        &[("text/event-stream", "Change")],
        || get(changes::changes),
    ),
    get_route(
        "/api/v1/queryable_state/{name}/digest",
        "Digests all rows, whatever their order.",
        &[],
        &[(JSON, "Digest")],
        || get(inventory::digest),
    ),
    get_route(
        "/api/v1/snapshot/scan.arrow",
        "Streams several collections, all at one epoch: an Arrow IPC stream for each, one behind the other; the metadata of its schema names it.",
        snapshot::PARAMETERS,
        &[(ARROW, "Binary")],
        || get(snapshot::arrow),
    ),
    get_route(
        "/api/v1/snapshot/digest",
        "Digests several collections, all at one epoch.",
        snapshot::PARAMETERS,
        &[(JSON, "Digests")],
        || get(snapshot::digest),
    ),
    Route {
        method: RouteMethod::Post,
        path: "/api/v1/tables/{name}/rows",
        summary: "Appends the rows of the body to a table as one epoch; answers when they are durable.",
        parameters: &[],
        column_parameters: false,
        bodies: &[(NDJSON, "Text"), (JSON, "Rows"), (CSV, "Text"), (ARROW, "Binary")],
        answers: &[(JSON, "Appended")],
        handler: || post(append::append),
    },
    get_route(
        "/api/v1/sinks",
        "Lists all sinks with their status and how far they have come.",
        &[],
        &[(JSON, "Sinks")],
        || get(sinks::list),
    ),
    Route {
        method: RouteMethod::Post,
        path: "/api/v1/sinks",
        summary: "Makes a sink, as CREATE SINK does.",
        parameters: &[],
        column_parameters: false,
        bodies: &[(JSON, "NewSink")],
        answers: &[(JSON, "Made")],
        handler: || post(sinks::create),
    },
    get_route(
        "/api/v1/sinks/{name}",
        "One sink with its status and how far it has come.",
        &[],
        &[(JSON, "Sink")],
        || get(sinks::one),
    ),
    get_route(
        "/api/v1/checkpoints",
        "Lists all checkpoints, oldest first.",
        &[],
        &[(JSON, "Checkpoints")],
        || get(checkpoints::list),
    ),
    Route {
        method: RouteMethod::Post,
        path: "/api/v1/checkpoints",
        summary: "Takes a checkpoint, as CHECKPOINT does; answers with it once it is there.",
        parameters: &[],
        column_parameters: false,
        bodies: &[],
        answers: &[(JSON, "Checkpoint")],
        handler: || post(checkpoints::take),
    },
    get_route(
        "/api/v1/checkpoints/{name}",
        "One checkpoint, by its id.",
        &[],
        &[(JSON, "Checkpoint")],
        || get(checkpoints::one),
    ),
    get_route(
        "/api/v1/savepoints",
        "Lists all savepoints, by name.",
        &[],
        &[(JSON, "Savepoints")],
        || get(checkpoints::list_savepoints),
    ),
    Route {
        method: RouteMethod::Post,
        path: "/api/v1/savepoints",
        summary: "Takes a checkpoint that is kept under a name, as CREATE SAVEPOINT does; 409 if the name is taken.",
        parameters: &[],
        column_parameters: false,
        bodies: &[(JSON, "NewSavepoint")],
        answers: &[(JSON, "Savepoint")],
        handler: || post(checkpoints::create_savepoint),
    },
    get_route(
        "/api/v1/savepoints/{name}",
        "One savepoint.",
        &[],
        &[(JSON, "Savepoint")],
        || get(checkpoints::one_savepoint),
    ),
    Route {
        method: RouteMethod::Delete,
        path: "/api/v1/savepoints/{name}",
        summary: "Forgets a savepoint, as DROP SAVEPOINT does; 404 if there is none of that name.",
        parameters: &[],
        column_parameters: false,
        bodies: &[],
        answers: &[(JSON, "Made")],
        handler: || delete(checkpoints::drop_savepoint),
    },
    not_built("/", "The console: not supported yet."),
    not_built("/api/v1/views", "Views: not supported yet."),
    not_built("/api/v1/views/{*rest}", "Views: not supported yet."),
    not_built("/api/v1/sources", "Sources: not supported yet."),
    not_built("/api/v1/sources/{*rest}", "Sources: not supported yet."),
    not_built("/api/v1/jobs", "Jobs: not supported yet."),
    not_built("/api/v1/jobs/{*rest}", "Jobs: not supported yet."),
    not_built("/iceberg/v1", "Iceberg REST catalog: not supported yet."),
    not_built("/iceberg/v1/{*rest}", "Iceberg REST catalog: not supported yet."),
];

/// The router of all routes.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for (index, route) in ROUTES.iter().enumerate() {
        let observed = from_fn_with_state((app.clone(), index), metrics::observe);
        router = router.route(route.path, (route.handler)().layer(observed));
    }
    router
        .fallback(health::no_route)
        .method_not_allowed_fallback(health::wrong_method)
        .layer(from_fn(request::same_origin))
        .layer(from_fn(request::caught))
        .with_state(app)
}
