//! What a store's answer means, in words that may be shown.
//!
//! # Rules kept here
//! 1. Of an answer its code and its message are told; of a request the server that it went to, and nothing else.

use std::error::Error as _;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::checkpoint::blobs::{Refusal, Refused};

/// Characters of a store's message at most.
const MESSAGE_CHARS_MAX: usize = 300;

/// Codes of S3 that say that who asks is not known, whatever the status.
const UNKNOWN_TO_STORE: [&str; 4] = [
    "ExpiredToken",
    "InvalidToken",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
];

/// What machines of a cloud answer with credentials.
const METADATA: [&str; 2] = ["/latest/api/token", "/latest/meta-data"];

pub(super) fn refused(refusal: Refusal, text: impl Into<String>) -> io::Error {
    let text = text.into();
    io::Error::other(Refused { refusal, text })
}

/// The error of a conditional put.
pub(super) fn told_of_put(error: Error) -> io::Error {
    let answer = Answer::of(&error);
    let is_unknown = matches!(error, Error::NotImplemented { .. }) || answer.status == Some(501);
    match is_unknown || answer.code.as_deref() == Some("NotImplemented") {
        true => refused(Refusal::Overwrites, answer.text(&error)),
        false => told(error),
    }
}

/// The error of a request.
pub(super) fn told(error: Error) -> io::Error {
    let answer = Answer::of(&error);
    let text = answer.text(&error);
    let is_unknown = answer
        .code
        .as_deref()
        .is_some_and(|code| UNKNOWN_TO_STORE.contains(&code));
    if answer.code.as_deref() == Some("NoSuchBucket") {
        return refused(Refusal::NoBucket, text);
    }
    if answer.asked_machine {
        return refused(
            Refusal::Denied,
            "the environment has no credentials, and this machine gives none",
        );
    }
    if is_unknown || matches!(answer.status, Some(401 | 403)) {
        return refused(Refusal::Denied, text);
    }
    if matches!(
        answer.transport,
        Some(HttpErrorKind::Connect | HttpErrorKind::Request | HttpErrorKind::Timeout)
    ) {
        return refused(Refusal::Unreachable, text);
    }
    match error {
        Error::NotFound { .. } => io::ErrorKind::NotFound.into(),
        Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists.into(),
        Error::Precondition { .. } => io::Error::other("it changed while it was read"),
        _ => io::Error::other(text),
    }
}

/// The text of an error that has that of a request somewhere in it, of whatever crate it is.
#[cfg(feature = "slatedb")]
pub(crate) fn text_of(error: &(dyn std::error::Error + 'static)) -> String {
    let answer = Answer::parse(&error.to_string());
    match (&answer.server, &answer.code, answer.status) {
        (Some(server), None, None) => format!("{server}: {}", innermost(error)),
        _ => answer.text(error),
    }
}

/// Whether an object has no byte of the range that was asked for.
pub(super) fn is_out_of_range(error: &Error) -> bool {
    Answer::of(error).status == Some(416) || innermost(error).starts_with("Wanted range starting at")
}

/// The text of the cause of all causes, which has no request in it.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    one_line(&inner.to_string())
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(MESSAGE_CHARS_MAX).collect()
}

/// What is known of an answer, or of why there was none. The crate does not show its parts, so they are read from its text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    status: Option<u16>,
    code: Option<String>,
    message: Option<String>,
    transport: Option<HttpErrorKind>,
    server: Option<String>,
    /// Whether it was the machine that was asked, for credentials.
    asked_machine: bool,
}

impl Answer {
    fn of(error: &Error) -> Answer {
        let mut transport = None;
        let mut next = error.source();
        while let Some(cause) = next {
            transport = transport.or(cause.downcast_ref::<HttpError>().map(HttpError::kind));
            next = cause.source();
        }
        Answer {
            transport,
            ..Answer::parse(&error.to_string())
        }
    }

    fn parse(text: &str) -> Answer {
        Answer {
            status: between(text, "status code: ", " ").and_then(|digits| digits.parse().ok()),
            code: between(text, "<Code>", "</Code>").map(one_line),
            message: between(text, "<Message>", "</Message>").map(one_line),
            transport: None,
            server: server_of(text),
            asked_machine: METADATA.iter().any(|path| text.contains(path)),
        }
    }

    fn text(&self, error: &(dyn std::error::Error + 'static)) -> String {
        match (&self.code, &self.message, self.status, &self.server) {
            (Some(code), Some(message), _, _) => format!("{code}: {message}"),
            (Some(code), None, _, _) => code.clone(),
            (None, _, Some(status), _) => format!("the store answered with HTTP status {status}"),
            (None, _, None, Some(server)) if self.transport.is_some() => format!("{server}: {}", innermost(error)),
            _ => innermost(error),
        }
    }
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(behind).map(|(found, _)| found)
}

/// Scheme, host and port of the request, without a user.
fn server_of(text: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once("Error performing ")?;
    let url = rest.split(' ').nth(1)?;
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?']).next()?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Some(format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &'static str) -> Error {
        Error::Generic {
            store: "S3",
            source: text.into(),
        }
    }

    fn refusal(error: &io::Error) -> Option<Refusal> {
        let inner = error.get_ref()?.downcast_ref::<Refused>()?;
        Some(inner.refusal)
    }

    #[test]
    fn answers_are_told_by_code_and_message_and_nothing_else() {
        let cases = [
            (
                "Error performing list request: Error performing GET http://u:hidden@h:1/b?hidden in 1ms - Server returned non-2xx status \
                 code: 404 Not Found: <Error><Code>NoSuchBucket</Code><Message>The bucket\n is not there</Message><Key>hidden</Key></Error>",
                Some(Refusal::NoBucket),
                "NoSuchBucket: The bucket is not there",
            ),
            (
                "Error performing PUT http://h:1/b in 1ms - Server returned non-2xx status code: 403 Forbidden: \
                 <Error><Code>SignatureDoesNotMatch</Code><StringToSign>hidden</StringToSign></Error>",
                Some(Refusal::Denied),
                "SignatureDoesNotMatch",
            ),
            (
                "Error performing HEAD http://h:1/b in 1ms - Server returned non-2xx status code: 403 Forbidden: ",
                Some(Refusal::Denied),
                "the store answered with HTTP status 403",
            ),
            (
                "Server returned non-2xx status code: 400 Bad Request: <Code>ExpiredToken</Code><Message>It is too old</Message>",
                Some(Refusal::Denied),
                "ExpiredToken: It is too old",
            ),
            (
                "Error performing PUT http://169.254.169.254/latest/api/token in 3s, after 6 retries - HTTP error: error sending request",
                Some(Refusal::Denied),
                "the environment has no credentials, and this machine gives none",
            ),
            (
                "Server returned non-2xx status code: 503 Slow Down: hidden",
                None,
                "the store answered with HTTP status 503",
            ),
        ];
        for (text, kind, expected) in cases {
            let error = told(answered(text));
            assert_eq!(
                (refusal(&error), error.to_string().as_str()),
                (kind, expected),
                "{text}"
            );
        }
        let unknown = told_of_put(answered(
            "status code: 501 Not Implemented: <Code>NotImplemented</Code>",
        ));
        assert_eq!(refusal(&unknown), Some(Refusal::Overwrites));
        let disabled = told_of_put(Error::NotImplemented {
            operation: "put".into(),
            implementer: "S3".into(),
        });
        assert_eq!(refusal(&disabled), Some(Refusal::Overwrites));
    }

    #[cfg(feature = "slatedb")]
    #[test]
    fn errors_of_others_are_told_by_what_the_store_answered() {
        let told = |text: &'static str| text_of(&io::Error::other(text));
        let refused = "Unavailable error: object store error (Generic S3 error: Error performing PUT http://u:hidden@h:1/b in 1ms - Server \
                       returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code><Message>No</Message><Key>hidden</Key>)";
        assert_eq!(told(refused), "AccessDenied: No");
        assert_eq!(
            told("status code: 503 Slow Down: hidden"),
            "the store answered with HTTP status 503"
        );
        assert_eq!(told("the disk is full"), "the disk is full");
    }

    #[test]
    fn servers_are_told_without_users() {
        let server = |text| server_of(text).unwrap();
        assert_eq!(server("Error performing GET http://u:p@h:1/b?x in 1s"), "http://h:1");
        assert_eq!(server("Generic: Error performing GET https://h in 1s"), "https://h");
    }
}
