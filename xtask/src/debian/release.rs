//! Unpacks a package of a certain release of Debian, whichever this machine has.
//!
//! The lists of packages lie in the folder of the archives, so no other program sees them.

use std::fs;
use std::path::Path;

use super::{apt_get, download, unpack_by};
use crate::machine::output;
use crate::packages;

/// The keys of all releases. If the file does not exist, apt-get uses its own.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unpacks a package of the release of this name, such as `trixie`, as [`unpack`](super::unpack) does those of the machine's own. The
/// package must not need a library that this machine lacks.
pub(crate) fn unpack_from(
    release: &str,
    folder: &Path,
    package: &str,
    finish: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    // There may be later ones in other lists.
    let wanted = format!("{package}/{release}");
    let download = |archives: &Path| {
        let sources = match Sources::gather() {
            Sources::Unknown => {
                packages::update();
                Sources::gather()
            }
            known => known,
        };
        let Sources::Debian { place, releases } = sources else {
            return Err("this machine has no packages of Debian".to_owned());
        };
        if releases.iter().any(|it| it == release) {
            return download(archives, || Ok(vec![wanted.clone()]));
        }
        let settings = settings(archives, release, &place).map_err(|error| error.to_string())?;
        let apt_get = |words| apt_get(archives, &settings, words);
        if apt_get(&["update"]) && apt_get(&["download", &wanted]) {
            Ok(())
        } else {
            Err(format!("`{wanted}` of Debian could not be downloaded"))
        }
    };
    unpack_by(folder, download, finish)
}

/// The place of this machine's own packages.
#[derive(Debug, PartialEq, Eq)]
enum Sources {
    Debian {
        place: String,
        releases: Vec<String>,
    },
    Others,
    /// apt-get has not got its lists yet.
    Unknown,
}

impl Sources {
    fn gather() -> Self {
        let format = "$(LABEL)\t$(REPO_URI)\t$(CODENAME)";
        let words = ["indextargets", "--format", format, "Created-By: Packages"];
        Self::of(&output("apt-get", &words).unwrap_or_default())
    }

    fn of(said: &str) -> Self {
        let fields = said
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>());
        // Without the lists, apt-get repeats the name of a field.
        let known: Vec<_> = fields.filter(|it| !it[0].starts_with("$(")).collect();
        let own = known.iter().filter_map(|fields| match fields[..] {
            ["Debian", place, release] if !place.starts_with("cdrom:") => Some((place, release)),
            _ => None,
        });
        let own: Vec<_> = own.collect();
        match own[..] {
            [(place, _), ..] => Self::Debian {
                place: place.to_owned(),
                releases: own
                    .iter()
                    .map(|(_, release)| (*release).to_owned())
                    .collect(),
            },
            [] if known.is_empty() => Self::Unknown,
            [] => Self::Others,
        }
    }
}

/// Makes the folders and the list of sources, and returns the settings with which apt-get uses them.
fn settings(archives: &Path, release: &str, place: &str) -> std::io::Result<Vec<String>> {
    let [lists, cache] = ["lists", "cache"].map(|name| archives.join(name));
    fs::create_dir_all(lists.join("partial"))?;
    fs::create_dir_all(cache.join("archives/partial"))?;
    let sources = archives.join("sources.list");
    let keys = if Path::new(KEYS).exists() {
        format!(" signed-by={KEYS}")
    } else {
        String::new()
    };
    // The other indexes are those of translations and for desktops.
    let line = format!("deb [target=Packages{keys}] {place} {release} main\n");
    fs::write(&sources, line)?;
    Ok(vec![
        format!("Dir::Etc::SourceList={}", sources.display()),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        // The rules of this machine are for other releases.
        "Dir::Etc::Preferences=/dev/null".to_owned(),
        "Dir::Etc::PreferencesParts=/dev/null".to_owned(),
        "APT::Default-Release=".to_owned(),
        format!("Dir::State::Lists={}", lists.display()),
        format!("Dir::Cache={}", cache.display()),
        // Its own user may not read the folder.
        "APT::Sandbox::User=root".to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_packages_is_that_of_debian_itself() {
        let said = "Debian Backports\thttp://a/debian/\tbookworm-backports\n\
                    Debian-Security\thttp://a/debian-security/\tbookworm-security\n\
                    Debian\tcdrom:[Debian GNU/Linux 12]/\tbookworm\n\
                    Debian\thttp://b/debian/\tbookworm\nDebian\thttp://b/debian/\tbookworm-updates\n";
        let expected = Sources::Debian {
            place: "http://b/debian/".to_owned(),
            releases: vec!["bookworm".to_owned(), "bookworm-updates".to_owned()],
        };
        assert_eq!(Sources::of(said), expected);
    }

    #[test]
    fn lists_that_are_not_there_are_not_those_of_another_system() {
        let unknown = "$(LABEL)\thttp://a/debian/\t$(CODENAME)\n";
        assert_eq!(Sources::of(unknown), Sources::Unknown);
        assert_eq!(Sources::of(""), Sources::Unknown);
        let other = format!("{unknown}Ubuntu\thttp://a/ubuntu/\tnoble\n");
        assert_eq!(Sources::of(&other), Sources::Others);
    }
}
