//! The nearest known name, for messages.

/// `, did you mean \`x\`?`, or nothing when no candidate is near.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let best = candidates.into_iter().map(|candidate| (distance(name, candidate), candidate)).min_by_key(|(distance, _)| *distance);
    match best {
        Some((distance, candidate)) if distance <= name.chars().count().max(candidate.chars().count()) / 3 => {
            format!(", did you mean `{candidate}`?")
        }
        _ => String::new(),
    }
}

/// Names in backticks, with commas.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one to the other, capitals aside.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).collect();
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let replace = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut least = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        assert_eq!(hint("tailnmu", ["origin", "tailnum"]), ", did you mean `tailnum`?");
        assert_eq!(hint("Dest", ["origin", "dest"]), ", did you mean `dest`?");
        assert_eq!(hint("carrier", ["origin", "dest"]), "");
        assert_eq!(hint("x", []), "");
    }
}
