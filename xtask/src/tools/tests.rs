//! The decisions where to get a tool, and the message where there is none.

use super::*;
use crate::packages::Rights;

/// A machine on which all can be installed, by a user with the permission.
fn debian() -> Facts {
    Facts {
        pip: true,
        packages: packages::Facts {
            debian: true,
            rights: Rights::Sudo,
            forbidden: false,
        },
        ..Facts::default()
    }
}

fn forbidden() -> Facts {
    let mut facts = debian();
    facts.packages.forbidden = true;
    facts
}

#[test]
fn what_is_named_is_used_before_all_else() {
    for tool in &TOOLS {
        let facts = Facts {
            named: Some("/opt/own".into()),
            is_there: true,
            elsewhere: Some("/usr/bin/other".into()),
            ..debian()
        };
        assert_eq!(facts.plan(tool), Plan::Use("/opt/own".into()));
    }
}

#[test]
fn a_name_without_a_file_is_not_replaced() {
    for tool in &TOOLS {
        let facts = Facts {
            wrongly_named: Some("/opt/gone".into()),
            is_there: true,
            ..debian()
        };
        let reason = format!("{} is `/opt/gone`, which is not there", tool.variable);
        assert_eq!(facts.plan(tool), Plan::Refuse(reason));
    }
}

#[test]
fn what_is_there_is_not_got_again() {
    let facts = Facts {
        is_there: true,
        ..forbidden()
    };
    assert!(matches!(facts.plan(&TOOLS[0]), Plan::Use(_)));
}

#[test]
fn the_version_of_the_tests_is_preferred_where_it_can_be_had() {
    let other = || Some("/usr/bin/other".to_owned());
    let facts = Facts {
        elsewhere: other(),
        ..debian()
    };
    let install = Plan::Install { pip_first: None };
    assert_eq!(facts.plan(&TOOLS[0]), install);
    let facts = Facts {
        elsewhere: other(),
        ..forbidden()
    };
    assert_eq!(facts.plan(&TOOLS[0]), Plan::Use("/usr/bin/other".into()));
}

#[test]
fn a_missing_pip_is_installed_first_where_that_is_allowed() {
    let facts = Facts {
        pip: false,
        ..debian()
    };
    let plan = facts.plan(&TOOLS[1]);
    let pip_first = Some(true);
    assert_eq!(plan, Plan::Install { pip_first });
}

#[test]
fn pip_alone_is_enough() {
    let facts = Facts {
        pip: true,
        ..Facts::default()
    };
    let install = Plan::Install { pip_first: None };
    assert_eq!(facts.plan(&TOOLS[3]), install);
}

#[test]
fn a_refusal_says_what_to_name() {
    for tool in &TOOLS {
        for facts in [forbidden(), Facts::default()] {
            let Plan::Refuse(reason) = facts.plan(tool) else {
                panic!("this machine is not to be changed");
            };
            assert!(reason.contains(tool.variable), "{reason}");
            assert!(reason.starts_with(&format!("no {} found, and ", tool.name)));
        }
    }
}
