//! The library as `make install` leaves it.

use std::sync::OnceLock;

use causeway_testkit::installed::Library;

pub(crate) static LIBRARY: Library = Library {
    crate_directory: env!("CARGO_MANIFEST_DIR"),
    scratch_directory: env!("CARGO_TARGET_TMPDIR"),
    name: "bmi-c",
    target: "install-bmi",
    package: "causeway-bmi",
    prefix: OnceLock::new(),
};
