//! Runs this program again for a figure that needs a process of its own: memory, whatever was allocated before.

use cenote_statestore::{Error, Result};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Runs `cenote bench` with arguments in a process of its own.
///
/// # Returns
/// Its line.
///
/// # Errors
/// It failed; what it says went to stderr.
pub fn bench(arguments: &[String]) -> Result<Value> {
    let output = Command::new(std::env::current_exe()?)
        .arg("bench")
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()?;
    let failed = |reason: String| {
        Error::bug(format!("cannot measure in a process of its own: {reason}"))
            .fact("command", format!("cenote bench {}", arguments.join(" ")))
    };
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// A figure of a child's line; absent ones are no number.
pub fn figure(line: &Value, pointer: &str) -> f64 {
    line.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
}
