//! Tests of the core and its parts.
