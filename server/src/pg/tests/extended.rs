//! Extended queries.

use super::client::{bind, execute, message, parse, sync, words};
use super::*;

fn describe(target: u8, name: &str) -> Vec<u8> {
    let body = [&[target][..], name.as_bytes(), b"\0"].concat();
    message(b'D', &body)
}

fn close(target: u8, name: &str) -> Vec<u8> {
    let body = [&[target][..], name.as_bytes(), b"\0"].concat();
    message(b'C', &body)
}

fn flush() -> Vec<u8> {
    message(b'H', b"")
}

#[tokio::test]
async fn a_statement_is_prepared_bound_described_and_run() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let bytes = [
        parse("", "echo"),
        bind("", "", &["42"], 0),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ]
    .concat();
    assert_eq!(client.ask(&bytes).await, "1 2 T D(42) C(SELECT 1) Z(I)");
    let bytes = [parse("s", "echo"), describe(b'S', "s"), sync()].concat();
    client.send(&bytes).await;
    let answers = client.until_ready().await;
    assert_eq!(words(&answers), "1 t T Z(I)");
    assert_eq!(answers[1].1, [0, 1, 0, 0, 0, 20]);
    let bytes = [bind("", "s", &["42"], 1), execute("", 0), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "2 D(000000000000002a) C(SELECT 1) Z(I)");
}

#[tokio::test]
async fn row_descriptions_tell_type_size_and_format() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client
        .send(&[parse("", "select"), bind("", "", &[], 1), describe(b'P', ""), sync()].concat())
        .await;
    let answers = client.until_ready().await;
    let expected = [
        b"\0\x01?column?\0".as_slice(),
        &[0; 6],
        &[0, 0, 0, 23, 0, 4, 0xff, 0xff, 0xff, 0xff, 0, 1],
    ]
    .concat();
    assert_eq!(answers[2], (b'T', expected));
}

#[tokio::test]
async fn an_empty_query_runs_to_nothing() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for sql in ["", ";", "-- only a comment"] {
        let bytes = [
            parse("", sql),
            bind("", "", &[], 0),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ]
        .concat();
        assert_eq!(client.ask(&bytes).await, "1 2 n I Z(I)");
    }
}

#[tokio::test]
async fn after_an_error_all_is_skipped_up_to_sync() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let broken = [
        parse("", "fail"),
        bind("", "", &[], 0),
        execute("", 0),
        message(b'Q', b"write 1\0"),
        sync(),
    ]
    .concat();
    assert_eq!(client.ask(&broken).await, "E(42883) Z(I)");
    assert!(server.stage.take_log().is_empty());
    assert_eq!(client.query("select").await, "T D(1) C(SELECT 1) Z(I)");
}

#[tokio::test]
async fn a_statement_alone_before_its_sync_needs_no_transaction() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let bytes = [parse("", "write 1"), bind("", "", &[], 0), execute("", 0), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 2 C(INSERT 0 1) Z(I)");
    assert_eq!(server.stage.take_log(), ["write 1"]);
}

#[tokio::test]
async fn a_pipeline_up_to_sync_is_one_transaction() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let one = |argument: &str| {
        [
            parse("", &format!("write {argument}")),
            bind("", "", &[], 0),
            execute("", 0),
        ]
        .concat()
    };
    let bytes = [one("1"), one("2"), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 2 C(INSERT 0 1) 1 2 C(INSERT 0 1) Z(I)");
    assert_eq!(
        server.stage.take_log(),
        ["begin implicit", "write 1", "write 2", "commit implicit"]
    );
    let bytes = [one("1"), parse("", "fail"), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 2 C(INSERT 0 1) E(42883) Z(I)");
    assert_eq!(
        server.stage.take_log(),
        ["begin implicit", "write 1", "rollback implicit"]
    );
    server
        .stage
        .commit_failures
        .store(1, std::sync::atomic::Ordering::SeqCst);
    let bytes = [one("1"), flush(), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 2 C(INSERT 0 1) E(40001) Z(I)");
}

#[tokio::test]
async fn a_portal_is_suspended_at_the_limit_and_goes_on() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.query("begin").await, "C(BEGIN) Z(T)");
    let bytes = [parse("", "rows 5"), bind("p", "", &[], 0), execute("p", 2), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 2 D(0) D(1) s Z(T)");
    assert_eq!(
        client.ask(&[execute("p", 2), sync()].concat()).await,
        "D(2) D(3) s Z(T)"
    );
    assert_eq!(
        client.ask(&[execute("p", 2), sync()].concat()).await,
        "D(4) C(SELECT 1) Z(T)"
    );
    assert_eq!(
        client.ask(&[execute("p", 2), sync()].concat()).await,
        "C(SELECT 0) Z(T)"
    );
    assert_eq!(client.query("commit").await, "C(COMMIT) Z(I)");
    assert_eq!(client.ask(&[execute("p", 0), sync()].concat()).await, "E(34000) Z(I)");
}

#[tokio::test]
async fn a_command_runs_once_per_portal() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let bytes = [
        parse("", "write 1"),
        bind("", "", &[], 0),
        execute("", 0),
        execute("", 0),
        sync(),
    ]
    .concat();
    assert_eq!(client.ask(&bytes).await, "1 2 C(INSERT 0 1) E(55000) Z(I)");
}

#[tokio::test]
async fn names_that_exist_or_do_not_are_told_apart() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for (bytes, expected) in [
        (parse("s", "select"), "1 Z(I)"),
        (parse("s", "select"), "E(42P05) Z(I)"),
        (parse("", "select; select"), "E(42601) Z(I)"),
        (bind("", "nope", &[], 0), "E(26000) Z(I)"),
        (bind("", "", &[], 0), "E(26000) Z(I)"),
        (describe(b'S', "nope"), "E(26000) Z(I)"),
        (describe(b'P', "nope"), "E(34000) Z(I)"),
        (
            [bind("p", "s", &[], 0), bind("p", "s", &[], 0)].concat(),
            "2 E(42P03) Z(I)",
        ),
        (bind("", "s", &["1"], 0), "E(08P01) Z(I)"),
        (
            [close(b'S', "s"), close(b'S', "s"), close(b'P', "p")].concat(),
            "3 3 3 Z(I)",
        ),
        (bind("", "s", &[], 0), "E(26000) Z(I)"),
    ] {
        assert_eq!(client.ask(&[bytes, sync()].concat()).await, expected);
    }
}

#[tokio::test]
async fn prepared_statements_are_bounded() {
    let server = Server::with(PgLimits {
        prepared_max: 2,
        ..PgLimits::default()
    })
    .await;
    let mut client = server.connect().await;
    let bytes = [parse("a", "select"), parse("b", "select"), parse("c", "select"), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 1 E(53400) Z(I)");
}

#[tokio::test]
async fn sql_drops_statements_of_the_protocol() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let prepare = [parse("My", "select"), parse("b", "select"), sync()].concat();
    assert_eq!(client.ask(&prepare).await, "1 1 Z(I)");
    assert_eq!(client.query("deallocate \"My\"").await, "C(DEALLOCATE) Z(I)");
    assert_eq!(
        client.ask(&[bind("", "My", &[], 0), sync()].concat()).await,
        "E(26000) Z(I)"
    );
    assert_eq!(client.query("discard all").await, "C(DISCARD ALL) Z(I)");
    assert_eq!(client.ask(&prepare).await, "1 1 Z(I)");
    let bytes = [
        parse("", "deallocate all"),
        bind("", "", &[], 0),
        execute("", 0),
        sync(),
    ]
    .concat();
    assert_eq!(client.ask(&bytes).await, "1 2 C(DEALLOCATE) Z(I)");
    assert_eq!(client.ask(&prepare).await, "1 1 Z(I)");
}

#[tokio::test]
async fn a_result_of_other_types_than_described_is_refused() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let bytes = [parse("", "changed"), bind("", "", &[], 1), execute("", 0), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 2 E(0A000) Z(I)");
}

#[tokio::test]
async fn copy_works_for_clients_that_sync_before_they_notice_it() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client
        .send(&[parse("", "copy"), bind("", "", &[], 0), execute("", 0), sync()].concat())
        .await;
    assert_eq!(words(&client.until(b'G').await), "1 2 G");
    let bytes = [message(b'd', b"a\n"), message(b'c', b""), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "C(COPY 1) Z(I)");
    client
        .send(&[parse("", "copy"), bind("", "", &[], 0), execute("", 0), sync()].concat())
        .await;
    assert_eq!(words(&client.until(b'G').await), "1 2 G");
    let bytes = [message(b'd', b"bad"), message(b'c', b""), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "E(42883) Z(I)");
}

#[tokio::test]
async fn values_that_do_not_read_fail_the_transaction_block() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.query("begin").await, "C(BEGIN) Z(T)");
    let bytes = [parse("", "echo"), bind("", "", &["abc"], 0), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "1 E(22P02) Z(E)");
}

#[tokio::test]
async fn flush_brings_answers_without_sync() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client
        .send(&[parse("", "echo"), describe(b'S', ""), flush()].concat())
        .await;
    assert_eq!(words(&client.until(b'T').await), "1 t T");
    let bytes = [bind("", "", &["1"], 0), execute("", 0), sync()].concat();
    assert_eq!(client.ask(&bytes).await, "2 D(1) C(SELECT 1) Z(I)");
}
