//! Which aggregations there are, and over which types each has a meaning.

use super::{Working, average};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field};
use std::sync::Arc;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// Rows, or a column's non-null values.
    Count,
    /// The different non-null values, exactly.
    CountDistinct,
    /// About how many there are.
    ApproxCountDistinct,
    /// The sum of the non-null values.
    Sum,
    /// Their mean.
    Avg,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
    /// Their variance, over their number.
    VarPop,
    /// Their variance, over one less than their number.
    VarSamp,
    /// The root of [`Function::VarPop`].
    StddevPop,
    /// The root of [`Function::VarSamp`].
    StddevSamp,
    /// Whether all are true.
    BoolAnd,
    /// Whether any is true.
    BoolOr,
    /// The bits that all have.
    BitAnd,
    /// The bits that any has.
    BitOr,
    /// The bits that an odd number of them has.
    BitXor,
    /// The value of the earliest row.
    First,
    /// The value of the latest row.
    Last,
    /// The value in the row where another column is least.
    ArgMin,
    /// The value in the row where another column is greatest.
    ArgMax,
    /// The value in the middle.
    Median,
    /// The value that a part of all lie below.
    Percentile,
    /// All values as a list.
    ArrayAgg,
    /// All texts as one.
    StringAgg,
}

impl Function {
    /// Those there are, by name.
    pub(crate) const ALL: &[(&'static str, Function)] = &[
        ("count", Function::Count),
        ("countDistinct", Function::CountDistinct),
        ("approxCountDistinct", Function::ApproxCountDistinct),
        ("sum", Function::Sum),
        ("avg", Function::Avg),
        ("min", Function::Min),
        ("max", Function::Max),
        ("varPop", Function::VarPop),
        ("varSamp", Function::VarSamp),
        ("stddevPop", Function::StddevPop),
        ("stddevSamp", Function::StddevSamp),
        ("boolAnd", Function::BoolAnd),
        ("boolOr", Function::BoolOr),
        ("bitAnd", Function::BitAnd),
        ("bitOr", Function::BitOr),
        ("bitXor", Function::BitXor),
        ("first", Function::First),
        ("last", Function::Last),
        ("argMin", Function::ArgMin),
        ("argMax", Function::ArgMax),
        ("median", Function::Median),
        ("percentile", Function::Percentile),
        ("arrayAgg", Function::ArrayAgg),
        ("stringAgg", Function::StringAgg),
    ];

    /// Its name in a pipeline file.
    pub(crate) fn name(self) -> &'static str {
        Function::ALL.iter().find(|(_, function)| *function == self).map_or("", |(name, _)| name)
    }

    /// Whether its result is a number also where nothing was aggregated.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Function::Count | Function::CountDistinct | Function::ApproxCountDistinct)
    }

    /// Whether it looks at a second column, `by`.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Function::ArgMin | Function::ArgMax)
    }

    /// Whether its result depends on the order of rows, so that it is given their times.
    pub(crate) fn in_order(self) -> bool {
        matches!(self, Function::First | Function::Last | Function::ArgMin | Function::ArgMax | Function::ArrayAgg | Function::StringAgg)
    }

    /// The type of its result over values of a type, or `None` when it has no meaning there.
    pub(crate) fn result(self, values: &DataType) -> Option<DataType> {
        let number = values.is_integer() || matches!(values, DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _));
        match self {
            Function::Count => Some(DataType::Int64),
            Function::CountDistinct | Function::ApproxCountDistinct => crate::keys::can_group(values).then_some(DataType::Int64),
            Function::Sum => match values {
                integer if integer.is_integer() => Some(DataType::Int64),
                DataType::Float32 | DataType::Float64 => Some(DataType::Float64),
                DataType::Decimal128(_, scale) => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale)),
                _ => None,
            },
            Function::Avg | Function::Median | Function::Percentile => match values {
                DataType::Decimal128(_, scale) => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, average::decimal_scale(*scale))),
                _ => number.then_some(DataType::Float64),
            },
            Function::Min | Function::Max => Working::of(values).map(|_| values.clone()),
            Function::VarPop | Function::VarSamp | Function::StddevPop | Function::StddevSamp => number.then_some(DataType::Float64),
            Function::BoolAnd | Function::BoolOr => (*values == DataType::Boolean).then_some(DataType::Boolean),
            Function::BitAnd | Function::BitOr | Function::BitXor => values.is_integer().then(|| values.clone()),
            Function::First | Function::Last | Function::ArgMin | Function::ArgMax => can_hold(values).then(|| values.clone()),
            Function::ArrayAgg => can_hold(values).then(|| DataType::List(Arc::new(Field::new_list_field(values.clone(), true)))),
            Function::StringAgg => {
                matches!(values, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8).then_some(DataType::Utf8View)
            }
        }
    }
}

/// Whether values of a type can be kept one by one.
fn can_hold(values: &DataType) -> bool {
    !matches!(values, DataType::Null | DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) | DataType::Union(_, _))
}
