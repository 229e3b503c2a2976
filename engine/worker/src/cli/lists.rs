//! `tidegate steps`, `connectors` and `functions`.

use super::USAGE;
use tidegate_api::nearest;

pub(super) fn steps(name: Option<&str>) -> u8 {
    let all = tidegate_operators::STEPS.iter().map(|step| (step.op, step.summary.to_string(), step.reference()));
    show("step", name, all.collect())
}

pub(super) fn connectors(name: Option<&str>) -> u8 {
    let all = tidegate_connectors::CONNECTORS.iter().map(|info| (info.name, info.summary.to_string(), info.reference()));
    show("connector", name, all.collect())
}

pub(super) fn functions(name: Option<&str>) -> u8 {
    let all = tidegate_dialect::functions().iter().map(|info| (info.name, info.summary.to_string(), info.reference()));
    show("function", name, all.collect())
}

/// Prints one line each, or the whole reference of one.
fn show(kind: &str, name: Option<&str>, all: Vec<(&'static str, String, String)>) -> u8 {
    let Some(name) = name else {
        let width = all.iter().map(|(name, _, _)| name.len()).max().unwrap_or(0);
        for (name, summary, _) in &all {
            println!("{name:width$}  {summary}");
        }
        return 0;
    };
    match all.iter().find(|(known, _, _)| *known == name) {
        Some((_, _, reference)) => {
            print!("{reference}");
            0
        }
        None => {
            let hint = nearest::hint(name, all.iter().map(|(known, _, _)| *known));
            eprintln!("there is no {kind} `{name}`{hint}");
            USAGE
        }
    }
}
