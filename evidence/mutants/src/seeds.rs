//! The mistakes that are put into one copy of the sources, by their files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::mutant::Mutant;
use super::switch::{self, Seed, is_script};
use crate::workspace;

#[derive(Debug, Default)]
pub(super) struct Seeds {
    files: BTreeMap<String, InFile>,
}

/// What is put into one file.
#[derive(Debug, Default)]
struct InFile {
    text: String,
    seeds: Vec<Seed>,
    /// What the wrong texts need, for the end of the file.
    items: String,
}

impl Seeds {
    /// The mistakes of the list.
    pub(super) fn listed(mutants: &[&Mutant]) -> Result<Self, String> {
        let mut all = Self::default();
        for mutant in mutants {
            let file = all.file(mutant.file)?;
            file.seeds.extend(Seed::listed(mutant, &file.text)?);
            file.items += mutant.items;
        }
        Ok(all)
    }

    /// Puts a mistake into a file, made of its text.
    pub(super) fn put(
        &mut self,
        file: &str,
        seed: impl FnOnce(&str) -> Seed,
    ) -> Result<(), String> {
        let file = self.file(file)?;
        file.seeds.push(seed(&file.text));
        Ok(())
    }

    /// Takes these mistakes out again.
    pub(super) fn remove(&mut self, names: &BTreeSet<String>) {
        for file in self.files.values_mut() {
            file.seeds.retain(|seed| !names.contains(&seed.name));
        }
    }

    fn file(&mut self, name: &str) -> Result<&mut InFile, String> {
        if !self.files.contains_key(name) {
            let text = fs::read_to_string(workspace::root().join(name));
            let text = text.map_err(|error| format!("{name}: {error}"))?;
            let file = InFile {
                text,
                ..InFile::default()
            };
            self.files.insert(name.to_owned(), file);
        }
        Ok(self.files.get_mut(name).expect("it is there now"))
    }

    /// The packages into whose sources they are put.
    pub(super) fn packages(&self) -> BTreeSet<&str> {
        let names = self.files.keys();
        names.filter_map(|name| name.split('/').next()).collect()
    }

    /// The source of this name with all its mistakes, if it has some.
    pub(super) fn source(&self, name: &Path) -> Option<Result<String, String>> {
        let name = name.to_str()?;
        let file = self.files.get(name).filter(|_| !is_script(name))?;
        let made = switch::switched(&file.text, &file.seeds);
        let made = made.map_err(|error| format!("{name}: {error}"));
        Some(made.map(|made| made + &file.items))
    }

    /// The module `mistakes` of a package.
    pub(super) fn module(&self, package: &str) -> String {
        let is_own = |name: &str| is_script(name) && name.split('/').next() == Some(package);
        let own = self.files.iter().filter(|(name, _)| is_own(name));
        switch::module(own.flat_map(|(name, file)| {
            let seeds = file.seeds.iter();
            seeds.map(move |seed| (seed, &**name, &*file.text))
        }))
    }
}
