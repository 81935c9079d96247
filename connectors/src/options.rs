//! `WITH (...)` options against the table of what a connector takes.

use crate::rows::nearest;
use cenote_engine::port::{OptionSpec, Options};
use cenote_statestore::{Error, ErrorKind, Result};

/// Checks names, required options and closed sets of values.
///
/// # Errors
/// `Invalid`: CONN-0001 for an unknown name (with the nearest one), CONN-0002 for a missing option,
/// CONN-0003 for a bad value (with those accepted).
pub(crate) fn check(object: &str, specs: &[OptionSpec], options: &Options) -> Result<()> {
    for (name, value) in options.iter().filter(|(name, _)| *name != "connector") {
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
            return Err(unknown(object, specs, name));
        };
        if !spec.values.is_empty() && !spec.values.contains(&value.as_str()) {
            let attempt = match nearest(value, spec.values.iter().copied()) {
                Some(near) => format!("write {name} = '{near}'"),
                None => format!("write {name} = '{}'", spec.values[0]),
            };
            return Err(
                bad_value(object, name, value, &format!("accepted: {}", spec.values.join(", "))).attempt(attempt),
            );
        }
    }
    match specs
        .iter()
        .find(|spec| spec.required && !options.contains_key(spec.name))
    {
        Some(spec) => Err(missing(object, spec)),
        None => Ok(()),
    }
}

fn unknown(object: &str, specs: &[OptionSpec], name: &str) -> Error {
    let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    let error = Error::new(
        ErrorKind::Invalid,
        "CONN-0001",
        format!("cannot create `{object}`: there is no option `{name}`"),
    )
    .sqlstate("22023")
    .fact("options", names.join(", "));
    match nearest(name, names.iter().copied()) {
        Some(near) => error.attempt(format!("did you mean `{near}`?")),
        None => error.attempt("take the option out"),
    }
}

fn missing(object: &str, spec: &OptionSpec) -> Error {
    let example = spec.values.first().copied().unwrap_or("...");
    Error::new(
        ErrorKind::Invalid,
        "CONN-0002",
        format!("cannot create `{object}`: the option `{}` is missing", spec.name),
    )
    .sqlstate("22023")
    .fact("meaning", spec.help)
    .attempt(format!("add {} = '{example}'", spec.name))
}

/// CONN-0003: a value that an option does not take; `accepted` says which it does.
pub(crate) fn bad_value(object: &str, name: &str, value: &str, accepted: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "CONN-0003",
        format!("cannot create `{object}`: option `{name}` does not take '{value}'; {accepted}"),
    )
    .sqlstate("22023")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[OptionSpec] = &[
        OptionSpec {
            name: "path",
            help: "Where.",
            required: true,
            values: &[],
        },
        OptionSpec {
            name: "format",
            help: "How.",
            required: false,
            values: &["json", "csv"],
        },
    ];

    fn checked(options: &[(&str, &str)]) -> Result<()> {
        let options = options
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        check("t", SPECS, &options)
    }

    #[test]
    fn a_misspelt_option_is_refused_with_the_nearest_name() {
        assert!(checked(&[("connector", "file"), ("path", "x"), ("format", "csv")]).is_ok());
        let error = checked(&[("path", "x"), ("fromat", "csv")]).unwrap_err();
        assert_eq!(
            error.render(),
            "error[CONN-0001]: cannot create `t`: there is no option `fromat`\n  options: path, format\n      try: did you mean `format`?"
        );
    }

    #[test]
    fn a_missing_option_and_a_bad_value_are_refused_by_name() {
        assert_eq!(
            checked(&[]).unwrap_err().render(),
            "error[CONN-0002]: cannot create `t`: the option `path` is missing\n  meaning: Where.\n      try: add path = '...'"
        );
        assert_eq!(
            checked(&[("path", "x"), ("format", "jsn")]).unwrap_err().render(),
            "error[CONN-0003]: cannot create `t`: option `format` does not take 'jsn'; accepted: json, csv\n  try: write format = 'json'"
        );
    }
}
