//! What the stream is: the mix, the hot ratios and the id windows of the public generator, the same events however they are read.

use super::generate::Column;
use super::layout::{EPOCH, Kind};
use super::*;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::{ManualClock, SplitRead, read_source, source_contract};
use tidegate_api::{
    EqualTo, EventTime, Generation, InlineSource, PollRequest, Position, RunId, RunIdentity, SourceCtx, SourceRequest, SplitId, SplitState,
};

fn source(options: Value) -> NexmarkSource {
    NexmarkSource::new(NexmarkConfig::parse(options.as_object().unwrap()).unwrap())
}

fn only(kind: &str) -> Vec<EqualTo> {
    vec![EqualTo { column: "type".into(), values: vec![json!(kind)] }]
}

fn rows(source: &NexmarkSource, request: &SourceRequest) -> RecordBatch {
    read_source(source, request, 1, 8192, None).remove(&SplitId::new("0")).unwrap().rows
}

fn integers(batch: &RecordBatch, column: &str) -> Vec<i64> {
    batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values().to_vec()
}

fn millis(batch: &RecordBatch, column: &str) -> Vec<i64> {
    batch.column_by_name(column).unwrap().as_primitive::<TimestampMillisecondType>().values().to_vec()
}

#[test]
fn the_source_keeps_its_contract() {
    source_contract(&source(json!({ "events": 2_345, "partitions": 3, "outOfOrderMs": 200 })), &SourceRequest::all());
    source_contract(&source(json!({ "events": 1_000, "partitions": 1, "extra": false })), &SourceRequest::all());
    for kind in ["person", "auction", "bid", "nothing"] {
        source_contract(&source(json!({ "events": 1_234, "partitions": 2 })), &SourceRequest::all().with_equals(only(kind)));
    }
    source_contract(&source(json!({ "events": 777, "kinds": ["person", "bid"] })), &SourceRequest::all());
}

#[test]
fn partitions_share_out_the_events_of_one_stream() {
    let request = SourceRequest::all().with_ordinals(true);
    let by_event = |partitions: u64| {
        let mut rows = BTreeMap::new();
        for read in read_source(&source(json!({ "events": 3_000, "partitions": partitions })), &request, 1, 1000, None).into_values() {
            for (row, ordinal) in read.ordinals.iter().enumerate() {
                assert!(rows.insert(*ordinal, read.rows.slice(row, 1)).is_none());
            }
        }
        rows
    };
    let whole = by_event(1);
    assert_eq!(whole.len(), 3_000);
    assert_eq!(whole, by_event(7));
}

#[test]
fn another_seed_makes_other_events() {
    let of = |seed: i64| rows(&source(json!({ "events": 100, "seed": seed })), &SourceRequest::all());
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert_ne!(of(-1), of(1));
}

#[test]
fn each_kind_has_its_own_columns_and_no_others() {
    let whole = rows(&source(json!({ "events": 500 })), &SourceRequest::all());
    let types = whole.column_by_name("type").unwrap().as_string_view();
    for row in 0..whole.num_rows() {
        let kind = match row as u64 % EPOCH {
            0 => Kind::Person,
            1..=3 => Kind::Auction,
            _ => Kind::Bid,
        };
        assert_eq!(types.value(row), kind.name());
        let present: Vec<&str> =
            Column::ALL.iter().enumerate().filter(|(index, _)| whole.column(*index).is_valid(row)).map(|(_, (_, name))| *name).collect();
        let expected: &[&str] = match kind {
            Kind::Person => &["type", "id", "name", "emailAddress", "creditCard", "city", "state", "dateTime", "extra"],
            Kind::Auction => {
                &["type", "id", "itemName", "description", "initialBid", "reserve", "expires", "seller", "category", "dateTime", "extra"]
            }
            Kind::Bid => &["type", "auction", "bidder", "price", "channel", "url", "dateTime", "extra"],
        };
        assert_eq!(present, expected);
    }
}

#[test]
fn a_condition_on_the_type_leaves_the_same_rows_out_as_a_filter() {
    let source = source(json!({ "events": 5_003, "partitions": 2, "outOfOrderMs": 500 }));
    let whole = read_source(&source, &SourceRequest::all().with_ordinals(true), 1, 1000, None);
    for kind in ["person", "auction", "bid"] {
        let request = SourceRequest::all().with_equals(only(kind)).with_ordinals(true);
        assert_eq!(source.plan(&request).unwrap().applied, [0]);
        for (id, read) in read_source(&source, &request, 1, 1000, None) {
            let all = &whole[&id];
            let types = all.rows.column_by_name("type").unwrap().as_string_view();
            let kept: Vec<usize> = (0..all.rows.num_rows()).filter(|row| types.value(*row) == kind).collect();
            assert_eq!(read.ordinals, kept.iter().map(|row| all.ordinals[*row]).collect::<Vec<_>>());
            let indices = arrow::array::UInt64Array::from_iter_values(kept.iter().map(|row| *row as u64));
            assert_eq!(read.rows, arrow::compute::take_record_batch(&all.rows, &indices).unwrap());
            assert_eq!(read.filtered as usize, all.rows.num_rows() - kept.len());
        }
    }
}

#[test]
fn kinds_that_nobody_sees_together_come_apart_and_each_is_as_it_was() {
    let source = source(json!({ "events": 5_003, "partitions": 2, "outOfOrderMs": 500 }));
    let kinds = vec![EqualTo { column: "type".into(), values: vec![json!("auction"), json!("bid")] }];
    let request = SourceRequest::all().with_equals(kinds).with_ordinals(true);
    let mixed = read_source(&source, &request, 1, 1000, None);
    for max_rows in [1, 7, 1000, 100_000] {
        for (id, read) in read_source(&source, &request.clone().with_apart(Some("type".into())), 2, max_rows, None) {
            assert_eq!((read.rows.num_rows(), read.filtered), (mixed[&id].rows.num_rows(), mixed[&id].filtered));
            for kind in ["auction", "bid"] {
                let of = |read: &SplitRead| {
                    let types = read.rows.column_by_name("type").unwrap().as_string_view();
                    let kept: Vec<u64> = (0..read.rows.num_rows() as u64).filter(|row| types.value(*row as usize) == kind).collect();
                    let ordinals: Vec<u64> = kept.iter().map(|row| read.ordinals[*row as usize]).collect();
                    (ordinals, arrow::compute::take_record_batch(&read.rows, &arrow::array::UInt64Array::from(kept)).unwrap())
                };
                assert_eq!(of(&read), of(&mixed[&id]), "{kind} of split `{id}`, {max_rows} rows a poll");
            }
        }
    }
}

#[test]
fn a_poll_of_kinds_apart_is_one_stretch_and_only_its_end_is_a_position() {
    let source = source(json!({ "events": 1_000 }));
    let whole = rows(&source, &SourceRequest::all());
    let mut reader = reader(&source, SourceRequest::all().with_apart(Some("type".into())), Arc::new(ManualClock::default()));
    let mut from = 0;
    while from < 1_000 {
        let polled = reader.poll(request(77)).unwrap();
        let (last, others) = polled.chunks.split_last().unwrap();
        assert!(others.iter().all(|chunk| chunk.position.as_number() == Some(from)));
        let to = last.position.as_number().unwrap();
        let (polled, stretch) = (polled.chunks.iter().map(|chunk| &chunk.rows), whole.slice(from as usize, (to - from) as usize));
        let mut times: Vec<i64> = polled.flat_map(|rows| millis(rows, "dateTime")).collect();
        times.sort_unstable();
        assert_eq!(times, millis(&stretch, "dateTime"));
        from = to;
    }
}

#[test]
fn left_out_rows_move_time_as_the_others_do() {
    let source = source(json!({ "events": 5_000, "outOfOrderMs": 700 }));
    let all = rows(&source, &SourceRequest::all());
    let (times, types) = (millis(&all, "dateTime"), all.column_by_name("type").unwrap().as_string_view());
    let mut reader = reader(&source, SourceRequest::all().with_equals(only("bid")), Arc::new(ManualClock::default()));
    let mut from = 0;
    loop {
        let polled = reader.poll(request(333)).unwrap();
        for chunk in &polled.chunks {
            let to = chunk.position.as_number().unwrap() as usize;
            let latest = (from..to).filter(|row| types.value(*row) != "bid").map(|row| times[row]).max();
            assert_eq!(chunk.filtered_max_time, latest.map(EventTime::from_millis));
            from = to;
        }
        if !polled.states.is_empty() {
            break;
        }
    }
    assert_eq!(from, 5_000);
}

#[test]
fn displacement_is_bounded_and_makes_disorder() {
    let ordered = rows(&source(json!({ "events": 10_000 })), &SourceRequest::all());
    let moved = rows(&source(json!({ "events": 10_000, "outOfOrderMs": 1_000 })), &SourceRequest::all());
    let (ordered, moved) = (millis(&ordered, "dateTime"), millis(&moved, "dateTime"));
    assert!(ordered.windows(2).all(|pair| pair[1] - pair[0] == 10));
    assert!(ordered.iter().zip(&moved).all(|(ordered, moved)| (0..=1_000).contains(&(ordered - moved))));
    assert!(moved.windows(2).filter(|pair| pair[1] < pair[0]).count() > 2_000);
}

#[test]
fn the_sizes_are_the_standard_ones() {
    let whole = rows(&source(json!({ "events": 50_000 })), &SourceRequest::all());
    for (kind, size) in [("person", 200.0), ("auction", 500.0), ("bid", 100.0)] {
        let own: Vec<usize> = {
            let types = whole.column_by_name("type").unwrap().as_string_view();
            (0..whole.num_rows()).filter(|row| types.value(*row) == kind).collect()
        };
        // The public generator reckons channel and url of a bid, and the time of a person, as nothing.
        let left_out: &[&str] = match kind {
            "person" => &["type", "dateTime"],
            "bid" => &["type", "channel", "url"],
            _ => &["type"],
        };
        let mut bytes = 0;
        for (column, field) in whole.columns().iter().zip(whole.schema().fields()) {
            if left_out.contains(&field.name().as_str()) {
                continue;
            }
            for row in own.iter().filter(|row| column.is_valid(**row)) {
                bytes += column.as_string_view_opt().map_or(8, |texts| texts.value(*row).len());
            }
        }
        let average = bytes as f64 / own.len() as f64;
        assert!((average / size - 1.0).abs() < 0.03, "{kind}: {average}");
    }
}

/// Facts about a stream's bids and auctions, to be compared between generators.
#[derive(Debug, Default)]
struct Facts {
    kinds: [f64; 3],
    hot_auction: f64,
    hot_bidder: f64,
    hot_seller: f64,
    hot_channel: f64,
    /// Mean distance of a cold auction, bidder behind the newest.
    cold_auction: f64,
    cold_bidder: f64,
    log_price: f64,
    log_price_spread: f64,
    categories: [f64; 5],
    duration: f64,
    extra: [f64; 3],
    farthest: [i64; 4],
}

/// One event of either generator.
enum Seen {
    Person { id: i64, extra: usize },
    Auction { id: i64, seller: i64, category: i64, duration: i64, extra: usize },
    Bid { auction: i64, bidder: i64, price: i64, hot_channel: bool, extra: usize },
}

/// Ids begin at 1000 in both.
fn facts(events: impl Iterator<Item = (u64, Seen)>) -> Facts {
    let mut facts = Facts { farthest: [i64::MAX, i64::MIN, i64::MAX, i64::MIN], ..Facts::default() };
    let (mut persons, mut auctions, mut bids, mut cold_auctions, mut cold_bidders) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut logs = Vec::new();
    for (number, event) in events {
        let epoch = (number / EPOCH) as i64;
        let (newest_person, newest_auction) = (epoch, epoch * 3 + 2);
        match event {
            Seen::Person { id, extra } => {
                assert_eq!(id, 1000 + newest_person);
                persons += 1.0;
                facts.extra[0] += extra as f64;
            }
            Seen::Auction { id, seller, category, duration, extra } => {
                assert_eq!(id, 1000 + epoch * 3 + (number % EPOCH) as i64 - 1);
                auctions += 1.0;
                facts.extra[1] += extra as f64;
                facts.hot_seller += f64::from(seller - 1000 == newest_person / 100 * 100);
                facts.categories[(category - 10) as usize] += 1.0;
                facts.duration += duration as f64;
            }
            Seen::Bid { auction, bidder, price, hot_channel, extra } => {
                bids += 1.0;
                facts.extra[2] += extra as f64;
                facts.hot_channel += f64::from(hot_channel);
                logs.push((price as f64).log10());
                if auction - 1000 == newest_auction / 100 * 100 {
                    facts.hot_auction += 1.0;
                } else {
                    let distance = newest_auction - (auction - 1000);
                    cold_auctions += 1.0;
                    facts.cold_auction += distance as f64;
                    facts.farthest[0] = facts.farthest[0].min(distance);
                    facts.farthest[1] = facts.farthest[1].max(distance);
                }
                if bidder - 1000 == newest_person / 100 * 100 + 1 {
                    facts.hot_bidder += 1.0;
                } else {
                    let distance = newest_person - (bidder - 1000);
                    cold_bidders += 1.0;
                    facts.cold_bidder += distance as f64;
                    facts.farthest[2] = facts.farthest[2].min(distance);
                    facts.farthest[3] = facts.farthest[3].max(distance);
                }
            }
        }
    }
    let all = persons + auctions + bids;
    facts.kinds = [persons / all, auctions / all, bids / all];
    facts.hot_auction /= bids;
    facts.hot_bidder /= bids;
    facts.hot_channel /= bids;
    facts.hot_seller /= auctions;
    facts.cold_auction /= cold_auctions;
    facts.cold_bidder /= cold_bidders;
    facts.log_price = logs.iter().sum::<f64>() / bids;
    facts.log_price_spread = (logs.iter().map(|log| (log - facts.log_price).powi(2)).sum::<f64>() / bids).sqrt();
    facts.categories.iter_mut().for_each(|share| *share /= auctions);
    facts.duration /= auctions;
    facts.extra = [facts.extra[0] / persons, facts.extra[1] / auctions, facts.extra[2] / bids];
    facts
}

/// Where the comparison begins: past the beginning, where the windows are still growing.
const SKIPPED: u64 = 100_000;
const COMPARED: u64 = 400_000;

fn ours() -> Facts {
    let source = source(json!({ "events": SKIPPED + COMPARED, "stepMs": 10 }));
    let start = tidegate_api::Split { id: SplitId::new("0"), details: Vec::new(), position: Some(Position::number(SKIPPED)) };
    let batch = read_source(&source, &SourceRequest::all(), 1, 8192, Some(&[start])).remove(&SplitId::new("0")).unwrap().rows;
    let text = |column: &str, row: usize| batch.column_by_name(column).unwrap().as_string_view().value(row);
    let columns: BTreeMap<&str, Vec<i64>> =
        ["id", "seller", "category", "auction", "bidder", "price"].iter().map(|name| (*name, integers(&batch, name))).collect();
    let (times, expires) = (millis(&batch, "dateTime"), millis(&batch, "expires"));
    let of = |column: &str, row: usize| columns[column][row];
    facts((0..batch.num_rows()).map(|row| {
        let extra = text("extra", row).len();
        let seen = match text("type", row) {
            "person" => Seen::Person { id: of("id", row), extra },
            "auction" => {
                let duration = expires[row] - times[row];
                Seen::Auction { id: of("id", row), seller: of("seller", row), category: of("category", row), duration, extra }
            }
            _ => {
                let hot_channel = !text("channel", row).starts_with("channel-");
                Seen::Bid { auction: of("auction", row), bidder: of("bidder", row), price: of("price", row), hot_channel, extra }
            }
        };
        (SKIPPED + row as u64, seen)
    }))
}

fn theirs() -> Facts {
    use ::nexmark::event::Event;
    // 100 events a second, one every 10 ms.
    let config = ::nexmark::config::NexmarkConfig { first_rate: 100, next_rate: 100, base_time: 0, ..Default::default() };
    let events = ::nexmark::EventGenerator::new(config).with_offset(SKIPPED).take(COMPARED as usize);
    facts(events.enumerate().map(|(index, event)| {
        let seen = match event {
            Event::Person(person) => Seen::Person { id: person.id as i64, extra: person.extra.len() },
            Event::Auction(auction) => Seen::Auction {
                id: auction.id as i64,
                seller: auction.seller as i64,
                category: auction.category as i64,
                duration: auction.expires as i64 - auction.date_time as i64,
                extra: auction.extra.len(),
            },
            Event::Bid(bid) => Seen::Bid {
                auction: bid.auction as i64,
                bidder: bid.bidder as i64,
                price: bid.price as i64,
                hot_channel: !bid.channel.starts_with("channel-"),
                extra: bid.extra.len(),
            },
        };
        (SKIPPED + index as u64, seen)
    }))
}

#[test]
fn the_stream_is_distributed_as_the_public_generators() {
    let (ours, theirs) = (ours(), theirs());
    let close = |what: &str, ours: f64, theirs: f64, tolerance: f64| {
        assert!((ours - theirs).abs() <= tolerance, "{what}: {ours}, theirs {theirs}");
    };
    assert_eq!(ours.kinds, theirs.kinds);
    assert_eq!(ours.kinds, [0.02, 0.06, 0.92]);
    close("hot auctions", ours.hot_auction, theirs.hot_auction, 0.005);
    close("hot bidders", ours.hot_bidder, theirs.hot_bidder, 0.005);
    close("hot sellers", ours.hot_seller, theirs.hot_seller, 0.01);
    close("hot channels", ours.hot_channel, theirs.hot_channel, 0.005);
    close("cold auctions", ours.cold_auction, theirs.cold_auction, 0.5);
    close("cold bidders", ours.cold_bidder, theirs.cold_bidder, 5.0);
    assert_eq!(ours.farthest, theirs.farthest);
    close("prices", ours.log_price, theirs.log_price, 0.01);
    close("spread of prices", ours.log_price_spread, theirs.log_price_spread, 0.01);
    for category in 0..5 {
        close("categories", ours.categories[category], theirs.categories[category], 0.01);
    }
    close("durations", ours.duration, theirs.duration, theirs.duration * 0.02);
    for kind in 0..3 {
        close("padding", ours.extra[kind], theirs.extra[kind], theirs.extra[kind] * 0.02);
    }
}

fn reader(source: &NexmarkSource, request: SourceRequest, clock: Arc<ManualClock>) -> Box<dyn tidegate_api::SourceReader> {
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "events");
    source.open(SourceCtx::new(run).with_start(source.discover(None).unwrap().added).with_request(request).with_clock(clock)).unwrap()
}

fn request(max_rows: usize) -> PollRequest {
    PollRequest { max_rows, max_bytes: 1 << 20, wait: Duration::ZERO }
}

#[test]
fn a_rate_lets_events_through_as_the_clock_goes() {
    let clock = Arc::new(ManualClock::default());
    let source = source(json!({ "rate": 1_000, "partitions": 2 }));
    assert!(!source.plan(&SourceRequest::all()).unwrap().bounded);
    let mut reader = reader(&source, SourceRequest::all(), Arc::clone(&clock));
    let mut seen = 0;
    for second in 0..5 {
        loop {
            let polled = reader.poll(request(1_000)).unwrap();
            seen += polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum::<usize>();
            if polled.chunks.is_empty() {
                assert!(polled.retry_after.unwrap() <= Duration::from_millis(61));
                break;
            }
        }
        assert_eq!(seen, second * 1_000);
        clock.advance(Duration::from_secs(1));
    }
}

/// All splits at these positions, in one reader.
fn resumed(
    source: &NexmarkSource,
    request: SourceRequest,
    positions: [u64; 3],
    clock: &Arc<ManualClock>,
) -> Box<dyn tidegate_api::SourceReader> {
    let mut splits = source.discover(None).unwrap().added;
    for (split, position) in splits.iter_mut().zip(positions) {
        split.position = Some(Position::number(position));
    }
    let run = RunIdentity::new("test", RunId::new("run"), Generation(2), "events");
    source.open(SourceCtx::new(run).with_start(splits).with_request(request).with_clock(Arc::clone(clock) as _)).unwrap()
}

#[test]
fn a_split_that_is_ahead_waits_for_the_others() {
    let source = source(json!({ "events": 60_000, "rate": 3_000, "partitions": 3 }));
    for kind in [None, Some("bid"), Some("person"), Some("nothing")] {
        let asked = SourceRequest::all().with_equals(kind.map_or_else(Vec::new, only));
        // Positions within, and one past an end that was later.
        for positions in [[9_000, 21_000, 0], [59_999, 60_000, 1], [70_000, 12, 90_000]] {
            let clock = Arc::new(ManualClock::default());
            let mut reader = resumed(&source, asked.clone(), positions, &clock);
            let (mut rows, mut finished) = (0, 0);
            for _ in 0..10_000 {
                let polled = reader.poll(request(500)).unwrap();
                rows += polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum::<usize>();
                finished += polled.states.iter().filter(|(_, state)| *state == SplitState::Finished).count();
                if finished == 3 {
                    break;
                }
                if polled.chunks.is_empty() {
                    clock.advance(Duration::from_millis(100));
                }
            }
            assert_eq!(finished, 3, "{kind:?} {positions:?}");
            let left = |index: u64| (positions[index as usize]..60_000).filter(move |n| n / EPOCH % 3 == index);
            let of_kind = |n: &u64| match kind {
                None => true,
                Some("person") => n.is_multiple_of(EPOCH),
                Some("bid") => n % EPOCH > 3,
                Some(_) => false,
            };
            assert_eq!(rows, (0..3).flat_map(left).filter(of_kind).count(), "{kind:?} {positions:?}");
        }
    }
}

#[test]
fn a_throttled_split_is_caught_up_until_more_is_due() {
    let clock = Arc::new(ManualClock::default());
    let source = source(json!({ "rate": 100 }));
    let mut reader = reader(&source, SourceRequest::all(), Arc::clone(&clock));
    let states = |polled: tidegate_api::Polled| polled.states.into_iter().map(|(_, state)| state).collect::<Vec<_>>();
    assert_eq!(states(reader.poll(request(10)).unwrap()), [SplitState::CaughtUp]);
    assert_eq!(states(reader.poll(request(10)).unwrap()), []);
    clock.advance(Duration::from_secs(1));
    assert_eq!(states(reader.poll(request(10)).unwrap()), [SplitState::Pending]);
}

#[test]
fn mistakes_in_the_options_are_all_reported() {
    let options: Map<String, Value> = json!({ "event": 5, "partitions": 0, "kinds": ["bids"], "seed": "x" }).as_object().unwrap().clone();
    let mut keys: Vec<String> = NexmarkConfig::parse(&options).unwrap_err().into_iter().map(|problem| problem.path.join(".")).collect();
    keys.sort();
    assert_eq!(keys, ["event", "kinds", "partitions", "seed"]);
}

#[test]
fn a_split_of_other_partitions_is_refused() {
    let source = source(json!({ "partitions": 2 }));
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "events");
    let split = tidegate_api::Split { id: SplitId::new("2"), details: Vec::new(), position: Some(Position::number(0)) };
    let error = source.open(SourceCtx::new(run).with_start(vec![split])).err().unwrap();
    assert!(error.to_string().contains("partitions"), "{error}");
}

#[test]
fn the_schema_lists_the_columns_in_order() {
    assert_eq!(source(json!({})).plan(&SourceRequest::all()).unwrap().schema, schema());
    let some = SourceRequest::all().with_columns(Some(vec!["price".into(), "auction".into()]));
    let plan = source(json!({})).plan(&some).unwrap();
    assert_eq!(plan.schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["auction", "price"]);
}
