//! The `causeway` command.
#![forbid(unsafe_code)]

fn main() {}
