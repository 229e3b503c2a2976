//! `replace`

use super::Function;
use super::args::Shape;
use super::rows::{In, room};

pub(super) const FUNCTION: Function = Function {
    name: "replace",
    signature: "replace(text, part, by) -> string",
    doc: "The text with every `part`, from left to right, replaced. An empty part replaces nothing. A replacement that makes the text longer than 16 MiB makes a bad row.",
    examples: &[("replace('a-b-c', '-', '+')", "'a+b+c'"), ("replace('aaa', 'aa', 'b')", "'ba'"), ("replace('abc', '', 'x')", "'abc'")],
    arity: (3, 3),
    bind: |mut args| {
        args.take(&[Shape::Text])?;
        Ok(args.into_text(replaced))
    },
};

fn replaced(row: In<'_>, out: &mut String) -> Result<(), String> {
    let (text, part, by) = (row.text(0), row.text(1), row.text(2));
    let mut from = 0;
    if !part.is_empty() {
        for at in memchr::memmem::find_iter(text.as_bytes(), part) {
            out.push_str(&text[from..at]);
            if by.len() > part.len() {
                room(out.len() + by.len())?;
            }
            out.push_str(by);
            from = at + part.len();
        }
    }
    out.push_str(&text[from..]);
    Ok(())
}
