//! Sees to it that the tests find ZooKeeper, and the Java that it needs.
//!
//! ZooKeeper comes from Debian's packages, unpacked into `target/tools/zookeeper`. Java is installed: its package does not
//! work otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine::{self, find, output};
use crate::packages::{self, Facts};
use crate::{cargo, debian};

/// ZooKeeper and the libraries that a server loads.
const PACKAGES: [&str; 11] = [
    "libzookeeper-java",
    "libcommons-cli-java",
    "libcommons-io-java",
    "libdropwizard-metrics-java",
    "libjackson2-annotations-java",
    "libjackson2-core-java",
    "libjackson2-databind-java",
    "liblog4j1.2-java",
    "libnetty-java",
    "libslf4j-java",
    "libsnappy-java",
];

const BY_HAND: &str = "\
name the directory with zookeeper.jar and its libraries and run this again:
    DLOCK_ZOOKEEPER=/path/to/the/directory";

const JAVA_BY_HAND: &str = "\
install Java 11 or later and run this again (Debian: apt-get install default-jre-headless), or name it:
    DLOCK_JAVA=/path/to/java";

/// Finds or gets both, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    let java = java()?;
    let jars = match machine::variable("DLOCK_ZOOKEEPER") {
        Some(named) => Path::new(&named).to_path_buf(),
        None => unpacked()?,
    };
    let jar = jars.join("zookeeper.jar");
    if !jar.is_file() {
        return Err(format!("`{}` is not there; {BY_HAND}", jar.display()));
    }
    println!("zookeeper: {}, {java}", jar.display());
    Ok(())
}

fn java() -> Result<String, String> {
    let named = machine::variable("DLOCK_JAVA").map(PathBuf::from);
    let java = match named.or_else(|| find("java")) {
        Some(java) => java,
        None => install()?,
    };
    let shown = java.display();
    let said = Command::new(&java)
        .arg("-version")
        .stdin(Stdio::null())
        .output();
    // It says so on its standard error.
    let said = said.ok().filter(|it| it.status.success());
    let said = said.ok_or_else(|| format!("`{shown}` does not run; {JAVA_BY_HAND}"))?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    Ok(format!(
        "{shown}: {}",
        said.lines().next().unwrap_or_default()
    ))
}

fn install() -> Result<PathBuf, String> {
    let no_java = |why: &str| format!("no Java found{why}, and ZooKeeper needs it; {JAVA_BY_HAND}");
    let sudo = Facts::gather().plan().map_err(no_java)?;
    println!("no Java found: installing it");
    packages::install(sudo, &["default-jre-headless"]);
    find("java").ok_or_else(|| no_java(", and it could not be installed"))
}

fn unpacked() -> Result<PathBuf, String> {
    let folder = cargo::target().join("tools").join("zookeeper");
    let note = folder.join("packages");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&note).unwrap_or_default() != wanted {
        println!("no ZooKeeper found: unpacking it");
        let finish =
            || fs::write(&note, &wanted).map_err(|error| format!("`{}`: {error}", note.display()));
        debian::unpack(&folder, jars, finish)
            .map_err(|reason| format!("no ZooKeeper found: {reason}; {BY_HAND}"))?;
    }
    Ok(folder.join("usr/share/java"))
}

fn jars() -> Result<Vec<String>, String> {
    let depends = output("apt-cache", &["depends", PACKAGES[0]]).unwrap_or_default();
    if depends.trim().is_empty() {
        return Err("the lists of packages have no ZooKeeper".to_owned());
    }
    Ok(PACKAGES.map(str::to_owned).to_vec())
}
