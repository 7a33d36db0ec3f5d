//! Writes `mpi.h`, made from the lists in `abi/`, to the standard output.

#[path = "../abi/header.rs"]
mod header;
#[path = "../abi/table.rs"]
#[allow(dead_code, reason = "the header needs no modules")]
mod table;

fn main() {
    print!("{}", header::write());
}
