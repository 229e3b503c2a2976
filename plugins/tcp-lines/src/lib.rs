//! `tcp-lines`: a source of the lines that servers send over TCP.
//!
//! Each address is a split. What a server has sent it does not send again, so nothing here can be replayed: lines that were read and not yet committed are lost in a
//! crash, and so is what was sent while nobody was connected. A position is only a count of lines.

mod config;
mod feed;
mod lines;

#[cfg(test)]
mod tests;

use config::Config;
use feed::{Feed, Next};
use lines::Line;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_sdk::arrow::array::{ArrayRef, RecordBatch, StringArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::net::tcp;
use tidegate_sdk::{
    BadRecord, Chunk, Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState, control,
    export_source,
};

/// How long to leave connections alone that have nothing to read.
const BREATH: Duration = Duration::from_millis(5);

/// The opened source.
struct TcpLines {
    config: Config,
    schema: SchemaRef,
    /// The first one is next.
    feeds: VecDeque<Feed>,
}

impl Source for TcpLines {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, _: &Scope, _: Option<&[String]>) -> Result<SourcePlan> {
        config.check()?;
        let most = u32::try_from(config.addresses.len()).unwrap_or(u32::MAX);
        Ok(SourcePlan::new(schema()).bounded(!config.reconnect).not_replayable().with_max_parallelism(most))
    }

    /// The cursor has the addresses that are known, a line for each.
    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        config.check()?;
        let cursor = String::from_utf8_lossy(cursor.unwrap_or_default()).into_owned();
        let mut known: Vec<&str> = cursor.lines().collect();
        let mut added = Vec::new();
        for address in &config.addresses {
            if !known.contains(&address.as_str()) {
                known.push(address);
                added.push(Split { id: address.clone(), details: Vec::new(), position: None });
            }
        }
        let gone = known.iter().filter(|known| !config.addresses.iter().any(|address| address == *known));
        Ok(Discovered { added, gone: gone.map(|gone| (*gone).to_owned()).collect(), cursor: Some(known.join("\n").into_bytes()) })
    }

    fn open(config: Config, _: &Scope, _: Option<&[String]>) -> Result<Self> {
        config.check()?;
        Ok(TcpLines { config, schema: Arc::new(schema()), feeds: VecDeque::new() })
    }

    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            let foreign = || Error::fatal(format!("the split `{}` is none of this source's; was it found by another plugin?", split.id));
            config::host_and_port(&split.id).map_err(|_| foreign())?;
            let count = split.position.as_deref().map(|position| std::str::from_utf8(position).ok()?.parse().ok());
            let count = count.map(|count| count.ok_or_else(foreign)).transpose()?.unwrap_or(0);
            self.feeds.push_back(Feed::new(split.id, count, &self.config));
        }
        Ok(())
    }

    /// Connections take turns and share the poll's rows, so none starves.
    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = self.round(request)?;
        if polled.chunks.is_empty() && !request.deadline.is_zero() && self.feeds.iter().any(|feed| feed.stream().is_some()) {
            let due = self.feeds.iter().filter_map(|feed| feed.due_in(Instant::now())).min();
            let longest = due.map_or(request.deadline, |due| due.min(request.deadline));
            tcp::wait_any(self.feeds.iter().filter_map(Feed::stream), longest);
            let states = polled.states;
            polled = self.round(request)?;
            polled.states.splice(0..0, states);
        }
        if polled.chunks.is_empty() {
            polled.retry_after = Some(self.nothing_before());
        }
        Ok(polled)
    }
}

/// The lines, and where they are from.
fn schema() -> Schema {
    Schema::new(vec![Field::new("line", DataType::Utf8, false), Field::new("address", DataType::Utf8, false)])
}

impl TcpLines {
    /// Reads what is there.
    fn round(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let turns = self.feeds.len();
        let mut left = request.max_rows.max(1);
        let share = left.div_ceil(turns.max(1));
        let bytes = (request.max_bytes / turns.max(1)).max(1);
        for _ in 0..turns {
            let Some(mut feed) = self.feeds.pop_front() else { break };
            let (chunk, state) = self.read(&mut feed, share.min(left), bytes)?;
            if let Some(chunk) = chunk {
                left -= chunk.rows.num_rows();
                polled.chunks.push(chunk);
            }
            let finished = matches!(state, Some(SplitState::Finished));
            polled.states.extend(state.map(|state| (feed.address.clone(), state)));
            if !finished {
                self.feeds.push_back(feed);
            }
            if left == 0 || control::should_yield() {
                break;
            }
        }
        Ok(polled)
    }

    /// Reads on at one address: the lines, and its state if that has changed.
    fn read(&self, feed: &mut Feed, max_lines: usize, max_bytes: usize) -> Result<(Option<Chunk>, Option<SplitState>)> {
        let (mut rows, mut bad, mut bytes) = (Vec::<String>::new(), Vec::<BadRecord>::new(), 0);
        let mut state = None;
        while rows.len() + bad.len() < max_lines && bytes < max_bytes {
            let position = feed.lines_read.to_string().into_bytes();
            match feed.next(&self.config)? {
                Next::Line(Line::Whole(line)) => {
                    bytes += line.len() + 1;
                    rows.push(line);
                }
                Next::Line(Line::Bad(raw, why)) => {
                    bytes += raw.len();
                    let message = format!("`{}`, line {}: {why}", feed.address, feed.lines_read);
                    bad.push(BadRecord { row: Some(rows.len() as u64), position, raw, message });
                }
                Next::Nothing => {
                    state = Some(SplitState::CaughtUp);
                    break;
                }
                Next::End => {
                    state = Some(SplitState::Finished);
                    break;
                }
            }
        }
        let caught_up = matches!(state, Some(SplitState::CaughtUp));
        if state.is_none() && feed.caught_up {
            state = Some(SplitState::Pending);
        } else if caught_up && feed.caught_up {
            state = None;
        }
        feed.caught_up = caught_up;
        if rows.is_empty() && bad.is_empty() {
            return Ok((None, state));
        }
        let count = rows.len() as u64;
        bad.iter_mut().filter(|bad| bad.row == Some(count)).for_each(|bad| bad.row = None);
        let addresses = StringArray::from_iter_values(std::iter::repeat_n(&feed.address, rows.len()));
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(rows)), Arc::new(addresses)];
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let mut chunk = Chunk::new(feed.address.as_str(), rows, feed.lines_read.to_string());
        chunk.bad = bad;
        Ok((Some(chunk), state))
    }

    /// How long there is nothing to do.
    fn nothing_before(&self) -> Duration {
        if self.feeds.iter().any(|feed| feed.stream().is_some()) {
            return BREATH;
        }
        let due = self.feeds.iter().filter_map(|feed| feed.due_in(Instant::now())).min();
        // Without splits there is nothing to do but wait for some.
        due.unwrap_or(if self.feeds.is_empty() { Duration::from_secs(1) } else { BREATH }).max(Duration::from_millis(1))
    }
}

export_source!(TcpLines);
