//! What a task does with a bad row: fail with its place, count and drop, or send it on as a dead letter.

use crate::metrics::BadCounts;
use crate::output::Outputs;
use tidegate_api::{BadRow, Error, OnBadData, Position, Result, SplitId, bad};

/// Where the rows in hand came from, as far as the task knows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin<'a> {
    /// The dataset that is being read.
    pub(crate) source: Option<&'a str>,
    /// The split that is being read.
    pub(crate) split: Option<&'a SplitId>,
    /// Where the split goes on behind the rows in hand.
    pub(crate) position: Option<&'a Position>,
}

/// Who found the row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Finder<'a> {
    /// The stage.
    pub(crate) stage: Option<&'a str>,
    /// The step's label.
    pub(crate) step: Option<&'a str>,
    /// It is the sink of a dead-letter dataset, whose own bad rows have nowhere to go.
    pub(crate) takes_dead_letters: bool,
}

/// Reports bad rows under one policy.
pub(crate) struct BadRows {
    route: Option<usize>,
}

impl BadRows {
    /// Dead letters go to this output edge.
    pub(crate) fn new(route: Option<usize>) -> Self {
        BadRows { route }
    }

    /// Counts the rows and does with them what the policy says.
    pub(crate) fn report(
        &self,
        mut rows: Vec<BadRow>,
        policy: OnBadData,
        finder: Finder<'_>,
        origin: Origin<'_>,
        counts: &BadCounts,
        outputs: &mut Outputs,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        counts.add(&rows);
        for row in &mut rows {
            row.step = row.step.take().or_else(|| finder.step.map(str::to_string));
            row.split = row.split.take().or_else(|| origin.split.cloned());
            row.position = row.position.take().or_else(|| origin.position.map(|position| format!("before {position}")));
        }
        match policy {
            OnBadData::Drop => Ok(()),
            OnBadData::DeadLetter => match self.route {
                Some(edge) => outputs.push(edge, bad::dead_letters(&rows, finder.stage, origin.source)),
                None => Err(Error::internal("a bad row has no edge to its dead letters")),
            },
            // What a decoder could rescue it has rescued; a row it still reports has no columns to be kept in.
            OnBadData::Fail | OnBadData::Rescue => Err(describe(&rows[0], finder, origin)),
        }
    }
}

/// Everything a person needs: what, why, where, the row itself, and the remedy.
fn describe(row: &BadRow, finder: Finder<'_>, origin: Origin<'_>) -> Error {
    const SHOWN: usize = 200;
    // A row may be very large; what is not shown is not decoded either.
    let raw = String::from_utf8_lossy(&row.raw[..row.raw.len().min(4 * SHOWN)]);
    let shown: String = raw.chars().take(SHOWN).collect();
    let more = if shown.len() < row.raw.len() { "…" } else { "" };
    let text = if shown.is_empty() { String::new() } else { format!(" in `{shown}{more}`") };
    let column = row.column.as_ref().filter(|column| !row.message.contains(&format!("`{column}`")));
    let column = column.map(|column| format!("column `{column}`: ")).unwrap_or_default();
    let fix = match origin.source {
        _ if finder.takes_dead_letters => "a dead-letter dataset has none of its own, so its sink must take every row".to_string(),
        Some(dataset) => format!(
            "to go on without such rows, set `onBadData = \"drop\"` on dataset `{dataset}`, or `onBadData = \"deadLetter\"` with \
             `deadLetter` naming the dataset that takes them"
        ),
        None => "to go on without such rows, set `onBadData` to `drop` or `deadLetter` on the datasets that are read, or in `[settings]`"
            .to_string(),
    };
    let mut error = Error::data(format!("bad row ({}): {column}{}{text}; {fix}", row.reason.label(), row.message));
    if let Some(position) = &row.position {
        error = error.context(format!("position `{position}`"));
    }
    if let Some(split) = &row.split {
        error = error.context(format!("split `{split}`"));
    }
    if let Some(source) = origin.source {
        error = error.context(format!("source `{source}`"));
    }
    if let Some(step) = &row.step {
        error = error.context(format!("step `{step}`"));
    }
    if let Some(stage) = finder.stage {
        error = error.context(format!("stage `{stage}`"));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::BadReason;

    #[test]
    fn a_failing_row_is_named_with_stage_step_and_position() {
        let bad = BadRows::new(None);
        let split = SplitId::new("a.csv");
        let origin = Origin { source: Some("orders"), split: Some(&split), position: Some(&Position::number(7)) };
        let finder = Finder { stage: Some("clean"), step: Some("2:cast"), ..Finder::default() };
        let row = BadRow::new(BadReason::Cast, "`x` is no number", "{\"n\":\"x\"}").in_column(Some("n".to_string()));
        let mut outputs = Outputs::new(Vec::new(), 1, 1);
        let error = bad.report(vec![row], OnBadData::Fail, finder, origin, &BadCounts::default(), &mut outputs).unwrap_err();
        let text = error.to_string();
        assert_eq!(
            text,
            "stage `clean`: step `2:cast`: source `orders`: split `a.csv`: position `before 7`: bad row (cast): column `n`: `x` is no \
             number in `{\"n\":\"x\"}`; to go on without such rows, set `onBadData = \"drop\"` on dataset `orders`, or \
             `onBadData = \"deadLetter\"` with `deadLetter` naming the dataset that takes them"
        );
    }
}
