//! `did you mean`: the nearest known name.

/// The candidate closest to `name` by edit distance, if close enough to be a likely slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let limit = (length / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        // Of a name that is changed in every letter nothing is left to be near to.
        .filter(|(distance, candidate)| *distance <= limit && *distance < length.max(candidate.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// ` (did you mean \`x\`?)`, or nothing; to be appended to a message about an unknown `name`.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|known| format!(", did you mean `{known}`?")).unwrap_or_default()
}

/// Edit distance with adjacent transpositions (optimal string alignment), over characters.
fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_key_and_a_stranger_finds_none() {
        assert_eq!(nearest("windwoMs", ["windowMs", "slideMs"]), Some("windowMs"));
        assert_eq!(nearest("vv", ["v"]), Some("v"));
        assert_eq!(nearest("evnet_tiem", ["event_time", "eventTime"]), Some("event_time"));
        for stranger in ["zebra", "foo", "x", "xml"] {
            assert_eq!(nearest(stranger, ["windowMs", "slideMs", "op", "v", "json", "csv"]), None, "{stranger}");
        }
    }
}
