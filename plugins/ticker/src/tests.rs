use crate::{Ticker, ticks};
use tidegate_sdk::arrow::array::{cast::AsArray, types::Int64Type, types::TimestampMillisecondType};
use tidegate_sdk::testing::SourceHarness;
use tidegate_sdk::{Error, Split};

/// (split, seq, ts, value) of every tick, read with polls of `max_rows` rows, in order of seq.
fn read_all(config: &str, max_rows: u32) -> Vec<(i64, i64, i64, i64)> {
    let source = SourceHarness::<Ticker>::bind(config, None).unwrap();
    let mut all = Vec::new();
    for read in source.read(source.splits().unwrap(), max_rows, usize::MAX).unwrap().into_values() {
        assert!(read.finished);
        let numbers = |column: usize| read.rows.column(column).as_primitive::<Int64Type>().values().to_vec();
        let times = read.rows.column(2).as_primitive::<TimestampMillisecondType>().values().to_vec();
        let (splits, seqs, values) = (numbers(0), numbers(1), numbers(3));
        assert!(seqs.is_sorted(), "a split is in order");
        all.extend((0..seqs.len()).map(|row| (splits[row], seqs[row], times[row], values[row])));
    }
    all.sort_by_key(|tick| tick.1);
    all
}

#[test]
fn any_number_of_splits_and_any_poll_gives_the_same_ticks() {
    let expected: Vec<(i64, i64, i64)> = (0..23).map(|seq| (seq, 1000 + seq * 10, ticks::value(seq as u64))).collect();
    for splits in [1, 2, 5, 23, 40] {
        let config = format!(r#"{{"rows": 23, "splits": {splits}, "intervalMs": 10, "startMs": 1000}}"#);
        for max_rows in [1, 7, 1000] {
            let all = read_all(&config, max_rows);
            assert!(all.iter().all(|tick| tick.0 == tick.1 % splits));
            let same: Vec<_> = all.into_iter().map(|(_, seq, ts, value)| (seq, ts, value)).collect();
            assert_eq!(same, expected, "{splits} splits, polls of {max_rows}");
        }
    }
}

#[test]
fn every_position_gives_the_rest() {
    for splits in [1, 3] {
        let config = format!(r#"{{"rows": 50, "splits": {splits}}}"#);
        SourceHarness::<Ticker>::bind(&config, None).unwrap().assert_replays(4).unwrap();
    }
}

#[test]
fn the_watermark_is_the_time_of_the_next_tick() {
    let source = SourceHarness::<Ticker>::bind(r#"{"rows": 6, "splits": 2, "intervalMs": 5, "startMs": -7}"#, None).unwrap();
    let reads = source.read(source.splits().unwrap(), 4, 4).unwrap();
    assert_eq!(reads["0-of-2"].watermark_us, Some((-7 + 4 * 5) * 1000));
    assert_eq!(reads["1-of-2"].watermark_us, Some((-7 + 5 * 5) * 1000));
}

#[test]
fn no_split_starves() {
    let source = SourceHarness::<Ticker>::bind(r#"{"splits": 4}"#, None).unwrap();
    assert!(!source.bounded());
    let reads = source.read(source.splits().unwrap(), 6, 60).unwrap();
    for (split, read) in &reads {
        assert!((10..=20).contains(&read.rows.num_rows()), "{split} has {} rows", read.rows.num_rows());
    }
}

#[test]
fn only_wanted_columns_are_made() {
    let source = SourceHarness::<Ticker>::bind(r#"{"rows": 3}"#, Some(&["value", "seq"])).unwrap();
    assert!(source.bounded());
    let names: Vec<_> = source.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["seq", "value"]);
    let reads = source.read(source.splits().unwrap(), 10, usize::MAX).unwrap();
    assert_eq!(reads["0-of-1"].rows.num_columns(), 2);
    let none = SourceHarness::<Ticker>::bind(r#"{"rows": 3}"#, Some(&[])).unwrap();
    assert_eq!(none.read(none.splits().unwrap(), 10, usize::MAX).unwrap()["0-of-1"].rows.num_rows(), 3);
}

#[test]
fn an_empty_input_is_an_end() {
    assert!(read_all(r#"{"rows": 0, "splits": 3}"#, 10).is_empty());
}

#[test]
fn mistakes_are_named() {
    let mistake = |config| SourceHarness::<Ticker>::bind(config, None).err().unwrap().to_string();
    assert_eq!(mistake(r#"{"splits": 0}"#), "`splits` is 0; 1 to 1024 are possible");
    assert_eq!(mistake(r#"{"intervalMs": -1}"#), "`intervalMs` is -1; time does not run backwards");
    assert_eq!(mistake(r#"{"row": 1}"#), "unknown key `row`, did you mean `rows`?");
}

#[test]
fn positions_and_splits_of_another_layout_are_refused() {
    let source = SourceHarness::<Ticker>::bind(r#"{"splits": 2}"#, None).unwrap();
    let read = |id: &str, position: Option<&[u8]>| {
        let split = Split { id: id.into(), details: Vec::new(), position: position.map(<[u8]>::to_vec) };
        source.read(vec![split], 1, 1).err()
    };
    assert!(matches!(read("0-of-3", None), Some(Error::Config(message)) if message.contains("`splits` is 2")));
    assert!(matches!(read("zero", None), Some(Error::Fatal(_))));
    assert!(matches!(read("0-of-2", Some(b"3")), Some(Error::Fatal(_))), "an odd tick is not of split 0");
    assert!(matches!(read("0-of-2", Some(b"\xff")), Some(Error::Fatal(_))));
}
