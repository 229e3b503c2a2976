//! `tidegate steps`, `connectors` and `functions`.

use super::USAGE;
use tidegate_api::nearest;
use tidegate_connectors::OptionDef;

pub(super) fn steps(name: Option<&str>) -> u8 {
    let all = tidegate::reference::steps::all().map(|step| {
        let keys: Vec<String> = step.keys.iter().map(|key| format!("  {}: {}\n      {}\n", key.name, key.takes, key.text)).collect();
        let reference = format!("{}: {}\n\nkeys:\n{}\noutput: {}\n\n{}\n", step.op, step.summary, keys.concat(), step.output, step.example);
        (step.op, step.summary, reference)
    });
    show("step", name, all.collect())
}

pub(super) fn connectors(name: Option<&str>) -> u8 {
    let all = tidegate_connectors::CONNECTORS.iter().map(|connector| {
        let half = |name: &str, options: &[OptionDef]| {
            let lines = options.iter().map(|option| {
                let default = if option.default.is_empty() { "must be there".to_string() } else { format!("default {}", option.default) };
                format!("  {}: {} ({default})\n      {}\n", option.name, option.kind, option.doc)
            });
            format!("\n{name}:\n{}", lines.collect::<String>())
        };
        let source = connector.source.as_ref().map(|source| half("source", source.options)).unwrap_or_default();
        let sink = connector.sink.as_ref().map(|sink| half("sink", sink.options)).unwrap_or_default();
        (connector.name, connector.doc, format!("{}: {}\n{source}{sink}", connector.name, connector.doc))
    });
    show("connector", name, all.collect())
}

pub(super) fn functions(name: Option<&str>) -> u8 {
    let all = tidegate_dialect::functions().iter().map(|function| {
        let examples: Vec<String> = function.examples.iter().map(|(text, value)| format!("  {text} => {value}\n")).collect();
        (function.name, function.doc, format!("{}\n\n{}\n\n{}", function.signature, function.doc, examples.concat()))
    });
    show("function", name, all.collect())
}

/// Prints one line each, or the whole reference of one.
fn show(kind: &str, name: Option<&str>, all: Vec<(&'static str, &'static str, String)>) -> u8 {
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
