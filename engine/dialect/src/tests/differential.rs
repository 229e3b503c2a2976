//! Random well-typed expressions over random batches: the compiled form must agree with the reference evaluator in every
//! value, bit for bit, and in which rows are bad. Would catch any kernel, of ours, of Arrow's or of DataFusion's, that answers
//! an awkward value in another way than the manual says.

use super::{NOW, assert_same, batch};
use crate::bind;
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use arrow::compute::{filter, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use std::sync::Arc;

const DEFAULT_CASES: u64 = 4_000;
const DEFAULT_SEED: u64 = 20_260_131;
const ROWS: usize = 150;

#[test]
fn random_expressions_mean_the_same_to_both_evaluators() {
    let setting = |name: &str, default: u64| std::env::var(name).ok().map_or(default, |text| text.parse().unwrap());
    let (cases, seed) = (setting("TIDEGATE_DIALECT_CASES", DEFAULT_CASES), setting("TIDEGATE_DIALECT_SEED", DEFAULT_SEED));
    println!("TIDEGATE_DIALECT_SEED={seed} TIDEGATE_DIALECT_CASES={cases}");
    let mut refused = 0;
    let mut batches: Vec<RecordBatch> = Vec::new();
    for case in 0..cases {
        let mut random = Random(seed.wrapping_add(case).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if case % 500 == 0 {
            batches = (0..3).map(|at| random_batch(&mut random, [ROWS, 7, 1][at])).collect();
        }
        let depth = 1 + random.below(4);
        let text = match random.below(4) {
            0 => random.bool(depth),
            1 => random.number(depth),
            2 => random.text(depth),
            _ => random.time(depth),
        };
        let rows = &batches[random.below(3)];
        match bind(&text, &rows.schema()) {
            Ok(typed) => check(&typed.compile(), rows, &format!("case {case} of seed {seed}: {text}")),
            Err(mistake) => {
                // The generator knows classes of types, not every rule; what it may get wrong is listed here.
                let known = [
                    "always fails",
                    "in common",
                    "decimals",
                    "64 bits",
                    "cannot be compared",
                    "is an integer, not",
                    "does not take",
                    "after `in`",
                ];
                assert!(known.iter().any(|known| mistake.message.contains(known)), "{}", mistake.render(&text));
                refused += 1;
            }
        }
    }
    assert!(refused * 3 < cases.max(100), "{refused} of {cases} expressions were refused: the generator is off");
}

fn check(compiled: &crate::Compiled, rows: &RecordBatch, what: &str) {
    let (values, bad) = compiled.by_row(rows, NOW);
    let found = compiled.evaluate(rows, NOW);
    assert_same(&found.values, &values, what);
    assert_eq!(found.bad, bad, "{what}");
    // The rows that are not bad must pass the kernels, or the fast path would be slow for no reason.
    let mut good = vec![true; rows.num_rows()];
    bad.iter().for_each(|(row, _)| good[*row] = false);
    let good = BooleanArray::from(good);
    let rest = filter_record_batch(rows, &good).unwrap();
    let fast = compiled.fast(&rest, NOW).unwrap_or_else(|| panic!("the fast path gave up without a bad row: {what}"));
    assert_same(&fast, &filter(&values, &good).unwrap(), what);
    if !bad.is_empty() {
        assert!(compiled.fast(rows, NOW).is_none(), "the fast path did not see a bad row: {what}");
    }
}

/// SplitMix64: small, seeded, the same on every machine.
struct Random(u64);

const WORDS: [&str; 12] =
    ["", "a", "bid", "Größe", "ÄÖÜß", " trim me ", "12", "-7.5", "x/y/z", "long enough to leave the inline view", "İ", "😀a😀"];

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.below(6) == 0 { None } else { Some(value(self)) }
    }

    fn integer(&mut self) -> i64 {
        match self.below(8) {
            0 => self.pick(&[i64::MIN, i64::MAX, i64::MIN + 1, -1, 0, 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1]),
            1 => self.next() as i64,
            2 => (self.next() as i64) >> 32,
            _ => self.below(40) as i64 - 15,
        }
    }

    fn float(&mut self) -> f64 {
        match self.below(6) {
            0 => self.pick(&[f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324]),
            1 => f64::from_bits(self.next()),
            2 => self.integer() as f64,
            _ => (self.below(4_000) as f64 - 2_000.0) / 8.0,
        }
    }

    fn decimal(&mut self, digits: u32) -> i128 {
        let most = 10_i128.pow(digits) - 1;
        match self.below(5) {
            0 => self.pick(&[most, -most, 0, 1, -1]),
            1 => (i128::from(self.next()) << 60) % most,
            _ => i128::from(self.below(100_000) as i64 - 50_000),
        }
    }

    fn ticks(&mut self) -> i64 {
        match self.below(6) {
            0 => self.pick(&[i64::MIN, i64::MAX, -1, 0, 86_399_999]),
            1 => self.next() as i64 >> 12,
            _ => 1_700_000_000_000 + (self.next() as i64 >> 30),
        }
    }

    // What follows writes expressions, each of a class of types, at most `depth` levels deep.

    fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&["b", "b2", "true", "false", "b"]).to_string();
        }
        let below = depth - 1;
        match self.below(15) {
            0 | 1 => format!("({} && {})", self.bool(below), self.bool(below)),
            2 => format!("({} || {})", self.bool(below), self.bool(below)),
            3 => format!("!{}", self.bool(0)),
            4 => format!("({} ? {} : {})", self.bool(below), self.bool(below), self.bool(below)),
            5 => format!("({} {} {})", self.text(below), self.comparison(), self.text(below)),
            6 => format!("({} {} {})", self.time(below), self.comparison(), self.time(below)),
            7 => format!("({} {} null)", self.any(below), self.pick(&["==", "!="])),
            8 => format!("isNull({})", self.any(below)),
            9 => {
                let (items, value) = ((0..1 + self.below(4)).map(|_| self.number(0)).collect::<Vec<_>>(), self.number(below));
                format!("({value} in [{}])", items.join(", "))
            }
            10 => {
                let items = (0..1 + self.below(4)).map(|_| self.quoted()).collect::<Vec<_>>();
                format!("({} in [{}])", self.text(below), items.join(", "))
            }
            11 => {
                let (name, text) = (self.pick(&["contains", "startsWith", "endsWith"]), self.text(below));
                format!("{name}({text}, {})", self.text(0))
            }
            12 => format!("regexMatch({}, r'{}')", self.text(below), self.pick(&[r"\d+", "^[a-z]+$", "ß|x", ""])),
            13 => format!("({} == {})", self.bool(below), self.bool(below)),
            _ => format!("({} {} {})", self.number(below), self.comparison(), self.number(below)),
        }
    }

    fn comparison(&mut self) -> &'static str {
        self.pick(&["==", "!=", "<", "<=", ">", ">="])
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 => self.number_literal(),
                _ => self
                    .pick(&["i", "i2", "i8", "i16", "i32", "u8", "u32", "u64", "f", "f2", "f32", "d", "e", "st.a", "l[1]", "l[i8]", "z"])
                    .to_string(),
            };
        }
        let below = depth - 1;
        match self.below(20) {
            0..=7 => format!("({} {} {})", self.number(below), self.pick(&["+", "-", "*", "/", "%"]), self.number(below)),
            8 => format!("-{}", self.number(0)),
            9 => format!("({} ? {} : {})", self.bool(below), self.number(below), self.number(below)),
            10 => format!("({} ?? {})", self.number(below), self.number(below)),
            11 => format!("coalesce({}, {}, {})", self.number(below), self.number(below), self.number(below)),
            12 => format!("{}({})", self.pick(&["abs", "floor", "ceil", "round", "toInt", "toNumber"]), self.number(below)),
            13 => format!("round({}, {})", self.number(below), self.below(8)),
            14 => format!("div({}, {})", self.whole(), self.whole()),
            15 => format!("({} - {})", self.time(below), self.time(below)),
            16 => {
                let name =
                    self.pick(&["year", "month", "day", "hourOf", "minute", "second", "dayOfWeek", "dayOfYear", "toInt", "toNumber"]);
                format!("{name}({})", self.time(below))
            }
            17 => format!("{}({})", self.pick(&["toNumber", "toInt", "length"]), self.text(below)),
            18 => format!("(l ?? l)[{}]", self.whole()),
            _ => format!("({} % {})", self.whole(), self.pick(&["123", "1", "-1", "2", "10", "-7", "9223372036854775807"])),
        }
    }

    fn whole(&mut self) -> &'static str {
        self.pick(&["i", "i2", "i8", "i16", "i32", "u8", "u32", "u64", "3", "-2", "0", "1"])
    }

    fn number_literal(&mut self) -> String {
        match self.below(4) {
            0 => format!("({:?})", self.pick(&[0.5, -1.25, 0.0, -0.0, 1e300, 3.0, 9007199254740992.0])),
            1 => self.pick(&["1.50m", "(-0.001m)", "100m", "99999999999999999999.5m"]).to_string(),
            _ => match self.integer() {
                value if value < 0 => format!("({value})"),
                value => value.to_string(),
            },
        }
    }

    fn quoted(&mut self) -> String {
        format!("'{}'", self.pick(&WORDS))
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 => self.quoted(),
                _ => self.pick(&["s", "s2", "s3", "st.s", "dict"]).to_string(),
            };
        }
        let below = depth - 1;
        match self.below(14) {
            0 | 1 => format!("{}({})", self.pick(&["lower", "upper", "trim"]), self.text(below)),
            2 => format!("substring({}, {}, {})", self.text(below), self.whole(), self.whole()),
            3 => format!("substring({}, {})", self.text(below), self.whole()),
            4 => format!("splitPart({}, {}, {})", self.text(below), self.pick(&["'/'", "''", "s2", "' '"]), self.whole()),
            5 => format!("concat({}, {})", self.text(below), self.any_with_text(below)),
            6 => format!("({} + {})", self.text(below), self.text(below)),
            7 => format!("replace({}, {}, {})", self.text(below), self.text(0), self.text(0)),
            8 => format!("toString({})", self.any_with_text(below)),
            9 => format!("epochToIso({})", self.time(below)),
            10 => format!("({} ? {} : {})", self.bool(below), self.text(below), self.text(below)),
            11 => format!("({} ?? {})", self.text(below), self.text(below)),
            12 => format!("regexExtract({}, r'{}')", self.text(below), self.pick(&[r"(\d)\d", "[a-z]+", "(x)|(y)", "ß"])),
            _ => format!("(({}) ? {} : null)", self.bool(below), self.text(below)),
        }
    }

    fn time(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .pick(&[
                    "t",
                    "t2",
                    "ts",
                    "tu",
                    "tn",
                    "tz",
                    "day",
                    "now()",
                    "ts'2024-02-29T12:34:56.789Z'",
                    "ts'1969-12-31T23:59:59.999999Z'",
                ])
                .to_string();
        }
        let below = depth - 1;
        match self.below(7) {
            0 | 1 => {
                format!("({} {} {})", self.time(below), self.pick(&["+", "-"]), self.pick(&["i", "i8", "u32", "1", "dur'1h30m'", "u64"]))
            }
            2 => format!("({} ? {} : {})", self.bool(below), self.time(below), self.time(below)),
            3 => format!("({} ?? {})", self.time(below), self.time(below)),
            4 | 5 => {
                let unit = self.pick(&["millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]);
                format!("dateTrunc('{unit}', {})", self.time(below))
            }
            _ => self.time(0),
        }
    }

    fn any(&mut self, depth: usize) -> String {
        match self.below(6) {
            0 => self.pick(&["bin", "l", "st", "z", "null"]).to_string(),
            _ => self.any_with_text(depth),
        }
    }

    fn any_with_text(&mut self, depth: usize) -> String {
        match self.below(4) {
            0 => self.bool(depth),
            1 => self.number(depth),
            2 => self.text(depth),
            _ => self.time(depth),
        }
    }
}

fn random_batch(random: &mut Random, rows: usize) -> RecordBatch {
    macro_rules! column {
        ($array:ty, $value:expr) => {{
            let values: Vec<Option<_>> = (0..rows).map(|_| random.maybe($value)).collect();
            values.into_iter().collect::<$array>()
        }};
    }
    let words = |random: &mut Random| random.pick(&WORDS);
    let structs = StructArray::new(
        vec![Field::new("a", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)].into(),
        vec![Arc::new(column!(Int64Array, Random::integer)) as ArrayRef, Arc::new(column!(StringViewArray, words))],
        Some((0..rows).map(|row| row % 5 != 3).collect::<Vec<bool>>().into()),
    );
    let lists: Vec<Option<Vec<Option<i64>>>> =
        (0..rows).map(|_| random.maybe(|random| (0..random.below(4)).map(|_| random.maybe(Random::integer)).collect())).collect();
    let dictionary: DictionaryArray<Int32Type> = (0..rows).map(|_| random.maybe(words)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(column!(BooleanArray, |random: &mut Random| random.below(2) == 0))),
        ("b2", Arc::new(BooleanArray::from((0..rows).map(|_| random.below(10) > 0).collect::<Vec<_>>()))),
        ("i", Arc::new(column!(Int64Array, Random::integer))),
        ("i2", Arc::new(Int64Array::from((0..rows).map(|_| random.below(20) as i64).collect::<Vec<_>>()))),
        ("i8", Arc::new(column!(Int8Array, |random: &mut Random| random.next() as i8))),
        ("i16", Arc::new(column!(Int16Array, |random: &mut Random| random.next() as i16))),
        ("i32", Arc::new(column!(Int32Array, |random: &mut Random| random.next() as i32))),
        ("u8", Arc::new(column!(UInt8Array, |random: &mut Random| random.next() as u8))),
        ("u32", Arc::new(column!(UInt32Array, |random: &mut Random| random.next() as u32))),
        ("u64", Arc::new(column!(UInt64Array, |random: &mut Random| random.integer() as u64))),
        ("f", Arc::new(column!(Float64Array, Random::float))),
        ("f2", Arc::new(column!(Float64Array, |random: &mut Random| random.below(20) as f64))),
        ("f32", Arc::new(column!(Float32Array, |random: &mut Random| random.float() as f32))),
        ("d", Arc::new(column!(Decimal128Array, |random: &mut Random| random.decimal(10)).with_precision_and_scale(10, 2).unwrap())),
        ("e", Arc::new(column!(Decimal128Array, |random: &mut Random| random.decimal(38)).with_precision_and_scale(38, 10).unwrap())),
        ("s", Arc::new(column!(StringViewArray, words))),
        ("s2", Arc::new(column!(StringViewArray, words))),
        ("s3", Arc::new(column!(StringArray, words))),
        ("dict", Arc::new(dictionary)),
        ("bin", Arc::new(column!(BinaryArray, |random: &mut Random| random.pick(&WORDS).as_bytes()))),
        ("day", Arc::new(column!(Date32Array, |random: &mut Random| (random.next() as i32) >> (random.below(2) * 16)))),
        ("t", Arc::new(column!(TimestampMillisecondArray, Random::ticks))),
        ("t2", Arc::new(column!(TimestampMillisecondArray, Random::ticks))),
        ("ts", Arc::new(column!(TimestampSecondArray, |random: &mut Random| random.ticks() / 1_000))),
        ("tu", Arc::new(column!(TimestampMicrosecondArray, |random: &mut Random| random.ticks().wrapping_mul(1_000)))),
        ("tn", Arc::new(column!(TimestampNanosecondArray, |random: &mut Random| random.ticks().wrapping_mul(1_000_003)))),
        ("tz", Arc::new(column!(TimestampMillisecondArray, Random::ticks).with_timezone("Europe/Berlin"))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
        ("st", Arc::new(structs)),
        ("z", Arc::new(NullArray::new(rows))),
    ];
    debug_assert!(columns.iter().all(|(_, column)| column.len() == rows));
    batch(columns)
}
