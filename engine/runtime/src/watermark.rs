//! Watermarks: merging the promises of several inputs, and making them from the rows of a source's splits.
//!
//! Both are pure. A watermark `t` promises no more rows before `t`; what leaves here never moves back. An input without rows
//! may leave the minimum (idle), and its return does not take back what was promised meanwhile.

mod generate;
mod merge;

pub use generate::SourceTime;
pub use merge::WatermarkMerge;
