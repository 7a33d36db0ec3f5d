//! Datatypes against type maps as the standard defines them ([`model`]).

mod model;
mod properties;
mod special;
