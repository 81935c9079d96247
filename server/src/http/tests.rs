//! The router as a whole, without a socket.

mod reads;

use super::metrics::Figures;
use super::routes::{ROUTES, RouteMethod, router};
use super::*;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use cenote_engine::port::{ConnectorRegistry, PathPolicy};
use cenote_query::{Answers, DatabaseConfig};
use serde_json::Value;
use tower::ServiceExt;

/// Limits small enough to be reached.
pub fn limits() -> Limits {
    Limits {
        connections_max: 2,
        body_bytes_max: 1_000,
        statement_bytes_max: 100,
        result_bytes_max: 1_000,
        read_timeout: Duration::from_secs(2),
        write_timeout: Duration::from_secs(5),
        drain_time: Duration::from_secs(5),
    }
}

/// An empty database in memory.
pub async fn database() -> Arc<Database> {
    let config = DatabaseConfig {
        data_dir: None,
        checkpoints: None,
        checkpoint_retain: 1,
        allow_older_checkpoint: false,
        checkpoint_timeout: Duration::from_secs(600),
        workers: 1,
        retain_epochs: 16,
        retain_time: Duration::from_secs(10),
        connectors: ConnectorRegistry::default(),
        paths: PathPolicy::Below(Vec::new()),
        transient_tables: false,
        answers: Answers::Current,
        query_memory_bytes: 64 << 20,
        state_backend: Default::default(),
        memory_limit: None,
        state_memory: None,
        state_cache: None,
        take_over: false,
    };
    Database::open(config).await.unwrap()
}

async fn app() -> App {
    let (_, stopping) = watch::channel(false);
    App::new(database().await, limits(), stopping)
}

async fn ask(request: Request<Body>) -> (StatusCode, Value) {
    let answer = router(app().await).oneshot(request).await.unwrap();
    let status = answer.status();
    (status, json(answer).await)
}

fn asked(method: RouteMethod, path: &str) -> Request<Body> {
    match method {
        RouteMethod::Get => get(path),
        RouteMethod::Delete => Request::delete(path).body(Body::empty()).unwrap(),
        RouteMethod::Post | RouteMethod::Any => post(path, "{}"),
    }
}

async fn json(answer: Response<Body>) -> Value {
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}"))
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path)
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap()
}

#[tokio::test]
async fn health_is_answered() {
    assert_eq!(
        ask(get("/healthz")).await,
        (StatusCode::OK, serde_json::json!({"status": "ok"}))
    );
}

#[tokio::test]
async fn unknown_routes_and_methods_are_answered_with_error_objects() {
    let (status, body) = ask(get("/api/v1/nothing")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(body["error"]["code"], "HTTP-0001");
    let (status, body) = ask(get("/api/v1/sql")).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(
        body["error"]["message"],
        "cannot GET /api/v1/sql: the route does not take this method"
    );
}

#[tokio::test]
async fn routes_that_are_not_built_say_so() {
    for path in [
        "/api/v1/views/v",
        "/api/v1/jobs",
        "/iceberg/v1/config",
        "/iceberg/v1/a/b",
        "/",
    ] {
        for request in [get(path), post(path, "{}")] {
            let (status, body) = ask(request).await;
            assert_eq!(status, StatusCode::NOT_IMPLEMENTED, "{path}");
            assert_eq!(body["error"]["sqlstate"], "0A000", "{path}");
        }
    }
}

#[tokio::test]
async fn without_a_place_for_checkpoints_there_are_none_and_none_is_taken() {
    for (path, request) in [("/api/v1/checkpoints", ""), ("/api/v1/savepoints", r#"{"name":"s"}"#)] {
        assert_eq!(ask(get(path)).await, (StatusCode::OK, serde_json::json!([])));
        let (status, body) = ask(post(path, request)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(body["error"]["code"], "CKPT-0101", "{path}");
    }
}

#[tokio::test]
async fn every_route_of_the_table_is_routed() {
    for route in ROUTES.iter().filter(|route| route.method != RouteMethod::Any) {
        let path = route.path.replace("{name}", "t");
        let request = asked(route.method, &path);
        let answer = router(app().await).oneshot(request).await.unwrap();
        let status = answer.status();
        let code = if status.is_success() {
            Value::Null
        } else {
            json(answer).await["error"]["code"].clone()
        };
        assert!(
            code != "HTTP-0001" && status != StatusCode::METHOD_NOT_ALLOWED,
            "{path}"
        );
    }
}

#[tokio::test]
async fn every_read_refuses_unknown_parameters() {
    for route in ROUTES
        .iter()
        .filter(|route| route.path.starts_with("/api/") && !route.column_parameters)
    {
        if route.method == RouteMethod::Any {
            continue;
        }
        let path = route.path.replace("{name}", "t") + "?limti=1";
        let request = asked(route.method, &path);
        let (status, body) = ask(request).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(body["error"]["code"], "HTTP-0003", "{path}");
    }
}

#[tokio::test]
async fn bodies_and_statements_beyond_their_limits_are_refused() {
    let (status, body) = ask(post("/api/v1/sql", vec![b' '; 1_001])).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &"HTTP-0005".into())
    );
    let statement = format!("{{\"sql\":\"SELECT '{}'\"}}", "x".repeat(200));
    let (status, body) = ask(post("/api/v1/sql", statement)).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &"HTTP-0013".into())
    );
    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b' '; 100])));
    let (status, _) = ask(post("/api/v1/sql", Body::from_stream(endless))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn body_that_stalls_is_given_up() {
    let stalled = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
    let (status, body) = ask(post("/api/v1/sql", Body::from_stream(stalled))).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::REQUEST_TIMEOUT, &"HTTP-0015".into())
    );
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    for body in [
        "",
        "[]",
        "{\"sql\":1}",
        "{\"query\":\"SELECT 1\"}",
        "{\"sql\":\"SELECT $1\",\"params\":{}}",
    ] {
        let (status, answer) = ask(post("/api/v1/sql", body)).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &"HTTP-0006".into()),
            "{body}"
        );
    }
    let rows = Request::post("/api/v1/tables/t/rows")
        .header("content-type", "text/html")
        .body(Body::from("x"))
        .unwrap();
    let (status, answer) = ask(rows).await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, &"HTTP-0007".into())
    );
}

#[tokio::test]
async fn page_of_another_origin_may_not_write() {
    let mut request = post("/api/v1/sql", "{\"sql\":\"DROP TABLE t\"}");
    request.headers_mut().insert("host", "127.0.0.1:8080".parse().unwrap());
    request
        .headers_mut()
        .insert("origin", "http://evil.example".parse().unwrap());
    let (status, body) = ask(request).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::FORBIDDEN, &"HTTP-0012".into())
    );
}

#[tokio::test]
async fn description_is_served() {
    let (status, body) = ask(get("/openapi.json")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["openapi"], "3.1.0");
    assert!(body["paths"]["/api/v1/sql"]["post"].is_object());
}

#[tokio::test]
async fn answered_requests_show_in_metrics() {
    let app = app().await;
    let router = router(app.clone());
    router.clone().oneshot(get("/healthz")).await.unwrap();
    let answer = router.oneshot(get("/metrics")).await.unwrap();
    let text = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(
        text.contains("cenote_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"2xx\"} 1"),
        "{text}"
    );
    assert_eq!(
        Figures::default()
            .connections
            .load(std::sync::atomic::Ordering::Relaxed),
        0
    );
}
