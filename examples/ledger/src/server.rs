//! The PostgreSQL server: that of `DATABASE_URL`, or one that ends with this program.

use std::{
    env,
    error::Error,
    fs::{self, File},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tokio::time::sleep;
use tokio_postgres::NoTls;

pub(crate) const DATABASE_URL: &str = "DATABASE_URL";
/// A directory with the programs of PostgreSQL.
const PROGRAMS: &str = "DLOCK_POSTGRES";

const LIMIT: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(50);

/// The id of `nobody`: PostgreSQL does not run as root.
const NOBODY: u32 = 65_534;

const ADVICE: &str = "\
no PostgreSQL server: set DATABASE_URL=postgres://user@host/database, or install the programs of PostgreSQL \
(on Debian: apt-get install postgresql), or name their directory in DLOCK_POSTGRES";

/// A server that can be reached.
pub(crate) enum Server {
    Named(String),
    Own(Own),
}

/// A server over a Unix socket in a directory of its own. Dropping it removes both.
pub(crate) struct Own {
    process: Child,
    url: String,
    directory: TempDir,
}

impl Server {
    /// Returns the server of `DATABASE_URL`, or starts one.
    pub(crate) async fn named_or_own() -> Result<Self, Box<dyn Error>> {
        match env::var(DATABASE_URL) {
            Ok(url) if !url.is_empty() => Ok(Self::Named(url)),
            _ => Ok(Self::Own(Own::start(&programs()?).await?)),
        }
    }

    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Named(url) => url,
            Self::Own(own) => &own.url,
        }
    }
}

impl Own {
    async fn start(programs: &Path) -> Result<Self, Box<dyn Error>> {
        let directory = TempDir::with_prefix("ledger-")?;
        let place = directory.path();
        if geteuid().is_root() {
            chown(place, Some(NOBODY), Some(NOBODY))?;
        }
        let data = place.join("data");
        let mut initdb = call(programs, "initdb");
        let options = [
            "--no-sync",
            "-A",
            "trust",
            "-U",
            "ledger",
            "-E",
            "UTF8",
            "--locale=C",
        ];
        let made = initdb.args(options).arg("-D").arg(&data).output();
        let made = made.map_err(|error| format!("cannot run {initdb:?}: {error}"))?;
        if !made.status.success() {
            let reason = String::from_utf8_lossy(&made.stderr);
            return Err(format!("{initdb:?}: {reason}").into());
        }
        let log = place.join("log");
        let mut postgres = call(programs, "postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(place);
        postgres.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        // Ctrl-C ends this program, which then ends the server.
        postgres.process_group(0);
        let process = postgres.stderr(File::create(&log)?).spawn()?;
        let socket = place.to_str().ok_or("the name of TMPDIR is not UTF-8")?;
        let url = format!("postgres://ledger@{}/postgres", socket.replace('/', "%2F"));
        println!("PostgreSQL of {} in {socket}", programs.display());
        let mut own = Self {
            process,
            url,
            directory,
        };
        own.answers().await?;
        Ok(own)
    }

    async fn answers(&mut self) -> Result<(), Box<dyn Error>> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let Err(error) = tokio_postgres::connect(&self.url, NoTls).await else {
                return Ok(());
            };
            let has_ended = self.process.try_wait()?.is_some();
            if has_ended || Instant::now() > deadline {
                let log = fs::read_to_string(self.directory.path().join("log"))?;
                return Err(format!("PostgreSQL does not start: {error}\n{log}").into());
            }
            sleep(TICK).await;
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let id = i32::try_from(self.process.id()).ok();
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // "Immediate shutdown": the data is of no further use.
            kill_process(pid, Signal::QUIT).ok();
            self.process.wait().ok();
        }
    }
}

/// A call of a program of PostgreSQL, by a user who is not root.
fn call(programs: &Path, name: &str) -> Command {
    let program = programs.join(name);
    let mut command = if geteuid().is_root() {
        let id = NOBODY.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        // The programs may lie below a directory of root.
        let read = "+dac_read_search";
        command.args(["--inh-caps", read, "--ambient-caps", read]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    // Programs that were unpacked and not installed have their libraries beside them.
    let libraries = fs::read_to_string(programs.join("../libraries")).unwrap_or_default();
    if !libraries.trim().is_empty() {
        command.env("LD_LIBRARY_PATH", libraries.trim());
    }
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// The directory with the programs of PostgreSQL.
fn programs() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(named) = env::var_os(PROGRAMS).filter(|it| !it.is_empty()) {
        let named = PathBuf::from(named);
        if !is_complete(&named) {
            let shown = named.display();
            return Err(format!("DLOCK_POSTGRES: no `postgres` and `initdb` in `{shown}`").into());
        }
        return Ok(named);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path);
    // `cargo xtask test server` unpacks them below `target`, in which this program is as well.
    let program = env::current_exe()?;
    let unpacked = program
        .ancestors()
        .map(|it| it.join("tools/postgresql/bin"));
    let found = in_path.chain(debian()).chain(unpacked);
    found
        .into_iter()
        .find(|it| is_complete(it))
        .ok_or_else(|| ADVICE.into())
}

/// Those of Debian, which are not in the `PATH`; the latest version first.
fn debian() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut paths: Vec<_> = paths.filter(|path| version(path).is_some()).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(version(path)));
    paths.iter().map(|path| path.join("bin")).collect()
}

fn is_complete(programs: &Path) -> bool {
    let has = |name| programs.join(name).is_file();
    has("postgres") && has("initdb")
}
