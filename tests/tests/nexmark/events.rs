//! The events of the generator, read through a pipeline that does nothing but hand over every column.

use crate::host::{Leg, Source, run_text};
use crate::rows::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) city: String,
    pub(crate) state: String,
    pub(crate) time: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Auction {
    pub(crate) id: i64,
    pub(crate) item: String,
    pub(crate) description: String,
    pub(crate) initial: i64,
    pub(crate) reserve: i64,
    pub(crate) expires: i64,
    pub(crate) seller: i64,
    pub(crate) category: i64,
    pub(crate) time: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Bid {
    pub(crate) auction: i64,
    pub(crate) bidder: i64,
    pub(crate) price: i64,
    pub(crate) channel: String,
    pub(crate) url: String,
    pub(crate) time: i64,
    pub(crate) extra: String,
}

/// All of them, each kind in the order of time. No two have the same time.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) source: Source,
    pub(crate) persons: Vec<Person>,
    pub(crate) auctions: Vec<Auction>,
    pub(crate) bids: Vec<Bid>,
}

impl Events {
    /// The events of a source. They are a pure function of it, so tests of one process share them.
    pub(crate) fn of(source: Source) -> Arc<Events> {
        static MADE: Mutex<BTreeMap<Source, Arc<Events>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(made.entry(source).or_insert_with(|| Arc::new(Events::read(source))))
    }

    fn read(source: Source) -> Events {
        let pipeline = format!(
            "name = \"all\"\n[datasets.events]\n{}\n[datasets.out]\nsink = \"blackhole\"\n[[stages]]\ninputs = [\"events\"]\noutput = \"out\"\n",
            source.options()
        );
        let output = run_text(&pipeline, &[Leg::new(1)]);
        let place: BTreeMap<&str, usize> = output.columns.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
        let mut rows = output.rows;
        rows.sort_by_key(|row| int(&row[place["dateTime"]]));
        let mut events = Events { source, persons: Vec::new(), auctions: Vec::new(), bids: Vec::new() };
        for (number, row) in rows.iter().enumerate() {
            let int = |column: &str| int(&row[place[column]]);
            let text = |column: &str| text(&row[place[column]]);
            let time = int("dateTime");
            assert_eq!(time, source.start_ms + number as i64 * source.step_ms, "event {number} has its own time");
            match text("type").as_str() {
                "person" => {
                    events.persons.push(Person { id: int("id"), name: text("name"), city: text("city"), state: text("state"), time })
                }
                "auction" => events.auctions.push(Auction {
                    id: int("id"),
                    item: text("itemName"),
                    description: text("description"),
                    initial: int("initialBid"),
                    reserve: int("reserve"),
                    expires: int("expires"),
                    seller: int("seller"),
                    category: int("category"),
                    time,
                }),
                "bid" => events.bids.push(Bid {
                    auction: int("auction"),
                    bidder: int("bidder"),
                    price: int("price"),
                    channel: text("channel"),
                    url: text("url"),
                    time,
                    extra: text("extra"),
                }),
                other => panic!("`{other}` is no kind of event"),
            }
        }
        events.check(rows.len());
        events
    }

    /// The standard mix of every fifty events, one person, three auctions and 46 bids, and ids that name one thing.
    fn check(&self, all: usize) {
        assert_eq!(all as u64, self.source.events);
        assert_eq!((self.persons.len(), self.auctions.len(), self.bids.len()), (all / 50, all / 50 * 3, all / 50 * 46));
        assert!(self.persons.is_sorted_by(|a, b| a.id < b.id) && self.auctions.is_sorted_by(|a, b| a.id < b.id));
    }

    pub(crate) fn person(&self, id: i64) -> Option<&Person> {
        self.persons.binary_search_by_key(&id, |person| person.id).ok().map(|at| &self.persons[at])
    }

    pub(crate) fn auction(&self, id: i64) -> Option<&Auction> {
        self.auctions.binary_search_by_key(&id, |auction| auction.id).ok().map(|at| &self.auctions[at])
    }
}

fn int(cell: &Cell) -> i64 {
    match cell {
        Cell::Int(value) => *value,
        other => panic!("expected an integer, found {other:?}"),
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(value) => value.clone(),
        other => panic!("expected text, found {other:?}"),
    }
}
