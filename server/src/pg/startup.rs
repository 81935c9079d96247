//! The first words of a connection: encryption requests, cancel requests, the startup message.

use super::frontend::{Fields, violation};
use super::wire::Wire;
use bytes::Bytes;
use cenote_statestore::{Error, ErrorKind};

/// Longest message before a session begins, as PostgreSQL has it.
const STARTUP_BYTES_MAX: usize = 10_000;
const CANCEL_CODE: i32 = 80_877_102;
const SSL_CODE: i32 = 80_877_103;
const GSS_CODE: i32 = 80_877_104;
const MAJOR_VERSION: i32 = 3;

/// What a client came for.
pub(super) enum Greeting {
    /// A session.
    Session(Startup),
    /// To cancel what another connection runs.
    Cancel { process: i32, secret: i32 },
    /// It is told why not, and goes.
    Refused(Error),
    /// It is gone, or no client of this protocol.
    Closed,
}

/// A startup message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Startup {
    /// Names and values in the order sent, protocol options excepted.
    pub(super) parameters: Vec<(String, String)>,
    /// The client asked for protocol options (`_pq_.`) that are not known here.
    pub(super) unknown_options: Vec<String>,
    /// The minor version of the protocol asked for; 0 is spoken here.
    pub(super) minor: i32,
}

impl Startup {
    /// The value of a parameter; the last one counts.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Reads until it is known what the client came for.
///
/// Each kind of encryption is refused once with `N`; a client that asks again is sent away, so that no client can keep
/// the server answering.
pub(super) async fn greet(wire: &mut Wire) -> Greeting {
    let (mut asked_ssl, mut asked_gss) = (false, false);
    loop {
        let Ok(Some(mut packet)) = wire
            .startup_packet(STARTUP_BYTES_MAX)
            .await
            .map(|packet| packet.map(Fields))
        else {
            return Greeting::Closed;
        };
        let Ok(code) = packet.i32() else {
            return Greeting::Closed;
        };
        let asked = match code {
            SSL_CODE => &mut asked_ssl,
            GSS_CODE => &mut asked_gss,
            CANCEL_CODE => return cancel(packet),
            version if version >> 16 == MAJOR_VERSION => return session(packet.0, version & 0xffff),
            version => return Greeting::Refused(wrong_version(version)),
        };
        if std::mem::replace(asked, true) {
            return Greeting::Refused(violation("encryption was asked for twice"));
        }
        wire.output.refuse_encryption();
        if wire.flush().await.is_err() {
            return Greeting::Closed;
        }
    }
}

fn cancel(mut packet: Fields) -> Greeting {
    match (packet.i32(), packet.i32(), packet.0.is_empty()) {
        (Ok(process), Ok(secret), true) => Greeting::Cancel { process, secret },
        _ => Greeting::Closed,
    }
}

fn wrong_version(version: i32) -> Error {
    let (major, minor) = (version >> 16 & 0xffff, version & 0xffff);
    let message = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0");
    Error::new(ErrorKind::Unsupported, "PG-0008", message)
}

fn session(body: Bytes, minor: i32) -> Greeting {
    match parameters(Fields(body)) {
        Ok(all) => {
            let (options, parameters): (Vec<_>, Vec<_>) = all
                .into_iter()
                .partition(|(name, _): &(String, String)| name.starts_with("_pq_."));
            let unknown_options = options.into_iter().map(|(name, _)| name).collect();
            let startup = Startup {
                parameters,
                unknown_options,
                minor,
            };
            if startup.parameter("user").is_none_or(str::is_empty) {
                let message = "no PostgreSQL user name specified in startup packet";
                return Greeting::Refused(Error::new(ErrorKind::Invalid, "PG-0009", message).sqlstate("28000"));
            }
            Greeting::Session(startup)
        }
        Err(error) => Greeting::Refused(error),
    }
}

/// Pairs of texts that end with an empty name. Values may be empty.
fn parameters(mut fields: Fields) -> Result<Vec<(String, String)>, Error> {
    let mut parameters = Vec::new();
    loop {
        let name = fields.text()?;
        if name.is_empty() {
            return match fields.0.is_empty() {
                true => Ok(parameters),
                false => Err(violation(
                    "invalid startup packet layout: expected terminator as last byte",
                )),
            };
        }
        let value = fields.text()?;
        parameters.push((name, value));
    }
}
