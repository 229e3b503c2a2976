//! How the command reaches the bucket of `stateUrl`: what the file leaves out comes from the provider's own environment variables.

use super::interpolate::Mask;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tidegate_epochs::BucketUrl;
use tidegate_epochs::store::bucket::config::{complete as fill, options_of};

/// Completes `stateOptions` of `[settings]`, and hides the secrets among them, wherever they stand.
pub(super) fn complete(settings: &mut Map<String, Value>, variable: &dyn Fn(&str) -> Option<String>, mask: &Mask) {
    let Some(url) = settings.get("stateUrl").and_then(Value::as_str).and_then(|text| BucketUrl::parse(text).ok()) else { return };
    let mut given = match settings.get("stateOptions") {
        None => Map::new(),
        Some(Value::Object(given)) => given.clone(),
        // A mistake, which reading the settings names.
        Some(_) => return,
    };
    let mut options: BTreeMap<String, String> =
        given.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_string())).collect();
    fill(&url, &mut options, variable);
    for option in options_of(url.provider()).filter(|option| option.secret) {
        if let Some(secret) = options.get(option.name) {
            mask.hide(secret);
        }
    }
    for (name, value) in options {
        given.entry(name).or_insert(Value::String(value));
    }
    if !given.is_empty() {
        settings.insert("stateOptions".to_string(), Value::Object(given));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn completed(settings: &Value) -> (Value, Mask) {
        let variable = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" => Some("key".to_string()),
            "AWS_SECRET_ACCESS_KEY" => Some("from-the-environment".to_string()),
            _ => None,
        };
        let (mut map, mask) = (settings.as_object().unwrap().clone(), Mask::default());
        complete(&mut map, &variable, &mask);
        (Value::Object(map), mask)
    }

    #[test]
    fn keys_come_from_the_environment_and_secrets_are_never_shown() {
        let (settings, mask) = completed(&json!({ "stateUrl": "s3://b/p" }));
        assert_eq!(settings["stateOptions"], json!({ "accessKeyId": "key", "secretAccessKey": "from-the-environment" }));
        assert_eq!(mask.apply("x from-the-environment key"), "x *** key");
    }

    #[test]
    fn what_the_file_says_comes_first_and_is_hidden_too() {
        let (settings, mask) = completed(&json!({ "stateUrl": "s3://b", "stateOptions": { "secretAccessKey": "plainly-written" } }));
        assert_eq!(settings["stateOptions"]["secretAccessKey"], "plainly-written");
        assert_eq!(mask.apply("plainly-written"), "***");
    }

    #[test]
    fn without_a_bucket_nothing_is_taken_from_the_environment() {
        let (settings, mask) = completed(&json!({ "stateDir": "x" }));
        assert_eq!(settings, json!({ "stateDir": "x" }));
        assert_eq!(mask.apply("from-the-environment"), "from-the-environment");
    }
}
