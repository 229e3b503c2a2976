//! End-to-end tests of Tidegate.
