//! A broker that stops, hangs and dies.

use crate::support::{Reading, World, now, range, rows};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_api::{ErrorKind, SplitState};

/// One at a time: they share the endpoint and the data.
static ALONE: Mutex<()> = Mutex::new(());

struct Mortal {
    _alone: MutexGuard<'static, ()>,
    world: World,
    how: Value,
    child: Child,
}

impl Mortal {
    fn start() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let how = std::env::var("TIDEGATE_TEST_KAFKA_MORTAL")
            .expect("set TIDEGATE_TEST_KAFKA_MORTAL={\"endpoint\":…,\"program\":…,\"arguments\":[…],\"log\":…} to a broker that these tests may start and kill");
        let how: Value = serde_json::from_str(&how).expect("TIDEGATE_TEST_KAFKA_MORTAL is JSON");
        let world = World { brokers: how["endpoint"].as_str().unwrap().to_string() };
        let child = spawn(&how);
        let mortal = Mortal { _alone: alone, world, how, child };
        mortal.answers();
        mortal
    }

    fn answers(&self) {
        crate::support::until("a broker that answers", || TcpStream::connect(&self.world.brokers).is_ok());
        let end = now() + Duration::from_secs(60);
        let probe: rdkafka::consumer::BaseConsumer =
            rdkafka::config::ClientConfig::new().set("bootstrap.servers", &self.world.brokers).create().unwrap();
        while rdkafka::consumer::Consumer::fetch_metadata(&probe, None, Duration::from_secs(2)).is_err() {
            assert!(now() < end, "the broker does not answer; see {}", self.how["log"]);
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn again(&mut self) {
        self.child = spawn(&self.how);
        self.answers();
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        // Also one that is frozen ends by this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(how: &Value) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(how["log"].as_str().unwrap()).unwrap();
    let arguments: Vec<&str> = how["arguments"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect();
    Command::new(how["program"].as_str().unwrap())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "needs a broker to kill"]
fn kafka_mortal_a_broker_that_dies_and_comes_back_costs_no_row_and_repeats_none() {
    let mut broker = Mortal::start();
    let topic = broker.world.topic("mortal", 2);
    broker.world.send(&topic, 0, &rows(0..1000));
    broker.world.transact(&topic, 1, &rows(1000..1010), true);
    let group = broker.world.name("mortal-group");
    let mut reading = Reading::all(broker.world.source(&topic, json!({ "groupId": group })).as_ref());
    reading.request.max_rows = 100;
    reading.until("some rows", |taken| taken.values().map(crate::support::Taken::rows).sum::<usize>() >= 100);
    broker.kill();
    // What was fetched ahead is read on; nothing is an error while the broker is away.
    for _ in 0..100 {
        reading.poll().unwrap();
    }
    let positions: Vec<_> = reading.taken.iter().filter_map(|(id, taken)| Some((id.clone(), taken.marks.last()?.1.clone()))).collect();
    let _ = reading.reader.committed(&positions);
    broker.again();
    broker.world.send(&topic, 1, &rows(1010..1020));
    reading.request.max_rows = 8192;
    reading.until("all rows", |taken| taken.values().map(crate::support::Taken::rows).sum::<usize>() >= 1020);
    reading.until_all(SplitState::CaughtUp);
    assert_eq!(reading.numbers(), range(0..1020));
}

#[test]
#[ignore = "needs a broker to kill"]
fn kafka_mortal_a_broker_that_stays_away_is_an_error_and_nothing_waits_for_it() {
    let mut broker = Mortal::start();
    let topic = broker.world.topic("gone", 1);
    broker.world.send(&topic, 0, &rows(0..10));
    let source = broker.world.source(&topic, json!({ "brokerTimeout": "4s" }));
    let mut reading = Reading::all(source.as_ref());
    reading.until_all(SplitState::CaughtUp);
    let position = (reading.taken.keys().next().unwrap().clone(), reading.only().marks[0].1.clone());
    broker.kill();
    // A commit is under way that nobody will answer.
    reading.reader.committed(&[position]).unwrap();
    let error = reading.until_error();
    assert!(matches!(error.kind(), ErrorKind::External { .. }));
    assert!(error.to_string().contains("has been out of reach"), "{error}");
    let begun = now();
    drop((reading, source));
    assert!(begun.elapsed() < Duration::from_secs(10), "closing took {:?}", begun.elapsed());
}

#[test]
#[ignore = "needs a broker to kill"]
fn kafka_mortal_a_broker_that_hangs_is_found_out_and_a_thawed_one_is_read_on() {
    let broker = Mortal::start();
    let topic = broker.world.topic("frozen", 1);
    broker.world.send(&topic, 0, &rows(0..10));
    let options = json!({ "brokerTimeout": "10m", "properties": { "socket.timeout.ms": 2000 } });
    let mut reading = Reading::all(broker.world.source(&topic, options).as_ref());
    reading.until_all(SplitState::CaughtUp);
    broker.signal("-STOP");
    reading.until("doubt", |taken| taken.values().all(|taken| taken.state == Some(SplitState::Pending)));
    // For so long that the controller takes the lead away: the broker comes back with another epoch, and refuses who knows the old one.
    let thaw = now() + Duration::from_secs(6);
    while now() < thaw {
        reading.poll().unwrap();
    }
    broker.signal("-CONT");
    reading.until_all(SplitState::CaughtUp);
    broker.world.send(&topic, 0, &rows(10..20));
    reading.until("the rest", |taken| taken.values().all(|taken| taken.rows() == 20));
    assert_eq!(reading.numbers(), range(0..20));
}
