//! What documents and examples show is what happens.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use tidegate_tests::{command, plugin, root};

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(command()).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The blocks of one language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// An example's pipeline file in a folder of its own, its paths made absolute.
fn copied(example: &Path, folder: &Path) -> String {
    let text = std::fs::read_to_string(example).unwrap();
    let data = format!("path = \"{}/data/", example.parent().unwrap().display());
    let mask = format!("path = \"{}\"", plugin("mask-pii").display());
    let text = text.replace("path = \"data/", &data).replace("path = \"../../plugins/target/components/mask-pii.wasm\"", &mask);
    let lines = text.lines().map(|line| if line.starts_with("events = ") { "events = 20000" } else { line });
    let name = example.file_name().unwrap().to_string_lossy().into_owned();
    std::fs::write(folder.join(&name), lines.collect::<Vec<_>>().join("\n")).unwrap();
    name
}

#[test]
fn the_readme_shows_a_pipeline_that_runs() {
    let shown = blocks("README.md", "toml");
    assert_eq!(shown.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pipeline.toml"), &shown[0]).unwrap();
    for verb in ["validate", "plan", "run"] {
        tidegate(folder.path(), &[verb, "pipeline.toml"]);
    }
}

#[test]
fn the_readme_shows_rows_of_the_demo() {
    let shown = blocks("README.md", "json").concat();
    let folder = tempfile::tempdir().unwrap();
    let name = copied(&root().join("examples/flights/flights.toml"), folder.path());
    let output = tidegate(folder.path(), &["run", &name]);
    let rows = String::from_utf8(output.stdout).unwrap();
    let shown: Vec<&str> = shown.lines().filter(|line| line.starts_with('{')).collect();
    assert!(shown.len() > 3);
    for line in shown {
        assert!(rows.lines().any(|row| row == line), "the demo does not print {line}");
    }
    let masked = std::fs::read_dir(folder.path().join("out/masked")).unwrap().map(|entry| entry.unwrap().path());
    let masked: String = masked.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert_eq!(masked.lines().count(), 6099);
    assert!(!masked.contains("\"tailnum\":\"N"), "a tail number left the plugin unmasked");
}

#[test]
fn every_example_runs() {
    let mut run = 0;
    for folder in std::fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path()) {
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "toml")) {
            if folder.ends_with("kafka") {
                // They need a broker: `kafka_the_example_does_what_its_readme_says` runs them.
                continue;
            }
            let scratch = tempfile::tempdir().unwrap();
            let name = copied(&file, scratch.path());
            tidegate(scratch.path(), &["run", &name]);
            run += 1;
        }
    }
    assert!(run >= 5, "{run} examples");
}

/// What a plugin's README shows, made a whole pipeline: rows of all columns that a plugin asks for, or somewhere to put what it reads.
fn whole(name: &str, shown: &str) -> String {
    let parsed: toml::Table = toml::from_str(shown).unwrap();
    let first = |table: &str| parsed.get(table).and_then(|table| table.as_table()?.keys().next().cloned());
    let manifest: toml::Table =
        toml::from_str(&std::fs::read_to_string(root().join("plugins").join(name).join("Cargo.toml")).unwrap()).unwrap();
    let kind = manifest["package"]["metadata"]["tidegate"]["kind"].as_str().unwrap();
    let path = format!("path = \"plugins/{name}.wasm\"");
    assert!(shown.contains(&path), "{name}: its README names another component");
    let shown = shown.replace(&path, &format!("path = \"{}\"", plugin(name).display()));
    let columns: String = ["tailnum", "origin", "payload"].map(|column| format!("{{ name = \"{column}\", type = \"string\" }},")).concat();
    let rows = format!("[datasets.rows]\nconnector = \"files\"\npath = \"rows.json\"\nformat = \"json\"\nschema = [{columns}]\n");
    let nowhere = "[datasets.nowhere]\nsink = \"blackhole\"\n".to_string();
    let stage =
        |input: &str, output: &str, steps: &str| format!("[[stages]]\ninputs = [\"{input}\"]\noutput = \"{output}\"\nsteps = [{steps}]\n");
    let rest = match kind {
        "source" => nowhere + &stage(&first("datasets").unwrap(), "nowhere", ""),
        "sink" => rows + &stage("rows", &first("datasets").unwrap(), ""),
        _ => rows + &nowhere + &stage("rows", "nowhere", &format!("{{ op = \"wasm\", plugin = \"{}\" }}", first("plugins").unwrap())),
    };
    format!("{shown}\n{rest}")
}

#[test]
fn the_readmes_of_plugins_show_pipelines_that_are_valid() {
    let mut valid = 0;
    for entry in std::fs::read_dir(root().join("plugins")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let readme = format!("plugins/{name}/README.md");
        if !root().join(&readme).exists() {
            continue;
        }
        for shown in blocks(&readme, "toml") {
            let folder = tempfile::tempdir().unwrap();
            for granted in ["data", "out"] {
                std::fs::create_dir(folder.path().join(granted)).unwrap();
            }
            std::fs::write(folder.path().join("airports.csv"), "faa,name,lat,lon\nEWR,Newark,40.6,-74.1\n").unwrap();
            std::fs::write(folder.path().join("rows.json"), "{}\n").unwrap();
            std::fs::write(folder.path().join("p.toml"), whole(&name, &shown)).unwrap();
            let secrets = ["API_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MASK_SALT"].map(|name| (name, "secret"));
            let output = Command::new(command()).args(["validate", "p.toml"]).current_dir(folder.path()).envs(secrets).output().unwrap();
            assert!(output.status.success(), "{readme}: {}", String::from_utf8_lossy(&output.stderr));
            valid += 1;
        }
    }
    assert!(valid >= 10, "{valid} are valid");
}

#[test]
fn the_options_of_buckets_are_listed_as_they_are() {
    use tidegate::epochs::store::bucket::config::{OPTIONS, Provider};
    let text = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let listed: Vec<&str> =
        text.split("<!-- options of buckets -->\n").nth(1).unwrap().lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let expected = OPTIONS.iter().map(|option| {
        let of = match option.provider {
            Provider::S3 => "`s3://`",
            Provider::Gcs => "`gs://`",
            Provider::Azure => "`az://`",
        };
        let variables: Vec<String> = option.variables.iter().map(|name| format!("`{name}`")).collect();
        let variables = if variables.is_empty() { "-".to_string() } else { variables.join(", ") };
        let secret = if option.secret { "; a secret" } else { "" };
        format!("| `{}` | {of} | {variables} | {}{secret} |", option.name, option.doc)
    });
    assert_eq!(listed, expected.collect::<Vec<_>>());
}
