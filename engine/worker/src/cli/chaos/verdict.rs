//! What the comparison of an output says about its sink, and how it is told.

use super::compare::Difference;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tidegate::plan::OutputSummary;
use tidegate_api::Guarantee;

/// What a sink turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every row is there once.
    ExactlyOnce(Difference),
    /// Every row is there, some more than once, and no other.
    AtLeastOnce(Difference),
    /// Rows are missing and none came again, which is what the plan promises.
    AtMostOnce(Difference),
    /// Rows are missing, or are there that the undisturbed run did not write.
    Wrong(Difference),
    /// Two undisturbed runs differ.
    Unsteady(Difference),
    /// Two undisturbed runs differ because these steps look at the clock.
    Clock(Vec<String>),
    /// The sink keeps nothing that could be compared.
    Invisible,
}

impl Verdict {
    /// Judges an output of which two undisturbed runs agree.
    pub(super) fn of(difference: Difference, output: &OutputSummary) -> Verdict {
        match (difference.repeated, difference.missing, difference.foreign) {
            (0, 0, 0) => Verdict::ExactlyOnce(difference),
            (_, 0, 0) => Verdict::AtLeastOnce(difference),
            (0, _, 0) if output.guarantee == Guarantee::AtMostOnce => Verdict::AtMostOnce(difference),
            _ => Verdict::Wrong(difference),
        }
    }
}

/// A verdict on one output.
pub(super) struct Finding {
    pub(super) dataset: String,
    pub(super) promised: Guarantee,
    /// Whether tables were compared, not rows.
    pub(super) is_table: bool,
    pub(super) verdict: Verdict,
}

impl Finding {
    /// Whether the sink is worth less than the plan says.
    pub(super) fn is_convicted(&self) -> bool {
        match &self.verdict {
            Verdict::Wrong(_) => true,
            Verdict::AtLeastOnce(_) => self.promised > Guarantee::AtLeastOnce,
            Verdict::ExactlyOnce(_) | Verdict::AtMostOnce(_) | Verdict::Unsteady(_) | Verdict::Clock(_) | Verdict::Invisible => false,
        }
    }

    fn name(&self) -> &'static str {
        match &self.verdict {
            Verdict::ExactlyOnce(_) => "exactly-once",
            Verdict::AtLeastOnce(_) => "at-least-once",
            Verdict::AtMostOnce(_) => "at-most-once",
            Verdict::Wrong(_) => "wrong",
            Verdict::Unsteady(_) | Verdict::Clock(_) | Verdict::Invisible => "not judged",
        }
    }

    fn promise(&self) -> &'static str {
        match self.promised {
            Guarantee::ExactlyOnce => "exactly-once",
            Guarantee::Idempotent => "idempotent",
            Guarantee::AtLeastOnce => "at-least-once",
            Guarantee::AtMostOnce => "at-most-once",
        }
    }

    /// Why, in words.
    fn words(&self) -> String {
        match &self.verdict {
            Verdict::ExactlyOnce(found) if self.is_table => format!("its updates lead to the same table of {} rows", found.expected),
            Verdict::ExactlyOnce(found) => format!("all {} rows are there once", found.expected),
            Verdict::AtLeastOnce(found) | Verdict::AtMostOnce(found) | Verdict::Wrong(found) => told(found),
            Verdict::Unsteady(found) => {
                format!(
                    "two undisturbed runs differ, so it depends on more than its input, such as the order in which inputs arrive ({})",
                    told(found)
                )
            }
            Verdict::Clock(clocks) => format!("two undisturbed runs differ, as {}", clocks.join("; ")),
            Verdict::Invisible => "it keeps nothing that could be compared".to_string(),
        }
    }

    fn difference(&self) -> Option<&Difference> {
        match &self.verdict {
            Verdict::ExactlyOnce(found)
            | Verdict::AtLeastOnce(found)
            | Verdict::AtMostOnce(found)
            | Verdict::Wrong(found)
            | Verdict::Unsteady(found) => Some(found),
            Verdict::Clock(_) | Verdict::Invisible => None,
        }
    }
}

fn told(found: &Difference) -> String {
    let mut parts = Vec::new();
    let kinds = [
        (found.missing, "missing", &found.examples.missing),
        (found.repeated, "there again", &found.examples.repeated),
        (found.foreign, "there that the undisturbed run did not write", &found.examples.foreign),
    ];
    for (count, what, examples) in kinds.into_iter().filter(|(count, ..)| *count > 0) {
        let verb = if count == 1 { "row is" } else { "rows are" };
        parts.push(format!("{count} {verb} {what}, such as {}", examples.first().map_or("", String::as_str)));
    }
    format!("of {} rows: {}", found.expected, parts.join("; "))
}

/// For people.
pub(super) fn print_text(pipeline: &str, killed: &BTreeMap<String, u32>, findings: &[Finding], mask: impl Fn(&str) -> String) {
    let places: Vec<String> = killed.iter().map(|(at, times)| format!("{at} {times}")).collect();
    println!("`{pipeline}` was run undisturbed twice and killed {} times: {}", killed.values().sum::<u32>(), places.join(", "));
    for finding in findings {
        let convicted = if finding.is_convicted() { ", WHICH IS LESS" } else { "" };
        let line =
            format!("sink `{}`: {} (promised {}{convicted}): {}", finding.dataset, finding.name(), finding.promise(), finding.words());
        println!("{}", mask(&line));
    }
}

/// For programs: a line for the kills, then one for each sink.
pub(super) fn print_json(killed: &BTreeMap<String, u32>, findings: &[Finding], mask: impl Fn(&str) -> String) {
    println!("{}", json!({ "kills": killed.values().sum::<u32>(), "killedAt": killed }));
    for finding in findings {
        let shown = |rows: &[String]| rows.iter().map(|row| Value::from(mask(row))).collect::<Vec<_>>();
        let found = finding.difference().cloned().unwrap_or_default();
        let line = json!({
            "sink": finding.dataset,
            "verdict": finding.name(),
            "promised": finding.promise(),
            "convicted": finding.is_convicted(),
            "why": mask(&finding.words()),
            "rows": found.expected,
            "repeated": found.repeated,
            "missing": found.missing,
            "unexpected": found.foreign,
            "examples": {
                "repeated": shown(&found.examples.repeated),
                "missing": shown(&found.examples.missing),
                "unexpected": shown(&found.examples.foreign),
            },
        });
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare::{Row, compare};
    use super::*;
    use tidegate::plan::OutputRole;
    use tidegate_api::ChangeMode;

    fn finding(promised: Guarantee, expected: &[&str], found: &[&str]) -> Finding {
        let rows = |lines: &[&str]| lines.iter().map(|line| Row::of_line(line, "")).collect::<Vec<_>>();
        let output = OutputSummary {
            dataset: "out".into(),
            role: OutputRole::Rows,
            mode: ChangeMode::Append,
            keys: Vec::new(),
            guarantee: promised,
            lowered_by: Vec::new(),
            clocks: Vec::new(),
        };
        let verdict = Verdict::of(compare(&rows(expected), &rows(found)), &output);
        Finding { dataset: "out".into(), promised, is_table: false, verdict }
    }

    #[test]
    fn a_sink_is_convicted_of_less_than_it_promised() {
        let cases = [
            (Guarantee::ExactlyOnce, &["a", "b"][..], "exactly-once", false),
            (Guarantee::ExactlyOnce, &["a", "b", "b"], "at-least-once", true),
            (Guarantee::Idempotent, &["a", "b", "b"], "at-least-once", true),
            (Guarantee::AtLeastOnce, &["a", "b", "b"], "at-least-once", false),
            (Guarantee::AtLeastOnce, &["a"], "wrong", true),
            (Guarantee::AtLeastOnce, &["a", "b", "c"], "wrong", true),
            (Guarantee::AtMostOnce, &["a"], "at-most-once", false),
            (Guarantee::AtMostOnce, &["a", "a"], "wrong", true),
        ];
        for (promised, found, name, convicted) in cases {
            let finding = finding(promised, &["a", "b"], found);
            assert_eq!((finding.name(), finding.is_convicted()), (name, convicted), "{promised:?} {found:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_a_row_of_each_kind() {
        let words = finding(Guarantee::ExactlyOnce, &["a", "b"], &["b", "b", "c"]).words();
        assert_eq!(
            words,
            "of 2 rows: 1 row is missing, such as a; 1 row is there again, such as b; 1 row is there that the undisturbed run did not write, such as c"
        );
    }
}
