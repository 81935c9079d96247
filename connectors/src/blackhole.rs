//! The `blackhole` connector: takes everything and keeps nothing, for measuring what is before it.

use crate::options::check;
use cenote_engine::port::{Connector, Cut, Sink, SinkContract, SinkRequest};
use cenote_statestore::{Changes, Epoch, Result};

/// Swallows rows.
pub struct Blackhole;

impl Connector for Blackhole {
    fn name(&self) -> &'static str {
        "blackhole"
    }

    fn sink(&self, request: SinkRequest) -> Result<Box<dyn Sink>> {
        check(&request.name, self.sink_options(), &request.options)?;
        Ok(Box::new(Hole))
    }
}

struct Hole;

impl Sink for Hole {
    /// Nothing is outside, however often it is written.
    fn contract(&self) -> SinkContract {
        SinkContract::Idempotent
    }

    fn recover(&mut self, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, _: Epoch, _: &Changes) -> Result<u64> {
        Ok(0)
    }

    fn prepare(&mut self, epoch: Epoch, _: Cut) -> Result<String> {
        Ok(epoch.to_string())
    }

    fn commit(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
}
