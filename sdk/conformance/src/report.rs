//! What an author can publish: which promises were judged, and the guarantee that was earned.

use crate::rules::{Rule, Suite};
use crate::verdict::{Conviction, Judgement};
use serde_json::{Value, json};
use std::fmt;

/// The version of the kit.
pub const KIT: &str = env!("CARGO_PKG_VERSION");

/// What became of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Judged and kept.
    Passed,
    /// Judged and broken.
    Convicted,
    /// Not judged: the kit cannot see what it needs, or another promise was broken before.
    Unproven,
}

impl Status {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Status::Passed => "passed",
            Status::Convicted => "convicted",
            Status::Unproven => "unproven",
        }
    }
}

/// The guarantee that a plugin was found to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earned {
    /// This one.
    Guarantee(String),
    /// None at all.
    Nothing,
    /// It could not be judged, for this reason.
    Unproven(String),
}

impl fmt::Display for Earned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Earned::Guarantee(name) => f.write_str(name),
            Earned::Nothing => f.write_str("nothing"),
            Earned::Unproven(why) => write!(f, "unproven ({why})"),
        }
    }
}

/// The report on one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The plugin's name.
    pub plugin: String,
    /// Its version, if it is known.
    pub version: Option<String>,
    /// The digest of its file.
    pub digest: String,
    /// Its world.
    pub world: String,
    /// The version of `tidegate:plugin` it was built for; empty for what is called otherwise.
    pub interface: String,
    /// The guarantee that it claims.
    pub claimed: String,
    /// The guarantee that it earned.
    pub earned: Earned,
    /// Each promise of its kind, and what became of it.
    pub rules: Vec<(Rule, Status)>,
    /// The broken ones, one per suite at the most, each with the script that found it.
    pub convictions: Vec<Conviction>,
}

impl Report {
    /// Whether nothing was found, and the claim was proved as far as the kit could look.
    pub fn passed(&self) -> bool {
        self.convictions.is_empty() && !matches!(self.earned, Earned::Nothing)
    }

    /// Enters what suites found about the promises of some kinds.
    pub(crate) fn enter(&mut self, suites: &[Suite], judgements: &[Judgement]) {
        self.convictions.extend(judgements.iter().filter_map(|judgement| judgement.conviction.clone()));
        let convicted = |rule: Rule| self.convictions.iter().any(|conviction| conviction.rule == rule);
        let kept = |rule: Rule| judgements.iter().any(|judgement| judgement.kept.contains(&rule));
        let mine = Rule::ALL.iter().copied().filter(|rule| suites.contains(&rule.suite()) || convicted(*rule));
        self.rules = mine
            .map(|rule| match (convicted(rule), kept(rule)) {
                (true, _) => (rule, Status::Convicted),
                (false, true) => (rule, Status::Passed),
                (false, false) => (rule, Status::Unproven),
            })
            .collect();
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let rules: Vec<Value> = self.rules.iter().map(|(rule, status)| json!({ "rule": rule.name(), "status": status.name() })).collect();
        let conviction =
            |it: &Conviction| json!({ "rule": it.rule.name(), "promise": it.rule.promise(), "script": it.script, "detail": it.detail });
        json!({
            "kit": KIT,
            "plugin": self.plugin,
            "version": self.version,
            "digest": self.digest,
            "world": self.world,
            "interface": self.interface,
            "claimed": self.claimed,
            "earned": match &self.earned {
                Earned::Guarantee(name) => json!(name),
                Earned::Nothing => Value::Null,
                Earned::Unproven(_) => json!("unproven"),
            },
            "unproven": match &self.earned {
                Earned::Unproven(why) => json!(why),
                Earned::Guarantee(_) | Earned::Nothing => Value::Null,
            },
            "passed": self.passed(),
            "rules": rules,
            "convictions": self.convictions.iter().map(conviction).collect::<Vec<_>>(),
        })
    }
}

/// The page for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("(version unknown)");
        let interface = if self.interface.is_empty() { String::new() } else { format!(" for tidegate:plugin@{}", self.interface) };
        writeln!(f, "{} {version}, a {}{interface}", self.plugin, self.world)?;
        writeln!(f, "{}", self.digest)?;
        writeln!(f, "judged by the conformance kit {KIT}\n")?;
        writeln!(f, "claims  {}", self.claimed)?;
        writeln!(f, "earned  {}\n", self.earned)?;
        for (rule, status) in &self.rules {
            writeln!(f, "{:<10} {:<36} {}", status.name(), rule.name(), rule.promise())?;
        }
        for conviction in &self.convictions {
            writeln!(f, "\n{}: {}", conviction.rule, conviction.rule.promise())?;
            writeln!(f, "  script: {}", conviction.script)?;
            writeln!(f, "  found:  {}", conviction.detail)?;
        }
        Ok(())
    }
}
