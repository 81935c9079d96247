//! Reads and writes against a real database in memory.

use super::*;
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method};

struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }
}

/// A server with `accounts` and its view `by_owner`.
struct Served {
    router: Router,
    app: App,
    database: Arc<Database>,
    _stop: watch::Sender<bool>,
}

impl Served {
    async fn new() -> Served {
        let (stop, stopping) = watch::channel(false);
        let database = database().await;
        let limits = Limits {
            result_bytes_max: 1 << 20,
            body_bytes_max: 1 << 20,
            statement_bytes_max: 1 << 20,
            ..limits()
        };
        let app = App::new(database.clone(), limits, stopping);
        let served = Served {
            router: router(app.clone()),
            app,
            database,
            _stop: stop,
        };
        let script = "CREATE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT NOT NULL, balance NUMERIC(18,2), note TEXT DEFAULT 'none');
            INSERT INTO accounts (id, owner, balance) VALUES (1, 'ann', 100.00), (2, 'bob', 50.00), (9007199254740993, 'ann', 0.5);
            CREATE MATERIALIZED VIEW by_owner AS SELECT owner, count(*) AS n, sum(balance) AS total FROM accounts GROUP BY owner";
        for statement in script.split(';') {
            served.sql(statement).await;
        }
        served
    }

    async fn ask(&self, request: Request<Body>) -> Answered {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        Answered { status, headers, body }
    }

    async fn get(&self, path: &str) -> Answered {
        self.ask(get(path)).await
    }

    async fn sql(&self, sql: &str) -> Value {
        let answer = self
            .ask(post("/api/v1/sql", serde_json::json!({ "sql": sql }).to_string()))
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{sql}: {}", answer.text());
        answer.json()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = futures::executor::block_on(self.database.shutdown());
    }
}

#[tokio::test]
async fn key_is_looked_up_with_its_epoch() {
    let served = Served::new().await;
    let answer = served
        .get("/api/v1/queryable_state/accounts?key=9007199254740993")
        .await;
    let body = answer.json();
    assert_eq!(
        answer.headers["cenote-epoch"].to_str().unwrap(),
        body["epoch"].to_string()
    );
    assert_eq!(body["key"], serde_json::json!({"id": "9007199254740993"}));
    assert_eq!(body["value"]["balance"], "0.50");
    assert_eq!(body["value"]["note"], "none");
    let raw = served
        .get("/api/v1/queryable_state/accounts?id=9007199254740993&numbers=raw")
        .await
        .text();
    assert!(
        raw.contains("\"id\":9007199254740993") && raw.contains("\"balance\":0.50"),
        "{raw}"
    );
}

#[tokio::test]
async fn keys_that_are_missing_malformed_or_misnamed_are_told_apart() {
    let served = Served::new().await;
    let missing = served.get("/api/v1/queryable_state/accounts?key=7").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.json()["epoch"].is_u64());
    assert_eq!(missing.json()["key"], serde_json::json!({"id": 7}));
    for (path, status, sqlstate) in [
        ("accounts?key=seven", StatusCode::BAD_REQUEST, "22P02"),
        ("accounts?nobody=1", StatusCode::BAD_REQUEST, "42703"),
        ("acounts?key=1", StatusCode::NOT_FOUND, "42P01"),
        ("accounts", StatusCode::BAD_REQUEST, "22000"),
    ] {
        let answer = served.get(&format!("/api/v1/queryable_state/{path}")).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["sqlstate"]),
            (status, &sqlstate.into()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn misspelt_column_is_refused_with_the_nearest() {
    let served = Served::new().await;
    let answer = served.get("/api/v1/queryable_state/accounts?ownr=ann").await;
    assert_eq!(answer.json()["error"]["hint"], "did you mean `owner`?");
}

#[tokio::test]
async fn many_keys_come_in_their_order() {
    let served = Served::new().await;
    let body = r#"{"keys":["bob","zoe","ann"]}"#;
    let answer = served
        .ask(post("/api/v1/queryable_state/by_owner/lookup", body))
        .await
        .json();
    let values: Vec<&Value> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["value"]["n"])
        .collect();
    assert_eq!(values, [&Value::from(1), &Value::Null, &Value::from(2)]);
}

#[tokio::test]
async fn scan_pages_through_everything_once() {
    let served = Served::new().await;
    let (mut ids, mut query) = (Vec::new(), "limit=2&columns=id".to_owned());
    loop {
        let page = served
            .get(&format!("/api/v1/queryable_state/accounts/scan?{query}"))
            .await
            .json();
        ids.extend(page["rows"].as_array().unwrap().iter().map(|row| row["id"].to_string()));
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("limit=2&columns=id&cursor={cursor}"),
            None => break,
        }
    }
    ids.sort();
    assert_eq!(ids, ["\"9007199254740993\"", "1", "2"]);
}

#[tokio::test]
async fn every_format_of_a_whole_scan_holds_every_row() {
    let served = Served::new().await;
    let path = |kind: &str| format!("/api/v1/queryable_state/accounts/scan.{kind}");
    assert_eq!(served.get(&path("ndjson")).await.text().lines().count(), 3);
    let csv = served
        .get(&(path("csv") + "?columns=id,balance&where=owner%20%3D%20'bob'"))
        .await
        .text();
    assert_eq!(csv, "id,balance\n2,50.00\n");
    let arrow = served.get(&path("arrow")).await;
    assert_eq!(arrow.headers["content-type"], "application/vnd.apache.arrow.stream");
    let reader = arrow::ipc::reader::StreamReader::try_new(&arrow.body[..], None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
    let parquet = served.get(&path("parquet")).await.body;
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(parquet).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 3);
    assert_eq!(
        served.get(&(path("ndjson") + "?limit=2")).await.text().lines().count(),
        2
    );
}

#[tokio::test]
async fn statements_answer_columns_rows_and_epoch() {
    let served = Served::new().await;
    let result = served.sql("SELECT owner, total FROM by_owner ORDER BY owner").await;
    assert_eq!(
        result["columns"][0],
        serde_json::json!({"name": "owner", "type": "text"})
    );
    assert_eq!(result["rows"], serde_json::json!([["ann", "100.50"], ["bob", "50.00"]]));
    assert!(result["epoch"].as_u64().unwrap() > 0);
    let several = served
        .sql("INSERT INTO accounts VALUES (3, 'cid', 1); SELECT count(*) FROM accounts")
        .await;
    assert_eq!(several[0]["tag"], "INSERT 0 1");
    assert_eq!(several[1]["rows"], serde_json::json!([[4]]));
}

#[tokio::test]
async fn error_in_a_later_statement_is_placed_in_the_script_and_undoes_the_earlier() {
    let served = Served::new().await;
    let script = "DELETE FROM accounts; SELECT * FROM acounts";
    let answer = served
        .ask(post("/api/v1/sql", serde_json::json!({ "sql": script }).to_string()))
        .await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let error = &answer.json()["error"];
    assert_eq!(error["sqlstate"], "42P01");
    assert_eq!(error["position"], script.find("acounts").unwrap() + 1);
    assert_eq!(
        served.sql("SELECT count(*) FROM accounts").await["rows"],
        serde_json::json!([[3]])
    );
}

#[tokio::test]
async fn rows_stream_as_arrow_when_asked() {
    let served = Served::new().await;
    let mut request = post(
        "/api/v1/sql",
        r#"{"sql":"SELECT id FROM accounts WHERE id < $1","params":[10]}"#,
    );
    request
        .headers_mut()
        .insert("accept", "application/vnd.apache.arrow.stream".parse().unwrap());
    let answer = served.ask(request).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let reader = arrow::ipc::reader::StreamReader::try_new(&answer.body[..], None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
}

#[tokio::test]
async fn inventory_and_digest_name_what_can_be_read() {
    let served = Served::new().await;
    let list = served.get("/api/v1/queryable_state").await.json();
    let kinds: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["kind"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"table") && kinds.contains(&"materialized_view") && kinds.contains(&"state"),
        "{kinds:?}"
    );
    for entry in list.as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let digest = served
            .get(&format!("/api/v1/queryable_state/{name}/digest"))
            .await
            .json();
        assert_eq!(digest["rows"], entry["rows"], "{name}");
    }
}

#[tokio::test]
async fn changes_begin_with_the_snapshot_and_go_on_live() {
    let served = Served::new().await;
    let path = "/api/v1/queryable_state/by_owner/changes?snapshot=true";
    let answer = served.router.clone().oneshot(get(path)).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut stream = answer.into_body().into_data_stream();
    let mut text = String::new();
    while text.matches("data: ").count() < 2 {
        text += std::str::from_utf8(&futures::StreamExt::next(&mut stream).await.unwrap().unwrap()).unwrap();
    }
    served
        .sql("INSERT INTO accounts (id, owner, balance) VALUES (5, 'dan', 7)")
        .await;
    while !text.contains("dan") {
        text += std::str::from_utf8(&futures::StreamExt::next(&mut stream).await.unwrap().unwrap()).unwrap();
    }
    assert!(
        text.contains(r#""weight":1,"row":{"owner":"dan","n":1,"total":"7.00"}}"#),
        "{text}"
    );
}

#[tokio::test]
async fn appended_rows_take_defaults_where_no_row_names_the_column() {
    let served = Served::new().await;
    let body = "{\"id\":10,\"owner\":\"eve\",\"balance\":\"0.10\"}\n{\"id\":11,\"owner\":\"eve\"}\n";
    let request = Request::post("/api/v1/tables/accounts/rows").header("content-type", "application/x-ndjson");
    let answer = served.ask(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(answer.json()["rows"], 2);
    let rows = served
        .sql("SELECT balance, note FROM accounts WHERE owner = 'eve' ORDER BY id")
        .await;
    assert_eq!(rows["rows"], serde_json::json!([["0.10", "none"], [null, "none"]]));
}

#[tokio::test]
async fn a_lookup_by_the_short_way_answers_as_by_the_long_one() {
    let served = Served::new().await;
    let script = r#"CREATE TABLE kinds (k BIGINT PRIMARY KEY, b BOOLEAN, s SMALLINT, i INTEGER, l BIGINT, r REAL, d DOUBLE PRECISION,
            n NUMERIC(20,3), day DATE, hour TIME, at TIMESTAMP, there TIMESTAMPTZ, t TEXT, "a ""name""" VARCHAR(9));
        INSERT INTO kinds VALUES (-7, true, -3, 70000, 9007199254740993, 1.5, -0.1, 12345678901234567.125, '2024-02-29', '23:59:59.000001',
            '1999-12-31 23:59:59.999999', '2000-01-01 00:00:00+00', E'a "word"\\n', 'x'), (8, false, 0, 0, 0, 'NaN', '-Infinity', 0, NULL, NULL,
            NULL, NULL, '', NULL), (9, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        CREATE MATERIALIZED VIEW kinds_by_text AS SELECT t, count(*) AS n, sum(n) AS total FROM kinds GROUP BY t"#;
    for statement in script.split(';') {
        served.sql(statement).await;
    }
    let path = "/api/v1/queryable_state/";
    for query in [
        "kinds?key=-7",
        "kinds?key=8",
        "public.kinds?key=9",
        "kinds_by_text?key=",
        "by_owner?key=ann",
        "accounts?key=9007199254740993",
    ] {
        let path = format!("{path}{query}");
        let short = short_way::look_up(&served.app, &Method::GET, &path.parse().unwrap());
        let short = short.unwrap_or_else(|| panic!("{path} took the long way"));
        let long = served.ask(get(&path)).await;
        assert_eq!(
            (short.status(), short.headers()["cenote-epoch"].clone()),
            (long.status, long.headers["cenote-epoch"].clone())
        );
        assert_eq!(short.headers()["content-type"], long.headers["content-type"]);
        assert_eq!(short.headers()["cache-control"], long.headers["cache-control"]);
        let body = axum::body::to_bytes(short.into_body(), usize::MAX).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&body), long.text());
    }
    let metrics = served.ask(get("/metrics")).await.text();
    let counted =
        "cenote_http_requests_total{method=\"GET\",route=\"/api/v1/queryable_state/{name}\",status=\"2xx\"} 12";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn a_lookup_that_finds_no_row_or_asks_for_more_takes_the_long_way() {
    let served = Served::new().await;
    served.sql("CREATE VIEW plain AS SELECT owner FROM accounts").await;
    let queries = [
        "by_owner?key=nobody",
        "by_owner?key=a%6En",
        "by_owner?key=ann&numbers=raw",
        "by_owner?owner=ann",
        "by_owner",
        "nothing?key=1",
        "plain?key=ann",
        "accounts?key=one",
        "cenote_state.by_owner?key=ann",
        "by_owner/scan?key=ann",
        "by_owner?key=ann&key=bob",
    ];
    for query in queries {
        let uri = format!("/api/v1/queryable_state/{query}").parse().unwrap();
        assert!(short_way::look_up(&served.app, &Method::GET, &uri).is_none(), "{query}");
    }
    let uri = "/api/v1/queryable_state/by_owner?key=ann".parse().unwrap();
    assert!(short_way::look_up(&served.app, &Method::HEAD, &uri).is_none());
    assert!(short_way::look_up(&served.app, &Method::GET, &uri).is_some());
}
