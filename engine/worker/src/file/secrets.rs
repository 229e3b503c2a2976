//! Secrets of connectors stand in a file by reference only, so that a file can be shown, copied and kept in a repository.

use super::interpolate::is_by_reference;
use serde_json::{Map, Value};
use tidegate_api::config::Problem;
use tidegate_connectors::Secrets;

/// The options of a dataset, as they are written in the file, that are secrets and stand there for everybody to read.
pub(super) fn literal(written: &Map<String, Value>, secrets: &[Secrets]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for Secrets { table, keys } in secrets {
        let options = match table {
            None => Some(written),
            Some(table) => written.get(*table).and_then(Value::as_object),
        };
        for key in keys.iter().copied() {
            let Some(value) = options.and_then(|options| options.get(key)) else { continue };
            if !value.as_str().is_some_and(is_by_reference) {
                let path = table.iter().copied().chain([key]).map(str::to_string).collect();
                problems.push(Problem::new(path, hint(key)));
            }
        }
    }
    problems
}

/// A password that stands in the `url` of a dataset for everybody to read.
pub(super) fn literal_in_url(written: &Map<String, Value>) -> Option<Problem> {
    let url = written.get("url")?.as_str()?;
    has_password(url).then(|| {
        let message = "the password in `url` is a secret and stands there by reference only: `scheme://user:${NAME}@host` for a variable of the \
                       environment, `${file:PATH}` for a file; or refer to the whole of it";
        Problem::at("url", message)
    })
}

/// Whether a URL has a password that is not made of references.
fn has_password(url: &str) -> bool {
    const REFERENCE: char = '\u{0}';
    let mut told = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, behind)) = rest.split_once("${") {
        told.push_str(before);
        let Some((reference, after)) = behind.split_once('}') else { break };
        // A default stands there for everybody to read.
        match reference.split_once(":-").filter(|_| !reference.starts_with("file:")) {
            Some((_, default)) => told.push_str(default),
            None => told.push(REFERENCE),
        }
        rest = after;
    }
    told.push_str(rest);
    let authority = told.split_once("://").and_then(|(_, behind)| behind.split(['/', '?', '#']).next());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| password.chars().any(|c| c != REFERENCE))
}

/// Without the value: it is a secret.
fn hint(key: &str) -> String {
    format!(
        "`{key}` is a secret and stands here by reference only: `\"${{NAME}}\"` for a variable of the environment, `\"${{file:PATH}}\"` for a file"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRETS: &[Secrets] =
        &[Secrets { table: Some("properties"), keys: &["sasl.password", "ssl.key.pem"] }, Secrets { table: None, keys: &["token"] }];

    fn found(written: Value) -> Vec<String> {
        literal(written.as_object().unwrap(), SECRETS).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_literal_secret_is_told_at_its_key_with_what_to_write_and_never_shown() {
        let problems = found(json!({ "token": "hidden-one", "properties": { "sasl.password": "${A:-hidden-two}", "ssl.key.pem": 12345 } }));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("properties.sasl.password: `sasl.password` is a secret"), "{problems:?}");
        assert!(problems[1].starts_with("properties.ssl.key.pem: "), "{problems:?}");
        assert!(problems[2].starts_with("token: ") && problems[2].contains("\"${NAME}\"") && problems[2].contains("\"${file:PATH}\""));
        let told = problems.concat();
        assert!(!told.contains("hidden") && !told.contains("12345"), "{told}");
    }

    #[test]
    fn a_password_in_a_url_is_told_unless_it_is_a_reference() {
        for literal in [
            "postgres://me:hidden@host/db",
            "postgres://me:${A}x@host:5432/db",
            "https://me:${A:-hidden}@host",
            "postgres://me:a@b@host/db",
            "${SCHEME}://me:hidden@host",
        ] {
            let written = json!({ "url": literal });
            let problem = literal_in_url(written.as_object().unwrap()).unwrap_or_else(|| panic!("{literal}"));
            assert!(problem.to_string().starts_with("url: the password in `url`") && !problem.message.contains("hidden"), "{problem}");
        }
        for fine in [
            "${URL}",
            "postgres://me:${PASSWORD}@host/db",
            "postgres://me:${file:secrets/db}@host/db",
            "postgres://me:${A}${B}@host/db",
            "postgres://me@host/db",
            "https://host/a:b@c",
            "sqlite:some/where@x:y",
        ] {
            assert!(literal_in_url(json!({ "url": fine }).as_object().unwrap()).is_none(), "{fine}");
        }
    }

    #[test]
    fn references_and_other_options_are_left_alone() {
        let written = json!({ "token": "${file:token}", "properties": { "sasl.password": "${A}", "sasl.username": "me" }, "topic": "t" });
        assert_eq!(found(written), Vec::<String>::new());
        assert_eq!(found(json!({ "properties": "no table" })), Vec::<String>::new());
    }
}
