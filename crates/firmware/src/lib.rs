//! The program of the network interface: virtual interfaces, doorbells, DMA, reliability and quality of
//! service as a pure state machine without I/O, clock or pointers.
#![no_std]
#![forbid(unsafe_code)]
