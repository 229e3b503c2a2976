//! Components by hand: core modules in text form, with the canonical ABI spelled out, embedded into the worlds of `wit/`.
//!
//! They need no guest toolchain, and can misbehave in ways a guest SDK would not let them.
#![allow(dead_code, unreachable_pub, unused_macros, clippy::unwrap_used, reason = "each test file uses its part")]

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_ipc::writer::StreamWriter;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Generation, RunId, RunIdentity};
use tidegate_host::{HostConfig, Limits, Plugin, PluginHost, PluginSpec};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

pub mod prober;
pub mod servers;

/// The columns of a literal table: `("name", Type, [values])`.
macro_rules! rows {
    ($(($name:literal, $array:ident, $values:expr)),+ $(,)?) => {
        arrow::array::RecordBatch::try_from_iter([$(($name, std::sync::Arc::new(arrow::array::$array::from(Vec::from($values))) as arrow::array::ArrayRef)),+]).unwrap()
    };
}

/// A host, and a directory for its plugins.
pub struct World {
    pub dir: tempfile::TempDir,
    pub host: Arc<PluginHost>,
}

impl World {
    pub fn new() -> Self {
        World { dir: tempfile::tempdir().unwrap(), host: PluginHost::new(HostConfig::new()).unwrap() }
    }

    pub fn file(&self, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join("plugin.wasm");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub fn load(&self, bytes: &[u8], limits: Limits) -> Arc<Plugin> {
        let spec = PluginSpec::new("hostile", self.file(bytes)).limited_to(limits);
        self.host.load(&spec).unwrap()
    }

    pub fn load_error(&self, bytes: &[u8]) -> String {
        let error = self.host.load(&PluginSpec::new("hostile", self.file(bytes))).err().expect("it must not load");
        assert_eq!(error.kind(), tidegate_api::ErrorKind::Config);
        error.to_string()
    }
}

/// Limits that a test can wait for.
pub fn small() -> Limits {
    let mut limits = Limits::default();
    limits.memory = 8 << 20;
    limits.output = 1 << 20;
    limits.deadline = Duration::from_millis(200);
    limits.io_timeout = Duration::from_millis(200);
    limits
}

pub fn run() -> RunIdentity {
    RunIdentity::new("pipe", RunId::new("run"), Generation(1), "stage")
}

/// The directory of the border's WIT.
pub fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// Bytes as the text of a data segment.
pub fn data(at: u32, bytes: &[u8]) -> String {
    let mut text = format!("(data (i32.const {at}) \"");
    for byte in bytes {
        let _ = write!(text, "\\{byte:02x}");
    }
    text + "\")"
}

/// A schema message, in plain layouts.
pub fn schema_message(schema: &Schema) -> Vec<u8> {
    StreamWriter::try_new(Vec::new(), schema).unwrap().get_ref().clone()
}

/// A record-batch message.
pub fn batch_message(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
    writer.get_mut().clear();
    writer.write(batch).unwrap();
    writer.get_ref().clone()
}

/// What every hand-made guest has: a memory, an allocator, and a page of zeros for empty answers.
const COMMON: &str = r#"
  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 65536))
  (func $alloc (export "cabi_realloc") (param i32 i32 i32) (param $length i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.set $heap (i32.add (local.get $at) (local.get $length)))
    (block $enough
      (br_if $enough (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
      (br_if $enough (i32.ne (i32.const -1) (memory.grow (i32.add (i32.const 1)
        (i32.div_u (i32.sub (global.get $heap) (i32.mul (memory.size) (i32.const 65536))) (i32.const 65536))))))
      unreachable)
    (local.get $at))
"#;

/// Ways to misbehave in any function.
pub mod ways {
    pub const TRAP: &str = "unreachable";
    pub const LOOP: &str = "(loop $ever (br $ever))";
    pub const ALLOCATE: &str = "(loop $ever (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable)) (br $ever))";
    pub const RECURSE: &str = "(call $recurse)";
}

/// A transform by hand. The default is the identity, rowwise.
pub struct TransformGuest {
    /// In `bind`, before it answers.
    pub in_bind: String,
    /// In `open`.
    pub in_open: String,
    /// In `process`, before it answers; locals `$rep $ptr $len` are its arguments, `$at $end` are free.
    pub in_process: String,
    /// In `process`, after the answer was laid out at 1152 and before it is returned.
    pub before_return: String,
    /// What `bind` declares; `None` for the input's schema.
    pub declares: Option<Vec<u8>>,
    /// 0 rowwise, 1 rowwise-filter, 2 free.
    pub shape: u32,
    pub world: &'static str,
    pub version: &'static str,
    pub extra: String,
}

impl Default for TransformGuest {
    fn default() -> Self {
        TransformGuest {
            in_bind: String::new(),
            in_open: String::new(),
            in_process: String::new(),
            before_return: String::new(),
            declares: None,
            shape: 0,
            world: "transform-plugin",
            version: "0.1.0",
            extra: String::new(),
        }
    }
}

/// Traps when the 8 bytes of this number stand anywhere in the message.
pub const POISON: i64 = 0x2121_4e4f_5349_4f50;

pub fn trap_on_poison() -> String {
    format!(
        r#"(local.set $at (local.get $ptr))
           (local.set $end (i32.sub (i32.add (local.get $ptr) (local.get $len)) (i32.const 8)))
           (loop $scan
             (if (i64.eq (i64.load align=1 (local.get $at)) (i64.const {POISON})) (then unreachable))
             (local.set $at (i32.add (local.get $at) (i32.const 1)))
             (br_if $scan (i32.le_u (local.get $at) (local.get $end))))"#
    )
}

impl TransformGuest {
    pub fn core(&self) -> String {
        let interface = format!("tidegate:plugin/transform@{}", self.version);
        let log = format!("tidegate:plugin/log@{}", self.version);
        let declares = match &self.declares {
            Some(bytes) => {
                format!("(i32.store (i32.const 1056) (i32.const 8192)) (i32.store (i32.const 1060) (i32.const {}))", bytes.len())
            }
            None => "(i32.store (i32.const 1056) (local.get $sp)) (i32.store (i32.const 1060) (local.get $sl))".to_string(),
        };
        let declared = self.declares.as_ref().map_or(String::new(), |bytes| data(8192, bytes));
        let TransformGuest { in_bind, in_open, in_process, before_return, shape, extra, .. } = self;
        format!(
            r#"(module
  (import "[export]{interface}" "[resource-new]processor" (func $new (param i32) (result i32)))
  (import "{log}" "write" (func $log (param i32 i32 i32 i32 i32)))
  {COMMON}
  {declared}
  {extra}
  (func $recurse (call $recurse))
  (func (export "{interface}#describe") (result i32) (i32.const 2048))
  (func (export "{interface}#bind") (param $cp i32) (param $cl i32) (param $sp i32) (param $sl i32) (result i32)
    {in_bind}
    {declares}
    (i32.store8 (i32.const 1064) (i32.const {shape}))
    (i32.const 1024))
  (func (export "{interface}#[static]processor.open")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32 i32 i32) (result i32)
    {in_open}
    (i32.store (i32.const 1096) (call $new (i32.const 7)))
    (i32.const 1088))
  (func (export "{interface}#[method]processor.process") (param $rep i32) (param $ptr i32) (param $len i32) (result i32)
    (local $at i32) (local $end i32)
    {in_process}
    (i32.store (i32.const 1280) (local.get $ptr))
    (i32.store (i32.const 1284) (local.get $len))
    (i32.store (i32.const 1160) (i32.const 1280))
    (i32.store (i32.const 1164) (i32.const 1))
    {before_return}
    (i32.const 1152))
  (func (export "cabi_post_{interface}#[method]processor.process") (param i32)
    (global.set $heap (i32.const 65536)))
)"#
        )
    }

    pub fn component(&self) -> Vec<u8> {
        component(&self.core(), self.world)
    }
}

/// Packs a core module in text form into a component of a world of `wit/`.
pub fn component(core: &str, world: &str) -> Vec<u8> {
    let module = described(core, world);
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// A core module that says which component it wants to be.
pub fn described(core: &str, world: &str) -> Vec<u8> {
    let mut module = wat::parse_str(core).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(wit()).unwrap();
    let world = match world {
        // A source that can wait for a clock.
        "waiting-source" => {
            resolve.push_str("io.wit", "package wasi:io@0.2.0; interface poll { resource pollable { block: func(); } }").unwrap();
            let clocks = "package wasi:clocks@0.2.0; interface monotonic-clock { use wasi:io/poll@0.2.0.{pollable}; subscribe-duration: func(when: u64) -> pollable; }";
            resolve.push_str("clocks.wit", clocks).unwrap();
            let test = "package test:waiting; world waiting-source { include tidegate:plugin/source-plugin@0.1.0; import wasi:io/poll@0.2.0; import wasi:clocks/monotonic-clock@0.2.0; }";
            let package = resolve.push_str("test.wit", test).unwrap();
            resolve.select_world(&[package], Some("waiting-source")).unwrap()
        }
        world => resolve.select_world(&[package], Some(world)).unwrap(),
    };
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

/// A source by hand: one split `s` of one chunk, then finished.
pub struct SourceGuest {
    pub schema: Vec<u8>,
    pub rows: Vec<u8>,
    pub in_bind: String,
    pub in_poll: String,
    pub in_discover: String,
    /// Which state `poll` reports from the second poll on: 2 finished, 3 rebind.
    pub then: u32,
    pub imports: String,
    pub world: &'static str,
}

impl SourceGuest {
    pub fn new(rows: &RecordBatch) -> Self {
        SourceGuest {
            schema: schema_message(rows.schema_ref()),
            rows: batch_message(rows),
            in_bind: String::new(),
            in_poll: String::new(),
            in_discover: String::new(),
            then: 2,
            imports: String::new(),
            world: "source-plugin",
        }
    }

    pub fn component(&self) -> Vec<u8> {
        let interface = "tidegate:plugin/source@0.1.0";
        let scope = "(param i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32)";
        let (schema, rows) = (data(8192, &self.schema), data(16384, &self.rows));
        let (schema_len, rows_len) = (self.schema.len(), self.rows.len());
        let SourceGuest { in_bind, in_poll, in_discover, then, imports, .. } = self;
        let core = format!(
            r#"(module
  (import "[export]{interface}" "[resource-new]reader" (func $new (param i32) (result i32)))
  {imports}
  {COMMON}
  {schema}
  {rows}
  (data (i32.const 3000) "s1")
  (global $polls (mut i32) (i32.const 0))
  (func (export "{interface}#describe") (result i32) (i32.const 2048))
  (func (export "{interface}#bind") {scope} (param i32 i32 i32) (result i32)
    {in_bind}
    (i32.store (i32.const 1032) (i32.const 8192))
    (i32.store (i32.const 1036) (i32.const {schema_len}))
    (i32.store8 (i32.const 1040) (i32.const 1))
    (i32.store8 (i32.const 1041) (i32.const 1))
    (i32.const 1024))
  (func (export "{interface}#discover") {scope} (param i32 i32 i32) (result i32)
    {in_discover}
    (i32.store (i32.const 1608) (i32.const 1700))
    (i32.store (i32.const 1612) (i32.const 1))
    (i32.store (i32.const 1700) (i32.const 3000))
    (i32.store (i32.const 1704) (i32.const 1))
    (i32.const 1600))
  (func (export "{interface}#[static]reader.open") {scope} (param i32 i32 i32) (result i32)
    (i32.store (i32.const 1096) (call $new (i32.const 7)))
    (i32.const 1088))
  (func (export "{interface}#[method]reader.assign") (param i32 i32 i32) (result i32) (i32.const 2048))
  (func (export "{interface}#[method]reader.committed") (param i32 i32 i32) (result i32) (i32.const 2048))
  (func (export "{interface}#[method]reader.poll") (param $rep i32) (param i32 i32 i32) (result i32)
    {in_poll}
    (global.set $polls (i32.add (global.get $polls) (i32.const 1)))
    ;; polled at 1160: chunks, states, retry-after, extra
    (i64.store (i32.const 1160) (i64.const 0))
    (i64.store (i32.const 1168) (i64.const 0))
    (if (i32.eq (global.get $polls) (i32.const 1))
      (then
        (i32.store (i32.const 1160) (i32.const 1280))
        (i32.store (i32.const 1164) (i32.const 1))
        (i32.store (i32.const 1280) (i32.const 3000)) (i32.store (i32.const 1284) (i32.const 1))
        (i32.store (i32.const 1288) (i32.const 16384)) (i32.store (i32.const 1292) (i32.const {rows_len}))
        (i32.store (i32.const 1296) (i32.const 3001)) (i32.store (i32.const 1300) (i32.const 1)))
      (else
        (i32.store (i32.const 1168) (i32.const 1400))
        (i32.store (i32.const 1172) (i32.const 1))
        (i32.store (i32.const 1400) (i32.const 3000)) (i32.store (i32.const 1404) (i32.const 1))
        (i32.store8 (i32.const 1408) (i32.const {then}))))
    (i32.const 1152))
)"#
        );
        component(&core, self.world)
    }
}

/// A sink by hand that takes everything. Two-phase tokens are the byte `t`.
#[derive(Default)]
pub struct SinkGuest {
    /// 0 at-least-once, 2 two-phase.
    pub guarantee: u32,
    pub in_write: String,
    pub in_flush: String,
    pub in_commit: String,
    pub extra: String,
}

impl SinkGuest {
    pub fn component(&self) -> Vec<u8> {
        let interface = "tidegate:plugin/sink@0.1.0";
        let scope = "(param i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32)";
        let SinkGuest { guarantee, in_write, in_flush, in_commit, extra } = self;
        let core = format!(
            r#"(module
  (import "[export]{interface}" "[resource-new]writer" (func $new (param i32) (result i32)))
  {COMMON}
  (data (i32.const 3000) "appendanyt")
  {extra}
  (func (export "{interface}#describe") (result i32) (i32.const 2048))
  ;; plan at 1032: reads, wants-keys @12, accepts @16, distribution @24, max-parallelism @32, guarantee @40, extra @44
  (func (export "{interface}#bind") {scope} (param i32 i32) (result i32)
    (i32.store (i32.const 1048) (i32.const 3000)) (i32.store (i32.const 1052) (i32.const 6))
    (i32.store (i32.const 1056) (i32.const 3006)) (i32.store (i32.const 1060) (i32.const 3))
    (i32.store8 (i32.const 1072) (i32.const {guarantee}))
    (i32.const 1024))
  (func (export "{interface}#[static]writer.open") {scope} (param i32 i32) (result i32)
    (i32.store (i32.const 1096) (call $new (i32.const 7)))
    (i32.const 1088))
  (func (export "{interface}#[method]writer.write") (param $rep i32) (param $ptr i32) (param $len i32) (param i32 i32 i32) (result i32)
    {in_write}
    (i32.const 2048))
  (func (export "{interface}#[method]writer.flush") (param i32) (result i32)
    {in_flush}
    (i32.const 2048))
  ;; prepared at 1208: token option<list<u8>>, extra
  (func (export "{interface}#[method]writer.prepare") (param i32 i64) (result i32)
    (i32.store8 (i32.const 1208) (i32.const 1))
    (i32.store (i32.const 1212) (i32.const 3009)) (i32.store (i32.const 1216) (i32.const 1))
    (i32.const 1200))
  ;; one outcome `done` whatever was asked
  (func (export "{interface}#commit") {scope} (param i64 i32 i32) (result i32)
    {in_commit}
    (i32.store (i32.const 1512) (i32.const 2100)) (i32.store (i32.const 1516) (i32.const 1))
    (i32.const 1504))
  (func (export "{interface}#abort") {scope} (param i64 i32 i32) (result i32) (i32.const 2048))
  (func (export "{interface}#recover") {scope} (param i32 i32) (result i32) (i32.const 2048))
)"#
        );
        component(&core, "sink-plugin")
    }
}
