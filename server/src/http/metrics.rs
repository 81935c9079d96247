//! `/metrics`: figures of the database and of this door, in Prometheus' text format.

use super::App;
use super::respond;
use super::routes::{LOOKUP, ROUTES};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::Next;
use cenote_query::Metric;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Status classes that are counted apart.
const CLASSES: [&str; 3] = ["2xx", "4xx", "5xx"];

/// Counters of one route.
#[derive(Default)]
struct RouteFigures {
    requests: [AtomicU64; CLASSES.len()],
    nanoseconds: AtomicU64,
}

/// Counters of this door.
pub struct Figures {
    routes: Vec<RouteFigures>,
    /// The route of lookups of one key.
    lookups: usize,
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections refused because there were too many.
    pub refused: AtomicU64,
}

impl Default for Figures {
    fn default() -> Figures {
        let routes = ROUTES.iter().map(|_| RouteFigures::default()).collect();
        let lookups = ROUTES.iter().position(|route| route.path == LOOKUP);
        Figures {
            routes,
            lookups: lookups.expect("lookups have a route"),
            connections: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl Figures {
    /// Counts a lookup of one key that found its row.
    pub fn count_lookup(&self, since: Instant) {
        self.count(self.lookups, StatusCode::OK, since);
    }

    fn count(&self, route: usize, status: StatusCode, since: Instant) {
        let class = match status.as_u16() {
            500.. => 2,
            400.. => 1,
            _ => 0,
        };
        let figures = &self.routes[route];
        figures.requests[class].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        figures.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn metrics(&self) -> Vec<Metric> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let mut metrics = vec![
            metric(
                "cenote_http_connections",
                "gauge",
                "Open connections.",
                Vec::new(),
                read(&self.connections),
            ),
            metric(
                "cenote_http_connections_refused_total",
                "counter",
                "Connections refused, too many being open.",
                Vec::new(),
                read(&self.refused),
            ),
        ];
        for (route, figures) in ROUTES.iter().zip(&self.routes) {
            let labels = vec![
                ("method", route.method.name().to_owned()),
                ("route", route.path.to_owned()),
            ];
            for (class, requests) in CLASSES
                .iter()
                .zip(&figures.requests)
                .filter(|(_, requests)| read(requests) > 0.0)
            {
                let mut labels = labels.clone();
                labels.push(("status", (*class).to_owned()));
                metrics.push(metric(
                    "cenote_http_requests_total",
                    "counter",
                    "Requests answered.",
                    labels,
                    read(requests),
                ));
            }
            let seconds = read(&figures.nanoseconds) / 1e9;
            if seconds > 0.0 {
                let help = "Time until requests were answered, streamed bodies excluded.";
                metrics.push(metric(
                    "cenote_http_request_seconds_total",
                    "counter",
                    help,
                    labels,
                    seconds,
                ));
            }
        }
        metrics
    }
}

fn metric(
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
) -> Metric {
    Metric {
        name,
        help,
        kind,
        labels,
        value,
    }
}

/// Counts a request of route number `route`.
pub async fn observe(State((app, route)): State<(App, usize)>, request: Request, next: Next) -> Response<Body> {
    let since = Instant::now();
    let response = next.run(request).await;
    app.figures().count(route, response.status(), since);
    response
}

/// Answers with all figures.
pub async fn metrics(State(app): State<App>) -> Response<Body> {
    let mut metrics = app.database().metrics();
    metrics.extend(app.figures().metrics());
    respond::of_type(
        "text/plain; version=0.0.4; charset=utf-8",
        None,
        Body::from(prometheus(metrics)),
    )
}

/// Writes figures, those of one name together.
fn prometheus(mut metrics: Vec<Metric>) -> String {
    metrics.sort_by_key(|metric| metric.name);
    let mut text = String::new();
    let mut last = "";
    for metric in &metrics {
        if metric.name != last {
            let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "# HELP {0} {help}\n# TYPE {0} {1}", metric.name, metric.kind);
            last = metric.name;
        }
        text.push_str(metric.name);
        for (index, (label, value)) in metric.labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{}{label}=\"{value}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(
            text,
            "{} {}",
            if metric.labels.is_empty() { "" } else { "}" },
            metric.value
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_name_stand_together_under_one_head() {
        let metrics = vec![
            metric("cenote_rows", "gauge", "Rows.", vec![("view", "a\"b".into())], 2.0),
            metric("cenote_epoch", "gauge", "Newest epoch.", Vec::new(), 7.0),
            metric(
                "cenote_rows",
                "gauge",
                "Rows.",
                vec![("view", "c".into()), ("kind", "d".into())],
                0.5,
            ),
        ];
        let expected = "# HELP cenote_epoch Newest epoch.\n# TYPE cenote_epoch gauge\ncenote_epoch 7\n\
            # HELP cenote_rows Rows.\n# TYPE cenote_rows gauge\ncenote_rows{view=\"a\\\"b\"} 2\ncenote_rows{view=\"c\",kind=\"d\"} 0.5\n";
        assert_eq!(prometheus(metrics), expected);
    }

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let figures = Figures::default();
        figures.count(0, StatusCode::OK, Instant::now());
        figures.count(0, StatusCode::NOT_FOUND, Instant::now());
        let text = prometheus(figures.metrics());
        assert!(
            text.contains(&format!("route=\"{}\",status=\"2xx\"}} 1", ROUTES[0].path)),
            "{text}"
        );
        assert!(text.contains("status=\"4xx\"} 1"), "{text}");
    }
}
