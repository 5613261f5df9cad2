//! The files of a folder, with what lies below it.

use std::fs;
use std::path::{Path, PathBuf};

/// The files with this extension at and below a place, in their order.
pub(crate) fn below(place: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    if !place.is_dir() {
        read(place)?;
        return Ok(vec![place.to_path_buf()]);
    }
    let failed = |error| format!("{}: {error}", place.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(below(&path, extension)?);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
