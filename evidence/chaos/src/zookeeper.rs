//! The nodes of ZooKeeper that a run reads, and those of what its locks protect.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::books::{Account, Books};

/// The time-out of the sessions that keep locks: the shortest in which a lease has room.
pub(crate) const SESSION: Duration = Duration::from_millis(2500);

/// That of the clients beside them.
const PATIENT: Duration = Duration::from_secs(20);

/// A server without an answer is left for another one.
const SILENT: Duration = Duration::from_secs(1);

const BOOKS: &str = "/books";

/// The directory of the manager.
const LOCKS: &str = "/dlock";

/// The node of an account. Its children are the entries.
pub(crate) fn account(key: &str) -> String {
    format!("{BOOKS}/{key}")
}

pub(crate) async fn connect(hosts: &str) -> Result<Client, Error> {
    let connector = Client::connector()
        .with_session_timeout(PATIENT)
        .with_connection_timeout(SILENT)
        .with_fail_eagerly();
    connector.connect(hosts).await
}

/// Makes an empty account for each key, unless it is there.
pub(crate) async fn open(client: &Client, keys: &[&str]) -> Result<(), Error> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let accounts = keys
        .iter()
        .map(|key| (account(key), Account::empty(key).to_json()));
    let all = [(BOOKS.to_owned(), Vec::new())].into_iter().chain(accounts);
    for (path, data) in all {
        match client.create(&path, &data, &options).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(crate) async fn read(client: &Client, keys: &[&str]) -> Result<Books, Error> {
    client.sync(BOOKS).await?;
    let mut books = Books::default();
    for key in keys {
        let path = account(key);
        let (data, _) = client.get_data(&path).await?;
        books.accounts.push(Account::from_json(&data));
        for entry in client.list_children(&path).await? {
            let (data, _) = client.get_data(&format!("{path}/{entry}")).await?;
            let entry = serde_json::from_slice(&data).expect("an entry is JSON");
            books.entries.push(entry);
        }
    }
    Ok(books)
}

/// The places in the queues of all locks, their holders included.
pub(crate) async fn left_over(client: &Client) -> Result<Vec<String>, Error> {
    client.sync(LOCKS).await?;
    let mut paths = Vec::new();
    let locks = match client.list_children(LOCKS).await {
        // Nobody has come so far as to make it.
        Err(Error::NoNode) => return Ok(paths),
        other => other?,
    };
    for lock in locks {
        if lock.starts_with("lock:") {
            let path = format!("{LOCKS}/{lock}");
            let children = client.list_children(&path).await?;
            paths.extend(children.iter().map(|child| format!("{path}/{child}")));
        }
    }
    Ok(paths)
}
