//! Every step that a pipeline file may have, native or not: what `tidegate steps` prints, and `docs/steps.md`.

use std::fmt::Write;
use tidegate_operators::{KeyInfo, STEPS, StepInfo};

/// What is said of a step.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StepText {
    /// Its `op`.
    pub op: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Its keys beside `op`.
    pub keys: &'static [KeyInfo],
    /// What comes out.
    pub output: &'static str,
    /// A step as it stands in a pipeline file (TOML).
    pub example: &'static str,
}

impl From<&StepInfo> for StepText {
    fn from(info: &StepInfo) -> Self {
        StepText { op: info.op, summary: info.summary, keys: info.keys, output: info.output, example: info.example }
    }
}

const REF: &str = "a transform of the registry: `id`, of which the highest version is taken, or `id@version`";
const KEEP: &str =
    "columns that are carried beside what the transform makes; not beside `plugin`, nor for a transform whose rows are `free`";

/// What [`parse_step`](crate::compute::parse_step) reads.
const CALLS: [StepText; 2] = [
    StepText {
        op: "wasm",
        summary: "Calls a transform that is a WebAssembly component: one of the file's `[plugins]`, or one of the [registry](transforms.md). A row that it refuses, or that makes it trap, is a bad row.",
        keys: &[
            KeyInfo { name: "plugin", takes: "text?", text: "the name of a `[plugins.NAME]`; this or `ref`" },
            KeyInfo { name: "ref", takes: "text?", text: REF },
            KeyInfo {
                name: "config",
                takes: "table?",
                text: "its configuration; with `plugin` laid over that of `[plugins.NAME]` key by key",
            },
            KeyInfo { name: "keep", takes: "list of columns?", text: KEEP },
        ],
        output: "with `plugin` what the component makes, in the place of columns of the same name, and what it carries; with `ref` the declared output and `keep`",
        example: "{ op = \"wasm\", plugin = \"mask\", config = { columns = [\"email\"] } }",
    },
    StepText {
        op: "container",
        summary: "Calls a transform of the [registry](transforms.md) that is a process of its own, or an image, over its [pipes](container-protocol.md). A row that it refuses is a bad row.",
        keys: &[
            KeyInfo { name: "ref", takes: "text", text: REF },
            KeyInfo { name: "config", takes: "table?", text: "its configuration" },
            KeyInfo {
                name: "keep",
                takes: "list of columns?",
                text: "columns that are carried beside what the transform makes; not for one whose rows are `free`",
            },
            KeyInfo {
                name: "env",
                takes: "list of names?",
                text: "of the environment variables that its manifest names, those that it is given; all of them by default",
            },
        ],
        output: "the declared output and `keep`",
        example: "{ op = \"container\", ref = \"shout@1.0.0\", keep = [\"id\"], env = [\"LANG\"] }",
    },
];

/// All of them, native ones first.
pub fn all() -> impl Iterator<Item = StepText> {
    STEPS.iter().map(StepText::from).chain(CALLS)
}

/// The page. `docs/steps.md` holds exactly this; a test compares.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Steps\n\nMade from `engine/operators` and `engine/worker/src/reference/steps.rs`; `cargo test -p tidegate -- --ignored write_the_page` writes it again.\n\n\
         A stage's `steps` run in order. The last two call [plugins](plugins/README.md) and [transforms](transforms.md); the others are native. Expressions are described in \
         [the dialect](dialect.md).\n\
         A key that ends with `?` in the second column may be left out. A key that is not listed is refused, with the nearest one that is.\n\n\
         Row-wise steps keep the order of rows and count: rows in = rows out + filtered + bad. Stateful steps: rows in = absorbed + filtered + late + bad.\n",
    );
    for step in all() {
        let _ = write!(page, "\n## `{}`\n\n{}\n\n| key | takes | meaning |\n|---|---|---|\n", step.op, step.summary);
        for key in step.keys {
            let _ = writeln!(page, "| `{}` | {} | {} |", key.name, key.takes, key.text);
        }
        let _ = write!(page, "\nOutput: {}.\n\n```toml\n{}\n```\n", step.output, step.example);
    }
    page + include_str!("windows.md")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostSettings;
    use crate::compute::{OPS, Plugins, parse_step};
    use serde_json::{Map, Value, json};
    use std::path::{Path, PathBuf};
    use tidegate_host::HostConfig;

    fn page_path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/steps.md")
    }

    #[test]
    fn the_page_is_what_the_steps_say() {
        let page = std::fs::read_to_string(page_path()).unwrap();
        assert!(page == markdown(), "run `cargo test -p tidegate -- --ignored write_the_page`");
    }

    #[test]
    #[ignore = "writes the page"]
    fn write_the_page() {
        std::fs::write(page_path(), markdown()).unwrap();
    }

    /// What is wrong with a step that has a key of some name more.
    fn unknown(step: &Map<String, Value>, key: &str) -> bool {
        let plugins = Plugins::read(&HostSettings::default(), HostConfig::new().with_cache_dir(None)).unwrap();
        let mut step = step.clone();
        step.insert(key.into(), json!([]));
        let problems = parse_step(&step, &plugins).unwrap_err();
        problems.iter().any(|problem| problem.path == [key] && problem.message.contains("unknown"))
    }

    #[test]
    fn steps_that_call_something_know_the_keys_that_are_listed_and_no_other() {
        assert_eq!(CALLS.map(|step| step.op), OPS);
        for step in CALLS {
            let example: toml::Table = format!("step = {}", step.example).parse().unwrap();
            let example: Value = serde_json::to_value(&example["step"]).unwrap();
            let used = example.as_object().unwrap().keys().filter(|key| *key != "op");
            used.for_each(|used| assert!(step.keys.iter().any(|key| key.name == used), "`{used}` of `{}` is not listed", step.op));
            let forms = match step.op {
                "wasm" => vec![json!({ "op": "wasm", "plugin": "p" }), json!({ "op": "wasm", "ref": "r" })],
                op => vec![json!({ "op": op, "ref": "r" })],
            };
            for key in ["plugin", "ref", "config", "keep", "env", "steps"] {
                let listed = step.keys.iter().any(|known| known.name == key);
                let known = forms.iter().any(|form| !unknown(form.as_object().unwrap(), key));
                // A container's `plugin` is known as a mistake, and answered as one.
                assert!(listed == known || (step.op, key) == ("container", "plugin"), "`{key}` of `{}`", step.op);
            }
        }
    }
}
