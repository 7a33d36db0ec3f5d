//! This crate's debug build as an archive, from which `make` links libcauseway_fs.so and libcauseway_fs.a for the tests.

use causeway_fs_c as _;
