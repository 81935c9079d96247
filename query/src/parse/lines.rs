//! Places in a script: the tokenizer's lines and columns as characters and bytes.
//!
//! # Rules kept here
//! Tokens that go into a syntax tree are placed by the characters of their own statement, all on line 1 (see
//! [`place_from`]). So the column of any node's span is the position that an error tells a client.

use datafusion::sql::sqlparser::tokenizer::{Location, Span, TokenWithSpan};

/// Where the lines of a text start.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<Start>,
}

#[derive(Clone, Copy)]
struct Start {
    byte: usize,
    character: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Lines<'a> {
        let mut starts = vec![Start { byte: 0, character: 0 }];
        let ends = text.char_indices().enumerate().filter(|(_, (_, c))| *c == '\n');
        starts.extend(ends.map(|(character, (byte, _))| Start {
            byte: byte + 1,
            character: character + 1,
        }));
        Lines { text, starts }
    }

    /// The line's start and how many characters after it a location stands. What has no place stands at the end.
    fn locate(&self, location: Location) -> Option<(Start, usize)> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(location.column).ok()?.saturating_sub(1);
        Some((*self.starts.get(line)?, column))
    }

    /// 1-based character position of a location.
    pub(super) fn position(&self, location: Location) -> usize {
        match self.locate(location) {
            Some((start, column)) => start.character + column + 1,
            None => self.text.chars().count() + 1,
        }
    }

    /// Byte offset of a location.
    pub(super) fn offset(&self, location: Location) -> usize {
        let Some((start, column)) = self.locate(location) else {
            return self.text.len();
        };
        let mut characters = self.text[start.byte..].char_indices();
        characters
            .nth(column)
            .map_or(self.text.len(), |(at, _)| start.byte + at)
    }

    /// Tokens placed by their characters, counted from 1 at the script's position `first`.
    pub(super) fn place_from(&self, first: usize, tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
        let placed = |location| Location {
            line: 1,
            column: (self.position(location) + 1).saturating_sub(first) as u64,
        };
        let place = |token: &TokenWithSpan| TokenWithSpan {
            token: token.token.clone(),
            span: Span::new(placed(token.span.start), placed(token.span.end)),
        };
        tokens.iter().map(place).collect()
    }
}
