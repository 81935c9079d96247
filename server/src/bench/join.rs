//! `cenote bench join`: an equi-join whose two inputs arrive interleaved, against a hash join of both as wholes.

use super::clock::{Spent, Stopwatch};
use super::data::{self, BATCH_ROWS, Generator, Shape};
use super::feed::{Batches, CONNECTOR, Pace, Stretch, Turns};
use super::subject::Subject;
use super::yardstick::{self, Input, Rows};
use super::{answers, block_on, disagree, median, rounded};
use arrow::array::RecordBatch;
use cenote_statestore::Result;
use serde_json::{Value, json};
use std::sync::Arc;

/// An equi-join of two streams that arrive interleaved, against DataFusion's batch hash join
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote bench join --left 1000000 --right 5000000")]
pub struct Options {
    /// Rows of the side whose keys are all different
    #[arg(long, default_value_t = 1_000_000, env = "CENOTE_BENCH_LEFT", value_parser = clap::value_parser!(u64).range(1..))]
    left: u64,
    /// Rows of the other side; each finds one
    #[arg(long, default_value_t = 5_000_000, env = "CENOTE_BENCH_RIGHT", value_parser = clap::value_parser!(u64).range(1..))]
    right: u64,
    /// Keep the joined rows as the view, instead of sums of them by a thousand keys
    #[arg(long, env = "CENOTE_BENCH_PUBLISH", value_parser = clap::builder::FalseyValueParser::new())]
    publish: bool,
    /// As in a server: what has come so far is published all the way, not at the end alone as in `cenote run`
    #[arg(long, env = "CENOTE_BENCH_SERVER", value_parser = clap::builder::FalseyValueParser::new())]
    server: bool,
    /// Worker threads of the dataflow engine
    #[arg(long, default_value_t = 1, env = "CENOTE_BENCH_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Runs of each side, alternating, after a warm-up on a tenth of the rows
    #[arg(long, default_value_t = 3, env = "CENOTE_BENCH_REPS", value_parser = clap::value_parser!(u16).range(1..))]
    reps: u16,
}

const ROWS: &str = "SELECT l.k, l.g, r.v FROM l JOIN r ON l.k = r.k";
const SUMS: &str = "SELECT l.g, count(*) AS n, sum(r.v) AS total FROM l JOIN r ON l.k = r.k GROUP BY l.g";
const CHECK_ROWS: &str = "SELECT CAST(count(*) AS varchar), CAST(sum(v) AS varchar), CAST(sum(v * (k % 1009)) AS varchar), \
                          CAST(sum(v * g) AS varchar) FROM v";
const CHECK_SUMS: &str = "SELECT CAST(count(*) AS varchar), CAST(sum(n) AS varchar), CAST(sum(total) AS varchar), \
                          CAST(sum(total * g) AS varchar) FROM v";

/// Both inputs.
struct Sides {
    left: Vec<RecordBatch>,
    right: Vec<RecordBatch>,
}

/// Measures both sides.
pub fn run(options: &Options) -> Result<Value> {
    let shape = Shape { keys: options.left };
    let left = Generator {
        schema: data::schema(&["k", "g"]),
        columns: vec![data::key_in_turn, |row, _| (data::scramble(row) % 1000) as i64],
        shape,
    };
    let right = Generator {
        schema: data::schema(&["k", "v"]),
        columns: vec![data::random_key, data::amount],
        shape,
    };
    let sides = Sides {
        left: left.batches(0..options.left, BATCH_ROWS).collect::<Result<_>>()?,
        right: right.batches(0..options.right, BATCH_ROWS).collect::<Result<_>>()?,
    };
    let tenth = |batches: &[RecordBatch]| batches[..batches.len().div_ceil(10)].to_vec();
    let warm = Sides {
        left: tenth(&sides.left),
        right: tenth(&sides.right),
    };
    block_on(async {
        pair(options, &warm).await?;
        let mut runs = Vec::new();
        for _ in 0..options.reps {
            runs.push(pair(options, &sides).await?);
        }
        Ok(line(options, &runs))
    })
}

/// Places of both inputs' batches in the order of arrival: spread evenly over each other.
fn places(left: usize, right: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut of_left, mut of_right) = (Vec::with_capacity(left), Vec::with_capacity(right));
    for place in 0..left + right {
        let left_is_behind = of_left.len() * right <= of_right.len() * left;
        match of_right.len() == right || (of_left.len() < left && left_is_behind) {
            true => of_left.push(place),
            false => of_right.push(place),
        }
    }
    (of_left, of_right)
}

fn feed(sides: &Sides) -> Batches {
    let turns = Arc::new(Turns::default());
    let (left, right) = places(sides.left.len(), sides.right.len());
    let mut feed = Batches::default();
    for (name, batches, places) in [("l", &sides.left, left), ("r", &sides.right, right)] {
        let pace = Pace::InTurn(turns.clone(), Arc::new(places));
        feed.add(name, vec![Stretch::of(batches.clone(), pace)]);
    }
    feed
}

async fn pair(options: &Options, sides: &Sides) -> Result<(Spent, Spent)> {
    let (query, check) = if options.publish {
        (ROWS, CHECK_ROWS)
    } else {
        (SUMS, CHECK_SUMS)
    };
    let answers = answers(options.server);
    let mut subject = Subject::open(usize::from(options.workers), 1, answers, feed(sides)).await?;
    subject
        .run(&format!(
            "CREATE SOURCE l (k BIGINT, g BIGINT) WITH (connector = '{CONNECTOR}'); \
             CREATE SOURCE r (k BIGINT, v BIGINT) WITH (connector = '{CONNECTOR}')"
        ))
        .await?;
    subject.release();
    let watch = Stopwatch::start();
    subject.run(&format!("CREATE MATERIALIZED VIEW v AS {query}")).await?;
    subject.wait().await?;
    let ours = watch.spent();
    let found = subject.row(check).await?;
    subject.close().await?;
    let input = |name, batches: &'_ [RecordBatch]| (name, batches[0].schema());
    let ((l, left), (r, right)) = (input("l", &sides.left), input("r", &sides.right));
    let inputs = [
        Input {
            name: l,
            schema: left,
            batches: &sides.left,
        },
        Input {
            name: r,
            schema: right,
            batches: &sides.right,
        },
    ];
    let theirs = yardstick::answer(&inputs, query, Rows::Counted).await?;
    // Outside the measured time: the rows themselves, for the comparison.
    let kept = yardstick::answer(&inputs, query, Rows::Kept).await?;
    let wanted = yardstick::row("v", &kept.batches, check).await?;
    if found != wanted || kept.rows != theirs.rows {
        return Err(disagree(&found, &wanted));
    }
    Ok((ours, theirs.spent))
}

fn line(options: &Options, runs: &[(Spent, Spent)]) -> Value {
    let rows = options.left + options.right;
    json!({
        "bench": "join", "left": options.left, "right": options.right, "workers": options.workers, "server": options.server,
        "query": if options.publish { ROWS } else { SUMS },
        "ratio_cpu": rounded(median(runs.iter().map(|(ours, theirs)| theirs.cpu.as_secs_f64() / ours.cpu.as_secs_f64()))),
        "ratio_wall": rounded(median(runs.iter().map(|(ours, theirs)| theirs.wall.as_secs_f64() / ours.wall.as_secs_f64()))),
        "cenote_cpu_us_per_row": rounded(median(runs.iter().map(|(ours, _)| ours.cpu_us_per(rows)))),
        "datafusion_cpu_us_per_row": rounded(median(runs.iter().map(|(_, theirs)| theirs.cpu_us_per(rows)))),
        "cenote": runs.iter().map(|(ours, _)| ours.json()).collect::<Vec<_>>(),
        "datafusion": runs.iter().map(|(_, theirs)| theirs.json()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_side_is_spread_over_the_larger() {
        let (left, right) = places(2, 6);
        assert_eq!(left, [0, 4]);
        assert_eq!(right, [1, 2, 3, 5, 6, 7]);
    }

    #[test]
    fn every_place_is_taken_once() {
        for (left, right) in [(1, 1), (0, 3), (3, 0), (5, 2), (123, 611)] {
            let (of_left, of_right) = places(left, right);
            let mut all: Vec<usize> = of_left.into_iter().chain(of_right).collect();
            all.sort_unstable();
            assert_eq!(all, (0..left + right).collect::<Vec<_>>());
        }
    }
}
