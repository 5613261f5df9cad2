//! The workspace whose sources are copied, and calls of cargo in the copy.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2);
    root.expect("the package lies two folders below the workspace")
        .to_path_buf()
}

/// The folder for the output of compilers.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |it| root().join(it))
}

/// The cargo that has started this program, in `folder`, without the variables that describe this package: a build that
/// looks at them would begin anew, and the copy lies in another place.
pub(crate) fn cargo(folder: &Path) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}
