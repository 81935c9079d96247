//! The progress line of `cenote run`: rows, rows per second, bytes of total, once a second on stderr.
//!
//! Shown only when stderr is a terminal, and only from the second second on.

use cenote_query::{Database, Metric};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Counter: rows read from all sources.
const ROWS: &str = "cenote_source_rows_total";
/// Counter: bytes read from all sources.
const BYTES: &str = "cenote_source_bytes_total";
/// Gauge: bytes that the bounded sources hold in all.
const EXPECTED: &str = "cenote_source_expected_bytes";

/// Whether a progress line stands on the terminal.
#[derive(Clone, Default)]
pub struct Line(Arc<AtomicBool>);

impl Line {
    fn show(&self, text: &str) {
        self.0.store(true, Ordering::Relaxed);
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }

    /// Removes the line if it stands there.
    pub fn wipe(&self) {
        if self.0.swap(false, Ordering::Relaxed) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The thread that shows progress; dropping it removes the line.
pub struct Progress {
    line: Line,
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts showing progress if stderr is a terminal.
    pub fn start(database: &Arc<Database>, line: Line) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress { line, thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let (database, shown) = (database.clone(), line.clone());
        let spawned = std::thread::Builder::new()
            .name("cenote-progress".into())
            .spawn(move || {
                let mut reading = Reading {
                    at: Instant::now(),
                    rows: 0.0,
                };
                while stopped.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                    if let Some(text) = reading.advance(&database.metrics(), Instant::now()) {
                        shown.show(&text);
                    }
                }
            });
        Progress {
            line,
            thread: spawned.ok().map(|thread| (stop, thread)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
        self.line.wipe();
    }
}

/// The last reading of the counters.
struct Reading {
    at: Instant,
    rows: f64,
}

fn total(metrics: &[Metric], name: &str) -> f64 {
    metrics
        .iter()
        .filter(|metric| metric.name == name)
        .map(|metric| metric.value)
        .sum()
}

impl Reading {
    /// The text to show; `None` when no row came since the last reading.
    fn advance(&mut self, metrics: &[Metric], now: Instant) -> Option<String> {
        let rows = total(metrics, ROWS);
        let seconds = now.duration_since(self.at).as_secs_f64().max(0.001);
        let rate = (rows - self.rows) / seconds;
        let moved = rows > self.rows;
        *self = Reading { at: now, rows };
        if !moved {
            return None;
        }
        let (bytes, expected) = (total(metrics, BYTES), total(metrics, EXPECTED));
        let share = if expected > 0.0 {
            format!(
                " of {} ({:.0}%)",
                short(expected),
                (bytes / expected * 100.0).min(100.0)
            )
        } else {
            String::new()
        };
        Some(format!(
            "{} rows, {} rows/s, {}B{share}",
            short(rows),
            short(rate),
            short(bytes)
        ))
    }
}

/// A number in at most five characters: `1.2M`.
fn short(number: f64) -> String {
    let units = ["", "k", "M", "G", "T"];
    let (mut number, mut unit) = (number, 0);
    while number >= 1000.0 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    if unit == 0 || number >= 100.0 {
        format!("{number:.0}{}", units[unit])
    } else {
        format!("{number:.1}{}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &'static str, value: f64) -> Metric {
        Metric {
            name,
            help: "",
            kind: "counter",
            labels: Vec::new(),
            value,
        }
    }

    #[test]
    fn progress_tells_rows_rate_and_share_of_the_bytes() {
        let start = Instant::now();
        let mut reading = Reading {
            at: start,
            rows: 1_000_000.0,
        };
        let metrics = [
            metric(ROWS, 2_000_000.0),
            metric(ROWS, 1_500_000.0),
            metric(BYTES, 5e8),
            metric(EXPECTED, 1e9),
        ];
        let text = reading.advance(&metrics, start + Duration::from_secs(2));
        assert_eq!(text.as_deref(), Some("3.5M rows, 1.2M rows/s, 500MB of 1.0G (50%)"));
        assert_eq!(
            reading.advance(&metrics, start + Duration::from_secs(3)),
            None,
            "nothing moved"
        );
    }
}
