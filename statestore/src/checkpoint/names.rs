//! Folder names of tables: safe on every file system, and read back to the table's name.
//!
//! `schema.name`, where whatever is not a small letter, a digit, `_` or `-` is written as `%` and two digits for each byte: so
//! names that differ in case differ on file systems that do not tell, and the point between the two is the only one. Names
//! too long for a file system go on in a folder below, the one above ending in `~`.

/// Bytes of one folder's name.
const PIECE: usize = 180;

/// The folder of a table, of one level or several.
pub(super) fn folder_of(schema: &str, name: &str) -> String {
    let whole = format!("{}.{}", escaped(schema), escaped(name));
    let pieces: Vec<&str> = whole
        .as_bytes()
        .chunks(PIECE)
        .filter_map(|piece| std::str::from_utf8(piece).ok())
        .collect();
    pieces.join("~/")
}

/// Schema and name of a table whose folder this is; `None` if it is none's.
#[cfg(test)]
pub(super) fn table_of(folder: &str) -> Option<(String, String)> {
    let whole = folder.replace("~/", "");
    let (schema, name) = whole.split_once('.')?;
    let names = (unescaped(schema)?, unescaped(name)?);
    (folder_of(&names.0, &names.1) == folder).then_some(names)
}

/// A name in characters that all file systems take.
pub(super) fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => out.push(byte as char),
            byte => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

#[cfg(test)]
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
