//! What a transform may do to rows that replace each other: every later version of a row must become a later version of the row that the
//! earlier one became.

use tidegate_api::ChangeMode;
use tidegate_host::Shape;

/// The key columns of rows in this mode; none if they are final.
pub(super) fn keys_of(mode: &ChangeMode) -> &[String] {
    match mode {
        ChangeMode::Append => &[],
        ChangeMode::Upsert { keys } => keys,
    }
}

/// Why rows in this mode cannot go through a transform of this shape that looks at these columns; `None` if they can.
pub(super) fn refusal(who: &str, mode: &ChangeMode, shape: Shape, reads: &[String]) -> Option<String> {
    let ChangeMode::Upsert { keys } = mode else { return None };
    let by = keys.join("`, `");
    match shape {
        Shape::Rowwise => None,
        Shape::RowwiseFilter => {
            let column = reads.iter().find(|column| !keys.contains(column))?;
            Some(format!(
                "rows that come in replace each other by `{by}`, and {who} leaves rows out by `{column}` too: what an earlier version of a row \
                 became would stay when a later one is left out"
            ))
        }
        Shape::Free => Some(format!(
            "rows that come in replace each other by `{by}`, and {who} may change rows freely: what its rows would replace is not known"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_keeps_versions_of_a_row_together_is_allowed() {
        let mode = ChangeMode::Upsert { keys: vec!["a".into(), "b".into()] };
        let refused = |shape, reads: &[&str]| {
            let reads: Vec<String> = reads.iter().map(|column| (*column).to_string()).collect();
            refusal("it", &mode, shape, &reads)
        };
        assert_eq!(refused(Shape::Rowwise, &["a", "c"]), None);
        assert_eq!(refused(Shape::RowwiseFilter, &["b"]), None);
        assert!(refused(Shape::RowwiseFilter, &["a", "c"]).unwrap().contains("leaves rows out by `c`"));
        assert!(refused(Shape::Free, &["a"]).unwrap().contains("freely"));
        assert_eq!(refusal("it", &ChangeMode::Append, Shape::Free, &[]), None);
    }
}
