//! Names and objects.
pub mod store;
