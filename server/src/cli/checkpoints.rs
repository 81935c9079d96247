//! `cenote checkpoint` and `cenote savepoint`: what CHECKPOINT, CREATE SAVEPOINT and DROP SAVEPOINT do, asked of a server over HTTP.

use super::output::Output;
use super::progress::Line;
use super::state::{Client, query};
use crate::encode::Format;
use cenote_statestore::Result;
use clap::{Args, Subcommand};

/// Take a checkpoint of a server now
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  cenote checkpoint --url http://127.0.0.1:8080")]
pub struct CheckpointOptions {
    #[command(flatten)]
    server: Server,
}

/// Named checkpoints that are kept until dropped
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cenote savepoint create before_upgrade
  cenote savepoint ls
  cenote savepoint drop before_upgrade")]
pub struct SavepointOptions {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    command: SavepointCommand,
}

#[derive(Args, Debug)]
struct Server {
    /// Address of the server
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "CENOTE_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    url: String,
    /// How lists are printed
    #[arg(long, global = true, value_enum, default_value = "table", env = "CENOTE_FORMAT")]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum SavepointCommand {
    /// Take a checkpoint and keep it under a name
    #[command(after_help = "Example:\n  cenote savepoint create before_upgrade")]
    Create {
        /// The name
        name: String,
    },
    /// List the savepoints
    #[command(after_help = "Example:\n  cenote savepoint ls --format ndjson")]
    Ls,
    /// Forget a name; its checkpoint is then one like others
    #[command(after_help = "Example:\n  cenote savepoint drop before_upgrade")]
    Drop {
        /// The name
        name: String,
        /// Do not mind if there is none
        #[arg(long, env = "CENOTE_IF_EXISTS", value_parser = clap::builder::FalseyValueParser::new())]
        if_exists: bool,
    },
}

const COLUMNS: &str = "id, savepoint, epoch, time, tables, bytes";

/// Takes a checkpoint and prints it.
///
/// # Errors
/// `Unavailable`: no server there. Otherwise what the server answered.
pub fn checkpoint(options: &CheckpointOptions) -> Result<()> {
    let run = options.server.runner();
    run("CHECKPOINT")?;
    run(&format!(
        "SELECT {COLUMNS} FROM cenote_catalog.checkpoints ORDER BY id DESC LIMIT 1"
    ))
}

/// Makes, lists or forgets savepoints.
///
/// # Errors
/// As of [`checkpoint`].
pub fn savepoint(options: &SavepointOptions) -> Result<()> {
    let run = options.server.runner();
    match &options.command {
        SavepointCommand::Create { name } => run(&format!("CREATE SAVEPOINT {}", quoted(name))),
        SavepointCommand::Ls => run(&format!(
            "SELECT {COLUMNS} FROM cenote_catalog.checkpoints WHERE savepoint IS NOT NULL ORDER BY id"
        )),
        SavepointCommand::Drop { name, if_exists } => {
            let if_exists = if *if_exists { "IF EXISTS " } else { "" };
            run(&format!("DROP SAVEPOINT {if_exists}{}", quoted(name)))
        }
    }
}

impl Server {
    fn runner(&self) -> impl Fn(&str) -> Result<()> {
        let (client, format) = (Client::new(&self.url), self.format);
        move |sql| query(&client, sql, format, &mut Output::stdout(Line::default()))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
