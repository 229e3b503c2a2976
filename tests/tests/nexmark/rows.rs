//! Rows without their engine: cells, tables, and what equal means.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMillisecondType, UInt8Type};
use std::collections::BTreeMap;

/// One value. Times are epoch milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
}

pub(crate) type Row = Vec<Cell>;

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Cell::Int(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Float(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Text(value.to_string())
    }
}

impl From<&String> for Cell {
    fn from(value: &String) -> Self {
        Cell::Text(value.clone())
    }
}

/// A row of anything that is a cell.
macro_rules! row {
    ($($cell:expr),+ $(,)?) => { vec![$($crate::rows::Cell::from($cell)),+] };
}
pub(crate) use row;

/// The rows of batches, in their order.
pub(crate) fn rows_of(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in batches {
        let first = rows.len();
        rows.extend((0..batch.num_rows()).map(|_| Row::with_capacity(batch.num_columns())));
        for column in batch.columns() {
            push_column(&mut rows[first..], column.as_ref());
        }
    }
    rows
}

fn push_column(rows: &mut [Row], column: &dyn Array) {
    let mut push = |cell: &dyn Fn(usize) -> Cell| {
        for (index, row) in rows.iter_mut().enumerate() {
            row.push(if column.is_null(index) { Cell::Null } else { cell(index) });
        }
    };
    match column.data_type() {
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>();
            push(&|index| Cell::Int(values.value(index)));
        }
        DataType::UInt8 => {
            let values = column.as_primitive::<UInt8Type>();
            push(&|index| Cell::Int(values.value(index).into()));
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>();
            push(&|index| Cell::Float(values.value(index)));
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            let values = column.as_primitive::<TimestampMillisecondType>();
            push(&|index| Cell::Int(values.value(index)));
        }
        DataType::Utf8View => {
            let values = column.as_string_view();
            push(&|index| Cell::from(values.value(index)));
        }
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            push(&|index| Cell::from(values.value(index)));
        }
        other => panic!("the tests know no column of type {other}"),
    }
}

/// The table after applying updates in their order; the last cell of each says whether it replaces or removes the row of its key.
pub(crate) fn table_of(updates: Vec<Row>, columns: &[&str], keys: &[&str]) -> Vec<Row> {
    let at: Vec<usize> = keys.iter().map(|key| columns.iter().position(|column| column == key).unwrap()).collect();
    let mut table: BTreeMap<String, Row> = BTreeMap::new();
    for mut row in updates {
        let op = row.pop().unwrap();
        let key = at.iter().map(|index| format!("{:?}", row[*index])).collect::<Vec<_>>().join("\t");
        match op {
            Cell::Int(0) => {
                table.insert(key, row);
            }
            Cell::Int(1) => {
                table.remove(&key);
            }
            other => panic!("`{other:?}` is no kind of update"),
        }
    }
    table.into_values().collect()
}

/// Compares as multisets, floats within 1e-9 relative.
///
/// # Panics
/// With the first row that differs.
pub(crate) fn assert_equal(found: Vec<Row>, expected: &[Row], what: &str) {
    let (found, expected) = (sorted(found.iter()), sorted(expected.iter()));
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(same(found, expected), "{what}: row {index} in order is\n  {found:?}\nbut should be\n  {expected:?}");
    }
    assert_eq!(found.len(), expected.len(), "{what}: the number of rows");
}

/// What is exact, and what is not.
type Comparable = (String, Vec<f64>);

/// In an order that a last digit does not change: by what is exact first.
fn sorted<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Comparable> {
    let mut comparable: Vec<Comparable> = rows
        .map(|row| {
            let (mut exact, mut floats) = (String::new(), Vec::new());
            for cell in row {
                match cell {
                    Cell::Null => exact.push_str("null"),
                    Cell::Int(value) => exact.push_str(&value.to_string()),
                    Cell::Float(value) => floats.push(*value),
                    Cell::Text(value) => {
                        exact.push('"');
                        exact.push_str(value);
                    }
                }
                exact.push('\t');
            }
            (exact, floats)
        })
        .collect();
    comparable.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| compare_floats(&a.1, &b.1)));
    comparable
}

fn compare_floats(a: &[f64], b: &[f64]) -> std::cmp::Ordering {
    let differing = a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn same(found: &Comparable, expected: &Comparable) -> bool {
    let near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    found.0 == expected.0 && found.1.len() == expected.1.len() && found.1.iter().zip(&expected.1).all(near)
}
