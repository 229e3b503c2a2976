//! Rows of one reading in, what differs from the reading before out.
//!
//! Of every row that was handed over, its key is kept and a hash of the rest. A row that is new or hashes otherwise is an upsert; when a
//! reading is complete, a key that it did not bring is a delete. What was handed over is kept as such at once, so a reading that breaks
//! off leaves nothing wrong: the next one differs from what was in fact handed over.
//!
//! A reading may be of some rows and of all keys: a key that is known keeps what is known of it. One that is not known and did not come with
//! its row asks for a reading of all rows.

use super::database::Failure;
use super::loader::Message;
use crate::decode::ValueRows;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt8Array, UInt32Array, new_null_array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::row::{RowConverter, RowParser, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use foldhash::quality::FixedState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Error, Result, hidden};
use tokio::sync::mpsc::Sender;

/// Rows of a batch of deletes.
const PORTION: usize = 8192;
/// What may wait to be taken before a reading waits with it.
const BACKLOG_BYTES: usize = 64 << 20;
/// How long a reading waits: as long, the database keeps a state for it, and SQLite lets nobody write.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known of a key.
struct Entry {
    /// Of all columns. Twice 64 bits: a change that hashes alike would never be seen.
    row: u128,
    /// The last reading that brought it.
    reading: u32,
}

/// See the module's documentation.
pub(super) struct Differ {
    keys: Vec<usize>,
    by_key: RowConverter,
    by_row: RowConverter,
    known: HashMap<Box<[u8]>, Entry, FixedState>,
    hashes: [FixedState; 2],
    reading: u32,
    most: usize,
    /// The columns, and behind them what each row does.
    schema: SchemaRef,
    shown: String,
    out: Sender<Message>,
    /// What was not taken yet, and its size. It is known as handed over, so no failure may lose it.
    backlog: VecDeque<Message>,
    backlog_bytes: usize,
}

impl Differ {
    /// Of a table of these columns, of which `keys` are the key. `schema` ends with `_op`.
    ///
    /// # Errors
    /// `Internal` for columns that cannot be compared.
    pub(super) fn new(schema: SchemaRef, keys: Vec<usize>, most: usize, shown: String, out: Sender<Message>) -> Result<Self> {
        let sorted = |index: usize| SortField::new(schema.field(index).data_type().clone());
        let columns = schema.fields().len() - 1;
        Ok(Differ {
            by_key: RowConverter::new(keys.iter().map(|key| sorted(*key)).collect())?,
            by_row: RowConverter::new((0..columns).map(sorted).collect())?,
            keys,
            known: HashMap::with_hasher(FixedState::with_seed(3)),
            hashes: [FixedState::with_seed(1), FixedState::with_seed(2)],
            reading: 0,
            most,
            schema,
            shown,
            out,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
        })
    }

    /// A reading begins.
    pub(super) fn begin(&mut self) {
        self.reading = self.reading.wrapping_add(1);
    }

    /// How many rows the table has, as far as they were handed over.
    pub(super) fn rows(&self) -> usize {
        self.known.len()
    }

    /// Takes rows of the reading.
    pub(super) async fn take(&mut self, rows: &mut ValueRows) -> Result<(), Failure> {
        if rows.len() == 0 {
            return Ok(());
        }
        let (batch, fault) = rows.take().map_err(Failure::Final)?;
        if let Some((row, fault)) = fault {
            let key = self.key_of(&batch, row).map_err(Failure::Final)?;
            return Err(Failure::Final(Error::data(format!("{}, the row of key {key}: {}", self.shown, fault.message))));
        }
        match self.differing(batch).map_err(Failure::Final)? {
            Some(changes) => self.offer(Message::Rows(changes)).await,
            None => Ok(()),
        }
    }

    /// Takes keys of rows that there are. Answers whether all are known.
    pub(super) fn take_keys(&mut self, rows: &mut ValueRows) -> Result<bool, Failure> {
        let (batch, fault) = rows.take().map_err(Failure::Final)?;
        // A key that cannot be read is told by the reading of all rows, with its row.
        self.note(&batch).map(|known| known && fault.is_none()).map_err(Failure::Final)
    }

    fn note(&mut self, keys: &RecordBatch) -> Result<bool> {
        let rows = self.by_key.convert_columns(keys.columns())?;
        let mut all = true;
        for row in 0..keys.num_rows() {
            match self.known.get_mut(rows.row(row).data()) {
                Some(entry) => entry.reading = self.reading,
                None => all = false,
            }
        }
        Ok(all)
    }

    /// The reading is complete: what it did not bring is gone. Nothing holds the database any more, so this waits as long as it must.
    pub(super) async fn end(&mut self) -> Result<(), Failure> {
        let reading = self.reading;
        let gone: Vec<Box<[u8]>> = self.known.extract_if(|_, entry| entry.reading != reading).map(|(key, _)| key).collect();
        for portion in gone.chunks(PORTION) {
            let deletes = self.deletes(portion).map_err(Failure::Final)?;
            self.put(Message::Rows(deletes));
            self.settle().await?;
        }
        self.put(Message::Loaded);
        self.settle().await
    }

    /// Waits until everything was taken.
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
        self.settle_to(0).await
    }

    /// Hands over what can be taken at once. Waits only for so long, and only when too much is left.
    async fn offer(&mut self, message: Message) -> Result<(), Failure> {
        self.put(message);
        while let Ok(permit) = self.out.try_reserve() {
            let Some(message) = self.backlog.pop_front() else { return Ok(()) };
            self.backlog_bytes -= size(&message);
            permit.send(message);
        }
        tokio::time::timeout(PATIENCE, self.settle_to(BACKLOG_BYTES)).await.unwrap_or(Err(Failure::Held))
    }

    fn put(&mut self, message: Message) {
        self.backlog_bytes += size(&message);
        self.backlog.push_back(message);
    }

    /// Waits until so much is left. May be given up between any two messages.
    async fn settle_to(&mut self, bytes: usize) -> Result<(), Failure> {
        while self.backlog_bytes > bytes || (bytes == 0 && !self.backlog.is_empty()) {
            let permit = self.out.reserve().await.map_err(|_| Failure::Stopped)?;
            let Some(message) = self.backlog.pop_front() else { break };
            self.backlog_bytes -= size(&message);
            permit.send(message);
        }
        Ok(())
    }

    fn differing(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let key_columns: Vec<ArrayRef> = self.keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
        for (column, index) in key_columns.iter().zip(&self.keys) {
            if let Some(row) = column.nulls().and_then(|nulls| (0..nulls.len()).find(|row| nulls.is_null(*row))) {
                let (name, key) = (self.schema.field(*index).name(), self.key_of(&batch, row)?);
                let message =
                    format!("{}: the key column `{name}` is null in the row of key {key}; leave such rows out with `query`", self.shown);
                return Err(Error::data(message));
            }
        }
        let keys = self.by_key.convert_columns(&key_columns)?;
        let rows = self.by_row.convert_columns(batch.columns())?;
        let mut changed: Vec<u32> = Vec::new();
        for row in 0..batch.num_rows() {
            let bytes = rows.row(row);
            let hash = |half: usize| u128::from(self.hashes[half].hash_one(bytes.data()));
            let hash = (hash(0) << 64) | hash(1);
            let key = keys.row(row);
            match self.known.get_mut(key.data()) {
                Some(entry) if entry.reading == self.reading => {
                    let key = self.key_of(&batch, row)?;
                    return Err(Error::data(format!(
                        "{} has two rows of key {key}, and a look-up could answer either; name more columns in `key`, or choose one with `query`",
                        self.shown
                    )));
                }
                Some(entry) => {
                    entry.reading = self.reading;
                    if entry.row != hash {
                        entry.row = hash;
                        changed.push(row as u32);
                    }
                }
                None => {
                    if self.known.len() >= self.most {
                        let message = format!(
                            "{} has more than {} rows; leave some out with `query`, or raise `maxRows` if there is memory for them",
                            self.shown, self.most
                        );
                        return Err(Error::limit(message));
                    }
                    self.known.insert(key.data().into(), Entry { row: hash, reading: self.reading });
                    changed.push(row as u32);
                }
            }
        }
        if changed.is_empty() {
            return Ok(None);
        }
        let changes = if changed.len() == batch.num_rows() { batch } else { take_record_batch(&batch, &UInt32Array::from(changed))? };
        self.with_op(changes.columns().to_vec(), changes.num_rows(), hidden::UPSERT).map(Some)
    }

    fn deletes(&self, keys: &[Box<[u8]>]) -> Result<RecordBatch> {
        let parser: RowParser = self.by_key.parser();
        let columns = self.by_key.convert_rows(keys.iter().map(|key| parser.parse(key)))?;
        let mut all: Vec<ArrayRef> = self
            .schema
            .fields()
            .iter()
            .take(self.schema.fields().len() - 1)
            .map(|field| new_null_array(field.data_type(), keys.len()))
            .collect();
        for (column, key) in columns.into_iter().zip(&self.keys) {
            all[*key] = column;
        }
        self.with_op(all, keys.len(), hidden::DELETE)
    }

    fn with_op(&self, mut columns: Vec<ArrayRef>, rows: usize, op: u8) -> Result<RecordBatch> {
        columns.push(Arc::new(UInt8Array::from_value(op, rows)));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// A row's key for a message.
    fn key_of(&self, batch: &RecordBatch, row: usize) -> Result<String> {
        let options = FormatOptions::default().with_null("null");
        let mut shown = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let value = ArrayFormatter::try_new(batch.column(*key).as_ref(), &options)?.value(row).to_string();
            shown.push(format!("`{} = {value}`", self.schema.field(*key).name()));
        }
        Ok(shown.join(", "))
    }
}

fn size(message: &Message) -> usize {
    match message {
        Message::Rows(rows) => rows.get_array_memory_size(),
        Message::Loaded | Message::Failed(_) => 0,
    }
}

/// The columns that are handed over: those that are read, null where a delete says nothing, and what each row does.
pub(super) fn with_op(schema: &Schema, keys: &[String]) -> SchemaRef {
    let field = |field: &arrow::datatypes::FieldRef| field.as_ref().clone().with_nullable(!keys.contains(field.name()));
    let fields = schema.fields().iter().map(field).chain([hidden::op_field()]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
