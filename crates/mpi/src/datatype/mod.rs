//! Datatypes (MPI 5.0 chapter 5).
//!
//! A [`Datatype`] is made by its constructors, of predefined types ([`Basic`]) and of others. Whatever the standard says of a type map
//! is kept in three forms, none of which grows with the counts that it was made from: its bounds; a loop program (`layout`)
//! of where its bytes lie; and its [`Signature`]. `MPI_Type_commit` has nothing left to do.
//!
//! [`Elements`] are what a message is made of: a number of a datatype. They are packed into a stream and unpacked from
//! one, from any byte on, or described as fragments of memory; a [`Cursor`] walks over their contiguous pieces. The memory is that
//! of their *hull* ([`Datatype::hull`]): its first byte is the first byte of data, wherever the buffer's address is.

mod arrays;
mod basic;
mod bounds;
mod construct;
mod cursor;
mod elements;
mod error;
mod external32;
mod handle;
mod layout;
mod signature;

pub use arrays::{DEFAULT_ARGUMENT, Darray, Distribution, Order};
pub use basic::{Basic, Class, Form, Scalar};
pub use cursor::{Cursor, Piece};
pub use elements::Elements;
pub use error::{Error, MOST_LEVELS};
pub use handle::{Combiner, Contents, Datatype, Width};
pub use signature::Signature;
