//! The end of children and directories that are still there when the process of the tests ends, in whatever way.
//!
//! A `static` is never dropped, and neither is anything in a process that is killed. A shell reads from this process
//! which children it has; the end of that input is the end of the process.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A signal for the group of the process ends the tests, not the shell, which has work to do then. A process that is
/// being killed may still write to its directory, so a second attempt removes what the first has left.
const SCRIPT: &str = r#"
trap "" INT TERM HUP
ids=" "
while read -r what value; do
    case $what in
        +) ids="$ids$value " ;;
        -) case $ids in
               *" $value "*) ids="${ids%% $value *} ${ids#* $value }" ;;
           esac ;;
        /) set -- "$@" "$value" ;;
    esac
done
[ "$ids" = " " ] || kill -KILL $ids
rm -rf -- "$@" || { sleep 1; rm -rf -- "$@"; }
"#;

/// Kills this child at the end.
pub(crate) fn kills(id: u32) {
    tell(&format!("+ {id}"));
}

/// Kills this child no longer at the end: it is dead, and another process may get its id.
pub(crate) fn spares(id: u32) {
    tell(&format!("- {id}"));
}

/// Removes a directory at the end, if it is still there.
pub(crate) fn removes(directory: &Path) {
    tell(&format!("/ {}", directory.display()));
}

fn tell(line: &str) {
    static SHELL: OnceLock<Mutex<Child>> = OnceLock::new();
    let shell = SHELL.get_or_init(|| Mutex::new(start()));
    let mut shell = shell.lock().unwrap_or_else(PoisonError::into_inner);
    // Without the shell, tests that end orderly still end their children.
    let input = shell.stdin.as_mut().expect("it is piped");
    writeln!(input, "{line}").ok();
}

fn start() -> Child {
    let shell = Command::new("sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    shell.expect("a Unix system has a shell")
}
