//! What the columns of a joined row are called.

use super::bounds::Which;
use crate::binding::unknown;
use crate::expression::at;
use crate::projection::{find, visible};
use arrow::datatypes::SchemaRef;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::config::Problem;
use tidegate_api::hidden;

/// What the step says about the names of right columns.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    pub(crate) prefix: Option<String>,
    pub(crate) rename: BTreeMap<String, String>,
}

/// A column of a joined row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) which: Which,
    /// Its place in its input.
    pub(crate) index: usize,
    /// It is called so because the left input has a column of its own name: that one must be there too, or the name would change.
    pub(crate) beside: Option<String>,
}

impl Naming {
    /// The columns of a joined row: the left's, then the right's without its keys.
    pub(crate) fn columns(&self, left: &SchemaRef, right: &SchemaRef, right_keys: &[usize], problems: &mut Vec<Problem>) -> Vec<Column> {
        let own = |index| Column { name: left.field(index).name().clone(), which: Which::Left, index, beside: None };
        let mut columns: Vec<Column> = visible(left).map(own).collect();
        let mut taken: BTreeSet<String> = columns.iter().map(|column| column.name.clone()).collect();
        for index in visible(right).filter(|index| !right_keys.contains(index)) {
            let original = right.field(index).name();
            let mut beside = None;
            let name = match (self.rename.get(original), &self.prefix) {
                (Some(name), _) => name.clone(),
                (None, Some(prefix)) => format!("{prefix}{original}"),
                (None, None) if find(left, original).is_some() => {
                    beside = Some(original.clone());
                    format!("{original}_right")
                }
                (None, None) => original.clone(),
            };
            if hidden::is_hidden(&name) {
                problems.push(at(&["rightRename"], format!("the name `{name}` is reserved")));
            } else if !taken.insert(name.clone()) {
                let message =
                    format!("the right column `{original}` would be called `{name}`, as another column is; name it with `rightRename`");
                problems.push(at(&["rightRename"], message));
            }
            columns.push(Column { name, which: Which::Right, index, beside });
        }
        columns
    }

    /// Finds renames of columns that are not there, or that do not come out.
    pub(crate) fn check(&self, right: &SchemaRef, right_keys: &[usize], problems: &mut Vec<Problem>) {
        for old in self.rename.keys() {
            match find(right, old) {
                None => problems.push(at(&["rightRename", old], unknown(old, right))),
                Some(index) if right_keys.contains(&index) => {
                    let message = format!("`{old}` is a key; the right input's keys are left out, since they equal the left's");
                    problems.push(at(&["rightRename", old], message));
                }
                Some(_) => {}
            }
        }
    }
}
