//! CHECKPOINT, CREATE SAVEPOINT, DROP SAVEPOINT.

use super::{Session, command};
use crate::outcome::Outcome;
use crate::parse::CheckpointStatement;
use cenote_statestore::Result;

impl Session {
    pub(super) async fn checkpoint(&mut self, statement: &CheckpointStatement) -> Result<Outcome> {
        let (tag, savepoint) = match statement {
            CheckpointStatement::Take => ("CHECKPOINT", None),
            CheckpointStatement::CreateSavepoint(name) => ("CREATE SAVEPOINT", Some(name.as_str())),
            CheckpointStatement::DropSavepoint { name, if_exists } => {
                return self.drop_savepoint(name, *if_exists).await;
            }
        };
        self.refuse_definition(tag)?;
        let manifest = self.database.checkpoint(savepoint).await?;
        let notice = format!("checkpoint {} holds epoch {}", manifest.id(), manifest.epoch);
        Ok(Outcome::Command {
            tag: tag.to_string(),
            notices: vec![notice],
        })
    }

    async fn drop_savepoint(&mut self, name: &str, if_exists: bool) -> Result<Outcome> {
        self.refuse_definition("DROP SAVEPOINT")?;
        let listed = if if_exists {
            self.database.checkpoints().await?
        } else {
            Vec::new()
        };
        let is_there = |name: &str| {
            listed
                .iter()
                .any(|one| one.savepoints.iter().any(|known| known == name))
        };
        if if_exists && !is_there(name) {
            return Ok(Outcome::Command {
                tag: "DROP SAVEPOINT".to_string(),
                notices: vec![format!("savepoint \"{name}\" does not exist, skipping")],
            });
        }
        self.database.drop_savepoint(name).await?;
        Ok(command("DROP SAVEPOINT"))
    }
}
