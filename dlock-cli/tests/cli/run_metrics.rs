//! The metrics of `dlock run`.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::{SystemTime, UNIX_EPOCH},
};

use dlock_testkit::{RedisServer, Worker, promtool};
use tempfile::TempDir;

use super::{LIMIT, call, dlock, ended};

/// The value of each metric.
type Metrics = BTreeMap<String, String>;

/// A directory as the collector reads it.
struct Collected {
    folder: TempDir,
    file: PathBuf,
}

impl Collected {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory can be made");
        let file = folder.path().join("job.prom");
        Self { folder, file }
    }

    fn file(&self) -> &str {
        self.file.to_str().expect("it is text")
    }

    /// Returns the metrics of this key in the usual namespace. Asserts that Prometheus accepts the file.
    #[track_caller]
    fn read(&self, key: &str) -> Metrics {
        let text = fs::read_to_string(&self.file).expect("the file is there");
        let mut check = promtool()
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool runs");
        // Dropped behind the call, so that the other side sees the end.
        let written = check
            .stdin
            .take()
            .map(|mut it| it.write_all(text.as_bytes()));
        written.expect("it was asked for").expect("promtool reads");
        let said = check.wait_with_output().expect("promtool ends");
        assert!(said.status.success(), "{said:?}\n{text}");
        let labels = format!("{{key=\"{key}\",namespace=\"dlock\"}} ");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let metric = |line: &str| {
            let (name, value) = line.split_once(&labels).expect("it has the labels");
            let name = name.strip_prefix("dlock_run_").expect("it is of a run");
            (name.to_owned(), value.to_owned())
        };
        lines.map(metric).collect()
    }

    /// Asserts that the directory has the file alone, which all may read.
    #[track_caller]
    fn assert_clean(&self) {
        let entries = fs::read_dir(self.folder.path()).expect("it is there");
        let names: Vec<_> = entries
            .map(|it| it.expect("it is read").file_name())
            .collect();
        assert_eq!(names, ["job.prom"]);
        let mode = fs::metadata(&self.file).expect("it is there").permissions();
        let umask_of_tests = 0o644 & mode.mode();
        assert_eq!(umask_of_tests, 0o644, "the collector is another user");
    }
}

fn now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("it is later than 1970").as_secs_f64()
}

#[track_caller]
fn seconds(metrics: &Metrics, name: &str) -> f64 {
    metrics[name].parse().expect("it is a number")
}

fn names(metrics: &Metrics) -> Vec<&str> {
    metrics.keys().map(String::as_str).collect()
}

const WITH_SUCCESS: [&str; 8] = [
    "acquired",
    "end_timestamp_seconds",
    "exit_code",
    "held_seconds",
    "lost",
    "start_timestamp_seconds",
    "success_timestamp_seconds",
    "wait_seconds",
];

#[tokio::test]
async fn the_last_run_is_in_a_file_that_prometheus_accepts() {
    let server = RedisServer::start().await;
    let collected = Collected::new();
    let key = r#"report "a\b""#;
    let run = async |command: &str, code: i32| {
        let words = ["run", "--metrics-file", collected.file(), key];
        let words = [&words[..], &["--", "sh", "-c", command]].concat();
        call(&mut dlock(&server, &words)).await.with(code);
        collected.assert_clean();
        collected.read(r#"report \"a\\b\""#)
    };
    let before = now();
    let first = run("exit 0", 0).await;
    assert_eq!(names(&first), WITH_SUCCESS);
    assert_eq!(
        [&first["acquired"], &first["lost"], &first["exit_code"]],
        ["1", "0", "0"]
    );
    let start = seconds(&first, "start_timestamp_seconds");
    let end = seconds(&first, "end_timestamp_seconds");
    assert!(before <= start && start <= end && end <= now(), "{first:?}");
    assert_eq!(
        first["success_timestamp_seconds"],
        first["end_timestamp_seconds"]
    );
    let (waited, held) = (
        seconds(&first, "wait_seconds"),
        seconds(&first, "held_seconds"),
    );
    assert!(waited > 0.0 && held > 0.0, "{first:?}");
    // The clock of the day may be set meanwhile, by less than this.
    assert!((waited + held - (end - start)).abs() < 1.0, "{first:?}");

    // A failure keeps the time of the last success. A reader of the file before has all of it.
    let mut reader = fs::File::open(&collected.file).expect("it is there");
    let text = fs::read_to_string(&collected.file).expect("it is there");
    let second = run("exit 3", 3).await;
    let mut read = String::new();
    reader.read_to_string(&mut read).expect("it is open");
    assert_eq!(read, text, "the file was not replaced as a whole");
    assert_eq!(names(&second), WITH_SUCCESS);
    assert_eq!([&second["exit_code"], &second["lost"]], ["3", "0"]);
    assert_eq!(
        second["success_timestamp_seconds"],
        first["success_timestamp_seconds"]
    );
    assert!(
        seconds(&second, "start_timestamp_seconds") > start,
        "{second:?}"
    );
    let third = run("exit 0", 0).await;
    assert!(
        seconds(&third, "success_timestamp_seconds") > end,
        "{third:?}"
    );
}

#[tokio::test]
async fn a_run_that_did_not_acquire_the_lock_is_no_success() {
    let server = RedisServer::start().await;
    let collected = Collected::new();
    let words = [
        "run",
        "--metrics-file",
        collected.file(),
        "-n",
        "-E",
        "0",
        "job",
        "true",
    ];
    call(&mut dlock(&server, &words)).await.with(0);
    let success = collected.read("job")["success_timestamp_seconds"].clone();
    let holder = Worker::spawn(&mut dlock(
        &server,
        &["run", "job", "sh", "-c", "echo in; sleep 600"],
    ));
    holder.line("in", LIMIT).await;
    call(&mut dlock(&server, &words)).await.with(0);
    let skipped = collected.read("job");
    let without = ["held_seconds", "lost"];
    let expected: Vec<_> = WITH_SUCCESS
        .into_iter()
        .filter(|it| !without.contains(it))
        .collect();
    assert_eq!(names(&skipped), expected);
    assert_eq!([&skipped["acquired"], &skipped["exit_code"]], ["0", "0"]);
    assert_eq!(skipped["success_timestamp_seconds"], success);

    // A success of another key is none of this one.
    let other = ["run", "--metrics-file", collected.file(), "other", "false"];
    call(&mut dlock(&server, &other)).await.with(1);
    assert!(
        !collected
            .read("other")
            .contains_key("success_timestamp_seconds")
    );
}

#[tokio::test]
async fn a_run_has_no_end_while_its_command_runs_and_a_lost_lease_is_told() {
    let server = RedisServer::start().await;
    let collected = Collected::new();
    let words = ["run", "--metrics-file", collected.file(), "job"];
    let words = [&words[..], &["sh", "-c", "echo in; sleep 600"]].concat();
    let worker = Worker::spawn(&mut dlock(&server, &words));
    worker.line("in", LIMIT).await;
    let running = collected.read("job");
    let expected = ["acquired", "start_timestamp_seconds", "wait_seconds"];
    assert_eq!(names(&running), expected);
    assert_eq!(running["acquired"], "1");
    call(&mut dlock(&server, &["unlock", "-y", "job"]))
        .await
        .with(0);
    ended(&worker).await.with(76);
    let lost = collected.read("job");
    assert_eq!([&lost["lost"], &lost["exit_code"]], ["1", "76"]);
    assert!(!lost.contains_key("success_timestamp_seconds"), "{lost:?}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_does_not_end_the_run() {
    let server = RedisServer::start().await;
    let collected = Collected::new();
    let nowhere = collected.folder.path().join("nowhere/job.prom");
    let run = async |file: &Path| {
        let file = file.to_str().expect("it is text");
        let words = [
            "run",
            "--metrics-file",
            file,
            "job",
            "sh",
            "-c",
            "echo ran; exit 4",
        ];
        call(&mut dlock(&server, &words)).await
    };
    let told = run(&nowhere).await.with(4);
    assert_eq!(told.stdout, "ran\n");
    assert!(
        told.stderr.contains("cannot write the metrics to `"),
        "{}",
        told.stderr
    );
    // A directory in its place: what was written for it is removed again.
    fs::create_dir(&collected.file).expect("it can be made");
    let told = run(&collected.file).await.with(4);
    assert!(
        told.stderr.contains("cannot write the metrics to `"),
        "{}",
        told.stderr
    );
    let entries = fs::read_dir(collected.folder.path()).expect("it is there");
    assert_eq!(entries.count(), 1);

    let refused = run(Path::new("job.txt")).await.with(2);
    assert_eq!(refused.stdout, "");
    assert!(
        refused.stderr.contains("end with `.prom`"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn a_run_without_a_server_is_recorded() {
    let server = RedisServer::start().await;
    server.kill();
    let collected = Collected::new();
    let words = ["run", "--metrics-file", collected.file(), "job", "true"];
    call(&mut dlock(&server, &words)).await.with(69);
    let told = collected.read("job");
    assert_eq!([&told["acquired"], &told["exit_code"]], ["0", "69"]);
}
