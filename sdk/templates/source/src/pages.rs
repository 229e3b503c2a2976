//! The pages of a collection, and the place in them.

use crate::{Config, schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tidegate_sdk::arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use tidegate_sdk::net::http::Request;
use tidegate_sdk::net::{Url, percent_encoded};
use tidegate_sdk::{BadRecord, Chunk, Error, PollRequest, Result, Split, secrets};

/// A longer answer is an error, so that memory stays bounded whatever a server sends.
const MAX_PAGE: usize = 8 << 20;

/// An item of a page.
#[derive(Deserialize)]
struct Item {
    id: i64,
    name: Option<String>,
    amount: Option<f64>,
}

/// What the API answers.
#[derive(Deserialize)]
struct Page {
    items: VecDeque<Value>,
    next: Option<String>,
}

/// Asks for pages.
pub(crate) struct Pages {
    url: Url,
    page_rows: u32,
}

impl Pages {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let url = Url::parse(&config.url)?;
        if url.target().contains('?') {
            return Err(Error::config("`url` has a query; name the API alone"));
        }
        if config.page_rows == 0 {
            return Err(Error::config("`pageRows` is 0, and a page has some"));
        }
        if config
            .collections
            .iter()
            .any(|id| id.trim().is_empty() || id.contains('\n'))
        {
            return Err(Error::config("`collections` has a name that is none"));
        }
        // It is asked for again with every page. `validate` says here that it is missing.
        secrets::get("token")?;
        Ok(Pages {
            url,
            page_rows: config.page_rows,
        })
    }

    fn fetch(&self, collection: &str, cursor: Option<&str>) -> Result<Page> {
        let folder = self.url.target().trim_end_matches('/');
        let path = format!("{folder}/{}", percent_encoded(collection, false));
        let limit = self.page_rows.to_string();
        let mut url = self.url.with_target(&path).with_parameter("limit", &limit);
        if let Some(cursor) = cursor {
            url = url.with_parameter("cursor", cursor);
        }
        let token = format!("Bearer {}", secrets::get("token")?);
        let answer = Request::new("GET", url)
            .with_header("authorization", token)
            .send()?;
        if !answer.is_success() {
            // 429 and 5xx are tried again after `Retry-After`; others end the run and are shown.
            return Err(answer.refusal());
        }
        serde_json::from_slice(&answer.bytes(MAX_PAGE)?)
            .map_err(|error| Error::retryable(format!("`{path}` answers no page: {error}")))
    }
}

/// What the manifest keeps of a split: a page, and how many of its items were read.
#[derive(Default, Serialize, Deserialize)]
struct Place {
    cursor: Option<String>,
    row: usize,
}

/// A collection being read.
pub(crate) struct Reading {
    id: String,
    place: Place,
    /// What is left of the page at `place`.
    page: Option<Page>,
    /// When to read on.
    pub(crate) due: Instant,
}

impl Reading {
    /// Asks for nothing yet.
    pub(crate) fn new(split: Split) -> Result<Self> {
        let place = match &split.position {
            None => Place::default(),
            // It was written by this plugin, maybe by an older version of it.
            Some(position) => serde_json::from_slice(position).map_err(|error| {
                let shown = position.escape_ascii();
                Error::fatal(format!("`{shown}` is no position of this source: {error}"))
            })?,
        };
        Ok(Reading {
            id: split.id,
            place,
            page: None,
            due: Instant::now(),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The next rows, all of one page, and whether they were the last ones for now.
    pub(crate) fn read(&mut self, pages: &Pages, request: PollRequest) -> Result<(Chunk, bool)> {
        let mut page = match self.page.take() {
            Some(page) => page,
            None => self.rest_of_page(pages)?,
        };
        let (mut items, mut bad, mut bytes) = (Vec::<Item>::new(), Vec::new(), 0);
        while items.len() + bad.len() < request.max_rows && bytes < request.max_bytes {
            let Some(value) = page.items.pop_front() else {
                break;
            };
            let raw = value.to_string();
            bytes += raw.len();
            match serde_json::from_value(value) {
                Ok(item) => items.push(item),
                Err(error) => bad.push(BadRecord {
                    row: Some(items.len() as u64),
                    position: self.position(),
                    raw: raw.into_bytes(),
                    message: format!("collection `{}`: {error}", self.id),
                }),
            }
            self.place.row += 1;
        }
        // Bad records behind the last row stand before no row.
        let rows = items.len() as u64;
        bad.iter_mut()
            .filter(|bad| bad.row == Some(rows))
            .for_each(|bad| bad.row = None);
        let read_all = page.items.is_empty();
        let at_end = read_all && page.next.is_none();
        if !read_all {
            self.page = Some(page);
        } else if let Some(next) = page.next {
            self.place = Place {
                cursor: Some(next),
                row: 0,
            };
        }
        let mut chunk = Chunk::new(&self.id, batch(&self.id, &items)?, self.position());
        chunk.bad = bad;
        Ok((chunk, at_end))
    }

    /// The page at the place, without the items that were read.
    fn rest_of_page(&self, pages: &Pages) -> Result<Page> {
        let Place { cursor, row } = &self.place;
        let mut page = pages.fetch(&self.id, cursor.as_deref())?;
        if page.items.len() < *row {
            let (id, now) = (&self.id, page.items.len());
            return Err(Error::fatal(format!(
                "a page of `{id}` has {now} items, and {row} were read of it: it cannot be replayed"
            )));
        }
        page.items.drain(..*row);
        Ok(page)
    }

    /// Where to read next, as the manifest keeps it.
    fn position(&self) -> Vec<u8> {
        serde_json::json!(self.place).to_string().into_bytes()
    }
}

fn batch(collection: &str, items: &[Item]) -> Result<RecordBatch> {
    let collections = std::iter::repeat_n(collection, items.len());
    let names: StringArray = items.iter().map(|item| item.name.as_deref()).collect();
    let amounts: Float64Array = items.iter().map(|item| item.amount).collect();
    Ok(RecordBatch::try_new(
        Arc::new(schema()),
        vec![
            Arc::new(StringArray::from_iter_values(collections)),
            Arc::new(
                items
                    .iter()
                    .map(|item| Some(item.id))
                    .collect::<Int64Array>(),
            ),
            Arc::new(names),
            Arc::new(amounts),
        ],
    )?)
}
