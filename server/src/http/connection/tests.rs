//! Connections over real sockets.

use super::*;
use crate::http::tests::{database, limits};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    ended: JoinHandle<Result<()>>,
}

async fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let ended = tokio::spawn(serve(listener, database().await, limits(), stopped));
    Server { address, stop, ended }
}

async fn ask(stream: &mut TcpStream) -> String {
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut bytes = vec![0; 4_096];
    let count = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[tokio::test]
async fn connection_serves_several_requests() {
    let server = server().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
    assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn connection_beyond_the_limit_is_told_so_and_gets_in_when_one_leaves() {
    let server = server().await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    let mut second = TcpStream::connect(server.address).await.unwrap();
    assert!(ask(&mut first).await.contains("200 OK") && ask(&mut second).await.contains("200 OK"));
    let mut third = TcpStream::connect(server.address).await.unwrap();
    let refusal = ask(&mut third).await;
    assert!(
        refusal.starts_with("HTTP/1.1 503") && refusal.contains("HTTP-0019"),
        "{refusal}"
    );
    drop((first, third));
    loop {
        let mut next = TcpStream::connect(server.address).await.unwrap();
        if ask(&mut next).await.contains("200 OK") {
            break;
        }
    }
}

#[tokio::test]
async fn client_that_sends_no_head_is_cut() {
    let server = server().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /healthz HT").await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest))
        .await
        .expect("cut")
        .unwrap();
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_ends() {
    let server = server().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    ask(&mut stream).await;
    server.stop.send(true).unwrap();
    server.ended.await.unwrap().unwrap();
    assert_eq!(stream.read(&mut [0; 10]).await.unwrap(), 0);
    assert!(TcpStream::connect(server.address).await.is_err());
}
