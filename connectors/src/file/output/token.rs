//! What a transaction of a file sink is, as text.

use cenote_statestore::{Error, Result};
use serde_json::{Value, json};

/// What is prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Files to publish.
    pub(super) whole: Vec<Whole>,
    /// A file that more is added to.
    pub(super) open: Option<Open>,
    /// The number of the next file.
    pub(super) next: u64,
}

/// A file that is staged whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) number: u64,
    pub(super) bytes: u64,
}

/// A file that is not full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) rows: u64,
    pub(super) epochs: u64,
}

impl Default for Token {
    fn default() -> Token {
        Token {
            whole: Vec::new(),
            open: None,
            next: 1,
        }
    }
}

impl Token {
    /// As text: `{"files":[{"number","bytes"}],"open":{"number","bytes","rows","epochs"},"next"}`.
    pub(super) fn write(&self) -> String {
        let files = self
            .whole
            .iter()
            .map(|file| json!({ "number": file.number, "bytes": file.bytes }));
        let open = self.open.as_ref().map(
            |open| json!({ "number": open.number, "bytes": open.bytes, "rows": open.rows, "epochs": open.epochs }),
        );
        json!({ "files": files.collect::<Vec<_>>(), "open": open, "next": self.next }).to_string()
    }

    /// Reads the text again.
    ///
    /// # Errors
    /// `Bug`: it is no token.
    pub(super) fn read(text: &str) -> Result<Token> {
        let strange = || Error::bug(format!("a file sink has the token {text:?}"));
        let value: Value = serde_json::from_str(text).map_err(|_| strange())?;
        let number = |value: &Value, name: &str| value[name].as_u64().ok_or_else(strange);
        let files = value["files"].as_array().ok_or_else(strange)?;
        let whole = files.iter().map(|file| {
            Ok(Whole {
                number: number(file, "number")?,
                bytes: number(file, "bytes")?,
            })
        });
        let open = match &value["open"] {
            Value::Null => None,
            open => Some(Open {
                number: number(open, "number")?,
                bytes: number(open, "bytes")?,
                rows: number(open, "rows")?,
                epochs: number(open, "epochs")?,
            }),
        };
        Ok(Token {
            whole: whole.collect::<Result<_>>()?,
            open,
            next: number(&value, "next")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token = Token {
            whole: vec![Whole { number: 3, bytes: 10 }],
            open: Some(Open {
                number: 4,
                bytes: 7,
                rows: 2,
                epochs: 1,
            }),
            next: 5,
        };
        for token in [token, Token::default()] {
            assert_eq!(Token::read(&token.write()).unwrap(), token);
        }
        for text in ["", "{}", "[]", "{\"files\":[{}],\"next\":1}"] {
            assert!(Token::read(text).is_err(), "{text}");
        }
    }
}
