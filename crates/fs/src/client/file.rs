//! Open files.

use std::sync::Arc;

use causeway_wire::fs::{Body, DistributionHint, Node};

use super::call_error::CallError;
use super::held_state::Held;
use super::nodes::node_of;
use super::open_datafile::Datafiles;
use super::unsynced::{Unsynced, Version};

/// An open file: an object and its node. It is removed with its last name, unless it was opened to be held
/// ([`Client::open_held`](super::Client::open_held)): then the metadata server keeps it as long as this value, or a clone of it, exists.
#[derive(Debug, Clone)]
pub struct File {
    /// The node as last received.
    pub node: Node,
    /// A small file's content as it came with the reply to the opening, for the first read.
    pub(super) opened_content: Option<Vec<u8>>,
    /// The changes that no fsync has made durable.
    pub(super) unsynced: Unsynced,
    pub(super) held: Option<Arc<Held>>,
    /// The datafiles that this process has open.
    pub(super) datafiles: Datafiles,
}

/// How [`Client::create`](super::Client::create) makes a file.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Fail if the name exists.
    pub exclusive: bool,
    /// Permission bits.
    pub mode: u16,
    /// The distribution.
    pub distribution: Option<DistributionHint>,
    /// First content, if small ([`causeway_wire::fs::MAX_STUFFED_BYTES`]).
    pub content: Vec<u8>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            exclusive: false,
            mode: 0o644,
            distribution: None,
            content: Vec::new(),
        }
    }
}

impl File {
    /// Takes the changes that no fsync has made durable, if there are any, for [`File::resume`].
    pub fn unsynced(&mut self) -> Option<Unsynced> {
        let unsynced = std::mem::take(&mut self.unsynced);
        (!unsynced.is_empty()).then_some(unsynced)
    }

    /// Has the next fsync report also whether these changes were lost, which were made by another value of the same file, be it by another client of the same
    /// configuration.
    pub fn resume(&mut self, unsynced: Unsynced) {
        self.unsynced.add(unsynced);
    }

    /// Makes a file from its node.
    pub fn new(node: Node) -> Self {
        Self {
            node,
            opened_content: None,
            unsynced: Unsynced::default(),
            held: None,
            datafiles: Datafiles::default(),
        }
    }

    /// A file that was opened to be read once, with its content if it is small.
    pub(super) fn with_content(mut node: Node) -> Self {
        let opened_content = match &mut node.body {
            Body::Stuffed {
                content,
                moving: false,
                ..
            } => content.take(),
            _ => None,
        };
        Self {
            opened_content,
            ..Self::new(node)
        }
    }

    /// Whether the file is held, so that it stays after its last name is removed.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Takes over the node and the content from a later opening of the same file.
    pub(super) fn take_node(&mut self, opened: Self) {
        self.node = opened.node;
        self.opened_content = opened.opened_content;
    }

    /// Drops the content that came with the opening: another client has changed the file, or may have, since others have had it locked.
    pub fn forget_content(&mut self) {
        self.opened_content = None;
    }

    /// The least length of the datafile at a position of the distribution.
    pub(super) fn least_length(&self, position: usize) -> u64 {
        match &self.node.body {
            Body::Striped { lengths, .. } => lengths.get(position).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Replaces the node by a newer one, which must be this file's.
    pub(super) fn update_node(&mut self, node: Node) -> Result<(), CallError> {
        self.node = node_of(self.node.object, node)?;
        self.opened_content = None;
        Ok(())
    }
}

/// The version of the last truncation of a striped file, and whether it is still to be completed.
pub(super) fn version(node: &Node) -> Option<Version> {
    match node.body {
        Body::Striped {
            version,
            truncating,
            ..
        } => Some((version, truncating)),
        _ => None,
    }
}
