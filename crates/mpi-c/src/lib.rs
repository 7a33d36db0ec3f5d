//! MPI's standard ABI.
