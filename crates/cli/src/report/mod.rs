//! Reports: one self-contained HTML file that opens without a network, legible on a phone and in
//! print, plots first, raw rows at the end.
//!
//! [`page`] is the document, [`svg`] the drawing board with its axes, [`plots`] the kinds of plots.

pub(crate) mod page;
pub(crate) mod plots;
pub(crate) mod svg;

pub(crate) use page::Page;
