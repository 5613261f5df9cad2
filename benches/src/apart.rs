//! Measures locks beside the same by hand: servers and clients have processors of their own, and a report has the aims.
//!
//! All ways take turns in short rounds on the same servers. A ratio is that of one round, and the median of all rounds
//! counts: so a slow phase of the machine affects both sides of it.

pub(crate) mod disk;
pub(crate) mod pair;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod turns;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;

use crate::Failure;
use crate::pin::{Layout, Processors};
use report::Report;

/// Much longer than any step takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Starts servers, measures, and shows the report, which `json` gets too.
pub(crate) fn run<S>(
    runtime: &Runtime,
    json: Option<&Path>,
    start: impl Future<Output = S>,
    measure: impl AsyncFnOnce(&S) -> Result<Report, Failure>,
) -> Result<(), Failure> {
    let layout = Layout::of_machine();
    println!("{layout}");
    let servers = {
        let _here = layout.enter_servers(0)?;
        runtime.block_on(start)
    };
    layout
        .clients()
        .into_iter()
        .try_for_each(Processors::enter)?;
    let report = runtime.block_on(measure(&servers))?;
    println!("\n{report}\n{layout}");
    if let Some(path) = json {
        let all = json!({ "processors": layout.to_string(), "report": report });
        fs::write(path, format!("{all:#}\n"))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    report.kept()
}
