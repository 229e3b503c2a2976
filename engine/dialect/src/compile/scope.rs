//! What a translated part reads: a batch of the columns, the time and the lambda parameters that it uses and no others. Where
//! an operand is evaluated for some rows only, or for the elements of a list, nothing else is selected.

use super::Physical;
use crate::node::{Each, Kind, Leaf, Node};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::{Result, exec_err};
use datafusion_physical_expr::expressions::Column;
use std::sync::Arc;

/// The columns of the batch that a part is evaluated on.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    leaves: Vec<Leaf>,
    pub(super) schema: SchemaRef,
}

impl Scope {
    pub(super) fn new(leaves: Vec<(Leaf, DataType)>) -> Scope {
        let field = |(leaf, ty): &(Leaf, DataType)| {
            let name = match leaf {
                Leaf::Column(index) => format!("column {index}"),
                Leaf::Now => "now()".to_string(),
                Leaf::Param(slot) => format!("parameter {slot}"),
            };
            Field::new(name, ty.clone(), true)
        };
        let schema = Arc::new(Schema::new(leaves.iter().map(field).collect::<Vec<_>>()));
        Scope { leaves: leaves.into_iter().map(|(leaf, _)| leaf).collect(), schema }
    }

    /// The scope of a lambda's body, with what it takes from this one: positions here, in the order of the inner columns, which
    /// the lambda's own parameters follow.
    pub(super) fn within(&self, body: &Node, params: &[(usize, DataType)]) -> Result<(Scope, Vec<usize>)> {
        let (mut leaves, mut captured) = (Vec::new(), Vec::new());
        for (leaf, node) in body.leaves() {
            if params.iter().any(|(slot, _)| leaf == Leaf::Param(*slot)) {
                continue;
            }
            captured.push(self.position(leaf)?);
            leaves.push((leaf, if leaf == Leaf::Now { now_type() } else { node.ty.clone() }));
        }
        leaves.extend(params.iter().map(|(slot, ty)| (Leaf::Param(*slot), ty.clone())));
        Ok((Scope::new(leaves), captured))
    }

    fn position(&self, leaf: Leaf) -> Result<usize> {
        match self.leaves.iter().position(|known| *known == leaf) {
            Some(at) => Ok(at),
            None => exec_err!("{leaf:?} is not in scope"),
        }
    }

    pub(super) fn read(&self, leaf: Leaf) -> Result<Physical> {
        let at = self.position(leaf)?;
        Ok(Arc::new(Column::new(self.schema.field(at).name(), at)))
    }

    /// A part as the reference evaluator takes it over a batch of this scope: everything it reads is a column.
    pub(super) fn localized(&self, node: &Node) -> Result<Node> {
        let mut node = node.clone();
        self.localize(&mut node, &mut Vec::new())?;
        Ok(node)
    }

    fn localize(&self, node: &mut Node, own: &mut Vec<usize>) -> Result<()> {
        let leaf = match &node.kind {
            Kind::Column { index, .. } => Some(Leaf::Column(*index)),
            Kind::Now => Some(Leaf::Now),
            Kind::Param(slot) if !own.contains(slot) => Some(Leaf::Param(*slot)),
            _ => None,
        };
        if let Some(leaf) = leaf {
            let index = self.position(leaf)?;
            node.kind = Kind::Column { index, name: self.schema.field(index).name().clone() };
            return Ok(());
        }
        let before = own.len();
        match &mut node.kind {
            Kind::Let(slot, value, body) => {
                self.localize(value, own)?;
                own.push(*slot);
                self.localize(body, own)?;
            }
            Kind::Each(Each { slot, args, body, .. }) => {
                args.iter_mut().try_for_each(|arg| self.localize(arg, own))?;
                own.extend([*slot, *slot + 1]);
                self.localize(body, own)?;
            }
            _ => node.children_mut().into_iter().try_for_each(|child| self.localize(child, own))?,
        }
        own.truncate(before);
        Ok(())
    }

    /// A batch of this scope.
    pub(super) fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

pub(super) fn now_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}
