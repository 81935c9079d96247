//! `COPY ... FROM STDIN`: the client's data on its way to the table.

use super::connection::Connection;
use super::frontend::{Message, violation};
use super::signals::Failure;
use super::simple::Completion;
use cenote_query::CopyIn;
use cenote_statestore::{Error, ErrorKind};

/// Takes a client's data until it says that it is done or gives up.
///
/// # Errors
/// [`Failure::Statement`]: nothing was kept. What the client still sends of it is ignored by the connection's loop.
pub(super) async fn receive(connection: &mut Connection, mut receiver: Box<dyn CopyIn>) -> Result<Completion, Failure> {
    connection.wire.output.copy_in(receiver.columns());
    connection.flush().await?;
    match take_all(connection, receiver.as_mut()).await {
        Ok(()) => {
            // Whether the rows were committed must be known, so this is not broken off.
            let rows = receiver.finish().await?;
            Ok(Completion::Tag(format!("COPY {rows}")))
        }
        Err(failure) => {
            let reason = match &failure {
                Failure::Statement(error) | Failure::Fatal(error) => error.clone(),
                Failure::Gone => {
                    let message = "cannot go on with COPY: the client is gone";
                    Error::new(ErrorKind::Unavailable, "PG-0013", message).sqlstate("08006")
                }
            };
            receiver.abort(reason).await;
            Err(failure)
        }
    }
}

async fn take_all(connection: &mut Connection, receiver: &mut dyn CopyIn) -> Result<(), Failure> {
    loop {
        let (kind, message) = tokio::select! {
            biased;
            message = connection.wire.message() => message?,
            failure = connection.signals.raised() => return Err(failure),
        };
        match message? {
            Message::CopyData(bytes) => tokio::select! {
                biased;
                taken = receiver.data(&bytes) => taken?,
                failure = connection.signals.raised() => return Err(failure),
            },
            Message::CopyDone => return Ok(()),
            Message::CopyFail(reason) => {
                let message = format!("COPY from stdin failed: {reason}");
                return Err(Error::new(ErrorKind::Invalid, "PG-0014", message)
                    .sqlstate("57014")
                    .into());
            }
            // Sent by clients that did not notice that their statement was a COPY.
            Message::Flush | Message::Sync => {}
            Message::Terminate => return Err(Failure::Gone),
            _ => {
                let message = format!("unexpected message type 0x{kind:02X} during COPY from stdin");
                return Err(violation(message).into());
            }
        }
    }
}
