//! The name under which other processes see this process.

/// Returns `application@host/pid` in printable ASCII, without spaces and `#`. A function name may follow
/// after `#`.
pub(crate) fn label(application: Option<&str>) -> String {
    // Short enough that the process id is never truncated.
    const LONGEST: usize = 58;
    let plain = |text: &str| -> String {
        let is_plain = |c: char| c.is_ascii_graphic() && c != '#';
        let plain = |c: char| if is_plain(c) { c } else { '_' };
        text.chars().map(plain).take(LONGEST).collect()
    };
    let (host, pid) = (plain(&host()), std::process::id());
    match application {
        Some(name) => format!("{}@{host}/{pid}", plain(name)),
        None => format!("{host}/{pid}"),
    }
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_printable_word() {
        let shown = label(Some("billing service\n#{ü}"));
        assert!(shown.starts_with("billing_service__{_}@"), "{shown}");
        let long = label(Some(&"x".repeat(500)));
        for label in [shown, long] {
            assert!(label.chars().all(|c| c.is_ascii_graphic()) && label.len() <= 128);
            assert!(
                label.ends_with(&format!("/{}", std::process::id())),
                "{label}"
            );
        }
    }
}
