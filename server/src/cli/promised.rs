//! Commands whose names are promised and that are not built yet: they say so, whatever their arguments.

use cenote_statestore::{Error, ErrorKind, Result};

/// Any arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Arguments of the command
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS",
        hide = true
    )]
    arguments: Vec<std::ffi::OsString>,
}

/// The error of a command that is not built.
pub fn refuse(command: &str) -> Result<()> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "CLI-0001",
        format!("cannot run `cenote {command}`: not supported yet"),
    )
    .fact("supported", "run, serve, state, checkpoint, savepoint, verify, bench"))
}
