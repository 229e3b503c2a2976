//! Paths into JSON: `a.b[0]["a name with . in it"]`.

use tidegate_sdk::{Error, Result};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To a member of an object.
    Key(String),
    /// To an element of an array, from 0.
    Index(u64),
}

/// Reads a path.
///
/// # Errors
/// `Config`, with what is wrong about it.
pub fn parse(path: &str) -> Result<Vec<Step>> {
    let wrong = |why: &str| Error::config(format!("path `{path}`: {why}"));
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let step;
            (step, rest) =
                in_brackets(bracket).ok_or_else(|| wrong("`[` is followed by an index from 0 or a name in double quotes, and `]`"))?;
            steps.push(step);
        } else {
            let name = match rest.strip_prefix('.') {
                Some(name) if !steps.is_empty() => name,
                Some(_) => return Err(wrong("it begins with `.`")),
                None if steps.is_empty() => rest,
                None => return Err(wrong("`]` is followed by `.`, `[` or the end")),
            };
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return Err(wrong("a name is empty; write `[\"\"]` if that is meant"));
            }
            steps.push(Step::Key(name[..end].to_owned()));
            rest = &name[end..];
        }
    }
    if steps.is_empty() {
        return Err(wrong("it is empty"));
    }
    Ok(steps)
}

/// What stands behind a `[`, up to its `]`; the name in quotes is a JSON string.
fn in_brackets(text: &str) -> Option<(Step, &str)> {
    if !text.starts_with('"') {
        let (index, rest) = text.split_once(']')?;
        let plain = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
        return plain.then(|| index.parse().ok()).flatten().map(|index| (Step::Index(index), rest));
    }
    let mut names = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let name = names.next()?.ok()?;
    let rest = text.get(names.byte_offset()..)?.strip_prefix(']')?;
    Some((Step::Key(name), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_names_and_indices() {
        let key = |name: &str| Step::Key(name.into());
        assert_eq!(parse("a"), Ok(vec![key("a")]));
        assert_eq!(parse("a.b[0].c"), Ok(vec![key("a"), key("b"), Step::Index(0), key("c")]));
        assert_eq!(parse("[1][20]"), Ok(vec![Step::Index(1), Step::Index(20)]));
        assert_eq!(parse(r#"a["b.c[\"]"].ü x"#), Ok(vec![key("a"), key("b.c[\"]"), key("ü x")]));
        assert_eq!(parse(r#"[""]"#), Ok(vec![key("")]));
    }

    #[test]
    fn mistakes_name_the_path() {
        for (path, why) in [
            ("", "it is empty"),
            (".a", "begins with `.`"),
            ("a..b", "a name is empty"),
            ("a.", "a name is empty"),
            ("a.[0]", "a name is empty"),
            ("a[", "`[` is followed by"),
            ("a[]", "`[` is followed by"),
            ("a[-1]", "`[` is followed by"),
            ("a[+1]", "`[` is followed by"),
            ("a[x]", "`[` is followed by"),
            ("a[99999999999999999999]", "`[` is followed by"),
            (r#"a["b]"#, "`[` is followed by"),
            (r#"a["b"x]"#, "`[` is followed by"),
            ("a[0]b", "`]` is followed by"),
        ] {
            let message = parse(path).unwrap_err().to_string();
            assert!(message.starts_with(&format!("path `{path}`: ")) && message.contains(why), "{message}");
        }
    }
}
