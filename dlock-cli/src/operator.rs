//! The user of the program, for the record of what it has done.

use std::env;

/// The variables with the name of the user, the first of which counts. Behind `sudo`, `USER` is another one.
const USERS: [&str; 4] = ["SUDO_USER", "USER", "LOGNAME", "USERNAME"];

/// Returns `user@host`, as the environment and the system say.
pub(crate) fn name() -> String {
    let names = USERS.iter().filter_map(|name| env::var(name).ok());
    let user = names.into_iter().find(|it| !it.is_empty());
    format!("{}@{}", user.unwrap_or_else(number), host())
}

/// Returns the number of a user without a name, as in a container.
#[cfg(unix)]
fn number() -> String {
    format!("uid-{}", rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn number() -> String {
    "unknown".to_owned()
}

#[cfg(unix)]
fn host() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned())
}
