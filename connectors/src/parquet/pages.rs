//! A Parquet file's footer and pages, checked against the bytes that are there before they are believed.

use super::thrift::{delta_block, footer_is_whole, page_sizes};
use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const TAIL_BYTES: u64 = 8;
/// Bytes read for a page header at first, and at most.
const HEADER_BYTES: u64 = 4 << 10;
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// Reads the footer.
///
/// # Errors
/// A reason: the file is cut short, is no Parquet file, or its footer is damaged.
pub(crate) fn metadata(file: &File, file_bytes: u64) -> Result<Arc<ParquetMetaData>, String> {
    if file_bytes < TAIL_BYTES + 4 {
        return Err(format!("{file_bytes} bytes are too few for a Parquet file"));
    }
    let mut tail = [0; TAIL_BYTES as usize];
    file.read_exact_at(&mut tail, file_bytes - TAIL_BYTES)
        .map_err(|error| error.to_string())?;
    if &tail[4..] != b"PAR1" {
        return Err(
            "it does not end as a Parquet file: it is cut short, still being written, or something else".into(),
        );
    }
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if length > file_bytes - TAIL_BYTES - 4 {
        return Err(format!(
            "the footer is damaged: it says {length} bytes in a file of {file_bytes}"
        ));
    }
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, file_bytes - TAIL_BYTES - length)
        .map_err(|error| error.to_string())?;
    if !footer_is_whole(&footer) {
        return Err("the footer is damaged".to_string());
    }
    let metadata = ParquetMetaDataReader::decode_metadata(&footer).map_err(|error| error.to_string())?;
    Ok(Arc::new(metadata))
}

/// Checks that a row group's columns lie in the file and agree on its rows.
///
/// # Errors
/// A reason.
pub(crate) fn check_group(metadata: &ParquetMetaData, group: usize, file_bytes: u64) -> Result<(), String> {
    let group_metadata = metadata.row_group(group);
    for column in group_metadata.columns() {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let inside = start >= 0 && column.compressed_size() >= 0 && end.is_some_and(|end| end as u64 <= file_bytes);
        let flat = column.column_descr().max_rep_level() == 0;
        if !inside || (flat && column.num_values() != group_metadata.num_rows()) || column.num_values() < 0 {
            return Err(format!(
                "the footer is damaged at column `{}` of row group {group}",
                column.column_path()
            ));
        }
    }
    Ok(())
}

/// One row group of a file.
pub(crate) struct Group<'a> {
    file: &'a Arc<File>,
    metadata: &'a Arc<ParquetMetaData>,
    index: usize,
}

impl<'a> Group<'a> {
    pub(crate) fn new(file: &'a Arc<File>, metadata: &'a Arc<ParquetMetaData>, index: usize) -> Group<'a> {
        Group { file, metadata, index }
    }
}

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.index).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.metadata.row_group(self.index).column(column);
        check_chunk(self.file, chunk).map_err(|reason| ParquetError::General(reason.to_string()))?;
        let pages = SerializedPageReader::new(Arc::clone(self.file), chunk, self.num_rows(), None)?;
        let nested = chunk.column_descr().max_rep_level() > 0;
        let optional = chunk.column_descr().max_def_level() > 0;
        let checked = CheckedPages {
            pages,
            nested,
            optional,
            values: chunk.num_values() as u64,
        };
        Ok(Box::new(Chunks(Some(checked))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.index)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// Walks over the page headers of a column chunk: no page may claim more than its bytes can become.
fn check_chunk(file: &File, chunk: &ColumnChunkMetaData) -> Result<(), &'static str> {
    let (mut at, length) = chunk.byte_range();
    let end = at + length;
    while at < end {
        let sizes = read_header(file, at, end).ok_or("a page header is damaged")?;
        let compressed = u64::try_from(sizes.compressed).map_err(|_| "a page header is damaged")?;
        let uncompressed = u64::try_from(sizes.uncompressed).map_err(|_| "a page header is damaged")?;
        let next = at + sizes.header + compressed;
        let most = compressed.saturating_mul(expansion(chunk.compression())) + 1024;
        if next > end || uncompressed > most || uncompressed > chunk.uncompressed_size().max(0) as u64 {
            return Err("a page header is damaged: it claims more bytes than there are");
        }
        at = next;
    }
    Ok(())
}

/// Bytes that one byte can become at most.
fn expansion(compression: Compression) -> u64 {
    match compression {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1_100,
        _ => 40_000,
    }
}

fn read_header(file: &File, at: u64, end: u64) -> Option<super::thrift::PageSizes> {
    let mut wanted = HEADER_BYTES;
    loop {
        let len = wanted.min(end - at);
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).ok()?;
        match page_sizes(&bytes) {
            Some(sizes) => return Some(sizes),
            None if len == end - at || wanted >= HEADER_BYTES_MAX => return None,
            None => wanted *= 16,
        }
    }
}

/// The single column chunk of a row group.
struct Chunks(Option<CheckedPages>);

impl Iterator for Chunks {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for Chunks {}

/// Pages whose counts of values fit their bytes.
struct CheckedPages {
    pages: SerializedPageReader<File>,
    nested: bool,
    optional: bool,
    /// Values of the column chunk.
    values: u64,
}

impl CheckedPages {
    fn checked(&self, page: Page) -> ParquetResult<Page> {
        let fits = match &page {
            Page::DictionaryPage { buf, num_values, .. } => *num_values as usize <= buf.len(),
            Page::DataPage {
                buf,
                num_values,
                encoding,
                ..
            } => {
                let values = levels_end(buf, self.nested, self.optional).map(|at| buf.slice(at..));
                u64::from(*num_values) <= self.values
                    && values.is_some_and(|values| deltas_fit(*encoding, &values, *num_values))
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let at = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                let fits = at <= buf.len() && deltas_fit(*encoding, &buf.slice(at.min(buf.len())..), *num_values);
                fits && u64::from(*num_values) <= self.values
            }
        };
        if fits {
            Ok(page)
        } else {
            Err(ParquetError::General("a page is damaged".to_string()))
        }
    }
}

/// Where the values of a data page of the first kind begin, behind its levels.
fn levels_end(buf: &Bytes, nested: bool, optional: bool) -> Option<usize> {
    let mut at = 0usize;
    for _ in 0..usize::from(nested) + usize::from(optional) {
        let length = buf.get(at..at + 4)?;
        at = at.checked_add(4 + u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize)?;
    }
    (at <= buf.len()).then_some(at)
}

/// Whether delta-encoded values are as many as the page has, at most.
fn deltas_fit(encoding: Encoding, values: &[u8], page_values: u32) -> bool {
    let blocks = match encoding {
        Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => 0,
    };
    let mut rest = values;
    for _ in 0..blocks {
        match delta_block(rest) {
            Some((count, bytes)) if count <= u64::from(page_values) => rest = &rest[bytes..],
            // A page of NULLs alone may hold no block at all.
            None if values.is_empty() => return true,
            _ => return false,
        }
    }
    true
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        match self.pages.get_next_page()? {
            Some(page) => self.checked(page).map(Some),
            None => Ok(None),
        }
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}
