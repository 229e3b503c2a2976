//! `regexExtract`

use super::regex_match::pattern;
use super::{Args, Function, kernels};
use crate::value::Value;
use arrow::datatypes::DataType;

pub(super) const FUNCTION: Function = Function {
    name: "regexExtract",
    signature: "regexExtract(text, pattern, group?) -> string",
    doc: "What a group of the pattern matched first: `group` (a constant; 0 is the whole match), by default the first group, or the whole match of a pattern without groups. Null where nothing matches. Patterns as for `regexMatch`.",
    examples: &[
        ("regexExtract('a=1&channel_id=xyz&b', '(?:&|^)channel_id=([^&]*)')", "'xyz'"),
        ("regexExtract('user-17', r'\\d+')", "'17'"),
        ("regexExtract('k=v', '(.)=(.)', 2)", "'v'"),
        ("regexExtract('none', r'\\d+')", "null"),
    ],
    arity: (2, 3),
    bind: |mut args| {
        args.text(0)?;
        let pattern = pattern(&args, 1)?;
        let groups = pattern.captures_len() - 1;
        let group = match args.len() {
            2 => groups.min(1),
            _ => match args.constant_integer(2).map(usize::try_from) {
                Some(Ok(group)) if group <= groups => group,
                Some(_) => return Err(args.refuse(2, format!("the pattern has the groups 0 to {groups}"))),
                None => return Err(args.refuse(2, "the group is a constant integer")),
            },
        };
        args.nodes.truncate(1);
        let kernel_pattern = pattern.clone();
        let kernel = kernels::text_to_part(move |text| extract(&kernel_pattern, group, text));
        let row = move |args: &[Value]| {
            let found = pattern.captures(args[0].text()).and_then(|captures| captures.get(group));
            Ok(found.map_or(Value::Null, |found| Value::Text(found.as_str().to_string())))
        };
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(kernel)))
    },
};

/// The whole match needs no groups to be followed, which is several times cheaper.
fn extract<'a>(pattern: &regex::Regex, group: usize, text: &'a str) -> Option<&'a str> {
    match group {
        0 => pattern.find(text).map(|found| found.as_str()),
        _ => pattern.captures(text)?.get(group).map(|found| found.as_str()),
    }
}
