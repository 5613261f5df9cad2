//! The usual lock by hand: an ephemeral child with a number for each waiter, which watches the child before its own.

use zookeeper_client::{Client, CreateMode, EventType};

use super::node;
use crate::Failure;

/// The lock of one directory, taken by one session.
pub(super) struct Recipe {
    client: Client,
    directory: String,
    /// The path of the own child.
    held: Option<String>,
}

impl Recipe {
    pub(super) async fn new(client: Client, directory: &str) -> Result<Self, Failure> {
        client
            .mkdir(directory, &node(CreateMode::Persistent))
            .await?;
        Ok(Self {
            client,
            directory: directory.to_owned(),
            held: None,
        })
    }

    pub(super) async fn acquire(&mut self) -> Result<(), Failure> {
        let path = format!("{}/lock-", self.directory);
        let options = node(CreateMode::EphemeralSequential);
        let (_, number) = self.client.create(&path, b"", &options).await?;
        let own = format!("lock-{number}");
        loop {
            let mut children = self.client.list_children(&self.directory).await?;
            children.sort_unstable();
            let place = children.iter().position(|it| *it == own);
            let place = place.ok_or("the own child is gone")?;
            let Some(before) = place.checked_sub(1) else {
                self.held = Some(format!("{}/{own}", self.directory));
                return Ok(());
            };
            let before = format!("{}/{}", self.directory, children[before]);
            let (stat, watch) = self.client.check_and_watch_stat(&before).await?;
            if stat.is_some() && watch.changed().await.event_type == EventType::Session {
                return Err("the session has ended".into());
            }
        }
    }

    pub(super) async fn release(&mut self) -> Result<(), Failure> {
        let held = self.held.take().ok_or("not held")?;
        Ok(self.client.delete(&held, None).await?)
    }
}
