//! Several collections read at one epoch: tables, views and operator state.
//!
//! # Cost
//! Operators keep the newest epoch only, so that their state is copied first, whole; the copy of a table goes when it was read.
//! What has versions is read as it is asked for, and held back from retention until then.

use super::read::{OpenScan, SCAN_ROWS, Source, Target, contents};
use super::{ATTEMPTS, Database, Readable, ReadableKind, StateTable, was_dropped};
use crate::catalog::{Catalog, KeptBy, MaterializedView, Object, PUBLIC, STATE_SCHEMA};
use crate::outcome::BatchStream;
use cenote_engine::StateRows;
use cenote_statestore::{Digest, Epoch, Error, Pin, Result};
use futures::StreamExt;
use std::sync::Arc;

/// One of several collections.
pub struct TogetherScan {
    /// What is read.
    pub readable: Readable,
    /// Its rows.
    pub batches: BatchStream,
}

/// The digest of one of several collections.
pub struct TogetherDigest {
    /// What was read.
    pub readable: Readable,
    /// The digest, as hex text.
    pub digest: String,
    /// Rows.
    pub rows: u64,
}

impl Database {
    /// Starts reading collections, all at one epoch.
    ///
    /// # Arguments
    /// - `names`: which ones; empty: all tables, views and state tables but those of views that have failed.
    ///
    /// # Errors
    /// `Invalid`, SQLSTATE 42P01: there is none of a name. `Unavailable`: a view that is named has failed.
    pub async fn scan_together(&self, names: &[String]) -> Result<(Epoch, Vec<TogetherScan>)> {
        let (mut attempts, mut catalog) = (1, self.catalog());
        loop {
            match self.try_scan_together(&catalog, names).await {
                // Which ones there are is not the same any more.
                Err(error) if names.is_empty() && was_dropped(&error) && attempts < ATTEMPTS => {
                    catalog = self.catalog_after(&catalog).await;
                    attempts += 1;
                }
                done => return done,
            }
        }
    }

    async fn try_scan_together(&self, catalog: &Catalog, names: &[String]) -> Result<(Epoch, Vec<TogetherScan>)> {
        let targets = match names.is_empty() {
            true => self.all_targets(catalog),
            false => names
                .iter()
                .map(|name| self.target(catalog, name))
                .collect::<Result<_>>()?,
        };
        let reads = targets.iter().filter_map(|target| match target {
            Target::State { table, .. } => Some(table.read(StateRows::All)),
            _ => None,
        });
        let reads: Vec<_> = reads.collect();
        let (pin, states) = match reads.is_empty() {
            true => (self.engine.pin_visible()?, Vec::new()),
            false => {
                let (epoch, states) = self.engine.read_state(reads).await?;
                self.engine.wait_visible(epoch).await?;
                (self.engine.retention().pin(epoch)?, states)
            }
        };
        let (epoch, mut states) = (pin.epoch(), states.into_iter());
        let scans = targets.into_iter().map(|target| {
            let columns = target.readable().columns.clone();
            let readable = Readable {
                epoch,
                ..target.readable().clone()
            };
            let source = match target {
                Target::State { .. } => Source::Rows(states.next().unwrap_or_default().into_iter()),
                target => self.source_at(target, &pin)?,
            };
            let batches = OpenScan::whole(columns, epoch, source).batches(SCAN_ROWS);
            Ok(TogetherScan { readable, batches })
        });
        Ok((epoch, scans.collect::<Result<_>>()?))
    }

    /// The rows at an epoch of what has versions.
    fn source_at(&self, target: Target, pin: &Pin) -> Result<Source> {
        match target {
            Target::Versioned { readable, table, view } => {
                if let Some(view) = view {
                    // Behind the pin: of an epoch in which the view failed there may be one worker's share.
                    self.check_view(&view)?;
                    view.check_there_at(pin.epoch())?;
                }
                let columns = (0..readable.columns.fields().len()).collect();
                Ok(Source::Table(table.scan(pin.clone(), columns, 0..table.shards())))
            }
            Target::Errors { tables, .. } => Ok(Source::Errors(Box::new(tables.read(pin)))),
            Target::State { .. } => Err(Error::bug("operator state has no versions")),
        }
    }

    /// Everything that can be read, by schema and name; views that have failed or have no contents yet, and their state, are left out.
    fn all_targets(&self, catalog: &Catalog) -> Vec<Target> {
        let is_there = |view: &MaterializedView| view.status.is_live() && self.check_view(view).is_ok();
        let objects = catalog.objects().filter_map(|object| {
            let (table, columns, kind) = contents(object)?;
            let view = match object {
                Object::MaterializedView(view) => Some(view.clone()),
                _ => None,
            };
            let readable = self.describe_versioned(PUBLIC, &table, columns, kind);
            Some(Target::Versioned { readable, table, view })
        });
        let kept = catalog.kept_states().map(|(kept_by, table)| {
            let view = match kept_by {
                KeptBy::View(view) => Some(view.clone()),
                KeptBy::Source(_) | KeptBy::Sink(_) => None,
            };
            let columns = table.schema().columns.clone();
            let readable = self.describe_versioned(STATE_SCHEMA, table, columns, ReadableKind::State);
            let table = Arc::clone(table);
            Target::Versioned { readable, table, view }
        });
        let states = self
            .state_tables(catalog)
            .into_iter()
            .map(|table: StateTable| Target::State {
                readable: self.describe_state(&table, 0, 0),
                table,
            });
        let mut targets: Vec<Target> = objects.chain(kept).chain(states).collect();
        targets.retain(|target| target.view().is_none_or(|view| is_there(view)));
        targets.sort_by(|a, b| named(a).cmp(&named(b)));
        targets
    }

    /// Order-independent digests of collections, all at one epoch.
    ///
    /// # Errors
    /// As of [`Database::scan_together`].
    pub async fn digests(&self, names: &[String]) -> Result<(Epoch, Vec<TogetherDigest>)> {
        let (epoch, scans) = self.scan_together(names).await?;
        let mut digests = Vec::with_capacity(scans.len());
        for TogetherScan { readable, mut batches } in scans {
            let (mut digest, mut rows) = (Digest::default(), 0);
            while let Some(batch) = batches.next().await {
                let batch = batch?;
                rows += batch.num_rows() as u64;
                digest.update(&batch, None)?;
            }
            digests.push(TogetherDigest {
                readable,
                digest: digest.finish_hex(),
                rows,
            });
        }
        Ok((epoch, digests))
    }
}

fn named(target: &Target) -> (&str, &str) {
    let readable = target.readable();
    (&readable.schema_name, &readable.name)
}
