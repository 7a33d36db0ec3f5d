//! The C interface as a C programmer meets it: installed into a prefix, found by pkg-config.
//!
//! [`prefix`] installs it the way `make install` does; [`contract`] compares header, version script and
//! library; [`programs`] runs what lies in `tests/c/`, and the example.

#[path = "installed/contract.rs"]
mod contract;
#[path = "installed/prefix.rs"]
mod prefix;
#[path = "installed/programs.rs"]
mod programs;
