//! Transforms on raw column buffers: the small way, without an Arrow library.

use crate::bindings::transform_columns::exports::tidegate::plugin::transform_columns as wit;
use crate::bindings::types;
use crate::{Info, Result, Scope};
use std::cell::RefCell;
use std::marker::PhantomData;

/// A stateless step on raw columns. The types are the bindings' own; see `wit/transform-columns.wit` for the layout of a column.
pub trait ColumnsTransform: Sized + 'static {
    /// What the plugin is. Constant.
    fn info() -> Info;

    /// Answers what it would do to rows of `input` under this configuration, a JSON object. Pure.
    ///
    /// # Errors
    /// `Config` when it cannot work on such rows, naming the column or key.
    fn bind(config: &str, input: &[wit::Field]) -> Result<wit::Plan>;

    /// Opens it for one task. `input` has the columns of the plan's `reads`, in that order.
    ///
    /// # Errors
    /// Any; a `Config` error ends the run.
    fn open(scope: &Scope, input: &[wit::Field]) -> Result<Self>;

    /// Transforms one batch.
    ///
    /// # Errors
    /// `Fatal` when this instance cannot go on.
    fn process(&mut self, input: wit::Columns) -> Result<wit::Processed>;
}

/// The component's export of a [`ColumnsTransform`]; made by [`export_transform_columns!`](crate::export_transform_columns).
pub struct ColumnsGuest<T>(PhantomData<T>);

/// One opened transform.
pub struct OpenColumns<T>(RefCell<T>);

impl<T: ColumnsTransform> wit::Guest for ColumnsGuest<T> {
    type Processor = OpenColumns<T>;

    fn describe() -> types::PluginInfo {
        crate::panic::install();
        T::info().into()
    }

    fn bind(config: String, input: Vec<wit::Field>) -> Result<wit::Plan, types::Error> {
        crate::panic::install();
        Ok(T::bind(&config, &input)?)
    }
}

impl<T: ColumnsTransform> wit::GuestProcessor for OpenColumns<T> {
    fn open(scope: Scope, input: Vec<wit::Field>) -> Result<wit::Processor, types::Error> {
        crate::panic::install();
        Ok(wit::Processor::new(OpenColumns(RefCell::new(T::open(&scope, &input)?))))
    }

    fn process(&self, input: wit::Columns) -> Result<wit::Processed, types::Error> {
        Ok(self.0.borrow_mut().process(input)?)
    }
}

/// Makes a [`ColumnsTransform`] the component's export: `export_transform_columns!(MyType);`, once per crate.
#[macro_export]
macro_rules! export_transform_columns {
    ($transform:ty) => {
        type TidegateTransformGuest = $crate::ColumnsGuest<$transform>;
        $crate::bindings::transform_columns::export_transform_columns_bindings!(TidegateTransformGuest with_types_in $crate::bindings::transform_columns);
    };
}
