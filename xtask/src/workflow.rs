//! The workflow of GitHub runs what `.ci/run` runs, and nothing else.

use std::fs;

use crate::cargo;

#[test]
fn the_only_command_is_that_of_ci() {
    let workflows = cargo::root().join(".github/workflows");
    for file in fs::read_dir(workflows).expect("the folder is there") {
        let file = file.expect("it can be read").path();
        let text = fs::read_to_string(&file).expect("it is text");
        let commands: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("run:"))
            .map(str::trim)
            .collect();
        assert_eq!(commands, [".ci/run"], "{}", file.display());
    }
}
