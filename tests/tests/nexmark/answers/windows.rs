//! Queries over windows and sessions. Windows hold their start and not their end, and are aligned to 1970.

use super::Answer;
use crate::events::{Bid, Events};
use crate::gate::Positions;
use crate::host::{SPLITS, WALL};
use crate::rows::{Cell, Row, row};
use std::collections::{BTreeMap, BTreeSet};

const SECOND: i64 = 1000;
const DAY: i64 = 86_400 * SECOND;

fn start(time: i64, length: i64) -> i64 {
    time.div_euclid(length) * length
}

/// How many bids each auction got in each window of ten seconds.
pub(crate) fn tumble(events: &Events) -> Answer {
    let mut counts: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    events.bids.iter().for_each(|bid| *counts.entry((start(bid.time, 10 * SECOND), bid.auction)).or_default() += 1);
    let rows = counts.into_iter().map(|((window, auction), bids)| row![window, window + 10 * SECOND, auction, bids]);
    Answer::append(&["windowStart", "windowEnd", "auction", "num"], rows.collect())
}

/// The auction with the most bids in each window of ten seconds that begins at an even second, of equal ones that of the least id.
/// Windows without bids have no row.
pub(crate) fn q5(events: &Events) -> Answer {
    let mut windows: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    for bid in &events.bids {
        let last = start(bid.time, 2 * SECOND);
        for window in (0..5).map(|back| last - back * 2 * SECOND) {
            *windows.entry(window).or_default().entry(bid.auction).or_default() += 1;
        }
    }
    let rows = windows.into_iter().map(|(window, counts)| {
        let (auction, bids) = counts.into_iter().max_by_key(|(auction, bids)| (*bids, std::cmp::Reverse(*auction))).unwrap();
        row![window, window + 10 * SECOND, 1, auction, bids]
    });
    Answer::append(&["windowStart", "windowEnd", "rank", "auction", "bids"], rows.collect())
}

/// The bids of the highest price in each window of ten seconds, all of them if there are several, each with its window and the
/// window's last millisecond.
pub(crate) fn q7(events: &Events) -> Answer {
    let mut highest: BTreeMap<i64, i64> = BTreeMap::new();
    for bid in &events.bids {
        let price = highest.entry(start(bid.time, 10 * SECOND)).or_insert(bid.price);
        *price = bid.price.max(*price);
    }
    let rows = events.bids.iter().filter_map(|bid| {
        let window = start(bid.time, 10 * SECOND);
        let end = window + 10 * SECOND;
        (highest[&window] == bid.price).then(|| row![bid.auction, bid.bidder, bid.price, bid.time, window, end, end - 1])
    });
    Answer::append(&["auction", "bidder", "price", "dateTime", "windowStart", "windowEnd", "closes"], rows.collect())
}

/// How many bids each bidder makes in each session: bids of which each comes at most ten seconds after the one before, exactly ten
/// included. A session begins with its first bid and ends ten seconds after its last.
pub(crate) fn q11(events: &Events) -> Answer {
    let mut open: BTreeMap<i64, (i64, i64, i64)> = BTreeMap::new();
    let mut rows = Vec::new();
    let closed = |bidder: i64, (first, last, bids): (i64, i64, i64)| row![first, last + 10 * SECOND, bidder, bids];
    for bid in &events.bids {
        let session = open.entry(bid.bidder).or_insert((bid.time, bid.time, 0));
        if bid.time - session.1 > 10 * SECOND {
            rows.push(closed(bid.bidder, *session));
            *session = (bid.time, bid.time, 0);
        }
        (session.1, session.2) = (bid.time, session.2 + 1);
    }
    rows.extend(open.into_iter().map(|(bidder, session)| closed(bidder, session)));
    Answer::append(&["windowStart", "windowEnd", "bidder", "bids"], rows)
}

/// How many bids each bidder makes in each window of ten seconds of the clock at which they are taken. `walls` are the moves of that
/// clock: where each split was read up to, and to what the clock was put.
pub(crate) fn q12(events: &Events, walls: &[(Positions, i64)]) -> Answer {
    let mut counts: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for bid in &events.bids {
        let number = ((bid.time - events.source.start_ms) / events.source.step_ms) as u64;
        // Fifty events by fifty, the splits take turns.
        let split = (number / 50 % SPLITS).to_string();
        let moved = walls.iter().rev().find(|(read, _)| read.iter().any(|(id, next)| id.as_str() == split && *next <= number));
        let wall = moved.map_or(WALL, |(_, wall)| *wall);
        *counts.entry((start(wall, 10 * SECOND), bid.bidder)).or_default() += 1;
    }
    let rows = counts.into_iter().map(|((window, bidder), bids)| row![window, window + 10 * SECOND, bidder, bids]);
    Answer::append(&["windowStart", "windowEnd", "bidder", "bids"], rows.collect())
}

/// Of a day (UTC): bids, different bidders and different auctions, all together and of three ranges of price: below 10,000, below a
/// million, and above.
fn totals<'a>(bids: impl Iterator<Item = &'a Bid> + Clone) -> Row {
    let mut row = Row::new();
    let ranges: [fn(i64) -> bool; 4] =
        [|_| true, |price| price < 10_000, |price| (10_000..1_000_000).contains(&price), |price| price >= 1_000_000];
    let within = |range: fn(i64) -> bool| bids.clone().filter(move |bid| range(bid.price));
    row.extend(ranges.map(|range| Cell::from(within(range).count() as i64)));
    row.extend(ranges.map(|range| Cell::from(within(range).map(|bid| bid.bidder).collect::<BTreeSet<_>>().len() as i64)));
    row.extend(ranges.map(|range| Cell::from(within(range).map(|bid| bid.auction).collect::<BTreeSet<_>>().len() as i64)));
    row
}

/// The bids of each group and day.
fn by_day<K: Ord>(events: &Events, group: impl Fn(&Bid) -> K) -> BTreeMap<(i64, K), Vec<&Bid>> {
    let mut days: BTreeMap<(i64, K), Vec<&Bid>> = BTreeMap::new();
    events.bids.iter().for_each(|bid| days.entry((start(bid.time, DAY), group(bid))).or_default().push(bid));
    days
}

/// The totals of each day.
pub(crate) fn q15(events: &Events) -> Answer {
    let days = by_day(events, |_| ()).into_iter();
    let rows = days.map(|((day, ()), bids)| [row![day, day + DAY], totals(bids.iter().copied())].concat());
    Answer::append(
        &[
            "windowStart",
            "windowEnd",
            "totalBids",
            "rank1Bids",
            "rank2Bids",
            "rank3Bids",
            "bidders",
            "rank1Bidders",
            "rank2Bidders",
            "rank3Bidders",
            "auctions",
            "rank1Auctions",
            "rank2Auctions",
            "rank3Auctions",
        ],
        rows.collect(),
    )
}

/// The totals of each day and channel.
pub(crate) fn q16(events: &Events) -> Answer {
    let days = by_day(events, |bid| bid.channel.clone()).into_iter();
    let rows = days.map(|((day, channel), bids)| [row![day, day + DAY, &channel], totals(bids.iter().copied())].concat());
    Answer::append(
        &[
            "windowStart",
            "windowEnd",
            "channel",
            "totalBids",
            "rank1Bids",
            "rank2Bids",
            "rank3Bids",
            "bidders",
            "rank1Bidders",
            "rank2Bidders",
            "rank3Bidders",
            "auctions",
            "rank1Auctions",
            "rank2Auctions",
            "rank3Auctions",
        ],
        rows.collect(),
    )
}

/// Of each day and auction: bids, all and of the three ranges of price, and the lowest, highest, average and total price.
pub(crate) fn q17(events: &Events) -> Answer {
    let days = by_day(events, |bid| bid.auction).into_iter();
    let rows = days.map(|((day, auction), bids)| {
        let prices: Vec<i64> = bids.iter().map(|bid| bid.price).collect();
        let sum = prices.iter().sum::<i64>();
        let mut row = row![day, day + DAY, auction];
        row.extend(totals(bids.iter().copied()).into_iter().take(4));
        row.extend(row![*prices.iter().min().unwrap(), *prices.iter().max().unwrap(), sum as f64 / prices.len() as f64, sum]);
        row
    });
    Answer::append(
        &[
            "windowStart",
            "windowEnd",
            "auction",
            "totalBids",
            "rank1Bids",
            "rank2Bids",
            "rank3Bids",
            "minPrice",
            "maxPrice",
            "avgPrice",
            "sumPrice",
        ],
        rows.collect(),
    )
}
