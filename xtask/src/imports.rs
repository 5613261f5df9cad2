//! No circle of imports among the product's files, and none against the order of the runtime's rooms: data goes down
//! and comes back as values.
//!
//! A file imports another one if it names something that is defined there, by a `use` or by a path. What a file
//! re-exports counts as that of the file which defines it. Code of unit tests does not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The packages whose files are looked at.
const PACKAGES: [&str; 10] = [
    "dlock-runtime",
    "dlock-admin",
    "dlock-admin-web",
    "dlock-macros",
    "dlock-net",
    "dlock-cli",
    "dlock-conformance",
    "dlock-etcd",
    "dlock-postgres",
    "dlock-zookeeper",
];

/// Modules of tests, and those that stand in for others in them.
pub(crate) const TESTS: [&str; 6] = [
    "tests",
    "live_tests",
    "fuzzing",
    "fake",
    "threads",
    "interrupted",
];

/// The rooms of the runtime, each with those that it may import. Every other file is a leaf, which any room may import and
/// which imports leaves alone.
const ROOMS: [(&str, &[&str]); 7] = [
    ("store", &[]),
    ("state", &[]),
    ("observe", &["state"]),
    ("engine", &["store", "state", "observe"]),
    ("api", &["store", "state", "observe", "engine"]),
    ("web", &[]),
    ("admin", &["store"]),
];

type Module = Vec<String>;

#[derive(Default)]
struct Names {
    /// The paths that are named, from the root of the crate, each with `true` if it is a re-export.
    paths: Vec<(Module, bool)>,
}

/// The files of a package by their module.
struct Package {
    modules: BTreeMap<Module, Names>,
}

impl Package {
    fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        find(root, &mut files);
        let mut modules = BTreeMap::new();
        for file in files {
            let inside = file.strip_prefix(root).expect("it was found in there");
            let mut module: Module = inside
                .with_extension("")
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            module.pop_if(|last| matches!(last.as_str(), "lib" | "main" | "mod"));
            if module.iter().any(|part| TESTS.contains(&part.as_str())) {
                continue;
            }
            let text = fs::read_to_string(&file).expect("it can be read");
            let tokens: TokenStream = text.parse().expect("it compiles");
            let mut names = Names::default();
            let tokens: Vec<_> = tokens.into_iter().collect();
            names.of_items(&module, &tokens);
            modules.insert(module, names);
        }
        Self { modules }
    }

    /// The module that defines what `path` names.
    fn definer(&self, path: &[String], depth: usize) -> Option<&Module> {
        let (module, names) = (0..=path.len())
            .rev()
            .find_map(|len| self.modules.get_key_value(&path[..len]))?;
        if let Some(name) = path.get(module.len())
            && depth < 8
        {
            let mut exported = names.paths.iter().filter(|(_, is_exported)| *is_exported);
            let target = exported.find(|(target, _)| target.last() == Some(name));
            if let Some((target, _)) = target
                && target != path
            {
                return self.definer(target, depth + 1);
            }
        }
        Some(module)
    }

    /// The imports of each module.
    fn edges(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let edges = self.modules.iter().map(|(module, names)| {
            let of_child = |path: &Module| path.len() > module.len() && path.starts_with(module);
            let imports = names
                .paths
                .iter()
                .filter(|(path, is_exported)| !(*is_exported && of_child(path)))
                .filter_map(|(path, _)| self.definer(path, 0))
                .filter(|other| *other != module);
            (module, imports.collect())
        });
        edges.collect()
    }

    /// All files that import each other, directly or through others; a group for each circle.
    fn circles(&self) -> Vec<Vec<&Module>> {
        let edges = self.edges();
        let reached: BTreeMap<_, _> = edges
            .keys()
            .map(|module| (*module, reached(&edges, module)))
            .collect();
        let mut groups = BTreeSet::new();
        for (module, others) in &reached {
            let both = others
                .iter()
                .filter(|other| reached[**other].contains(module));
            let group: Vec<_> = both.copied().collect();
            if !group.is_empty() {
                groups.insert(group);
            }
        }
        groups.into_iter().collect()
    }

    /// The imports of a file in a room, or of a leaf, that the order of the rooms does not allow.
    fn against_order(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (module, names) in self.modules.iter().filter(|(module, _)| !module.is_empty()) {
            let allowed = room(module).map_or(&[][..], |(_, allowed)| allowed);
            for (path, _) in &names.paths {
                let definer = self.definer(path, 0);
                // What a room re-exports of a leaf is the leaf's, but a file says by its path where it looks.
                for other in [definer.unwrap_or(path), path] {
                    if let Some((other, _)) = room(other)
                        && !module.starts_with(&[other.to_owned()])
                        && !allowed.contains(&other)
                    {
                        found.push(format!("{}: {}", name(module), path.join("::")));
                    }
                }
            }
        }
        found.dedup();
        found
    }
}

/// The room that a path leads to, unless it is a leaf.
fn room(path: &[String]) -> Option<(&'static str, &'static [&'static str])> {
    let first = path.first()?;
    ROOMS.into_iter().find(|(room, _)| room == first)
}

pub(crate) fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("it is a folder") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

/// All that `from` imports, also through others.
fn reached<'a>(
    edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        let imports = edges.get(module).into_iter().flatten();
        next.extend(imports.filter(|other| reached.insert(**other)));
    }
    reached
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

impl Names {
    /// Adds the names in the items of `module`, in its file or in a block.
    fn of_items(&mut self, module: &Module, tokens: &[TokenTree]) {
        let mut at = 0;
        let (mut is_test, mut is_public) = (false, false);
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    at += 1;
                    if is_mark(tokens.get(at), '!') {
                        at += 1;
                    }
                    if let Some(TokenTree::Group(group)) = tokens.get(at) {
                        let text = group.stream().to_string().replace(' ', "");
                        is_test |=
                            text.starts_with("cfg(test)") || text.starts_with("cfg(all(test");
                    }
                }
                TokenTree::Ident(word) if *word == "pub" => {
                    is_public = true;
                    // The content of the parentheses names no item.
                    if matches!(tokens.get(at + 1), Some(TokenTree::Group(_))) {
                        at += 1;
                    }
                }
                // `use<..>` of a type imports nothing.
                TokenTree::Ident(word) if *word == "use" && !is_mark(tokens.get(at + 1), '<') => {
                    let ends = |token: &TokenTree| is_mark(Some(token), ';');
                    let len = tokens[at..].iter().position(ends).unwrap_or(0);
                    if !is_test {
                        self.of_use(module, &[], &tokens[at + 1..at + len], is_public);
                    }
                    at += len;
                    (is_test, is_public) = (false, false);
                }
                TokenTree::Ident(word)
                    if *word == "mod"
                        && matches!(tokens.get(at + 2), Some(TokenTree::Group(_))) =>
                {
                    if let (false, Some(TokenTree::Group(group))) = (is_test, tokens.get(at + 2)) {
                        let tokens: Vec<_> = group.stream().into_iter().collect();
                        self.of_items(module, &tokens);
                    }
                    at += 2;
                    (is_test, is_public) = (false, false);
                }
                TokenTree::Ident(word)
                    if is_root(&word.to_string())
                        && !is_test
                        && is_mark(tokens.get(at + 1), ':') =>
                {
                    let len = path_len(&tokens[at..]);
                    // In a macro, `$crate` is the crate that defines it, as its callers see it.
                    if at == 0 || !is_mark(tokens.get(at - 1), '$') {
                        self.of_use(module, &[], &tokens[at..at + len], false);
                    }
                    at += len - 1;
                }
                TokenTree::Group(group) => {
                    if !is_test {
                        let tokens: Vec<_> = group.stream().into_iter().collect();
                        self.of_items(module, &tokens);
                    }
                    if group.delimiter() == Delimiter::Brace {
                        (is_test, is_public) = (false, false);
                    }
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => {
                    (is_test, is_public) = (false, false);
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// The paths of a tree of imports, of which `before` has been read.
    fn of_use(
        &mut self,
        module: &Module,
        before: &[String],
        tokens: &[TokenTree],
        is_exported: bool,
    ) {
        let comma = |token: &TokenTree| is_mark(Some(token), ',');
        // After the last comma there is no tree.
        for tree in tokens.split(comma).filter(|tree| !tree.is_empty()) {
            let mut path = before.to_vec();
            let mut is_whole = true;
            for (at, token) in tree.iter().enumerate() {
                match token {
                    TokenTree::Ident(word) if *word == "as" => break,
                    TokenTree::Ident(word) => path.push(word.to_string()),
                    TokenTree::Group(group) if at > 0 || tree.len() == 1 => {
                        let tokens: Vec<_> = group.stream().into_iter().collect();
                        self.of_use(module, &path, &tokens, is_exported);
                        is_whole = false;
                    }
                    _ => {}
                }
            }
            if is_whole && let Some(path) = from_root(module, &path) {
                self.paths.push((path, is_exported));
            }
        }
    }
}

fn is_root(word: &str) -> bool {
    matches!(word, "crate" | "super" | "self")
}

/// The number of tokens of a path.
fn path_len(tokens: &[TokenTree]) -> usize {
    let mut len = 1;
    while is_mark(tokens.get(len), ':')
        && is_mark(tokens.get(len + 1), ':')
        && matches!(tokens.get(len + 2), Some(TokenTree::Ident(_)))
    {
        len += 3;
    }
    len
}

/// `path` from the root of the crate, if it begins in the crate.
fn from_root(module: &Module, path: &[String]) -> Option<Module> {
    let mut root = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        // A child, or another crate, which no module is.
        _ => [module.as_slice(), &path[..1]].concat(),
    };
    for part in &path[1..] {
        match part.as_str() {
            "super" => drop(root.pop()),
            "self" => {}
            part => root.push(part.to_owned()),
        }
    }
    Some(root)
}

fn name(module: &Module) -> String {
    match module.as_slice() {
        [] => "main".to_owned(),
        module => module.join("/"),
    }
}

/// The files of a package of the repository.
fn read(package: &str) -> Package {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("it is in the repository");
    let read = Package::read(&root.join(package).join("src"));
    assert!(read.modules.len() > 5, "{package} has more files");
    read
}

#[test]
fn no_file_imports_what_imports_it() {
    let mut found = Vec::new();
    for package in PACKAGES {
        let read = read(package);
        for circle in read.circles() {
            let files: Vec<_> = circle.iter().map(|module| name(module)).collect();
            found.push(format!("{package}: {}", files.join(", ")));
            for module in &circle {
                for (path, _) in &read.modules[*module].paths {
                    let other = read.definer(path, 0);
                    if let Some(other) = other.filter(|it| it != module && circle.contains(it)) {
                        let path = path.join("::");
                        found.push(format!("  {}: {path}, of {}", name(module), name(other)));
                    }
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "these files import each other, so that none can be read or changed alone:\n{}",
        found.join("\n")
    );
}

#[test]
fn rooms_import_those_below_them_alone() {
    let found = read("dlock-runtime").against_order();
    assert!(
        found.is_empty(),
        "these imports are against the order of the rooms, see `ROOMS`:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_circle_is_found_through_re_exports_and_paths() {
    let package = |second: &str| {
        of(&[
            ("", "pub use first::{First, other as another};"),
            (
                "first",
                "mod inner; use self::inner::Inner; pub struct First;",
            ),
            ("first/inner", "use crate::{second::Second};"),
            ("second", second),
        ])
    };
    for circle in [
        "use crate::First;",
        "fn make() -> super::First { todo!() }",
        "fn make() { { use super::{first::{First as Another}}; } }",
    ] {
        let package = package(circle);
        let circles = package.circles();
        assert_eq!(circles.len(), 1, "{circle}");
        assert_eq!(circles[0].len(), 3, "{circle}");
    }
    for line in [
        "#[cfg(test)] mod tests { use crate::First; }",
        "#[cfg(test)] use crate::First;",
        "fn make() -> impl Sized + use<> { use std::mem; }",
        "fn make() { $crate::First; std::mem::drop(()) }",
    ] {
        assert!(package(line).circles().is_empty(), "{line}");
    }
}

#[test]
fn an_import_against_the_order_is_found_through_re_exports_and_paths() {
    let package = |module: &'static str, text: &str| {
        of(&[
            ("", "pub use store::{Holder, LockStore};"),
            ("answer", "pub struct Holder;"),
            (
                "store",
                "mod contract; pub use self::contract::LockStore; pub use crate::answer::Holder;",
            ),
            (
                "store/contract",
                "use crate::answer::Holder; pub trait LockStore {}",
            ),
            (module, text),
        ])
    };
    for (module, line) in [
        ("state", "use crate::store::contract::LockStore;"),
        ("state", "use crate::LockStore;"),
        (
            "state/attempt",
            "fn answer() -> crate::store::Holder { todo!() }",
        ),
        ("key", "use crate::{store::LockStore as Store};"),
        ("store/redis", "use crate::observe::told;"),
        ("observe", "use super::engine;"),
    ] {
        let found = package(module, line).against_order();
        assert_eq!(found.len(), 1, "{module}: {line}");
    }
    for (module, line) in [
        ("state", "use crate::answer::Holder;"),
        ("state", "use crate::Holder;"),
        ("state/attempt", "use super::event::Event;"),
        (
            "store/redis",
            "use super::Holder; use crate::store::LockStore;",
        ),
        ("engine", "use crate::{LockStore, state::KeyState};"),
    ] {
        assert!(
            package(module, line).against_order().is_empty(),
            "{module}: {line}"
        );
    }
}

/// A package of these files.
fn of(files: &[(&str, &str)]) -> Package {
    let files = files.iter().map(|(module, text)| {
        let module: Module = module
            .split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        let tokens: TokenStream = text.parse().expect("it is Rust");
        let mut names = Names::default();
        names.of_items(&module, &tokens.into_iter().collect::<Vec<_>>());
        (module, names)
    });
    Package {
        modules: files.collect(),
    }
}
