//! `ceil`

use super::Function;
use super::floor::whole;

pub(super) const FUNCTION: Function = Function {
    name: "ceil",
    signature: "ceil(number) -> number",
    doc: "The smallest whole number that is not smaller. A float stays a float64, a decimal loses its decimals, an integer stays what it is.",
    examples: &[("ceil(1.2)", "2.0"), ("ceil(-1.7)", "-1.0"), ("ceil(1.20m)", "2m"), ("ceil(7)", "7")],
    arity: (1, 1),
    bind: |args| whole(args, f64::ceil, |value, unit| value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0)),
};
