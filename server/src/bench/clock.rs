//! What a stretch of work costs: CPU of the whole process, wall time, resident memory.

use super::rounded;
use cenote_statestore::{Error, Result};
use cpu_time::ProcessTime;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// CPU and wall time since a moment.
pub struct Stopwatch {
    cpu: ProcessTime,
    wall: Instant,
}

/// What a stretch of work cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// CPU time of the process, user and system, all threads.
    pub cpu: Duration,
    /// Wall time.
    pub wall: Duration,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch {
            cpu: ProcessTime::now(),
            wall: Instant::now(),
        }
    }

    /// What was spent since the start.
    pub fn spent(&self) -> Spent {
        Spent {
            cpu: self.cpu.elapsed(),
            wall: self.wall.elapsed(),
        }
    }
}

impl Spent {
    /// CPU microseconds for each of `rows`.
    pub fn cpu_us_per(&self, rows: u64) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / rows.max(1) as f64
    }

    /// As a JSON object.
    pub fn json(&self) -> Value {
        json!({"cpu_s": rounded(self.cpu.as_secs_f64()), "wall_s": rounded(self.wall.as_secs_f64())})
    }
}

/// Memory of this process that is resident, in bytes.
///
/// # Errors
/// `Unavailable`: the operating system does not tell in `/proc`.
pub fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10)
        .ok_or_else(|| Error::bug("cannot read VmRSS in /proc/self/status"))
}

/// The value below which `part` of some durations are, in microseconds.
pub fn percentile_us(sorted: &[Duration], part: f64) -> f64 {
    let place = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
    sorted
        .get(place)
        .map_or(f64::NAN, |found| rounded(found.as_secs_f64() * 1e6))
}
