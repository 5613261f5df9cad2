//! Unpacks packages of Debian into a folder, with those of their libraries that this machine lacks.

use std::fs;
use std::path::Path;

use super::files;
use super::host::{self, Host};
use super::tool::Tool;
use crate::machine::{output, run};

/// The keys of all releases. If the file does not exist, apt-get uses its own.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unpacks the packages of a tool into a folder.
pub(super) fn fetch(tool: &Tool, host: &Host, folder: &Path) -> Result<(), String> {
    let archives = folder.join("archives");
    fs::create_dir_all(&archives).map_err(|error| format!("`{}`: {error}", archives.display()))?;
    let settings = settings(tool, host, &archives)?;
    let download = || {
        let _unchanged = host::unchanged();
        let wanted = wanted(tool, &settings)?;
        download(&archives, &settings, &format!("download {wanted}"))
    };
    // A bare machine has no lists of packages, or old ones.
    download().or_else(|_| {
        host::update();
        download()
    })?;
    let mut packages = files::files_in(&archives);
    packages.retain(|it| it.extension().is_some_and(|it| it == "deb"));
    for package in packages {
        let [package, folder] = [&*package, folder].map(|it| it.display().to_string());
        if !run(&["dpkg-deb", "-x", &package, &folder]) {
            return Err(format!("`{package}` could not be unpacked"));
        }
    }
    files::remove(&archives);
    (tool.arrange)(folder).map_err(|error| format!("`{}`: {error}", folder.display()))
}

/// The settings of apt for the release that has the package. If that is not this machine's, its lists of packages lie in the folder
/// of the archives, so no other program sees them.
fn settings(tool: &Tool, host: &Host, archives: &Path) -> Result<Vec<String>, String> {
    let sources = host.sources();
    let own = debian_in(sources);
    if tool.version.is_empty() || own.iter().any(|(_, release)| *release == tool.version) {
        return Ok(host.settings.clone());
    }
    let (place, _) = own
        .first()
        .ok_or("this machine has no packages of Debian")?;
    let archives = archives.display();
    let keys = if Path::new(KEYS).exists() {
        format!(" signed-by={KEYS}")
    } else {
        String::new()
    };
    // The other indexes are those of translations and for desktops.
    let line = format!(
        "deb [target=Packages{keys}] {place} {} main\n",
        tool.version
    );
    let made = fs::write(format!("{archives}/sources.list"), line)
        .and_then(|()| fs::create_dir_all(format!("{archives}/lists/partial")))
        .and_then(|()| fs::create_dir_all(format!("{archives}/cache/archives/partial")));
    made.map_err(|error| format!("`{archives}`: {error}"))?;
    // The rules of this machine are for other releases, and apt's own user may not read the folder.
    let settings = format!(
        "Dir::Etc::SourceList={archives}/sources.list Dir::Etc::SourceParts=/dev/null \
         Dir::Etc::Preferences=/dev/null Dir::Etc::PreferencesParts=/dev/null APT::Default-Release= \
         Dir::State::Lists={archives}/lists Dir::Cache={archives}/cache APT::Sandbox::User=root \
         Dir::Cache::pkgcache=pkgcache.bin Dir::Cache::srcpkgcache=srcpkgcache.bin"
    );
    let settings: Vec<_> = settings.split(' ').map(str::to_owned).collect();
    download(Path::new(&archives.to_string()), &settings, "update")?;
    Ok(settings)
}

/// The places and the releases of Debian among the sources of this machine.
pub(super) fn debian_in(sources: &str) -> Vec<(&str, &str)> {
    let fields = sources.lines().map(|it| it.split('\t').collect::<Vec<_>>());
    let own = fields.filter_map(|it| match it[..] {
        ["Debian", place, release] if !place.starts_with("cdrom:") => Some((place, release)),
        _ => None,
    });
    own.collect()
}

/// The packages to unpack: the named ones, and those that an installation of them would bring and they need.
fn wanted(tool: &Tool, settings: &[String]) -> Result<String, String> {
    // An answer that is missing does not mean that nothing is needed.
    let apt = |program: &str, words: &str| {
        let settings = settings.iter().flat_map(|it| ["-o", it]);
        let asked: Vec<_> = settings.chain(words.split(' ')).collect();
        output(program, &asked).ok_or_else(|| format!("`{program} {words}` failed"))
    };
    if !tool.version.is_empty() {
        // There may be later ones in other lists.
        return Ok(format!("{}/{}", tool.packages, tool.version));
    }
    let mut named = tool.packages.to_owned();
    if tool.packages.starts_with("postgresql ") {
        let server = server_in(&apt("apt-cache", "depends postgresql")?);
        let number = server.ok_or("the lists of packages have no PostgreSQL")?;
        let packages = format!("postgresql-{number} postgresql-client-{number}");
        named = named.replace("postgresql", &packages);
    }
    let simulated = apt(
        "apt-get",
        &format!("-s install --no-install-recommends {named}"),
    )?;
    let others = installed_in(&simulated).filter(|it| (tool.needs)(it));
    Ok(others.fold(named.clone(), |all, it| format!("{all} {it}")))
}

/// The number in the package that `postgresql` stands for.
pub(super) fn server_in(depends: &str) -> Option<u32> {
    let mut words = depends.split_whitespace();
    words.find_map(|it| it.strip_prefix("postgresql-")?.parse().ok())
}

/// The packages that a simulated installation has named.
pub(super) fn installed_in(simulated: &str) -> impl Iterator<Item = &str> {
    let lines = simulated.lines();
    lines.filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next())
}

/// Runs apt-get in a folder, which is where it puts downloads.
fn download(folder: &Path, settings: &[String], words: &str) -> Result<(), String> {
    let folder = folder.display().to_string();
    let mut all = vec!["env", "-C", &folder, "apt-get", "-qq"];
    // For a network with gaps.
    all.extend(["-o", "Acquire::Retries=3"]);
    all.extend(settings.iter().flat_map(|it| ["-o", it]));
    all.extend(words.split(' '));
    let failed = || format!("`apt-get {words}` failed");
    run(&all).then_some(()).ok_or_else(failed)
}
