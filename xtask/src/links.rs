//! Links of pages in HTML: each leads to a file beside them.
//!
//! rustdoc and mdBook keep a link as it is written, also where the file that it names is not published.

use std::path::{Component, Path};

use regex_lite::Regex;

use crate::files;

/// Checks the pages below the folders, which lie in `root`.
pub(crate) fn check(root: &Path, folders: &[&str]) -> Result<(), String> {
    let link = Regex::new(r#"(?:href|src)="([^"]+)""#).expect("a test compiles it");
    let mut pages = Vec::new();
    for folder in folders {
        pages.extend(files::below(&root.join(folder), "html")?);
    }
    if pages.is_empty() {
        return Err(format!("{} has no pages", root.display()));
    }
    let mut faults = Vec::new();
    for page in &pages {
        let text = files::read(page)?;
        let targets = link
            .captures_iter(&text)
            .map(|found| found.extract::<1>().1[0]);
        let lost = targets.filter(|target| leads_nowhere(page, target));
        let page = page.strip_prefix(root).unwrap_or(page).display();
        faults.extend(lost.map(|target| format!("{page}: `{target}` does not exist")));
    }
    faults.sort();
    faults.dedup();
    if faults.is_empty() {
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// `true` if a link names a file that does not exist. Links of other packages' documentation that rustdoc has copied
/// name items, not files: those have no extension.
fn leads_nowhere(page: &Path, target: &str) -> bool {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    let is_elsewhere = path.is_empty() || path.contains(':') || path.starts_with('/');
    // rustdoc names a list of a trait's implementations also where there are none.
    let is_file = Path::new(path).extension().is_some_and(|it| it != "js");
    if is_elsewhere || !is_file || path.contains(['$', '{']) {
        return false;
    }
    let mut found = page.parent().unwrap_or(page).to_path_buf();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            part => found.push(part),
        }
    }
    !found.exists()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_link_to_a_file_that_is_not_published_is_found() {
        let folder = crate::cargo::target().join("test-of-links");
        let pages = folder.join("book/reference");
        fs::create_dir_all(&pages).expect("target can be written");
        let text = r##"<a href="a.html#x">, <a href="#y">, <a href="https://example.com/a.md">, <a href="super::Item">"##;
        fs::write(pages.join("a.html"), text).expect("target can be written");
        assert_eq!(check(&folder, &["book"]), Ok(()));
        let lost = r#"<a href="../guarantees.md"><img src="b.png">"#;
        fs::write(pages.join("b.html"), lost).expect("target can be written");
        let faults = "book/reference/b.html: `../guarantees.md` does not exist\n\
                      book/reference/b.html: `b.png` does not exist";
        assert_eq!(check(&folder, &["book"]), Err(faults.to_owned()));
        fs::remove_dir_all(&folder).expect("nobody else uses it");
    }
}
