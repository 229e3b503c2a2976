//! `raw-columns`: a transform without Arrow. Of the columns `n` (int64) and `name` (string) it makes `name` louder and `twice`, and drops the rows
//! with an odd `n`. A row whose `n` is 13 is bad, one whose `n` is 7777 makes it panic.
//!
//! With `{"lie":"…"}` for a configuration its answers are wrong in that one way.

use tidegate_sdk::bindings::transform_columns::exports::tidegate::plugin::transform_columns::{Column, Columns, Field, Plan, Processed};
use tidegate_sdk::{ColumnsTransform, Error, Info, Result, RowError, Scope, Shape, export_transform_columns};

struct RawColumns {
    lie: String,
}

/// The value of `lie` in a configuration that has nothing else in it.
fn lie_of(config: &str) -> String {
    config.split("\"lie\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_string()
}

fn field(name: &str, data_type: &str, nullable: bool) -> Field {
    Field { name: name.into(), data_type: data_type.into(), nullable }
}

fn bits(values: &[bool]) -> Vec<u8> {
    values.chunks(8).map(|chunk| chunk.iter().enumerate().fold(0, |byte, (at, bit)| byte | (u8::from(*bit) << at))).collect()
}

/// A text column.
fn texts(values: &[Option<String>]) -> Column {
    let mut data = Vec::new();
    let mut offsets = 0_u32.to_le_bytes().to_vec();
    for value in values {
        data.extend(value.iter().flat_map(|text| text.bytes()));
        offsets.extend((data.len() as u32).to_le_bytes());
    }
    let present: Vec<bool> = values.iter().map(Option::is_some).collect();
    Column { data, offsets: Some(offsets), validity: present.contains(&false).then(|| bits(&present)) }
}

/// The values of a text column.
fn read_texts(column: &Column, rows: usize) -> Result<Vec<Option<String>>> {
    let offsets = column.offsets.as_ref().ok_or_else(|| Error::fatal("`name` has no offsets"))?;
    let at = |row: usize| u32::from_le_bytes([offsets[row * 4], offsets[row * 4 + 1], offsets[row * 4 + 2], offsets[row * 4 + 3]]) as usize;
    let present = |row: usize| column.validity.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1);
    let text = |row: usize| String::from_utf8_lossy(&column.data[at(row)..at(row + 1)]).into_owned();
    Ok((0..rows).map(|row| present(row).then(|| text(row))).collect())
}

impl ColumnsTransform for RawColumns {
    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(config: &str, input: &[Field]) -> Result<Plan> {
        let lie = lie_of(config);
        if config != "{}" && config != format!("{{\"lie\":\"{lie}\"}}") {
            return Err(Error::config("`lie` is the only key, and a text"));
        }
        let find = |name: &str, data_type: &str| {
            let column = input.iter().position(|field| field.name == name && (field.data_type == data_type || lie == "opaque"));
            column.map(|column| column as u32).ok_or_else(|| Error::config(format!("there is no column `{name}` of type `{data_type}`")))
        };
        let reads = vec![find("n", "int64")?, find("name", "string")?];
        let twice = if lie == "unknown-type" { "int65" } else { "int64" };
        let output = vec![field("keep", "bool", false), field("name", "string", true), field("twice", twice, lie != "null")];
        Ok(Plan { reads: Some(reads), carry: None, output, shape: Shape::RowwiseFilter, extra: String::new() })
    }

    fn open(scope: &Scope, _: &[Field]) -> Result<Self> {
        Ok(RawColumns { lie: lie_of(&scope.config) })
    }

    fn process(&mut self, input: Columns) -> Result<Processed> {
        let rows = input.rows as usize;
        let mut numbers: Vec<i64> = input.columns[0].data.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        if let Some(present) = &input.columns[0].validity {
            // What stands at a null is arbitrary.
            numbers.iter_mut().enumerate().filter(|(row, _)| present[row / 8] >> (row % 8) & 1 == 0).for_each(|(_, number)| *number = 0);
        }
        assert!(!numbers.contains(&7777), "7777 is more than this plugin can bear");
        let names = read_texts(&input.columns[1], rows)?;
        let louder: Vec<Option<String>> = names.into_iter().map(|name| name.map(|name| name + "!")).collect();
        let keep: Vec<bool> = numbers.iter().map(|number| number % 2 == 0).collect();
        let plain = |data| Column { data, offsets: None, validity: None };
        let twice = plain(numbers.iter().flat_map(|number| number.wrapping_mul(2).to_le_bytes()).collect());
        let mut columns = Columns { rows: input.rows, columns: vec![plain(bits(&keep)), texts(&louder), twice] };
        let bad = (0_u64..).zip(&numbers).filter(|(_, number)| **number == 13);
        let mut bad: Vec<RowError> =
            bad.map(|(row, _)| RowError { row, column: Some("n".into()), message: "13 is unlucky".into() }).collect();
        tell(&self.lie, &mut columns, &mut bad);
        Ok(Processed { rows: vec![columns], bad, extra: String::new() })
    }
}

/// Makes an answer wrong.
fn tell(lie: &str, answer: &mut Columns, bad: &mut Vec<RowError>) {
    let rows = answer.rows as usize;
    let set_offset = |column: &mut Column, row: usize, value: u32| {
        if let Some(offsets) = &mut column.offsets {
            offsets[row * 4..row * 4 + 4].copy_from_slice(&value.to_le_bytes());
        }
    };
    match lie {
        "short-data" => answer.columns[2].data.truncate(rows * 8 - 1),
        "long-data" => answer.columns[2].data.push(0),
        "short-bits" => answer.columns[0].data.clear(),
        "back" => set_offset(&mut answer.columns[1], 1, 1000),
        "outside" => set_offset(&mut answer.columns[1], rows, 1000),
        "negative" => set_offset(&mut answer.columns[1], 0, u32::MAX),
        "no-offsets" => answer.columns[1].offsets = None,
        "offsets-for-numbers" => answer.columns[2].offsets = Some(vec![0; (rows + 1) * 4]),
        "no-text" => answer.columns[1].data.fill(0xff),
        "short-validity" => answer.columns[1].validity = Some(Vec::new()),
        "null" => answer.columns[2].validity = Some(vec![0; rows.div_ceil(8)]),
        "mask-with-nulls" => answer.columns[0].validity = Some(vec![0; rows.div_ceil(8)]),
        "more-rows" => answer.rows += 1,
        "all-rows" => answer.rows = u32::MAX,
        "fewer-columns" => answer.columns.truncate(2),
        "more-columns" => answer.columns.push(Column { data: Vec::new(), offsets: None, validity: None }),
        "bad-beyond" => bad.push(RowError { row: rows as u64, column: None, message: String::new() }),
        _ => {}
    }
}

export_transform_columns!(RawColumns);
