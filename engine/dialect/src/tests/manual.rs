//! The manual says what the dialect does: every example in it, and in the list of functions, is executed.

use super::{NOW, batch};
use crate::types::class;
use crate::{bind, functions};
use std::fmt::Write;
use std::path::Path;

/// Checks that an expression has a value; both are written in the dialect. `error` stands for a bad row.
fn check(expression: &str, value: &str) {
    let one = batch(Vec::new());
    let schema = one.schema();
    if value == "error" {
        match bind(expression, &schema) {
            Err(mistake) => assert!(mistake.message.starts_with("this always fails"), "{expression}: {mistake}"),
            Ok(typed) => assert_eq!(typed.compile().evaluate(&one, NOW).bad.len(), 1, "{expression} is no bad row"),
        }
        return;
    }
    let typed = |text: &str| bind(text, &schema).unwrap_or_else(|mistake| panic!("{}", mistake.render(text)));
    let (left, right) = (typed(expression), typed(value));
    if value != "null" {
        let names = [left.data_type(), right.data_type()].map(|ty| std::mem::discriminant(&class(ty)));
        assert_eq!(names[0], names[1], "{expression} is {}, {value} is {}", left.data_type(), right.data_type());
    }
    let question = format!("({expression}\n) == ({value}\n)");
    let found = super::rows(&question, &one);
    let shown = super::rows(expression, &one);
    assert_eq!(found, ["true"], "{expression} is {shown:?}, not {value}");
}

fn manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dialect.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_function_does_what_its_examples_say() {
    for function in functions() {
        assert!(!function.examples.is_empty(), "{} has no example", function.name);
        assert!(function.signature.starts_with(&format!("{}(", function.name)), "{}", function.signature);
        assert!(!function.doc.is_empty() && function.doc.ends_with('.'), "{}", function.name);
        for (expression, value) in function.examples {
            check(expression, value);
        }
    }
}

#[test]
fn the_functions_stand_in_order_and_once() {
    let names: Vec<String> = functions().iter().map(|function| function.name.to_lowercase()).collect();
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(names, sorted);
}

#[test]
fn every_example_of_the_manual_is_true() {
    let manual = manual();
    let mut examples = 0;
    let mut inside = false;
    for line in manual.lines() {
        if line.starts_with("```") {
            inside = line == "```dialect";
        } else if inside && !line.is_empty() {
            let (expression, value) = line.split_once(" => ").unwrap_or_else(|| panic!("no ` => ` in {line}"));
            check(expression.trim(), value.trim());
            examples += 1;
        }
    }
    assert!(examples > 50, "found only {examples} examples");
}

/// The list of functions stands behind this line, up to the end.
const MARK: &str = "<!-- functions -->\n";

#[test]
fn the_manual_lists_every_function() {
    let mut table = String::from("| function | | examples |\n|---|---|---|\n");
    for function in functions() {
        let escape = |text: &str| text.replace('|', "\\|");
        let examples: Vec<String> =
            function.examples.iter().map(|(expression, value)| format!("`` {} => {} ``", escape(expression), escape(value))).collect();
        let _ = writeln!(table, "| `{}` | {} | {} |", function.signature, escape(function.doc), examples.join("<br>"));
    }
    let manual = manual();
    let (text, listed) = manual.split_once(MARK).expect("the manual marks where its list of functions begins");
    if listed != table && std::env::var_os("TIDEGATE_UPDATE_DOCS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dialect.md");
        std::fs::write(path, format!("{text}{MARK}{table}")).unwrap();
        return;
    }
    assert_eq!(listed, table, "run this test with TIDEGATE_UPDATE_DOCS=1 and look at the difference");
}
