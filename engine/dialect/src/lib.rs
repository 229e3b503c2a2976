//! The value dialect: parser, static types, reference evaluator and translation to DataFusion physical expressions.
