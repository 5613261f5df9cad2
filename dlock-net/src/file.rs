//! The files that options of a URL name, such as certificates.

use std::{fs, io, path::Path};

/// Files with certificates are smaller by far.
const LARGEST: u64 = 16 * 1024 * 1024;

/// A name that is longer, and that looks like a key, is one.
const LONGEST_NAME: usize = 40;

/// The reason why the value of an option cannot be used. It shows nothing that is in a file.
///
/// ```
/// let error = dlock_net::read_option_file("sslrootcert", "/none.pem").unwrap_err();
/// assert_eq!(error.option, "sslrootcert");
/// assert!(error.to_string().starts_with("`sslrootcert`: cannot use `/none.pem`: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{option}`: {}", self.text())]
pub struct OptionError {
    /// The name of the option.
    pub option: &'static str,
    /// The path of the file, or another description of the source, unless the value itself is wrong.
    pub origin: Option<String>,
    /// The reason.
    pub reason: String,
}

impl OptionError {
    pub(crate) fn new(option: &'static str, reason: impl Into<String>) -> Self {
        Self {
            option,
            origin: None,
            reason: reason.into(),
        }
    }

    pub(crate) fn of(
        option: &'static str,
        origin: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            origin: Some(origin.into()),
            ..Self::new(option, reason)
        }
    }

    /// Returns the reason with the source that cannot be used, without the name of the option.
    #[must_use]
    pub fn text(&self) -> String {
        let reason = &self.reason;
        match &self.origin {
            Some(origin) => format!("cannot use `{origin}`: {reason}"),
            None => reason.clone(),
        }
    }
}

/// Reads the file that an option of a URL names, such as a certificate or its key.
///
/// It blocks its thread until the file is read.
///
/// # Errors
///
/// [`OptionError`] if the file cannot be read, is no regular file or is larger than 16 MiB, and if the option has the text of a key
/// in place of a name. The error does not show that text, and no content of a file.
pub fn read_option_file(
    option: &'static str,
    path: impl AsRef<Path>,
) -> Result<Vec<u8>, OptionError> {
    let path = path.as_ref();
    let name = path.to_string_lossy();
    if is_text(&name) {
        let reason = "it is the name of a file, and not its text";
        return Err(OptionError::new(option, reason));
    }
    read(path).map_err(|error| OptionError::of(option, name, error.to_string()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    // To read a pipe takes as long as its writer wants.
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if found.len() > LARGEST {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    fs::read(path)
}

/// Returns `true` for the text of a file in PEM format, the same in base64, and a key in base64 alone, which begins with an `M`.
fn is_text(name: &str) -> bool {
    let of_base64 = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"+/=".contains(&byte) || byte.is_ascii_whitespace()
    };
    let head = name.trim_start();
    let is_base64 = name.len() > LONGEST_NAME
        && name.bytes().all(of_base64)
        && ["LS0t", "M"].iter().any(|it| head.starts_with(it));
    is_base64 || name.contains("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str) -> String {
        read_option_file("sslkey", name).unwrap_err().to_string()
    }

    #[test]
    fn the_text_of_a_key_is_no_name_and_is_not_shown() {
        for key in [
            "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----",
            "MC4CAQAwBQYDK2VwBCIEIhushhushhushhushhushhushhushhushhushhush",
            "\nMC4CAQAwBQYDK2VwBCIEIhushhushhushhushhushhushhushhushhushhush",
            "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCkhushhushhushhush",
        ] {
            let error = refusal(key);
            assert!(error.contains("the name of a file"), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
        for name in [
            "Machines/of/the/shop/and/their/own/private/key.pem",
            "Machines/of/the/shop/and/their/own/private_key",
        ] {
            assert!(refusal(name).contains(name));
        }
    }

    #[test]
    fn a_file_that_has_no_end_is_refused() {
        for (name, why) in [("/", "no regular file"), ("/dev/zero", "no regular file")] {
            let error = refusal(name);
            assert!(error.contains(why) && error.contains(name), "{error}");
        }
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let read = read_option_file("sslkey", own).unwrap();
        assert_eq!(read, fs::read(own).unwrap());
    }

    #[test]
    fn a_file_may_have_16_mib_and_no_more() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().to_str().unwrap();
        file.as_file().set_len(LARGEST).unwrap();
        let read = read_option_file("sslkey", name).unwrap();
        assert_eq!(read.len(), 16 * 1024 * 1024);
        file.as_file().set_len(LARGEST + 1).unwrap();
        let error = refusal(name);
        let expected = format!("cannot use `{name}`: it is larger than 16 MiB");
        assert!(error.contains(&expected), "{error}");
    }

    #[test]
    fn a_name_that_could_be_a_key_is_one_if_it_is_long() {
        let name = |length: usize| format!("M{}", "a".repeat(length - 1));
        assert!(refusal(&name(40)).contains(&name(40)));
        assert!(!refusal(&name(41)).contains(&name(41)));
        let other = name(41).replace('M', "N");
        assert!(refusal(&other).contains(&other));
    }
}
