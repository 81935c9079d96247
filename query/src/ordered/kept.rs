//! A node whose conditions were put in order, with what was known of its rows before.
//!
//! Of an ordered condition DataFusion does not see that `a = 2` holds for all rows. Windows and sorts above were planned with
//! that known, and would be rebuilt without it: a window then refuses its rows as not sorted.
//!
//! # Not here
//! Which conditions are ordered: [`super`].

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, Statistics};
use std::fmt;
use std::sync::Arc;

/// `node` with the properties of `before`, of which it is a rewritten form with the same rows.
pub(super) fn kept(node: Arc<dyn ExecutionPlan>, before: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(KeptExec {
        node,
        properties: before.properties().clone(),
    })
}

#[derive(Debug)]
struct KeptExec {
    node: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for KeptExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("KeptExec")
    }
}

impl ExecutionPlan for KeptExec {
    fn name(&self) -> &str {
        "KeptExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.node]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let properties = self.properties.clone();
        let kept = children.into_iter().map(|node| KeptExec {
            node,
            properties: properties.clone(),
        });
        Ok(kept.map(Arc::new).next().unwrap_or(self))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.node.execute(partition, context)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.node.partition_statistics(partition)
    }
}
