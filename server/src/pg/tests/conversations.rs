//! Startup, simple queries, COPY.

use super::client::{Client, field, message, startup_packet, words};
use super::*;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn a_session_starts_with_parameters_key_and_readiness() {
    let server = Server::start().await;
    let mut client = Client::dial(server.address).await;
    let parameters = [("user", "ann"), ("application_name", "test"), ("options", "")];
    client.send(&startup_packet(196_608, &parameters)).await;
    let told = words(&client.until_ready().await);
    assert!(told.starts_with("R S("), "{told}");
    assert!(told.ends_with(" K Z(I)"), "{told}");
    for parameter in [
        "server_version=16.6 (Cenote ",
        "client_encoding=UTF8",
        "integer_datetimes=on",
        "session_authorization=ann",
        "TimeZone=UTC",
    ] {
        assert!(told.contains(&format!("S({parameter}")), "{told}");
    }
    assert_eq!(
        server.stage.take_log(),
        ["user=ann", "application_name=test", "options="]
    );
}

#[tokio::test]
async fn a_newer_protocol_is_negotiated_down() {
    let server = Server::start().await;
    let mut client = Client::dial(server.address).await;
    client
        .send(&startup_packet(196_610, &[("user", "ann"), ("_pq_.novelty", "on")]))
        .await;
    let answers = client.until_ready().await;
    assert_eq!(answers[0], (b'v', b"\0\0\0\0\0\0\0\x01_pq_.novelty\0".to_vec()));
    assert!(words(&answers).ends_with("Z(I)"));
    assert_eq!(server.stage.take_log(), ["user=ann"]);
}

#[tokio::test]
async fn an_empty_query_is_answered_as_such() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for sql in ["", ";", "-- only a comment", " ; ; "] {
        assert_eq!(client.query(sql).await, "I Z(I)", "{sql}");
    }
}

#[tokio::test]
async fn statements_of_one_message_are_one_transaction() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.query("write 1").await, "C(INSERT 0 1) Z(I)");
    assert_eq!(server.stage.take_log(), ["write 1"]);
    assert_eq!(
        client.query("write 1; select; write 2").await,
        "C(INSERT 0 1) T D(1) C(SELECT 1) C(INSERT 0 1) Z(I)"
    );
    assert_eq!(
        server.stage.take_log(),
        ["begin implicit", "write 1", "write 2", "commit implicit"]
    );
    assert_eq!(
        client.query("write 1; fail; write 2").await,
        "C(INSERT 0 1) E(42883) Z(I)"
    );
    assert_eq!(
        server.stage.take_log(),
        ["begin implicit", "write 1", "rollback implicit"]
    );
}

#[tokio::test]
async fn the_last_statement_is_not_complete_before_the_commit() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    server.stage.commit_failures.store(1, Ordering::SeqCst);
    assert_eq!(client.query("write 1; write 2").await, "C(INSERT 0 1) E(40001) Z(I)");
}

#[tokio::test]
async fn errors_carry_all_that_is_known() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(&message(b'Q', "select; /* ü */ fail\0".as_bytes())).await;
    let answers = client.until(b'E').await;
    let (_, body) = answers.last().unwrap();
    for (letter, expected) in [
        (b'S', "ERROR"),
        (b'V', "ERROR"),
        (b'C', "42883"),
        (b'M', "cannot play: it fails"),
        (b'D', "seen: fail"),
        (b'H', "play another part"),
        (b'R', "SQL-0042"),
        // The statement begins at character 9 of the message.
        (b'P', "9"),
    ] {
        assert_eq!(field(body, letter).as_deref(), Some(expected), "{}", letter as char);
    }
    client.until_ready().await;
    client.send(&message(b'Q', b"select; syntax error\0")).await;
    let answers = client.until_ready().await;
    assert_eq!(words(&answers), "E(42601) Z(I)");
    assert_eq!(field(&answers[0].1, b'P').as_deref(), Some("9"));
}

#[tokio::test]
async fn an_error_among_the_rows_fails_the_transaction_block() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.query("late").await, "T D(1) E(42883) Z(I)");
    assert_eq!(client.query("begin").await, "C(BEGIN) Z(T)");
    assert_eq!(client.query("late").await, "T D(1) E(42883) Z(E)");
    assert_eq!(client.query("select").await, "E(25P02) Z(E)");
    assert_eq!(client.query("rollback").await, "C(ROLLBACK) Z(I)");
}

#[tokio::test]
async fn notices_come_before_their_command_is_complete() {
    let server = Server::start().await;
    assert_eq!(server.connect().await.query("notice").await, "N(look here) C(DO) Z(I)");
}

#[tokio::test]
async fn a_changed_parameter_is_reported_once() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(
        client.query("zone Asia/Kolkata").await,
        "S(TimeZone=Asia/Kolkata) C(SET) Z(I)"
    );
    assert_eq!(client.query("zone Asia/Kolkata").await, "C(SET) Z(I)");
}

#[tokio::test]
async fn many_rows_arrive_whole() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(&message(b'Q', b"rows 123456\0")).await;
    let answers = client.until_ready().await;
    let sum: i64 = answers
        .iter()
        .filter(|(kind, _)| *kind == b'D')
        .map(|(_, body)| std::str::from_utf8(&body[6..]).unwrap().parse::<i64>().unwrap())
        .sum();
    assert_eq!(sum, 123_456 * 123_455 / 2);
    assert_eq!(words(&answers[answers.len() - 2..]), "C(SELECT 123456) Z(I)");
}

#[tokio::test]
async fn a_subscription_is_a_result_set_per_epoch_as_it_comes() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let (epochs, receiver) = tokio::sync::mpsc::channel(1);
    *server.stage.subscription.lock() = Some(receiver);
    client.send(&message(b'Q', b"subscribe\0")).await;
    for epoch in [1, 2, 3] {
        epochs.send(epoch).await.unwrap();
        // The empty result behind each makes psql show it at once.
        let wanted = format!("T D({epoch}) C(SUBSCRIBE) I");
        assert_eq!(words(&client.until(b'I').await), wanted);
    }
    drop(epochs);
    assert_eq!(words(&client.until_ready().await), "T C(SUBSCRIBE) Z(I)");
}

fn copy_data(text: &str) -> Vec<u8> {
    message(b'd', text.as_bytes())
}

#[tokio::test]
async fn copy_takes_data_cut_anywhere() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(&message(b'Q', b"copy; select\0")).await;
    assert_eq!(client.answer().await.unwrap(), (b'G', b"\0\0\x02\0\0\0\0".to_vec()));
    let bytes = [
        copy_data("a\tb\nc"),
        message(b'H', b""),
        copy_data("\td\n"),
        message(b'c', b""),
    ]
    .concat();
    assert_eq!(client.ask(&bytes).await, "C(COPY 2) T D(1) C(SELECT 1) Z(I)");
    assert_eq!(
        server.stage.take_log(),
        ["begin implicit", "copied a\tb/c\td/", "commit implicit"]
    );
}

#[tokio::test]
async fn copy_that_fails_keeps_nothing_and_the_rest_of_it_is_ignored() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for (end, code, reason) in [
        (
            [copy_data("bad"), copy_data("more"), message(b'c', b"")].concat(),
            "42883",
            "cannot play: it fails",
        ),
        (message(b'f', b"enough\0"), "57014", "COPY from stdin failed: enough"),
        (
            message(b'Q', b"select\0"),
            "08P01",
            "unexpected message type 0x51 during COPY from stdin",
        ),
    ] {
        client.send(&message(b'Q', b"copy\0")).await;
        assert_eq!(words(&client.until(b'G').await), "G");
        assert_eq!(client.ask(&end).await, format!("E({code}) Z(I)"));
        assert_eq!(server.stage.take_log(), [format!("copy aborted: {reason}")]);
        assert_eq!(client.query("select").await, "T D(1) C(SELECT 1) Z(I)");
    }
}

#[tokio::test]
async fn copy_is_dropped_with_its_client() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(&message(b'Q', b"copy\0")).await;
    client.send(&copy_data("a\tb\n")).await;
    client.until(b'G').await;
    drop(client);
    server
        .stage
        .wait_for("copy aborted: cannot go on with COPY: the client is gone")
        .await;
}

#[tokio::test]
async fn what_writes_is_done_although_its_client_left() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client
        .send(&[message(b'Q', b"write 1\0"), message(b'X', b"")].concat())
        .await;
    drop(client);
    server.stage.wait_for("write 1").await;
}
