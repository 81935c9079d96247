//! PostgreSQL's patterns in the terms of the libraries that work with them: formats of `to_char`, `to_date` and
//! `to_timestamp` as `chrono` has them, and patterns of SIMILAR TO as regular expressions.

/// PostgreSQL's template patterns and `chrono`'s, longest first where one begins another.
const PATTERNS: [(&str, &str); 34] = [
    ("FMMonth", "%B"),
    ("FMDay", "%A"),
    ("FMHH24", "%-H"),
    ("FMHH12", "%-I"),
    ("FMHH", "%-I"),
    ("FMMM", "%-m"),
    ("FMDD", "%-d"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("am", "%P"),
    ("pm", "%P"),
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("IYYY", "%G"),
    ("IW", "%V"),
    ("Month", "%-B"),
    ("Mon", "%b"),
    ("MM", "%m"),
    ("Day", "%-A"),
    ("Dy", "%a"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("ID", "%u"),
    ("yyyy", "%Y"),
    ("mm", "%m"),
    ("dd", "%d"),
    ("hh24", "%H"),
];

/// A format of PostgreSQL as `chrono` has it.
///
/// # Returns
/// `Err`: the part that has no counterpart.
pub(super) fn chrono_format(format: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), format);
    while let Some(first) = rest.chars().next() {
        if let Some((pattern, chrono)) = PATTERNS.iter().find(|(pattern, _)| rest.starts_with(pattern)) {
            // Names of months and days are filled with blanks in PostgreSQL unless FM says otherwise.
            if matches!(*pattern, "Month" | "Day") {
                return Err(pattern.to_string());
            }
            out.push_str(chrono);
            rest = &rest[pattern.len()..];
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = quoted.split_once('"').ok_or_else(|| rest.to_string())?;
            out.push_str(&text.replace('%', "%%"));
            rest = behind;
        } else if first.is_ascii_alphabetic() {
            return Err(rest.chars().take_while(char::is_ascii_alphanumeric).collect());
        } else {
            out.push_str(if first == '%' { "%%" } else { &rest[..first.len_utf8()] });
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(out)
}

/// A pattern of SIMILAR TO as a regular expression over the whole text.
pub(crate) fn regex_of_similar(pattern: &str, escape: char) -> String {
    let mut regex = String::from("^(?:");
    let (mut characters, mut in_brackets) = (pattern.chars(), false);
    while let Some(character) = characters.next() {
        match character {
            _ if character == escape => {
                if let Some(escaped) = characters.next() {
                    push_literal(&mut regex, escaped);
                }
            }
            '[' => {
                in_brackets = true;
                regex.push('[');
            }
            ']' => {
                in_brackets = false;
                regex.push(']');
            }
            _ if in_brackets => regex.push(character),
            '%' => regex.push_str("(?s:.*)"),
            '_' => regex.push_str("(?s:.)"),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => regex.push(character),
            other => push_literal(&mut regex, other),
        }
    }
    regex.push_str(")$");
    regex
}

fn push_literal(regex: &mut String, character: char) {
    if r".^$\|*+?{}()[]".contains(character) {
        regex.push('\\');
    }
    regex.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_become_chronos() {
        assert_eq!(
            chrono_format("YYYY-MM-DD HH24:MI:SS.US").as_deref(),
            Ok("%Y-%m-%d %H:%M:%S.%6f")
        );
        assert_eq!(chrono_format("DD Mon YYYY").as_deref(), Ok("%d %b %Y"));
        assert_eq!(chrono_format("\"week\" IW 100%").as_deref(), Ok("week %V 100%%"));
        assert_eq!(chrono_format("YYYY Q").as_deref(), Err(&"Q".to_string()));
    }

    #[test]
    fn similar_patterns_match_the_whole_text() {
        assert_eq!(regex_of_similar("(a|b)%", '\\'), "^(?:(a|b)(?s:.*))$");
        assert_eq!(regex_of_similar("a.c_", '\\'), "^(?:a\\.c(?s:.))$");
        assert_eq!(regex_of_similar("10\\%", '\\'), "^(?:10%)$");
    }
}
