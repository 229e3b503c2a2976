//! `docs/connectors.md`, made from the list of connectors.

use crate::registry::{CONNECTORS, OptionDef};
use std::fmt::Write;

/// The page. `docs/connectors.md` holds exactly this; a test compares.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Connectors\n\nMade from `CONNECTORS` in `engine/connectors`; `cargo test -p tidegate-connectors -- --ignored write_the_page` writes it again.\n\
         Options that every dataset has (`time`, `onBadData`, `deadLetter`, `require`, `changelog`) are not repeated here.\n",
    );
    for connector in CONNECTORS {
        let _ = write!(page, "\n## `{}`\n\n{}\n", connector.name, connector.doc);
        if let Some(source) = &connector.source {
            page.push_str("\n**Source**\n");
            push_options(&mut page, source.options);
        }
        if let Some(sink) = &connector.sink {
            let _ = write!(page, "\n**Sink**, {}\n", sink.guarantee);
            push_options(&mut page, sink.options);
        }
    }
    page.push_str(include_str!("kafka.md"));
    page.push_str(include_str!("table/table.md"));
    page.push_str(include_str!("formats.md"));
    page
}

fn push_options(page: &mut String, options: &[OptionDef]) {
    if options.is_empty() {
        page.push_str("\nNo options.\n");
        return;
    }
    page.push_str("\n| option | value | default | |\n|---|---|---|---|\n");
    for option in options {
        let kind = option.kind.replace('|', "\\|");
        let default = if option.default.is_empty() { "required" } else { option.default };
        let _ = writeln!(page, "| `{}` | {kind} | {default} | {} |", option.name, option.doc.replace('|', "\\|"));
    }
}
