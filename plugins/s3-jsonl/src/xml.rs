//! As much of XML as answers of S3 have: elements with text, no attributes that matter.

/// What stands in each element of this name, one after the other.
pub(crate) fn elements<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some((_, behind)) = rest.split_once(open.as_str()) {
        let Some((inner, after)) = behind.split_once(close.as_str()) else { break };
        found.push(inner);
        rest = after;
    }
    found
}

/// The text of the first element of this name.
pub(crate) fn text(xml: &str, name: &str) -> Option<String> {
    elements(xml, name).first().map(|inner| unescaped(inner))
}

/// A text as it may stand in an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find(';') else { break };
        let entity = &rest[1..end];
        let number = entity.strip_prefix('#').and_then(|number| match number.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => number.parse().ok(),
        });
        let meant = match entity {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => number.and_then(char::from_u32),
        };
        match meant {
            Some(meant) => plain.push(meant),
            None => plain.push_str(&rest[..=end]),
        }
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_their_texts_are_found() {
        let xml = "<R><U><K>a&amp;&#34;&#x2F;&lt;</K></U><U><K>b</K><I>2</I></U><U>";
        let uploads = elements(xml, "U");
        assert_eq!(uploads.len(), 2);
        assert_eq!((text(uploads[0], "K").as_deref(), text(uploads[0], "I")), (Some("a&\"/<"), None));
        assert_eq!(text(uploads[1], "I").as_deref(), Some("2"));
        assert_eq!(unescaped("a & b &odd; &"), "a & b &odd; &");
        assert_eq!(unescaped(&escaped("<\"a\" & b>")), "<\"a\" & b>");
    }
}
