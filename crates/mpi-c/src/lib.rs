//! MPI's standard ABI for C: `mpi.h` and `libmpi_abi.so`.
//!
//! Read `abi/functions.txt` first: it lists every function with the module that implements it. The build script makes the
//! exported functions from it (module `exports`), each with its large-count twin: they convert arguments, enter the module `library`, and
//! turn errors into codes. `include/mpi.h` is made from the same list (`cargo run -p causeway-mpi-c --example header`).
//!
//! Everything else is in `causeway-mpi`; here are pointers, C strings, and calls of functions of the program.
//!
//! The shared library is linked by `make mpi`, with versioned symbols.

mod abi_info;
mod access;
mod attributes;
mod buffers;
mod collective;
mod communicator;
mod contents;
mod datatype;
mod dynamic;
mod errors;
mod exports;
mod file;
mod file_access;
mod functions;
mod general;
mod graphs;
mod group;
mod handles;
mod info;
mod keys;
mod leaks;
mod library;
mod neighbours;
mod node;
mod objects;
mod observed;
mod operation;
mod partitioned;
mod point;
mod progress;
mod progress_state;
mod request;
mod session;
mod start;
mod tool;
mod tools;
mod topology;
mod types;
mod window;
