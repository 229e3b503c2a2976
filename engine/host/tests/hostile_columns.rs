//! Transforms on raw columns: the same step as with Arrow IPC, and every wrong answer refused.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use arrow::array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use kit::{prober::guest, run};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tidegate_api::{BadReason, Error, ErrorKind, EventTime, Output, StepCtx};
use tidegate_host::{HostConfig, Plugin, PluginHost, PluginSpec, Shape, World};

fn plugin() -> Arc<Plugin> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let host = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap();
    host.load(&PluginSpec::new("raw", guest("raw-columns"))).unwrap()
}

/// Numbers with a name each, beside a column that does not cross.
fn rows(numbers: &[i64]) -> RecordBatch {
    let names = numbers.iter().map(|number| (number % 3 != 0).then(|| format!("ü{number}")));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(numbers.iter().map(|number| Some(vec![Some(*number)])));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("list", Arc::new(lists)),
        ("n", Arc::new(Int64Array::from(numbers.to_vec()))),
        ("name", Arc::new(names.collect::<StringViewArray>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn apply(config: &Value, batch: &RecordBatch) -> Result<Output, Error> {
    let transform = plugin().transform(config, batch.schema())?;
    let mut out = Output::default();
    transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap().apply(batch.clone(), EventTime(0), &mut out)?;
    Ok(out)
}

/// A number column of the output.
fn numbers(out: &Output, name: &str) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch.column_by_name(name).unwrap().as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
    out.batches.iter().flat_map(column).collect()
}

#[test]
fn columns_are_pruned_carried_masked_and_replaced_as_with_ipc() {
    let plugin = plugin();
    assert_eq!((plugin.worlds(), plugin.takes_columns()), ([World::Transform].as_slice(), true));
    assert_eq!(plugin.describe().unwrap().name, "raw-columns");
    let batch = rows(&[1, 2, 3, 4, 6, 13]);
    let transform = plugin.transform(&Value::Null, batch.schema()).unwrap();
    assert_eq!(transform.shape, Shape::RowwiseFilter);
    assert_eq!(
        (transform.reads.join(" "), transform.carries.join(" "), transform.makes.join(" ")),
        ("n name".into(), "list n".into(), "name twice".into())
    );
    let out = apply(&Value::Null, &batch).unwrap();
    assert_eq!((numbers(&out, "n"), numbers(&out, "twice"), out.filtered), (vec![2, 4, 6], vec![4, 8, 12], 2));
    let names = out.batches[0].column_by_name("name").unwrap();
    assert_eq!(names.as_any().downcast_ref::<StringViewArray>().unwrap(), &StringViewArray::from(vec![Some("ü2!"), Some("ü4!"), None]));
    assert_eq!(out.batches[0].column_by_name("list").unwrap().len(), 3);
    let [bad] = out.bad.as_slice() else { panic!("13 is bad, and nothing else") };
    assert_eq!((bad.reason, bad.column.as_deref(), bad.row), (BadReason::Plugin, Some("n"), Some(5)));
}

#[test]
fn one_row_that_traps_costs_itself_and_large_batches_are_cut() {
    let mut all: Vec<i64> = (0..20_000).map(|number| number * 2 + 100_000).collect();
    all[12_345] = 7777;
    let out = apply(&Value::Null, &rows(&all)).unwrap();
    all.remove(12_345);
    assert_eq!(numbers(&out, "n"), all, "in order, without the guilty one");
    let [bad] = out.bad.as_slice() else { panic!("one bad row, not {}", out.bad.len()) };
    assert_eq!((bad.reason, bad.row), (BadReason::PluginTrap, Some(12_345)));
    assert!(bad.message.contains("7777 is more than this plugin can bear"), "{}", bad.message);
}

#[test]
fn what_it_cannot_work_on_is_said_while_planning() {
    let error = apply(&Value::Null, &rows!(("n", StringViewArray, ["a"]), ("name", StringViewArray, ["b"]))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("plugin `raw`: call `bind`: there is no column `n` of type `int64`"), "{error}");
    let error = apply(&json!({ "lie": "unknown-type" }), &rows(&[1])).err().unwrap();
    assert!(error.to_string().contains("call `bind`") && error.to_string().contains("column `twice`"), "{error}");
    // A column that only can be carried is not read, whatever the guest says.
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)])]);
    let opaque: Vec<(&str, ArrayRef)> = vec![("n", Arc::new(Int64Array::from(vec![1]))), ("name", Arc::new(lists))];
    let error = apply(&json!({ "lie": "opaque" }), &RecordBatch::try_from_iter(opaque).unwrap()).err().unwrap();
    assert!(error.to_string().contains("`name`, which is `opaque`"), "{error}");
}

#[test]
fn every_lie_about_columns_is_refused_and_names_the_plugin() {
    let lies = [
        ("short-data", "column `twice`"),
        ("long-data", "column `twice`"),
        ("short-bits", "column `keep`"),
        ("back", "column `name`: its offsets go back"),
        ("outside", "column `name`: its offsets reach"),
        ("negative", "column `name`: its offsets"),
        ("no-offsets", "column `name`: it has no offsets"),
        ("offsets-for-numbers", "column `twice`: it has offsets"),
        ("no-text", "column `name`"),
        ("short-validity", "column `name`: its validity has 0 bytes"),
        ("null", "twice"),
        ("mask-with-nulls", "keep"),
        ("more-rows", "column `keep`"),
        ("all-rows", "4294967295 rows"),
        ("fewer-columns", "2 columns, and 3 are declared"),
        ("more-columns", "4 columns, and 3 are declared"),
        ("bad-beyond", "row 8 of 8 bad"),
    ];
    let batch = rows(&[2, 4, 6, 8, 10, 12, 14, 16]);
    assert!(apply(&json!({ "lie": "none" }), &batch).unwrap().bad.is_empty());
    for (lie, said) in lies {
        let error = apply(&json!({ "lie": lie }), &batch).err().unwrap_or_else(|| panic!("`{lie}` was believed"));
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config, "{lie}: {text}");
        assert!(
            text.contains("plugin `raw`: call `processor.process`") && text.contains(said) && text.contains("mended build"),
            "{lie}: {text}"
        );
    }
}
