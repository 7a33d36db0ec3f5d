//! Whole cards: the program on cards of bytes, with processes that post descriptors and a wire
//! between them.

mod actions;
mod admission;
mod allocation;
mod cut_through;
mod designs;
mod fuzz;
mod lossy;
mod messages;
mod qos;
mod rdma;
mod receive_cut_through;
mod reliable;
mod settings;
mod symbols;
mod world;
