//! `[settings]`: config as written becomes config as used.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_api::OnBadData;
use tidegate_api::config::{Options, Problem, parse_duration};
use tidegate_epochs::BucketUrl;
use tidegate_epochs::store::bucket::config as bucket;

/// What to do when every input has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// Fire what is open and finish for good.
    Drain,
    /// Keep open windows, so that a later run goes on with new input.
    Suspend,
}

/// How often a job restarts in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    /// At most so many within the window.
    pub max: u32,
    /// The window.
    pub within: Duration,
    /// The first pause; it doubles.
    pub backoff_from: Duration,
    /// The longest pause.
    pub backoff_to: Duration,
}

/// Every setting, with its default where nothing was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Tasks per operator.
    pub parallelism: usize,
    /// Rows per batch, at most.
    pub batch_rows: usize,
    /// Bytes per batch, about.
    pub batch_bytes: usize,
    /// Rows an edge's receiver holds, over all its inputs.
    pub edge_rows: usize,
    /// Bytes an edge's receiver holds, over all its inputs.
    pub edge_bytes: usize,
    /// Time between barriers.
    pub checkpoint_every: Duration,
    /// How long sources go on reading after a barrier whose epoch is not settled.
    pub max_epoch_delay: Duration,
    /// Epochs kept for recovery from damage.
    pub keep_epochs: usize,
    /// What to do when every input has ended.
    pub at_end: AtEnd,
    /// Vnodes; fixed for a state.
    pub vnodes: u16,
    /// The default bad-data policy.
    pub on_bad: OnBadData,
    /// The default dead-letter dataset.
    pub dead_letter: Option<String>,
    /// The default disorder.
    pub out_of_orderness: Duration,
    /// The default time to idleness.
    pub idle_timeout: Duration,
    /// The default guard against rows from the future.
    pub max_future_skew: Duration,
    /// Time between heartbeats.
    pub heartbeat_every: Duration,
    /// The part of rows a plugin may reject before the run ends.
    pub max_bad_ratio: f64,
    /// The restart budget.
    pub restarts: Restarts,
    /// Where epochs are kept; `None`: beside the pipeline file.
    pub state_dir: Option<PathBuf>,
    /// The bucket in which they are kept instead.
    pub state_url: Option<BucketUrl>,
    /// How that bucket is reached, by option.
    pub state_options: BTreeMap<String, String>,
    /// Bytes that the state of all stages may take; `None`: half of what the machine, or the group the process is confined to, has.
    pub max_memory: Option<u64>,
    /// Where state goes that finds no room.
    pub spill: Spill,
    /// Folders of the transform registry, beside those of the environment; later ones come first where both have a transform.
    pub transforms: Vec<PathBuf>,
}

/// Where state goes that finds no room in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spill {
    /// Nowhere: the run ends with a clear error.
    No,
    /// Beside the epochs.
    BesideState,
    /// Into this directory.
    Directory(PathBuf),
}

impl Settings {
    /// The defaults on a machine with `cores` cores.
    pub fn defaults(cores: usize) -> Self {
        Settings {
            parallelism: cores.max(1),
            batch_rows: 8192,
            batch_bytes: 2 << 20,
            edge_rows: 65_536,
            edge_bytes: 32 << 20,
            checkpoint_every: Duration::from_secs(5),
            max_epoch_delay: Duration::from_secs(600),
            keep_epochs: 3,
            at_end: AtEnd::Drain,
            vnodes: 256,
            on_bad: OnBadData::Fail,
            dead_letter: None,
            out_of_orderness: Duration::ZERO,
            idle_timeout: Duration::from_secs(30),
            max_future_skew: Duration::from_secs(3600),
            heartbeat_every: Duration::from_secs(5),
            max_bad_ratio: 0.01,
            restarts: Restarts {
                max: 5,
                within: Duration::from_secs(600),
                backoff_from: Duration::from_secs(1),
                backoff_to: Duration::from_secs(60),
            },
            state_dir: None,
            state_url: None,
            state_options: BTreeMap::new(),
            max_memory: None,
            spill: Spill::BesideState,
            transforms: Vec::new(),
        }
    }

    /// Reads a `[settings]` table over the defaults.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn read(map: &Map<String, Value>, cores: usize) -> Result<Settings, Vec<Problem>> {
        let mut settings = Settings::defaults(cores);
        let mut options = Options::new(map);
        read_count(&mut options, "parallelism", 1..=1024, &mut settings.parallelism);
        read_count(&mut options, "batchRows", 1..=1 << 20, &mut settings.batch_rows);
        read_size(&mut options, "batchBytes", &mut settings.batch_bytes);
        read_count(&mut options, "edgeRows", 1..=1 << 30, &mut settings.edge_rows);
        read_size(&mut options, "edgeBytes", &mut settings.edge_bytes);
        read_count(&mut options, "keepEpochs", 1..=10_000, &mut settings.keep_epochs);
        let mut vnodes = usize::from(settings.vnodes);
        read_count(&mut options, "vnodes", 1..=32_768, &mut vnodes);
        settings.vnodes = vnodes as u16;
        let usual = settings.max_epoch_delay;
        for (key, slot) in [
            ("checkpointEvery", &mut settings.checkpoint_every),
            ("maxEpochDelay", &mut settings.max_epoch_delay),
            ("outOfOrderness", &mut settings.out_of_orderness),
            ("idleTimeout", &mut settings.idle_timeout),
            ("maxFutureSkew", &mut settings.max_future_skew),
            ("heartbeatEvery", &mut settings.heartbeat_every),
        ] {
            if let Some(duration) = options.duration(key) {
                *slot = duration;
            }
        }
        for (key, duration) in [("checkpointEvery", settings.checkpoint_every), ("heartbeatEvery", settings.heartbeat_every)] {
            if duration.is_zero() {
                options.problem(key, "must be longer than 0");
            }
        }
        if settings.max_epoch_delay == usual {
            settings.max_epoch_delay = usual.max(settings.checkpoint_every);
        } else if settings.max_epoch_delay < settings.checkpoint_every {
            options.problem("maxEpochDelay", "must not be shorter than `checkpointEvery`: every epoch would stop the sources");
        }
        if let Some(at_end) = options.choice("atEnd", &[("drain", AtEnd::Drain), ("suspend", AtEnd::Suspend)]) {
            settings.at_end = at_end;
        }
        if let Some(policy) = read_policy(&mut options) {
            settings.on_bad = policy;
        }
        settings.dead_letter = options.string("deadLetter");
        if let Some(ratio) = options.number("maxBadRatio") {
            if (0.0..=1.0).contains(&ratio) {
                settings.max_bad_ratio = ratio;
            } else {
                options.problem("maxBadRatio", format!("`{ratio}` is not between 0 and 1"));
            }
        }
        settings.state_dir = options.string("stateDir").map(PathBuf::from);
        read_bucket(&mut options, &mut settings);
        let mut limit = 0;
        read_size(&mut options, "maxMemory", &mut limit);
        settings.max_memory = Some(limit as u64).filter(|limit| *limit > 0);
        match options.value("spill").cloned() {
            None => {}
            Some(Value::Bool(true)) => settings.spill = Spill::BesideState,
            Some(Value::Bool(false)) => settings.spill = Spill::No,
            Some(Value::String(directory)) if !directory.is_empty() => settings.spill = Spill::Directory(PathBuf::from(directory)),
            Some(other) => options.problem("spill", format!("`{other}` is neither true, nor false, nor a directory")),
        }
        if let Some(table) = options.table("restarts") {
            let problems = read_restarts(table, &mut settings.restarts);
            options.problems(problems);
        }
        settings.transforms = options.strings("transforms").unwrap_or_default().into_iter().map(PathBuf::from).collect();
        if options.value("allowedLateness").is_some() {
            options.problem("allowedLateness", "`allowedLateness` is not available in this version: late rows are not waited for");
        }
        let problems = options.finish();
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }
}

/// Reads `onBadData`, of settings or of a dataset.
pub(crate) fn read_policy(options: &mut Options<'_>) -> Option<OnBadData> {
    options.choice(
        "onBadData",
        &[("fail", OnBadData::Fail), ("drop", OnBadData::Drop), ("deadLetter", OnBadData::DeadLetter), ("rescue", OnBadData::Rescue)],
    )
}

fn read_count(options: &mut Options<'_>, key: &str, range: std::ops::RangeInclusive<usize>, slot: &mut usize) {
    if let Some(value) = options.unsigned(key) {
        match usize::try_from(value).ok().filter(|value| range.contains(value)) {
            Some(value) => *slot = value,
            None => options.problem(key, format!("`{value}` is not between {} and {}", range.start(), range.end())),
        }
    }
}

fn read_size(options: &mut Options<'_>, key: &str, slot: &mut usize) {
    if let Some(value) = options.size(key) {
        match usize::try_from(value).ok().filter(|value| *value >= 1024) {
            Some(value) => *slot = value,
            None => options.problem(key, format!("`{value}` bytes is too small; use at least 1KiB")),
        }
    }
}

/// Reads `stateUrl` and `stateOptions`. Whether the options make a client is found when it is made.
fn read_bucket(options: &mut Options<'_>, settings: &mut Settings) {
    if let Some(text) = options.string("stateUrl") {
        match BucketUrl::parse(&text) {
            Ok(url) => settings.state_url = Some(url),
            Err(message) => options.problem("stateUrl", message),
        }
        if options.has("stateDir") {
            options.problem("stateUrl", "`stateUrl` and `stateDir` stand together; epochs are kept in one place");
        }
    }
    if options.has("stateOptions") && !options.has("stateUrl") {
        options.problem("stateOptions", "`stateOptions` say how the bucket of `stateUrl` is reached, and there is no `stateUrl`");
    }
    let Some(table) = options.table("stateOptions") else { return };
    let mut problems = Vec::new();
    for (name, value) in table {
        match value {
            Value::String(text) => {
                settings.state_options.insert(name.clone(), text.clone());
            }
            Value::Bool(flag) => {
                settings.state_options.insert(name.clone(), flag.to_string());
            }
            // Without the value: it may be a secret.
            _ => problems.push(Problem::at(name, "expected text")),
        }
    }
    if problems.is_empty()
        && let Some(url) = &settings.state_url
        && let Err(error) = bucket::check(url, &settings.state_options)
    {
        problems.push(Problem::whole(error.message()));
    }
    options.problems(problems.into_iter().map(|problem| problem.under(["stateOptions"])));
}

fn read_restarts(table: &Map<String, Value>, restarts: &mut Restarts) -> Vec<Problem> {
    let mut options = Options::new(table);
    if let Some(max) = options.unsigned("max") {
        restarts.max = u32::try_from(max).unwrap_or(u32::MAX);
    }
    if let Some(within) = options.duration("within") {
        restarts.within = within;
    }
    if let Some(text) = options.string("backoff") {
        let (from, to) = text.split_once("..").unwrap_or((&text, &text));
        match (parse_duration(from), parse_duration(to)) {
            (Ok(from), Ok(to)) if from <= to => (restarts.backoff_from, restarts.backoff_to) = (from, to),
            (Ok(_), Ok(_)) => options.problem("backoff", format!("`{text}` ends before it begins")),
            (Err(message), _) | (_, Err(message)) => options.problem("backoff", message),
        }
    }
    options.finish().into_iter().map(|problem| problem.under(["restarts"])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_setting_of_the_vocabulary_is_read_or_refused_by_name() {
        let map = json!({
            "parallelism": 3, "batchRows": 7, "checkpointEvery": "250ms", "atEnd": "suspend", "onBadData": "drop",
            "restarts": { "max": 1, "within": "1m", "backoff": "10ms..1s" }, "stateDir": "state", "maxBadRatio": 0.5,
            "maxMemory": "64MiB", "spill": "/big/disk", "transforms": ["ours", "theirs"]
        });
        let settings = Settings::read(map.as_object().unwrap(), 2).unwrap();
        assert_eq!((settings.parallelism, settings.batch_rows, settings.at_end), (3, 7, AtEnd::Suspend));
        assert_eq!(settings.checkpoint_every, Duration::from_millis(250));
        assert_eq!((settings.max_memory, settings.spill), (Some(64 << 20), Spill::Directory("/big/disk".into())));
        assert_eq!(settings.transforms, [PathBuf::from("ours"), PathBuf::from("theirs")]);
        assert_eq!((settings.restarts.max, settings.restarts.backoff_to), (1, Duration::from_secs(1)));
    }

    #[test]
    fn a_bucket_is_read_with_its_options_and_a_slip_is_found() {
        let read = |map: Value| Settings::read(map.as_object().unwrap(), 2);
        let url = "s3://bucket/states/orders";
        let settings = read(json!({ "stateUrl": url, "stateOptions": { "region": "eu-central-1", "virtualHosted": true } })).unwrap();
        assert_eq!(settings.state_url.unwrap().to_string(), url);
        assert_eq!(settings.state_options["virtualHosted"], "true");
        for (map, path, part) in [
            (json!({ "stateUrl": url, "stateDir": "x" }), "stateUrl", "one place"),
            (json!({ "checkpointEvery": "5s", "maxEpochDelay": "1s" }), "maxEpochDelay", "not be shorter than `checkpointEvery`"),
            (json!({ "stateOptions": {} }), "stateOptions", "there is no `stateUrl`"),
            (json!({ "stateUrl": url, "stateOptions": { "regoin": "x" } }), "stateOptions", "did you mean `region`?"),
        ] {
            let problems = read(map).unwrap_err();
            assert_eq!(problems[0].path, [path], "{problems:?}");
            assert!(problems[0].message.contains(part), "{problems:?}");
        }
    }

    #[test]
    fn mistakes_are_collected() {
        let map = json!({ "parallelism": 0, "checkpontEvery": "5s", "maxBadRatio": 2, "spill": 3, "stateUrl": "s4://x", "stateOptions": { "region": 3 }, "maxMemory": "1B", "restarts": { "backoff": "2s..1s" } });
        let problems: Vec<String> =
            Settings::read(map.as_object().unwrap(), 2).unwrap_err().iter().map(|problem| problem.path.join(".")).collect();
        assert_eq!(
            problems,
            ["parallelism", "maxBadRatio", "stateUrl", "stateOptions.region", "maxMemory", "spill", "restarts.backoff", "checkpontEvery"]
        );
    }
}
