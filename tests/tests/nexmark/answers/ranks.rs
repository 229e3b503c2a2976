//! Queries that keep some bids of each group.

use super::Answer;
use crate::events::{Bid, Events};
use crate::rows::{Cell, Row, row};
use std::collections::{BTreeMap, BTreeSet};

/// The latest bid of each bidder on each auction. Updates: what counts is the table when all events have been seen.
pub(crate) fn q18(events: &Events) -> Answer {
    // In the order of time, so the last to come is the latest.
    let latest: BTreeMap<(i64, i64), &Bid> = events.bids.iter().map(|bid| ((bid.bidder, bid.auction), bid)).collect();
    let rows = latest.values().map(|bid| row![bid.auction, bid.bidder, bid.price, &bid.channel, &bid.url, bid.time]);
    Answer::upsert(&["auction", "bidder", "price", "channel", "url", "dateTime"], &["bidder", "auction"], rows.collect())
}

/// The ten highest bids on each auction, ranked from 1: auction, rank and price. Updates, as q18. Which of equal bids is the higher is
/// not said by the query, so what else a row holds may be that of any bid of its price: [`is_of_bids`] looks at that.
pub(crate) fn q19(events: &Events) -> Answer {
    let mut by_auction: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    events.bids.iter().for_each(|bid| by_auction.entry(bid.auction).or_default().push(bid.price));
    let mut rows = Vec::new();
    for (auction, prices) in &mut by_auction {
        prices.sort_unstable_by(|a, b| b.cmp(a));
        rows.extend((1..).zip(prices.iter().take(10)).map(|(rank, price)| row![*auction, rank, *price]));
    }
    Answer::upsert(&["auction", "rank", "bidder", "price", "channel", "url", "dateTime"], &["auction", "rank"], rows)
}

/// Whether every row of q19 is a bid, and none is the same bid as another.
pub(crate) fn is_of_bids(ranked: &[Row], events: &Events) -> bool {
    // The time, behind everything else, tells bids apart.
    let by_time: BTreeMap<i64, &Bid> = events.bids.iter().map(|bid| (bid.time, bid)).collect();
    let mut seen = BTreeSet::new();
    ranked.iter().all(|row| {
        let Some(Cell::Int(time)) = row.last() else { return false };
        let Some(bid) = by_time.get(time) else { return false };
        let expected = row![bid.auction, bid.bidder, bid.price, &bid.channel, &bid.url, bid.time];
        seen.insert(*time) && [&row[..1], &row[2..]].concat() == expected
    })
}
