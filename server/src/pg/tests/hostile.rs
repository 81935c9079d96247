//! Clients that are wrong, slow, gone, or too many.

use super::client::{Client, field, message, startup_packet, words};
use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x30];

async fn refusal(client: &mut Client, request: &[u8]) -> u8 {
    client.send(request).await;
    client.stream.read_u8().await.unwrap()
}

#[tokio::test]
async fn gss_and_ssl_requests_are_refused_once_each_before_a_session() {
    let server = Server::start().await;
    let mut client = Client::dial(server.address).await;
    assert_eq!(refusal(&mut client, &GSS_REQUEST).await, b'N');
    assert_eq!(refusal(&mut client, &SSL_REQUEST).await, b'N');
    client.send(&startup_packet(196_608, &[("user", "ann")])).await;
    assert!(words(&client.until_ready().await).ends_with("Z(I)"));
}

#[tokio::test]
async fn a_client_that_asks_for_encryption_again_is_sent_away() {
    let server = Server::start().await;
    for request in [SSL_REQUEST, GSS_REQUEST] {
        let mut client = Client::dial(server.address).await;
        assert_eq!(refusal(&mut client, &request).await, b'N');
        client.send(&request).await;
        assert_eq!(words(&[client.answer().await.unwrap()]), "E(08P01)");
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn garbage_closes_its_connection_and_no_other() {
    let server = Server::start().await;
    let mut bystander = server.connect().await;
    let garbage: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 64],
        &[0xff; 64],
        &[0, 0, 0, 7, 0, 3, 0, 0],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0, 0, 0x27, 0x11, 0, 3, 0, 0],
    ];
    for bytes in garbage {
        let mut client = Client::dial(server.address).await;
        client.send(bytes).await;
        assert!(client.is_closed().await, "{bytes:?}");
    }
    assert_eq!(bystander.query("select").await, "T D(1) C(SELECT 1) Z(I)");
}

#[tokio::test]
async fn every_prefix_of_a_conversation_may_be_the_last_thing_heard() {
    let server = Server::start().await;
    let mut whole = startup_packet(196_608, &[("user", "ann"), ("options", "")]);
    whole.extend(message(b'Q', b"select\0"));
    for length in 0..whole.len() {
        let mut client = Client::dial(server.address).await;
        client.send(&whole[..length]).await;
    }
    assert_eq!(server.connect().await.query("select").await, "T D(1) C(SELECT 1) Z(I)");
}

#[tokio::test]
async fn startup_messages_that_cannot_be_served_say_why() {
    let server = Server::start().await;
    for (packet, expected) in [
        (startup_packet(131_072, &[("user", "ann")]), "E(0A000)"),
        (startup_packet(196_608, &[("database", "d")]), "E(28000)"),
        (startup_packet(196_608, &[("user", "")]), "E(28000)"),
        (
            startup_packet(196_608, &[("user", "ann"), ("database", "nowhere")]),
            "E(3D000)",
        ),
        (
            startup_packet(196_608, &[("user", "ann"), ("replication", "database")]),
            "E(0A000)",
        ),
        (vec![0, 0, 0, 13, 0, 3, 0, 0, b'u', b's', b'e', b'r', 0], "E(08P01)"),
    ] {
        let mut client = Client::dial(server.address).await;
        client.send(&packet).await;
        let answers = client.until_ready().await;
        assert_eq!(words(&answers), expected);
        assert_eq!(field(&answers[0].1, b'S').as_deref(), Some("FATAL"));
    }
}

#[tokio::test]
async fn a_client_that_never_starts_up_is_closed() {
    let limits = PgLimits {
        startup_timeout: Duration::from_millis(50),
        ..PgLimits::default()
    };
    let server = Server::with(limits).await;
    let mut client = Client::dial(server.address).await;
    client.send(&[0, 0]).await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn messages_that_cannot_be_are_fatal() {
    let limits = PgLimits {
        message_bytes_max: 1_000,
        ..PgLimits::default()
    };
    let server = Server::with(limits).await;
    let cases: [(&[u8], &str); 6] = [
        (&[b'Q', 0x7f, 0xff, 0xff, 0xff], "E(54000)"),
        (&[b'Q', 0, 0, 0x03, 0xe9], "E(54000)"),
        (&[b'S', 0, 0, 0, 3], "E(08P01)"),
        (&[b'Q', 0xff, 0xff, 0xff, 0xff], "E(08P01)"),
        (&[b'?', 0, 0, 0, 4], "E(08P01)"),
        (&[b'p', 0, 0, 0, 5, 0], "E(08P01)"),
    ];
    for (bytes, expected) in cases {
        let mut client = server.connect().await;
        client.send(bytes).await;
        let answers = client.until_ready().await;
        assert_eq!(words(&answers), expected, "{bytes:?}");
        assert_eq!(field(&answers[0].1, b'S').as_deref(), Some("FATAL"));
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn the_error_reaches_a_client_that_is_still_sending() {
    let limits = PgLimits {
        message_bytes_max: 1_000,
        ..PgLimits::default()
    };
    let server = Server::with(limits).await;
    let mut client = server.connect().await;
    let _ = client.stream.write_all(&message(b'Q', &vec![b'x'; 4 << 20])).await;
    assert_eq!(words(&client.until_ready().await), "E(54000)");
}

#[tokio::test]
async fn messages_that_do_not_decode_leave_the_connection_usable() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.ask(&message(b'Q', b"no end")).await, "E(08P01) Z(I)");
    assert_eq!(client.ask(&message(b'Q', b"\xff\0")).await, "E(22021) Z(I)");
    assert_eq!(
        client
            .ask(&[message(b'B', b"\0\0\0\x05"), super::client::sync()].concat())
            .await,
        "E(08P01) Z(I)"
    );
    assert_eq!(client.ask(&message(b'F', b"")).await, "E(0A000) Z(I)");
    assert_eq!(client.query("select").await, "T D(1) C(SELECT 1) Z(I)");
}

#[tokio::test]
async fn one_client_too_many_is_told_so_and_a_seat_is_free_again_later() {
    let server = Server::with(PgLimits {
        connections_max: 1,
        ..PgLimits::default()
    })
    .await;
    let mut first = server.connect().await;
    let mut second = Client::dial(server.address).await;
    second.send(&startup_packet(196_608, &[("user", "bob")])).await;
    assert_eq!(words(&second.until_ready().await), "E(53300)");
    // The first can still be cancelled.
    first.send(&message(b'Q', b"wait\0")).await;
    server.stage.wait_for("wait").await;
    cancel(&server, first.process, first.secret).await;
    assert_eq!(words(&first.until_ready().await), "E(57014) Z(I)");
    first.send(&message(b'X', b"")).await;
    assert!(first.is_closed().await);
    let seated = async {
        loop {
            let mut third = Client::dial(server.address).await;
            third.send(&startup_packet(196_608, &[("user", "cy")])).await;
            if words(&third.until_ready().await).ends_with("Z(I)") {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seated)
        .await
        .expect("the seat stays taken");
}

async fn cancel(server: &Server, process: i32, secret: i32) {
    let mut client = Client::dial(server.address).await;
    let mut packet = vec![0, 0, 0, 16, 4, 0xd2, 0x16, 0x2e];
    packet.extend_from_slice(&process.to_be_bytes());
    packet.extend_from_slice(&secret.to_be_bytes());
    client.send(&packet).await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_cancel_request_ends_the_running_statement_and_nothing_else() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.connect().await, server.connect().await);
    // Idle: nothing to cancel, and the next statement is not hit by it.
    cancel(&server, client.process, client.secret).await;
    assert_eq!(client.query("begin").await, "C(BEGIN) Z(T)");
    for waiting in [&mut client, &mut other] {
        waiting.send(&message(b'Q', b"wait\0")).await;
        server.stage.wait_for("wait").await;
        server.stage.take_log();
    }
    cancel(&server, client.process, client.secret.wrapping_add(1)).await;
    cancel(&server, client.process, client.secret).await;
    assert_eq!(words(&client.until_ready().await), "E(57014) Z(E)");
    assert_eq!(server.stage.take_log(), ["wait dropped"]);
    assert_eq!(client.query("select").await, "E(25P02) Z(E)");
    assert_eq!(
        client.query("commit; select").await,
        "C(ROLLBACK) T D(1) C(SELECT 1) Z(I)"
    );
    cancel(&server, other.process, other.secret).await;
    assert_eq!(words(&other.until_ready().await), "E(57014) Z(I)");
    // What it left open does not swallow the next statement.
    assert_eq!(server.stage.take_log(), ["wait dropped", "rollback implicit"]);
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_making_of_rows() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(&message(b'Q', b"rows 100000000\0")).await;
    // When nothing more is made although everything is ready, the client's pace holds it back.
    let mut made = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = server.stage.batches.load(std::sync::atomic::Ordering::SeqCst);
        if now == made && now > 0 {
            break;
        }
        made = now;
    }
    assert!(made < 2_000, "{made} batches of 1,000 rows were made");
    cancel(&server, client.process, client.secret).await;
    let answers = client.until_ready().await;
    assert_eq!(words(&answers[answers.len() - 2..]), "E(57014) Z(I)");
    assert_eq!(client.query("rows 2").await, "T D(0) D(1) C(SELECT 2) Z(I)");
}

#[tokio::test]
async fn a_subscription_ends_when_its_client_vanishes() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let (rows, receiver) = tokio::sync::mpsc::channel(1);
    *server.stage.subscription.lock() = Some(receiver);
    client.send(&message(b'Q', b"subscribe\0")).await;
    rows.send(7).await.unwrap();
    assert_eq!(words(&client.until(b'D').await), "T D(7)");
    drop(client);
    server.stage.wait_for("subscribe dropped").await;
    assert!(rows.send(8).await.is_err());
}

#[tokio::test]
async fn clients_are_told_when_the_server_stops() {
    let server = Server::start().await;
    let (mut idle, mut waiting, mut silent) = (
        server.connect().await,
        server.connect().await,
        Client::dial(server.address).await,
    );
    waiting.send(&message(b'Q', b"wait\0")).await;
    server.stage.wait_for("wait").await;
    let stage = server.stage.clone();
    let (_, told_idle, told_waiting) = tokio::join!(server.stop(), idle.until_ready(), waiting.until_ready());
    assert_eq!(
        (words(&told_idle), words(&told_waiting)),
        ("E(57P01)".to_string(), "E(57P01)".to_string())
    );
    assert!(silent.is_closed().await);
    assert!(stage.take_log().contains(&"wait dropped".to_string()));
}

#[tokio::test]
async fn a_client_that_does_not_read_cannot_keep_the_server_from_stopping() {
    let limits = PgLimits {
        shutdown_grace: Duration::from_millis(200),
        ..PgLimits::default()
    };
    let server = Server::with(limits).await;
    let mut client = server.connect().await;
    client.send(&message(b'Q', b"rows 100000000\0")).await;
    assert_eq!(words(&client.until(b'T').await), "T");
    server.stop().await;
}
