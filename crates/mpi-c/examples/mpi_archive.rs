//! This crate's debug build as an archive, from which `make` links libmpi_abi.so for the tests.

use causeway_mpi_c as _;
