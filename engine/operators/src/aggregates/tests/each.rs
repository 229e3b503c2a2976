//! Every further aggregate against plain Rust, over random rows, and by name where it may surprise.

use super::super::definition::Parameters;
use super::{in_every_way, over, same};
use crate::aggregates::{Aggregate, Function};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, ListArray, StringViewArray,
    TimestampMillisecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The result over plain columns, by time where it matters.
fn result(function: Function, column: &ArrayRef, by: Option<&ArrayRef>, times: &[i64], groups: &[u32]) -> ArrayRef {
    let parameters = Parameters { p: Some(0.5), separator: Some("|".into()) };
    let aggregate = Aggregate { by: by.map(|by| by.data_type().clone()), parameters, ..over(function, column.data_type()) };
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(times.to_vec()));
    let times = function.in_order().then_some(&times);
    let made = in_every_way(&aggregate, &aggregate.prepared(column, by, times).unwrap(), groups);
    assert_eq!(Some(made.data_type()), function.result(column.data_type()).as_ref());
    made
}

/// In the order given: all rows of one time.
fn of(function: Function, column: impl Array + 'static, groups: &[u32]) -> ArrayRef {
    result(function, &(Arc::new(column) as ArrayRef), None, &vec![0; groups.len()], groups)
}

fn ints(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<Int64Type>().iter().collect()
}

fn floats(array: &ArrayRef) -> Vec<Option<f64>> {
    array.as_primitive::<Float64Type>().iter().collect()
}

#[test]
fn distinct_values_of_every_kind_are_counted_once_and_nulls_never() {
    let groups = [0, 0, 0, 0, 1, 1, 2];
    for function in [Function::CountDistinct, Function::ApproxCountDistinct] {
        let n = |array: ArrayRef| ints(&result(function, &array, None, &[0; 7], &groups));
        let expected = [Some(2), Some(1), Some(0)];
        assert_eq!(n(Arc::new(Int64Array::from(vec![Some(1), Some(i64::MIN), None, Some(1), Some(0), Some(0), None]))), expected);
        assert_eq!(
            n(Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), Some(1.5), None, None]))),
            expected
        );
        let long = "a text longer than twelve bytes";
        assert_eq!(n(Arc::new(StringViewArray::from(vec![Some(""), Some(long), None, Some(long), Some("b"), Some("b"), None]))), expected);
        assert_eq!(n(Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, None, Some(true), None, None]))), expected);
        let decimals = Decimal128Array::from(vec![Some(1), Some(-1), Some(1), None, Some(5), Some(5), None]);
        assert_eq!(n(Arc::new(decimals.with_precision_and_scale(38, 3).unwrap())), expected);
        assert_eq!(n(Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), None, Some(0), Some(1), None, None]))), expected);
    }
}

#[test]
fn an_approximate_count_is_exact_for_a_thousand_and_near_for_a_million() {
    let count = |n: i64| {
        let groups = vec![0; n as usize];
        ints(&of(Function::ApproxCountDistinct, Int64Array::from_iter_values(0..n), &groups))[0].unwrap()
    };
    assert_eq!(count(1024), 1024);
    for n in [1025, 20_000, 1_000_000] {
        let made = count(n);
        assert!((made - n).abs() as f64 <= 0.03 * n as f64, "{made} for {n}");
    }
}

#[test]
fn variances_of_integers_are_exact_where_floats_would_see_no_difference() {
    let near = Int64Array::from(vec![i64::MAX, i64::MAX - 1, i64::MIN, i64::MIN, 7]);
    let groups = [0, 0, 1, 1, 2];
    assert_eq!(floats(&of(Function::VarPop, near.clone(), &groups)), [Some(0.25), Some(0.0), Some(0.0)]);
    assert_eq!(floats(&of(Function::VarSamp, near, &groups)), [Some(0.5), Some(0.0), None]);
    let spread = floats(&of(Function::StddevPop, UInt64Array::from(vec![u64::MAX, 0]), &[0, 0]))[0].unwrap();
    assert!((spread - u64::MAX as f64 / 2.0).abs() < 1e4);
    assert_eq!(floats(&of(Function::StddevSamp, Int8Array::from(vec![None, Some(3), Some(5)]), &[0, 1, 1])), [None, Some(2f64.sqrt())]);
    let extremes: Vec<i64> = (0..1000).map(|i| if i % 2 == 0 { i64::MIN } else { i64::MAX }).collect();
    let variance = floats(&of(Function::VarPop, Int64Array::from(extremes), &[0; 1000]))[0].unwrap();
    assert!((variance / (u64::MAX as f64 / 2.0).powi(2) - 1.0).abs() < 1e-15);
}

#[test]
fn variances_of_floats_keep_small_spreads_beside_great_means() {
    let values = Float64Array::from(vec![1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
    let made = floats(&of(Function::VarSamp, values, &[0; 4]))[0].unwrap();
    assert!((made - 30.0).abs() < 1e-6, "{made}");
    assert!(floats(&of(Function::VarPop, Float64Array::from(vec![f64::INFINITY, 1.0]), &[0; 2]))[0].unwrap().is_nan());
    assert!(floats(&of(Function::VarPop, Float32Array::from(vec![1.0, f32::NAN]), &[0; 2]))[0].unwrap().is_nan());
    let decimals = Decimal128Array::from(vec![100, 300]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(floats(&of(Function::VarPop, decimals, &[0; 2])), [Some(1.0)]);
}

#[test]
fn bools_and_bits_join_what_is_not_null() {
    let bools = BooleanArray::from(vec![Some(true), None, Some(false), Some(true), None]);
    let groups = [0, 0, 1, 1, 2];
    assert_eq!(of(Function::BoolAnd, bools.clone(), &groups).as_boolean(), &BooleanArray::from(vec![Some(true), Some(false), None]));
    assert_eq!(of(Function::BoolOr, bools, &groups).as_boolean(), &BooleanArray::from(vec![Some(true), Some(true), None]));
    let bytes = Int8Array::from(vec![Some(-1), Some(0b0110), Some(0b0011), None, None]);
    let expected = |values: Vec<Option<i8>>| -> ArrayRef { Arc::new(Int8Array::from(values)) };
    same(&of(Function::BitAnd, bytes.clone(), &groups), &expected(vec![Some(0b0110), Some(0b0011), None]));
    same(&of(Function::BitOr, bytes.clone(), &groups), &expected(vec![Some(-1), Some(0b0011), None]));
    same(&of(Function::BitXor, bytes, &groups), &expected(vec![Some(!0b0110), Some(0b0011), None]));
    let wide: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    same(&of(Function::BitOr, UInt64Array::from(vec![u64::MAX - 1, 1]), &[0, 0]), &wide);
}

#[test]
fn first_and_last_go_by_time_and_within_one_time_by_arrival() {
    let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), Some("a"), None, Some("c"), Some("d"), None]));
    let (times, groups) = ([5, 5, 1, 5, 9, 9], [0, 0, 0, 0, 1, 2]);
    let texts = |function| result(function, &column, None, &times, &groups).as_string_view().clone();
    assert_eq!(texts(Function::First), StringViewArray::from(vec![Some("b"), Some("d"), None]));
    assert_eq!(texts(Function::Last), StringViewArray::from(vec![Some("c"), Some("d"), None]));
}

#[test]
fn arg_min_and_arg_max_take_the_earliest_of_equal_rows_and_no_row_with_a_null() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None, Some(5), Some(6)]));
    let times = [3, 2, 1, 0, 0, 0];
    let take = |function, by: ArrayRef| ints(&result(function, &column, Some(&by), &times, &[0, 0, 0, 0, 1, 1]));
    let by: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), Some(0.0), Some(1.0), Some(-9.0), None, None]));
    assert_eq!(take(Function::ArgMin, Arc::clone(&by)), [Some(2), None]);
    assert_eq!(take(Function::ArgMax, by), [Some(3), None]);
    let nans: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY, 0.0, 0.0, f64::NAN, 1.0]));
    assert_eq!(take(Function::ArgMax, nans), [Some(1), Some(5)]);
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "b", "a text beyond twelve bytes", "", "x", ""]));
    assert_eq!(take(Function::ArgMin, Arc::clone(&texts)), [Some(3), Some(6)]);
    assert_eq!(take(Function::ArgMax, texts), [Some(2), Some(5)]);
    let decimals: ArrayRef = Arc::new(Decimal128Array::from(vec![5, 4, 4, 0, 1, 0]).with_precision_and_scale(38, 0).unwrap());
    assert_eq!(take(Function::ArgMin, decimals), [Some(3), Some(6)]);
}

#[test]
fn medians_lie_between_neighbours_without_leaving_their_type() {
    let groups = [0, 0, 0, 0, 1, 1, 2];
    let halves = Int64Array::from(vec![Some(4), Some(1), Some(3), Some(2), Some(i64::MAX), Some(i64::MAX), None]);
    assert_eq!(floats(&of(Function::Median, halves, &groups)), [Some(2.5), Some(i64::MAX as f64), None]);
    let special = Float64Array::from(vec![f64::NAN, 1.0, f64::NEG_INFINITY, 2.0, f64::MAX, f64::MAX, -0.0]);
    assert_eq!(floats(&of(Function::Median, special, &groups)), [Some(1.5), Some(f64::MAX), Some(0.0)]);
    let decimals = Decimal128Array::from(vec![1, 2, 4, 9, -1, 0, 5]).with_precision_and_scale(10, 1).unwrap();
    let expected: ArrayRef = Arc::new(Decimal128Array::from(vec![30_000, -5_000, 50_000]).with_precision_and_scale(38, 5).unwrap());
    same(&of(Function::Median, decimals, &groups), &expected);
    let most: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 2]));
    assert_eq!(
        floats(&of(Function::Median, most.as_primitive::<arrow::datatypes::UInt64Type>().clone(), &[0, 0])),
        [Some(u64::MAX as f64)]
    );
}

#[test]
fn a_percentile_of_zero_is_the_least_and_one_of_one_the_greatest() {
    let column: ArrayRef = Arc::new(Int64Array::from((0..=100).rev().collect::<Vec<i64>>()));
    for (p, expected) in [(0.0, 0.0), (1.0, 100.0), (0.95, 95.0), (0.333, 33.3)] {
        let parameters = Parameters { p: Some(p), separator: None };
        let aggregate = Aggregate { parameters, ..over(Function::Percentile, &DataType::Int64) };
        let made = in_every_way(&aggregate, &aggregate.prepared(&column, None, None).unwrap(), &[0; 101]);
        same(&made, &(Arc::new(Float64Array::from(vec![expected])) as ArrayRef));
    }
}

#[test]
fn lists_and_texts_are_in_the_order_of_time_and_null_when_empty() {
    let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some("c"), Some("a"), None, Some("b"), None]));
    let (times, groups) = ([3, 1, 2, 1, 1], [0, 0, 0, 0, 1]);
    assert_eq!(
        result(Function::StringAgg, &column, None, &times, &groups).as_string_view(),
        &StringViewArray::from(vec![Some("a|b|c"), None])
    );
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(1), None, Some(2), None]));
    let lists = result(Function::ArrayAgg, &numbers, None, &times, &groups);
    let expected = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([1, 2, 3].map(Some)), None]);
    let values = |list: &ListArray, group: usize| list.value(group).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(values(lists.as_list(), 0), values(&expected, 0));
    assert!(lists.is_null(1));
}

/// Rows of group, value and time.
type Rows = Vec<(u32, Option<i64>, i64)>;

fn rows() -> impl Strategy<Value = Rows> {
    let value = prop_oneof![6 => -4i64..5, 1 => prop_oneof![Just(i64::MAX), Just(i64::MIN)]];
    let row = (0u32..4, prop::option::weighted(0.8, value), 0i64..5);
    prop::collection::vec(row, 0..60).prop_map(|mut rows| {
        // Groups are dense and appear in order.
        let mut known: Vec<u32> = Vec::new();
        for (group, _, _) in &mut rows {
            let number = known.iter().position(|other| other == group).unwrap_or_else(|| {
                known.push(*group);
                known.len() - 1
            });
            *group = number as u32;
        }
        rows
    })
}

/// The rows of each group with a value, earliest first.
fn grouped(rows: &Rows) -> Vec<Vec<i64>> {
    let mut groups: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    for (group, value, time) in rows {
        groups.entry(*group).or_default().extend(value.map(|value| (*time, value)));
    }
    let ordered = groups.into_values().map(|mut values| {
        values.sort_by_key(|(time, _)| *time);
        values.into_iter().map(|(_, value)| value).collect()
    });
    ordered.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn integers_in_any_cut_give_what_plain_rust_gives(rows in rows()) {
        let groups: Vec<u32> = rows.iter().map(|(group, _, _)| *group).collect();
        let times: Vec<i64> = rows.iter().map(|(_, _, time)| *time).collect();
        let column: ArrayRef = Arc::new(rows.iter().map(|(_, value, _)| *value).collect::<Int64Array>());
        let by: ArrayRef = Arc::new(rows.iter().map(|(_, value, _)| value.map(|value| value.wrapping_mul(7) % 3)).collect::<Int64Array>());
        let made = |function: Function| ints(&result(function, &column, function.compares().then_some(&by), &times, &groups));
        let grouped = grouped(&rows);
        let each = |of: &dyn Fn(&Vec<i64>) -> Option<i64>| grouped.iter().map(of).collect::<Vec<_>>();
        let distinct = each(&|values| Some(values.iter().collect::<BTreeSet<_>>().len() as i64));
        prop_assert_eq!(&made(Function::CountDistinct), &distinct);
        prop_assert_eq!(&made(Function::ApproxCountDistinct), &distinct);
        prop_assert_eq!(made(Function::First), each(&|values| values.first().copied()));
        prop_assert_eq!(made(Function::Last), each(&|values| values.last().copied()));
        prop_assert_eq!(made(Function::BitAnd), each(&|values| values.iter().copied().reduce(|a, b| a & b)));
        prop_assert_eq!(made(Function::BitOr), each(&|values| values.iter().copied().reduce(|a, b| a | b)));
        prop_assert_eq!(made(Function::BitXor), each(&|values| values.iter().copied().reduce(|a, b| a ^ b)));
        // Of equal ones, `min_by_key` takes the first; the greatest is the least of the negated.
        let key = |value: &i64| value.wrapping_mul(7) % 3;
        prop_assert_eq!(made(Function::ArgMin), each(&|values| values.iter().copied().min_by_key(key)));
        prop_assert_eq!(made(Function::ArgMax), each(&|values| values.iter().copied().min_by_key(|value| -key(value))));
        let medians: ArrayRef = Arc::new(grouped.iter().map(|values| {
            let mut values = values.clone();
            values.sort_unstable();
            let half = values.len().checked_sub(1)? as f64 / 2.0;
            Some((i128::from(values[half.floor() as usize]) + i128::from(values[half.ceil() as usize])) as f64 / 2.0)
        }).collect::<Float64Array>());
        same(&result(Function::Median, &column, None, &times, &groups), &medians);
        let lists = result(Function::ArrayAgg, &column, None, &times, &groups);
        for (group, values) in grouped.iter().enumerate() {
            prop_assert_eq!(lists.is_null(group), values.is_empty());
            if !values.is_empty() {
                prop_assert_eq!(lists.as_list::<i32>().value(group).as_primitive::<Int64Type>().values().to_vec(), values.clone());
            }
        }
    }

    #[test]
    fn variances_agree_with_two_passes(rows in prop::collection::vec((0u32..2, prop::option::weighted(0.9, -1000i32..1000)), 0..50)) {
        let known: Vec<u32> = rows.iter().fold(Vec::new(), |mut known, (group, _)| {
            if !known.contains(group) {
                known.push(*group);
            }
            known
        });
        let groups: Vec<u32> = rows.iter().map(|(group, _)| known.iter().position(|other| other == group).unwrap() as u32).collect();
        let expected = |sample: bool| -> ArrayRef {
            let of = |group: &u32| {
                let values: Vec<f64> = rows.iter().filter(|row| row.0 == *group).filter_map(|row| row.1.map(f64::from)).collect();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                let over = values.len() as i64 - i64::from(sample);
                (over > 0).then(|| squares / over as f64)
            };
            Arc::new(known.iter().map(of).collect::<Float64Array>())
        };
        let close = |made: ArrayRef, expected: ArrayRef| {
            for (made, expected) in floats(&made).into_iter().zip(floats(&expected)) {
                assert_eq!(made.is_some(), expected.is_some());
                // Two passes do not come to exactly nothing.
                assert!((made.unwrap_or_default() - expected.unwrap_or_default()).abs() <= 1e-9 * expected.unwrap_or_default().max(1.0));
            }
        };
        let whole: ArrayRef = Arc::new(rows.iter().map(|(_, value)| value.map(i64::from)).collect::<Int64Array>());
        let float: ArrayRef = Arc::new(rows.iter().map(|(_, value)| value.map(f64::from)).collect::<Float64Array>());
        let times = vec![0; rows.len()];
        for column in [whole, float] {
            close(result(Function::VarPop, &column, None, &times, &groups), expected(false));
            close(result(Function::VarSamp, &column, None, &times, &groups), expected(true));
        }
    }
}
