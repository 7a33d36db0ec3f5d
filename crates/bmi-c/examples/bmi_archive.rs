//! This crate's debug build as an archive, from which `make` links libcauseway_bmi.so for the tests.

use causeway_bmi_c as _;
