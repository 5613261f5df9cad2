//! Has the servers of an ensemble count the children of a node as if there had been millions: in the data of killed servers.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use super::{SERVERS, ZooKeepers, copy_all};
use crate::ensemble::Ensemble;

/// The end of a snapshot behind its checksum, as the servers write it: the length of a path, and the path.
const SEAL: &[u8] = b"\0\0\0\x01/";

/// The parts of a node between its data and the number of its children: its permissions, four times and numbers of
/// transactions, and the version of its data.
const BEFORE: usize = 8 + 4 * 8 + 4;

impl ZooKeepers {
    /// Kills all servers and starts them again, with `number` as the number of the next child of `path`.
    pub async fn count_children_from(&self, path: &str, number: i32) {
        for server in &self.servers {
            // They would not be right behind the change.
            let file = OpenOptions::new().append(true).open(&server.configuration);
            let written = file.and_then(|mut file| writeln!(file, "digest.enabled=false"));
            written.expect("the configuration can be written");
        }
        // The leader writes its data down when it begins.
        self.restart_all().await;
        (0..SERVERS).for_each(|server| self.kill(server));
        let mut node = i32::try_from(path.len())
            .expect("a path is short")
            .to_be_bytes()
            .to_vec();
        node.extend_from_slice(path.as_bytes());
        let snapshots = self.servers.iter().filter_map(|server| {
            let file = newest(&server.data())?;
            let data = fs::read(&file).expect("a snapshot can be read");
            let at = data.windows(node.len()).position(|part| part == node)? + node.len();
            Some((server, file, data, at))
        });
        let newest = snapshots.max_by_key(|(_, file, ..)| number_of(file));
        let (server, file, mut data, at) = newest.expect("a server has written the node down");
        let length = i32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"));
        let at = at + 4 + usize::try_from(length).unwrap_or(0) + BEFORE;
        data[at..at + 4].copy_from_slice(&number.to_be_bytes());
        let end = data.len() - SEAL.len() - 8;
        assert!(data.ends_with(SEAL), "the snapshot is whole");
        let checksum = u64::from(adler32(&data[..end]));
        data[end..end + 8].copy_from_slice(&checksum.to_be_bytes());
        fs::write(file, data).expect("a snapshot can be written");
        for other in &self.servers {
            if other.port != server.port {
                fs::remove_dir_all(other.data()).expect("the data can be removed");
                copy_all(&server.data(), &other.data());
            }
        }
        self.restart_all().await;
    }
}

/// The newest snapshot in a directory.
fn newest(directory: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(directory).expect("the data can be read");
    let files = files.map(|it| it.expect("the data can be read").path());
    files
        .filter(|it| number_of(it).is_some())
        .max_by_key(|it| number_of(it))
}

/// The number of the transaction in the name of a snapshot.
fn number_of(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    u64::from_str_radix(name.strip_prefix("snapshot.")?, 16).ok()
}

/// The checksum of RFC 1950.
fn adler32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in data {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    high << 16 | low
}
