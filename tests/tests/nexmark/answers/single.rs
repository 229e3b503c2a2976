//! Queries that look at one bid at a time.

use super::Answer;
use crate::events::{Bid, Events};
use crate::rows::{Cell, Row, row};
use std::collections::BTreeMap;

/// Every bid as it is.
pub(crate) fn q0(events: &Events) -> Answer {
    let rows = events.bids.iter().map(|bid| row![bid.auction, bid.bidder, bid.price, bid.time]);
    Answer::append(&["auction", "bidder", "price", "dateTime"], rows.collect())
}

/// Dollars to euros: the price times 0.908, as a float.
fn euros(bid: &Bid) -> f64 {
    bid.price as f64 * 0.908
}

/// Every bid, its price in euros.
pub(crate) fn q1(events: &Events) -> Answer {
    let rows = events.bids.iter().map(|bid| row![bid.auction, bid.bidder, euros(bid), bid.time]);
    Answer::append(&["auction", "bidder", "price", "dateTime"], rows.collect())
}

/// The bids on auctions whose id divides by 123.
pub(crate) fn q2(events: &Events) -> Answer {
    let rows = events.bids.iter().filter(|bid| bid.auction % 123 == 0).map(|bid| row![bid.auction, bid.price]);
    Answer::append(&["auction", "price"], rows.collect())
}

/// Every bid with the day and the minute of its time, which name its folder.
pub(crate) fn q10(events: &Events) -> Answer {
    let rows = events.bids.iter().map(|bid| {
        let time = chrono::DateTime::from_timestamp_millis(bid.time).unwrap();
        let (day, minute) = (time.format("%Y-%m-%d").to_string(), time.format("%H:%M").to_string());
        row![bid.auction, bid.bidder, bid.price, bid.time, &bid.extra, &day, &minute]
    });
    Answer::append(&["auction", "bidder", "price", "dateTime", "extra", "dt", "hm"], rows.collect())
}

/// Every bid beside the row of the file for its auction modulo 1000; a bid without such a row is left out.
pub(crate) fn q13(events: &Events) -> Answer {
    let text = std::fs::read_to_string(tidegate_tests::root().join("examples/nexmark/data/side.csv")).unwrap();
    let entries = text.lines().skip(1).map(|line| line.split_once(',').unwrap());
    let side: BTreeMap<i64, &str> = entries.map(|(key, value)| (key.parse().unwrap(), value)).collect();
    let rows = events.bids.iter().filter_map(|bid| {
        let key = bid.auction % 1000;
        Some(row![key, bid.auction, bid.bidder, bid.price, bid.time, *side.get(&key)?])
    });
    Answer::append(&["key", "auction", "bidder", "price", "dateTime", "value"], rows.collect())
}

/// Bids of more than 1,000 and less than 50 million euros. It is day from 8 to before 19 o'clock (UTC), night before 7 and from 20 on,
/// and else neither. `cs` is how many letters `c` the padding has.
pub(crate) fn q14(events: &Events) -> Answer {
    let rows = events.bids.iter().filter(|bid| euros(bid) > 1000.0 && euros(bid) < 50_000_000.0).map(|bid| {
        let when = match bid.time.div_euclid(3_600_000).rem_euclid(24) {
            8..=18 => "dayTime",
            ..=6 | 20.. => "nightTime",
            _ => "otherTime",
        };
        let letters = bid.extra.chars().filter(|letter| *letter == 'c').count();
        row![bid.auction, bid.bidder, euros(bid), when, bid.time, &bid.extra, letters as i64]
    });
    Answer::append(&["auction", "bidder", "price", "bidTimeType", "dateTime", "extra", "cs"], rows.collect())
}

/// Every bid with a number for its channel: of four by their name in any case, of others from their url. Bids whose channel has no
/// number are left out.
pub(crate) fn q21(events: &Events) -> Answer {
    let rows = events.bids.iter().filter_map(|bid| {
        let known = ["apple", "google", "facebook", "baidu"].iter().position(|name| *name == bid.channel.to_lowercase());
        let id = match known {
            Some(number) => number.to_string(),
            None => in_url(&bid.url)?.to_string(),
        };
        Some(row![bid.auction, bid.bidder, bid.price, &bid.channel, &id])
    });
    Answer::append(&["auction", "bidder", "price", "channel", "channelId"], rows.collect())
}

/// What follows `channel_id=`, at the beginning of the url or behind a `&`, up to the next `&`.
fn in_url(url: &str) -> Option<&str> {
    url.split('&').find_map(|part| part.strip_prefix("channel_id="))
}

/// Every bid with the three folders of its url: what stands between its slashes, from the third one on.
pub(crate) fn q22(events: &Events) -> Answer {
    let rows = events.bids.iter().map(|bid| {
        let mut row: Row = row![bid.auction, bid.bidder, bid.price, &bid.channel];
        row.extend(bid.url.split('/').skip(3).take(3).map(Cell::from));
        row
    });
    Answer::append(&["auction", "bidder", "price", "channel", "dir1", "dir2", "dir3"], rows.collect())
}
