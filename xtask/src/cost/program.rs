//! The programs that are measured: the same functions with the attribute, with the explicit API,
//! and without a lock.

use std::path::Path;
use std::{fs, io};

use super::shapes::SHAPES;

/// The way in which the functions of a program get their locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Attribute,
    ByHand,
    Unlocked,
}

impl Program {
    pub(super) const ALL: [Self; 3] = [Self::Attribute, Self::ByHand, Self::Unlocked];

    /// The name of the package and of its binary.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Attribute => "attribute",
            Self::ByHand => "by-hand",
            Self::Unlocked => "unlocked",
        }
    }
}

/// Writes a workspace of all programs into `folder`; `root` is where dlock is.
pub(super) fn write(folder: &Path, root: &Path) -> io::Result<()> {
    let names = Program::ALL.map(|program| format!("{:?}", program.name()));
    let workspace = format!(
        "[workspace]\nmembers = [{}]\nresolver = \"3\"\n",
        names.join(", ")
    );
    save(&folder.join("Cargo.toml"), &workspace)?;
    // With the versions that dlock is tested with, and no need to ask a registry for others.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    for program in Program::ALL {
        let package = folder.join(program.name());
        save(&package.join("Cargo.toml"), &manifest(program, root))?;
        save(&package.join("src/main.rs"), &main())?;
        save(&package.join("src/shop.rs"), include_str!("shop.rs"))?;
        for shape in &SHAPES {
            let file = package.join(format!("src/{}.rs", shape.name));
            save(&file, &shape.module(program))?;
        }
    }
    Ok(())
}

fn save(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

fn manifest(program: Program, root: &Path) -> String {
    format!(
        "[package]\nname = {:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ndlock-rs = {{ path = '{}' }}\n\
         tokio = {{ version = \"1\", features = [\"rt\", \"macros\", \"sync\", \"time\"] }}\n",
        program.name(),
        root.display()
    )
}

/// Calls every function with values that come from outside, so that none is optimised away.
fn main() -> String {
    let lines = |line: &str| {
        let lines: Vec<String> = SHAPES
            .iter()
            .map(|shape| line.replace("NAME", shape.name))
            .collect();
        lines.join("\n")
    };
    let calls = lines("    answer(NAME::all(&shop, number, &text)).await;");
    MAIN.replace("MODULES", &lines("mod NAME;"))
        .replace("CALLS", &calls)
}

const MAIN: &str = "\
#![allow(dead_code, unused_imports, unused_variables)]

MODULES
mod shop;

use std::{env, error::Error, fmt::Debug, pin::Pin};

async fn answer<T: Debug>(jobs: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) {
    for job in jobs {
        println!(\"{:?}\", job.await);
    }
}

#[tokio::main(flavor = \"current_thread\")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or(\"which store?\")?;
    let text = env::args().nth(2).ok_or(\"which number?\")?;
    let number: u64 = text.parse()?;
    let locks = dlock::install(dlock::LockManager::connect(&url).await?)?;
    let shop = shop::Shop::new(text.clone(), locks.clone());
CALLS
    Ok(())
}
";
