//! Combining elements: the predefined operations (MPI 5.0 §6.9).
