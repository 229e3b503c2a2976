//! The table: rows by their code, columns by their name, each of the narrowest type that takes all its values.

use crate::config::Config;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use text_values::csv::{Record, Step};
use text_values::{ColumnBuilder, ValueType, float, quoted};
use tidegate_sdk::arrow::array::ArrayRef;
use tidegate_sdk::{Error, Result, hint};

/// The table, as far as it is wanted.
#[derive(Debug)]
pub(crate) struct Table {
    /// The row of each code. Fixed seeds: a transform has no randomness, and the table is the user's own.
    rows: HashMap<Box<str>, u32, FixedState>,
    /// The columns to add, in the configured order.
    pub(crate) columns: Vec<ArrayRef>,
}

impl Table {
    /// Reads it from its text.
    pub(crate) fn read(config: &Config) -> Result<Self> {
        let mut rest = config.table.strip_prefix('\u{feff}').unwrap_or(&config.table).as_bytes();
        let mut record = Record::default();
        let Some(_) = next(&mut rest, &mut record, 0)? else {
            return Err(Error::config(
                "`table` is empty; it is the table itself, CSV text with a header: `table = \"${file:airports.csv}\"`",
            ));
        };
        let header: Vec<String> = (0..record.len()).map(|index| text(&record, index)).collect();
        let key = find(config, &header, &config.key, "key")?;
        let added = config.add.iter().map(|name| find(config, &header, name, "add")).collect::<Result<Vec<_>>>()?;
        let mut rows: HashMap<Box<str>, u32, FixedState> = HashMap::default();
        let mut values: Vec<Vec<Option<String>>> = vec![Vec::new(); added.len()];
        let mut number = 0;
        while let Some(()) = next(&mut rest, &mut record, number + 1)? {
            number += 1;
            if record.len() != header.len() {
                let (has, wants) = (record.len(), header.len());
                return Err(Error::config(format!("row {number} of `table` has {has} fields, and its header has {wants}")));
            }
            let value = |index| {
                let value = text(&record, index);
                let plain = record.get(index).is_some_and(|field| !field.quoted);
                let none = plain && (value.is_empty() || config.nulls.contains(&value));
                (!none).then_some(value)
            };
            // A row without a code is one that nobody can ask for.
            let Some(code) = value(key) else { continue };
            let row = values[0].len() as u32;
            if rows.insert(code.as_str().into(), row).is_some() {
                return Err(Error::config(format!("`table` has the `{}` {} a second time in row {number}", config.key, quoted(&code))));
            }
            added.iter().zip(&mut values).for_each(|(index, values)| values.push(value(*index)));
        }
        if rows.is_empty() {
            return Err(Error::config(format!("no row of `table` has a `{}`", config.key)));
        }
        Ok(Table { rows, columns: values.iter().map(|values| column(values)).collect() })
    }

    /// The row of a code.
    pub(crate) fn row(&self, code: &str) -> Option<u32> {
        self.rows.get(code).copied()
    }
}

/// Takes the next record; `None` at the end.
fn next(rest: &mut &[u8], record: &mut Record, number: usize) -> Result<Option<()>> {
    while !rest.is_empty() {
        match record.read(rest, b',', true) {
            Step::Record(length) => {
                *rest = &rest[length..];
                return Ok(Some(()));
            }
            Step::Blank(length) => *rest = &rest[length..],
            Step::Malformed(_, why) => return Err(Error::config(format!("row {number} of `table`: {why}"))),
            Step::Incomplete => return Ok(None),
        }
    }
    Ok(None)
}

/// A field of a text that was text before it was cut at bytes of ASCII.
fn text(record: &Record, index: usize) -> String {
    record.get(index).map_or_else(String::new, |field| String::from_utf8_lossy(field.bytes).into_owned())
}

/// The index of a column of the table.
fn find(config: &Config, header: &[String], name: &str, option: &str) -> Result<usize> {
    let mut found = header.iter().enumerate().filter(|(_, column)| *column == name).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(Error::config(format!("`table` has two columns `{name}`"))),
        (None, _) if !config.table.trim_end().contains('\n') => Err(Error::config(format!(
            "`table` has no column `{name}` and no row; it is the table itself, not its place: `table = \"${{file:airports.csv}}\"`"
        ))),
        (None, _) => {
            let near = hint(name, header.iter().map(String::as_str));
            Err(Error::config(format!("`{option}` names `{name}`, which `table` does not have{near}")))
        }
    }
}

/// Integers if all are, else numbers if all are, else text. A column without any value is text.
fn column(values: &[Option<String>]) -> ArrayRef {
    let all = |is: fn(&str) -> bool| values.iter().flatten().all(|value| is(value)) && values.iter().any(Option::is_some);
    let value_type = if all(is_integer) {
        ValueType::Int64
    } else if all(is_number) {
        ValueType::Float64
    } else {
        ValueType::String
    };
    let mut column = ColumnBuilder::new(value_type, values.len());
    values.iter().for_each(|value| column.append(value.as_deref().and_then(|value| value_type.parse(value))));
    column.finish()
}

/// Written as an integer, and one of 64 bits.
fn is_integer(text: &str) -> bool {
    is_number(text) && text.parse::<i64>().is_ok()
}

/// A sign or zeros in front mean that it is a code, which would not survive as a number; so does an integer of more than 64 bits.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let plain = whole > 0 && (whole == 1 || unsigned[0] != b'0');
    plain && float(text).is_some() && (whole < unsigned.len() || text.parse::<i64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sdk::arrow::schema::DataType;

    #[test]
    fn a_column_has_the_narrowest_type_of_all_its_values() {
        for (values, data_type) in [
            (vec!["1", "-20", "0"], DataType::Int64),
            (vec!["1", "2.5"], DataType::Float64),
            (vec!["1e3", "-0.5"], DataType::Float64),
            (vec!["1", "x"], DataType::Utf8),
            (vec!["01", "2"], DataType::Utf8),
            (vec!["+1"], DataType::Utf8),
            (vec!["9223372036854775808"], DataType::Utf8),
            (vec!["NaN"], DataType::Utf8),
            (vec!["-"], DataType::Utf8),
            (vec![], DataType::Utf8),
        ] {
            let texts: Vec<_> = values.iter().map(|value| Some((*value).to_owned())).chain([None]).collect();
            let column = column(&texts);
            assert_eq!((column.data_type(), column.null_count()), (&data_type, 1), "{values:?}");
        }
    }
}
