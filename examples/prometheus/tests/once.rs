//! The output of `--once` is the text that Prometheus reads.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

use std::process::Command;
use std::time::Duration;

use dlock_testkit::Worker;

/// Much longer than a run takes, also on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

#[tokio::test]
async fn prometheus_shows_the_results_of_lock_requests() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prometheus"));
    // The environment of the tests may name another server.
    command.arg("--once").env_remove("DLOCK_URL");
    let example = Worker::spawn(&mut command);
    let status = example.wait(LIMIT).await;
    let output = example.stdout();
    assert!(status.success(), "{output}{}", example.stderr());
    let value = |series: &str| -> f64 {
        let line = output.lines().find(|line| line.starts_with(series));
        let line = line.unwrap_or_else(|| panic!("no `{series}` in:\n{output}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(
        output.contains("# HELP dlock_lost_total Leases that ended"),
        "{output}"
    );
    assert!(
        output.contains("# TYPE dlock_wait_seconds histogram"),
        "{output}"
    );
    for template in [
        "order:<id>",
        "account:<from>, account:<to>",
        "report",
        "import:<part>",
    ] {
        assert!(
            value(&format!(
                "dlock_acquired_total{{template=\"{template}\",mode=\"exclusive\"}}"
            )) > 0.0
        );
        let gauges = ["waiting", "held"];
        for gauge in gauges
            .map(|gauge| format!("dlock_{gauge}{{template=\"{template}\",mode=\"exclusive\"}}"))
        {
            assert!(value(&gauge).abs() < 0.5, "{gauge}:\n{output}");
        }
    }
    assert!(
        value("dlock_refused_total{template=\"report\",mode=\"exclusive\",reason=\"taken\"}") > 0.0
    );
    assert!(
        value("dlock_lost_total{template=\"import:<part>\",mode=\"exclusive\",cause=\"max-hold\"}")
            > 0.0
    );
    assert!(value("dlock_cancelled_total{template=\"order:<id>\",mode=\"exclusive\"}") > 0.0);
    assert!(!output.contains("order:0"), "no key is a label:\n{output}");
}
