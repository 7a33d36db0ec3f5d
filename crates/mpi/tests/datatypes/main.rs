//! Datatypes against type maps as the standard defines them ([`model`]).

mod external32;
mod model;
mod properties;
mod special;
