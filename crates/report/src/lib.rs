//! Reports: measurements as rows, as tables on a terminal, as plots, and as one self-contained HTML file that opens
//! without a network, legible on a phone and in print, plots first, raw rows at the end.
//!
//! Reading order: [`rows`] (a measurement, the same in JSON, tables and plots), [`table`],
//! [`units`] and [`style`] (figures and text for people), [`histogram`], [`machine`] (the machine
//! of the measurements); then [`page`] (the document), `svg` (the drawing board with its axes) and
//! [`plots`] (the kinds of plots).
//!
//! This crate measures nothing, writes no files and prints nothing: it returns text.
#![forbid(unsafe_code)]

pub mod histogram;
pub mod machine;
pub mod page;
pub mod plots;
pub mod rows;
pub mod style;
mod svg;
pub mod table;
pub mod units;
