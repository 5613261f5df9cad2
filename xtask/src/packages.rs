//! Packages of the system, where they can be installed without asking anybody.

use std::path::Path;

use crate::machine::{self, find, succeeds};

/// The way in which packages can be installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rights {
    #[default]
    None,
    /// sudo works without a password.
    Sudo,
    Root,
}

impl Rights {
    pub(crate) fn gather() -> Self {
        if succeeds("sh", &["-c", "test \"$(id -u)\" = 0"]) {
            Self::Root
        } else if succeeds("sudo", &["-n", "true"]) {
            Self::Sudo
        } else {
            Self::None
        }
    }
}

/// The facts for and against installing packages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// A Debian or Ubuntu with `apt-get`.
    pub(crate) debian: bool,
    pub(crate) rights: Rights,
    /// `DLOCK_NO_INSTALL` is set.
    pub(crate) forbidden: bool,
}

impl Facts {
    pub(crate) fn gather() -> Self {
        Self {
            debian: Path::new("/etc/debian_version").exists() && find("apt-get").is_some(),
            rights: Rights::gather(),
            forbidden: machine::nothing_may_be_installed(),
        }
    }

    /// `true` if sudo is needed; or the obstacle, to be put behind `no … found`.
    pub(crate) fn plan(self) -> Result<bool, &'static str> {
        match self.rights {
            _ if self.forbidden => Err(", and DLOCK_NO_INSTALL is set"),
            _ if !self.debian => Err(""),
            Rights::None => Err(", and no right to install it without a password"),
            rights => Ok(rights == Rights::Sudo),
        }
    }
}

/// Gets the lists of packages anew, where that is allowed.
pub(crate) fn update() {
    if let Ok(sudo) = Facts::gather().plan() {
        apt_get(sudo, &["update"]);
    }
}

/// Installs packages; whether that succeeded.
pub(crate) fn install(sudo: bool, packages: &[&str]) -> bool {
    // A mirror that is down need not be the one that has the package.
    if !apt_get(sudo, &["update"]) {
        eprintln!("warning: the package lists are not up to date");
    }
    let words = ["install", "-y", "--no-install-recommends"];
    apt_get(sudo, &[&words, packages].concat())
}

fn apt_get(sudo: bool, arguments: &[&str]) -> bool {
    // Through `env`, because sudo drops variables that are set before it. The options wait
    // for another apt-get and for a network with gaps.
    let fixed = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-o",
        "DPkg::Lock::Timeout=120",
        "-o",
        "Acquire::Retries=3",
    ];
    let words: Vec<&str> = sudo
        .then_some(["sudo", "-n"])
        .into_iter()
        .flatten()
        .chain(fixed)
        .chain(arguments.iter().copied())
        .collect();
    machine::run(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sudo_is_used_only_when_needed() {
        let debian = |rights| Facts {
            debian: true,
            rights,
            forbidden: false,
        };
        assert_eq!(debian(Rights::Root).plan(), Ok(false));
        assert_eq!(debian(Rights::Sudo).plan(), Ok(true));
        assert!(debian(Rights::None).plan().is_err());
    }

    #[test]
    fn nothing_is_installed_where_it_is_forbidden_or_cannot_be() {
        for (debian, forbidden) in [(true, true), (false, false), (false, true)] {
            let facts = Facts {
                debian,
                rights: Rights::Root,
                forbidden,
            };
            assert!(facts.plan().is_err());
        }
    }
}
