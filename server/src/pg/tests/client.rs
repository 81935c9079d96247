//! A client that speaks in bytes and hears in words.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No test waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Client {
    pub stream: TcpStream,
    pub process: i32,
    pub secret: i32,
}

/// A message of the server: its kind and its body.
pub type Answer = (u8, Vec<u8>);

pub fn startup_packet(version: i32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
    }
    body.push(0);
    let mut packet = (body.len() as i32 + 4).to_be_bytes().to_vec();
    packet.extend(body);
    packet
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    message
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Binds values in text format; the results come in `format`.
pub fn bind(portal: &str, statement: &str, values: &[&str], format: i16) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend_from_slice(&(values.len() as i16).to_be_bytes());
    for value in values {
        body.extend_from_slice(&(value.len() as i32).to_be_bytes());
        body.extend_from_slice(value.as_bytes());
    }
    body.extend_from_slice(&1i16.to_be_bytes());
    body.extend_from_slice(&format.to_be_bytes());
    message(b'B', &body)
}

pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend_from_slice(&rows_max.to_be_bytes());
    message(b'E', &body)
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Client {
    /// Connects without a word.
    pub async fn dial(address: SocketAddr) -> Client {
        Client {
            stream: TcpStream::connect(address).await.unwrap(),
            process: 0,
            secret: 0,
        }
    }

    /// Connects and waits until the server is ready.
    pub async fn connect(address: SocketAddr) -> Client {
        let mut client = Client::dial(address).await;
        client.send(&startup_packet(196_608, &[("user", "ann")])).await;
        let answers = client.until_ready().await;
        assert_eq!(words(&answers[..1]), "R");
        let (_, key) = answers.iter().find(|(kind, _)| *kind == b'K').unwrap();
        client.process = i32::from_be_bytes(key[..4].try_into().unwrap());
        client.secret = i32::from_be_bytes(key[4..8].try_into().unwrap());
        client
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next message; `None` when the server hung up.
    pub async fn answer(&mut self) -> Option<Answer> {
        let read = async {
            let kind = self.stream.read_u8().await.ok()?;
            let length = self.stream.read_i32().await.ok()?;
            let mut body = vec![0; length as usize - 4];
            self.stream.read_exact(&mut body).await.ok()?;
            Some((kind, body))
        };
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("the server does not answer")
    }

    pub async fn until(&mut self, last: u8) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.answer().await {
            let is_last = answer.0 == last;
            answers.push(answer);
            if is_last {
                break;
            }
        }
        answers
    }

    pub async fn until_ready(&mut self) -> Vec<Answer> {
        self.until(b'Z').await
    }

    /// Sends bytes and tells all answers up to ReadyForQuery, or the end, in words.
    pub async fn ask(&mut self, bytes: &[u8]) -> String {
        self.send(bytes).await;
        words(&self.until_ready().await)
    }

    pub async fn query(&mut self, sql: &str) -> String {
        self.ask(&message(b'Q', format!("{sql}\0").as_bytes())).await
    }

    /// Whether the server hangs up without a further message.
    pub async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_to_end(&mut rest));
        read.await.expect("the server does not hang up").is_err() || rest.is_empty()
    }
}

/// The fields of an error or a notice by their letter.
pub fn field(body: &[u8], letter: u8) -> Option<String> {
    let mut fields = body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    fields
        .find(|field| field[0] == letter)
        .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_suffix(b"\0").unwrap_or(bytes)).into_owned()
}

fn row(body: &[u8]) -> String {
    let mut rest = &body[2..];
    let mut values = Vec::new();
    while !rest.is_empty() {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        rest = &rest[4..];
        let Ok(length) = usize::try_from(length) else {
            values.push("NULL".to_string());
            continue;
        };
        let is_text = rest[..length]
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        let hex = || {
            rest[..length]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        values.push(if is_text { text(&rest[..length]) } else { hex() });
        rest = &rest[length..];
    }
    values.join(",")
}

/// Answers in short: `T D(1) C(SELECT 1) Z(I)`.
pub fn words(answers: &[Answer]) -> String {
    let word = |(kind, body): &Answer| match kind {
        b'C' => format!("C({})", text(body)),
        b'D' => format!("D({})", row(body)),
        b'E' => format!("E({})", field(body, b'C').unwrap()),
        b'N' => format!("N({})", field(body, b'M').unwrap()),
        b'Z' => format!("Z({})", text(body)),
        b'S' => format!("S({})", text(body).replace('\0', "=")),
        other => (*other as char).to_string(),
    };
    answers.iter().map(word).collect::<Vec<_>>().join(" ")
}
