//! Unpacks a package of a certain release of Debian, whichever this machine has.
//!
//! Its lists of packages lie in the folder of the archives, and so nothing else sees them.

use std::fs;
use std::path::Path;

use super::{PATIENT, apt_download, download, unpack_by};
use crate::machine::{output, run};
use crate::packages;

/// Signs all releases. Where it is not, apt-get has keys of its own.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unpacks a package of the release of this name, such as `trixie`, as [`unpack`](super::unpack) does those of the machine's own. It may
/// need no library that this machine lacks.
pub(crate) fn unpack_from(
    release: &str,
    folder: &Path,
    package: &str,
    finish: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let download = |archives: &Path| {
        let own = Own::gather().or_else(|| {
            packages::update();
            Own::gather()
        });
        let own = own.ok_or("this machine gets no packages of Debian itself")?;
        if own.releases.iter().any(|it| it == release) {
            return download(archives, || Ok(vec![package.to_owned()]));
        }
        let settings =
            settings(archives, release, &own.place).map_err(|error| error.to_string())?;
        let mut update = vec!["apt-get", "-q", "-o", PATIENT];
        update.extend(settings.iter().flat_map(|it| ["-o", it]));
        update.push("update");
        if run(&update) && apt_download(archives, &settings, &[package]) {
            Ok(())
        } else {
            Err(format!(
                "`{package}` of Debian's release {release} could not be downloaded"
            ))
        }
    };
    unpack_by(folder, download, finish)
}

/// Where this machine's own packages come from.
#[derive(Debug, PartialEq, Eq)]
struct Own {
    place: String,
    releases: Vec<String>,
}

impl Own {
    /// What apt-get says of its lists. None if they have not been got yet, or are those of another system.
    fn gather() -> Option<Self> {
        let format = "$(LABEL) $(REPO_URI) $(CODENAME)";
        let words = ["indextargets", "--format", format, "Created-By: Packages"];
        Self::of(&output("apt-get", &words)?)
    }

    fn of(said: &str) -> Option<Self> {
        let its = said.lines().filter_map(|line| line.strip_prefix("Debian "));
        let pairs: Vec<_> = its.filter_map(|line| line.split_once(' ')).collect();
        let (place, _) = pairs.first()?;
        Some(Self {
            place: (*place).to_owned(),
            releases: pairs.iter().map(|(_, name)| (*name).to_owned()).collect(),
        })
    }
}

/// Makes the folders and the list of sources, and returns the settings with which apt-get uses them.
fn settings(archives: &Path, release: &str, place: &str) -> std::io::Result<Vec<String>> {
    let [lists, cache] = ["lists", "cache"].map(|name| archives.join(name));
    fs::create_dir_all(lists.join("partial"))?;
    fs::create_dir_all(cache.join("archives/partial"))?;
    let sources = archives.join("sources.list");
    let keys = if Path::new(KEYS).exists() {
        format!("[signed-by={KEYS}] ")
    } else {
        String::new()
    };
    fs::write(&sources, format!("deb {keys}{place} {release} main\n"))?;
    Ok(vec![
        format!("Dir::Etc::SourceList={}", sources.display()),
        "Dir::Etc::SourceParts=-".to_owned(),
        format!("Dir::State::Lists={}", lists.display()),
        format!("Dir::Cache={}", cache.display()),
        "Acquire::Languages=none".to_owned(),
        // The other indexes are for desktops.
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        // Its own user may not read the folder.
        "APT::Sandbox::User=root".to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_packages_is_that_of_debian_itself() {
        let said = "Debian-Security http://a/debian-security/ bookworm-security\n\
                    Debian http://a/debian/ bookworm\nDebian http://a/debian/ bookworm-updates\n";
        let own = Own::of(said).unwrap();
        assert_eq!(own.place, "http://a/debian/");
        assert_eq!(own.releases, ["bookworm", "bookworm-updates"]);
        let other = "Ubuntu http://a/ubuntu/ noble\n$(LABEL) http://a/debian/ $(CODENAME)\n";
        assert_eq!(Own::of(other), None);
    }
}
