//! The documents, and what they are made of.

use std::{fs, path::PathBuf};

use crate::root;

/// Where documents lie: a folder, or folders whose names begin so.
const FOLDERS: [&str; 7] = [
    "",
    "docs/book/src",
    "docs/book/src/",
    "evidence",
    "dlock-",
    "examples",
    "examples/",
];

/// A text that people read, by its path from the root.
pub(crate) struct Document {
    pub(crate) path: String,
    text: String,
}

/// A block of code between fences.
pub(crate) struct Block {
    /// Where it begins, as an editor shows it.
    pub(crate) place: String,
    /// The word behind the fence, without what follows its comma.
    pub(crate) language: String,
    /// What follows the comma.
    pub(crate) attributes: String,
    pub(crate) text: String,
}

/// All documents. One in a place that nobody has thought of is not among them.
pub(crate) fn all() -> Vec<Document> {
    let mut paths: Vec<String> = folders()
        .into_iter()
        .flat_map(|folder| {
            let entries = fs::read_dir(root().join(&folder)).unwrap();
            entries.filter_map(move |entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = PathBuf::from(&folder).join(name);
                let is_document = path.extension().is_some_and(|it| it == "md");
                is_document.then(|| path.to_str().unwrap().to_owned())
            })
        })
        .collect();
    paths.sort();
    paths.into_iter().map(read).collect()
}

fn folders() -> Vec<String> {
    let mut folders = Vec::new();
    for folder in FOLDERS {
        if root().join(folder).is_dir() && !folder.ends_with('/') {
            folders.push(folder.to_owned());
            continue;
        }
        let (parent, start) = folder.rsplit_once('/').unwrap_or(("", folder));
        for entry in fs::read_dir(root().join(parent)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() && name.starts_with(start) {
                let path = PathBuf::from(parent).join(name);
                folders.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    folders
}

fn read(path: String) -> Document {
    let text = fs::read_to_string(root().join(&path)).unwrap();
    Document { path, text }
}

/// The document at this path.
pub(crate) fn at(path: &str) -> Document {
    read(path.to_owned())
}

impl Document {
    /// Its blocks, in their order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open): (_, Option<Block>) = (Vec::new(), None);
        for (number, line) in self.text.lines().enumerate() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(words)) => {
                    let (language, attributes) = words.split_once(',').unwrap_or((words, ""));
                    open = Some(Block {
                        place: format!("{}:{}", self.path, number + 1),
                        language: language.trim().to_owned(),
                        attributes: attributes.trim().to_owned(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        if let Some(block) = open {
            panic!("{}: the block has no end", block.place);
        }
        blocks
    }

    /// The blocks in one language.
    pub(crate) fn blocks_in(&self, language: &str) -> Vec<Block> {
        let mut blocks = self.blocks();
        blocks.retain(|block| block.language == language);
        blocks
    }

    /// The lines outside of blocks with their numbers, without what stands between backticks.
    pub(crate) fn prose(&self) -> Vec<(usize, String)> {
        let mut is_code = false;
        let lines = self.text.lines().enumerate();
        lines
            .filter_map(|(number, line)| {
                if line.trim_start().starts_with("```") {
                    is_code = !is_code;
                    return None;
                }
                let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
                (!is_code).then_some((number + 1, outside))
            })
            .collect()
    }

    /// What a link to each of its headings ends with.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut is_code = false;
        let mut anchors: Vec<String> = Vec::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            let heading = line.trim_start_matches('#');
            if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
                continue;
            }
            let anchor: String = heading
                .trim()
                .to_lowercase()
                .chars()
                .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'))
                .map(|it| if it == ' ' { '-' } else { it })
                .collect();
            anchors.push(anchor);
        }
        anchors
    }
}

#[test]
fn documents_are_found() {
    let paths: Vec<_> = all().into_iter().map(|document| document.path).collect();
    for path in [
        "ARCHITECTURE.md",
        "README.md",
        "dlock-runtime/README.md",
        "docs/book/src/explanation/guarantees.md",
        "evidence/scenarios.md",
    ] {
        assert!(paths.iter().any(|found| found == path), "{path}: {paths:?}");
    }
}

#[test]
fn a_document_is_taken_apart() {
    let document = Document {
        path: "a.md".to_owned(),
        text: "# One `two`, three\n```rust,no_run\n# hidden\n```\n[a](b) `[c](d)`\n".to_owned(),
    };
    let [block] = document.blocks().try_into().ok().unwrap();
    assert_eq!(block.place, "a.md:2");
    assert_eq!((&*block.language, &*block.attributes), ("rust", "no_run"));
    assert_eq!(block.text, "# hidden\n");
    assert_eq!(document.anchors(), ["one-two-three"]);
    assert_eq!(document.prose()[1], (5, "[a](b) ``".to_owned()));
}
