//! What can be got on this machine, and its apt-get.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};

use super::pip;
use super::tool::Source;
use crate::cargo;
use crate::machine::{find, nothing_may_be_installed, output, run, succeeds};

/// The facts for and against getting something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// `DLOCK_NO_INSTALL` is set.
    pub(super) is_forbidden: bool,
    /// A Debian or Ubuntu with `apt-get`.
    pub(super) is_debian: bool,
    /// Packages can be installed without a password; `true` if that takes sudo.
    pub(super) sudo: Option<bool>,
}

impl Facts {
    fn gather() -> Self {
        let is_root = || succeeds("sh", &["-c", "test \"$(id -u)\" = 0"]);
        let is_allowed = || succeeds("sudo", &["-n", "true"]);
        Self {
            is_forbidden: nothing_may_be_installed(),
            is_debian: Path::new("/etc/debian_version").exists() && find("apt-get").is_some(),
            sudo: if is_root() {
                Some(false)
            } else {
                is_allowed().then_some(true)
            },
        }
    }

    /// The obstacle to getting a tool.
    pub(super) fn obstacle(
        self,
        source: Source,
        has_pip: impl Fn() -> bool,
    ) -> Option<&'static str> {
        let is_of_pip = matches!(source, Source::Pip | Source::Module);
        match source {
            _ if self.is_forbidden => Some("DLOCK_NO_INSTALL is set"),
            _ if is_of_pip && has_pip() => None,
            _ if is_of_pip && !self.is_debian => Some("there is no pip to get it with"),
            _ if !self.is_debian => Some("no packages of Debian can be got here"),
            Source::Debian => None,
            _ if self.sudo.is_none() => Some("there is no right to install it without a password"),
            _ => None,
        }
    }
}

/// This machine, and what is known of it by now.
pub(super) struct Host {
    /// `target/tools`.
    pub(super) tools: PathBuf,
    pub(super) facts: Facts,
    /// Those of apt.
    pub(super) settings: Vec<String>,
    /// apt reads the lists of packages for a second, unless they are kept in here.
    pub(super) cache: PathBuf,
    sources: OnceLock<String>,
    had_pip: OnceLock<bool>,
    /// The packages that are not there.
    pub(super) missing: Vec<&'static str>,
    is_installed: OnceLock<bool>,
}

impl Host {
    pub(super) fn gather() -> Self {
        let tools = cargo::target().join("tools");
        let cache = tools.join(format!("apt.new-{}", std::process::id()));
        let setting = |name| format!("Dir::Cache::{name}={}/{name}.bin", cache.display());
        Self {
            facts: Facts::gather(),
            // apt's own user may not read the folder.
            settings: vec![
                setting("pkgcache"),
                setting("srcpkgcache"),
                "APT::Sandbox::User=root".to_owned(),
            ],
            sources: OnceLock::new(),
            had_pip: OnceLock::new(),
            missing: Vec::new(),
            is_installed: OnceLock::new(),
            cache,
            tools,
        }
    }

    pub(super) fn had_pip(&self) -> bool {
        *self.had_pip.get_or_init(pip::has_pip)
    }

    /// Installs all missing packages in one call, if no other tool has done so.
    pub(super) fn install(&self) {
        self.is_installed.get_or_init(|| {
            // A mirror that is down need not be the one that has the package.
            if !update() {
                eprintln!("warning: the package lists are not up to date");
            }
            let packages = self.missing.join(" ");
            apt_get(
                self.facts,
                &format!("install -y --no-install-recommends {packages}"),
            )
        });
    }

    /// The sources of packages that apt has lists of. It gets the lists if there are none.
    pub(super) fn sources(&self) -> &str {
        self.sources.get_or_init(|| {
            fs::create_dir_all(&self.cache).ok();
            let format = "$(LABEL)\t$(REPO_URI)\t$(CODENAME)";
            let words = ["indextargets", "--format", format, "Created-By: Packages"];
            let gather = || {
                let _unchanged = unchanged();
                output("apt-get", &words).unwrap_or_default()
            };
            let sources = gather();
            // Without the lists, apt-get repeats the name of a field.
            if sources.lines().any(|it| !it.starts_with("$(")) {
                return sources;
            }
            update();
            gather()
        })
    }
}

/// Written to while the packages of this machine or their lists change. In the meantime apt-get answers with an error, or knows
/// fewer packages.
static PACKAGES: RwLock<()> = RwLock::new(());

/// Keeps this process from changing packages and lists until the guard is dropped.
pub(super) fn unchanged() -> RwLockReadGuard<'static, ()> {
    PACKAGES.read().unwrap_or_else(PoisonError::into_inner)
}

/// Gets the lists of packages anew, once and where that is allowed.
pub(super) fn update() -> bool {
    static IS_NEW: OnceLock<bool> = OnceLock::new();
    *IS_NEW.get_or_init(|| apt_get(Facts::gather(), "update"))
}

fn apt_get(facts: Facts, words: &str) -> bool {
    let Some(sudo) = facts.sudo.filter(|_| !facts.is_forbidden) else {
        return false;
    };
    // Through `env`, because sudo drops variables that are set before it. The options wait
    // for another apt-get and for a network with gaps.
    let words = format!(
        "{}env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 {words}",
        if sudo { "sudo -n " } else { "" }
    );
    let _alone = PACKAGES.write().unwrap_or_else(PoisonError::into_inner);
    run(&words.split(' ').collect::<Vec<_>>())
}
