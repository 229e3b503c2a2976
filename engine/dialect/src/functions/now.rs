//! `now`

use super::Function;
use crate::node::{Kind, Node};
use arrow::datatypes::{DataType, TimeUnit};

pub(super) const FUNCTION: Function = Function {
    name: "now",
    signature: "now() -> timestamp_us",
    doc: "The time of the epoch: one value for all rows between two checkpoints. A replay after a failure may cut epochs elsewhere and give a row another value.",
    examples: &[("now() - now()", "0")],
    arity: (0, 0),
    bind: |args| Ok(Node::new(Kind::Now, DataType::Timestamp(TimeUnit::Microsecond, None), args.span, false)),
};
