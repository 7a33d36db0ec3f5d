//! Conformance suites and fault plans for the rooms of Causeway.
