//! `http-poll`: a source of the rows of an HTTP API.
//!
//! The input is one split: pages in their order, or one page that is asked for again. A position is a page and a row of it, so that reading goes on behind any row, as
//! far as the API gives the same page again. One page is in memory at a time.

mod config;
mod page;
mod place;
mod table;

#[cfg(test)]
mod tests;

use config::Config;
use page::{Page, Pages};
use place::Place;
use std::time::Duration;
use table::{Rows, Table};
use tidegate_sdk::arrow::array::RecordBatch;
use tidegate_sdk::{
    BadRecord, Chunk, Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState, export_source,
    metrics,
};

/// The one split.
const SPLIT: &str = "all";
/// Counts the values that are null because they were not what they should be.
const UNREADABLE: &str = "unreadable";
/// How much of a bad record is shown.
const MAX_RAW: usize = 4096;

/// The opened source.
struct HttpPoll {
    config: Config,
    table: Table,
    pages: Pages,
    /// None before the split is assigned, and when its end was reached.
    place: Option<Place>,
    page: Option<Page>,
}

impl Source for HttpPoll {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, _: &Scope, wanted: Option<&[String]>) -> Result<SourcePlan> {
        config.check()?;
        let plan = SourcePlan::new(table::schema(config, wanted)).pruned().bounded(!config.watch).with_max_parallelism(1);
        Ok(if config.is_replayable() { plan } else { plan.not_replayable() })
    }

    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        config.check()?;
        let added = match cursor {
            None => vec![Split { id: SPLIT.into(), details: Vec::new(), position: None }],
            Some(_) => Vec::new(),
        };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(SPLIT.into()) })
    }

    fn open(config: Config, _: &Scope, wanted: Option<&[String]>) -> Result<Self> {
        let (table, pages) = (Table::new(&config, wanted)?, Pages::new(&config)?);
        Ok(HttpPoll { config, table, pages, place: None, page: None })
    }

    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            if split.id != SPLIT {
                return Err(Error::fatal(format!("the split `{}` is none of this source's; was it found by another plugin?", split.id)));
            }
            self.place = Some(split.position.as_deref().map(Place::decode).transpose()?.unwrap_or_default());
            self.page = None;
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let Some(mut place) = self.place.clone() else {
            polled.retry_after = Some(Duration::from_secs(1));
            return Ok(polled);
        };
        if place.done && !self.config.watch {
            // A position behind the last row.
            self.place = None;
            polled.states.push((SPLIT.into(), SplitState::Finished));
            return Ok(polled);
        }
        let mut page = match self.page.take() {
            Some(page) => page,
            None => match self.pages.fetch(&place)?.map(|page| self.go_to(&mut place, page)).transpose()?.flatten() {
                Some(page) => page,
                None => {
                    self.place = Some(place);
                    return Ok(self.rest(polled));
                }
            },
        };
        let (rows, bad) = self.hand_over(&mut page, &mut place, request)?;
        if !page.rows.is_empty() {
            self.page = Some(page);
        } else if let Some(next) = page.next.take() {
            if place.cursor.as_ref() == Some(&next) {
                return Err(Error::config(format!("the page `{next}` names itself as the next one; is `nextField` right?")));
            }
            place = Place { cursor: Some(next), ..Place::default() };
        } else {
            place.done = true;
            if self.config.watch {
                polled = self.rest(polled);
            } else {
                polled.states.push((SPLIT.into(), SplitState::Finished));
            }
        }
        let mut chunk = Chunk::new(SPLIT, rows, place.encode());
        chunk.bad = bad;
        polled.chunks.push(chunk);
        let finished = place.done && !self.config.watch;
        self.place = (!finished).then_some(place);
        Ok(polled)
    }
}

impl HttpPoll {
    /// Skips what was handed over of a page; `None` when that is all, and nothing follows.
    fn go_to(&self, place: &mut Place, mut page: Page) -> Result<Option<Page>> {
        let same = place.tag.as_ref() == Some(&page.tag);
        if !self.config.is_paged() && !same {
            // Another document: all of it is new.
            place.row = 0;
        }
        if place.row > page.count {
            let (row, count) = (place.row, page.count);
            return Err(Error::fatal(format!(
                "the page has {count} rows now, and {row} were read of it before: the API does not give the same rows again; set `replayable = false` and start anew"
            )));
        }
        if place.done && page.next.is_none() && place.row == page.count {
            place.tag = Some(page.tag);
            return Ok(None);
        }
        page.rows.drain(..place.row as usize);
        place.tag = Some(page.tag.clone());
        place.done = false;
        Ok(Some(page))
    }

    /// Nothing to do for a while.
    fn rest(&self, mut polled: Polled) -> Polled {
        polled.states.push((SPLIT.into(), SplitState::CaughtUp));
        polled.retry_after = Some(Duration::from_millis(self.config.interval_ms));
        polled
    }

    fn hand_over(&self, page: &mut Page, place: &mut Place, request: PollRequest) -> Result<(RecordBatch, Vec<BadRecord>)> {
        let most = request.max_rows.max(1);
        let mut rows = Rows::new(&self.table, most.min(page.rows.len()));
        let (mut bad, mut bytes) = (Vec::<BadRecord>::new(), 0);
        while rows.count + bad.len() < most && bytes < request.max_bytes.max(1) {
            let Some(json) = page.rows.pop_front() else { break };
            bytes += json.len();
            if let Err(why) = rows.add(&json) {
                let mut raw = json.into_bytes();
                raw.truncate(MAX_RAW);
                let place = place.encode();
                bad.push(BadRecord { row: Some(rows.count as u64), position: place, raw, message: why });
            }
            place.row += 1;
        }
        let count = rows.count as u64;
        bad.iter_mut().filter(|bad| bad.row == Some(count)).for_each(|bad| bad.row = None);
        if rows.unreadable > 0 {
            metrics::count(UNREADABLE, rows.unreadable);
        }
        Ok((rows.finish()?, bad))
    }
}

export_source!(HttpPoll);
