//! The parallel file system for Python: the compiled part of the package `causeway`, whose other part lies in `python/`.
//!
//! This part is thin: paths are bytes, flags are those of `open(2)`, attributes are tuples. What a program sees of it (file
//! objects, an `fsspec` file system) is made of that in Python. `client` has everything about names, `many` calls on many files, `file` open
//! files, `buffers` how Python's memory is lent to the client library, `error` what exceptions say.
//!
//! No call holds Python's lock while it waits for a server. This crate may use `unsafe` for the memory of Python's
//! objects, in `buffers` only.

mod attributes;
mod buffers;
mod client;
mod error;
mod file;
mod many;

/// The module `causeway._causeway`.
#[pyo3::pymodule]
mod _causeway {
    #[pymodule_export]
    use super::client::Client;
    #[pymodule_export]
    use super::file::File;
}
