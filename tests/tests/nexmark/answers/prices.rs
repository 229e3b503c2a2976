//! Queries about the prices that auctions end with.

use super::Answer;
use crate::events::{Auction, Bid, Events};
use crate::rows::{Row, row};
use std::collections::BTreeMap;

const MINUTE: i64 = 60_000;

/// Bids that count, each with its auction: made while it runs, its first and its last moment included. The queries ask for the two
/// at most two minutes apart as well; no auction runs that long, so that this bound changes nothing.
fn valid(events: &Events) -> impl Iterator<Item = (&Bid, &Auction)> {
    events.bids.iter().filter_map(|bid| {
        let auction = events.auction(bid.auction)?;
        assert!(auction.expires - auction.time <= 2 * MINUTE, "no auction is longer than the bound");
        (auction.time..=auction.expires).contains(&bid.time).then_some((bid, auction))
    })
}

/// The bid that wins each auction, by auction: the highest, of equal ones the earliest.
fn winners(events: &Events) -> BTreeMap<i64, (&Bid, &Auction)> {
    let mut winners: BTreeMap<i64, (&Bid, &Auction)> = BTreeMap::new();
    // In the order of time, so that a later bid wins only by a higher price.
    for (bid, auction) in valid(events) {
        let best = winners.entry(auction.id).or_insert((bid, auction));
        if bid.price > best.0.price {
            *best = (bid, auction);
        }
    }
    winners
}

/// In windows of two minutes of the bids' time, aligned to 1970: by category, the average of the highest bids on each auction within
/// the window. An auction that runs across a window's end counts in both, with what was bid in each.
pub(crate) fn q4(events: &Events) -> Answer {
    let mut highest: BTreeMap<(i64, i64, i64), i64> = BTreeMap::new();
    for (bid, auction) in valid(events) {
        let window = bid.time.div_euclid(2 * MINUTE) * 2 * MINUTE;
        let price = highest.entry((window, auction.category, auction.id)).or_insert(bid.price);
        *price = bid.price.max(*price);
    }
    let mut by_category: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
    for ((window, category, _), price) in highest {
        by_category.entry((window, category)).or_default().push(price);
    }
    let rows = by_category.into_iter().map(|((window, category), prices)| row![window, window + 2 * MINUTE, category, average(&prices)]);
    Answer::append(&["windowStart", "windowEnd", "category", "avgPrice"], rows.collect())
}

fn average(prices: &[i64]) -> f64 {
    prices.iter().sum::<i64>() as f64 / prices.len() as f64
}

/// By seller, the average winning price of the ten auctions whose winning bids are the latest. Updates: what counts is the table
/// when all events have been seen.
pub(crate) fn q6(events: &Events) -> Answer {
    let mut by_seller: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for (bid, auction) in winners(events).into_values() {
        by_seller.entry(auction.seller).or_default().push((bid.time, bid.price));
    }
    let rows = by_seller.into_iter().map(|(seller, mut sold)| {
        sold.sort_unstable();
        let last: Vec<i64> = sold.iter().rev().take(10).map(|(_, price)| *price).collect();
        row![seller, average(&last)]
    });
    Answer::upsert(&["seller", "avgPrice"], &["seller"], rows.collect())
}

/// The winning bid of each auction, beside the auction; its rank is 1. Updates, as q6.
pub(crate) fn q9(events: &Events) -> Answer {
    let rows = winners(events).into_values().map(|(bid, auction)| -> Row {
        let mut row = row![bid.auction, 1, bid.bidder, bid.price, bid.time];
        row.extend(row![auction.category, auction.expires, auction.seller, auction.time]);
        row
    });
    let columns = &["auction", "rank", "bidder", "price", "dateTime", "category", "expires", "seller", "aTime"];
    Answer::upsert(columns, &["auction", "rank"], rows.collect())
}
