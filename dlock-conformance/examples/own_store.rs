//! Runs the suite over a store: `cargo run -p dlock-conformance --example own_store`.

use dlock_conformance::{Level, Suite};
use dlock_runtime::store::memory::MemoryStore;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // Replace it by your own store.
    let store = MemoryStore::new();
    let report = Suite::new(Level::Grants).run(&store).await;
    println!("{report}");
    report.assert();
}
