//! The requests of dlock for a free exclusive lock, sent by hand: the part of the ensemble in a cycle.

use zookeeper_client::{Client, CreateMode, MultiWriteResult};

use super::node;
use crate::Failure;

/// Names and a text of the same lengths as those of dlock.
const BASE: &str = "/by-hand-as-dlock/fence/40000000000";
const DIRECTORY: &str = "/by-hand-as-dlock/lock:order:42";
const CHILD: &str =
    "/by-hand-as-dlock/lock:order:42/7d4448409dc011d1b2455ffdce74fad2.123-exclusive-";
const TEXT: &[u8] =
    b"1 40000000000 4294967297 30000 - 1790000000000 dlock-bench@host/12345 - dlock-bench@host/12345";

/// A lock that dlock would hold, without dlock.
pub(super) struct Requests(Client);

impl Requests {
    pub(super) async fn new(client: Client) -> Result<Self, Failure> {
        client.mkdir(BASE, &node(CreateMode::Persistent)).await?;
        let directory = node(CreateMode::Container);
        client.create(DIRECTORY, b"", &directory).await?;
        Ok(Self(client))
    }

    pub(super) async fn cycle(&self) -> Result<(), Failure> {
        let Self(client) = self;
        let mut writer = client.new_multi_writer();
        writer.add_check_version(BASE, -1)?;
        writer.add_create(CHILD, TEXT, &node(CreateMode::EphemeralSequential))?;
        writer.add_set_data(DIRECTORY, b"", None)?;
        let results = writer.commit().await?;
        let [
            _,
            MultiWriteResult::Create { path, .. },
            MultiWriteResult::SetData { stat },
        ] = &results[..]
        else {
            return Err(format!("an answer to another transaction: {results:?}").into());
        };
        if stat.num_children != 1 {
            return Err("the child is not alone".into());
        }
        Ok(client.delete(path, None).await?)
    }
}
