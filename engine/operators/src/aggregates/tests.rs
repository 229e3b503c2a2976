//! Accumulators against plain Rust: types, extremes, merging.

use super::definition::Parameters;
use super::*;
use arrow::array::{
    BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Int8Array, StringViewArray, UInt32Array, UInt64Array,
};
use arrow::datatypes::DataType;

mod each;

/// A function over values of a type.
pub(super) fn over(function: Function, values: &DataType) -> Aggregate {
    Aggregate { function, values: Some(values.clone()), by: None, filtered: false, parameters: Parameters::default() }
}

/// The result per group, once in one go, once by two accumulators merged through their state, and once group by group.
fn both(function: Function, column: &ArrayRef, groups: &[u32]) -> ArrayRef {
    let aggregate = over(function, column.data_type());
    let result = in_every_way(&aggregate, &aggregate.prepared(column, None, None).unwrap(), groups);
    assert_eq!(Some(result.data_type()), function.result(column.data_type()).as_ref());
    result
}

pub(super) fn in_every_way(aggregate: &Aggregate, prepared: &ArrayRef, groups: &[u32]) -> ArrayRef {
    let total = groups.iter().max().map_or(0, |group| *group as usize + 1);
    let mut whole = aggregate.accumulator().unwrap();
    whole.update(groups, total, Some(prepared)).unwrap();

    let mut merged = aggregate.accumulator().unwrap();
    let mut met = 0;
    for half in [0..groups.len() / 2, groups.len() / 2..groups.len()] {
        // A part numbers its groups by itself.
        let mut known: Vec<u32> = Vec::new();
        let numbers: Vec<u32> = groups[half.clone()]
            .iter()
            .map(|group| match known.iter().position(|other| other == group) {
                Some(number) => number as u32,
                None => {
                    known.push(*group);
                    known.len() as u32 - 1
                }
            })
            .collect();
        let mut part = aggregate.accumulator().unwrap();
        part.update(&numbers, known.len(), Some(&prepared.slice(half.start, half.len()))).unwrap();
        met = known.iter().fold(met, |met, group| met.max(*group as usize + 1));
        merged.merge(&known, met, &part.state().unwrap()).unwrap();
    }
    let result = whole.finish().unwrap();
    assert!(result.misfits.is_empty());
    same(&merged.finish().unwrap().values, &result.values);
    // Back to front, by selection; a group selected has the same state to go on with.
    let reversed: Vec<u32> = (0..total as u32).rev().collect();
    let selected = whole.select(&reversed).unwrap();
    let indices = UInt32Array::from(reversed.clone());
    same(&selected.finish().unwrap().values, &arrow::compute::take(&result.values, &indices, None).unwrap());
    let mut again = aggregate.accumulator().unwrap();
    again.merge(&reversed, total, &selected.state().unwrap()).unwrap();
    same(&again.finish().unwrap().values, &result.values);
    whole.clear();
    assert_eq!(whole.finish().unwrap().values.len(), 0);
    result.values
}

/// Equal, floats but for their last digits.
pub(super) fn same(left: &ArrayRef, right: &ArrayRef) {
    let (Some(a), Some(b)) = (left.as_primitive_opt::<Float64Type>(), right.as_primitive_opt::<Float64Type>()) else {
        assert_eq!(left, right);
        return;
    };
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b.iter()) {
        let close = match (a, b) {
            (Some(a), Some(b)) => (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
            (a, b) => a == b,
        };
        assert!(close, "{a:?} is not {b:?}");
    }
}

fn check(function: Function, column: impl Array + 'static, groups: &[u32], expected: impl Array + 'static) {
    let expected: ArrayRef = Arc::new(expected);
    assert_eq!(&both(function, &(Arc::new(column) as ArrayRef), groups), &expected);
}

#[test]
fn min_and_max_work_on_every_ordered_type() {
    let groups = [0, 1, 0, 1, 2];
    check(
        Function::Min,
        Int8Array::from(vec![Some(5), Some(-128), Some(3), None, None]),
        &groups,
        Int8Array::from(vec![Some(3), Some(-128), None]),
    );
    check(Function::Max, UInt64Array::from(vec![u64::MAX, 1, 5, 2, 0]), &groups, UInt64Array::from(vec![u64::MAX, 2, 0]));
    check(Function::Min, UInt64Array::from(vec![u64::MAX, 1, 5, 2, 0]), &groups, UInt64Array::from(vec![5, 1, 0]));
    check(Function::Max, Date32Array::from(vec![1, -5, 2, -6, 0]), &groups, Date32Array::from(vec![2, -5, 0]));
    check(Function::Max, BooleanArray::from(vec![false, false, true, false, true]), &groups, BooleanArray::from(vec![true, false, true]));
    check(
        Function::Min,
        Float32Array::from(vec![1.5, -1.5, 0.5, f32::NEG_INFINITY, 7.0]),
        &groups,
        Float32Array::from(vec![0.5, f32::NEG_INFINITY, 7.0]),
    );
    let decimals = |values: Vec<i128>| Decimal128Array::from(values).with_precision_and_scale(10, 2).unwrap();
    check(Function::Max, decimals(vec![100, -1, 250, -2, 0]), &groups, decimals(vec![250, -1, 0]));
    check(
        Function::Min,
        StringViewArray::from(vec![Some("b"), Some(""), Some("a text beyond twelve bytes"), Some("a"), None]),
        &groups,
        StringViewArray::from(vec![Some("a text beyond twelve bytes"), Some(""), None]),
    );
    let bytes: Vec<&[u8]> = vec![b"\x00", b"\xff", b"\x01", b"\xfe", b""];
    let greatest: Vec<&[u8]> = vec![b"\x01", b"\xff", b""];
    check(Function::Max, BinaryViewArray::from_iter_values(bytes), &groups, BinaryViewArray::from_iter_values(greatest));
}

#[test]
fn among_floats_nan_is_the_greatest_and_zeros_are_equal_in_any_order() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let values = [f64::NAN, 1.0, -0.0, -f64::NAN];
        let column = Float64Array::from(order.map(|index| values[index]).to_vec());
        let greatest: ArrayRef = Arc::new(column.clone());
        assert!(both(Function::Max, &greatest, &[0; 4]).as_primitive::<Float64Type>().value(0).is_nan());
        let least = both(Function::Min, &greatest, &[0; 4]);
        assert_eq!(least.as_primitive::<Float64Type>().value(0).to_bits(), 0.0f64.to_bits());
    }
}

#[test]
fn sums_and_averages_of_decimals_stay_decimals() {
    let of =
        |values: Vec<Option<i128>>, precision, scale| Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap();
    let column = of(vec![Some(100), Some(201), None, Some(-1), None], 10, 2);
    check(Function::Sum, column.clone(), &[0, 0, 0, 1, 2], of(vec![Some(301), Some(-1), None], 38, 2));
    check(Function::Avg, column, &[0, 0, 0, 1, 2], of(vec![Some(1_505_000), Some(-10_000), None], 38, 6));
    let thirds = of(vec![Some(-1), Some(-1), Some(0)], 10, 0);
    check(Function::Avg, thirds, &[0, 0, 0], of(vec![Some(-6667)], 38, 4));
}

#[test]
fn decimals_beyond_128_bits_come_back_when_the_sum_does() {
    let most = 10i128.pow(38) - 1;
    let column: ArrayRef =
        Arc::new(Decimal128Array::from(vec![most, most, -most, -most, most, most, most]).with_precision_and_scale(38, 0).unwrap());
    let mut sum = over(Function::Sum, column.data_type()).accumulator().unwrap();
    sum.update(&[0, 0, 0, 0, 1, 1, 1], 2, Some(&column)).unwrap();
    let finished = sum.finish().unwrap();
    assert!(finished.values.is_valid(0) && finished.values.is_null(1));
    assert_eq!(finished.misfits, [(1, "beyond 128 bits".to_string())]);
}

#[test]
fn an_average_of_integers_is_taken_from_the_exact_sum() {
    use arrow::array::Int64Array;
    check(Function::Avg, Int64Array::from(vec![i64::MAX, i64::MAX, 1, 2]), &[0, 0, 1, 1], Float64Array::from(vec![i64::MAX as f64, 1.5]));
    check(Function::Sum, UInt64Array::from(vec![1 << 62, 1 << 61]), &[0, 0], Int64Array::from(vec![(1i64 << 62) + (1 << 61)]));
}

#[test]
fn float_sums_do_not_lose_small_values_beside_great_ones() {
    check(Function::Sum, Float64Array::from(vec![1e16, 1.0, 1.0, -1e16]), &[0; 4], Float64Array::from(vec![2.0]));
    check(Function::Sum, Float64Array::from(vec![f64::INFINITY, 1.0]), &[0; 2], Float64Array::from(vec![f64::INFINITY]));
}

#[test]
fn what_has_no_order_or_no_sum_is_refused() {
    let list = DataType::new_list(DataType::Int64, true);
    assert_eq!(Function::Min.result(&list), None);
    assert_eq!(Function::Sum.result(&DataType::Utf8View), None);
    assert_eq!(Function::Avg.result(&DataType::Date32), None);
    assert_eq!(Function::Count.result(&list), Some(DataType::Int64));
}
