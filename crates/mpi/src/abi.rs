//! The constants of the standard ABI, made from `abi/constants.txt`. Names are the standard's without `MPI_`; the pair types
//! whose names begin with a digit have `PAIR_` in front.

include!(concat!(env!("OUT_DIR"), "/constants.rs"));
