//! One stated answer for each awkward value, over columns, so that the kernels are asked and not the folding of constants.

use super::{batch, rows};
use arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray,
    UInt64Array,
};
use std::sync::Arc;

fn longs(name: &'static str, values: Vec<Option<i64>>) -> RecordBatch {
    batch(vec![(name, Arc::new(Int64Array::from(values)))])
}

#[test]
fn integer_overflow_and_division_by_zero_make_bad_rows() {
    let rows_of = longs("a", vec![Some(i64::MAX), Some(1), None, Some(i64::MIN), Some(0)]);
    assert_eq!(rows("a + 1", &rows_of), ["bad", "2", "null", "-9223372036854775807", "1"]);
    assert_eq!(rows("a - 2", &rows_of), ["9223372036854775805", "-1", "null", "bad", "-2"]);
    assert_eq!(rows("a * 2", &rows_of), ["bad", "2", "null", "bad", "0"]);
    assert_eq!(rows("-a", &rows_of), ["-9223372036854775807", "-1", "null", "bad", "0"]);
    assert_eq!(rows("7 % a", &rows_of), ["7", "0", "null", "7", "bad"]);
    assert_eq!(rows("7 / a > 1", &rows_of), ["false", "true", "null", "false", "bad"]);
    assert_eq!(rows("div(7, a)", &rows_of), ["0", "7", "null", "0", "bad"]);
    assert_eq!(rows("a % -1", &rows_of), ["0", "0", "null", "0", "0"]);
}

#[test]
fn the_side_that_decides_hides_the_failures_of_the_other() {
    let rows_of = longs("a", vec![Some(0), Some(4), None, Some(20)]);
    assert_eq!(rows("a != 0 && 10 / a > 1", &rows_of), ["false", "true", "null", "false"]);
    assert_eq!(rows("a == 0 || 10 / a > 1", &rows_of), ["true", "true", "null", "false"]);
    assert_eq!(rows("10 / a > 1 && a != 0", &rows_of), ["bad", "true", "null", "false"]);
    assert_eq!(rows("(a ?? 0) == 0 ? -1 : div(10, a)", &rows_of), ["-1", "2", "-1", "0"]);
    assert_eq!(rows("(a == 4 ? 1 : null) ?? div(7, a)", &longs("a", vec![Some(4), Some(0), Some(7)])), ["1", "bad", "1"]);
}

#[test]
fn logic_has_three_values() {
    let sides = [Some(true), Some(false), None];
    let left: BooleanArray = sides.iter().flat_map(|side| [*side; 3]).collect();
    let right: BooleanArray = (0..3).flat_map(|_| sides).collect();
    let rows_of = batch(vec![("a", Arc::new(left)), ("b", Arc::new(right))]);
    assert_eq!(rows("a && b", &rows_of), ["true", "false", "null", "false", "false", "false", "null", "false", "null"]);
    assert_eq!(rows("a || b", &rows_of), ["true", "true", "true", "true", "false", "null", "true", "null", "null"]);
    assert_eq!(rows("!b", &rows_of)[..3], ["false", "true", "null"]);
    assert_eq!(rows("b ? 1 : 2", &rows_of)[..3], ["1", "2", "bad"]);
    assert_eq!(rows("b == null", &rows_of)[..3], ["false", "false", "true"]);
    assert_eq!(rows("b != null", &rows_of)[..3], ["true", "true", "false"]);
    assert_eq!(rows("b == true", &rows_of)[..3], ["true", "false", "null"]);
}

#[test]
fn floats_have_one_nan_above_all_and_one_zero() {
    let values = vec![f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, 1.5];
    let rows_of =
        batch(vec![("f", Arc::new(Float64Array::from(values))), ("i", Arc::new(Int64Array::from(vec![0, 1, 2, 0, i64::MAX, 1])))]);
    assert_eq!(rows("f == f", &rows_of), ["true"; 6]);
    assert_eq!(rows("f > 1e308", &rows_of), ["true", "true", "false", "false", "true", "false"]);
    assert_eq!(rows("f == 0", &rows_of), ["false", "false", "true", "true", "false", "false"]);
    assert_eq!(rows("f < i", &rows_of), ["false", "false", "true", "false", "false", "false"]);
    assert_eq!(rows("f in [0, 1.5]", &rows_of), ["false", "false", "true", "true", "false", "true"]);
    assert_eq!(rows("f / 0.0", &rows_of), ["NaN", "NaN", "NaN", "NaN", "inf", "inf"]);
}

#[test]
fn sixty_four_bits_are_compared_exactly() {
    let big = 9_007_199_254_740_993;
    let rows_of = batch(vec![
        ("i", Arc::new(Int64Array::from(vec![big, big - 1, -1]))),
        ("f", Arc::new(Float64Array::from(vec![big as f64, big as f64, -0.5]))),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX, big as u64, 0]))),
    ]);
    assert_eq!(rows("i == f", &rows_of), ["false", "true", "false"]);
    assert_eq!(rows("i < u", &rows_of), ["true", "true", "true"]);
    assert_eq!(rows("u > 9223372036854775807", &rows_of), ["true", "false", "false"]);
    assert_eq!(rows("u % 10", &rows_of), ["5", "3", "0"]);
    assert_eq!(rows("u + 1", &rows_of), ["bad", "9007199254740994", "1"]);
    assert_eq!(rows("u * u", &rows_of), ["bad", "bad", "0"]);
    assert_eq!(rows("u + i", &rows_of), ["bad", "18014398509481985", "-1"]);
    assert_eq!(rows("i + 0", &rows_of), ["9007199254740993", "9007199254740992", "-1"]);
}

#[test]
fn decimals_stay_decimals() {
    let values = Decimal128Array::from(vec![Some(1050), Some(-1), None]).with_precision_and_scale(10, 2).unwrap();
    let rows_of = batch(vec![("d", Arc::new(values))]);
    // Unscaled digits: the scales are 2, 4, 6 and 2.
    assert_eq!(rows("d + 1", &rows_of), ["1150", "99", "null"]);
    assert_eq!(rows("d * 1.50m", &rows_of), ["157500", "-150", "null"]);
    assert_eq!(rows("d / 3", &rows_of), ["3500000", "-3333", "null"]);
    assert_eq!(rows("d % 1", &rows_of), ["50", "-1", "null"]);
    assert_eq!(rows("d == 10.5m", &rows_of), ["true", "false", "null"]);
    assert_eq!(rows("d > 10", &rows_of), ["true", "false", "null"]);
    assert_eq!(rows("d == 10.5", &rows_of), ["true", "false", "null"]);
    assert_eq!(rows("d * 0.5", &rows_of), ["5.25", "-0.005", "null"]);
    assert_eq!(rows("d / (d - d)", &rows_of), ["bad", "bad", "null"]);
    assert_eq!(rows("concat('', d)", &rows_of), ["'10.50'", "'-0.01'", "null"]);
}

#[test]
fn times_move_by_milliseconds_and_compare_with_them() {
    let rows_of = batch(vec![
        ("t", Arc::new(TimestampMillisecondArray::from(vec![1_000, -1, i64::MAX]))),
        ("day", Arc::new(Date32Array::from(vec![0, -1, 20_000]))),
        ("ms", Arc::new(Int64Array::from(vec![1_000, 5, 0]))),
    ]);
    assert_eq!(rows("t + 1", &rows_of), ["@1001", "@0", "bad"]);
    assert_eq!(rows("t - dur'1s'", &rows_of), ["@0", "@-1001", "@9223372036854774807"]);
    assert_eq!(rows("t - day", &rows_of), ["1000", "86399999", "9223370308854775807"]);
    assert_eq!(rows("t == ms", &rows_of), ["true", "false", "false"]);
    assert_eq!(rows("t >= ts'1970-01-01T00:00:01Z'", &rows_of), ["true", "false", "true"]);
    assert_eq!(rows("t > day", &rows_of), ["true", "true", "true"]);
    assert_eq!(rows("hourOf(t)", &rows_of), ["0", "23", "7"]);
    assert_eq!(rows("now() > t", &rows_of), ["true", "true", "false"]);
}

#[test]
fn text_is_ordered_by_its_bytes_and_counted_in_characters() {
    let rows_of = batch(vec![("s", Arc::new(StringViewArray::from(vec![Some("b"), Some("Z"), Some("é"), Some(""), None])))]);
    assert_eq!(rows("s > 'a'", &rows_of), ["true", "false", "true", "false", "null"]);
    assert_eq!(rows("length(s)", &rows_of), ["1", "1", "1", "0", "null"]);
    assert_eq!(rows("s in ['b', '']", &rows_of), ["true", "false", "false", "true", "null"]);
    assert_eq!(rows("toNumber(s)", &rows_of), ["bad", "bad", "bad", "bad", "null"]);
}

#[test]
fn a_day_moved_to_the_smallest_integer_is_a_bad_row_and_no_panic() {
    let rows_of = batch(vec![
        ("day", Arc::new(Date32Array::from(vec![0, -1, 0]))),
        ("n", Arc::new(Int64Array::from(vec![i64::MIN, i64::MIN + 1, i64::MAX]))),
    ]);
    assert_eq!(rows("dateAdd('day', n, day)", &rows_of), ["bad", "bad", "bad"]);
    assert_eq!(rows("dateAdd('month', n, day)", &rows_of), ["bad", "bad", "bad"]);
}
