//! Parsing of command lines.

use super::*;
use clap::CommandFactory;

#[test]
fn command_line_is_well_formed() {
    Cli::command().debug_assert();
}

fn each_command(command: &clap::Command, visit: &mut dyn FnMut(&clap::Command)) {
    visit(command);
    command
        .get_subcommands()
        .for_each(|command| each_command(command, visit));
}

#[test]
fn every_command_has_an_example() {
    each_command(&Cli::command(), &mut |command| {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Example"), "`{}` has no example", command.get_name());
        assert!(
            command.get_about().is_some(),
            "`{}` does not say what it does",
            command.get_name()
        );
    });
}

#[test]
fn every_option_has_an_environment_variable() {
    let without = ["from", "data_dir"];
    each_command(&Cli::command(), &mut |command| {
        let of_state = command.get_name() == "state";
        for option in command
            .get_opts()
            .filter(|option| !(of_state && without.contains(&option.get_id().as_str())))
        {
            let variable = option.get_env().and_then(|name| name.to_str()).unwrap_or_default();
            assert!(
                variable.starts_with("CENOTE_"),
                "`{} --{}`",
                command.get_name(),
                option.get_id()
            );
        }
    });
}

#[test]
fn promised_commands_take_any_arguments_and_refuse() {
    for arguments in [
        vec!["sql", "-c", "SELECT 1"],
        vec!["capture", "ls", "--name", "x"],
        vec!["why", "v", "k"],
    ] {
        assert!(Cli::try_parse_from(["cenote"].into_iter().chain(arguments)).is_ok());
    }
    let error = promised::refuse("sql").unwrap_err();
    assert_eq!(error.message(), "cannot run `cenote sql`: not supported yet");
}

#[test]
fn unknown_options_are_refused() {
    assert!(Cli::try_parse_from(["cenote", "serve", "--htpp", "x"]).is_err());
    assert!(Cli::try_parse_from(["cenote", "run", "--format", "xml", "-e", "SELECT 1"]).is_err());
    assert!(Cli::try_parse_from(["cenote", "run", "--workers", "0", "-e", "SELECT 1"]).is_err());
}

#[test]
fn a_runtime_that_cannot_start_is_told_with_the_reason() {
    let error = no_runtime(std::io::Error::from(std::io::ErrorKind::OutOfMemory));
    assert_eq!(
        error.render(),
        "error[CLI-0006]: cannot start the async runtime: out of memory"
    );
}
