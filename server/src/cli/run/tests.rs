//! Printing, and finding one's way in SQL text.

use super::*;
use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use futures::stream;

fn batch(values: &[i64]) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter([("v", values)]).unwrap()
}

/// Records each write apart.
#[derive(Default)]
struct Writes(Vec<String>);

impl Write for &mut Writes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push(String::from_utf8(bytes.to_vec()).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn rows_that_are_there_are_written_before_waiting_for_more() {
    let mut writes = Writes::default();
    let mut printer = Printer {
        used: false,
        output: Output::new(&mut writes, Line::default()),
        format: Format::Ndjson,
    };
    let ready = stream::iter([Ok(batch(&[1])), Ok(batch(&[2]))]);
    let late = stream::once(async {
        tokio::task::yield_now().await;
        Ok(batch(&[3]))
    });
    printer
        .rows(&batch(&[]).schema(), ready.chain(late).boxed())
        .await
        .unwrap();
    assert_eq!(writes.0, ["{\"v\":1}\n{\"v\":2}\n", "{\"v\":3}\n"]);
}

#[tokio::test]
async fn rows_before_a_failure_are_printed() {
    let mut writes = Writes::default();
    let mut printer = Printer {
        used: false,
        output: Output::new(&mut writes, Line::default()),
        format: Format::Ndjson,
    };
    let batches = stream::iter([Ok(batch(&[1])), Err(Error::bug("broken"))]).boxed();
    let error = printer.rows(&batch(&[]).schema(), batches).await.unwrap_err();
    printer.output.flush().unwrap();
    assert_eq!(error.message(), "broken");
    assert_eq!(writes.0, ["{\"v\":1}\n"]);
}

#[test]
fn errors_with_a_position_show_the_line_and_a_caret() {
    let error = Error::new(ErrorKind::Invalid, "SQL-0007", "cannot find column `totl`").position(13 + 10);
    let shown = locate(error, "SELECT usr,\n   total, totl FROM t").render();
    let expected = "error[SQL-0007]: cannot find column `totl`\n  line: 2:    total, totl FROM t\n  here: ";
    assert_eq!(shown, format!("{expected}{}^", " ".repeat("2:    total, ".len())));
    let bare = Error::new(ErrorKind::Invalid, "SQL-0007", "cannot parse");
    assert_eq!(locate(bare, "SELECT").render(), "error[SQL-0007]: cannot parse");
}
