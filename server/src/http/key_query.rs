//! The query string of a lookup: `key=V`, or `column=V` for each column.
//!
//! # Not here
//! What a text means as a value of its column: `cenote_query::pgtext`. How a refusal is answered: `lookup`.

/// Name of the parameter whose value is the key, whatever the key's column is called.
pub const KEY: &str = "key";
/// Name of the parameter that says how numbers are answered.
pub const NUMBERS: &str = "numbers";

/// What a query string names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeyQuery {
    /// The columns, in the order given; none if the values were given as `key`.
    pub columns: Vec<String>,
    /// The values, in the order given.
    pub key: Vec<Option<String>>,
    /// The values of `numbers`, in the order given.
    pub numbers: Vec<String>,
}

/// Both `key` and these columns are given.
#[derive(Debug, PartialEq, Eq)]
pub struct Both(pub Vec<String>);

impl KeyQuery {
    /// Reads a query string. A name in double quotes is always a column's.
    ///
    /// # Errors
    /// `key` and columns are given together.
    pub fn parse(query: Option<&str>) -> Result<KeyQuery, Both> {
        let mut read = KeyQuery::default();
        let mut keys = 0;
        for (name, value) in form_urlencoded::parse(query.unwrap_or("").as_bytes()) {
            match name.as_ref() {
                NUMBERS => {
                    read.numbers.push(value.into_owned());
                    continue;
                }
                KEY => keys += 1,
                quoted if quoted.len() > 2 && quoted.starts_with('"') && quoted.ends_with('"') => {
                    read.columns.push(quoted[1..quoted.len() - 1].to_owned());
                }
                plain => read.columns.push(plain.to_owned()),
            }
            read.key.push(Some(value.into_owned()));
        }
        if keys > 0 && !read.columns.is_empty() {
            return Err(Both(read.columns));
        }
        Ok(read)
    }
}
