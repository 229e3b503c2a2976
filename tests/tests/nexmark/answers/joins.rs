//! Queries that put two kinds of events side by side.

use super::Answer;
use crate::events::Events;
use crate::rows::{Row, row};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;

/// Auctions of category 10 whose seller lives in Oregon, Idaho or California: seller and auction. The query asks for the two at most
/// ten minutes apart, either first, exactly ten included; that a pair were further apart does not happen, so that the bound leaves
/// the standard's meaning as it is.
pub(crate) fn q3(events: &Events) -> Answer {
    let mut rows = Vec::new();
    for auction in events.auctions.iter().filter(|auction| auction.category == 10) {
        let Some(seller) = events.person(auction.seller) else { continue };
        if !["or", "id", "ca"].contains(&seller.state.as_str()) {
            continue;
        }
        assert!((auction.time - seller.time).abs() <= 10 * MINUTE, "no seller is older than the bound");
        rows.push(row![&seller.name, &seller.city, &seller.state, auction.id]);
    }
    Answer::append(&["name", "city", "state", "id"], rows)
}

/// Persons who list an auction at most ten seconds after their arrival, exactly ten included, and not before it; each person once.
pub(crate) fn q8(events: &Events) -> Answer {
    let lists = |id: i64, time: i64| {
        events.auctions.iter().any(|auction| auction.seller == id && (0..=10 * SECOND).contains(&(auction.time - time)))
    };
    let new = events.persons.iter().filter(|person| lists(person.id, person.time));
    Answer::append(&["id", "name", "dateTime"], new.map(|person| row![person.id, &person.name, person.time]).collect())
}

/// Bids beside the auction that they are for, if that is of category 10. The query asks for the two at most two minutes apart, either
/// first, exactly two included; pairs further apart do not happen, so that the bound leaves the standard's meaning as it is.
pub(crate) fn q20(events: &Events) -> Answer {
    const COLUMNS: [&str; 14] = [
        "auction",
        "bidder",
        "price",
        "channel",
        "url",
        "dateTime",
        "itemName",
        "description",
        "initialBid",
        "reserve",
        "listed",
        "expires",
        "seller",
        "category",
    ];
    let mut rows: Vec<Row> = Vec::new();
    for bid in &events.bids {
        let Some(auction) = events.auction(bid.auction).filter(|auction| auction.category == 10) else { continue };
        assert!((auction.time - bid.time).abs() <= 2 * MINUTE, "no auction with bids is older than the bound");
        let mut row = row![bid.auction, bid.bidder, bid.price, &bid.channel, &bid.url, bid.time];
        row.extend(row![&auction.item, &auction.description, auction.initial, auction.reserve]);
        row.extend(row![auction.time, auction.expires, auction.seller, auction.category]);
        rows.push(row);
    }
    Answer::append(&COLUMNS, rows)
}
