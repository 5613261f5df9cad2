//! The cases of `dlock-conformance`: none is left out.

pub(crate) use crate::cases::contract::*;

#[test]
fn no_case_is_left_out() {
    let source = include_str!("cases/contract.rs");
    for case in dlock_conformance::cases() {
        let run = format!("    {} of ", case.name);
        assert!(source.contains(&run), "{}", case.name);
    }
}
