//! Writes `mpi.h`, made from the lists in `abi/`, to the standard output.

#[path = "../abi/header.rs"]
mod header;
#[path = "../abi/table.rs"]
mod table;

fn main() {
    print!("{}", header::write());
}
