//! Bids of Nexmark looked up in a table of a database that changes while they come, by the command as it is: what the table says is
//! followed within its refresh, and a killed pipeline that is started again knows nothing of what was deleted meanwhile.
//!
//! The judge is what was written, and when: the bids of a channel, in their order, carry its labels in the order in which they were
//! written, none twice and none missing. SQLite is tested wherever tests run; PostgreSQL by `TIDEGATE_TEST_POSTGRES=URL cargo test -p
//! tidegate-tests --test tables -- --ignored postgres_`.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

mod base;
mod shop;

use base::{Base, Postgres, Sqlite};
use shop::Shop;
use std::time::Duration;
use tidegate_tests::process::pause;

/// How often the table is read.
const REFRESH: Duration = Duration::from_millis(300);
/// What else lies between a change and the file that shows it: an epoch, and a machine with other things to do.
const SLACK: Duration = Duration::from_secs(5);

/// Inserts, updates and deletes under a running pipeline, which is killed once.
fn follow(base: &dyn Base) {
    let shop = Shop::new(base, &format!("refresh = \"{}ms\"", REFRESH.as_millis()));
    base.run(&format!("INSERT INTO {} VALUES ('Google', 'g1'), ('Apple', 'a1'), ('Facebook', 'f1')", base.table()));
    let run = shop.start();
    shop.wait_for("Google", Some("g1"), "the table is not there");
    shop.wait_for("Baidu", None, "a channel without a row matches something");

    for (change, channel, label) in [
        ("UPDATE {} SET label = 'g2' WHERE channel = 'Google'", "Google", Some("g2")),
        ("INSERT INTO {} VALUES ('Baidu', 'b1')", "Baidu", Some("b1")),
        ("DELETE FROM {} WHERE channel = 'Apple'", "Apple", None),
        ("INSERT INTO {} VALUES ('Apple', 'a2')", "Apple", Some("a2")),
        ("DELETE FROM {} WHERE channel = 'Google'; INSERT INTO {} VALUES ('Google', 'g3')", "Google", Some("g3")),
    ] {
        base.run(&change.replace("{}", base.table()));
        let took = shop.wait_for(channel, label, change);
        assert!(took <= REFRESH + SLACK, "{change}: seen after {took:?}");
    }

    // What goes while nobody looks must not be remembered, and what comes must be known to the first bid.
    run.kill();
    base.run(&format!(
        "DELETE FROM {} WHERE channel = 'Facebook'; UPDATE {} SET label = 'b2' WHERE channel = 'Baidu'",
        base.table(),
        base.table()
    ));
    let at = shop.bids();
    let run = shop.start();
    shop.wait_for("Baidu", Some("b2"), "the table is not read anew");
    shop.wait_for("Facebook", None, "a row that was deleted meanwhile is remembered");
    assert!(shop.bids() > at);
    run.stop();
    shop.judge(&[
        ("Google", &[Some("g1"), Some("g2"), Some("g3")]),
        ("Apple", &[Some("a1"), None, Some("a2")]),
        ("Facebook", &[Some("f1"), None]),
        ("Baidu", &[None, Some("b1"), Some("b2")]),
    ]);
}

#[test]
fn a_table_of_sqlite_is_followed_through_changes_and_a_kill() {
    follow(&Sqlite::new());
}

#[test]
#[ignore = "needs PostgreSQL: `cargo xtask services up postgres`, and TIDEGATE_TEST_POSTGRES"]
fn postgres_a_table_is_followed_through_changes_and_a_kill() {
    follow(&Postgres::new());
}

/// Killed again and again at random moments, among them while the table is read.
fn killed_often(base: &dyn Base) {
    let shop = Shop::new(base, "refresh = \"50ms\"");
    base.run(&format!("INSERT INTO {} VALUES ('Google', 'g0'), ('Apple', 'a0')", base.table()));
    let mut labels = vec![Some("g0".to_string())];
    for round in 1..=6u64 {
        let run = shop.start();
        pause(Duration::from_millis(300 + 170 * (round * 5 % 7)));
        run.kill();
        let change = if round % 3 == 0 {
            "DELETE FROM {} WHERE channel = 'Google'"
        } else {
            "INSERT INTO {} VALUES ('Google', 'gN') ON CONFLICT (channel) DO UPDATE SET label = excluded.label"
        };
        base.run(&change.replace("{}", base.table()).replace("gN", &format!("g{round}")));
        labels.push((round % 3 != 0).then(|| format!("g{round}")));
    }
    let run = shop.start();
    shop.wait_for("Google", None, "the last state of the table does not come");
    run.stop();
    // A start that was killed before its first epoch has left no trace, so labels may be missing; none may come back.
    shop.judge_order("Google", &labels.iter().map(Option::as_deref).collect::<Vec<_>>());
    shop.judge_order("Apple", &[Some("a0")]);
}

#[test]
fn a_pipeline_over_sqlite_that_is_killed_often_never_goes_back_to_an_older_table() {
    killed_often(&Sqlite::new());
}

#[test]
#[ignore = "needs PostgreSQL: `cargo xtask services up postgres`, and TIDEGATE_TEST_POSTGRES"]
fn postgres_a_pipeline_that_is_killed_often_never_goes_back_to_an_older_table() {
    killed_often(&Postgres::new());
}

#[test]
fn a_stream_that_ends_ends_the_run_though_its_table_goes_on() {
    let base = Sqlite::new();
    base.run("INSERT INTO channels VALUES ('Google', 'g'), ('Apple', 'a')");
    let shop = Shop::new(&base, "refresh = \"20ms\"").ending(20_000);
    shop.start().succeed();
    assert_eq!(shop.bids(), 18_400);
    shop.judge(&[("Google", &[Some("g")]), ("Apple", &[Some("a")]), ("Baidu", &[None])]);
}

#[test]
fn the_first_bid_meets_the_whole_table_however_late_it_comes() {
    let base = Sqlite::new();
    let aside = base.path().with_extension("aside");
    base.run("INSERT INTO channels VALUES ('Google', 'g')");
    std::fs::rename(base.path(), &aside).unwrap();
    let shop = Shop::new(&base, "").declared().ending(5_000);
    let mut run = shop.start();
    run.wait_for("the table is not there yet").unwrap();
    pause(Duration::from_secs(1));
    assert_eq!(shop.bids(), 0, "a bid was joined with a table that is not there");
    std::fs::rename(&aside, base.path()).unwrap();
    run.succeed();
    shop.judge(&[("Google", &[Some("g")]), ("Apple", &[None])]);
}

#[test]
fn a_database_that_stays_away_costs_restarts_and_no_bid() {
    let base = Sqlite::new();
    let aside = base.path().with_extension("aside");
    base.run("INSERT INTO channels VALUES ('Google', 'g1'), ('Apple', 'a1')");
    let shop = Shop::new(&base, "refresh = \"50ms\"\nmaxStaleness = \"500ms\"");
    let mut run = shop.start();
    shop.wait_for("Google", Some("g1"), "the table is not there");
    std::fs::rename(base.path(), &aside).unwrap();
    run.wait_for("`maxStaleness` is 500ms").unwrap();
    std::fs::rename(&aside, base.path()).unwrap();
    base.run("DELETE FROM channels WHERE channel = 'Apple'; UPDATE channels SET label = 'g2' WHERE channel = 'Google'");
    shop.wait_for("Google", Some("g2"), "it does not come back");
    run.stop();
    shop.judge(&[("Google", &[Some("g1"), Some("g2")]), ("Apple", &[Some("a1"), None])]);
}
