//! The rows of a window that may be among its first, told by their heads alone.

use super::spans::Span;

/// Adds the rows of `spans` that may be among the first `n` of their window: those whose head is not behind the `n`th, ties
/// included. `last` is the head that as many rows as count have already reached.
pub(super) fn pick(heads: &[u64], spans: &[Span], n: usize, last: Option<u64>, picked: &mut Vec<u32>) {
    let of = |span: &Span| &heads[span.from..span.to];
    let rows: usize = spans.iter().map(|span| span.to - span.from).sum();
    let nth = match n {
        _ if rows <= n => None,
        1 => spans.iter().flat_map(|span| of(span).iter().copied()).min(),
        _ => {
            let mut all: Vec<u64> = spans.iter().flat_map(|span| of(span).iter().copied()).collect();
            Some(*all.select_nth_unstable(n - 1).1)
        }
    };
    let bound = nth.unwrap_or(u64::MAX).min(last.unwrap_or(u64::MAX));
    for span in spans {
        picked.extend(span.rows().zip(of(span)).filter(|(_, head)| **head <= bound).map(|(row, _)| row));
    }
}

#[cfg(test)]
mod tests {
    use super::super::spans::Bounds;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_row_is_left_out_that_comes_before_one_of_the_first(
            heads in prop::collection::vec(0u64..20, 1..40), n in 1usize..6, last in prop::option::of(0u64..20), cut in 0usize..40,
        ) {
            let bounds = Bounds { due: 0, start: 0, end: 0 };
            let cut = cut.min(heads.len());
            let spans = [Span { bounds, from: 0, to: cut }, Span { bounds, from: cut, to: heads.len() }];
            let mut picked = Vec::new();
            pick(&heads, &spans, n, last, &mut picked);
            let mut sorted = heads.clone();
            sorted.sort_unstable();
            let nth = sorted.get(n - 1).copied().unwrap_or(u64::MAX);
            let wanted: Vec<u32> =
                (0..heads.len() as u32).filter(|row| heads[*row as usize] <= nth.min(last.unwrap_or(u64::MAX))).collect();
            prop_assert_eq!(picked, wanted);
        }
    }
}
