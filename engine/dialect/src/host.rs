//! Functions that a host adds to the dialect.

use crate::binder::convert;
use crate::lex::{Token, tokens};
use crate::node::{Call, KernelFn, Kind, Node, RowFn};
use crate::types::{self, Class, canonical, class};
use crate::value::{Value, build};
use crate::{Diagnostic, Typed, functions, typed};
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::{Result as DataFusionResult, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// The functions that expressions may call: the dialect's own, and those a host has registered here.
///
/// ```
/// use arrow::array::{AsArray, Float64Array, RecordBatch};
/// use arrow::datatypes::{DataType, Field, Float64Type, Schema};
/// use std::sync::Arc;
/// use tidegate_api::EventTime;
/// use tidegate_dialect::{Functions, HostFunction, Signature, Value};
///
/// let mut functions = Functions::standard();
/// functions.register(
///     HostFunction::per_row("tax", Signature::exact(vec![DataType::Float64], DataType::Float64), |args| match args {
///         [Value::Float(net)] if *net >= 0.0 => Ok(Value::Float(net * 0.19)),
///         _ => Err("a price is not negative".to_string()),
///     })
///     .with_doc("The tax on a net price; a negative price makes a bad row."),
/// )?;
///
/// let schema = Arc::new(Schema::new(vec![Field::new("price", DataType::Float64, true)]));
/// let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Float64Array::from(vec![100.0, -1.0]))])?;
/// let found = functions.bind("price + tax(price)", &schema)?.compile().evaluate(&batch, EventTime(0));
/// assert_eq!(found.values.as_primitive::<Float64Type>().value(0), 119.0);
/// assert_eq!(found.bad, [(1, "a price is not negative".to_string())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Functions {
    host: BTreeMap<String, Arc<HostFunction>>,
}

impl Functions {
    /// The dialect's own functions.
    pub fn standard() -> Self {
        Functions::default()
    }

    /// Adds a host's function.
    ///
    /// # Errors
    /// `Config`: the name is no bare name of the language, or a function of that name exists.
    pub fn register(&mut self, function: HostFunction) -> Result<()> {
        let name = function.name.as_str();
        let bare = tokens(name).is_ok_and(|found| matches!(&found[0].token, Token::Name(word) if word == name));
        if !bare || ["true", "false", "null", "in"].contains(&name) {
            return Err(Error::config(format!("`{name}` is no name of a function: letters, digits and `_`, not starting with a digit")));
        }
        if functions::find(name).is_some() || self.host.contains_key(name) {
            return Err(Error::config(format!("there is a function `{name}` already, give yours another name")));
        }
        self.host.insert(function.name.clone(), Arc::new(function));
        Ok(())
    }

    /// As [`bind`](crate::bind), with these functions.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn bind(&self, text: &str, schema: &SchemaRef) -> std::result::Result<Typed, Diagnostic> {
        typed::bind_with(text, schema, self)
    }

    /// The functions that a host has registered, by name.
    pub fn registered(&self) -> impl Iterator<Item = &HostFunction> {
        self.host.values().map(AsRef::as_ref)
    }

    pub(crate) fn host(&self, name: &str) -> Option<&HostFunction> {
        self.host.get(name).map(AsRef::as_ref)
    }

    pub(crate) fn signature(&self, name: &str) -> Option<&str> {
        functions::find(name).map(|function| function.signature).or_else(|| self.host(name).map(HostFunction::signature))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        functions::functions().iter().map(|function| function.name).chain(self.host.keys().map(String::as_str))
    }
}

type Resolve = Arc<dyn Fn(&[DataType]) -> std::result::Result<(Vec<DataType>, DataType), String> + Send + Sync>;

/// What a host's function takes and gives.
#[derive(Clone)]
pub struct Signature {
    arity: (usize, usize),
    text: String,
    resolve: Resolve,
}

impl Signature {
    /// Arguments of these types and a result of that type. An argument of another type is converted if the promotion rules
    /// of the dialect do it, such as an integer where a float is wanted; otherwise the call is a mistake.
    pub fn exact(takes: Vec<DataType>, gives: DataType) -> Self {
        let names: Vec<String> = takes.iter().map(types::name).collect();
        let text = format!("({}) -> {}", names.join(", "), types::name(&gives));
        let arity = (takes.len(), takes.len());
        Signature { arity, text, resolve: Arc::new(move |_| Ok((takes.clone(), gives.clone()))) }
    }

    /// A result type, and the types that arguments are converted to, found from the types of the arguments. `text` is what
    /// follows the name where the signature is shown, such as `(list, number?) -> number`. `resolve` may refuse: its words
    /// become the mistake, such as "the first argument is a list".
    pub fn resolved(
        arity: RangeInclusive<usize>,
        text: &str,
        resolve: impl Fn(&[DataType]) -> std::result::Result<(Vec<DataType>, DataType), String> + Send + Sync + 'static,
    ) -> Self {
        Signature { arity: (*arity.start(), *arity.end()), text: text.to_string(), resolve: Arc::new(resolve) }
    }
}

type RowBody = Arc<dyn Fn(&[Value]) -> std::result::Result<Value, String> + Send + Sync>;
type BatchBody = Arc<dyn Fn(&[ArrayRef], usize) -> std::result::Result<ArrayRef, String> + Send + Sync>;

#[derive(Clone)]
enum Body {
    Row(RowBody),
    Batch(BatchBody),
}

/// A function of a host. Text reaches it as `Utf8View`, lists as `List`. It gives the same value for the same arguments, every
/// time: what is constant is computed once, and a replay computes again. A row with a null argument gives null; the function
/// is not asked, or what it gave for that row is not used.
#[derive(Clone)]
pub struct HostFunction {
    name: String,
    signature: Signature,
    shown: String,
    doc: String,
    body: Body,
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFunction").field("signature", &self.shown).finish_non_exhaustive()
    }
}

impl HostFunction {
    fn new(name: &str, signature: Signature, body: Body) -> Self {
        let shown = format!("{name}{}", signature.text);
        HostFunction { name: name.to_string(), signature, shown, doc: String::new(), body }
    }

    /// A function of the values of one row. An error makes its row bad. It runs row by row, from any thread; a plan marks it.
    pub fn per_row(
        name: &str,
        signature: Signature,
        body: impl Fn(&[Value]) -> std::result::Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        HostFunction::new(name, signature, Body::Row(Arc::new(body)))
    }

    /// A function of whole columns, each with as many rows as the second argument says; so has its result. On an error the
    /// batch is asked for again in smaller and smaller parts, until single rows have failed: those are bad.
    pub fn per_batch(
        name: &str,
        signature: Signature,
        body: impl Fn(&[ArrayRef], usize) -> std::result::Result<ArrayRef, String> + Send + Sync + 'static,
    ) -> Self {
        HostFunction::new(name, signature, Body::Batch(Arc::new(body)))
    }

    /// Says what it does, for `tidegate functions`.
    #[must_use]
    pub fn with_doc(mut self, doc: &str) -> Self {
        self.doc = doc.to_string();
        self
    }

    /// The name by which it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name, what it takes and what it gives.
    pub fn signature(&self) -> &str {
        &self.shown
    }

    /// What it does.
    pub fn doc(&self) -> &str {
        &self.doc
    }

    pub(crate) fn arity(&self) -> (usize, usize) {
        self.signature.arity
    }

    /// The call of it with these arguments.
    pub(crate) fn bind(&self, text: &str, span: Range<usize>, nodes: Vec<Node>) -> std::result::Result<Node, Diagnostic> {
        let fail = |span: &Range<usize>, message: String| Err(Diagnostic::new(text, span.clone(), message));
        let given: Vec<DataType> = nodes.iter().map(|node| node.ty.clone()).collect();
        let (wanted, gives) = match (self.signature.resolve)(&given) {
            Ok(found) => found,
            Err(message) => return fail(&span, format!("`{}`: {message}", self.shown)),
        };
        if wanted.len() != nodes.len() || wanted.iter().chain([&gives]).any(|ty| canonical(ty) != *ty) {
            let wrong = "its signature does not fit the dialect: one type for each argument, text as Utf8View, lists as List";
            return fail(&span, format!("`{}`: {wrong}", self.shown));
        }
        let mut args = Vec::with_capacity(nodes.len());
        for (at, (node, wanted)) in nodes.into_iter().zip(wanted).enumerate() {
            if types::common(&node.ty, &wanted).as_ref() != Some(&wanted) {
                let (wanted, found) = (types::name(&wanted), types::name(&node.ty));
                return fail(&node.span, format!("argument {} of `{}` is {wanted}, not {found}", at + 1, self.name));
            }
            args.push(convert(node, &wanted));
        }
        let types = args.iter().map(|arg| arg.ty.clone()).collect();
        let (row, kernel) = match &self.body {
            Body::Row(body) => (self.row(Arc::clone(body), gives.clone()), None),
            Body::Batch(body) => {
                let checked = self.checked(Arc::clone(body), gives.clone());
                (single(Arc::clone(&checked), types), Some(kernel(checked)))
            }
        };
        let call = Call { name: "host function", args, row, kernel };
        Ok(Node::new(Kind::Call(call), gives, span, true))
    }

    /// The body, whose value must be of the type it promised.
    fn row(&self, body: RowBody, gives: DataType) -> RowFn {
        let name = self.name.clone();
        Arc::new(move |args| match body(args)? {
            value if is_of(&value, &gives) => Ok(value),
            _ => Err(format!("`{name}` gave a value that is not {}", types::name(&gives))),
        })
    }

    fn checked(&self, body: BatchBody, gives: DataType) -> BatchBody {
        let name = self.name.clone();
        Arc::new(move |args, rows| {
            let found = body(args, rows)?;
            if *found.data_type() != gives {
                return Err(format!("`{name}` gave {}, not {}", types::name(found.data_type()), types::name(&gives)));
            }
            match found.len() == rows {
                true => Ok(found),
                false => Err(format!("`{name}` gave {} rows for {rows}", found.len())),
            }
        })
    }
}

/// The definition of a function over columns: itself, over columns of one row.
fn single(body: BatchBody, types: Vec<DataType>) -> RowFn {
    Arc::new(move |args| {
        let columns: Vec<ArrayRef> = args.iter().zip(&types).map(|(arg, ty)| build(ty, std::slice::from_ref(arg))).collect();
        Ok(Value::read(&body(&columns, 1)?, 0))
    })
}

fn kernel(body: BatchBody) -> KernelFn {
    Arc::new(move |args, rows| {
        let columns = args.iter().map(|arg| arg.to_array(rows)).collect::<DataFusionResult<Vec<_>>>()?;
        let found = match body(&columns, rows) {
            Ok(found) => found,
            Err(message) => return exec_err!("{message}"),
        };
        let nulls = columns.iter().fold(None, |nulls, column| NullBuffer::union(Option::as_ref(&nulls), column.logical_nulls().as_ref()));
        Ok(ColumnarValue::Array(match nulls {
            Some(nulls) if nulls.null_count() > 0 => nullif(&found, &BooleanArray::new(!nulls.inner(), None))?,
            _ => found,
        }))
    })
}

/// Whether a value is of a type.
fn is_of(value: &Value, ty: &DataType) -> bool {
    match (value, ty) {
        (Value::Null, _) => true,
        (Value::Int(value), ty) => types::integer_range(ty).is_some_and(|(least, most)| *value >= least && *value <= most),
        (Value::Decimal(value), DataType::Decimal128(precision, _)) => types::fits(*value, *precision).is_some(),
        (Value::List(items), DataType::List(item)) => items.iter().all(|value| is_of(value, item.data_type())),
        (Value::Object(members), DataType::Struct(fields)) => {
            members.len() == fields.len() && members.iter().zip(fields).all(|(value, field)| is_of(value, field.data_type()))
        }
        (Value::Nested(one), ty) => one.data_type() == ty && one.len() == 1,
        (Value::Bytes(_), ty) => matches!(ty, DataType::Binary | DataType::LargeBinary | DataType::BinaryView),
        (Value::Bool(_), ty) => class(ty) == Class::Bool,
        (Value::Float(_), ty) => class(ty) == Class::Float,
        (Value::Text(_), ty) => class(ty) == Class::Text,
        (Value::Time(value), DataType::Date32 | DataType::Time32(_)) => i32::try_from(*value).is_ok(),
        (Value::Time(_), ty) => matches!(ty, DataType::Timestamp(..) | DataType::Date64 | DataType::Time64(_)),
        (Value::Decimal(_) | Value::List(_) | Value::Object(_), _) => false,
    }
}
