//! Figures of engine and catalog for `/metrics`.

use super::read::contents;
use super::{Database, Metric};
use crate::catalog::Object;

impl Database {
    /// Figures of engine and catalog.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![Metric {
            name: "cenote_epoch",
            help: "Newest epoch that can be read.",
            kind: "gauge",
            labels: Vec::new(),
            value: self.epoch().0 as f64,
        }];
        let mut add = |name, help, kind, label, value: String, figure: u64| {
            metrics.push(Metric {
                name,
                help,
                kind,
                labels: vec![(label, value)],
                value: figure as f64,
            });
        };
        for source in self.sources.progress() {
            let name = || source.name.clone();
            add(
                "cenote_source_rows_total",
                "Rows read by a source.",
                "counter",
                "source",
                name(),
                source.rows(),
            );
            add(
                "cenote_source_bad_rows_total",
                "Rows that could not be read.",
                "counter",
                "source",
                name(),
                source.bad_rows(),
            );
            add(
                "cenote_source_bytes_total",
                "Bytes read by a source.",
                "counter",
                "source",
                name(),
                source.bytes(),
            );
            add(
                "cenote_source_expected_bytes",
                "Bytes there are to read, as far as known.",
                "gauge",
                "source",
                name(),
                source.bytes_expected(),
            );
        }
        for sink in self.sinks.progress() {
            let name = || sink.name.clone();
            let lag = self.epoch().0.saturating_sub(sink.epoch().0);
            let failed = sink.failure().is_some() as u64;
            let figures = [
                (
                    "cenote_sink_rows_total",
                    "Rows inserted and deleted that a sink has written.",
                    "counter",
                    sink.rows(),
                ),
                (
                    "cenote_sink_bytes_total",
                    "Bytes written by a sink.",
                    "counter",
                    sink.bytes(),
                ),
                (
                    "cenote_sink_epoch_lag",
                    "Epochs that can be read and that a sink has not committed.",
                    "gauge",
                    lag,
                ),
                ("cenote_sink_failed", "1 if a sink has failed.", "gauge", failed),
            ];
            for (metric, help, kind, figure) in figures {
                add(metric, help, kind, "sink", name(), figure);
            }
        }
        for object in self.catalog().objects() {
            if let Some((table, _, _)) = contents(object) {
                let statistics = table.statistics();
                let name = || object.name().to_string();
                add(
                    "cenote_rows",
                    "Rows of a table or view.",
                    "gauge",
                    "name",
                    name(),
                    statistics.rows,
                );
                add(
                    "cenote_memory_bytes",
                    "Bytes of memory of a table or view.",
                    "gauge",
                    "name",
                    name(),
                    statistics.bytes,
                );
            }
            if let Object::MaterializedView(view) = object {
                let failed = view.status.failure().is_some() as u64;
                add(
                    "cenote_view_failed",
                    "1 if a view has failed.",
                    "gauge",
                    "name",
                    object.name().to_string(),
                    failed,
                );
                add(
                    "cenote_view_row_errors",
                    "Rows of a view's inputs that its expressions fail on now.",
                    "gauge",
                    "name",
                    object.name().to_string(),
                    view.errors.as_ref().map_or(0, |errors| errors.statistics().rows),
                );
            }
        }
        metrics.extend(self.checkpoint_metrics());
        metrics
    }

    fn checkpoint_metrics(&self) -> Vec<Metric> {
        let progress = self.checkpointer.progress();
        let of = |name, help, kind, labels, value| Metric {
            name,
            help,
            kind,
            labels,
            value,
        };
        let counts = [("published", progress.published), ("failed", progress.failed)];
        let mut metrics: Vec<Metric> = counts
            .into_iter()
            .map(|(outcome, count)| {
                let labels = vec![("outcome", outcome.to_string())];
                let help = "Checkpoints taken since the start, by how they went.";
                of("cenote_checkpoints_total", help, "counter", labels, count as f64)
            })
            .collect();
        if let Some(last) = progress.last {
            let mut add = |name, help, value| metrics.push(of(name, help, "gauge", Vec::new(), value));
            add(
                "cenote_checkpoint_epoch",
                "Epoch of the newest checkpoint.",
                last.epoch as f64,
            );
            add(
                "cenote_checkpoint_age_seconds",
                "Time since the newest checkpoint.",
                last.at.elapsed().as_secs_f64(),
            );
            add(
                "cenote_checkpoint_duration_seconds",
                "Time that the newest checkpoint took.",
                last.took.as_secs_f64(),
            );
            add(
                "cenote_checkpoint_new_bytes",
                "Bytes that were written for the newest checkpoint.",
                last.bytes_new as f64,
            );
        }
        metrics
    }
}
