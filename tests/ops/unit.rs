//! systemd accepts the unit of `dlock serve`, and rates what it leaves open.

use std::{fs, path::Path, process::Output};

use dlock_testkit::systemd_analyze;

use crate::files::read;

const UNIT: &str = "ops/systemd/dlock-serve.service";
const ENVIRONMENT: &str = "ops/systemd/dlock-serve.env";

/// The most that `systemd-analyze security` may find open, in tenths of its points. A service that is not confined has 92.
const EXPOSED: &str = "12";

/// Lets systemd look at a unit, in which a program of this machine stands for the command.
fn look(arguments: &[&str], unit: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dlock-serve.service");
    let here = Path::new("/bin/true");
    let unit = unit.replace("/usr/local/bin/dlock", &here.display().to_string());
    fs::write(&path, unit).unwrap();
    let mut command = systemd_analyze();
    command.args(arguments).arg(&path).output().unwrap()
}

/// What systemd finds wrong with a unit. It names an unknown setting without failing.
fn faults_of(unit: &str) -> String {
    let output = look(&["verify", "--man=no"], unit);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || !said.is_empty(), "it says why");
    said
}

#[test]
fn systemd_finds_nothing_wrong() {
    assert_eq!(faults_of(&read(UNIT)), "");
}

#[test]
fn a_wrong_setting_is_found() {
    let unit = read(UNIT).replace("DynamicUser=", "DynamcUser=");
    assert!(faults_of(&unit).contains("DynamcUser"));
}

#[test]
fn little_is_left_open() {
    let threshold = format!("--threshold={EXPOSED}");
    let arguments = ["security", "--offline=yes", "--no-pager", &threshold];
    let rated = |unit: &str| {
        let output = look(&arguments, unit);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), said)
    };
    let unit = read(UNIT);
    let (is_confined, said) = rated(&unit);
    assert!(is_confined, "{said}");
    for protection in ["CapabilityBoundingSet=", "PrivateDevices=yes"] {
        let (is_confined, said) = rated(&unit.replace(protection, ""));
        assert!(!is_confined, "without {protection}:\n{said}");
    }
}

/// `DynamicUser` implies some of these. They stand there for a unit that is changed to another user.
#[test]
fn the_most_important_settings_are_there() {
    let unit = read(UNIT);
    for setting in [
        "DynamicUser=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
        "NoNewPrivileges=yes",
        "Restart=on-failure",
        "EnvironmentFile=/etc/dlock/serve.env",
    ] {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
    // Arguments are visible to all users of the machine.
    assert!(!unit.contains("PASSWORD") && !unit.contains("--url"));
}

/// A machine with many processors would need more threads than the unit allows, if their number was not limited.
#[test]
fn the_threads_of_the_command_are_within_the_limit() {
    let source = read("dlock-cli/src/runtime.rs");
    let limit = |name: &str| -> u32 {
        let (_, rest) = source
            .split_once(&format!("const {name}: usize = "))
            .unwrap();
        rest.split(';').next().unwrap().parse().unwrap()
    };
    let unit = read(UNIT);
    let most = unit.lines().find_map(|it| it.strip_prefix("TasksMax="));
    let most: u32 = most.unwrap().parse().unwrap();
    // The main thread and that of renewals, and as many again for what comes.
    assert!(limit("WORKERS") + limit("BLOCKING") + 4 <= most);
}

/// The variables of the sample are those that the command reads.
#[test]
fn the_environment_is_that_of_the_command() {
    let sample = read(ENVIRONMENT);
    let lines = sample.lines().map(|line| line.trim_start_matches('#'));
    let names = lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name);
    let names: Vec<_> = names.filter(|it| it.starts_with("DLOCK_")).collect();
    assert!(names.len() >= 3, "{names:?}");
    let sources = ["dlock-cli/src", "dlock-runtime/src"].map(|it| crate::root().join(it));
    for name in names {
        let word = format!("\"{name}\"");
        let is_read = sources.iter().any(|folder| has(folder, &word));
        assert!(is_read, "no program reads {name}");
    }
}

/// `true` if a source below a folder has a word.
fn has(folder: &Path, word: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return has(&path, word);
        }
        fs::read_to_string(&path).is_ok_and(|text| text.contains(word))
    })
}
