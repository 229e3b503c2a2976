//! Pages: asked for, and taken apart into rows and the name of the next page.

use crate::config::{Config, Format};
use crate::place::Place;
use http_options::Client;
use json_values::{Node, Step};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use text_values::quoted;
use tidegate_sdk::net::Url;
use tidegate_sdk::net::http::Response;
use tidegate_sdk::{Error, Result};

/// A page that was read.
#[derive(Debug)]
pub(crate) struct Page {
    /// The JSON texts of the rows that were not handed over yet.
    pub(crate) rows: VecDeque<String>,
    /// How many rows it had.
    pub(crate) count: u64,
    /// The next page: a cursor or an address.
    pub(crate) next: Option<String>,
    /// What the page is known by when it comes again.
    pub(crate) tag: String,
}

/// Asks for pages.
pub(crate) struct Pages {
    url: Url,
    client: Client,
    format: Format,
    cursor_param: Option<String>,
    next_link: bool,
    max_bytes: usize,
    /// Finds the rows, if they stand in something, and the next page, if it is named there.
    tree: Option<Node>,
    has_rows_path: bool,
}

impl Pages {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let (url, client) = config.check()?;
        let (rows, next) = (config.rows()?, config.next_field()?);
        let has_rows_path = rows.is_some();
        let paths: Vec<Vec<Step>> = rows.into_iter().chain(next).collect();
        let tree = (!paths.is_empty()).then(|| Node::new(&paths));
        Ok(Pages {
            url,
            client,
            format: config.format,
            cursor_param: config.cursor_param.clone(),
            next_link: config.next_link,
            max_bytes: config.max_page_bytes,
            tree,
            has_rows_path,
        })
    }

    /// The page at a place; `None` when it is as it was when it was last read.
    pub(crate) fn fetch(&self, place: &Place) -> Result<Option<Page>> {
        let url = self.address(place.cursor.as_deref())?;
        let mut request = self.client.request("GET", url.clone())?;
        if let Some(etag) = place.tag.as_deref().filter(|tag| place.done && !tag.starts_with(DIGEST)) {
            request = request.with_header("if-none-match", etag);
        }
        let answer = request.send()?;
        let here = format!("GET {}", url.origin());
        if answer.status == 304 && place.done {
            return Ok(None);
        }
        if !answer.is_success() {
            return Err(answer.refusal().context(here));
        }
        self.read(answer, &url).map_err(|error| error.context(here)).map(Some)
    }

    /// Where a page is. Only the server that was named is asked: what authorises requests is for it alone.
    fn address(&self, cursor: Option<&str>) -> Result<Url> {
        match (cursor, &self.cursor_param) {
            (None, _) => Ok(self.url.clone()),
            (Some(cursor), Some(parameter)) => Ok(self.url.with_parameter(parameter, cursor)),
            (Some(address), None) => {
                let next = self.url.join(address)?;
                if next.origin() != self.url.origin() {
                    let (there, here) = (next.origin(), self.url.origin());
                    return Err(Error::config(format!("the next page is said to be at {there}, which is not {here}")));
                }
                Ok(next)
            }
        }
    }

    fn read(&self, answer: Response, url: &Url) -> Result<Page> {
        let link = if self.next_link { answer.headers("link").find_map(next_of) } else { None };
        let etag = answer.header("etag").map(str::to_owned);
        let bytes = answer.bytes(self.max_bytes).map_err(|error| match error {
            Error::Fatal(message) => Error::config(format!("{message}; ask for smaller pages, or raise `maxPageBytes`")),
            other => other,
        })?;
        let tag = etag.unwrap_or_else(|| digest(&bytes));
        let text = String::from_utf8(bytes).map_err(|_| Error::retryable("the page is no UTF-8 text"))?;
        let (rows, field) = self.take_apart(&text)?;
        let next = match (link, field) {
            // Relative to the page it stands in.
            (Some(link), _) => Some(url.join(&link)?.to_string()),
            (None, Some(field)) if self.cursor_param.is_none() => Some(url.join(&field)?.to_string()),
            (None, field) => field,
        };
        Ok(Page { count: rows.len() as u64, rows, next, tag })
    }

    /// The rows and what the field of the next page has.
    fn take_apart(&self, text: &str) -> Result<(VecDeque<String>, Option<String>)> {
        if self.format == Format::Lines {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            return Ok((lines.map(str::to_owned).collect(), None));
        }
        // A page that is cut short or comes from something between here and the server may be whole the next time.
        let wrong = |error: serde_json::Error| Error::retryable(format!("the page {} is no JSON: {error}", quoted(text)));
        let Some(tree) = &self.tree else {
            return Ok((items(text.trim()).ok_or_else(|| self.no_array(text))?.map_err(wrong)?, None));
        };
        let mut found = [None; 2];
        tree.find(text, &mut found).map_err(wrong)?;
        let [first, second] = found;
        let (rows, next) = if self.has_rows_path { (first, second) } else { (Some(text.trim()), first) };
        let rows = match rows {
            // A page without rows may leave their array out.
            None | Some("null") => VecDeque::new(),
            Some(rows) => items(rows).ok_or_else(|| self.no_array(rows))?.map_err(wrong)?,
        };
        let next = match next {
            None | Some("null" | "false") => None,
            Some(json) if json.starts_with('"') => serde_json::from_str::<String>(json).ok().filter(|text| !text.is_empty()),
            Some(json) => Some(json.to_owned()),
        };
        Ok((rows, next))
    }

    fn no_array(&self, text: &str) -> Error {
        let place = if self.has_rows_path { "what stands at `rows`" } else { "the page" };
        let place_hint = if self.has_rows_path { "" } else { "; if the rows stand in something, name the path to them in `rows`" };
        // An error page of something in between is no mistake of the configuration.
        let message = format!("{place} is {}, which is no array{place_hint}", quoted(text.trim()));
        if text.trim_start().starts_with(['{', '"']) { Error::config(message) } else { Error::retryable(message) }
    }
}

/// The texts of an array's items; `None` if it is no array.
fn items(text: &str) -> Option<serde_json::Result<VecDeque<String>>> {
    let items = || Ok(serde_json::from_str::<Vec<&RawValue>>(text)?.into_iter().map(|item| item.get().to_owned()).collect());
    text.starts_with('[').then(items)
}

/// What a tag begins with that is no server's.
const DIGEST: &str = "digest:";

/// Stands for an entity tag where the server gives none (FNV-1a: the same in every version).
fn digest(bytes: &[u8]) -> String {
    let digest = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{DIGEST}{digest:016x}")
}

/// The target of the link with `rel=next` in a header `Link`.
fn next_of(header: &str) -> Option<String> {
    let mut rest = header;
    while let Some(begin) = rest.find('<') {
        let end = begin + rest[begin..].find('>')?;
        let (target, behind) = (&rest[begin + 1..end], &rest[end + 1..]);
        // Parameters go up to the next link; a comma in quotes is rare, and is no `<`.
        let parameters = behind.split('<').next().unwrap_or_default();
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let value = value.trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("rel") && value.split(' ').any(|relation| relation.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return Some(target.trim().to_owned());
        }
        rest = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_to_the_next_page_is_found_among_others() {
        for (header, next) in [
            (r#"<https://h/?page=2>; rel="next", <https://h/?page=9>; rel="last""#, Some("https://h/?page=2")),
            (r#"<https://h/?page=1>; rel="prev first", </p?a=1,2>; title="x"; rel="last next""#, Some("/p?a=1,2")),
            ("<b>;rel=NEXT", Some("b")),
            (r#"<https://h/?page=1>; rel="prev""#, None),
            (r#"<https://h/next>; title="next""#, None),
            ("<broken; rel=next", None),
            ("", None),
        ] {
            assert_eq!(next_of(header).as_deref(), next, "{header}");
        }
    }

    #[test]
    fn a_digest_stays_the_same_in_every_version() {
        assert_eq!(digest(b""), "digest:cbf29ce484222325");
        assert_eq!(digest(b"a"), "digest:af63dc4c8601ec8c");
    }
}
