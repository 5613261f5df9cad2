//! Sees to it that the tests find the oldest etcd that dlock works with, 3.4.
//!
//! It comes from Debian's package, unpacked into `target/tools/etcd`. The newer one is in `tools.rs`.

use std::fs;
use std::path::Path;

use crate::machine::{self, find, output};
use crate::{cargo, debian};

const VARIABLE: &str = "DLOCK_OLD_ETCD";

/// Another number has what was unpacked before unpacked again.
const LAYOUT: &str = "1";

const BY_HAND: &str = "name an etcd 3.4 or later: DLOCK_OLD_ETCD=/path/to/etcd";

/// Finds or gets it, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    if let Some(named) = machine::variable(VARIABLE) {
        println!("etcd-3.4: {}", version(Path::new(&named))?);
        return Ok(());
    }
    let folder = cargo::target().join("tools").join("etcd");
    let program = folder.join("usr/bin/etcd");
    let note = folder.join("layout");
    let is_there = fs::read_to_string(&note).is_ok_and(|text| text == LAYOUT) && program.is_file();
    if !is_there {
        println!("no etcd 3.4 found: unpacking it");
        let cannot =
            |error: std::io::Error| format!("`{}` cannot be written: {error}", folder.display());
        // It needs no library but that of C.
        let wanted = || Ok(vec!["etcd-server".to_owned()]);
        let unpacked = debian::unpack(&folder, wanted, || fs::write(&note, LAYOUT).map_err(cannot));
        if let Err(reason) = unpacked {
            let installed =
                find("etcd").ok_or_else(|| format!("no etcd found: {reason}; {BY_HAND}"))?;
            fs::create_dir_all(folder.join("usr/bin"))
                .and_then(|()| {
                    fs::remove_file(&program).ok();
                    std::os::unix::fs::symlink(installed, &program)
                })
                .map_err(cannot)?;
        }
    }
    println!("etcd-3.4: {}", version(&program)?);
    Ok(())
}

/// The version that a program says it is.
fn version(program: &Path) -> Result<String, String> {
    let shown = program.display();
    let said = output(program, &["--version"])
        .ok_or_else(|| format!("`{shown}` does not run; {BY_HAND}"))?;
    let line = said.lines().next().unwrap_or_default();
    if !line.starts_with("etcd Version: 3.") {
        return Err(format!(
            "`{shown}` says `{line}`, which is not an etcd; {BY_HAND}"
        ));
    }
    Ok(format!("{shown}: {line}"))
}
