//! The exported functions, made from `abi/functions.txt` by the build script.
#![allow(
    clippy::missing_safety_doc,
    clippy::redundant_field_names,
    clippy::too_many_arguments,
    clippy::undocumented_unsafe_blocks,
    clippy::useless_conversion,
    missing_docs,
    non_snake_case,
    reason = "hundreds of functions of one shape: callers keep MPI's contract for each, which is what is asked of them, \
              and hand it on"
)]

use std::ffi::{c_char, c_int, c_void};

use causeway_mpi::record::run::call::NONE;

use crate::library::{Object, call};
use crate::observed::{Call, begin, end};
use crate::types::{Callback, Handle, Numbers, NumbersOut, Status, not_null, read_or_null};

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
